"""Ways through the states of sequences, for connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...array import Array
from ...device import Check, Launch, Target
from ...values.shapes import round_up
from ..grid import in_groups, items
from ..kernel import Arguments, Kernel, by_name, joined
from ..moving import fill

__all__ = ["NEVER", "alignments", "alignments_backward"]

NEVER = -1e30
"""Stands for log(0): finite, so that no gradient is NaN."""

_FORWARD = Kernel("alignments", "recurrent/alignments.mako")
_BACKWARD = Kernel("alignments_backward", "recurrent/alignments.mako")
_CLASSES = Kernel("alignments_classes", "recurrent/alignments.mako")
_WARP, _MOST_ITEMS, _MOST_LANES = 32, 256, 8
_FLOPS = 20  # of a state in a step, exponentials among them


def alignments(
    target: Target,
    outputs: Sequence[Array],
    emitted: Array,
    targets: Array,
    lengths: Sequence[Array],
    *,
    blank: int,
    check: Check | None = None,
) -> list[Launch]:
    """Minus the logarithms of what all ways through a sequence amount to.

    All arrays are dense, indices and lengths int64.

    Args:
        target: what to choose the kernel for.
        outputs: what is written: the losses ``(n,)``; the logarithms of states after each step,
            ``(steps, n, 2, size + 1)``, of blanks and of classes; and ``(n, size)`` int32, which
            the other kernels read.
        emitted: ``(steps, n, classes)``, logarithms of what is emitted.
        targets: ``(n, size)``, ``size`` above 0.
        lengths: ``(n,)`` each: steps of the sequences, and classes of the targets.
        blank: the class that stands for none.
        check: what a target that is no class is reported as.
    """
    names = "losses alpha codes emitted targets input_lengths target_lengths"
    operands = (*outputs, emitted, targets, *lengths)
    params = {"check": check is not None}
    launches = _launched(target, _FORWARD, params, outputs[1], emitted, blank, names, operands)
    return [launch.reporting(check) for launch in launches]


def alignments_backward(
    target: Target,
    outputs: Sequence[Array],
    g: Array,
    forward: Sequence[Array],
    emitted: Array,
    lengths: Sequence[Array],
    *,
    blank: int,
) -> list[Launch]:
    """The gradient to what is emitted.

    Args:
        target: what to choose the kernel for.
        outputs: the gradient ``(steps, n, classes)``, and that of states, of their shape.
        g: ``(n,)``, dense: the gradient of the losses.
        forward: the second and third that :func:`alignments` wrote.
        emitted: as there.
        lengths: as there.
        blank: as there.
    """
    out, states = outputs
    alpha, codes = forward
    names = "out g alpha codes emitted input_lengths target_lengths"
    operands = (states, g, alpha, codes, emitted, *lengths)
    launches = _launched(target, _BACKWARD, {}, states, emitted, blank, names, operands)
    if not launches:
        return []
    operands = (out, states, codes, *lengths)
    return [
        *launches,
        *fill(target, out, 0),
        _CLASSES.launch(
            {"ctype": emitted.dtype.ctype},
            joined(
                _sizes(states, emitted, blank),
                by_name("out states codes input_lengths target_lengths", *operands),
            ),
            **items(target, out.shape[0] * out.shape[1]),
            flops=states.size,
            bytes=2 * states.nbytes,
        ),
    ]


def _sizes(states: Array, emitted: Array, blank: int) -> Arguments:
    steps, n, classes = emitted.shape
    sizes = (steps, n, states.shape[3] - 1, classes, blank)
    return by_name("steps n size classes blank", *sizes)


def _launched(
    target: Target,
    kernel: Kernel,
    params: dict[str, Any],
    states: Array,
    emitted: Array,
    blank: int,
    names: str,
    operands: tuple[Array, ...],
) -> list[Launch]:
    n = emitted.shape[1]
    if n == 0:
        return []
    group = lanes = 1
    if in_groups(target.traits):
        most = min(_MOST_ITEMS, target.traits.max_group_size)
        group = min(round_up(states.shape[3], _WARP), most)
    elif emitted.dtype.ctype == "float":
        lanes = min(target.traits.simd_width, _MOST_LANES)
    params |= {"ctype": emitted.dtype.ctype, "group": group, "lanes": lanes, "never": NEVER}
    return [
        kernel.launch(
            params,
            joined(_sizes(states, emitted, blank), by_name(names, *operands)),
            global_size=(n * group,),
            local_size=(group,),
            flops=_FLOPS * states.size,
            bytes=sum(x.nbytes for x in operands),
        )
    ]
