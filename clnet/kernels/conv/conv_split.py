"""Convolutions of float32 as sums of three products of TF32: the form of ``"tf32x3"``.

Filters are split in two parts that TF32 holds by the launch that turns them over, and images by
the items that multiply them, in registers (``conv_warpgroup``): those that lie channels last are
read as they are. So are both of filters' gradients; where boxes of pixels do not fit, they are laid
as lines, one in two parts (``conv_lines``). Groups of channels follow one another, and so do as
many images as scratch memory holds copies of. ``conv_split_choice`` says where all that is done.
"""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ...errors import ArgumentError
from ...values.dtypes import float32
from ...values.shapes import round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import laid
from ..moving import copy
from .conv_geometry import ConvGeometry, Direction
from .conv_lines import filters_from_lines, laid_lines, lines_choice, lines_of
from .conv_matrix import channels_last, is_last
from .conv_matrix_weight import added, some_of
from .conv_split_choice import (
    PARTS,
    RUN,
    STEPS,
    Order,
    channels_of,
    images_at_once,
    one_group,
    phases_of,
    pixels_choice,
)
from .conv_warpgroup import grid_of, multiplied
from .conv_warpgroup_weight import filters_gradient


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
    if pixels_choice(target, g, order) is None:
        return None
    before, grads = channels_last(target, memory, gy, 1)
    more, source = channels_last(target, memory, x, 1)
    found = filters_gradient(target, memory, grads, source, g, parts=PARTS)
    if found is None:
        return None
    multiply, parts = found
    return [*before, *more, multiply, added(target, gw, parts, g)]


def _from_lines(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient of channels that are laid as lines."""
    memory, launches, one = Scratch(gw.device), list[Launch](), one_group(g)
    lines, images = lines_of(one), images_at_once(target, one, Direction.WEIGHT_GRAD)
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
    memory, launches, one = Scratch(out.device), list[Launch](), one_group(g)
    of_out, of_source = channels_of(one, direction)
    last = is_dense_last(out)
    whole = g.groups == 1 and is_last(source)
    images = images_at_once(target, one, direction, read=not whole, made=not last)
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
    phases, strides = phases_of(g, direction)
    image, _, of_y, of_x = out.strides
    grid = grid_of(pixels.shape[:3], phases, (image, of_y, of_x), strides)
    if grid is None:  # such do not fit: nobody comes here with them
        law = "some result meets a tap of the filters"
        raise ArgumentError(f"conv_{direction.value}", law, geometry=g)
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
    rows, channels = channels_of(g, direction)
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


def _of_group(x: Array, group: int, channels: int) -> Array:
    """A group's channels."""
    n, _, h, w = x.shape
    return x.view((n, channels, h, w), x.strides, x.offset + group * channels * x.strides[1])


def _of_filters(weight: Array, group: int, g: ConvGeometry) -> Array:
    """A group's filters, dense as all are."""
    shape = (g.oc, *weight.shape[1:])
    return weight.view(shape, weight.strides, weight.offset + group * prod(shape))
