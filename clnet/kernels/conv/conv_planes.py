"""Padded planes of images: what the direct convolution reads."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch
from ...values.record import NamedTuple
from ..kernel import Kernel, by_name, joined

PACK = Kernel("conv_planes", "conv/conv_planes.mako")


class Planes(NamedTuple):
    """Layout of padded planes, packed from images of ``height x width``.

    Attributes:
        source: height and width of the images.
        height, pitch: rows and columns of a plane.
        plane: elements from one plane to the next.
        padding: rows above and columns left of the image.
        stride: distance of the image's pixels that a plane holds.
        phases: planes of one channel, vertically and horizontally.
    """

    source: tuple[int, int]
    height: int
    pitch: int
    plane: int
    padding: tuple[int, int]
    stride: tuple[int, int]
    phases: tuple[int, int]

    @property
    def channel(self) -> int:
        """Elements from one channel to the next."""
        return self.plane * prod(self.phases)


def pack(packed: Array, x: Array, planes: Planes, *, slack: int = 0) -> Launch:
    """The launch that packs images into planes.

    Args:
        packed: the planes, dense, and ``slack`` elements.
        x: the images, dense, ``(n, channels, ..., h, w)``.
        planes: the layout.
        slack: zeros to write after the last plane, for vectors that read beyond it.

    Returns:
        The launch.
    """
    images, step = prod(x.shape[:-2]), planes.stride[1]
    return PACK.launch(
        # One kernel for all strides but the usual two, whose copies are vectors.
        by_name("ctype step", x.dtype.ctype, step if step <= 2 else 0),
        joined(
            by_name("planes x h w ph pw", packed, x, *planes.source, *planes.padding),
            by_name("height pitch plane", planes.height, planes.pitch, planes.plane),
            by_name("sh sw tall wide", *planes.stride, *planes.phases),
            by_name("slack", slack),
        ),
        global_size=(images,),
        flops=0,
        bytes=x.nbytes + images * planes.channel * x.dtype.itemsize,
    )
