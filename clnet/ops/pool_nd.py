"""Pooling of rows and volumes, adaptive maxima, the inverse of maxima, powers over windows."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, DataBoundsError, DtypeError, ShapeError
from ..kernels.index import put_rows
from ..kernels.moving import fill as launch_fill
from ..kernels.pool import Window3
from ..kernels.reduce import Bad
from ..values.dtypes import int32, int64
from ..values.plain import MOST
from ..values.shapes import Shape, each
from .activation import relu
from .arithmetic import abs as magnitude
from .arithmetic import pow as power
from .arithmetic import sign
from .check import of_value, require_elements
from .create import positions
from .index import GatherRows
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
)
from .pool import (
    WindowMax,
    adaptive_avg_pool2d,
    avg_pool,
    avg_pool2d,
    max_pool,
    max_pool2d,
    picked,
    plane_window,
)
from .shape import contiguous, reshape, squeeze, to_dtype, unsqueeze
from .whole_windows import whole_means

if TYPE_CHECKING:
    from ..tensor import Tensor

Sizes = int | Sequence[int]
OptionalSizes = int | Sequence[int | None] | None
_POOL = Face.FUNCTION | Face.FUNCTIONAL
_SHAPES = {
    1: "(n, c, l) or (c, l)",
    2: "(n, c, h, w) or (c, h, w)",
    3: "(n, c, d, h, w) or (c, d, h, w)",
}

_LARGEST = 3.4028234663852886e38
"""The largest float; exponents of norms beyond it are as good as infinite."""


class MaxUnpool(Function):
    """Zeros of ``(1, size, 1)`` with ``x`` at the positions; of equal ones the last value stays."""

    repeats = True

    op_name: str
    size: int
    saved_inputs = (1,)

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        return (Array.abstract((1, self.size, 1), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Fill, then put."""
        return launch_fill(target, outputs[0], 0) + put_rows(target, outputs[0], *inputs)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What lies at the positions."""
        return apply(GatherRows(wrap=False), contiguous(grads[0]), saved.inputs[1]), None


@op(_POOL)
def max_pool1d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """As :func:`max_pool2d`, over rows ``(n, c, l)`` or ``(c, l)``."""
    name = "max_pool1d"
    _check_axes(name, x, 1)
    window = _row_window(name, kernel_size, stride, padding, dilation)
    result = max_pool(
        name, unsqueeze(x, -2), window, ceil_mode=ceil_mode, return_indices=return_indices
    )
    return tuple(squeeze(r, -2) for r in result) if return_indices else squeeze(result, -2)


@op(_POOL)
def max_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """As :func:`max_pool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    name = "max_pool3d"
    _check_axes(name, x, 3)
    kernel = each(kernel_size, 3, name, "kernel_size")
    steps = kernel if stride is None else each(stride, 3, name, "stride")
    pads, gaps = each(padding, 3, name, "padding"), each(dilation, 3, name, "dilation")
    sizes: list[int] = []
    for n, *setting in zip(x.shape[-3:], kernel, steps, pads, gaps, strict=True):
        sizes.append(_pooled(name, x.shape, n, *setting, ceil_mode=ceil_mode))
    if not return_indices and not x.device.traits.dedicated_local_memory and x.numel():
        # On CPUs planes first, then depths: two passes in vectors. The first of equal elements, and
        # the last NaN, are found as in one: by depth, then within the plane.
        *lead, depth, h, w = x.shape
        settings = zip(kernel, steps, pads, gaps, strict=True)
        (along, *across) = (tuple(each_axis) for each_axis in settings)
        y = max_pool2d(
            reshape(x, (prod(lead), depth, h, w)), *zip(*across, strict=True), ceil_mode=ceil_mode
        )
        if kernel[0] > 1 or steps[0] > 1 or pads[0]:
            k, step, pad, gap = along
            rows = reshape(y, (prod(lead), 1, depth, -1))
            y = max_pool2d(rows, (k, 1), (step, 1), (pad, 0), (gap, 1), ceil_mode=ceil_mode)
        return reshape(y, (*lead, *sizes))
    window = Window3(kernel, steps, pads, gaps)  # pyrefly: ignore[bad-argument-type]
    result = picked(x, WindowMax(name, tuple(sizes), window))
    return result if return_indices else result[0]


@op(_POOL)
def avg_pool1d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """As :func:`avg_pool2d`, over rows ``(n, c, l)`` or ``(c, l)``."""
    _check_axes("avg_pool1d", x, 1)
    window = _row_window("avg_pool1d", kernel_size, stride, padding, 1)
    y = avg_pool(
        "avg_pool1d", unsqueeze(x, -2), window, ceil_mode=ceil_mode, include_pad=count_include_pad
    )
    return squeeze(y, -2)


@op(_POOL)
def avg_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """As :func:`avg_pool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    name = "avg_pool3d"
    _check_axes(name, x, 3)
    if divisor_override == 0:
        raise ArgumentError(name, "the divisor is not 0", divisor_override=0)
    kernel = each(kernel_size, 3, name, "kernel_size")
    steps = kernel if stride is None else each(stride, 3, name, "stride")
    pads = each(padding, 3, name, "padding")
    how = {"ceil_mode": ceil_mode, "include_pad": count_include_pad}
    planes = plane_window(name, kernel[1:], steps[1:], pads[1:], 1)
    depths = plane_window(name, (kernel[0], 1), (steps[0], 1), (pads[0], 0), 1)
    *lead, d, h, w = x.shape
    if x.dtype is int64:
        along = list(zip(kernel, steps, pads, strict=True))
        size = [
            _pooled(name, x.shape, n, *one, 1, ceil_mode=ceil_mode)
            for n, one in zip((d, h, w), along, strict=True)
        ]
        include = count_include_pad
        return whole_means(x, along, size, include_pad=include, divisor=divisor_override or 0)
    y = avg_pool(
        name, reshape(x, (prod(lead), d, h, w)), planes, divisor=int(divisor_override is not None),
        **how,
    )  # fmt: skip
    oh, ow = y.shape[-2:]
    y = avg_pool(
        name, reshape(y, (prod(lead), d, oh * ow)), depths, divisor=divisor_override or 0, **how
    )
    return reshape(y, (*lead, y.shape[1], oh, ow))


@op(_POOL)
def adaptive_avg_pool1d(x: Tensor, output_size: Sizes) -> Tensor:
    """As :func:`adaptive_avg_pool2d`, over rows ``(n, c, l)`` or ``(c, l)``."""
    (size,) = _adaptive_sizes("adaptive_avg_pool1d", x, output_size, 1)
    return squeeze(adaptive_avg_pool2d(unsqueeze(x, -2), (1, size)), -2)


@op(_POOL)
def adaptive_avg_pool3d(x: Tensor, output_size: OptionalSizes) -> Tensor:
    """As :func:`adaptive_avg_pool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    od, oh, ow = _adaptive_sizes("adaptive_avg_pool3d", x, output_size, 3)
    *lead, d, h, w = x.shape
    y = adaptive_avg_pool2d(reshape(x, (prod(lead), d, h, w)), (oh, ow))
    y = adaptive_avg_pool2d(reshape(y, (prod(lead), d, oh * ow)), (od, None))
    return reshape(y, (*lead, od, oh, ow))


@op(Face.FUNCTIONAL)
def adaptive_max_pool1d(x: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """As :func:`adaptive_max_pool2d`, over rows ``(n, c, l)`` or ``(c, l)``."""
    return _adaptive_max("adaptive_max_pool1d", x, output_size, 1, return_indices)


@op(_POOL)
def adaptive_max_pool2d(x: Tensor, output_size: OptionalSizes, return_indices: bool = False) -> Any:
    """Maxima over ``oh x ow`` nearly equal parts of each plane.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, floating.
        output_size: an int or a pair; None keeps a size.
        return_indices: also return where in its plane each maximum was.

    Returns:
        ``(n, c, oh, ow)``, with ``return_indices`` also the positions, int64; part ``i`` takes rows
        ``floor(i h / oh)`` to ``ceil((i + 1) h / oh)``.

    Raises:
        ShapeError: if ``x`` has no planes, or they are empty.
        ArgumentError: if a size is negative.
    """
    return _adaptive_max("adaptive_max_pool2d", x, output_size, 2, return_indices)


@op(_POOL)
def adaptive_max_pool3d(x: Tensor, output_size: OptionalSizes, return_indices: bool = False) -> Any:
    """As :func:`adaptive_max_pool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    return _adaptive_max("adaptive_max_pool3d", x, output_size, 3, return_indices)


@op(Face.FUNCTIONAL)
def max_unpool1d(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """As :func:`max_unpool2d`, over rows ``(n, c, l)`` or ``(c, l)``."""
    return _unpool("max_unpool1d", x, indices, (kernel_size, stride, padding), output_size, 1)


@op(Face.FUNCTIONAL)
def max_unpool2d(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Maxima put back where they were, among zeros; of equal positions the last value stays.

    Args:
        x: what :func:`max_pool2d` gave, ``(n, c, oh, ow)`` or ``(c, oh, ow)``.
        indices: the positions it gave, of that shape.
        kernel_size: as it was called with.
        stride: the same.
        padding: the same.
        output_size: sizes of the planes, where several would have given ``x``; axes before them are
            ignored. None: the smallest.

    Returns:
        ``(n, c, h, w)``.

    Raises:
        ShapeError: if the shapes do not fit.
        DtypeError: if ``indices`` does not hold positions.
    """
    return _unpool("max_unpool2d", x, indices, (kernel_size, stride, padding), output_size, 2)


@op(Face.FUNCTIONAL)
def max_unpool3d(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """As :func:`max_unpool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    return _unpool("max_unpool3d", x, indices, (kernel_size, stride, padding), output_size, 3)


@op(Face.FUNCTIONAL)
def lp_pool1d(
    x: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """As :func:`lp_pool2d`, over rows ``(n, c, l)`` or ``(c, l)``."""
    if abs(norm_type) > _LARGEST:
        largest = max_pool1d(_signed(x, norm_type), kernel_size, stride, ceil_mode=ceil_mode)
        return largest if norm_type > 0 else -largest
    mean = avg_pool1d(power(x, norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(mean, kernel_size, norm_type)


@op(Face.FUNCTIONAL)
def lp_pool2d(
    x: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` over windows, 0 where the sum is not above 0.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, floating.
        norm_type: ``p``; infinite for the largest or smallest absolute value.
        kernel_size: the window, an int or a pair ``(vertical, horizontal)``.
        stride: steps from window to window; None: the window's size.
        ceil_mode: windows that begin inside the image and reach beyond it count too.

    Returns:
        ``(n, c, oh, ow)``.
    """
    if abs(norm_type) > _LARGEST:
        largest = max_pool2d(_signed(x, norm_type), kernel_size, stride, ceil_mode=ceil_mode)
        return largest if norm_type > 0 else -largest
    mean = avg_pool2d(power(x, norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(mean, prod(each(kernel_size, 2, "lp_pool2d", "kernel_size")), norm_type)


@op(Face.FUNCTIONAL)
def lp_pool3d(
    x: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """As :func:`lp_pool2d`, over volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""
    if abs(norm_type) > _LARGEST:
        largest = max_pool3d(_signed(x, norm_type), kernel_size, stride, ceil_mode=ceil_mode)
        return largest if norm_type > 0 else -largest
    mean = avg_pool3d(power(x, norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(mean, prod(each(kernel_size, 3, "lp_pool3d", "kernel_size")), norm_type)


def _signed(x: Tensor, p: float) -> Tensor:
    return magnitude(x) if p > 0 else -magnitude(x)


def _root(mean: Tensor, count: int, p: float) -> Tensor:
    if p == 0:
        raise ArgumentError("lp_pool", "norm_type is not 0", norm_type=p)
    return power(sign(mean) * relu(magnitude(mean)) * count, 1 / p)


def _check_axes(name: str, x: Tensor, count: int) -> None:
    if x.ndim not in (count + 1, count + 2):
        raise ShapeError(name, f"x is {_SHAPES[count]}", x=x.shape)


def _row_window(
    name: str, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes
) -> Any:
    (k,), (p,) = each(kernel_size, 1, name, "kernel_size"), each(padding, 1, name, "padding")
    s = k if stride is None else each(stride, 1, name, "stride")[0]
    d = each(dilation, 1, name, "dilation")[0]
    return plane_window(name, (1, k), (1, s), (0, p), (1, d))


def _pooled(
    name: str, shape: Shape, n: int, k: int, s: int, p: int, d: int, *, ceil_mode: bool
) -> int:
    """The size of one pooled axis."""
    if min(k, s, d) < 1:
        raise ArgumentError(
            name, "sizes and steps are 1 or more", kernel_size=k, stride=s, dilation=d
        )
    if p < 0 or 2 * p > k:
        raise ArgumentError(name, "padding is at most half the window", padding=p, kernel_size=k)
    free = n + 2 * p - d * (k - 1) - 1
    out = (free + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (out - 1) * s >= n + p:  # that window would lie in the padding alone
        out -= 1
    if out < 1:
        raise ShapeError(name, "the window fits into the volume", x=shape, kernel_size=k, padding=p)
    return out


def _adaptive_sizes(name: str, x: Tensor, output_size: Any, count: int) -> tuple[int, ...]:
    _check_axes(name, x, count)
    several = isinstance(output_size, Sequence)
    given = tuple(output_size) if several else (output_size,) * count
    if len(given) != count:
        raise ArgumentError(name, f"output_size has {count} sizes", output_size=output_size)
    sizes = tuple(n if o is None else int(o) for o, n in zip(given, x.shape[-count:], strict=True))
    if min(sizes) < 0:
        raise ArgumentError(name, "sizes are 0 or more", output_size=output_size)
    if 0 in x.shape[-count:]:
        raise ShapeError(name, "what is pooled is not empty", x=x.shape)
    return sizes


def _adaptive_max(
    name: str, x: Tensor, output_size: OptionalSizes, count: int, return_indices: bool
) -> Any:
    sizes = _adaptive_sizes(name, x, output_size, count)
    lead, axes = x.shape[:-count], x.shape[-count:]
    ones = (1,) * (3 - count)
    function = WindowMax(name, (*ones, *sizes), None)
    values, index = picked(reshape(x, (*lead, *ones, *axes)), function)
    values = reshape(values, (*lead, *sizes))
    return (values, reshape(index, (*lead, *sizes))) if return_indices else values


def _unpool(
    name: str,
    x: Tensor,
    indices: Tensor,
    settings: tuple[Sizes, Sizes | None, Sizes],
    output_size: Sequence[int] | None,
    count: int,
) -> Tensor:
    _check_axes(name, x, count)
    if indices.shape != x.shape:
        raise ShapeError(name, "each value has a position", x=x.shape, indices=indices.shape)
    if indices.dtype not in (int32, int64):
        raise DtypeError(name, "positions are int64 or int32", dtype=indices.dtype)
    sizes = _unpooled_sizes(name, x, settings, output_size, count)
    if any(n < 0 for n in sizes):
        raise ShapeError(name, "the result's sizes are 0 or more", x=x.shape, sizes=sizes)
    planes, length, whole = prod(x.shape[:-count]), prod(x.shape[-count:]), prod(sizes)
    if planes * whole > MOST:
        raise ShapeError(name, "the result's elements are counted in 64 bits", sizes=sizes)
    law = f"positions lie in [0, {whole})"
    check = of_value(name, "indices", law, DataBoundsError)
    require_elements(indices, check, Bad.OUTSIDE, 0, whole - 1)
    first = positions(type(x), planes, x.device) * whole
    index = reshape(to_dtype(indices, int64), (planes, length)) + reshape(first, (planes, 1))
    source = reshape(contiguous(x), (1, x.numel(), 1))
    y = apply(MaxUnpool(name, planes * whole), source, reshape(index, (x.numel(),)))
    return reshape(y, (*x.shape[:-count], *sizes))


def _unpooled_sizes(
    name: str,
    x: Tensor,
    settings: tuple[Sizes, Sizes | None, Sizes],
    output_size: Sequence[int] | None,
    count: int,
) -> tuple[int, ...]:
    kernel = each(settings[0], count, name, "kernel_size")
    steps = kernel if settings[1] is None else each(settings[1], count, name, "stride")
    pads = each(settings[2], count, name, "padding")
    smallest = tuple(
        (n - 1) * s - 2 * p + k
        for n, k, s, p in zip(x.shape[-count:], kernel, steps, pads, strict=True)
    )
    if output_size is None:
        return smallest
    sizes = tuple(output_size)[-count:]
    near = len(sizes) == count and all(
        abs(size - least) < s for size, least, s in zip(sizes, smallest, steps, strict=True)
    )
    if not near:
        raise ShapeError(
            name,
            f"output_size is within a stride of {smallest}",
            x=x.shape,
            output_size=tuple(output_size),
            stride=steps,
        )
    return sizes
