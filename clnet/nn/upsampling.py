"""Layers that change the size of images, or exchange channels and pixels."""

# ruff: noqa: FBT001 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..tensor import Tensor
from .module import Module

__all__ = [
    "ChannelShuffle",
    "PixelShuffle",
    "PixelUnshuffle",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """Rows, images or volumes in another size.

    Args:
        size: the new size, a number for all axes or one for each.
        scale_factor: or how many times as large they become.
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
        align_corners: whether the centres of the outermost elements stay where they are.
        recompute_scale_factor: take the ratio of the rounded sizes instead of ``scale_factor``.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        several = isinstance(scale_factor, Sequence)
        factors = tuple(map(float, scale_factor)) if several else scale_factor
        self.scale_factor = float(factors) if isinstance(factors, int) else factors
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, ...)`` in the new size."""
        return ops.interpolate(
            x,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

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


class PixelShuffle(Module):
    """Channels spread over finer pixels.

    Args:
        upscale_factor: how many times as large a side becomes.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """``(..., c, h r, w r)`` from ``(..., c r r, h, w)``."""
        return ops.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of :class:`PixelShuffle`.

    Args:
        downscale_factor: by how much a side shrinks.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """``(..., c r r, h, w)`` from ``(..., c, h r, w r)``."""
        return ops.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels of all groups dealt out in turn.

    Args:
        groups: divides the channels.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        """The groups."""
        return f"groups={self.groups}"
