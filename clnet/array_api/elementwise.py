"""Functions of each element, by the standard's names."""

# ruff: noqa: A002 - the standard's names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..ops.machinery.function import PUBLIC_OPS
from ..ops.shape import to_dtype
from ..tensor import Tensor
from .information import result_type

_ONE = """
    abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf
    isnan log log1p log2 log10 logical_not negative positive real round signbit sin sinh square
    sqrt tan tanh trunc
""".split()
_TWO = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or
    logical_xor maximum minimum multiply not_equal pow remainder subtract
""".split()


def _of_one(name: str, public: str = "") -> Callable[[Tensor], Tensor]:
    function = PUBLIC_OPS[public or name][0]

    def of_one(x: Tensor, /) -> Tensor:
        return function(x)

    of_one.__name__ = of_one.__qualname__ = name
    of_one.__doc__ = f"``clnet.{public or name}``."
    return of_one


def promoted(name: str, *given: Any) -> list[Any]:
    """Arrays of different dtypes in the one they promote to, with and without axes alike."""
    kinds = {x.dtype for x in given if isinstance(x, Tensor)}
    if len(kinds) < 2:
        return list(given)
    kind = result_type(*given)
    return [to_dtype(x, kind) if isinstance(x, Tensor) else x for x in given]


def _of_two(name: str, public: str = "") -> Callable[[Any, Any], Tensor]:
    function = PUBLIC_OPS[public or name][0]

    def of_two(x1: Any, x2: Any, /) -> Tensor:
        return function(*promoted(name, x1, x2))

    of_two.__name__ = of_two.__qualname__ = name
    of_two.__doc__ = f"``clnet.{public or name}``, of arrays in the dtype that both promote to."
    return of_two


globals().update({name: _of_one(name) for name in _ONE})
globals().update({name: _of_two(name) for name in _TWO})
bitwise_invert = _of_one("bitwise_invert", "bitwise_not")
equal = _of_two("equal", "eq")


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1, NaN of NaN; of complex numbers those of length 1 in their direction."""
    if x.dtype.is_complex:
        return ops.sgn(x)
    return ops.where(ops.isnan(x), x, ops.sign(x)) if x.dtype.is_floating_point else ops.sign(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements between two bounds; None for no bound."""
    kept = x.dtype
    y = x if min is None else ops.where(_below(x, min), min, x)
    y = y if max is None else ops.where(_below(max, y), max, y)
    y = y if y is not x else x.clone()
    return to_dtype(y, kept)


def _below(a: Any, b: Any) -> Tensor:
    return b > a if isinstance(b, Tensor) else a < b


__all__ = ["bitwise_invert", "clip", "equal", "sign", *_ONE, *_TWO]  # pyrefly: ignore[unresolvable-dunder-all] - made above
