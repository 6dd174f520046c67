"""Exchanges that gradients go through: what a rank's values are used for on others comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..autodiff.custom import Function
from ..creation import empty
from ..errors import ArgumentError
from ..ops.shape import alias
from ..tensor import Tensor
from . import operations, to_each
from .hosted import split_rows
from .membership import get_rank, get_world_size
from .operations import ReduceOp
from .world import Group

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "copied",
    "gather",
    "gathered",
    "parted",
    "reduce",
    "reduce_scatter",
    "scatter",
    "summed",
]


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
    _check_sum("all_reduce", op)
    total = _Summed.apply(tensor, group)
    return total / get_world_size(group) if op is ReduceOp.AVG else total


def _own(x: Tensor) -> Tensor:
    """A dense copy."""
    return x.detach().contiguous().clone()


class _Spread(Function):
    """A rank's values on all: their gradients are summed on it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, src: int, group: Group | None) -> Tensor:
        """The values."""
        ctx.src, ctx.group = src, group
        y = _own(x)
        operations.broadcast(y, src, group=group)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """The sum on that rank, 0 elsewhere."""
        return reduce(grad, ctx.src, group=ctx.group), None, None


class _Collected(Function):
    """The values of all ranks on all: each gets the sum of its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group | None) -> Tensor:
        """The values, a rank's in each place of a new first axis."""
        ctx.group = group
        whole = empty((get_world_size(group), *x.shape), dtype=x.dtype, device=x.device)
        operations.all_gather_into_tensor(whole, _own(x), group=group)
        return whole

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """This rank's of the summed gradients."""
        return _Summed.apply(grad, ctx.group)[get_rank(ctx.group)], None


class _Exchanged(Function):
    """What each rank has for this one: gradients go back to where values came from."""

    @staticmethod
    def forward(
        ctx: Any, group: Group | None, shapes: Sequence[tuple[int, ...]], *parts: Tensor
    ) -> tuple[Tensor, ...]:
        """The parts, of these shapes."""
        ctx.group, ctx.shapes = group, [tuple(part.shape) for part in parts]
        x = parts[0]
        found = [empty(shape, dtype=x.dtype, device=x.device) for shape in shapes]
        to_each.all_to_all(found, [_own(part) for part in parts], group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """Each rank's gradient of what this one has given it."""
        return None, None, *_Exchanged.apply(ctx.group, ctx.shapes, *grads)


def all_gather(tensor: Tensor, group: Group | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, on every rank; the sum of all ranks' gradients comes back.

    Args:
        tensor: of one shape and dtype on all ranks.
        group: who takes part; None: all.

    Returns:
        A tensor of that shape for each rank.
    """
    return _Collected.apply(tensor, group).unbind(0)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Group | None = None
) -> tuple[Tensor, ...]:
    """What each rank has in this one's place of its list; gradients go back.

    Args:
        output_tensor_list: a tensor for each rank, of what comes from it; none is overwritten.
        input_tensor_list: a tensor for each rank.
        group: who takes part; None: all.

    Returns:
        A tensor for each rank, of the shapes of ``output_tensor_list``.
    """
    shapes = [tuple(y.shape) for y in output_tensor_list]
    return _Exchanged.apply(group, shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,  # noqa: A002 - PyTorch's
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
) -> Tensor:
    """As :func:`all_to_all`, of one tensor whose parts lie behind each other.

    Args:
        output: of the result's shape; it is not overwritten.
        input: cut along its first axis.
        output_split_sizes: rows that come from each rank; None: all parts are of one size.
        input_split_sizes: rows for each rank.
        group: who takes part; None: all.

    Raises:
        DistributedError: if the sizes are not those of the tensors.
    """
    name, ranks = "all_to_all_single", get_world_size(group)
    given = split_rows(name, "input", input, input_split_sizes, ranks)
    found = split_rows(name, "output", output, output_split_sizes, ranks)
    parts = ops.split(input, [len(part) for part in given])
    return ops.cat(list(all_to_all(found, list(parts), group)))


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group | None = None,
) -> Tensor:
    """The sum of what all ranks have in this one's place of a list; gradients go back to all.

    Args:
        output: of the result's shape; it is not overwritten.
        input_list: a tensor for each rank, of that shape.
        op: ``SUM`` or ``AVG``.
        group: who takes part; None: all.

    Raises:
        ArgumentError: if ``op`` is another.
    """
    _check_sum("reduce_scatter", op)
    ranks = get_world_size(group)
    total = ops.stack(list(all_to_all([output] * ranks, input_list, group))).sum(0)
    return total / ranks if op is ReduceOp.AVG else total


def broadcast(tensor: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor of rank ``src``, on every rank; the sum of all gradients comes back to it.

    Args:
        tensor: of one shape and dtype on all ranks; it stays as it is.
        src: the rank in the world.
        group: who takes part; None: all.
    """
    return _Spread.apply(tensor, src, group)


def reduce(
    tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group | None = None
) -> Tensor:
    """The sum of the tensors of all ranks on rank ``dst``, 0 elsewhere, with a gradient.

    Args:
        tensor: of one shape and dtype on all ranks; it stays as it is.
        dst: the rank in the world.
        op: ``SUM`` or ``AVG``.
        group: who takes part; None: all.

    Raises:
        ArgumentError: if ``op`` is another.
    """
    total = all_reduce(tensor, op, group)
    return total if get_rank() == dst else _none(total)


def gather(tensor: Tensor, dst: int = 0, group: Group | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on rank ``dst``, zeros elsewhere; gradients go back to each.

    Args:
        tensor: of one shape and dtype on all ranks.
        dst: the rank in the world.
        group: who takes part; None: all.

    Returns:
        A tensor of that shape for each rank.
    """
    whole = all_gather(tensor, group)
    return whole if get_rank() == dst else tuple(_none(x) for x in whole)


def scatter(tensors: list[Tensor], src: int = 0, group: Group | None = None) -> Tensor:
    """This rank's place of the list of rank ``src``; its gradient goes back there.

    Args:
        tensors: a tensor for each rank, of one shape and dtype, on all ranks.
        src: the rank in the world.
        group: who takes part; None: all.
    """
    return broadcast(ops.stack(tensors), src, group)[get_rank(group)]


def _none(x: Tensor) -> Tensor:
    """Zeros that have a gradient to give back, of zeros: other ranks wait for it."""
    return ops.where(ops.zeros_like(x).bool(), x, ops.zeros_like(x))


def _check_sum(name: str, op: ReduceOp) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ArgumentError(name, "what has a gradient is SUM or AVG", given=op)


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
        group: who takes part; parts are those of ``chunk``: the last ones may be smaller, or of no
            elements.
    """
    return _Parted.apply(x, dim, group)
