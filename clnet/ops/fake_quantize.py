"""Numbers rounded to few levels, with the gradient of what was not cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import Bad
from ..values.shapes import axis_of
from .check import of_value, require_elements
from .machinery.function import Face, op, require_floating
from .machinery.pointwise import evaluate
from .machinery.promotion import Operand
from .shape import reshape

if TYPE_CHECKING:
    from ..tensor import Tensor

_TENSOR, _CHANNEL = "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"
_INSIDE = {
    name: of_value(name, "zero_point", "zero_point lies between quant_min and quant_max")
    for name in (_TENSOR, _CHANNEL)
}


def _whole(x: Any, scale: Any, zero: Any) -> Any:
    # NaN becomes the smallest number, as PyTorch's does.
    return e.where(e.isnan(x), -float("inf"), e.rint(x * (1 / scale)) + zero)


def _quantized(x: Any, scale: Any, zero: Any, low: Any, high: Any) -> Any:
    return (e.minimum(e.maximum(_whole(x, scale, zero), low), high) - zero) * scale


def _gradient(g: Any, y: Any, x: Any, scale: Any, zero: Any, low: Any, high: Any) -> Any:
    del y
    whole = _whole(x, scale, zero)
    return e.where(whole < low, 0, e.where(whole > high, 0, g)), 0 * g, 0 * g


def _applied(
    name: str, x: Tensor, scale: Operand, zero: Operand, quant_min: int, quant_max: int
) -> Tensor:
    require_floating(name, x.array)
    if quant_min > quant_max:
        law = "quant_min is not above quant_max"
        raise ArgumentError(name, law, quant_min=quant_min, quant_max=quant_max)
    scale, zero = (y.detach() if hasattr(y, "detach") else y for y in (scale, zero))
    if hasattr(zero, "detach"):
        require_elements(zero, _INSIDE[name], Bad.OUTSIDE, quant_min, quant_max)
    elif not quant_min <= zero <= quant_max:
        law = "zero_point lies between quant_min and quant_max"
        raise ArgumentError(name, law, zero_point=zero, quant_min=quant_min, quant_max=quant_max)
    ends = [float(quant_min), float(quant_max)]
    return evaluate(name, _quantized, [x, scale, zero], ends, promoted=[x], gradient=_gradient)


@op(Face.FUNCTION)
def fake_quantize_per_tensor_affine(
    x: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
) -> Tensor:
    """``(clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``.

    Args:
        x: any shape, floating.
        scale: the distance of neighbours, a number or a tensor of one element.
        zero_point: the whole number that stands for 0, the same.
        quant_min: the least whole number.
        quant_max: the largest.

    Returns:
        The shape and dtype of ``x``; NaN becomes the least. Its gradient is that of ``x`` where
        nothing was cut off, else 0; scale and zero point have none.

    Raises:
        ArgumentError: if ``quant_min`` is above ``quant_max``, or a number lies outside of them.
        DtypeError: if ``x`` is not floating.
        DataDomainError: at the next synchronisation, if a tensor's does.
    """
    return _applied(_TENSOR, x, scale, zero_point, quant_min, quant_max)


@op(Face.FUNCTION)
def fake_quantize_per_channel_affine(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """:func:`fake_quantize_per_tensor_affine`, with ``(n,)`` scales and zero points of an axis.

    Raises:
        ShapeError: if there are not as many as the axis has elements.
    """
    at = axis_of(_CHANNEL, axis, x.shape)
    if scale.shape != zero_point.shape or scale.shape != x.shape[at : at + 1]:
        law = "a scale and a zero point belong to each element of the axis"
        raise ShapeError(_CHANNEL, law, x=x.shape, scale=scale.shape, zero_point=zero_point.shape)
    shape = (-1, *(1,) * (x.ndim - 1 - at))
    scales, zeros = reshape(scale, shape), reshape(zero_point, shape)
    return _applied(_CHANNEL, x, scales, zeros, quant_min, quant_max)
