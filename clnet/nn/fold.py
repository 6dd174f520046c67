"""Layers between images and the columns of their patches."""

from __future__ import annotations

from .. import ops
from .op_layer import OpLayer

__all__ = ["Fold", "Unfold"]

IntOrPair = int | tuple[int, int]


class Unfold(OpLayer):
    """The patches of images ``(n, c, h, w)`` as columns ``(n, c * kh * kw, patches)``.

    Args:
        kernel_size: the patch, an int or a pair ``(vertical, horizontal)``.
        dilation: steps within a patch.
        padding: zeros on every side.
        stride: steps from patch to patch.
    """

    op = ops.unfold
    kernel_size: IntOrPair
    dilation: IntOrPair = 1
    padding: IntOrPair = 0
    stride: IntOrPair = 1


class Fold(OpLayer):
    """Columns ``(n, c * kh * kw, patches)`` summed into the images whose patches they are.

    Args:
        output_size: of the images, an int or a pair.
        kernel_size: the patch, an int or a pair ``(vertical, horizontal)``.
        dilation: steps within a patch.
        padding: zeros there were on every side.
        stride: steps from patch to patch.
    """

    op = ops.fold
    output_size: IntOrPair
    kernel_size: IntOrPair
    dilation: IntOrPair = 1
    padding: IntOrPair = 0
    stride: IntOrPair = 1
