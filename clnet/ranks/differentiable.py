"""Exchanges that gradients go through: what a rank's values are used for on others comes back."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autodiff.custom import Function
from ..creation import empty
from ..errors import ArgumentError
from ..ops.shape import alias
from ..tensor import Tensor
from . import operations
from .membership import get_world_size
from .operations import ReduceOp
from .world import Group

__all__ = ["all_reduce", "copied", "gathered", "parted", "summed"]


def _sum(x: Tensor, group: Group | None) -> Tensor:
    y = x.contiguous().clone()
    operations.all_reduce(y, group=group)
    return y


class _Summed(Function):
    """The sum over ranks; a value counts in the sums of all, so gradients are summed, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group | None) -> Tensor:
        """The sum."""
        ctx.group = group
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The sum of the gradients."""
        return _Summed.apply(grad, ctx.group), None


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group | None = None) -> Tensor:
    """The sum of the tensors of all ranks, with a gradient; the tensor stays as it is.

    Args:
        tensor: of one shape and dtype on all ranks.
        op: ``SUM`` or ``AVG``.
        group: who takes part; None: all.

    Returns:
        The shape of the tensor.

    Raises:
        ArgumentError: if ``op`` is another.
    """
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ArgumentError("all_reduce", "what has a gradient is SUM or AVG", given=op)
    total = _Summed.apply(tensor, group)
    return total / get_world_size(group) if op is ReduceOp.AVG else total


# What follows is for values that all ranks compute alike from here on (or did until here): each
# rank's gradient of such a value is the whole one already, and is not added once more.


class _Copied(Function):
    """A value that all ranks have, given to parts of one computation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """The value."""
        ctx.group = group
        return alias(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The sum of the parts' gradients."""
        return summed(grad, ctx.group), None


class _Joined(Function):
    """The sum of parts of one computation, which all ranks have."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """The sum."""
        ctx.group = group
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The gradient, which all ranks have."""
        return copied(grad, ctx.group), None


class _Gathered(Function):
    """Parts behind each other, which all ranks have."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, size: int, group: Group) -> Tensor:
        """The parts."""
        ctx.dim, ctx.group = dim, group
        return _collected(x, dim, size, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """This rank's part of the gradient, which all ranks have."""
        return parted(grad, ctx.dim, ctx.group), None, None, None


class _Parted(Function):
    """This rank's part of a value that all ranks have."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Group) -> Tensor:
        """The part."""
        ctx.dim, ctx.group, ctx.size = dim, group, x.shape[dim]
        return own_part(x, dim, group).contiguous().clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """The parts' gradients behind each other."""
        return gathered(grad, ctx.dim, ctx.size, ctx.group), None, None


def own_part(x: Tensor, dim: int, group: Group, rank: int | None = None) -> Tensor:
    """What :func:`.ops.chunk` gives a rank of a group, of no elements if there are too few."""
    rows = -(-x.shape[dim] // group.size())
    begin = min((group.rank() if rank is None else rank) * rows, x.shape[dim])
    return ops.narrow(x, dim, begin, min(rows, x.shape[dim] - begin))


def _collected(x: Tensor, dim: int, size: int, group: Group) -> Tensor:
    rows = -(-size // group.size())
    first = ops.movedim(x, dim, 0)
    if first.shape[0] < rows:  # the last ranks' parts are shorter, or have no elements
        missing = (rows - first.shape[0], *first.shape[1:])
        first = ops.cat([first, first.new_zeros(missing)])
    whole = empty((group.size() * rows, *first.shape[1:]), dtype=x.dtype, device=x.device)
    operations.all_gather_into_tensor(whole, first.contiguous(), group=group)
    return ops.movedim(whole[:size], 0, dim).contiguous()


def copied(x: Tensor, group: Group) -> Tensor:
    """A value that all ranks have, as each uses it for a part: its gradient is the parts' sum.

    Args:
        x: the same on all ranks.
        group: who takes part.
    """
    return _Copied.apply(x, group)


def summed(x: Tensor, group: Group) -> Tensor:
    """The sum of parts, which all ranks go on with: its gradient is that of each part.

    Args:
        x: of one shape and dtype on all ranks.
        group: who takes part.
    """
    return _Joined.apply(x, group)


def gathered(x: Tensor, dim: int, size: int, group: Group) -> Tensor:
    """All parts behind each other, which all ranks go on with: a part's gradient is its part.

    Args:
        x: this rank's part, as :func:`parted` gives it.
        dim: the axis.
        size: of the whole along it.
        group: who takes part.
    """
    return _Gathered.apply(x, dim, size, group)


def parted(x: Tensor, dim: int, group: Group) -> Tensor:
    """This rank's part of a value that all ranks have, along an axis, in a memory of its own.

    Args:
        x: the same on all ranks.
        dim: the axis.
        group: who takes part; the first ranks have one row more where they do not divide evenly.
    """
    return _Parted.apply(x, dim, group)
