"""Rows turned in pairs until they are orthogonal: singular values."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ..grid import in_groups
from ..kernel import Constraint, Kernel, by_name
from ..moving import copy
from .householder import group_of
from .rotations_alone import rows_alone
from .spectrum import real_of

_GPU_TEAM = 16

_ROWS = Kernel(
    "orthogonal_rows",
    "factor/rotations.mako",
    constraints=(Constraint("group % team == 0", "a group is whole teams"),),
)


def orthogonal_rows(
    target: Target, lengths: Array, y: Array, rotation: Array | None, x: Array
) -> list[Launch]:
    """``y = rotation @ x``: rows that are orthogonal, the longest first.

    Args:
        target: what to choose the kernels for.
        lengths: ``(batch, count)``, dense: of the rows of ``y``.
        y: ``(batch, count, n)``, dense.
        rotation: ``(batch, count, count)``, dense; None: not wanted.
        x: the shape of ``y``, with elements of at most a few.
    """
    if x.size == 0:
        return []
    if not in_groups(target.traits):
        return rows_alone(target, lengths, y, rotation, x)
    batch, count, n = x.shape
    group = group_of(target)
    memory = Scratch(x.device)
    work = Array.scratch(memory, x.shape, x.dtype)
    wanted = rotation is not None
    scratch = Array.scratch(memory, rotation.shape, x.dtype) if rotation is not None else None
    return [
        *copy(target, work, x),
        _ROWS.launch(
            {**real_of(x), "group": group, "team": min(_GPU_TEAM, group), "vectors": wanted},
            by_name("count n x s y r v", count, n, work, lengths, y, scratch, rotation),
            global_size=(batch * group,),
            local_size=(group,),
            flops=56 * batch * n * count**2,
            bytes=2 * x.nbytes,
        ),
    ]
