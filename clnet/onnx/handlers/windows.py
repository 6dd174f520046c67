"""Windows of signals and random numbers: what is made of few settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import ops
from ... import random as draws
from ...creation import arange
from ...tensor import Tensor
from ...values.dtypes import DType, float32
from ...values.generator import Generator
from ..elements import by_number
from ..registry import Host, handler


def _window(size: Host, terms: Sequence[float], periodic: int, number: int, device: Any) -> Tensor:
    """``sum_k (-1)^k terms[k] cos(2 pi k i / n)``."""
    count = int(size)
    whole = count if periodic else count - 1
    i = arange(count, dtype=float32, device=device)
    y = ops.full_like(i, terms[0])
    for k, term in enumerate(terms[1:], 1):
        y = y + ops.cos(i * (2 * math.pi * k / whole)) * ((-1) ** k * term)
    return y.to(by_number(number).dtype)


@handler("HannWindow", since=17)
def hann_window(
    size: Host, *, periodic: int = 1, output_datatype: int = 1, device: Any = None
) -> Tensor:
    """Hann's window."""
    return _window(size, (0.5, 0.5), periodic, output_datatype, device)


@handler("HammingWindow", since=17)
def hamming_window(
    size: Host, *, periodic: int = 1, output_datatype: int = 1, device: Any = None
) -> Tensor:
    """Hamming's window, with his numbers as fractions of 46."""
    return _window(size, (25 / 46, 21 / 46), periodic, output_datatype, device)


@handler("BlackmanWindow", since=17)
def blackman_window(
    size: Host, *, periodic: int = 1, output_datatype: int = 1, device: Any = None
) -> Tensor:
    """Blackman's window."""
    return _window(size, (0.42, 0.5, 0.08), periodic, output_datatype, device)


def _generator(seed: float | None) -> Generator | None:
    """One for a node that has a seed; None: the program's."""
    return None if seed is None else Generator().manual_seed(int(seed))


def _type(number: int | None, like: Tensor | None = None) -> DType:
    dtype = by_number(number).dtype if number else None
    if dtype is None:
        dtype = float32 if like is None else like.dtype
    return dtype


def _uniform(
    shape: Sequence[int], low: float, high: float, dtype: DType, seed: float | None, device: Any
) -> Tensor:
    given = draws.rand(*shape, generator=_generator(seed), dtype=float32, device=device)
    return (given * (high - low) + low).to(dtype)


def _normal(
    shape: Sequence[int], mean: float, scale: float, dtype: DType, seed: float | None, device: Any
) -> Tensor:
    given = draws.randn(*shape, generator=_generator(seed), dtype=float32, device=device)
    return (given * scale + mean).to(dtype)


@handler("RandomUniform")
def random_uniform(
    *,
    shape: Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: int = 1,
    seed: float | None = None,
    device: Any = None,
) -> Tensor:
    """Numbers drawn evenly between two bounds."""
    return _uniform(shape, low, high, _type(dtype), seed, device)


@handler("RandomUniformLike")
def random_uniform_like(
    x: Tensor,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: int | None = None,
    seed: float | None = None,
) -> Tensor:
    """Numbers drawn evenly between two bounds, as many as ``x`` has."""
    return _uniform(x.shape, low, high, _type(dtype, x), seed, x.device)


@handler("RandomNormal")
def random_normal(
    *,
    shape: Sequence[int],
    mean: float = 0.0,
    scale: float = 1.0,
    dtype: int = 1,
    seed: float | None = None,
    device: Any = None,
) -> Tensor:
    """Numbers drawn from a normal distribution."""
    return _normal(shape, mean, scale, _type(dtype), seed, device)


@handler("RandomNormalLike")
def random_normal_like(
    x: Tensor,
    *,
    mean: float = 0.0,
    scale: float = 1.0,
    dtype: int | None = None,
    seed: float | None = None,
) -> Tensor:
    """Numbers drawn from a normal distribution, as many as ``x`` has."""
    return _normal(x.shape, mean, scale, _type(dtype, x), seed, x.device)


@handler("Bernoulli", since=15)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """1 with the probabilities given, else 0."""
    return ops.bernoulli(x, generator=_generator(seed)).to(_type(dtype, x))


@handler("Multinomial", since=7)
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Classes drawn by their unnormalised logarithms."""
    weights = ops.softmax(x.to(float32), -1)
    drawn = ops.multinomial(weights, sample_size, True, generator=_generator(seed))
    return drawn.to(by_number(dtype).dtype or drawn.dtype)
