"""Convolutions of float32 as sums of three products of TF32: the form of ``"tf32x3"``.

Filters are split in two parts that TF32 holds by the launch that turns them over, and images by
the items that multiply them, in registers (``conv_warpgroup``): those that lie channels last are
read as they are. So are both of filters' gradients; where boxes of pixels do not fit, they are laid
as lines, one in two parts (``conv_lines``). Groups of channels follow one another, and so do as
many images as scratch memory holds copies of.
"""

from __future__ import annotations

from enum import Enum
from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import float32
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import (
    COPY_BYTES_S,
    COPY_S,
    WarpgroupChoice,
    copies_fit,
    emulates_warpgroups,
    has_warpgroups,
    laid,
)
from ..moving import copy
from . import conv_winograd
from .conv_geometry import ConvGeometry, Direction, Phase
from .conv_lines import filters_from_lines, laid_lines, lines_choice, lines_of
from .conv_matrix import channels_last, input_phases, is_last, output_phases
from .conv_matrix_weight import added, some_of
from .conv_warpgroup import (
    LINE_BYTES,
    MOST_SKIP,
    Grid,
    grid_choice,
    grid_of,
    multiplied,
)
from .conv_warpgroup_weight import filters_gradient, filters_plan

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


def fits(target: Target, g: ConvGeometry, direction: Direction) -> bool:
    """Whether there are units for it, and parts of an image at least fit the scratch memory.

    Args:
        target: what the device is like.
        g: the sizes.
        direction: what is computed.
    """
    if g.flops == 0 or not has_warpgroups(target, float32, split=True):
        return False
    one = _one_group(g)
    # A result of one channel has no axis that is dense.
    if min(one.ic, one.oc) < 2 or g.groups > _MOST_OF_CHANNELS:
        return False
    images = g.n * g.ic * g.h * g.w, g.n * g.oc * g.oh * g.ow
    if max(*images, _filters_bytes(one, direction)) > _MOST_ELEMENTS:
        return False
    if not copies_fit(max(g.h * g.w, g.oh * g.ow, one.ic * g.taps), g.n, one.ic, one.oc):
        return False
    if direction is not Direction.WEIGHT_GRAD:
        grid = _grid(one, direction)
        if grid is None or grid.longest > MOST_SKIP:
            return False
    return _images_at_once(target, one, direction) > 0


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
    plain = _plain_seconds(target, g, direction, winograd)
    if order is Order.LAST:
        images = ITEM * (g.n * g.ic * g.h * g.w + g.n * g.oc * g.oh * g.ow)
        plain += 2 * COPY_S + 2 * images / COPY_BYTES_S
    return _seconds(target, g, direction, order) < plain


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """The convolution; the arguments are those of :func:`.conv.conv_forward`, in either order."""
    return _convolved(target, y, x, weight, g, Direction.FORWARD, epilogue)


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """The input gradient, all phases of the strides at once."""
    return _convolved(target, gx, gy, weight, g, Direction.INPUT_GRAD, NO_EPILOGUE)


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient, in slices of pixels that are added up."""
    found = _from_pixels(target, gw, gy, x, g)
    return found if found is not None else _from_lines(target, gw, gy, x, g)


def _from_pixels(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry
) -> list[Launch] | None:
    """The weight gradient of images whose channels are dense; None where that does not fit."""
    memory = Scratch(gw.device)
    order = Order.FIRST if not (is_last(gy) and is_last(x)) else Order.LAST
    if _pixels_choice(target, g, order) is None:
        return None
    before, grads = channels_last(target, memory, gy, 1)
    more, source = channels_last(target, memory, x, 1)
    found = filters_gradient(target, memory, grads, source, g, parts=PARTS)
    if found is None:
        return None
    multiply, parts = found
    return [*before, *more, multiply, added(target, gw, parts, g)]


def _pixels_choice(target: Target, g: ConvGeometry, order: Order) -> WarpgroupChoice | None:
    """The tile and slices of a weight gradient from pixels; None where that does not fit."""
    pixels = (g.h * g.w * round_up(g.ic, RUN), g.oh * g.ow * round_up(g.oc, RUN))
    copies = 2 * Scratch.ALIGNMENT + ITEM * g.n * sum(pixels) * (order is Order.FIRST)
    if copies + _filters_bytes(g, Direction.WEIGHT_GRAD) > target.workspace_limit:
        return None
    plan = filters_plan(target, float32, g, reserved=copies, parts=PARTS)
    return plan[2] if plan is not None else None


def _from_lines(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient of channels that are laid as lines."""
    memory, launches, one = Scratch(gw.device), list[Launch](), _one_group(g)
    lines, images = lines_of(one), _images_at_once(target, one, Direction.WEIGHT_GRAD)
    turns = [(first, min(images, g.n - first)) for first in range(0, g.n, images)]
    for group in range(g.groups):
        memory.rewind(0)
        of_gy, of_x = _of_group(gy, group, one.oc), _of_group(x, group, one.ic)
        reserved = lines.nbytes(images, one.oc, one.ic)
        # What is left of scratch memory is for the slices of all turns.
        reserved = target.workspace_limit - max(target.workspace_limit - reserved, 0) // len(turns)
        choices = [lines_choice(target, one, count, reserved=reserved) for _, count in turns]
        slices = [choice.slices for choice in choices]
        shape = (one.oc, one.taps, round_up(one.ic, RUN))
        parts = Array.scratch(memory, (sum(slices), *shape), float32)
        mark = memory.mark()
        for turn, (first, count) in enumerate(turns):
            memory.rewind(mark)
            before, gy_lines = laid_lines(
                memory, some_of(of_gy, first, count), one, lines, source=False
            )
            more, x_lines = laid_lines(memory, some_of(of_x, first, count), one, lines, source=True)
            to = some_of(parts, sum(slices[:turn]), slices[turn])
            multiply = filters_from_lines(
                target, memory, to, gy_lines, x_lines, one, lines, choices[turn]
            )
            launches += [before, more, multiply]
        launches.append(added(target, _of_filters(gw, group, one), parts, one))
    return launches


def _convolved(
    target: Target,
    out: Array,
    source: Array,
    weight: Array,
    g: ConvGeometry,
    direction: Direction,
    epilogue: Epilogue,
) -> list[Launch]:
    """A convolution or an input gradient, group by group, some images at a time."""
    memory, launches, one = Scratch(out.device), list[Launch](), _one_group(g)
    of_out, of_source = _channels(one, direction)
    last = is_dense_last(out)
    whole = g.groups == 1 and is_last(source)
    images = _images_at_once(target, one, direction, read=not whole, made=not last)
    for group in range(g.groups):
        memory.rewind(0)
        filters, made = _filters(memory, _of_filters(weight, group, one), one, direction)
        launches.append(filters)
        bias = epilogue.bias
        if bias is not None:
            begin = bias.offset + group * of_out * bias.strides[0]
            bias = bias.view((of_out,), bias.strides, begin)
        mark = memory.mark()
        for first in range(0, g.n, images):
            memory.rewind(mark)
            count = min(images, g.n - first)
            to = some_of(_of_group(out, group, of_out), first, count)
            x = some_of(_of_group(source, group, of_source), first, count)
            before, pixels = channels_last(target, memory, x, 1)
            part = one._replace(n=count)
            launches += before
            place = to if last else _scratch_last(memory, to.shape)
            launches += _multiply(
                target, memory, place, pixels, made, part, direction, epilogue._replace(bias=bias)
            )
            launches += [] if last else copy(target, to, place)
    return launches


def _multiply(
    target: Target,
    memory: Scratch,
    out: Array,
    pixels: Array,
    filters: Array,
    g: ConvGeometry,
    direction: Direction,
    epilogue: Epilogue,
) -> list[Launch]:
    phases, strides = _phases(g, direction)
    image, _, of_y, of_x = out.strides
    grid = grid_of(pixels.shape[:3], phases, (image, of_y, of_x), strides)
    if grid is None:  # such do not fit
        return []
    alone = grid.phases < len(phases[0]) * len(phases[1])
    return multiplied(
        target, memory, out, pixels, filters, g.kw, grid, epilogue, alone=alone, parts=PARTS
    )


def is_dense_last(x: Array) -> bool:
    """Whether images' channels are dense, so that 128 items can store them as they lie."""
    return x.strides[1] == 1 and x.shape[1] > 1


def _filters(
    memory: Scratch, weight: Array, g: ConvGeometry, direction: Direction
) -> tuple[Launch, Array]:
    """The launch that splits filters, and ``(out's channels, taps, parts of channels)``."""
    rows, channels = _channels(g, direction)
    pitch = PARTS * round_up(channels, STEPS)
    made = Array.scratch(memory, (rows, g.taps, pitch), weight.dtype)
    if direction is Direction.FORWARD and g.taps > 1:  # a filter is read as it lies
        source = weight.view((g.oc, 1, g.taps, g.ic), (g.ic * g.taps, 0, 1, g.taps))
    elif direction is Direction.FORWARD:
        source = weight.view((1, 1, g.oc, g.ic), (0, 0, g.ic, 1))
    else:
        source = weight.view((1, 1, g.ic * g.taps, g.oc), (0, 0, 1, g.ic * g.taps))
    items, _, lines, _ = source.shape
    to = made.view((items, 1, lines, pitch), (lines * pitch, lines * pitch, pitch, 1))
    return laid(to, source, parts=PARTS), made


def _scratch_last(memory: Scratch, shape: tuple[int, ...]) -> Array:
    """Memory for images ``(n, c, h, w)`` whose channels lie last."""
    n, c, h, w = shape
    made = Array.scratch(memory, (n, h, w, c), float32)
    return made.view((n, c, h, w), (h * w * c, 1, w * c, c))


def _one_group(g: ConvGeometry) -> ConvGeometry:
    """The sizes of one group."""
    return g._replace(ic=g.icg, oc=g.ocg, groups=1)


def _of_group(x: Array, group: int, channels: int) -> Array:
    """A group's channels."""
    n, _, h, w = x.shape
    return x.view((n, channels, h, w), x.strides, x.offset + group * channels * x.strides[1])


def _of_filters(weight: Array, group: int, g: ConvGeometry) -> Array:
    """A group's filters, dense as all are."""
    shape = (g.oc, *weight.shape[1:])
    return weight.view(shape, weight.strides, weight.offset + group * prod(shape))


def _channels(g: ConvGeometry, direction: Direction) -> tuple[int, int]:
    """Of what is made, and of what is read."""
    return (g.oc, g.ic) if direction is Direction.FORWARD else (g.ic, g.oc)


def _phases(
    g: ConvGeometry, direction: Direction
) -> tuple[tuple[list[Phase], list[Phase]], tuple[int, int]]:
    """Phases down and right, and pixels from one result of a phase to the next."""
    if direction is Direction.FORWARD:
        return output_phases(g), (1, 1)
    return input_phases(g), (g.sh, g.sw)


def _grid(g: ConvGeometry, direction: Direction) -> Grid | None:
    """Results that are dense, and their source."""
    phases, strides = _phases(g, direction)
    rows, _ = _channels(g, direction)
    source, made = (g.h, g.w), (g.oh, g.ow)
    if direction is Direction.INPUT_GRAD:
        source, made = made, source
    h, w = made
    return grid_of((g.n, *source), phases, (h * w * rows, w * rows, rows), strides)


def _filters_bytes(g: ConvGeometry, direction: Direction) -> int:
    rows, channels = _channels(g, direction)
    return ITEM * PARTS * rows * g.taps * round_up(channels, STEPS)


def _images_at_once(
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
    fixed, together = 8 * Scratch.ALIGNMENT + 256 * target.traits.compute_units, 1
    if direction is Direction.WEIGHT_GRAD:
        sums = ITEM * g.oc * g.taps * round_up(g.ic, RUN)
        room = (target.workspace_limit - fixed) // 2
        lines = lines_of(g)
        together = lines.together
        each = lines.nbytes(together, g.oc, g.ic)  # lines of a turn end in whole stages
        whole = lines.nbytes(g.n, g.oc, g.ic) <= room
        most = g.n if whole else max(room, 0) // each * together
        if most and sums * ceil_div(g.n, most) > room:
            return 0
    else:
        rows, channels = _channels(g, direction)
        pixels = (g.h * g.w, g.oh * g.ow)
        source, result = pixels if direction is Direction.FORWARD else pixels[::-1]
        each = ITEM * (read * round_up(channels, RUN) * source + made * rows * result)
        room = target.workspace_limit - fixed - _filters_bytes(g, direction)
        most = (max(room, 0) // each if each else g.n) if room > 0 else 0
    most = min(most, g.n)
    return min(round_up(ceil_div(g.n, ceil_div(g.n, most)), together), g.n) if most else 0


def _terms(g: ConvGeometry, direction: Direction) -> int:
    """How long sums are; where the strides have phases, the shortest but for edges."""
    if direction is Direction.WEIGHT_GRAD:
        return g.n * g.oh * g.ow
    if direction is Direction.FORWARD:
        return g.taps * g.icg
    return max(g.kh // g.sh, 1) * max(g.kw // g.sw, 1) * g.ocg


def _seconds(target: Target, g: ConvGeometry, direction: Direction, order: Order) -> float:
    """A rough estimate of the time it takes."""
    one = _one_group(g)
    turns = ceil_div(one.n, _images_at_once(target, one, direction))
    x, y = one.n * one.ic * one.h * one.w, one.n * one.oc * one.oh * one.ow
    choice = _pixels_choice(target, g, order) if direction is Direction.WEIGHT_GRAD else None
    if choice is not None:
        copies = 2 * (order is Order.FIRST)
        split, moved = ITEM * (x + y) * copies, ITEM * (x + y)
    elif direction is Direction.WEIGHT_GRAD:
        lines, copies = lines_of(one), 2
        nbytes = lines.nbytes(one.n, one.oc, one.ic)
        choice = lines_choice(target, one, one.n, reserved=0)
        split, moved = nbytes + ITEM * (x + y), nbytes
    else:
        grid = _grid(one, direction)
        if grid is None:
            return float("inf")
        n, channels = _channels(one, direction)
        choice = grid_choice(target, grid, float32, n, channels, reserved=0, parts=PARTS)
        read, made = (x, y) if direction is Direction.FORWARD else (y, x)
        turned = (order is Order.FIRST or g.groups > 1, order is Order.FIRST)
        copies = 1 + sum(turned)  # filters, too
        split = 2 * ITEM * (read * turned[0] + made * turned[1])
        moved = ITEM * (read + made)
    before = split / COPY_BYTES_S + copies * COPY_S * turns
    products = max(choice.seconds, moved / _MOVED_S)
    return g.groups * (before + products + COPY_S * turns)


def _plain_seconds(
    target: Target,
    g: ConvGeometry,
    direction: Direction,
    winograd: bool,  # noqa: FBT001 - one of what the time depends on
) -> float:
    """A rough estimate of the time it takes in float32, with channels first."""
    rate = _PLAIN_RATE
    if winograd and conv_winograd.obstacle(target, g, direction, ITEM) is None:
        few = min(min(g.ic, g.oc) / _WINOGRAD_CHANNELS, 1)
        rate = _WINOGRAD_RATES[g.kh] * few if conv_winograd.pays(g, direction) else rate
    moved = ITEM * g.n * (g.ic * g.h * g.w + g.oc * g.oh * g.ow)
    return max(g.flops / rate, moved / _PLAIN_MOVED_S) + COPY_S
