"""Convolution of rows and volumes, through that of images.

Rows are images of height 1. Volumes are an op of their own on CPUs, or one convolution of images
for all depths together (see :mod:`.conv_volume`); a transposed one's depths are added up by a
sparse map (:mod:`.axis_map`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ArgumentError, ShapeError
from ..values.shapes import each
from .axis_map import map_axis
from .conv import conv2d, conv_transpose2d
from .conv_volume import VolumeSettings, convolved, depths_of
from .machinery.autocast import computes_as_one
from .machinery.function import Face, op
from .reduce import widened
from .shape import (
    contiguous,
    expand,
    narrow,
    permute,
    reshape,
    squeeze,
    to_dtype,
    transpose,
    unsqueeze,
)

if TYPE_CHECKING:
    from ..tensor import Tensor

Sizes = int | Sequence[int]
_CONV = Face.FUNCTION | Face.FUNCTIONAL
_AXES = {1: "length", 3: "d, h, w"}


@op(_CONV)
@computes_as_one
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: str | Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """As :func:`conv2d`, over rows.

    Args:
        x: ``(n, ic, length)`` or ``(ic, length)``, floating.
        weight: ``(oc, ic / groups, k)``, same dtype.
        bias: ``(oc,)``, same dtype, or None.
        stride: step from window to window.
        padding: zeros on each side, ``"valid"`` or ``"same"``.
        dilation: distance of the filter's taps.
        groups: divides ``ic`` and ``oc``.

    Returns:
        ``(n, oc, (length + 2 padding - dilation (k - 1) - 1) // stride + 1)``.

    Raises:
        ShapeError: if the shapes do not fit each other, or the result would be empty.
        ArgumentError: if a setting is out of its range.
        DtypeError: if the dtypes differ, or there is no kernel for them.
    """
    _check("conv1d", x, weight, 1)
    (s,), (d,) = each(stride, 1, "conv1d", "stride"), each(dilation, 1, "conv1d", "dilation")
    pads = padding if isinstance(padding, str) else (0, *each(padding, 1, "conv1d", "padding"))
    rows, filters = unsqueeze(x, -2), unsqueeze(weight, -2)
    return squeeze(conv2d(rows, filters, bias, (1, s), pads, (1, d), groups), -2)


@op(_CONV)
@computes_as_one
def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """As :func:`conv_transpose2d`, over rows ``(n, ic, length)`` or ``(ic, length)``."""
    name = "conv_transpose1d"
    _check(name, x, weight, 1)
    (s,), (d,) = each(stride, 1, name, "stride"), each(dilation, 1, name, "dilation")
    pads = (0, *each(padding, 1, name, "padding"))
    extra = (0, *each(output_padding, 1, name, "output_padding"))
    rows, filters = unsqueeze(x, -2), unsqueeze(weight, -2)
    return squeeze(conv_transpose2d(rows, filters, bias, (1, s), pads, extra, groups, (1, d)), -2)


@op(_CONV)
@computes_as_one
def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: str | Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """As :func:`conv2d`, over volumes.

    Args:
        x: ``(n, ic, d, h, w)`` or ``(ic, d, h, w)``, floating.
        weight: ``(oc, ic / groups, kd, kh, kw)``, same dtype.
        bias: ``(oc,)``, same dtype, or None.
        stride: an int or a triple ``(depth, vertical, horizontal)``.
        padding: zeros on each side, an int or a triple; ``"valid"`` or ``"same"``.
        dilation: distance of the filter's taps, an int or a triple.
        groups: divides ``ic`` and ``oc``.

    Returns:
        ``(n, oc, od, oh, ow)``.

    Raises:
        ShapeError: if the shapes do not fit each other, or the result would be empty.
        ArgumentError: if a setting is out of its range.
        DtypeError: if the dtypes differ, or there is no kernel for them.
    """
    name = "conv3d"
    _check(name, x, weight, 3)
    if x.ndim == 4:
        return squeeze(conv3d(unsqueeze(x, 0), weight, bias, stride, padding, dilation, groups), 0)
    (sd, *s), (dd, *d) = each(stride, 3, name, "stride"), each(dilation, 3, name, "dilation")
    (n, c, depth, h, w), (oc, icg, kd, kh, kw) = x.shape, weight.shape
    reach = dd * (kd - 1)
    if isinstance(padding, str):
        before, after, pads = *(_halves(reach) if padding == "same" else (0, 0)), padding
        if padding == "same" and sd != 1:
            raise ArgumentError(name, "padding 'same' needs stride 1", stride=stride)
    else:
        before, *pads = each(padding, 3, name, "padding")
        after = before
    if min(sd, dd) < 1 or before < 0:
        raise ArgumentError(
            name, "strides and dilations are 1 or more, padding is 0 or more", stride=stride,
            dilation=dilation, padding=padding,
        )  # fmt: skip
    od = (depth + before + after - reach - 1) // sd + 1
    if od < 1:
        raise ShapeError(
            name, f"the filter is larger than the padded volume, {od} deep", x=x.shape,
            weight=weight.shape,
        )  # fmt: skip
    pads = pads if isinstance(pads, str) else (pads[0], pads[1])
    steps, gaps = (sd, s[0], s[1]), (dd, d[0], d[1])
    settings = VolumeSettings(steps, (before, after), pads, gaps, groups)
    flat = (kd, sd, before, after) == (1, 1, 0, 0)
    unpadded = pads in ("same", "valid", (0, 0))
    if flat and kh == kw == 1 and s == [1, 1] and unpadded:
        # No element sees another: depths are more rows of an image.
        images, filters = reshape(x, (n, c, depth * h, w)), reshape(weight, (oc, icg, 1, 1))
        return reshape(conv2d(images, filters, bias, groups=groups), (n, oc, depth, h, w))
    side_by_side = (kd, kh, kw, dd, *d) == (sd, *s, 1, 1, 1) and pads in ("valid", (0, 0))
    if side_by_side and before == 0 and c == icg * groups:
        return _conv_of_boxes(x, weight, bias, groups)
    return convolved(x, weight, bias, settings)


@op(_CONV)
@computes_as_one
def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """As :func:`conv_transpose2d`, over volumes ``(n, ic, d, h, w)`` or ``(ic, d, h, w)``."""
    name = "conv_transpose3d"
    _check(name, x, weight, 3)
    settings = (stride, padding, output_padding, groups, dilation)
    if x.ndim == 4:
        return squeeze(conv_transpose3d(unsqueeze(x, 0), weight, bias, *settings), 0)
    (sd, *s), (dd, *d) = each(stride, 3, name, "stride"), each(dilation, 3, name, "dilation")
    pd, *p = each(padding, 3, name, "padding")
    ed, *e = each(output_padding, 3, name, "output_padding")
    if min(sd, dd) < 1 or pd < 0 or not 0 <= ed < max(sd, dd):
        raise ArgumentError(
            name,
            "strides and dilations are 1 or more, output_padding is less than one of them",
            stride=stride,
            dilation=dilation,
            output_padding=output_padding,
        )
    (n, ic, depth, h, w), (of, ocg, kd, kh, kw) = x.shape, weight.shape
    fits = of == ic and groups > 0 and ic % groups == 0
    od = (depth - 1) * sd - 2 * pd + dd * (kd - 1) + ed + 1
    if od < 1:
        raise ShapeError(name, f"padding leaves no plane, {od} deep", x=x.shape, padding=padding)
    plain = not any((pd, *p, ed, *e)) and (dd, *d) == (1, 1, 1)
    if plain and fits and (kd, kh, kw) == (sd, *s):
        return _boxes_of_elements(x, weight, bias, groups)
    # Before its table is laid out, also of no images.
    x.device.pool.check(max(n, 1) * ocg * groups * od * x.dtype.itemsize)
    # What a depth gets from its taps is added up afterwards, not in 16 bits.
    images = reshape(permute(widened(x), (0, 2, 1, 3, 4)), (n * depth, ic, h, w))
    filters = reshape(widened(weight), (weight.shape[0], ocg * kd, kh, kw))
    taps = conv_transpose2d(images, filters, None, s, p, e, groups, d)
    oh, ow = taps.shape[2:]
    taps = permute(reshape(taps, (n, depth, ocg * groups, kd, oh, ow)), (0, 2, 3, 1, 4, 5))
    taps = reshape(taps, (n, ocg * groups, kd * depth, oh, ow))
    y = map_axis(name, taps, 2, depths_of(od, kd, depth, sd, pd, dd).transposed)
    y = to_dtype(y, x.dtype)
    return y if bias is None else y + reshape(bias, (1, -1, 1, 1, 1))


def _conv_of_boxes(x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
    """A volume's convolution whose filters lie side by side: no element is seen twice.

    A box's elements become channels of one pixel, by a copy.
    """
    (n, c, *sizes), (oc, icg, *box) = x.shape, weight.shape
    (od, oh, ow), (kd, kh, kw) = (k // b for k, b in zip(sizes, box, strict=True)), box
    for axis, (count, k) in enumerate(zip((od, oh, ow), box, strict=True)):
        x = narrow(x, axis + 2, 0, count * k)
    parts = permute(reshape(x, (n, c, od, kd, oh, kh, ow, kw)), (0, 1, 3, 5, 7, 2, 4, 6))
    pixels = reshape(contiguous(parts), (n, c * kd * kh * kw, od * oh, ow))
    filters = reshape(weight, (oc, icg * kd * kh * kw, 1, 1))
    return reshape(conv2d(pixels, filters, bias, groups=groups), (n, oc, od, oh, ow))


def _boxes_of_elements(x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
    """A volume's transposed convolution whose filters lie side by side: no sum is of two boxes.

    A pixel's channels become a box's elements, by a copy.
    """
    (n, ic, d, h, w), (_, ocg, kd, kh, kw) = x.shape, weight.shape
    oc, each_box = groups * ocg, kd * kh * kw
    filters = transpose(reshape(weight, (groups, ic // groups, ocg * each_box)), 1, 2)
    filters = reshape(contiguous(filters), (oc * each_box, ic // groups, 1, 1))
    if bias is not None:
        bias = reshape(expand(reshape(bias, (oc, 1)), (oc, each_box)), (oc * each_box,))
    y = conv2d(reshape(x, (n, ic, d * h, w)), filters, bias, groups=groups)
    y = permute(reshape(y, (n, oc, kd, kh, kw, d, h, w)), (0, 1, 5, 2, 6, 3, 7, 4))
    return reshape(contiguous(y), (n, oc, d * kd, h * kh, w * kw))


def _check(name: str, x: Tensor, weight: Tensor, count: int) -> None:
    if x.ndim not in (count + 1, count + 2):
        axes = _AXES[count]
        raise ShapeError(name, f"x is (n, channels, {axes}) or (channels, {axes})", x=x.shape)
    if weight.ndim != count + 2:
        raise ShapeError(name, f"weight has {count + 2} axes", weight=weight.shape)


def _halves(total: int) -> tuple[int, int]:
    return total // 2, total - total // 2


@op(Face.FUNCTION | Face.FUNCTIONAL)
def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """As :func:`conv1d`, over the first axis.

    Args:
        x: ``(time, batch, channels)``, floating.
        weight: ``(window, channels, outputs)``.
        bias: ``(outputs,)``.
        pad: zeros at each end.

    Returns:
        ``(time + 2 pad - window + 1, batch, outputs)``.

    Raises:
        ShapeError: if ``x`` or ``weight`` has not three axes, or sizes do not fit.
    """
    if x.ndim != 3 or weight.ndim != 3:
        law = "x is (time, batch, channels), weight (window, channels, outputs)"
        raise ShapeError("conv_tbc", law, x=x.shape, weight=weight.shape)
    y = conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)
