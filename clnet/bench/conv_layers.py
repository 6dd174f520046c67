"""Layers of convolutional networks, and one of them with random operands, checks and a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import Array
from ..device import Device, Launch
from ..kernels.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
)
from ..values.dtypes import bfloat16, float16, float32
from ..values.lazy import lazy
from ..values.shapes import window_size
from .peer import Peer


def _layer(n: int, ic: int, oc: int, size: int, k: int, stride: int, padding: int) -> ConvGeometry:
    out = window_size(size, k, stride, padding, 1)
    return ConvGeometry(n, ic, size, size, oc, k, k, out, out, stride, stride, padding, padding)


LAYERS = {
    "7x7/2 3-64 @224": _layer(8, 3, 64, 224, 7, 2, 3),
    "1x1 64-256 @56": _layer(8, 64, 256, 56, 1, 1, 0),
    "1x1 256-64 @56": _layer(8, 256, 64, 56, 1, 1, 0),
    "3x3 64-64 @56": _layer(8, 64, 64, 56, 3, 1, 1),
    "3x3 128-128 @28": _layer(8, 128, 128, 28, 3, 1, 1),
    "3x3/2 128-128 @56": _layer(8, 128, 128, 56, 3, 2, 1),
    "3x3 256-256 @14": _layer(8, 256, 256, 14, 3, 1, 1),
    "1x1 1024-256 @14": _layer(8, 1024, 256, 14, 1, 1, 0),
    "1x1/2 256-512 @56": _layer(8, 256, 512, 56, 1, 2, 0),
    "3x3 512-512 @7": _layer(8, 512, 512, 7, 3, 1, 1),
    "3x3 16-16 @32": _layer(128, 16, 16, 32, 3, 1, 1),
    "3x3 32-32 @16": _layer(128, 32, 32, 16, 3, 1, 1),
    "3x3 64-64 @8": _layer(128, 64, 64, 8, 3, 1, 1),
    "3x3 32-32 @14": _layer(64, 32, 32, 14, 3, 1, 1),
    "3x3 1-32 @28": _layer(64, 1, 32, 28, 3, 1, 1),
    "5x5 1-32 @28": _layer(64, 1, 32, 28, 5, 1, 2),
    "3x3 32-64 @14": _layer(64, 32, 64, 14, 3, 1, 1),
}
RESNET_50 = {
    "1x1 64-64 @56": _layer(8, 64, 64, 56, 1, 1, 0),
    "3x3 64-64 @56": _layer(8, 64, 64, 56, 3, 1, 1),
    "1x1 64-256 @56": _layer(8, 64, 256, 56, 1, 1, 0),
    "1x1 256-128 @56": _layer(8, 256, 128, 56, 1, 1, 0),
    "3x3/2 128-128 @56": _layer(8, 128, 128, 56, 3, 2, 1),
    "3x3 128-128 @28": _layer(8, 128, 128, 28, 3, 1, 1),
    "1x1 512-256 @28": _layer(8, 512, 256, 28, 1, 1, 0),
    "3x3/2 256-256 @28": _layer(8, 256, 256, 28, 3, 2, 1),
    "3x3 256-256 @14": _layer(8, 256, 256, 14, 3, 1, 1),
    "1x1 1024-256 @14": _layer(8, 1024, 256, 14, 1, 1, 0),
    "1x1/2 1024-2048 @14": _layer(8, 1024, 2048, 14, 1, 2, 0),
    "3x3 512-512 @7": _layer(8, 512, 512, 7, 3, 1, 1),
    "1x1 512-2048 @7": _layer(8, 512, 2048, 7, 1, 1, 0),
}
GROUPS = {"networks": LAYERS, "resnet-50": RESNET_50}
"""What ``--layers`` names: layers of several networks, and those of ResNet-50's four stages."""


PRECISIONS = {
    "float32": float32,
    "tf32": float32,
    "tf32x3": float32,
    "float16": float16,
    "bfloat16": bfloat16,
}
"""What layers are computed in. All but ``float32`` take matrix units and dense channels."""
_DEVIATIONS = {"float32": 1e-6, "tf32x3": 1e-6}
_ROUNDED = 1e-4


class Layer:
    """A convolution with random operands: its launches, its checks and PyTorch's side.

    Args:
        geometry: the sizes.
        where: the device.
        precision: one of :data:`PRECISIONS`.
    """

    def __init__(self, geometry: ConvGeometry, where: Device, precision: str = "float32") -> None:
        self.geometry, self.where, self.precision = geometry, where, precision
        g = geometry
        rng = np.random.default_rng(0)
        shapes = ((g.n, g.ic, g.h, g.w), (g.oc, g.icg, g.kh, g.kw), (g.n, g.oc, g.oh, g.ow))
        self.x, self.weight, self.gy = (rng.standard_normal(s, dtype=np.float32) for s in shapes)

    def launches(self, direction: Direction, algorithm: Algorithm) -> tuple[Array, list[Launch]]:
        """The poisoned output of a direction, and what computes it."""
        target, g = self.where.target, self.geometry
        x, gy = self._images(self.x), self._images(self.gy)
        weight = self._array(self.weight)
        like = {
            Direction.FORWARD: self.gy,
            Direction.INPUT_GRAD: self.x,
            Direction.WEIGHT_GRAD: self.weight,
        }[direction]
        nothing = np.full_like(like, np.nan)
        weights = direction is Direction.WEIGHT_GRAD
        out = self._array(nothing) if weights else self._images(nothing)
        settings: dict[str, Any] = {
            "algorithm": algorithm,
            "tf32": self.precision == "tf32",
            "split": self.precision == "tf32x3",
        }
        if direction is Direction.FORWARD:
            return out, conv_forward(target, out, x, weight, g, **settings)
        if direction is Direction.INPUT_GRAD:
            return out, conv_input_grad(target, out, gy, weight, g, **settings)
        return out, conv_weight_grad(target, out, gy, x, g, **settings)

    def _array(self, values: np.ndarray) -> Array:
        return Array.from_numpy(values.astype(PRECISIONS[self.precision].numpy), self.where)

    def _images(self, values: np.ndarray) -> Array:
        """As they lie in this precision."""
        if self.precision == "float32":
            return self._array(values)
        last = self._array(np.ascontiguousarray(values.transpose(0, 2, 3, 1)))
        order = (0, 3, 1, 2)
        return last.view(values.shape, tuple(last.strides[axis] for axis in order))

    def check(self, direction: Direction, out: np.ndarray) -> None:
        """Compare ``out`` with float64.

        All three directions are parts of one trilinear form: ``<conv(x, weight), gy>`` equals
        ``<x, gx>`` and ``<weight, gw>``. The form's value is computed tap by tap.

        Raises:
            ArithmeticError: if it deviates by more than rounding explains.
        """
        other = {
            Direction.FORWARD: self.gy,
            Direction.INPUT_GRAD: self.x,
            Direction.WEIGHT_GRAD: self.weight,
        }[direction]
        out = out.astype(np.float64)  # norms of 16 bits would overflow
        got = float(np.vdot(out, other.astype(np.float64)))
        scale = float(np.linalg.norm(out) * np.linalg.norm(other))
        if not abs(got - self._form) <= _DEVIATIONS.get(self.precision, _ROUNDED) * scale:
            raise ArithmeticError(
                f"{direction.value}: deviates from float64; got {got}, expected {self._form}"
            )

    @lazy
    def _form(self) -> float:
        g = self.geometry
        below = max((g.oh - 1) * g.sh + (g.kh - 1) * g.dh + 1 - g.ph - g.h, 0)
        right = max((g.ow - 1) * g.sw + (g.kw - 1) * g.dw + 1 - g.pw - g.w, 0)
        x = np.pad(self.x, ((0, 0), (0, 0), (g.ph, below), (g.pw, right))).astype(np.float64)
        gy = self.gy.transpose(1, 0, 2, 3).reshape(g.oc, -1).astype(np.float64)
        total = 0.0
        for r in range(g.kh):
            for s in range(g.kw):
                rows = slice(r * g.dh, r * g.dh + g.sh * (g.oh - 1) + 1, g.sh)
                columns = slice(s * g.dw, s * g.dw + g.sw * (g.ow - 1) + 1, g.sw)
                patch = x[:, :, rows, columns].transpose(1, 0, 2, 3).reshape(g.ic, -1)
                total += float(np.sum((gy @ patch.T) * self.weight[:, :, r, s]))
        return total

    def peer(
        self, peer: Peer, direction: Direction, *, channels_last: bool = False
    ) -> Callable[[], object]:
        """PyTorch's side of a direction."""
        g = self.geometry
        torch = peer.torch
        last = channels_last or self.precision != "float32"
        order = torch.channels_last if last else torch.contiguous_format
        torch.backends.cudnn.allow_tf32 = self.precision == "tf32"
        kind = getattr(torch, PRECISIONS[self.precision].name)
        x, weight, gy = (
            peer.tensor(v).to(kind).contiguous(memory_format=order)
            for v in (self.x, self.weight, self.gy)
        )
        window = ([g.sh, g.sw], [g.ph, g.pw], [g.dh, g.dw])
        if direction is Direction.FORWARD:
            return lambda: torch.nn.functional.conv2d(x, weight, None, *window, g.groups)
        wanted = [direction is Direction.INPUT_GRAD, direction is Direction.WEIGHT_GRAD, False]
        backward = torch.ops.aten.convolution_backward
        return lambda: backward(gy, x, weight, [0], *window, False, [0, 0], g.groups, wanted)
