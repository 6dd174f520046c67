"""How filters of integers lie for a device, and how many sums a work-item holds."""

from __future__ import annotations

from ...device import DOTS, IntegerDot, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..conv import ConvGeometry
from ..grid import in_groups

WORD = 4
"""Channels that are padded to: the bytes of an int."""
# Lanes of a vector -> pixels of a tile of two vectors: 32 registers hold 28 sums, 16 hold 12.
_PIXELS = {16: 12, 8: 6, 4: 6}
_VECTORS = 2
# Where sums pass through 16 bits on the way, which takes registers, too.
_NARROW_PIXELS = 4
# A tile of a work-item of a GPU: pixels by channels.
_TILE = 4


class IntegerForm(NamedTuple):
    """A tile of sums, and what multiplies.

    Attributes:
        width: lanes of a vector, 1 for work-items of a GPU.
        vectors: of a tile's channels.
        pixels: of a tile.
        dot: the instruction.
    """

    width: int
    vectors: int
    pixels: int
    dot: IntegerDot

    @property
    def lanes(self) -> int:
        """Channels of a tile: those of a panel of filters."""
        return self.width * self.vectors

    def panels(self, g: ConvGeometry) -> int:
        """Panels of a group's filters."""
        return ceil_div(g.ocg, self.lanes)

    def steps(self, g: ConvGeometry) -> int:
        """Ints of a pixel's row, in twos: its taps' channels, in fours."""
        return round_up(g.taps * round_up(g.icg, WORD), 2 * WORD) // WORD


def integer_form(target: Target, dot: str) -> IntegerForm:
    """The form on a device.

    Args:
        target: what the device is like.
        dot: the name of its instruction, ``Device.integer_dot``.
    """
    if in_groups(target.traits) or target.traits.simd_width not in _PIXELS:
        form = DOTS["" if DOTS[dot].vectors else dot]
        return IntegerForm(1, _TILE, _TILE, form)
    width = target.traits.simd_width
    form = DOTS[dot if DOTS[dot].vectors else ""]
    pixels = _NARROW_PIXELS if form.narrow else _PIXELS[width]
    return IntegerForm(width, _VECTORS, pixels, form)
