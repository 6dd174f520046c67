"""Layers that change the size of images, or exchange channels and pixels."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from .op_layer import OpLayer

__all__ = [
    "ChannelShuffle",
    "PixelShuffle",
    "PixelUnshuffle",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(OpLayer):
    """Rows, images or volumes in another size.

    Args:
        size: the new size, a number for all axes or one for each.
        scale_factor: or how many times as large they become.
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
        align_corners: whether the centres of the outermost elements stay where they are.
        recompute_scale_factor: take the ratio of the rounded sizes instead of ``scale_factor``.
    """

    op = ops.interpolate
    size: int | Sequence[int] | None = None
    scale_factor: float | Sequence[float] | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _check_settings(self) -> None:
        factor = self.scale_factor
        if factor is not None:
            several = isinstance(factor, Sequence)
            self.scale_factor = tuple(map(float, factor)) if several else float(factor)

    def extra_repr(self) -> str:
        """The size and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor}, mode={self.mode!r}"
        return f"size={self.size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images in another size, of the nearest pixels.

    Args:
        size: the new size, an int or a pair.
        scale_factor: or how many times as large they become.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images in another size, by bilinear interpolation between corners that stay.

    Args:
        size: the new size, an int or a pair.
        scale_factor: or how many times as large they become.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(OpLayer):
    """Channels spread over finer pixels: ``(..., c, h r, w r)`` from ``(..., c r r, h, w)``.

    Args:
        upscale_factor: how many times as large a side becomes.
    """

    op = ops.pixel_shuffle
    upscale_factor: int


class PixelUnshuffle(OpLayer):
    """The inverse of :class:`PixelShuffle`.

    Args:
        downscale_factor: by how much a side shrinks.
    """

    op = ops.pixel_unshuffle
    downscale_factor: int


class ChannelShuffle(OpLayer):
    """Channels of all groups dealt out in turn.

    Args:
        groups: divides the channels.
    """

    op = ops.channel_shuffle
    groups: int
