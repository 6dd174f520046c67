"""The mean of a cross entropy: its losses, over the weights of their targets."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import from_name
from ..grid import in_groups
from ..kernel import Constraint, Kernel, by_name

_TEMPLATE = "softmax/cross_entropy_mean.mako"
_TREE = (Constraint("group & (group - 1) == 0", "a binary tree"),)
MEAN = Kernel("cross_entropy_mean", _TEMPLATE, _TREE)
MEAN_ITEM = Kernel("cross_entropy_mean_item", _TEMPLATE, _TREE)

_GROUP = 64


def cross_entropy_mean(
    target: Target, out: Array, total: Array, loss: Array, counted: Array
) -> Launch:
    """The mean of losses by their targets' weights, in one launch.

    Args:
        target: the device's traits.
        out: one element: the mean.
        total: one element: the sum of the weights.
        loss: dense, any shape.
        counted: dense, its shape: the weight of each target, 0 when it is ignored.

    Returns:
        The launch.
    """
    group = min(_GROUP, target.traits.max_group_size)
    acc = from_name(loss.dtype.compute)
    # Where work-items do not run together, barriers only cost: most of all when they are compiled.
    kernel, items = (MEAN, group) if in_groups(target.traits) else (MEAN_ITEM, 1)
    return kernel.launch(
        by_name("ctype acc group", loss.dtype.ctype, acc.ctype, group),
        by_name("n mean total loss counted", loss.size, out, total, loss, counted),
        global_size=(items,),
        local_size=(items,),
        flops=2 * loss.size,
        bytes=2 * loss.nbytes,
    )
