"""Filters of integers, packed for :func:`.integer_conv`."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import Shape, round_up
from ..conv import ConvGeometry
from ..grid import items
from ..kernel import Kernel, by_name, joined
from .integer_form import WORD, IntegerForm, integer_form

PACK = Kernel("integer_pack", "integer/integer_pack.mako")
SMALL = Kernel("integer_small", "integer/integer_pack.mako")


def packed_shapes(target: Target, dot: str, g: ConvGeometry) -> tuple[Shape, Shape]:
    """Shapes of packed filters and of their table, both int32.

    Args:
        target: what the device is like.
        dot: the name of its instruction.
        g: the convolution; only its filters count.
    """
    form = integer_form(target, dot)
    panels = g.groups * form.panels(g)
    return (panels, form.steps(g), form.lanes), (4, panels * form.lanes)


def pack_integers(
    target: Target,
    made: tuple[Array, Array],
    given: tuple[Array, ...],
    g: ConvGeometry,
    *,
    dot: str,
) -> list[Launch]:
    """Filters in the order in which they are read, and a table of what belongs to each.

    Args:
        target: what the device is like.
        made: packed filters and table, of :func:`packed_shapes`.
        given: filters ``(oc, ic / groups, kh, kw)`` int8, bias ``(oc,)`` int32, scales ``(oc,)``
            float32, all dense.
        g: the convolution; only its filters count.
        dot: the name of the device's instruction.
    """
    (packed, table), (w, bias, scale) = made, given
    form: IntegerForm = integer_form(target, dot)
    if packed.size == 0:
        return []
    panels, entries, steps = packed.shape[0], table.shape[1], form.steps(g)
    launches = [
        PACK.launch(
            by_name("lanes", form.lanes),
            joined(
                by_name("total packed table w bias scale", packed.size, packed, table, *given),
                by_name("entries panels steps", entries, form.panels(g), steps),
                by_name("ocg icg icp taps", g.ocg, g.icg, round_up(g.icg, WORD), g.taps),
            ),
            **items(target, packed.size),
            flops=0,
            bytes=w.nbytes + bias.nbytes + scale.nbytes + packed.nbytes + table.nbytes,
        )
    ]
    if form.dot.narrow:
        launches.append(
            SMALL.launch(
                by_name("lanes", form.lanes),
                by_name("count table packed entries steps", panels, table, packed, entries, steps),
                **items(target, panels),
                flops=0,
                bytes=packed.nbytes,
            )
        )
    return launches
