"""Quantised tensors as the integer kernels have them, and layers that are computed on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError
from ..kernels.conv import ConvGeometry
from ..kernels.integer import (
    IntegerEpilogue,
    Quantisation,
    depthwise_entries,
    stored_channels,
    takes_depthwise,
    takes_filters,
)
from ..kernels.pool import Window
from ..ops import integer
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType, float32, int8, int16, int32, uint8
from .elements import Known, Laid
from .handlers.conv import chosen_pads
from .handlers.pool import windows
from .handlers.quantised import dynamic_range

__all__ = [
    "Images",
    "Layer",
    "Sum",
    "dequantise",
    "layer",
    "maxima",
    "quantise",
    "quantise_dynamically",
    "sum_of_two",
    "taken",
]

_WORD = 4  # channels of a group at least: those of an int
_SHIFT = 128  # between a number of int8 and the one of uint8 that is stored for it


@dataclass(frozen=True)
class Images(Laid):
    """A quantised tensor of the model, channels last.

    Attributes:
        tensor: ``(n, h, w, stored_channels(c))`` uint8; rows of a matrix are pixels.
        shape: the tensor's shape in the model.
        signed: whether it is int8 there, and 128 less than what is stored.
        in_rows: whether its last axis is the channels, else the second of four.
    """

    tensor: Tensor
    shape: tuple[int, ...]
    signed: bool
    in_rows: bool

    @property
    def channels(self) -> int:
        """Channels that there are, without those behind them."""
        return self.shape[-1 if self.in_rows else 1]

    def plain(self) -> Tensor:
        """The tensor as the model has it."""
        y = _shaped(ops.narrow(self.tensor, 3, 0, self.channels), self.shape, in_rows=self.in_rows)
        return ops.sub(y.to(int16), _SHIFT).to(int8) if self.signed else y


def _shaped(y: Tensor, shape: tuple[int, ...], *, in_rows: bool) -> Tensor:
    """What lies channels last, in the model's shape."""
    return y.reshape(shape) if in_rows else ops.permute(y, (0, 3, 1, 2))


def _pixels(x: Tensor, *, in_rows: bool) -> Tensor:
    """A tensor of the model with four axes, the channels second."""
    return x.reshape((prod(x.shape[:-1]), x.shape[-1], 1, 1)) if in_rows else x


def as_images(x: Any, *, in_rows: bool) -> Images:
    """A quantised tensor, however it lies, as images."""
    if isinstance(x, Images) and x.in_rows is in_rows:
        return x
    plain: Tensor = x.plain() if isinstance(x, Images) else x
    signed = plain.dtype is int8
    wide = ops.add(plain.to(int16), _SHIFT).to(uint8) if signed else plain
    last = ops.permute(_pixels(wide, in_rows=in_rows), (0, 2, 3, 1))
    missing = stored_channels(last.shape[3]) - last.shape[3]
    if missing:
        last = ops.cat([last, ops.zeros_like(ops.narrow(last, 3, 0, missing))], 3)
    return Images(ops.contiguous(last), tuple(plain.shape), signed, in_rows)


def quantise(x: Tensor, *, how: Quantisation, signed: bool, in_rows: bool) -> Images:
    """``round(x / scale) + zero``, kept within 8 bits; ``how`` is of what is stored."""
    given = x if x.dtype is float32 else x.to(float32)
    y = integer.quantise_images(_pixels(given, in_rows=in_rows), how)
    return Images(y, tuple(x.shape), signed, in_rows)


def quantise_dynamically(x: Tensor, *, in_rows: bool) -> tuple[Images, Tensor, Tensor]:
    """8 bits by the tensor's own range: images, their scale and zero point."""
    scale, floats = dynamic_range(x)
    point = floats.to(uint8)
    y = integer.quantise_images(_pixels(x, in_rows=in_rows), (scale.reshape(1), point.reshape(1)))
    return Images(y, tuple(x.shape), signed=False, in_rows=in_rows), scale, point


def dequantise(x: Any, *, how: Quantisation, in_rows: bool) -> Tensor:
    """``(x - zero) * scale``; ``how`` is of what is stored."""
    images = as_images(x, in_rows=in_rows)
    y = integer.dequantise_images(images.tensor, how, images.channels)
    return _shaped(y, images.shape, in_rows=in_rows)


@dataclass
class Layer:
    """A convolution, or a product with a matrix that stays, of quantised numbers.

    What the sums are multiplied by and what is stored are those of ONNX's ``QLinearConv``:
    ``round(sum * (x_scale * w_scale / y_scale)) + y_zero``.

    Attributes:
        weight: ``(oc, ic / groups, kh, kw)`` int8.
        bias: ``(oc,)`` int32.
        factor: ``(oc,)`` from sums to floats: ``x_scale * w_scale``.
        given: zero point of what is read.
        output: what is stored, or None for floats.
        low, high: bounds of what is stored, as floats.
        added: what is added before the bounds, if that is quantised.
        signed: whether what is stored is int8 in the model.
        in_rows: whether it is a product.
        sums: whether the sums themselves are the result.
        computed: whether the zero point is given beside the images, and not a constant.
        auto_pad, pads, strides, dilations, groups: as ONNX has them.
    """

    weight: np.ndarray
    bias: np.ndarray
    factor: np.ndarray
    given: int
    output: Quantisation | None = None
    low: float = -inf
    high: float = inf
    added: Quantisation | None = None
    signed: bool = False
    in_rows: bool = False
    sums: bool = False
    computed: bool = False
    auto_pad: str = "NOTSET"
    pads: Sequence[int] | None = None
    strides: Sequence[int] = (1, 1)
    dilations: Sequence[int] = (1, 1)
    groups: int = 1
    _held: tuple[Known, ...] = ()
    _spread: tuple[Known, ...] = ()
    _packed: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def result(self) -> DType:
        """Of what is stored."""
        return int32 if self.sums else float32 if self.output is None else uint8

    def geometry(self, x: Tensor) -> ConvGeometry:
        """The sizes for images."""
        n, h, w, _ = x.shape
        oc, icg, kh, kw = self.weight.shape
        (sh, sw), (dh, dw) = self.strides, self.dilations
        kernel = [kh, kw]
        pads = chosen_pads(self.auto_pad, self.pads, (h, w), kernel, self.strides, self.dilations)
        top, left, bottom, right = pads
        oh = (h + top + bottom - dh * (kh - 1) - 1) // sh + 1
        ow = (w + left + right - dw * (kw - 1) - 1) // sw + 1
        _check(sizes=(oh, ow), steps=(sh, sw, dh, dw))
        sizes = (n, icg * self.groups, h, w, oc, kh, kw, oh, ow)
        return ConvGeometry(*sizes, sh, sw, top, left, dh, dw, self.groups)

    def packed(self, geometry: ConvGeometry, device: Any) -> Any:
        """The filters as the device reads them; kept, but for a trace, which keeps its own."""
        key = str(device)
        found = self._packed.get(key)
        if found is None:
            if not self._held:
                scale = (
                    self.factor
                    if self.output is None
                    else self.factor / np.float32(self.output.scale)
                )
                self._held = tuple(map(Known, (self.weight, self.bias, scale)))
            if takes_depthwise(geometry):
                return self._by_channel(device)
            w, bias, scale = (known.on(device) for known in self._held)
            of_filters = geometry._replace(n=1, h=1, w=1, oh=1, ow=1)
            found = integer.pack_integers(w, bias, scale, of_filters)  # pyrefly: ignore[bad-argument-type]
            if mode.current().tracer is None:
                self._packed[key] = found
        return found

    def _by_channel(self, device: Any) -> tuple[Any, Any]:
        """Filters of a channel each for :func:`.ops.integer.integer_conv`, and their table."""
        if not self._spread:
            w, bias, scale = (known.array for known in self._held)
            count = len(w)
            taps = np.zeros((w[0].size, depthwise_entries(count)), np.float32)
            table = np.zeros((3, taps.shape[1]), np.int32)
            taps[:, :count] = w.reshape(count, -1).T
            table[:, :count] = (
                bias,
                w.reshape(count, -1).sum(1, dtype=np.int64),
                scale.view(np.int32),
            )
            self._spread = Known(taps), Known(table)
        taps, table = self._spread
        return taps.on(device), table.on(device)


def _check(*, sizes: Sequence[int], steps: Sequence[int]) -> None:
    """Refuse windows that move backwards, or do not fit."""
    if min(sizes) < 1 or min(steps) < 1:
        raise ArgumentError(
            "onnx", "windows fit into the image and move on", result=sizes, steps=steps
        )


def taken(filters: Sequence[int], groups: int) -> bool:
    """Whether the kernels take filters ``(oc, ic / groups, kh, kw)``: channels by fours, or one."""
    oc, icg, kh, kw = filters
    return groups == 1 or icg >= _WORD or (icg == 1 and groups == oc and takes_filters(kh, kw))


def layer(x: Any, more: Any = None, *, does: Layer) -> Any:
    """What a layer makes of a quantised tensor, and perhaps of what is added to its result.

    Where it is computed, ``more`` is the tensor's zero point.
    """
    point, more = (more, None) if does.computed else (None, more)
    images = as_images(x, in_rows=does.in_rows)
    g = does.geometry(images.tensor)
    if images.channels != g.ic or g.oc % g.groups:
        raise ArgumentError(
            *("onnx", "filters are of the channels that there are"),
            channels=images.channels,
            filters=does.weight.shape,
            group=does.groups,
        )
    lead = images.shape[:-1]
    shape = (*lead, g.oc) if does.in_rows else (g.n, g.oc, g.oh, g.ow)
    if more is not None and tuple(more.shape) != shape:
        return _spread(x, more, does)
    added = None
    if isinstance(more, Tensor) and does.added is None:
        added = ops.permute(_pixels(more, in_rows=does.in_rows), (0, 2, 3, 1))
    elif more is not None:
        added = as_images(more, in_rows=does.in_rows).tensor
    unit = 1.0 if does.output is None else does.output.scale
    y = integer.integer_conv(
        images.tensor,
        does.packed(g, images.tensor.device),
        g,
        given=Quantisation(unit, does.given),
        epilogue=IntegerEpilogue(does.output, does.low, does.high, does.added),
        result=does.result,
        added=added,
        point=None if point is None else point.reshape((1,)),
    )
    if does.output is not None:
        return Images(y, shape, does.signed, does.in_rows)
    return _shaped(y, shape, in_rows=does.in_rows)


def _spread(x: Any, more: Any, does: Layer) -> Any:
    """A layer behind which something of another shape is added, as floats."""
    plain = replace(
        does,
        output=None,
        low=-inf,
        high=inf,
        added=None,
        _held=(),
        _spread=(),
        _packed=dict[str, Any](),
    )
    y = layer(x, does=plain)
    if does.added is not None:
        more = dequantise(more, how=does.added, in_rows=does.in_rows)
    y = _bounded(ops.add(y, more), does.low, does.high)
    if does.output is None:
        return y
    return quantise(y, how=does.output, signed=does.signed, in_rows=does.in_rows)


def maxima(
    x: Any,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Images:
    """Maxima over windows of quantised images."""
    images = as_images(x, in_rows=False)
    n, h, w, _ = images.tensor.shape
    steps, ones = list(strides or (1, 1)), (1, 1)
    chosen = chosen_pads(auto_pad, pads, (h, w), kernel_shape, steps, ones)
    size, _ = windows((h, w), kernel_shape, steps, ones, chosen, ceil=bool(ceil_mode))
    _check(sizes=size, steps=steps)
    window = Window(*kernel_shape, *steps, *chosen[:2])
    y = integer.integer_max_pool(images.tensor, window, (size[0], size[1]))
    return Images(y, (n, images.shape[1], *size), images.signed, in_rows=False)


@dataclass(frozen=True)
class Sum:
    """Two quantised tensors added, within bounds, and quantised: op by op as ONNX has it.

    Attributes:
        left, right, output: what is stored of them.
        low, high: bounds of the sum.
        signed: whether the result is int8 in the model.
    """

    left: Quantisation
    right: Quantisation
    output: Quantisation
    low: float
    high: float
    signed: bool


def sum_of_two(x: Any, other: Any, *, does: Sum) -> Images:
    """The sum of two quantised tensors, which may be spread to each other's shape."""
    if isinstance(x, Images) and isinstance(other, Images) and x.shape == other.shape:
        pair = [as_images(v, in_rows=x.in_rows) for v in (x, other)]
        given, bounds = (does.left, does.right), (does.low, does.high)
        y = integer.add_images(pair[0].tensor, pair[1].tensor, given, bounds, does.output)
        return Images(y, x.shape, does.signed, x.in_rows)
    floats = [
        dequantise(v, how=how, in_rows=len(v.shape) != 4)
        for v, how in ((x, does.left), (other, does.right))
    ]
    y = _bounded(ops.add(*floats), does.low, does.high)
    return quantise(y, how=does.output, signed=does.signed, in_rows=y.ndim != 4)


def _bounded(y: Tensor, low: float, high: float) -> Tensor:
    if low == 0 and high == inf:
        return ops.relu(y)
    return y if low == -inf and high == inf else ops.clamp(y, low, high)
