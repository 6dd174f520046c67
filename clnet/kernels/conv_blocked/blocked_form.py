"""How a convolution between blocked arrays is computed and stored; it knows no kernel.

A blocked array of ``(n, c, h, w)`` is a dense ``(n, c / block, h, w, block)``: the channels of a
block lie together, as one vector.
"""

from __future__ import annotations

from enum import Enum

from ...device import DeviceTraits
from ...values.record import NamedTuple
from ...values.shapes import Shape
from ..conv import ConvGeometry, ConvObstacle
from ..grid import in_groups

LEAST_BLOCK, _MOST_BLOCK = 4, 16
_MOST_ELEMENTS = 2**31 - 1


class BlockedAlgorithm(Enum):
    """How a convolution between blocked arrays is computed.

    Attributes:
        DIRECT: sums of register tiles over the taps; any stride and dilation.
        FEW: the same from a plain ``x`` of few channels.
        WINOGRAD2: 3x3 filters by transforms of 4x4 tiles, 2.25 times fewer products.
        WINOGRAD4: 3x3 and 5x5 filters by transforms of 6x6 tiles, 4 and 2.8 times fewer products.
        DEPTHWISE: one filter for each channel, any window; see :func:`depthwise`.
        GROUPED: groups of whole blocks of channels, or of a whole fraction of a block.
    """

    DIRECT = "direct"
    FEW = "few"
    WINOGRAD2 = "winograd2"
    WINOGRAD4 = "winograd4"
    DEPTHWISE = "depthwise"
    GROUPED = "grouped"


class BlockedForm(NamedTuple):
    """What a blocked convolution's operands look like, and how it is computed.

    Attributes:
        algorithm: how.
        block: channels of a block.
    """

    algorithm: BlockedAlgorithm
    block: int

    @property
    def plain_x(self) -> bool:
        """Whether ``x`` is a plain ``(n, ic, h, w)``, its channels being few."""
        return self.algorithm is BlockedAlgorithm.FEW

    def blocked(self, shape: Shape) -> Shape:
        """The blocked shape of a plain ``(n, c, h, w)``."""
        n, c, h, w = shape
        return (n, c // self.block, h, w, self.block)

    def x_shape(self, g: ConvGeometry) -> Shape:
        """Shape of a convolution's ``x`` and of its gradient."""
        plain = (g.n, g.ic, g.h, g.w)
        return plain if self.plain_x else self.blocked(plain)

    def y_shape(self, g: ConvGeometry) -> Shape:
        """Shape of a convolution's ``y`` and of its gradient."""
        return self.blocked((g.n, g.oc, g.oh, g.ow))


def block_size(traits: DeviceTraits) -> int | None:
    """Channels of a block on a device, or None where blocked arrays are not worth it.

    Args:
        traits: the device's numbers.
    """
    if in_groups(traits):
        return None
    return min(max(traits.simd_width, LEAST_BLOCK), _MOST_BLOCK)


def vectors_of(channels: int, block: int) -> int:
    """Blocks of channels in a register tile of one or two."""
    return 2 if channels % (2 * block) == 0 else 1


def depthwise(g: ConvGeometry) -> bool:
    """Whether each channel of a convolution has one filter of its own.

    Args:
        g: the sizes.
    """
    return g.groups == g.ic == g.oc > 1


def _groups_fit(g: ConvGeometry, block: int) -> bool:
    """Whether the channels of a block read whole blocks, or each those of a part of one."""
    if g.icg % block == 0 and g.ocg % block == 0:
        return True
    return g.icg == g.ocg and block % g.icg == 0 and g.ic % block == 0


def unblockable(g: ConvGeometry, block: int) -> ConvObstacle | None:
    """What about a convolution's sizes forbids every blocked form; elements are counted in ints.

    Args:
        g: the sizes.
        block: channels of a block.
    """
    if g.oc % block:
        return ConvObstacle.CHANNELS
    if g.groups != 1 and not (depthwise(g) or _groups_fit(g, block)):
        return ConvObstacle.GROUPS
    largest = max(g.n * g.ic * g.h * g.w, g.n * g.oc * g.oh * g.ow, g.oc * g.icg * g.taps * 4)
    return None if g.flops > 0 and largest <= _MOST_ELEMENTS else ConvObstacle.SIZE
