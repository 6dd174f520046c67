"""Dropout."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """In training, 0 with probability ``p``, else ``x / (1 - p)``; in evaluation, ``x``.

    Args:
        p: in ``[0, 1]``.
        inplace: taken as PyTorch does, and shown; the result is a new tensor all the same.

    Raises:
        ArgumentError: if ``p`` is no probability.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError("Dropout", "p lies in [0, 1]", p=p)
        self.p = p
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.dropout(x, self.p, training=self.training)

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, inplace={self.inplace}"
