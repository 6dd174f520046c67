"""Ops that work element by element: arithmetic, comparisons, bits, choices."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ... import ops
from ...errors import ShapeError
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import Kind, bool_
from ..elements import Carried
from ..registry import handler
from .text import is_text

Binary = Callable[[Tensor, Tensor], Tensor]


def aligned(x: Tensor, other: Tensor, *, broadcast: int, axis: int | None) -> Tensor:
    """The second operand as opset 6 and older broadcast it: from an axis of the first on."""
    if not broadcast or axis is None:
        return other
    behind = x.ndim - (axis % max(x.ndim, 1)) - other.ndim
    if behind < 0:
        raise ShapeError("onnx", "the second operand fits behind the axis", axis=axis)
    return other.reshape(other.shape + (1,) * behind)


def _binary(name: str, compute: Binary) -> Binary:
    def old(x: Tensor, other: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
        return compute(x, aligned(x, other, broadcast=broadcast, axis=axis))

    def new(x: Tensor, other: Tensor) -> Tensor:
        return compute(x, other)

    def with_inputs(
        x: Tensor,
        other: Tensor,
        *,
        broadcast: int = 0,
        axis: int | None = None,
        consumed_inputs: Any = None,
    ) -> Tensor:
        return old(x, other, broadcast=broadcast, axis=axis)

    handler(name)(with_inputs)
    return handler(name, since=7)(new)


def quotient(x: Tensor, other: Tensor) -> Tensor:
    """The quotient; of integers without its fraction, towards zero."""
    if x.dtype.kind is Kind.INTEGER:
        return ops.div(x, other, rounding_mode="trunc")
    return ops.div(x, other)


def equal(x: Any, other: Any) -> Any:
    """Where two operands agree, texts too."""
    return np.equal(x, other).astype(np.bool_) if is_text(x) else ops.eq(x, other)


_COMPUTED: dict[str, Binary] = {
    "Add": ops.add,
    "Sub": ops.sub,
    "Mul": ops.mul,
    "Div": quotient,
    "And": ops.logical_and,
    "Or": ops.logical_or,
    "Xor": ops.ne,
    "Equal": equal,
    "Less": ops.lt,
    "Greater": ops.gt,
    "LessOrEqual": ops.le,
    "GreaterOrEqual": ops.ge,
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
}
# The handlers of newer opsets, for those who look for them in a model.
BINARY = {name: _binary(name, compute) for name, compute in _COMPUTED.items()}


def _unary(name: str, compute: Callable[[Tensor], Tensor]) -> None:
    def new(x: Tensor) -> Tensor:
        return compute(x)

    def old(x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
        return compute(x)

    handler(name)(old)
    handler(name, since=6)(new)


_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs,
    "Neg": ops.neg,
    "Ceil": ops.ceil,
    "Floor": ops.floor,
    "Round": ops.round,
    "Reciprocal": ops.reciprocal,
    "Sqrt": ops.sqrt,
    "Exp": ops.exp,
    "Log": ops.log,
    "Sin": ops.sin,
    "Cos": ops.cos,
    "Tan": ops.tan,
    "Asin": ops.asin,
    "Acos": ops.acos,
    "Atan": ops.atan,
    "Sinh": ops.sinh,
    "Cosh": ops.cosh,
    "Asinh": ops.asinh,
    "Acosh": ops.acosh,
    "Atanh": ops.atanh,
    "Erf": ops.erf,
    "Sign": ops.sign,
    "Not": ops.logical_not,
    "BitwiseNot": ops.bitwise_not,
    "IsNaN": ops.isnan,
}

for _name, _function in _UNARY.items():
    _unary(_name, _function)


@handler("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Where elements are infinite, of the signs asked for."""
    found = ops.isinf(x)
    if not detect_negative:
        found = ops.logical_and(found, ops.gt(x, 0))
    if not detect_positive:
        found = ops.logical_and(found, ops.lt(x, 0))
    return found


@handler("Pow")
def power(x: Tensor, exponent: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
    """``x`` to the power, in the type of ``x``."""
    exponent = aligned(x, exponent, broadcast=broadcast, axis=axis)
    return ops.pow(x, exponent).to(x.dtype)


@handler("Mod")
def modulo(x: Tensor, other: Tensor, *, fmod: int = 0) -> Tensor:
    """The rest of a division: with the divisor's sign, or with that of ``x``."""
    rest: Any = ops.fmod if fmod else ops.remainder
    return rest(x, other)


@handler("BitShift")
def bit_shift(x: Tensor, other: Tensor, *, direction: str) -> Tensor:
    """Bits moved to the left, or to the right."""
    if direction == "LEFT":
        return ops.bitwise_left_shift(x, other)
    return ops.bitwise_right_shift(x, other)


@handler("Max")
def maximum(*tensors: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The largest element of all operands."""
    return reduce(ops.maximum, tensors)


@handler("Min")
def minimum(*tensors: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The smallest element of all operands."""
    return reduce(ops.minimum, tensors)


@handler("Sum")
def total(*tensors: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The sum of all operands."""
    return reduce(ops.add, tensors)


@handler("Mean")
def mean(*tensors: Tensor, consumed_inputs: Any = None) -> Tensor:
    """The mean of all operands."""
    return ops.div(total(*tensors), len(tensors))


@handler("Where")
def where(condition: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """``x`` where the condition holds, else ``other``."""
    return ops.where(condition, x, other)


@handler("Clip")
def clip_old(
    x: Tensor,
    *,
    min_: float | None = None,
    max_: float | None = None,
    consumed_inputs: Any = None,
) -> Tensor:
    """Elements kept within bounds."""
    return x if min_ is None and max_ is None else ops.clamp(x, min_, max_)


@handler("Clip", since=11)
def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Elements kept within bounds; the upper one holds where they are the wrong way round.

    Between 0 and 6 it is what ReLU6 is exported as, by PyTorch too, and has its gradient: 0 at 0,
    where many elements lie behind another ReLU6.
    """
    bounds = [_number(bound) for bound in (low, high)]
    if bounds == [0, 6] and x.dtype.is_floating_point:
        return functional.relu6(x)
    if not any(isinstance(bound, Tensor) for bound in bounds):
        return x if bounds == [None, None] else ops.clamp(x, *bounds)
    if low is not None:
        x = ops.maximum(x, bounds[0])
    return x if high is None else ops.minimum(x, bounds[1])


def _number(bound: Any) -> Any:
    """A bound as Python's number, if the host knows it."""
    if isinstance(bound, Carried):
        return bound.tensor
    if not isinstance(bound, np.ndarray):
        return bound
    return int(bound.item()) if bound.dtype.kind in "iub" else float(bound.item())


@handler("Identity")
def identity(x: Any) -> Any:
    """The operand."""
    return x


@handler("Xor", since=7)
def exclusive_or(x: Tensor, other: Tensor) -> Tensor:
    """Where one of two conditions holds, not both."""
    return ops.ne(x.to(bool_), other.to(bool_))
