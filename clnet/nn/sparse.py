"""Look-up tables of trained rows."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..creation import empty
from ..dtypes import DType, float32
from ..errors import BoundsError
from ..tensor import Tensor
from . import init
from .module import Module, Parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """Rows of a table, looked up by number.

    Args:
        num_embeddings: rows.
        embedding_dim: their size.
        padding_idx: a row that is 0 at first and gets no gradient, from the end if negative.
        device: where the table is; None: the current device.
        dtype: of the table.

    Attributes:
        weight: ``(num_embeddings, embedding_dim)``, standard normal at first.

    Raises:
        BoundsError: if there is no row ``padding_idx``.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise BoundsError(
                "Embedding",
                "padding_idx is one of the rows",
                padding_idx=padding_idx,
                num_embeddings=num_embeddings,
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            ops.narrow(self.weight.detach(), 0, self.padding_idx, 1).zero_()

    def forward(self, x: Tensor) -> Tensor:
        """``(..., embedding_dim)`` from whole numbers ``(...)``."""
        return ops.embedding(x, self.weight, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
