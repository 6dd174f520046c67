"""Images and volumes sampled at given places, and the places of an affine map.

Which elements a place reads, its taps, and their weights are expressions: the kernels have them,
and so has the op's twin in simpler ones, where each tap is a pick of rows times a weight.
"""

# ruff: noqa: FBT001 - PyTorch's signatures

# Bodies are called with symbols.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, product
from math import prod
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..expr import Expr, Input, Scalar, as_number
from ..kernels import pool as kernels
from ..values.dtypes import int64
from ..values.record import NamedTuple
from ..values.shapes import Shape
from .create import positions, zeros_like
from .index import GatherRows
from .join import cat
from .machinery.autocast import computes_as_one
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_same_dtype,
    results_of,
)
from .machinery.pointwise import Pointwise, evaluate
from .matmul import bmm
from .reduce import widened
from .shape import contiguous, expand, permute, reshape, to_dtype, transpose, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75
_AT_ONCE = 8  # picks that an op adds up
_MOST = 2**31  # what the kernels count reaches


@op(Face.FUNCTIONAL)
@computes_as_one
def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``x`` at the places of a grid, by interpolation.

    Args:
        x: images ``(n, c, h, w)`` or volumes ``(n, c, d, h, w)``, floating.
        grid: ``(n, oh, ow, 2)`` or ``(n, od, oh, ow, 3)``: places ``(x, y)`` or ``(x, y, z)``, -1
            to 1 from edge to edge; same dtype.
        mode: ``"bilinear"`` (in volumes trilinear), ``"nearest"``, or for images ``"bicubic"``.
        padding_mode: what lies outside: ``"zeros"``; ``"border"``, the outermost element; or
            ``"reflection"``.
        align_corners: whether -1 and 1 are centres of elements instead of their edges.

    Returns:
        ``(n, c, oh, ow)`` or ``(n, c, od, oh, ow)``.

    Raises:
        ArgumentError: if there is no such mode.
        ShapeError: if the shapes do not fit, or ``x`` is empty.
        DtypeError: if the dtypes differ.
    """
    _check(x, grid, mode, padding_mode)
    dtype = x.dtype
    x, grid = widened(x), widened(grid)  # 16 bits could not tell pixels apart
    function = GridSample(mode, padding_mode, bool(align_corners))
    if max(x.numel(), grid.numel() * 4 ** (x.ndim - 2), grid.numel() * x.shape[1]) >= _MOST:
        y = function.decompose(x, grid)
    else:
        y = apply(function, contiguous(x), contiguous(grid))
    return to_dtype(y, dtype)


class GridSample(Function):
    """Of dense images or volumes and a dense grid; see :func:`grid_sample`."""

    sixteen_bit = False
    repeats = True
    saved_inputs = (0, 1)

    mode: str
    padding: str
    align_corners: bool

    def infer(self, x: Array, grid: Array) -> tuple[Array, ...]:
        return (Array.abstract((*x.shape[:2], *grid.shape[1:-1]), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.grid_sample(target, outputs[0], *inputs, taps=self.taps(inputs[0].shape[2:]))

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What elements were read for; how the weights change."""
        x, grid = saved.inputs[0], saved.inputs[1]
        gy = contiguous(grads[0])
        gx = gp = None
        if needs[0]:
            gx = apply(GridSampleImage(self, x.shape), gy, grid)
        if needs[1]:
            moves = self.mode != "nearest"
            gp = apply(GridSamplePlaces(self), gy, x, grid) if moves else zeros_like(grid)
        return gx, gp

    def taps(self, sizes: Sequence[int]) -> kernels.Taps:
        """Of images of these sizes."""
        exprs = _tap_exprs(self.mode, self.padding, len(sizes) == 3)
        slopes = tuple(e.vjp([weight], [1], wrt=[Input(0)])[0] for weight in exprs[1::3])
        scalars = tuple(_scalars(size, self.align_corners) for size in sizes)
        return kernels.Taps(exprs, slopes, scalars)

    def decompose(self, x: Tensor, grid: Tensor) -> Tensor:
        """Rows of pixels picked, times weights."""
        n, c, *sizes = x.shape
        places = prod(grid.shape[1:-1])
        flat = reshape(grid, (n * places, len(sizes)))
        exprs = _tap_exprs(self.mode, self.padding, len(sizes) == 3)
        axes: list[list[_Tap]] = []
        for axis, size in enumerate(sizes):
            place = flat.narrow(1, len(sizes) - 1 - axis, 1)
            axes.append(_taps(place, exprs, _scalars(size, self.align_corners)))
        rows = reshape(contiguous(permute(x, (0, *range(2, x.ndim), 1))), (1, n * prod(sizes), c))
        taps = list(product(*axes))
        picked = [
            reshape(apply(GatherRows(wrap=False), rows, reshape(at, (-1,))), (n * places, c))
            for at in _indices(axes, sizes, n, places)
        ]
        y: Any = None
        for first in range(0, len(taps), _AT_ONCE):
            several = slice(first, first + _AT_ONCE)
            y = _added(y, picked[several], taps[several])
        y = reshape(y, (n, places, c))
        return reshape(contiguous(transpose(y, 1, 2)), (n, c, *grid.shape[1:-1]))


class GridSampleImage(Function):
    """The gradient to the image, of the result's and the grid.

    Attributes:
        sample: whose gradient it is.
        shape: the image's.
    """

    sixteen_bit = False
    repeats = True
    op_name = "grid_sample_backward"

    sample: GridSample
    shape: Shape

    def infer(self, gy: Array, grid: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        taps = self.sample.taps(self.shape[2:])
        return kernels.grid_sample_image(target, outputs[0], *inputs, taps=taps)


class GridSamplePlaces(Function):
    """The gradient to the grid, of the result's, the image and the grid.

    Attributes:
        sample: whose gradient it is.
    """

    sixteen_bit = False
    repeats = True
    op_name = "grid_sample_backward"

    sample: GridSample

    def infer(self, gy: Array, x: Array, grid: Array) -> tuple[Array, ...]:
        return (Array.abstract(grid.shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        taps = self.sample.taps(inputs[1].shape[2:])
        return kernels.grid_sample_places(target, outputs[0], *inputs, taps=taps)


@op(Face.FUNCTIONAL)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of :func:`grid_sample` that shows affine maps of images or volumes.

    Args:
        theta: maps, ``(n, 2, 3)`` or ``(n, 3, 4)``, floating.
        size: of the result, ``(n, c, h, w)`` or ``(n, c, d, h, w)``.
        align_corners: as for :func:`grid_sample`.

    Returns:
        ``(n, h, w, 2)`` or ``(n, d, h, w, 3)``.

    Raises:
        ShapeError: if the shapes do not fit.
    """
    n, sizes = size[0] if len(size) else 0, list(size[2:])
    count = len(sizes)
    if count not in (2, 3) or theta.shape != (n, count, count + 1):
        raise ShapeError(
            "affine_grid",
            "theta is (n, 2, 3) or (n, 3, 4), size has as many axes",
            theta=theta.shape,
            size=tuple(size),
        )
    if min(sizes) < 1:
        raise ShapeError("affine_grid", "sizes are 1 or more", size=tuple(size))
    dtype, theta = theta.dtype, widened(theta)
    columns: list[Tensor] = []
    for axis in reversed(range(count)):
        length = sizes[axis]
        steps = to_dtype(positions(type(theta), length, theta.device), theta.dtype)
        ends = max(length - 1, 1) if align_corners else length
        shift = 0.0 if length == 1 else -(length - 1) / ends
        line = evaluate("affine_grid", _line, [steps], [2 / ends, shift])
        along = tuple(length if a == axis else 1 for a in range(count))
        columns.append(reshape(expand(reshape(line, along), tuple(sizes)), (-1, 1)))
    columns.append(evaluate("affine_grid", _one, [columns[0]]))
    base = expand(unsqueeze(cat(columns, 1), 0), (n, prod(sizes), count + 1))
    return to_dtype(reshape(bmm(base, transpose(theta, 1, 2)), (n, *sizes, count)), dtype)


def _line(i, step, shift):
    return i * step + shift


def _one(x):
    return x * 0 + 1


def _pixel(place, scale, middle):
    return place * scale + middle


def _check(x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    name = "grid_sample"
    require_same_dtype(name, x=x.array, grid=grid.array)
    if mode not in _MODES:
        raise ArgumentError(name, f"mode is one of {', '.join(_MODES)}", mode=repr(mode))
    if padding_mode not in _PADDINGS:
        raise ArgumentError(
            name, f"padding_mode is one of {', '.join(_PADDINGS)}", padding_mode=repr(padding_mode)
        )
    fits = x.ndim in (4, 5) and grid.ndim == x.ndim and grid.shape[0] == x.shape[0]
    if not fits or grid.shape[-1] != x.ndim - 2 or 0 in x.shape[2:]:
        raise ShapeError(
            name, "x is (n, c, h, w) or (n, c, d, h, w) with a grid of (..., 2) or (..., 3)",
            x=x.shape, grid=grid.shape,
        )  # fmt: skip
    if mode == "bicubic" and x.ndim != 4:
        raise ShapeError(name, "mode 'bicubic' takes images", x=x.shape)


class _Tap(NamedTuple):
    """Along one axis: the index, its weight, and whether it lies inside, as a number."""

    index: Tensor
    weight: Tensor
    inside: Tensor


def _taps(place: Tensor, exprs: tuple[Expr, ...], scalars: tuple[float, ...]) -> list[_Tap]:
    """Of all places along one axis, in one op."""
    dtypes = (int64, place.dtype, place.dtype) * (len(exprs) // 3)
    found = results_of(Pointwise("grid_sample", exprs, scalars, place.dtype, dtypes), place)
    return [_Tap(*found[i : i + 3]) for i in range(0, len(found), 3)]


def _scalars(size: int, align_corners: bool) -> tuple[float, ...]:
    """An axis' own numbers: an element's share of the grid's 2, the middle, the last element ...

    ... and of what is reflected the beginning and the length, 0 of a single element.
    """
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    scale = (size - 1) / 2 if align_corners else size / 2
    return scale, (size - 1) / 2, size - 1.0, low, span


@cache
def _tap_exprs(mode: str, padding: str, in_volume: bool) -> tuple[Expr, ...]:
    """Index, weight and whether it is inside, of each tap.

    Of infinite places and NaN beside zeros PyTorch gives NaN in images, and 0 in volumes.
    """
    scale, middle, last, low, span = (Scalar(i) for i in range(5))

    def brought_in(at: Expr) -> Expr:
        if padding == "reflection":
            at = e.where(span > 0, _reflected(at, low, e.where(span > 0, span, 1)), at * 0)
        return _clipped(at, last)

    at: Any = _pixel(Input(0), scale, middle)
    if mode != "bicubic" and padding != "zeros":
        at = brought_in(at)
    taps: list[tuple[Any, Any]] = []
    if mode == "nearest":
        near = _nearest(at)
        taps.append((near, _whole(near)))
    else:
        first = e.floor(at)
        for step in range(-1, 3) if mode == "bicubic" else range(2):
            weigh = _cubic if mode == "bicubic" else _linear
            outside = mode == "bicubic" and padding != "zeros"
            place = brought_in(first + step) if outside else first + step
            weight = weigh(at, first, step)
            if in_volume and padding == "zeros":
                weight = e.where(_is_inside(place, last) > 0, weight, 0)
            taps.append((place, weight))
    return tuple(
        as_number(v)
        for place, weight in taps
        for v in (_clipped(place, last), weight, _is_inside(place, last))
    )


def _indices(
    axes: Sequence[Sequence[_Tap]], sizes: Sequence[int], n: int, places: int
) -> tuple[Tensor, ...]:
    """Which row of all images' each combination of taps picks."""
    some = axes[0][0].index
    first = positions(type(some), n, some.device)
    image = reshape(expand(reshape(first, (n, 1)), (n, places)), (n * places, 1))
    exprs = _index_exprs(tuple(map(len, axes)))
    function = Pointwise("grid_sample", exprs, tuple(sizes), int64, (int64,) * len(exprs))
    return results_of(function, image, *(tap.index for axis in axes for tap in axis))


@cache
def _index_exprs(taps: tuple[int, ...]) -> tuple[Expr, ...]:
    """Of the image's number, then each axis' so many indices: every combination's row."""
    begins = accumulate(taps, initial=1)
    axes = [
        [Input(begin + i) for i in range(count)] for begin, count in zip(begins, taps, strict=False)
    ]
    exprs: list[Any] = []
    for combination in product(*axes):
        index: Any = Input(0)
        for k, at in enumerate(combination):
            index = index * Scalar(k) + at
        exprs.append(index)
    return tuple(exprs)


def _nearest(at):
    return e.rint(at)


def _is_inside(place, last):
    return e.where(e.logical_and(place >= 0, place <= last), 1, 0)


def _clipped(place, last):
    return e.where(place > 0, e.where(place < last, place, last), 0)  # NaN gives 0


def _reflected(at, low, span):
    away = abs(at - low)
    turns = e.floor(away / span)
    rest = away - turns * span
    return e.where(turns - 2 * e.floor(turns / 2) > 0, span - rest, rest) + low


def _whole(place):
    return e.where(place > 0, 1, 1)  # also where it is not a number


# Distances are taken from the first tap: far out floats lie wider than taps, and all taps are one.
def _linear(at, first, step):
    # At a pixel's centre the slope is that towards the next one, as PyTorch has it.
    return 1 - step + (2 * step - 1) * (at - first)


def _cubic(at, first, step):
    d = abs(at - first - step)
    near = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * _CUBIC - 4 * _CUBIC
    return e.where(d <= 1, near, e.where(d >= 2, 0, far))


def _added(total: Any, picked: Sequence[Tensor], taps: Sequence[Sequence[_Tap]]) -> Any:
    """What was picked times its weights, all in one op."""
    different = list({id(tap): tap for each in taps for tap in each}.values())
    numbers = {id(tap): i for i, tap in enumerate(different)}
    which = tuple(tuple(numbers[id(tap)] for tap in each) for each in taps)
    operands = [*picked, *(x for tap in different for x in (tap.weight, tap.inside))]
    operands += [] if total is None else [total]
    dtype, expr = picked[0].dtype, _sum_expr(which, total is not None)
    return apply(Pointwise("grid_sample", (expr,), (), dtype, (dtype,)), *operands)


@cache
def _sum_expr(which: tuple[tuple[int, ...], ...], onto: bool) -> Expr:
    """Of picks, then weights and insides of taps: the sum, by the numbers of each pick's taps.

    Args:
        which: these.
        onto: whether it is added to a last operand.
    """
    first = len(which)
    y: Any = None
    for i, (number, *others) in enumerate(which):
        weight: Any = Input(first + 2 * number)
        inside: Any = Input(first + 2 * number + 1)
        for other in others:
            weight = weight * Input(first + 2 * other)
            inside = inside * Input(first + 2 * other + 1)
        # A place that is NaN has such weights.
        term = e.where(inside > 0, Input(i), 0) * weight
        y = term if y is None else y + term
    last = first + 2 * (1 + max(t for taps in which for t in taps))
    return Input(last) + y if onto else y
