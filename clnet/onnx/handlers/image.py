"""Images: another size, samples of a grid, windows of regions, patches put back."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError, DataError, shortened
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import Kind, bool_, float32, int64
from ..registry import Host, handler


@dataclass(frozen=True)
class Sampling:
    """How an axis is given another size.

    Attributes:
        mode: ``"nearest"``, ``"linear"`` or ``"cubic"``.
        coordinates: which place of the input a place of the result comes from.
        nearest: how such a place is rounded.
        cubic: the cubic's coefficient.
        exclude: whether what lies outside has no weight, else it is the edge.
        antialias: whether a smaller result is of wider windows.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool


def _places(
    how: Sampling, size: int, made: int, scale: float, region: tuple[float, float]
) -> np.ndarray:
    """Of each element of the result its place in the input."""
    y = np.arange(made, dtype=np.float64)
    name = how.coordinates
    whole = scale * size  # with scales given, no whole number
    if name == "align_corners":
        return y * (size - 1) / (whole - 1) if whole != 1 else np.zeros(made)
    if name == "asymmetric":
        return y / scale
    if name == "tf_half_pixel_for_nn":  # of opsets 11 and 12: the middle of the nearest element
        return (y + 0.5) / scale
    if name == "tf_crop_and_resize":
        start, end = region
        if whole == 1:
            return np.full(made, (start + end) * (size - 1) / 2)
        return start * (size - 1) + y * (end - start) * (size - 1) / (whole - 1)
    if name == "pytorch_half_pixel" and made == 1:
        return np.full(1, -0.5)
    middle = (y + 0.5) / scale - 0.5
    if name == "half_pixel_symmetric":
        return size / 2 * (1 - made / whole) + middle
    if name not in {"half_pixel", "pytorch_half_pixel"}:
        raise ArgumentError("onnx", "Resize knows these coordinates", given=name)
    return middle


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weights_of(how: Sampling, size: int, places: np.ndarray, scale: float) -> np.ndarray:
    """What each element of the result takes of each of the input: ``(made, size)``."""
    reach = 1 if how.mode == "linear" else 2
    shrink = min(scale, 1.0) if how.antialias else 1.0
    radius = reach / shrink
    low = np.floor(places).astype(int) - math.ceil(radius)
    taps = low[:, None] + np.arange(2 * math.ceil(radius) + 2)
    distance = (taps - places[:, None]) * shrink
    if how.mode == "linear":
        found = np.clip(1 - np.abs(distance), 0, None)
    else:
        found = _cubic(distance, how.cubic)
    if how.exclude:
        found = np.where((taps < 0) | (taps >= size), 0.0, found)
    if how.exclude or how.antialias:
        found = found / found.sum(1, keepdims=True)
    table = np.zeros((len(places), size))
    rows = np.repeat(np.arange(len(places)), taps.shape[1])
    np.add.at(table, (rows, np.clip(taps, 0, size - 1).reshape(-1)), found.reshape(-1))
    return table


def _rounded(places: np.ndarray, how: str) -> np.ndarray:
    low = np.floor(places)
    rest = places - low
    if how == "floor":
        return low
    if how == "ceil":
        return np.ceil(places)
    return low + (rest > 0.5 if how == "round_prefer_floor" else rest >= 0.5)


def resized(
    x: Tensor,
    axis: int,
    made: int,
    scale: float,
    how: Sampling,
    region: tuple[float, float],
    outside: float,
) -> Tensor:
    """An axis with another size; the weights are of shapes alone, the sums are the device's."""
    size = x.shape[axis]
    places = _places(how, size, made, scale, region)
    if how.mode == "nearest":
        picked = np.clip(_rounded(places, how.nearest), 0, size - 1).astype(np.int64)
        y = ops.index_select(x, axis, x.new_tensor(picked, dtype=int64))
    else:
        table = weights_of(how, size, places, scale).astype(np.float32)
        on_device = x.new_tensor(table).to(x.dtype)
        y = ops.movedim(
            ops.matmul(ops.movedim(x, axis, -1), ops.transpose(on_device, 0, 1)), -1, axis
        )
    if how.coordinates == "tf_crop_and_resize":
        beyond = (places < 0) | (places > size - 1)
        if beyond.any():
            shape = [1] * x.ndim
            shape[axis] = -1
            mask = x.new_tensor(beyond, dtype=bool_).reshape(shape)
            y = ops.where(mask, ops.full_like(y, outside), y)
    return y


def _scales(
    x: Tensor, axes: Sequence[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[float], list[int]]:
    """Factors and sizes of the axes that change."""
    if sizes is None:
        factors = [float(s) for s in scales]
        return factors, [math.floor(x.shape[a] * f) for a, f in zip(axes, factors, strict=True)]
    wanted = [int(n) for n in sizes]
    factors = [n / x.shape[a] for a, n in zip(axes, wanted, strict=True)]
    if policy != "stretch":
        one = min(factors) if policy == "not_larger" else max(factors)
        factors = [one] * len(factors)
        wanted = [math.floor(one * x.shape[a] + 0.5) for a in axes]
    return factors, wanted


@handler("Upsample")
def upsample_old(x: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    """As :func:`upsample`, by an attribute."""
    return upsample(x, np.array(scales), mode=mode)


@handler("Upsample", since=9)
def upsample(x: Tensor, scales: Host, *, mode: str = "nearest") -> Tensor:
    """What became ``Resize``; elements that are repeated, as most do, are one launch."""
    times = [int(s) for s in scales]
    if mode == "nearest" and 3 <= x.ndim <= 5 and times[:2] == [1, 1] and (scales == times).all():
        sizes = [n * s for n, s in zip(x.shape, times, strict=True)]
        return functional.interpolate(x, size=sizes[2:], mode="nearest")
    return resize_old(x, scales, mode=mode)


@handler("Resize", since=10)
def resize_old(x: Tensor, scales: Host, *, mode: str = "nearest") -> Tensor:
    """Another size, counted from the corner; nearest is above in what shrinks, below in others."""
    for part, nearest in ((np.minimum(scales, 1), "ceil"), (np.maximum(scales, 1), "floor")):
        x = resize(
            x,
            None,
            part,
            None,
            mode=mode,
            coordinate_transformation_mode="asymmetric",
            nearest_mode=nearest,
        )
    return x


@handler("Resize", since=11)
def resize(
    x: Tensor,
    roi: Host | None = None,
    scales: Host | None = None,
    sizes: Host | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Another size: the nearest elements, or sums of neighbours along each axis."""
    chosen = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    scales = None if scales is None or not len(scales) else scales
    if scales is None and sizes is None:
        raise ArgumentError("onnx", "Resize has scales or sizes")
    factors, made = _scales(x, chosen, scales, sizes, keep_aspect_ratio_policy)
    how = Sampling(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
    )
    cut = how.coordinates == "tf_crop_and_resize"
    if cut and roi is None:
        raise ArgumentError("onnx", "a crop has a region")
    bounds = [float(v) for v in np.asarray(roi)] if cut else []
    y = x.to(float32) if x.dtype.kind is Kind.INTEGER and mode != "nearest" else x
    for i, axis in enumerate(chosen):
        region = (bounds[i], bounds[len(chosen) + i]) if cut else (0.0, 1.0)
        if factors[i] != 1 or made[i] != x.shape[axis] or region != (0.0, 1.0):
            y = resized(y, axis, made[i], factors[i], how, region, extrapolation_value)
    if y.dtype is not x.dtype:  # sums beyond the type's range stay at its end
        y = ops.round(y)
        if x.dtype.itemsize < 4:
            ends = np.iinfo(x.dtype.numpy)
            y = ops.clamp(y, ends.min, ends.max)
    return y.to(x.dtype)


@handler("GridSample", since=16)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """The image at the places of a grid, in 2 or 3 axes."""
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return functional.grid_sample(
        x, grid.to(x.dtype), names.get(mode, mode), padding_mode, bool(align_corners)
    )


@handler("AffineGrid", since=20)
def affine_grid(theta: Tensor, size: Host, *, align_corners: int = 0) -> Tensor:
    """The places that an affine map gives a grid of a size."""
    return functional.affine_grid(theta, [int(n) for n in size], bool(align_corners))


@handler("Col2Im", since=18)
def col2im(
    x: Tensor,
    image_shape: Host,
    block_shape: Host,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Patches added into an image of any number of axes."""
    image, block = [int(n) for n in image_shape], [int(n) for n in block_shape]
    axes = len(image)
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    pads = list(pads or [0] * (2 * axes))
    counts = [
        (n + pads[i] + pads[axes + i] - d * (k - 1) - 1) // s + 1
        for i, (n, k, s, d) in enumerate(zip(image, block, strides, dilations, strict=True))
    ]
    wide = [n + pads[i] + pads[axes + i] for i, n in enumerate(image)]
    flat = np.zeros([*block, *counts], dtype=np.int64)
    for i, (k, c) in enumerate(zip(block, counts, strict=True)):
        place = (np.arange(k) * dilations[i]).reshape(-1, 1) + np.arange(c) * strides[i]
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = k, c
        flat = flat * wide[i] + place.reshape(shape)
    channels = x.shape[1] // math.prod(block)
    values = x.reshape((x.shape[0], channels, math.prod(block) * math.prod(counts)))
    index = ops.broadcast_to(x.new_tensor(flat.reshape(-1), dtype=int64), values.shape)
    empty = ops.new_zeros(x, (x.shape[0], channels, math.prod(wide)))
    y = ops.scatter_add(empty, 2, index, values).reshape((x.shape[0], channels, *wide))
    for i, n in enumerate(image):
        y = ops.narrow(y, 2 + i, pads[i], n)
    return y


@handler("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Host, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """Maxima of the cells of regions ``(image, x1, y1, x2, y2)``, bounds included; 0 of no cell."""
    height, width = (int(n) for n in pooled_shape)
    if not len(rois):
        return ops.new_zeros(x, (0, x.shape[1], height, width))
    made: list[Tensor] = []
    for image, *corners in np.asarray(rois, np.float64):
        x1, y1, x2, y2 = (
            math.floor(abs(v) + 0.5) * np.sign(v) for v in np.multiply(corners, spatial_scale)
        )
        plane = ops.select(x, 0, int(image))
        rows, columns = _cells(y1, y2, height, x.shape[2]), _cells(x1, x2, width, x.shape[3])
        cells = [_largest(plane, row, column) for row in rows for column in columns]
        made.append(ops.stack(cells, -1).reshape((x.shape[1], height, width)))
    return ops.stack(made, 0)


def _cells(first: float, last: float, count: int, size: int) -> list[tuple[int, int]]:
    """Where each of the cells of a region begins and ends along an axis of an image."""
    step = max(last - first + 1, 1) / count
    low = [math.floor(i * step) + first for i in range(count)]
    high = [math.ceil((i + 1) * step) + first for i in range(count)]
    return [
        (int(np.clip(a, 0, size)), int(np.clip(b, 0, size))) for a, b in zip(low, high, strict=True)
    ]


def _largest(plane: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """The maxima of a cell: ``(c,)``."""
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        return ops.new_zeros(plane, (plane.shape[0],))
    return ops.amax(plane[:, slice(*rows), slice(*columns)], (1, 2))


@handler("RoiAlign", since=10)
def roi_align(
    x: Tensor,
    rois: Host,
    batches: Host,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int = 16,
) -> Tensor:
    """Means or maxima of samples in each cell of regions; the samples' places are the host's."""
    named = coordinate_transformation_mode or ("half_pixel" if opset >= 16 else "output_half_pixel")
    half = named == "half_pixel"
    corners = np.asarray(rois, np.float64) * spatial_scale - (0.5 if half else 0.0)
    made: list[Tensor] = []
    for (x1, y1, x2, y2), batch in zip(corners, np.asarray(batches), strict=True):
        extent = y2 - y1, x2 - x1
        if not half:
            extent = max(extent[0], 1.0), max(extent[1], 1.0)
        rows = _samples(y1, extent[0], output_height, sampling_ratio)
        columns = _samples(x1, extent[1], output_width, sampling_ratio)
        plane = ops.select(x, 0, int(batch))
        made.append(_pooled(plane, rows, columns, mode, output_height, output_width))
    return (
        ops.stack(made, 0)
        if made
        else ops.new_zeros(x, (0, x.shape[1], output_height, output_width))
    )


def _samples(start: float, extent: float, cells: int, ratio: int) -> np.ndarray:
    """The places of samples along an axis, those of a cell together."""
    each = ratio if ratio > 0 else max(1, math.ceil(extent / cells))
    step = extent / cells
    inner = (np.arange(each) + 0.5) * step / each
    return (start + np.arange(cells)[:, None] * step + inner).reshape(-1)


def _taps(places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The two elements beside each place, and their weights; none outside."""
    inside = (places >= -1) & (places <= size)
    at = np.clip(places, 0, size - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    up = at - low
    return low, high, (1 - up) * inside, up * inside


def _pooled(
    plane: Tensor, rows: np.ndarray, columns: np.ndarray, mode: str, height: int, width: int
) -> Tensor:
    """One region's cells: ``(c, height, width)``."""
    c, h, w = plane.shape
    row_taps, column_taps = _taps(rows, h), _taps(columns, w)
    terms: list[Tensor] = []
    for i in (0, 1):
        lines = ops.index_select(plane, 1, plane.new_tensor(row_taps[i], dtype=int64))
        for j in (0, 1):
            found = ops.index_select(lines, 2, plane.new_tensor(column_taps[j], dtype=int64))
            weight = np.outer(row_taps[2 + i], column_taps[2 + j]).astype(np.float32)
            terms.append(found * plane.new_tensor(weight).to(plane.dtype))
    shape = (c, height, len(rows) // height, width, len(columns) // width)
    if mode == "max":
        best = terms[0]
        for term in terms[1:]:
            best = ops.maximum(best, term)
        return ops.amax(best.reshape(shape), [2, 4])
    total = terms[0] + terms[1] + terms[2] + terms[3]
    return ops.mean(total.reshape(shape), [2, 4])


@handler("ImageDecoder", since=20)
def image_decoder(stream: Host, *, pixel_format: str = "RGB") -> Host:
    """The picture in a file's bytes, rows first; files are the host's business."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ArgumentError(
            "onnx", "pictures are read by Pillow", remedy="pip install 'clnet[data]'"
        ) from error
    try:
        picture = Image.open(io.BytesIO(np.asarray(stream, np.uint8).tobytes()))
        if pixel_format == "Grayscale":
            return np.asarray(picture.convert("L"))[:, :, None]
        found = np.asarray(picture.convert("RGB"))
    except (OSError, ValueError) as error:
        raise DataError("onnx", f"a picture can be read: {shortened(error)}") from error
    return np.ascontiguousarray(found[:, :, ::-1]) if pixel_format == "BGR" else found
