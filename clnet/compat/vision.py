"""torchvision without its compiled part: operators that its detectors call, made of clnet's ops.

Its wheel loads a library where that finds PyTorch, and asks at each call whether it did. Nothing
of it is loaded; ``torch.ops.torchvision`` has non-maximum suppression, pooling of regions by
sampling, and deformable convolution. 16-bit floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..creation import arange
from ..errors import ShapeError
from ..values.dtypes import bfloat16, float16, float32, float64, int32, int64

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["OPERATORS", "Operator", "is_library"]

_BLOCK = 2048
"""Boxes that are compared with each other at once: 4 million pairs."""
_AT_ONCE = 1 << 24
"""Elements that are gathered at once before they are summed: 64 MiB of float32."""


def is_library(path: Any) -> bool:
    """Whether a file is torchvision's compiled part, but for that of pictures in files."""
    file = Path(str(path))
    return file.parent.name == "torchvision" and file.name.startswith("_C.")


class Operator:
    """A function with an operator's only overload.

    Args:
        function: what it computes.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.default = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return self._function(*args, **kwargs)


def _wide(x: Tensor) -> Tensor:
    return x.to(float32) if x.dtype in (float16, bfloat16) else x


def _places(like: Tensor, count: int, dtype: Any = int64) -> Tensor:
    return arange(count, dtype=dtype, device=like.device)


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Places of boxes that no better one covers, best first."""
    if dets.ndim != 2 or dets.shape[1] != 4 or scores.shape != dets.shape[:1]:
        law = "boxes are (n, 4), scores (n,)"
        raise ShapeError("torchvision.nms", law, dets=dets.shape, scores=scores.shape)
    order = ops.argsort(scores.detach(), descending=True, stable=True)
    boxes = _wide(dets.detach())[order]
    limit = _below(iou_threshold) if boxes.dtype is float32 else iou_threshold
    kept: list[Tensor] = []
    found: list[Tensor] = []
    for start in range(0, boxes.shape[0], _BLOCK):
        block = boxes[start : start + _BLOCK]
        place = _places(block, block.shape[0])
        free = place >= 0
        for better in kept:
            free = free & ~_covers(better, block, limit).any(0)
        free = _greedy(_covers(block, block, limit) & (place[:, None] < place), free)
        places = free.nonzero()[:, 0]
        kept.append(block[places])
        found.append(places + start)
    return order[ops.cat(found)] if found else order


def _below(threshold: float) -> float:
    """The largest float32 that is no larger, since torchvision compares with the double."""
    narrow = np.float32(threshold)
    if float(narrow) > threshold:
        narrow = np.nextafter(narrow, np.float32(-np.inf))
    return float(narrow)


def _covers(a: Tensor, b: Tensor, threshold: float) -> Tensor:
    """``(of a, of b)``: whether intersection over union is above the threshold."""
    low = ops.maximum(a[:, None, :2], b[:, :2])
    sides = (ops.minimum(a[:, None, 2:], b[:, 2:]) - low).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    areas = [(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b)]
    return both / (areas[0][:, None] + areas[1] - both) > threshold


def _greedy(covers: Tensor, free: Tensor) -> Tensor:
    """Which of ``free`` are kept if each that is kept drops those that it covers, in order.

    A round decides every box whose better ones are decided, so nothing changes any more after as
    many rounds as the longest chain has boxes, and only the right answer does not change.
    """
    keep = free
    while True:
        again = free & ~(covers & keep[:, None]).any(0)
        if bool((again == keep).all()):
            return keep
        keep = again


def _weighted(rows: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """``(bags, width)``: the sum over ``n`` of rows at ``(bags, n)`` places by their weights."""
    bags, n = places.shape
    step = max(1, _AT_ONCE // max(bags * rows.shape[1], 1))
    total: Any = 0
    for i in range(0, n, step):
        part = ops.embedding(places[:, i : i + step], rows) * weights[:, i : i + step, None]
        total = total + part.sum(1)
    return total if n else rows.new_zeros(bags, rows.shape[1])


def _sampled(start: Tensor, size: Tensor, bins: int, ratio: int, extent: int) -> Any:
    """Places and weights, ``(regions, bins, 2 samples)``, of a region's bins along one axis."""
    step = (size / bins)[:, None, None]
    grid = ops.ceil(step) if ratio <= 0 else ops.full_like(step, ratio)
    count = ratio if ratio > 0 else max(int(grid.max().item()), 0) if grid.numel() else 0
    sample = _places(size, count, size.dtype)
    begin = start[:, None, None] + _places(size, bins, size.dtype)[:, None] * step
    at = begin + (sample + 0.5) * step / grid.clamp(min=1)
    inside = (at >= -1) & (at <= extent) & (sample < grid)
    at = ops.where(inside, at, 0.0).clamp(min=0)
    low = ops.floor(at).clamp(max=extent - 1)
    beyond = ops.where(low >= extent - 1, 0.0, at - low)
    share = ops.where(inside, 1.0 / grid.clamp(min=1), 0.0)
    place = low.to(int64)
    weights = ops.cat([(1 - beyond) * share, beyond * share], -1)
    return ops.cat([place, (place + 1).clamp(max=extent - 1)], -1), weights


def _pooled(
    rows: Tensor, first: Tensor, shape: tuple[int, int], rois: Tensor, settings: Any
) -> Tensor:
    """``(regions, width, bins high, bins wide)``: means of samples of regions.

    Args:
        rows: a pixel's channels; dense pictures of a shape.
        first: ``(regions, bins high, bins wide)``, or broadcast to it: a picture's first row.
        shape: height and width of a picture.
        rois: ``(regions, 5)``: the picture's number and two corners.
        settings: scale, bins high, bins wide, samples of a bin along an axis, and whether pixels
            are at their middles.
    """
    scale, high, wide, ratio, aligned = settings
    corners = rois[:, 1:] * scale - (0.5 if aligned else 0.0)
    size = corners[:, 2:] - corners[:, :2]
    size = size if aligned else size.clamp(min=1.0)
    y, of_y = _sampled(corners[:, 1], size[:, 1], high, ratio, shape[0])
    x, of_x = _sampled(corners[:, 0], size[:, 0], wide, ratio, shape[1])
    places = y[:, :, None, :, None] * shape[1] + x[:, None, :, None, :]
    places = places + first[:, :, :, None, None]
    weights = of_y[:, :, None, :, None] * of_x[:, None, :, None, :]
    bags = (rois.shape[0] * high * wide, y.shape[-1] * x.shape[-1])
    found = _weighted(rows, places.reshape(bags), weights.reshape(bags))
    return found.reshape(rois.shape[0], high, wide, rows.shape[1]).permute(0, 3, 1, 2).contiguous()


def _regions(name: str, x: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The pictures and regions in one dtype; regions have no gradient, as in torchvision."""
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5:
        law = "the input is (n, c, h, w), rois are (k, 5)"
        raise ShapeError(f"torchvision.{name}", law, input=x.shape, rois=rois.shape)
    dtype = float64 if x.dtype is float64 else float32
    return x.to(dtype), rois.detach().to(dtype)


def _roi_align(
    input: Tensor,  # noqa: A002 - torchvision's name
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,  # noqa: FBT001 - its place
) -> Tensor:
    """Means of samples between pixels in each bin of each region."""
    pictures, regions = _regions("roi_align", input, rois)
    n, c, h, w = pictures.shape
    rows = pictures.permute(0, 2, 3, 1).reshape(n * h * w, c)
    first = (regions[:, 0].to(int64) * (h * w))[:, None, None]
    settings = (spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return _pooled(rows, first, (h, w), regions, settings).to(input.dtype)


def _ps_roi_align(
    input: Tensor,  # noqa: A002 - torchvision's name
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:
    """The same, each bin of channels of its own, and which channels."""
    pictures, regions = _regions("ps_roi_align", input, rois)
    n, c, h, w = pictures.shape
    bins = pooled_height * pooled_width
    if c % bins:
        law = "channels are a multiple of the bins"
        raise ShapeError("torchvision.ps_roi_align", law, input=input.shape, bins=bins)
    rows = pictures.reshape(n, c // bins, bins, h, w).permute(0, 2, 3, 4, 1)
    rows = rows.reshape(n * bins * h * w, c // bins)
    bin_ = _places(rows, bins).reshape(pooled_height, pooled_width)
    first = (regions[:, 0].to(int64)[:, None, None] * bins + bin_) * (h * w)
    settings = (spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    found = _pooled(rows, first, (h, w), regions, settings).to(input.dtype)
    channels = _places(rows, c // bins)[:, None, None] * bins + bin_
    return found, channels.to(int32).expand(found.shape)


def _beside(at: Tensor, extent: int) -> tuple[Tensor, Tensor]:
    """Two places next to each coordinate and their weights, 0 outside; ``(..., 2)``."""
    low = ops.floor(at.detach())
    beyond = at - low
    places = ops.stack([low, low + 1], -1)
    inside = (places >= 0) & (places <= extent - 1)
    weights = ops.where(inside, ops.stack([1 - beyond, beyond], -1), 0.0)
    return ops.where(inside, places, 0.0).to(int64), weights


def _deform_conv2d(
    input: Tensor,  # noqa: A002 - torchvision's names and places
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,  # noqa: FBT001
) -> Tensor:
    """A convolution whose taps are moved by offsets and weighted by a mask."""
    (n, c, h, w), (oc, _, kh, kw) = input.shape, weight.shape
    oh = (h + 2 * pad_h - dilation_h * (kh - 1) - 1) // stride_h + 1
    ow = (w + 2 * pad_w - dilation_w * (kw - 1) - 1) // stride_w + 1
    taps, g = kh * kw, offset_groups
    if offset.shape != (n, 2 * g * taps, oh, ow) or (
        use_mask and mask.shape != (n, g * taps, oh, ow)
    ):
        law = f"offsets are ({n}, {2 * g * taps}, {oh}, {ow}), masks have half as many channels"
        shapes = {"input": input.shape, "weight": weight.shape, "mask": mask.shape}
        raise ShapeError("torchvision.deform_conv2d", law, offset=offset.shape, **shapes)
    pictures, moved = _wide(input), _wide(offset).reshape(n, g, kh, kw, 2, oh, ow)
    row = _places(moved, oh, moved.dtype) * stride_h - pad_h
    column = _places(moved, ow, moved.dtype) * stride_w - pad_w
    down = _places(moved, kh, moved.dtype) * dilation_h
    right = _places(moved, kw, moved.dtype) * dilation_w
    y, of_y = _beside(moved[:, :, :, :, 0] + (down[:, None, None, None] + row[:, None]), h)
    x, of_x = _beside(moved[:, :, :, :, 1] + (right[:, None, None] + column), w)
    picture = _places(moved, n * g).reshape(n, g, 1, 1, 1, 1, 1, 1) * (h * w)
    places = picture + y[..., :, None] * w + x[..., None, :]
    weights = of_y[..., :, None] * of_x[..., None, :]
    if use_mask:
        weights = weights * _wide(mask).reshape(n, g, kh, kw, oh, ow, 1, 1)
    rows = pictures.reshape(n, g, c // g, h, w).permute(0, 1, 3, 4, 2)
    bags = (n * g * taps * oh * ow, 4)
    rows = rows.reshape(n * g * h * w, c // g)
    found = _weighted(rows, places.reshape(bags), weights.reshape(bags))
    found = found.reshape(n, g, taps, oh * ow, c // g).permute(0, 1, 4, 2, 3)
    columns = found.reshape(n, groups, c // groups * taps, oh * ow)
    filters = _wide(weight).reshape(groups, oc // groups, c // groups * taps)
    result = ops.matmul(filters, columns).reshape(n, oc, oh, ow)
    return (result + _wide(bias)[:, None, None]).to(input.dtype)


def _cuda_version() -> int:
    return -1


OPERATORS: dict[str, Operator] = {
    f"torchvision::{f.__name__[1:]}": Operator(f)
    for f in (_nms, _roi_align, _ps_roi_align, _deform_conv2d)
} | {"torchvision::_cuda_version": Operator(_cuda_version)}
"""Those that it calls."""
