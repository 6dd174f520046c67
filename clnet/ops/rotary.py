"""Rotary positions: pairs of features as points of planes, turned by angles (Su et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..array import Array
from ..device import Launch, Target
from ..expr import Input
from ..kernels.pointwise import pointwise
from ..values.dtypes import from_name
from .join import cat
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply

if TYPE_CHECKING:
    from ..tensor import Tensor

_X1, _X2, _COS1, _COS2, _SIN1, _SIN2 = map(Input, range(6))


class Rotary(Function):
    """``x * cos + cat([-second half of x, first half], -1) * sin`` in one launch.

    Attributes:
        back: the transposed of that, which gives the gradient:
            ``x * cos + cat([second half of x * sin, -first half of it], -1)``.
    """

    sixteen_bit = False
    repeats = True

    back: bool = False

    @property
    def name(self) -> str:
        return "rotary_backward" if self.back else "rotary"

    def infer(self, x: Array, cos: Array, sin: Array) -> tuple[Array, ...]:
        """A dense output of ``x``'s shape, to which the other two broadcast."""
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Both halves, which one item computes."""
        halves = [half for array in inputs for half in _halves(array)]
        first, second = _X1 * _COS1, _X2 * _COS2
        if self.back:
            exprs = (first + _X2 * _SIN2, second - _X1 * _SIN1)
        else:
            exprs = (first - _X2 * _SIN1, second + _X1 * _SIN2)
        compute = from_name(outputs[0].dtype.compute)
        return pointwise(target, _halves(outputs[0]), halves, exprs, compute=compute)

    def decompose(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """In halves and products."""
        if self.back:
            first, second = (x * sin).chunk(2, -1)
            return x * cos + cat([second, -first], -1)
        return x * cos + _turned(x) * sin

    def saves(self, needs: Needs) -> tuple[list[int], list[int]]:
        """Angles for the gradient to ``x``, and ``x`` for theirs."""
        return [0] * (needs[1] or needs[2]) + [1, 2] * needs[0], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Turned the other way; of the angles sums over what they were broadcast to."""
        (g,) = grads
        gx = gcos = gsin = None
        if needs[0]:
            gx = apply(Rotary(not self.back), g, saved.inputs[1], saved.inputs[2])
        if needs[1]:
            gcos = (g * saved.inputs[0]).sum_to_size(saved.input_specs[1][0])
        if needs[2]:
            x = saved.inputs[0]
            product = _turned(g) * x if self.back else g * _turned(x)
            gsin = product.sum_to_size(saved.input_specs[2][0])
        return gx, gcos, gsin


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Features ``i`` and ``i + n / 2`` as a point of a plane, turned by an angle.

    Args:
        x: ``(..., n)``, floating, n even.
        cos: broadcasts to ``x``'s shape, with ``n`` features.
        sin: the same.

    Returns:
        ``x``'s shape; of other dtypes than one for all, what products and sums of them have.
    """
    if x.dtype is cos.dtype is sin.dtype:
        return apply(Rotary(), x, cos, sin)
    return x * cos + _turned(x) * sin


def _halves(x: Array) -> tuple[Array, Array]:
    """The first and the second half of the last axis, as views."""
    half = x.shape[-1] // 2
    shape = (*x.shape[:-1], half)
    return (
        x.view(shape, x.strides, x.offset),
        x.view(shape, x.strides, x.offset + half * x.strides[-1]),
    )


def _turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return cat([-second, first], -1)
