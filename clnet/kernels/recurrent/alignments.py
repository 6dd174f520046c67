"""Ways through the states of sequences, for connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import round_up
from ..grid import in_groups
from ..kernel import Kernel, by_name

__all__ = ["NEVER", "alignments", "alignments_backward"]

NEVER = -1e30
"""Stands for log(0): finite, so that no gradient is NaN."""

_FORWARD = Kernel("alignments", "recurrent/alignments.mako")
_BACKWARD = Kernel("alignments_backward", "recurrent/alignments.mako")
_WARP, _MOST_ITEMS = 32, 256
_FLOPS = 20  # of a state in a step, exponentials among them


def alignments(
    target: Target,
    last: Array,
    alpha: Array,
    emitted: Array,
    skips: Array,
    lengths: Array,
) -> list[Launch]:
    """Logarithms of what all ways to a state amount to.

    Args:
        target: what to choose the kernel for.
        last: ``(n, count)``, dense: after the last step of each sequence.
        alpha: ``(steps, n, count)``, dense: after each step within the sequence.
        emitted: ``(steps, n, count)``, dense: logarithms of what states emit.
        skips: ``(n, count)``, dense int32: whether the state before may be skipped.
        lengths: ``(n,)``, dense int32: steps of the sequences.
    """
    return _launched(target, _FORWARD, "alpha last", (alpha, last), emitted, skips, lengths)


def alignments_backward(
    target: Target,
    out: Array,
    g: Array,
    alpha: Array,
    emitted: Array,
    skips: Array,
    lengths: Array,
) -> list[Launch]:
    """The gradient to what is emitted.

    Args:
        target: what to choose the kernel for.
        out: ``(steps, n, count)``, dense.
        g: ``(n, count)``, dense: the gradient of ``last``.
        alpha: what :func:`alignments` gave.
        emitted: as there.
        skips: as there.
        lengths: as there.
    """
    return _launched(target, _BACKWARD, "out g alpha", (out, g, alpha), emitted, skips, lengths)


def _launched(
    target: Target,
    kernel: Kernel,
    names: str,
    arrays: tuple[Array, ...],
    emitted: Array,
    skips: Array,
    lengths: Array,
) -> list[Launch]:
    steps, n, count = emitted.shape
    if n == 0:
        return []
    group = 1
    if in_groups(target.traits):
        most = min(_MOST_ITEMS, target.traits.max_group_size)
        group = min(round_up(count, _WARP), most)
    params: dict[str, Any] = {"ctype": emitted.dtype.ctype, "group": group, "never": NEVER}
    operands = (*arrays, emitted, skips, lengths)
    return [
        kernel.launch(
            params,
            by_name(f"steps n count {names} emitted skips lengths", steps, n, count, *operands),
            global_size=(n * group,),
            local_size=(group,),
            flops=_FLOPS * emitted.size,
            bytes=sum(x.nbytes for x in operands),
        )
    ]
