"""Where convolutions of float32 as three products of TF32 fit, and where that should be faster.

:func:`fits` asks what the device has, :func:`pays` an estimate of seconds beside plain float32;
:mod:`.conv_split` launches them, and shares the sizes below.
"""

from __future__ import annotations

from enum import Enum

from ...device import Scratch, Target
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..gemm import (
    COPY_BYTES_S,
    COPY_S,
    WarpgroupChoice,
    copies_fit,
    emulates_warpgroups,
    has_warpgroups,
)
from . import conv_winograd
from .conv_geometry import ConvGeometry, Direction, Phase
from .conv_lines import lines_choice, lines_of
from .conv_matrix import input_phases, output_phases
from .conv_warpgroup import LINE_BYTES, MOST_SKIP, Grid, grid_choice, grid_of
from .conv_warpgroup_weight import filters_plan

ITEM, PARTS = 4, 2
STEPS, RUN = LINE_BYTES // ITEM, 4
_MOST_ELEMENTS = 2**31 - 1
# Operations a second in float32: of direct sums, and of Winograd's transforms by their filters'
# size, counted as direct ones, and in proportion fewer where channels are few; rough figures of an
# H100 and an H200.
_PLAIN_RATE, _WINOGRAD_RATES, _WINOGRAD_CHANNELS = 45e12, {3: 85e12, 5: 140e12}, 88
# Shorter sums are about as exact in float32: what a split loses of each product is more than what
# rounding such sums does. By emulation the split is ahead from some 40 terms on, on an H100 at 64.
_LEAST_TERMS = 64
# Bytes a second that products read and store, and those in float32; rough, as the rates are.
_MOVED_S, _PLAIN_MOVED_S = 3e12, 1.7e12
# Groups of channels, each with launches of its own.
_MOST_OF_CHANNELS = 8


class Order(Enum):
    """How images lie around a convolution, as far as that has its price.

    Attributes:
        FIRST: channels first: what 128 items read and make is turned over.
        LAST: channels last: what other kernels read and make is turned over.
        OPEN: they may lie as is best.
    """

    FIRST = "first"
    LAST = "last"
    OPEN = "open"


class _Work(NamedTuple):
    """What one group of channels takes.

    Attributes:
        seconds: of its products, if operands were there at once.
        moved: bytes that products read and store.
        copied: bytes that copies beside them read and store.
        copies: how many of these there are for each turn.
    """

    seconds: float
    moved: int
    copied: int
    copies: int


def fits(target: Target, g: ConvGeometry, direction: Direction) -> bool:
    """Whether there are units for it, and parts of an image at least fit the scratch memory.

    Args:
        target: what the device is like.
        g: the sizes.
        direction: what is computed.
    """
    if g.flops == 0 or not has_warpgroups(target, float32, split=True):
        return False
    one = one_group(g)
    # A result of one channel has no axis that is dense.
    if min(one.ic, one.oc) < 2 or g.groups > _MOST_OF_CHANNELS:
        return False
    if max(*_elements(g), _filters_bytes(one, direction)) > _MOST_ELEMENTS:
        return False
    if not copies_fit(max(g.h * g.w, g.oh * g.ow, one.ic * g.taps), g.n, one.ic, one.oc):
        return False
    if direction is not Direction.WEIGHT_GRAD:
        grid = _grid(one, direction)
        if grid is None or grid.longest > MOST_SKIP:
            return False
    return images_at_once(target, one, direction) > 0


def pays(
    target: Target, g: ConvGeometry, direction: Direction, order: Order, *, winograd: bool
) -> bool:
    """Whether it should be faster than in float32, and as exact; emulated units are always fast.

    Args:
        target: what the device is like.
        g: the sizes, which fit.
        direction: what is computed.
        order: how images lie.
        winograd: whether Winograd's transforms may be used.
    """
    if _terms(g, direction) < _LEAST_TERMS:
        return False
    if emulates_warpgroups(target):
        return True
    plain = _plain_seconds(target, g, direction, winograd=winograd)
    if order is Order.LAST:
        plain += 2 * COPY_S + 2 * ITEM * sum(_elements(g)) / COPY_BYTES_S
    return _seconds(target, g, direction, order) < plain


def one_group(g: ConvGeometry) -> ConvGeometry:
    """The sizes of one group."""
    return g._replace(ic=g.icg, oc=g.ocg, groups=1)


def channels_of(g: ConvGeometry, direction: Direction) -> tuple[int, int]:
    """Channels of what is made, and of what is read."""
    return (g.oc, g.ic) if direction is Direction.FORWARD else (g.ic, g.oc)


def phases_of(
    g: ConvGeometry, direction: Direction
) -> tuple[tuple[list[Phase], list[Phase]], tuple[int, int]]:
    """Phases down and right, and pixels from one result of a phase to the next."""
    if direction is Direction.FORWARD:
        return output_phases(g), (1, 1)
    return input_phases(g), (g.sh, g.sw)


def pixels_choice(target: Target, g: ConvGeometry, order: Order) -> WarpgroupChoice | None:
    """The tile and slices of a weight gradient from pixels; None where that does not fit.

    Args:
        target: what the device is like.
        g: the sizes.
        order: how images lie; copies of them are made unless channels are last.
    """
    pixels = (g.h * g.w * round_up(g.ic, RUN), g.oh * g.ow * round_up(g.oc, RUN))
    copies = 2 * Scratch.ALIGNMENT + ITEM * g.n * sum(pixels) * (order is Order.FIRST)
    if copies + _filters_bytes(g, Direction.WEIGHT_GRAD) > target.workspace_limit:
        return None
    plan = filters_plan(target, float32, g, reserved=copies, parts=PARTS)
    return plan[2] if plan is not None else None


def images_at_once(
    target: Target,
    g: ConvGeometry,
    direction: Direction,
    *,
    read: bool = True,
    made: bool = True,
) -> int:
    """How many images scratch memory holds copies of, in equal turns; 0: not one.

    Args:
        target: what the device is like.
        g: the sizes, of one group.
        direction: what is computed.
        read: whether what is read is copied, in all but filters' gradients.
        made: whether what is made is, likewise.
    """
    room = target.workspace_limit - 8 * Scratch.ALIGNMENT - 256 * target.traits.compute_units
    if direction is Direction.WEIGHT_GRAD:
        most, together = _images_of_lines(g, room // 2), lines_of(g).together
    else:
        most, together = _images_of_pixels(g, direction, room, read=read, made=made), 1
    most = min(most, g.n)
    return min(round_up(ceil_div(g.n, ceil_div(g.n, most)), together), g.n) if most else 0


def _images_of_lines(g: ConvGeometry, room: int) -> int:
    """Images whose lines have room, as have the sums of all turns; 0: none."""
    sums = ITEM * g.oc * g.taps * round_up(g.ic, RUN)
    lines = lines_of(g)
    each = lines.nbytes(lines.together, g.oc, g.ic)  # lines of a turn end in whole stages
    whole = lines.nbytes(g.n, g.oc, g.ic) <= room
    most = g.n if whole else max(room, 0) // each * lines.together
    return 0 if most and sums * ceil_div(g.n, most) > room else most


def _images_of_pixels(
    g: ConvGeometry, direction: Direction, room: int, *, read: bool, made: bool
) -> int:
    """Images of which what is copied has room beside the filters; 0: none."""
    rows, channels = channels_of(g, direction)
    pixels = (g.h * g.w, g.oh * g.ow)
    source, result = pixels if direction is Direction.FORWARD else pixels[::-1]
    each = ITEM * (read * round_up(channels, RUN) * source + made * rows * result)
    room -= _filters_bytes(g, direction)
    if room <= 0:
        return 0
    return room // each if each else g.n


def _grid(g: ConvGeometry, direction: Direction) -> Grid | None:
    """Results that are dense, and their source."""
    phases, strides = phases_of(g, direction)
    rows, _ = channels_of(g, direction)
    source, made = (g.h, g.w), (g.oh, g.ow)
    if direction is Direction.INPUT_GRAD:
        source, made = made, source
    h, w = made
    return grid_of((g.n, *source), phases, (h * w * rows, w * rows, rows), strides)


def _filters_bytes(g: ConvGeometry, direction: Direction) -> int:
    rows, channels = channels_of(g, direction)
    return ITEM * PARTS * rows * g.taps * round_up(channels, STEPS)


def _terms(g: ConvGeometry, direction: Direction) -> int:
    """How long sums are; where the strides have phases, the shortest but for edges."""
    if direction is Direction.WEIGHT_GRAD:
        return g.n * g.oh * g.ow
    if direction is Direction.FORWARD:
        return g.taps * g.icg
    return max(g.kh // g.sh, 1) * max(g.kw // g.sw, 1) * g.ocg


def _seconds(target: Target, g: ConvGeometry, direction: Direction, order: Order) -> float:
    """A rough estimate of the time it takes."""
    if direction is Direction.WEIGHT_GRAD:
        work = _filters_work(target, g, order)
    else:
        work = _images_work(target, g, direction, order)
    if work is None:
        return float("inf")
    one = one_group(g)
    turns = ceil_div(one.n, images_at_once(target, one, direction))
    before = work.copied / COPY_BYTES_S + work.copies * COPY_S * turns
    products = max(work.seconds, work.moved / _MOVED_S)
    return g.groups * (before + products + COPY_S * turns)


def _images_work(
    target: Target, g: ConvGeometry, direction: Direction, order: Order
) -> _Work | None:
    """What images of a group take; None where no result meets a tap."""
    one = one_group(g)
    grid = _grid(one, direction)
    if grid is None:
        return None
    n, channels = channels_of(one, direction)
    choice = grid_choice(target, grid, float32, n, channels, reserved=0, parts=PARTS)
    read, made = _elements(one) if direction is Direction.FORWARD else _elements(one)[::-1]
    turns_read, turns_made = order is Order.FIRST or g.groups > 1, order is Order.FIRST
    return _Work(
        choice.seconds,
        moved=ITEM * (read + made),
        copied=2 * ITEM * (read * turns_read + made * turns_made),
        copies=1 + turns_read + turns_made,  # filters, too
    )


def _filters_work(target: Target, g: ConvGeometry, order: Order) -> _Work:
    """What filters' gradients of a group take, from pixels or, where those do not fit, lines."""
    one = one_group(g)
    nbytes = ITEM * sum(_elements(one))
    choice = pixels_choice(target, g, order)
    if choice is not None:
        copies = 2 * (order is Order.FIRST)
        return _Work(choice.seconds, moved=nbytes, copied=nbytes * copies, copies=copies)
    laid_bytes = lines_of(one).nbytes(one.n, one.oc, one.ic)
    choice = lines_choice(target, one, one.n, reserved=0)
    return _Work(choice.seconds, moved=laid_bytes, copied=laid_bytes + nbytes, copies=2)


def _elements(g: ConvGeometry) -> tuple[int, int]:
    """Of the images a convolution reads, and of those that it makes."""
    return g.n * g.ic * g.h * g.w, g.n * g.oc * g.oh * g.ow


def _plain_seconds(
    target: Target, g: ConvGeometry, direction: Direction, *, winograd: bool
) -> float:
    """A rough estimate of the time it takes in float32, with channels first."""
    rate = _PLAIN_RATE
    if winograd and conv_winograd.obstacle(target, g, direction, ITEM) is None:
        few = min(min(g.ic, g.oc) / _WINOGRAD_CHANNELS, 1)
        rate = _WINOGRAD_RATES[g.kh] * few if conv_winograd.pays(g, direction) else rate
    moved = ITEM * sum(_elements(g))
    return max(g.flops / rate, moved / _PLAIN_MOVED_S) + COPY_S
