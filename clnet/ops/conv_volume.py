"""Convolutions of volumes: on CPUs an op of its own, else those of images.

What compiled functions record is those of images, whose layouts their passes know: blocked by
channels they take Winograd's transforms. Those that keep eager execution's bits record volumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..array import Array
from ..device import Launch, Target
from ..kernels.conv import (
    VolumeGeometry,
    volume_forward,
    volume_input_grad,
    volume_weight_grad,
    volumes_pay,
)
from ..values import mode
from ..values.dtypes import float32, float64
from ..values.shapes import Shape
from .axis_map import Table, map_axis
from .conv import conv2d, gradients_of
from .conv_settings import Pair, settings_of
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply
from .shape import contiguous, permute, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class VolumeSettings:
    """How filters move over a volume.

    Attributes:
        stride, dilation: in depth, vertical and horizontal.
        deep: planes of zeros before the first and behind the last.
        padding: of planes, as :func:`.conv2d` takes it.
        groups: groups of channels.
    """

    stride: Triple
    deep: Pair
    padding: str | Pair
    dilation: Triple
    groups: int

    def geometry(self, x: Shape, weight: Shape) -> VolumeGeometry:
        """The sizes of the convolution of volumes of shape ``x`` with ``weight``."""
        return _geometry(self, x, weight)


@lru_cache(maxsize=1024)
def _geometry(settings: VolumeSettings, x: Shape, weight: Shape) -> VolumeGeometry:
    (sd, *stride), (dd, *dilation), (before, after) = (
        settings.stride,
        settings.dilation,
        settings.deep,
    )
    (n, c, depth, h, w), (oc, icg, kd, kh, kw) = x, weight
    filters = (oc, icg, kh, kw)
    plane = settings_of(
        "conv3d", filters, stride, settings.padding, dilation, settings.groups, (False, None)
    ).geometry((n, c, h, w), filters)
    od = (depth + before + after - dd * (kd - 1) - 1) // sd + 1
    return VolumeGeometry(plane, depth, kd, od, sd, before, dd)


class ConvVolume(Function):
    """``y[n, o] = sum_c x[n, c] * weight[o, c] + bias[o]`` over volumes.

    Attributes:
        settings: how filters move.
    """

    sixteen_bit = False
    repeats = True

    settings: VolumeSettings
    op_name = "conv3d"

    def infer(self, x: Array, weight: Array, *bias: Array) -> tuple[Array, ...]:
        """``(n, oc, od, oh, ow)``."""
        g = self.settings.geometry(x.shape, weight.shape)
        shape = (x.shape[0], weight.shape[0], g.od, g.plane.oh, g.plane.ow)
        return (Array.abstract(shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The forward convolution, with its bias."""
        x, weight, *bias = inputs
        g = self.settings.geometry(x.shape, weight.shape)
        return volume_forward(target, outputs[0], x, weight, g, bias[0] if bias else None)

    def saves(self, needs: Needs) -> tuple[list[int], list[int]]:
        """Each operand is needed for the other's gradient."""
        return [i for i in (0, 1) if needs[1 - i]], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The two gradient ops, and the sum over volumes and pixels."""
        ways = (ConvVolumeInputGrad, ConvVolumeWeightGrad)
        return gradients_of(self.settings, ways, saved, grads, needs)

    def decompose(self, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        """By images."""
        return by_planes(x, weight, bias[0] if bias else None, self.settings)


class ConvVolumeInputGrad(Function):
    """The gradient that arrives at ``x`` of a convolution of volumes."""

    sixteen_bit = False
    repeats = True

    settings: VolumeSettings
    x_shape: Shape
    op_name = "conv3d_input_grad"

    def infer(self, gy: Array, weight: Array) -> tuple[Array, ...]:
        """The shape of ``x``."""
        return (Array.abstract(self.x_shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The input gradient."""
        gy, weight = inputs
        g = self.settings.geometry(self.x_shape, weight.shape)
        return volume_input_grad(target, outputs[0], gy, weight, g)


class ConvVolumeWeightGrad(Function):
    """The gradient that arrives at ``weight`` of a convolution of volumes."""

    sixteen_bit = False
    repeats = True

    settings: VolumeSettings
    weight_shape: Shape
    op_name = "conv3d_weight_grad"

    def infer(self, gy: Array, x: Array) -> tuple[Array, ...]:
        """The shape of ``weight``."""
        return (Array.abstract(self.weight_shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The weight gradient."""
        gy, x = inputs
        g = self.settings.geometry(x.shape, self.weight_shape)
        return volume_weight_grad(target, outputs[0], gy, x, g)


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, settings: VolumeSettings) -> Tensor:
    """A convolution of volumes, whose depths fit.

    Args:
        x: ``(n, ic, d, h, w)``.
        weight: ``(oc, ic / groups, kd, kh, kw)``.
        bias: ``(oc,)``, or None.
        settings: how filters move.

    Raises:
        ShapeError: if the shapes do not fit each other.
        ArgumentError: if a setting is out of its range.
        DtypeError: if the dtypes differ.
    """
    operands = (x, weight) if bias is None else (x, weight, bias)
    if _directly(operands, settings):
        return apply(ConvVolume(settings), *map(contiguous, operands))
    return by_planes(x, weight, bias, settings)


def _directly(operands: tuple[Tensor, ...], settings: VolumeSettings) -> bool:
    """Whether volumes are one op; what does not fit has convolutions of images say what."""
    x, weight, *bias = operands
    now = mode.current()
    if now.conv_algorithm is not None or (now.tracer is not None and not now.tracer.keeps_bits):
        return False
    if x.dtype not in (float32, float64) or any(t.dtype is not x.dtype for t in operands):
        return False
    channels, groups = weight.shape[0], settings.groups
    if groups < 1 or channels % groups or x.shape[1] != weight.shape[1] * groups:
        return False
    if (bias and bias[0].shape != (channels,)) or 0 in x.shape or 0 in weight.shape:
        return False
    g = settings.geometry(tuple(x.shape), tuple(weight.shape))
    sizes = (g.plane.oh, g.plane.ow)
    return min(sizes) > 0 and volumes_pay(x.device.target, g, x.dtype.itemsize)


def by_planes(x: Tensor, weight: Tensor, bias: Tensor | None, settings: VolumeSettings) -> Tensor:
    """A volume's convolution by one of images: taps in depth become channels of these.

    The arguments are those of :func:`convolved`.
    """
    (sd, *s), (dd, *d), (before, after) = settings.stride, settings.dilation, settings.deep
    (n, c, depth, h, w), (oc, icg, kd, kh, kw) = x.shape, weight.shape
    od = (depth + before + after - dd * (kd - 1) - 1) // sd + 1
    if (kd, sd, before, after) == (1, 1, 0, 0):
        images = permute(x, (0, 2, 1, 3, 4))
    else:
        # Before its table is laid out, also of no images.
        x.device.pool.check(max(n * c * h * w, 1) * kd * od * x.dtype.itemsize)
        taps = map_axis("conv3d", x, 2, depths_of(depth, kd, od, sd, before, dd))
        images = permute(reshape(taps, (n, c, kd, od, h, w)), (0, 3, 1, 2, 4, 5))
    images = reshape(images, (n * od, c * kd, h, w))
    filters = reshape(weight, (oc, icg * kd, kh, kw))
    y = conv2d(images, filters, bias, s, settings.padding, d, settings.groups)
    y = reshape(y, (n, od, oc, *y.shape[2:]))
    return contiguous(permute(y, (0, 2, 1, 3, 4)))


@lru_cache(maxsize=256)
def depths_of(depth: int, kd: int, od: int, stride: int, before: int, dilation: int) -> Table:
    """``(kd * od)`` depths that the taps of a filter see; those outside are 0.

    Args:
        depth: of the volume.
        kd: taps in depth.
        od: depth of the result.
        stride: in depth.
        before: planes of zeros before the first.
        dilation: in depth.
    """
    taps = np.arange(kd)[:, None] * dilation - before
    return Table.of(depth, (taps + np.arange(od) * stride).reshape(-1))
