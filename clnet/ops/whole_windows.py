"""Convolutions and means over windows of whole numbers, which no kernel of floats takes.

Windows are picked one axis at a time, as copies: of a convolution each element is there as often as
there are taps that see it. Sums wrap as the dtype does, and nothing has a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..values.dtypes import Kind, bool_
from .arithmetic import clamp, div
from .conv_settings import ConvSettings
from .create import positions
from .index import index_select
from .matmul import matmul
from .padding import pad
from .rearrange import flip
from .reduce import sum as total
from .shape import contiguous, permute, reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


def is_whole(x: Tensor) -> bool:
    """Whether its elements are whole numbers, and not truth values."""
    return x.dtype.kind is Kind.INTEGER and x.dtype is not bool_


def whole_conv2d(settings: ConvSettings, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What ``conv2d`` gives: images ``(n, ic, h, w)``, filters and a bias that fit each other."""
    g = settings.geometry(x.shape, weight.shape)
    (top, left), (bottom, right) = settings.before, settings.after
    taps = pad(x, (left, right, top, bottom))
    taps = _picked(taps, 2, g.oh, g.kh, settings.stride[0], settings.dilation[0])
    taps = _picked(taps, 4, g.ow, g.kw, settings.stride[1], settings.dilation[1])
    groups, each = settings.groups, weight.shape[1] * g.kh * g.kw
    # (n, ic, oh, kh, ow, kw), of which a filter sees ic, kh and kw.
    columns = reshape(contiguous(permute(taps, 0, 1, 3, 5, 2, 4)), g.n, groups, each, g.oh * g.ow)
    y = matmul(reshape(weight, groups, g.oc // groups, each), columns)
    y = reshape(y, g.n, g.oc, g.oh, g.ow)
    return y if bias is None else y + reshape(bias, 1, g.oc, 1, 1)


def whole_conv_transpose2d(
    settings: ConvSettings, x: Tensor, weight: Tensor, shape: Sequence[int]
) -> Tensor:
    """What ``conv_transpose2d`` gives without a bias: images of ``shape``.

    It is a convolution by the filters turned round, of images with zeros between their elements.
    """
    ic, ocg, kh, kw = weight.shape
    groups = settings.groups
    filters = reshape(flip(weight, (2, 3)), groups, ic // groups, ocg, kh, kw)
    filters = reshape(
        contiguous(permute(filters, 0, 2, 1, 3, 4)), groups * ocg, ic // groups, kh, kw
    )
    pads: list[int] = []
    for axis in (2, 3):
        step, count = settings.stride[axis - 2], x.shape[axis]
        apart = pad(unsqueeze(x, axis + 1), (*(0, 0) * (3 - axis), 0, step - 1))
        x = reshape(apart, *x.shape[:axis], count * step, *x.shape[axis + 1 :])
        reach = settings.dilation[axis - 2] * (weight.shape[axis] - 1)
        before = reach - settings.before[axis - 2]
        pads[:0] = [before, shape[axis] + reach - before - count * step]
    still = ConvSettings((1, 1), (0, 0), (0, 0), settings.dilation, groups)
    return whole_conv2d(still, pad(x, pads), filters, None)


def whole_means(
    x: Tensor,
    windows: Sequence[tuple[int, int, int]],
    size: Sequence[int],
    *,
    include_pad: bool,
    divisor: int,
) -> Tensor:
    """Sums over windows of the last axes, divided, and what is behind the point cut off.

    Args:
        x: the elements.
        windows: of each of these axes the window's size, its steps and the padding.
        size: how many windows there are along each.
        include_pad: whether padding counts as elements.
        divisor: what is divided by; 0: the number of elements.
    """
    counts: Any = None
    for place, ((k, s, p), out) in enumerate(zip(windows, size, strict=True)):
        axis, behind = x.ndim - len(size) + place, len(size) - place - 1
        n = x.shape[axis]
        after = max((out - 1) * s + k - p - n, 0)
        x = total(
            _picked(pad(x, (*(0, 0) * behind, p, after)), axis, out, k, s, 1),
            axis + 1,
            dtype=x.dtype,
        )
        begin = positions(type(x.detach()), out, x.device) * s - p
        ends = clamp(begin + k, max=n + p if include_pad else n)
        lengths = ends - (begin if include_pad else clamp(begin, min=0))
        lengths = reshape(lengths, out, *(1,) * behind)
        counts = lengths if counts is None else counts * lengths
    return div(x, divisor or to_dtype(counts, x.dtype), rounding_mode="trunc")


def _picked(x: Tensor, axis: int, out: int, taps: int, step: int, dilation: int) -> Tensor:
    """What windows see along an axis, in place of it: ``out`` windows and their elements."""
    kind = type(x.detach())
    first = reshape(positions(kind, out, x.device) * step, out, 1)
    places = reshape(first + positions(kind, taps, x.device) * dilation, out * taps)
    picked = index_select(x, axis, places)
    return reshape(picked, *x.shape[:axis], out, taps, *x.shape[axis + 1 :])
