"""Convolutions of integers of 8 bits, and linear layers as convolutions of images of one pixel."""

from __future__ import annotations

from math import inf

import numpy as np

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..conv import ConvGeometry
from ..grid import items
from ..kernel import Kernel, Named, by_name, joined
from .integer_form import WORD, IntegerForm, integer_form

CONV = Kernel("integer_conv", "integer/integer_conv.mako")
ITEMS = Kernel("integer_conv_items", "integer/integer_conv.mako")

# What gathered rows take: half of a second-level cache of 512 KiB, beside a panel of filters.
LOCAL_BYTES = 2**18
# Pixels whose rows are gathered at a time, at most.
MOST_GATHERED = 96
# An item has at least this many operations (about 30 us of a core with instructions for them).
ITEM_FLOPS = 8_000_000
MOST_ITEMS_PER_UNIT = 4
_TOP = 255


class Quantisation(NamedTuple):
    """What numbers of 8 bits stand for: ``(q - zero) * scale``.

    Attributes:
        scale: from number to number.
        zero: the number that stands for 0, 0 to 255.
    """

    scale: float
    zero: int

    def of(self, value: float) -> float:
        """The number that stands for a value; the last one for those beyond."""
        if value in (inf, -inf):
            return float(_TOP if value > 0 else 0)
        return float(min(max(round(value / self.scale) + self.zero, 0), _TOP))


class IntegerEpilogue(NamedTuple):
    """What is made of the sums.

    Attributes:
        output: of numbers of 8 bits; None: floats are stored.
        low, high: bounds of what the output stands for.
        added: of what is added before the bounds; None: there is none, or it is float32.
    """

    output: Quantisation | None = None
    low: float = -inf
    high: float = inf
    added: Quantisation | None = None


def integer_conv(
    target: Target,
    y: Array,
    operands: tuple[Array, ...],
    g: ConvGeometry,
    epilogue: IntegerEpilogue,
    *,
    given: Quantisation,
    dot: str,
    point: Array | None = None,
) -> list[Launch]:
    """``y = convolution * given.scale * filters' scales + what is added``, within bounds.

    Args:
        target: what to choose tiles for.
        y: ``(n, oh, ow, oc)`` float32, or uint8 with ``stored_channels(oc)``, dense; int32: the
            sums themselves.
        operands: ``x``, ``(n, h, w, stored_channels(ic))`` uint8; packed filters and their table;
            and what is added, as ``y`` is or the other of the two. All dense.
        g: the sizes.
        epilogue: what is made of the sums.
        given: of ``x``; what is padded is its zero point.
        dot: the name of the device's instruction.
        point: the zero point of ``x``, one uint8, in place of ``given``'s.
    """
    if y.size == 0:
        return []
    x, packed, table, *more = operands
    form = integer_form(target, dot)
    total, panels = g.n * g.oh * g.ow, form.panels(g)
    params = by_name(
        "vectors pixels define shift computed ytype added",
        form.vectors, form.pixels, form.dot.define, form.dot.shift, point is not None,
        y.dtype.ctype, more[0].dtype.ctype if more else None,
    )  # fmt: skip
    in_place = _lies_in_place(x, g)
    split = _split(target, g, form)
    args = joined(
        by_name("y x packed table", y, x, packed, table),
        added_of(more, epilogue),
        by_name("total share panel_share some", total, *split),
        by_name("entries panels", table.shape[1], panels),
        by_name("ocg icg icp", g.ocg, g.icg, round_up(g.icg, WORD)),
        by_name("y_channels y_height y_width", y.shape[3], g.oh, g.ow),
        by_name("x_channels x_height x_width", x.shape[3], g.h, g.w),
        g.sizes("kh kw sh sw ph pw dh dw"),
        numbers_of(epilogue, given, point),
    )
    nbytes = sum(a.nbytes for a in (y, *operands))
    if form.width == 1:
        sizes = items(target, ceil_div(total, form.pixels) * panels)
        (count,), (local,) = sizes["global_size"], sizes["local_size"]
        return [
            ITEMS.launch(
                params, args, global_size=(count, 1, g.groups), local_size=(local, 1, 1),
                flops=g.flops, bytes=nbytes,
            )
        ]  # fmt: skip
    held = by_name(
        "width narrow local_ints in_place",
        form.width, form.dot.narrow, 0 if in_place else _local_ints(g, form), in_place,
    )  # fmt: skip
    grid = (ceil_div(total, split[0]), ceil_div(panels, split[1]), g.groups)
    return [CONV.launch(joined(params, held), args, global_size=grid, flops=g.flops, bytes=nbytes)]


def _lies_in_place(x: Array, g: ConvGeometry) -> bool:
    """Whether what a pixel reads lies in ``x`` as its row is read: all channels of one pixel."""
    plain = g.taps == g.sh == g.sw == g.groups == 1 and g.ph == g.pw == 0
    return plain and x.shape[3] == round_up(g.icg, 2 * WORD)


def _local_ints(g: ConvGeometry, form: IntegerForm) -> int:
    """Ints of local memory: a power of two, so that few kernels are compiled."""
    least = form.steps(g) * form.pixels
    return max(LOCAL_BYTES // WORD, 1 << (least - 1).bit_length())


def _split(target: Target, g: ConvGeometry, form: IntegerForm) -> tuple[int, int, int]:
    """Pixels and panels of an item, and pixels that are gathered at a time."""
    total, panels = g.n * g.oh * g.ow, form.panels(g)
    fit = _local_ints(g, form) // form.steps(g)
    some = min(MOST_GATHERED, fit) // form.pixels * form.pixels
    most = target.traits.compute_units * MOST_ITEMS_PER_UNIT
    wanted = max(1, min(most, g.flops // ITEM_FLOPS))
    parts = max(1, min(wanted, ceil_div(total, some) if total > some else 1))
    share = round_up(ceil_div(total, parts), form.pixels)
    parts = ceil_div(total, share)
    panel_share = ceil_div(panels, min(panels, max(1, wanted // (parts * g.groups))))
    return share, panel_share, some


def added_of(more: list[Array], epilogue: IntegerEpilogue) -> Named:
    """What is added, in units of what is stored."""
    if not more:
        return by_name("more more_channels more_factor more_zero", None, None, None, None)
    scale, zero = (1.0, 0) if epilogue.added is None else epilogue.added
    unit = np.float32(1 if epilogue.output is None else epilogue.output.scale)
    factor = float(np.float32(scale) / unit)
    return by_name(
        "more more_channels more_factor more_zero",
        more[0], more[0].shape[3], factor, float(zero),
    )  # fmt: skip


def numbers_of(epilogue: IntegerEpilogue, given: Quantisation, point: Array | None = None) -> Named:
    """The zero point, the factor of all sums, and the bounds of what is stored."""
    output, low, high, _ = epilogue
    factor, y_zero = float(np.float32(given.scale)), 0
    if output is not None:
        factor, y_zero = float(np.float32(factor) / np.float32(output.scale)), output.zero
        low, high = (output.of(value) - y_zero for value in (low, high))
    zero = given.zero if point is None else None
    return by_name("point zero factor low high y_zero", point, zero, factor, low, high, y_zero)
