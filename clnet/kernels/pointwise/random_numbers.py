"""Philox4x32-10: random numbers as a function of a seed and a counter, and dropout.

Counter ``offset + i`` under key ``seed`` gives four words of 32 bits. Kinds that take 32 bits
(float32 and narrower uniforms and normals, Bernoulli, dropout) make elements ``4 i`` to ``4 i + 3``
of them; kinds that take 64 (float64, integers) make elements ``2 i`` and ``2 i + 1``.

All functions write a dense ``y`` by the key ``seed``, in ``[0, 2**64)``, from the counter
``offset`` on, and give their launches: none for no elements.
"""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...errors import ArgumentError
from ...values.shapes import ceil_div
from ..grid import items
from ..kernel import Arguments, Kernel, by_name, joined

Cell = int | HostScalar
"""A whole number, or a cell that holds one when the kernel is enqueued."""

_WORDS = 4
_PHILOX_OPERATIONS = 80


_BITS = Kernel("random_bits", "pointwise/random_numbers.mako")
_UNIFORM = Kernel("random_uniform", "pointwise/random_numbers.mako")
_NORMAL = Kernel("random_normal", "pointwise/random_numbers.mako")
_BERNOULLI = Kernel("random_bernoulli", "pointwise/random_numbers.mako")
_INTEGER = Kernel("random_integer", "pointwise/random_numbers.mako")
_DROPOUT = Kernel("dropout", "pointwise/random_numbers.mako")


def random_bits(target: Target, y: Array, *, seed: Cell, offset: Cell) -> list[Launch]:
    """The generator's words as they come, as int32."""
    return _launches(target, _BITS, {}, y, by_name("seed offset", seed, offset), per_item=_WORDS)


def uniform(
    target: Target, y: Array, *, seed: Cell, offset: Cell, low: float = 0.0, high: float = 1.0
) -> list[Launch]:
    """Uniform numbers in ``[low, high)``, of 24 random bits (53 for float64); ``y`` is floating."""
    real = _real(y)
    args = by_name("seed offset low span high", seed, offset, low, high - low, high)
    params = {"ctype": y.dtype.ctype, "real": real}
    return _launches(target, _UNIFORM, params, y, args, per_item=_per_item(real))


def normal(
    target: Target, y: Array, *, seed: Cell, offset: Cell, mean: float = 0.0, std: float = 1.0
) -> list[Launch]:
    """Normally distributed numbers of a mean and a standard deviation, by Box and Muller."""
    real = _real(y)
    params = {"ctype": y.dtype.ctype, "real": real}
    args = by_name("seed offset mean std", seed, offset, mean, std)
    return _launches(target, _NORMAL, params, y, args, per_item=_per_item(real))


def bernoulli(target: Target, y: Array, *, seed: Cell, offset: Cell, p: float) -> list[Launch]:
    """1 with probability ``p``, in ``[0, 1]``, else 0; ``y`` has any dtype."""
    args = by_name("seed offset p", seed, offset, p)
    return _launches(target, _BERNOULLI, {"ctype": y.dtype.ctype}, y, args, per_item=_WORDS)


def integers(
    target: Target, y: Array, *, seed: Cell, offset: Cell, low: int, high: int
) -> list[Launch]:
    """Whole numbers in ``[low, high)``; none is likelier by more than ``(high - low) / 2**64``.

    ``y`` has any dtype that holds them.

    Raises:
        ArgumentError: if the range is empty or has ``2**63`` values or more.
    """
    if not 0 < high - low < 2**63:
        raise ArgumentError("randint", "high - low lies in [1, 2**63)", low=low, high=high)
    args = by_name("seed offset low span", seed, offset, low, high - low)
    params = {"ctype": y.dtype.ctype, "narrow": high - low < 2**32}
    return _launches(target, _INTEGER, params, y, args, per_item=_WORDS // 2)


def dropout(
    target: Target, y: Array, x: Array, *, seed: Cell, offset: Cell, p: float
) -> list[Launch]:
    """``y = 0`` with probability ``p``, in ``[0, 1]``, else ``x / (1 - p)``; both are floating.

    The same seed and offset drop the same elements, so that backward is this kernel again on the
    gradient, and no mask is stored.
    """
    scale = 1 / (1 - p) if p < 1 else 0.0
    args = by_name("x seed offset p scale", x, seed, offset, p, scale)
    moved = y.nbytes + x.nbytes
    params = {"ctype": y.dtype.ctype}
    return _launches(target, _DROPOUT, params, y, args, per_item=_WORDS, moved=moved)


def _real(y: Array) -> str:
    return "double" if y.dtype.compute == "float64" else "float"


def _per_item(real: str) -> int:
    return _WORDS // 2 if real == "double" else _WORDS


def _launches(
    target: Target,
    kernel: Kernel,
    params: dict[str, Any],
    y: Array,
    args: Arguments,
    *,
    per_item: int,
    moved: int | None = None,
) -> list[Launch]:
    if y.size == 0:
        return []
    drawn = ceil_div(y.size, per_item)
    return [
        kernel.launch(
            params,
            joined(by_name("n y", y.size, y), args),
            **items(target, drawn),
            flops=_PHILOX_OPERATIONS * drawn + 2 * y.size,
            bytes=y.nbytes if moved is None else moved,
        )
    ]
