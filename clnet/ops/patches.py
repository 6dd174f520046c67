"""The patches of images as columns, and the sum of columns into images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.conv import ConvGeometry, col2im, im2col
from ..values.shapes import pair, window_size
from .complex_parts import by_parts
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

if TYPE_CHECKING:
    from ..tensor import Tensor

Pair = int | Sequence[int]


class Unfold(Function):
    """``(n, c, h, w)`` to ``(n, c, kh, kw, oh, ow)``; of the geometry ``n`` does not matter."""

    of_complex = by_parts

    sixteen_bit = False
    repeats = True

    geometry: ConvGeometry

    def infer(self, x: Array) -> tuple[Array, ...]:
        g = self.geometry
        return (Array.abstract((x.shape[0], g.ic, g.kh, g.kw, g.oh, g.ow), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return [im2col(target, outputs[0], inputs[0], self.geometry)] if outputs[0].size else []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Columns summed into images."""
        return (apply(Fold(self.geometry), contiguous(grads[0])),)


class Fold(Function):
    """The adjoint of :class:`Unfold`."""

    of_complex = by_parts

    sixteen_bit = False
    repeats = True

    geometry: ConvGeometry

    def infer(self, columns: Array) -> tuple[Array, ...]:
        g = self.geometry
        shape = (columns.shape[0], g.ic, g.h, g.w)
        return (Array.abstract(shape, columns.dtype, columns.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return [col2im(target, outputs[0], inputs[0], self.geometry)] if outputs[0].size else []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The patches of the gradient."""
        return (apply(Unfold(self.geometry), contiguous(grads[0])),)


@op(Face.FUNCTIONAL)
def unfold(
    x: Tensor, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Tensor:
    """The patches of images as columns.

    Args:
        x: images, ``(n, c, h, w)`` or ``(c, h, w)``, floating or complex.
        kernel_size: the patch, an int or a pair ``(vertical, horizontal)``.
        dilation: steps within a patch.
        padding: zeros on every side.
        stride: steps from patch to patch.

    Returns:
        ``(n, c * kh * kw, patches)``.

    Raises:
        ShapeError: if ``x`` is no image, or the patch does not fit into it.
        ArgumentError: if a setting is out of its range.
        DtypeError: if ``x`` is not floating or complex.
    """
    if not x.dtype.is_complex:
        require_floating("unfold", x.array)
    if x.ndim not in (3, 4):
        raise ShapeError("unfold", "x is (n, c, h, w) or (c, h, w)", x=x.shape)
    batch = contiguous(x if x.ndim == 4 else unsqueeze(x, 0))
    n, c, h, w = batch.shape
    g = patch_geometry("unfold", c, (h, w), (kernel_size, stride, padding, dilation))
    columns = reshape(apply(Unfold(g), batch), (n, c * g.taps, g.oh * g.ow))
    return columns if x.ndim == 4 else squeeze(columns, 0)


@op(Face.FUNCTIONAL)
def fold(
    x: Tensor,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Tensor:
    """Columns summed into the images whose patches they are; the adjoint of :func:`unfold`.

    Args:
        x: ``(n, c * kh * kw, patches)`` or without ``n``, floating or complex.
        output_size: of the images, an int or a pair.
        kernel_size: the patch, an int or a pair ``(vertical, horizontal)``.
        dilation: steps within a patch.
        padding: zeros there were on every side.
        stride: steps from patch to patch.

    Returns:
        ``(n, c, *output_size)``.

    Raises:
        ShapeError: if ``x`` does not hold the patches of such images.
        ArgumentError: if a setting is out of its range.
        DtypeError: if ``x`` is not floating or complex.
    """
    if not x.dtype.is_complex:
        require_floating("fold", x.array)
    if x.ndim not in (2, 3):
        raise ShapeError("fold", "x is (n, channels * taps, patches), n may be missing", x=x.shape)
    size = pair(output_size, "fold", "output_size")
    kh, kw = pair(kernel_size, "fold", "kernel_size")
    c, rest = divmod(x.shape[-2], max(kh * kw, 1))
    g = patch_geometry("fold", c, size, (kernel_size, stride, padding, dilation))
    if rest or x.shape[-1] != g.oh * g.ow:
        law = f"x has a multiple of {kh * kw} rows, and {g.oh * g.ow} columns, one for each patch"
        raise ShapeError("fold", law, x=x.shape, output_size=size, kernel_size=(kh, kw))
    batch = x.shape[0] if x.ndim == 3 else 1
    columns = reshape(contiguous(x), (batch, c, kh, kw, g.oh, g.ow))
    images = apply(Fold(g), columns)
    return images if x.ndim == 3 else squeeze(images, 0)


def patch_geometry(
    name: str, channels: int, size: tuple[int, int], settings: tuple[Pair, ...]
) -> ConvGeometry:
    """Patches of images as a convolution reads them: ``settings`` as :func:`unfold` takes them.

    Raises:
        ShapeError: if the patch does not fit into the image.
        ArgumentError: if a setting is out of its range.
    """
    names = ("kernel_size", "stride", "padding", "dilation")
    k, s, p, d = (pair(v, name, n) for v, n in zip(settings, names, strict=True))
    if min(*k, *s, *d) < 1 or min(p) < 0:
        raise ArgumentError(
            name, "sizes and steps are 1 or more, padding is 0 or more", kernel_size=k, stride=s,
            dilation=d, padding=p,
        )  # fmt: skip
    oh, ow = (window_size(*axis) for axis in zip(size, k, s, p, d, strict=True))
    if min(oh, ow) < 1:
        raise ShapeError(name, "a patch fits into the image", image=size, kernel_size=k, padding=p)
    return ConvGeometry(1, channels, *size, 1, *k, oh, ow, *s, *p, *d, 1)
