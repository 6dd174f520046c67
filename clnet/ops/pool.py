"""Pooling of planes: maxima, means over windows, means over nearly equal parts."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import gt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, DtypeError, ShapeError
from ..kernels import pool as kernels
from ..kernels.grid import in_groups
from ..kernels.pool import Window, Window3, avg_pool_gradient, window_max
from ..values import mode
from ..values.dtypes import bool_, int32, int64
from ..values.shapes import Shape, pair
from .arithmetic import maximum, where
from .index import gather_within
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
)
from .shape import contiguous, reshape, squeeze, unsqueeze
from .whole_windows import whole_means

if TYPE_CHECKING:
    from ..tensor import Tensor
    from ..values.dtypes import DType

Pair = int | Sequence[int]


class MaxPool(Function):
    """Maxima over windows, and where in its plane each was unless ``index_dtype`` is None."""

    sixteen_bit = False
    repeats = True

    window: Window
    size: Shape
    index_dtype: DType | None

    differentiable = (0,)
    saved_outputs = (1,)

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Values, then positions."""
        require_floating("max_pool2d", x)
        shape = (*x.shape[:-2], *self.size)
        dtypes = (x.dtype,) if self.index_dtype is None else (x.dtype, self.index_dtype)
        return tuple(Array.abstract(shape, dtype, x.device) for dtype in dtypes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        index = None if self.index_dtype is None else outputs[1]
        return kernels.max_pool(target, outputs[0], inputs[0], window=self.window, index=index)

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where an item finds one maximum, alone."""
        return in_groups(target.traits)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Each gradient goes to the position of its maximum."""
        function = MaxPoolBackward(self.window, saved.input_specs[0][0])
        return (apply(function, contiguous(grads[0]), saved.outputs[1]),)


class MaxPoolBackward(Function):
    """Gradients added up at the positions of the kernels."""

    sixteen_bit = False
    repeats = True

    window: Window
    shape: Shape
    saved_inputs = (1,)

    def infer(self, gy: Array, index: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.max_pool_gradient(target, outputs[0], *inputs, window=self.window)

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where an item adds up the gradient of one element, alone."""
        return in_groups(target.traits)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What lies at the positions."""
        index = saved.inputs[1]
        h, w = self.shape[-2:]
        flat = reshape(grads[0], (*self.shape[:-2], h * w))
        positions = reshape(index, (*index.shape[:-2], index.shape[-2] * index.shape[-1]))
        return reshape(gather_within(flat, -1, positions), index.shape), None


class WindowMax(Function):
    """Where in its volume the maximum of each window (or, without one, each part) is.

    -1 where none of a window's elements lies within the volume.
    """

    repeats = True

    op_name: str
    size: Shape
    window: Window3 | None

    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Dense positions."""
        if x.dtype is bool_ or x.dtype.is_complex:
            law = "operands are real numbers, and not booleans"
            raise DtypeError(self.op_name, law, dtype=x.dtype, remedy="Convert it with .int()")
        return (Array.abstract((*x.shape[:-3], *self.size), int64, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return window_max(target, outputs[0], inputs[0], self.window)


class AvgPool(Function):
    """Means over windows."""

    sixteen_bit = False
    repeats = True

    window: Window
    size: Shape
    include_pad: bool
    divisor: int

    def infer(self, x: Array) -> tuple[Array, ...]:
        require_floating("avg_pool2d", x)
        return (Array.abstract((*x.shape[:-2], *self.size), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.avg_pool(
            target,
            outputs[0],
            inputs[0],
            window=self.window,
            include_pad=self.include_pad,
            divisor=self.divisor,
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Each gradient is shared out over its window."""
        function = AvgPoolBackward(
            self.window, saved.input_specs[0][0][-2:], self.include_pad, self.divisor
        )
        return (apply(function, contiguous(grads[0])),)


class AvgPoolBackward(Function):
    """The transpose of :class:`AvgPool`; ``size`` is of the planes that were pooled."""

    sixteen_bit = False
    repeats = True

    window: Window
    size: Shape
    include_pad: bool
    divisor: int

    def infer(self, gy: Array) -> tuple[Array, ...]:
        return (Array.abstract((*gy.shape[:-2], *self.size), gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return avg_pool_gradient(
            target,
            outputs[0],
            inputs[0],
            window=self.window,
            include_pad=self.include_pad,
            divisor=self.divisor,
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The means again: the op is linear."""
        size = saved.input_specs[0][0][-2:]
        function = AvgPool(self.window, size, self.include_pad, self.divisor)
        return (apply(function, contiguous(grads[0])),)


class AdaptiveAvgPool(Function):
    """Means over ``size`` nearly equal parts."""

    sixteen_bit = False
    repeats = True

    size: Shape

    def infer(self, x: Array) -> tuple[Array, ...]:
        require_floating("adaptive_avg_pool2d", x)
        return (Array.abstract((*x.shape[:-2], *self.size), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.adaptive_avg_pool(target, outputs[0], inputs[0])

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Each gradient is shared out over its part."""
        function = AdaptiveAvgPoolBackward(saved.input_specs[0][0][-2:])
        return (apply(function, contiguous(grads[0])),)


class AdaptiveAvgPoolBackward(Function):
    """The transpose of :class:`AdaptiveAvgPool`; ``size`` is of the planes that were pooled."""

    sixteen_bit = False
    repeats = True

    size: Shape

    def infer(self, gy: Array) -> tuple[Array, ...]:
        return (Array.abstract((*gy.shape[:-2], *self.size), gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.adaptive_avg_pool_gradient(target, outputs[0], inputs[0])

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The means again: the op is linear."""
        function = AdaptiveAvgPool(saved.input_specs[0][0][-2:])
        return (apply(function, contiguous(grads[0])),)


@op(Face.FUNCTION | Face.FUNCTIONAL)
def max_pool2d(
    x: Tensor,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maxima over windows; of equal elements the first, NaN above all.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, of real numbers.
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: steps from window to window; None: the window's size.
        padding: on every side, with the least number; at most half of ``kernel_size``.
        dilation: steps within a window.
        ceil_mode: windows that begin inside the padded image and reach beyond it count too.
        return_indices: also return where in its plane each maximum was.

    Returns:
        ``(n, c, oh, ow)`` with ``oh = (h + 2 ph - dh (kh - 1) - 1) // sh + 1``; with
        ``return_indices`` also the positions, int64, of that shape.

    Raises:
        ShapeError: if ``x`` has no planes, or ``oh`` or ``ow`` is below 1.
        ArgumentError: if a size is below 1, or the padding above half the window.
    """
    window = plane_window("max_pool2d", kernel_size, stride, padding, dilation)
    return max_pool("max_pool2d", x, window, ceil_mode=ceil_mode, return_indices=return_indices)


def max_pool(name: str, x: Tensor, window: Window, *, ceil_mode: bool, return_indices: bool) -> Any:
    """What :func:`max_pool2d` gives, for an op of another name."""
    size = _pooled_size(name, x.shape, window, ceil_mode=ceil_mode)
    kh, kw, sh, sw, ph, pw, dh, dw = window
    hollow = dh > x.shape[-2] or dw > x.shape[-1]  # a window may lie in the padding alone
    if hollow or not x.dtype.is_floating_point:
        across = Window3((1, kh, kw), (1, sh, sw), (0, ph, pw), (1, dh, dw))
        result = picked(unsqueeze(x, -3), WindowMax(name, (1, *size), across))
        values, index = (squeeze(part, -3) for part in result)
        return (values, index) if return_indices else values
    recorded = mode.current().grad and x.requires_grad
    index_dtype = int64 if return_indices else int32 if recorded else None
    result = apply(MaxPool(window, size, index_dtype), contiguous(x))
    return result[0] if recorded and not return_indices else result


def picked(x: Tensor, function: WindowMax) -> tuple[Tensor, Tensor]:
    """The elements at the positions a function finds, and those: the gradient is a gather's.

    Of a window without elements, which steps across the volume, it is the dtype's least number.
    """
    x = contiguous(x)
    index = apply(function, x.detach())
    *lead, d, h, w = x.shape
    flat = reshape(index, (*lead, prod(function.size)))
    hollow = function.window is not None and any(map(gt, function.window.dilation, (d, h, w)))
    within = maximum(flat, 0) if hollow else flat
    values = reshape(gather_within(reshape(x, (*lead, d * h * w)), -1, within), index.shape)
    if hollow:
        least = float("-inf") if x.dtype.is_floating_point else int(np.iinfo(x.dtype.numpy).min)
        values = where(index < 0, least, values)
    return values, index


@op(Face.FUNCTION | Face.FUNCTIONAL)
def avg_pool2d(
    x: Tensor,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means over windows.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, floating.
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: steps from window to window; None: the window's size.
        padding: zeros on every side, at most half the window.
        ceil_mode: windows that begin inside the padded image and reach beyond it count too.
        count_include_pad: whether the zeros count as elements.
        divisor_override: what sums are divided by instead of the number of elements.

    Returns:
        ``(n, c, oh, ow)`` with ``oh = (h + 2 ph - kh) // sh + 1``.

    Raises:
        ShapeError: if ``x`` has no planes, or ``oh`` or ``ow`` is below 1.
        ArgumentError: if a size is below 1, the padding above half the window, or the divisor 0.
    """
    if divisor_override == 0:
        raise ArgumentError("avg_pool2d", "the divisor is not 0", divisor_override=0)
    window = plane_window("avg_pool2d", kernel_size, stride, padding, 1)
    return avg_pool(
        "avg_pool2d", x, window, ceil_mode=ceil_mode, include_pad=count_include_pad,
        divisor=divisor_override or 0,
    )  # fmt: skip


def avg_pool(
    name: str,
    x: Tensor,
    window: Window,
    *,
    ceil_mode: bool = False,
    include_pad: bool = True,
    divisor: int = 0,
) -> Tensor:
    """What :func:`avg_pool2d` gives, for an op of another name."""
    size = _pooled_size(name, x.shape, window, ceil_mode=ceil_mode)
    if x.dtype is int64:  # of narrower ones sums would leave the range, and PyTorch refuses them
        along = ((window.kh, window.sh, window.ph), (window.kw, window.sw, window.pw))
        return whole_means(x, along, size, include_pad=include_pad, divisor=divisor)
    return apply(AvgPool(window, size, include_pad, divisor), contiguous(x))


@op(Face.FUNCTION | Face.FUNCTIONAL)
def adaptive_avg_pool2d(x: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Means over ``oh x ow`` nearly equal parts of each plane.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, floating.
        output_size: an int or a pair; None keeps a size.

    Returns:
        ``(n, c, oh, ow)``; part ``i`` takes rows ``floor(i h / oh)`` to ``ceil((i + 1) h / oh)``.

    Raises:
        ShapeError: if ``x`` has no planes, or they are empty.
        ArgumentError: if a size is negative.
    """
    _require_planes("adaptive_avg_pool2d", x.shape)
    given = (output_size,) * 2 if isinstance(output_size, int | None) else tuple(output_size)
    if len(given) != 2:
        law = "output_size is a number or a pair"
        raise ArgumentError("adaptive_avg_pool2d", law, output_size=output_size)
    size = tuple(n if o is None else o for o, n in zip(given, x.shape[-2:], strict=True))
    if min(size) < 0:
        raise ArgumentError("adaptive_avg_pool2d", "sizes are 0 or more", output_size=output_size)
    if 0 in x.shape[-2:]:
        raise ShapeError("adaptive_avg_pool2d", "the planes are not empty", x=x.shape)
    return apply(AdaptiveAvgPool((size[0], size[1])), contiguous(x))


def plane_window(
    name: str, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair
) -> Window:
    """A window from a user's settings.

    Raises:
        ArgumentError: if a size is below 1, or the padding above half the window.
    """
    kernel = pair(kernel_size, name, "kernel_size")
    steps = kernel if stride is None else pair(stride, name, "stride")
    pads, within = pair(padding, name, "padding"), pair(dilation, name, "dilation")
    if min(*kernel, *steps, *within) < 1 or max(*kernel, *steps, *within) >= 2**31:
        law = "sizes and steps are 1 or more, and numbers of 32 bits"
        raise ArgumentError(name, law, kernel_size=kernel, stride=steps, dilation=within)
    if min(pads) < 0 or any(2 * p > k for p, k in zip(pads, kernel, strict=True)):
        raise ArgumentError(
            name, "padding is at most half the window", padding=pads, kernel_size=kernel
        )
    return Window(*kernel, *steps, *pads, *within)


def _pooled_size(name: str, shape: Shape, window: Window, *, ceil_mode: bool) -> tuple[int, int]:
    _require_planes(name, shape)
    kernel, padding = (window.kh, window.kw), (window.ph, window.pw)
    sizes: list[int] = []
    for axis in range(2):
        size, k, s, p, d = (shape[axis - 2], *window[axis::2])
        free = size + 2 * p - d * (k - 1) - 1
        out = (free + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (out - 1) * s >= size + p:  # that window would lie in the padding alone
            out -= 1
        if out < 1:
            raise ShapeError(
                name, "the window fits into the image", x=shape, kernel_size=kernel, padding=padding
            )
        sizes.append(out)
    return sizes[0], sizes[1]


def _require_planes(name: str, shape: Shape) -> None:
    if len(shape) not in (3, 4):
        raise ShapeError(name, "x is (n, c, h, w) or (c, h, w)", x=shape)
