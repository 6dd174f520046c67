"""Strips of output rows, and the rows that they read, of convolutions between blocked arrays.

What :mod:`.conv_blocked_depthwise` and :mod:`.conv_blocked_grouped` share; it knows no kernel.
"""

from __future__ import annotations

from ...values.shapes import ceil_div, round_up
from .conv_blocked_direct import Walk

__all__ = ["MOST_FLOATS", "near_or_far", "pitch_of", "source_rows", "strip_of"]

# Floats of local memory, and of a strip's rows, so that they and what is written stay in the first
# cache, if one output row does not need more.
MOST_FLOATS, STRIP_FLOATS = 2**15, 6 * 2**10
# The same of strips that stay in the second cache, where those of the first would read more rows
# than this share twice.
FAR_FLOATS, READ_TWICE = 3 * 2**13, 1 / 5
MOST_STRIP = 32


def pitch_of(right: Walk, taps: int, width: int, pixels: int) -> int:
    """Columns that a row reads, rounded up to whole tiles in each phase.

    Args:
        right: how a row is walked along.
        taps: columns of a filter.
        width: columns of the output.
        pixels: of a tile.
    """
    reach = (taps - 1) * right.gap
    low = (right.pad - max(0, reach)) // right.phases
    high = (right.phases - 1 + right.pad + max(0, -reach)) // right.phases
    of_phase = round_up(ceil_div(width, right.phases), pixels)
    return (of_phase - 1) * right.step + high - low + 1


def source_rows(down: Walk, taps: int, strip: int) -> int:
    """Rows that so many output rows read, at most.

    Args:
        down: how rows are walked over.
        taps: rows of a filter.
        strip: output rows.
    """
    return ceil_div((strip - 1) * down.step + (taps - 1) * abs(down.gap), down.phases) + 1


def near_or_far(down: Walk, taps: int, height: int, row: int, least: int) -> int:
    """Output rows of a strip that is near, or far if that spares reading and leaves enough strips.

    Args:
        down: how rows are walked over.
        taps: rows of a filter.
        height: output rows.
        row: floats of a source row.
        least: strips of an image, at least, if they are far.
    """
    near = strip_of(down, taps, height, row, STRIP_FLOATS)
    far = strip_of(down, taps, height, row, FAR_FLOATS)
    read = ceil_div(height, near) * source_rows(down, taps, near)
    spares = read > (1 + READ_TWICE) * source_rows(down, taps, height)
    return far if spares and ceil_div(height, far) >= least else near


def strip_of(down: Walk, taps: int, height: int, row: int, floats: int) -> int:
    """Output rows whose source rows fit into so many floats; one at least.

    Args:
        down: how rows are walked over.
        taps: rows of a filter.
        height: output rows.
        row: floats of a source row.
        floats: that there are.
    """
    most = min(height, MOST_STRIP)
    fitting = (n for n in range(most, 1, -1) if source_rows(down, taps, n) * row <= floats)
    strip = next(fitting, 1)
    return ceil_div(height, ceil_div(height, strip))
