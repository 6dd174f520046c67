"""Rows of a table that a lookup gives, with a sparse gradient: that of the rows alone."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autodiff.custom import Function
from ..tensor import Tensor
from .layout import SparseTensor

__all__ = ["looked_up"]


class _LookUp(Function):
    """``y = table[index]``; arguments as :func:`looked_up`'s."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, padding: int) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding = table.shape, padding
        return ops.embedding(index, table, padding if padding >= 0 else None)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (index,) = ctx.saved_tensors
        if ctx.padding >= 0:
            (kept,) = ops.nonzero(index != ctx.padding, as_tuple=True)
            index, g = index[kept], g[kept]
        return SparseTensor(index.reshape(1, -1), g, ctx.shape), None, None


def looked_up(table: Tensor, index: Tensor, padding: int) -> Tensor:
    """``y[i] = table[index[i]]``, whose gradient is sparse.

    Args:
        table: ``(rows, width)``.
        index: ``(n,)``, int64.
        padding: the row that gets no gradient; -1 for none.

    Returns:
        ``(n, width)``.
    """
    return _LookUp.apply(table, index, padding)
