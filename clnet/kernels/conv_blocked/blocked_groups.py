"""Which channels a block of results reads of a convolution of groups; it knows no kernel."""

from __future__ import annotations

from ...values.record import NamedTuple
from ..conv import ConvGeometry, Direction

__all__ = ["Channels", "channels_of"]


class Channels(NamedTuple):
    """Which channels the results of a block read.

    Attributes:
        made, read: channels of a group of the result, and of what is read.
        own: those of a group, if a block holds several groups; else 0.
        blocks: of channels that are read for one block.
        vectors: blocks of the result that are computed together.
    """

    made: int
    read: int
    own: int
    blocks: int
    vectors: int

    def lanes(self, block: int) -> tuple[str, ...]:
        """Of each channel of a group the lanes that read it, where a block holds several groups."""
        groups = range(0, block, self.own or block)
        return tuple("".join(f"{g + c:x}" * self.own for g in groups) for c in range(self.own))

    def some(self, block: int, most: int) -> int:
        """Channels whose sums are kept beside each other: a power of two, up to ``most``."""
        some = self.own or block
        while some > most:
            some //= 2
        return some


def channels_of(g: ConvGeometry, direction: Direction, block: int) -> Channels:
    """Which channels the results of a block read.

    Args:
        g: the sizes, of groups that have a form.
        direction: forward or input gradient.
        block: channels of a block.
    """
    made, read = (g.icg, g.ocg) if direction is Direction.INPUT_GRAD else (g.ocg, g.icg)
    if made < block:
        return Channels(made, read, made, 1, 1)
    return Channels(made, read, 0, read // block, 1 if made % (2 * block) else 2)
