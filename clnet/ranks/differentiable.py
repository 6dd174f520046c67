"""Exchanges that gradients go through: what a rank's values are used for on others comes back."""

from __future__ import annotations

from typing import Any

from ..autodiff.custom import Function
from ..errors import ArgumentError
from ..tensor import Tensor
from . import operations
from .membership import get_world_size
from .operations import ReduceOp
from .world import Group

__all__ = ["all_reduce"]


class _Summed(Function):
    """The sum over ranks; a value counts in the sums of all, so gradients are summed, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group | None) -> Tensor:
        """The sum."""
        ctx.group = group
        y = x.contiguous().clone()
        operations.all_reduce(y, group=group)
        return y

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
    summed = _Summed.apply(tensor, group)
    return summed / get_world_size(group) if op is ReduceOp.AVG else summed
