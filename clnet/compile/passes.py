"""The passes that rewrite a trace, in order; each is a pure function in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .activations import activations
from .as_values import as_values
from .by_columns import by_columns
from .channels_last import channels_last
from .epilogue import epilogue
from .fold_batch_norm import fold
from .fuse import fuse
from .fuse_attention import fuse_attention
from .fuse_into_products import fuse_into_products
from .join_products import join_products
from .join_slices import join_slices
from .layout import layout
from .merge_updates import merge_updates
from .narrow_losses import narrow_losses
from .narrow_sums import narrow_sums
from .pack_weights import pack_weights
from .pad_rows import pad_rows
from .prologue import prologue
from .rematerialize import recompute, recompute_beside
from .simplify import simplify, with_constants
from .split_batch_norm import split
from .trace import Trace
from .turn_weights import turn_weights
from .wait_late import wait_late
from .work_first import work_first

Pass = Callable[[Trace], Trace]

PASSES: tuple[Pass, ...] = (
    as_values,
    simplify,
    fuse_attention,
    join_slices,
    fold,
    layout,
    channels_last,
    narrow_sums,
    narrow_losses,
    split,
    epilogue,
    fuse,
    activations,
    recompute_beside,
    pad_rows,
    turn_weights,
    fuse_into_products,
    by_columns,
    join_products,
    prologue,
    wait_late,
    work_first,
    merge_updates,
    pack_weights,
    with_constants,
)
"""From what was recorded to what is planned: the one list, in order."""

MAY_ROUND: tuple[Pass, ...] = (
    fuse_attention,
    join_slices,
    fold,
    layout,
    channels_last,
    pad_rows,
    turn_weights,
    by_columns,
    join_products,
    prologue,
    pack_weights,
)
"""Those after which results may differ in their last bits from what eager execution gives.

``fuse_attention`` adds up weights in another order than a softmax and products of them,
``join_slices`` leaves out sums with 0, which make 0 of -0, ``fold`` multiplies filters instead of
results, ``layout`` brings other algorithms for convolutions (Winograd's, blocks of channels) with
other orders of their sums and those of batch norms, ``channels_last`` other orders of batch norms'
and other sums on GPUs with matrix units, ``pad_rows``, ``turn_weights``, ``by_columns`` and
``join_products`` other tiles of products, ``prologue`` other orders for sums that compute what they
read, and ``pack_weights`` other cuts of products' sums. All others keep every bit.
"""

KEEPING_BITS: tuple[Pass, ...] = tuple(p for p in PASSES if p not in MAY_ROUND)
"""What to compile with for the bits of eager execution."""

SAVING: tuple[Pass, ...] = (recompute, fuse)
"""What follows where memory is short: less of it for some more work."""


def rewrite(trace: Trace, passes: Sequence[Pass] = PASSES) -> Trace:
    """The trace after every pass, whose names it keeps."""
    for rewriting in passes:
        trace = rewriting(trace)
    return replace(trace, passes=(*trace.passes, *(p.__name__ for p in passes)))
