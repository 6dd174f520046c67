"""The gradient to queries of what groups of keys in tiles left of it."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import round_up
from ..kernel import Constraint, Kernel, by_name, joined

SUM = Kernel(
    "attention_tiles_sum",
    "softmax/attention_tiles_sum.mako",
    constraints=(Constraint("head % width == 0", "rows are whole runs"),),
)


def summed(
    target: Target, gq: Array, pieces: Array, *, own: int, causal: bool, scale: float
) -> Launch:
    """The launch that adds pieces up.

    Args:
        target: what the device is like.
        gq: written, ``(n, heads, rows, head)``, its rows dense.
        pieces: dense ``(groups of keys, n, heads, rows, head)``.
        own: keys of a group.
        causal: whether a row has none of groups behind its own number.
        scale: factor of the sums.
    """
    n, heads, rows, head = gq.shape
    width = 4 if all(x % 4 == 0 for x in (head, gq.offset, *gq.strides[:3])) else 1
    group = min(256, target.traits.max_group_size)
    some = pieces.nbytes // (1 + causal)
    return SUM.launch(
        {
            "ctype": gq.dtype.ctype,
            "head": head,
            "own": own,
            "width": width,
            "causal": causal,
        },
        joined(
            by_name("rows heads groups", rows, heads, pieces.shape[0]),
            by_name("image head_step row_step", *gq.strides[:3]),
            by_name("scale gq piece", scale, gq, pieces),
        ),
        global_size=(round_up(rows * head // width, group), n * heads),
        local_size=(group, 1),
        flops=some // gq.dtype.itemsize,
        bytes=some + gq.nbytes,
    )
