"""Cases beside layers of networks: precisions, random numbers, recurrence, transforms, matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fft as fourier
from .. import ops
from ..creation import arange
from ..random import rand
from ..tensor import Tensor
from ..values.dtypes import float16, float32, float64
from ..values.generator import Generator
from . import reference as ref
from .case import Case, values
from .draw import between, normal


def precisions() -> list[Case]:
    """Numbers of 16 and of 64 bits."""
    return [
        values(
            "half precision",
            lambda x: x.to(float16).to(float32),
            lambda x: x.astype(np.float16).astype(np.float64),
            between(-3, 3, (1013,)),
            family="pointwise",
            tolerance=0,
        ),
        Case(
            "double precision",
            "pointwise",
            lambda x: ops.exp(x) * x + 1,
            lambda x: np.exp(x) * x + 1,
            normal((301,), dtype=np.float64),
            lambda c, x: (c * np.exp(x) * (x + 1),),
            tolerance=1e-13,
            needs="float64",
        ),
        values(
            "to doubles and back",
            lambda x: (x.to(float64) * 3 + 1).to(float32),
            lambda x: x * 3 + 1,
            normal((997,)),
            family="pointwise",
            tolerance=1e-7,
            needs="float64",
        ),
    ]


def random() -> list[Case]:
    """Random numbers are those of Philox."""

    def drawn(x: Tensor) -> Tensor:
        generator = Generator(device=x.device).manual_seed(11)
        return x * 0 + rand(x.shape, generator=generator, device=x.device)

    def expected(x: np.ndarray) -> np.ndarray:
        words = ref.philox(11, 0, -(-x.size // 4))[: x.size]
        return ((words >> 8) * 2.0**-24).reshape(x.shape)

    return [
        values("uniform numbers", drawn, expected, normal((1021,)), family="random", compiled=False)
    ]


def recurrent() -> list[Case]:
    """Cells of recurrent networks."""
    return [
        Case(
            "LSTM",
            "recurrent",
            lambda x, h, c, w, u: ops.lstm_cell(x, (h, c), w, u)[0],
            ref.lstm_step,
            normal((3, 4), (3, 5), (3, 5), (20, 4), (20, 5)),
        ),
        Case(
            "GRU",
            "recurrent",
            ops.gru_cell,
            ref.gru_step,
            normal((3, 4), (3, 5), (15, 4), (15, 5)),
        ),
    ]


def transforms() -> list[Case]:
    """Fourier transforms: of lengths with small factors, and of a prime."""

    def of(length: int) -> Case:
        def spectrum(x: np.ndarray) -> np.ndarray:
            y = np.fft.fft(x)
            return np.concatenate([y.real, y.imag], 1)

        def compute(x: Tensor) -> Tensor:
            y = fourier.fft(x)
            return ops.cat([ops.real(y), ops.imag(y)], 1)

        draw = normal((4, length))
        return Case(f"transform of {length}", "transforms", compute, spectrum, draw)

    return [of(60), of(37)]


def factorisations() -> list[Case]:
    """Matrices factored and inverted."""

    def definite(x: Any) -> Any:
        return x @ x.swapaxes(-1, -2) + 7 * np.eye(7)

    def lower(x: Tensor) -> Tensor:
        rows = arange(7, device=x.device)
        eye = ops.eq(rows[:, None], rows).to(x.dtype)
        return ops.cholesky(x @ x.mT + eye * 7)

    return [
        Case(
            "lower factor",
            "factorisations",
            lower,
            lambda x: np.linalg.cholesky(definite(x)),
            normal((2, 7, 7)),
            tolerance=1e-4,
        ),
        Case(
            "inverse",
            "factorisations",
            lambda x: ops.inv(ops.matmul(x, x.mT) + 1),
            lambda x: np.linalg.inv(x @ x.T + 1),
            lambda rng: [(rng.standard_normal((6, 6)) + 4 * np.eye(6)).astype(np.float32)],
            tolerance=3e-3,
        ),
    ]
