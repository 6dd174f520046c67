"""``torch.signal.windows``: factors that fade parts of a signal in and out.

All give ``(M,)``, computed in double precision; of one element that is 1. Beside its own settings
each takes, by name but for the first: ``M``, 0 or more; ``sym``, whether both ends are alike (or
else the window follows itself after ``M`` elements); ``dtype``, floating, the default's if None;
``layout``, which says nothing; ``device``; ``requires_grad``. What is out of range is an
``ArgumentError``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..tensor import Tensor, tensor
from ..values.dtypes import DType, default_float
from ..values.record import NamedTuple

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


class _Places(NamedTuple):
    """Places ``i`` of elements in a period ``n``, and whether both ends are alike."""

    i: np.ndarray
    n: float
    symmetric: bool


def _window(shape: Callable[..., np.ndarray]) -> Callable[..., Tensor]:
    """The public function of a window whose elements a function of places gives."""
    op = shape.__name__

    @wraps(shape)
    def made(
        M: int,  # noqa: N803 - PyTorch's name
        *,
        sym: bool = True,
        dtype: DType | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **settings: Any,
    ) -> Tensor:
        kind = dtype or default_float()
        if M < 0 or not kind.is_floating_point:
            raise ArgumentError(op, "M is 0 or more, and dtype floating", M=M, dtype=kind)
        values = shape(_Places(np.arange(float(max(M, 2))), max(M, 2) - sym, sym), **settings)
        values = values if M > 1 else np.ones(M)
        return tensor(values, dtype=kind, device=device, requires_grad=requires_grad)

    first, *common, _ = inspect.signature(made, follow_wrapped=False).parameters.values()
    _, *own = inspect.signature(shape).parameters.values()
    vars(made)["__signature__"] = inspect.Signature([first, *own, *common])
    return made


@_window
def exponential(p: _Places, *, center: float | None = None, tau: float = 1.0) -> np.ndarray:
    """``exp(-|i - center| / tau)``, in the middle if ``center`` is None, as with ``sym``."""
    if tau <= 0 or (p.symmetric and center is not None):
        law = "tau is more than 0, and center None in a symmetric window"
        raise ArgumentError("exponential", law, tau=tau, center=center)
    return np.exp(-np.abs(p.i - (p.n / 2 if center is None else center)) / tau)


@_window
def cosine(p: _Places) -> np.ndarray:
    """``sin(pi (i + 1/2) / (n + 1))``: half a wave."""
    return np.sin(math.pi * (p.i + 0.5) / (p.n + 1))


@_window
def gaussian(p: _Places, *, std: float = 1.0) -> np.ndarray:
    """``exp(-(i - n/2)^2 / (2 std^2))``."""
    if std <= 0:
        raise ArgumentError("gaussian", "std is more than 0", std=std)
    return np.exp(-(((p.i - p.n / 2) / std) ** 2) / 2)


@_window
def kaiser(p: _Places, *, beta: float = 12.0) -> np.ndarray:
    """``I0(beta sqrt(1 - (2 i / n - 1)^2)) / I0(beta)``, of a ``beta`` of 0 or more."""
    if beta < 0:
        raise ArgumentError("kaiser", "beta is 0 or more", beta=beta)
    inside = np.sqrt(np.maximum(0, 1 - (2 * p.i / p.n - 1) ** 2))
    return np.i0(beta * inside) / np.i0(beta)


@_window
def bartlett(p: _Places) -> np.ndarray:
    """``1 - |2 i / n - 1|``: a triangle."""
    return 1 - np.abs(2 * p.i / p.n - 1)


@_window
def general_cosine(p: _Places, *, a: Iterable[float]) -> np.ndarray:
    """``a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n) - ...``."""
    factors = [*a]
    if not factors:
        raise ArgumentError("general_cosine", "there are factors", a=factors)
    return _cosines(p, *factors)


@_window
def general_hamming(p: _Places, *, alpha: float = 0.54) -> np.ndarray:
    """``alpha - (1 - alpha) cos(2 pi i / n)``."""
    return _cosines(p, alpha, 1 - alpha)


@_window
def hamming(p: _Places) -> np.ndarray:
    """Hamming's, which falls to 0.08."""
    return _cosines(p, 0.54, 0.46)


@_window
def hann(p: _Places) -> np.ndarray:
    """Hann's, which falls to 0."""
    return _cosines(p, 0.5, 0.5)


@_window
def blackman(p: _Places) -> np.ndarray:
    """Blackman's, of three cosines."""
    return _cosines(p, 0.42, 0.5, 0.08)


@_window
def nuttall(p: _Places) -> np.ndarray:
    """Nuttall's, of four cosines."""
    return _cosines(p, 0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _cosines(p: _Places, *factors: float) -> np.ndarray:
    angle = 2 * math.pi * p.i / p.n
    waves = [(-1) ** k * x * np.cos(k * angle) for k, x in enumerate(factors)]
    return np.sum(waves, axis=0)
