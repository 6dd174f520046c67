"""Look-up tables of trained rows."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any

from .. import ops
from ..creation import abstract, empty
from ..dtypes import DType, float32
from ..errors import BoundsError, ShapeError
from ..tensor import Tensor
from . import init
from .module import Module, Parameter

__all__ = ["Embedding", "EmbeddingBag"]


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
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row_number("Embedding", padding_idx, num_embeddings)
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
    ) -> Embedding:
        """A layer with this table, which is not copied.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: the table gets no gradient.
            padding_idx: a row that gets no gradient.

        Raises:
            ShapeError: if the table has not two axes.
        """
        rows, width = _require_table("Embedding", embeddings)
        with abstract():
            layer = cls(rows, width, padding_idx)
        layer.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        _draw(self.weight, self.padding_idx)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., embedding_dim)`` from whole numbers ``(...)``."""
        return ops.embedding(x, self.weight, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


class EmbeddingBag(Module):
    """Sums, means or maxima of a table's rows, bag by bag, as :func:`clnet.ops.embedding_bag`.

    Args:
        num_embeddings: rows.
        embedding_dim: their size.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: a row that is 0 at first, does not count and gets no gradient, from the end if
            negative.
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
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = _row_number("EmbeddingBag", padding_idx, num_embeddings)
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer with this table, which is not copied.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: the table gets no gradient.
            mode: as the class takes it.
            include_last_offset: the same.
            padding_idx: the same.

        Raises:
            ShapeError: if the table has not two axes.
        """
        rows, width = _require_table("EmbeddingBag", embeddings)
        with abstract():
            layer = cls(
                rows,
                width,
                mode=mode,
                include_last_offset=include_last_offset,
                padding_idx=padding_idx,
            )
        layer.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        _draw(self.weight, self.padding_idx)

    def forward(
        self,
        input: Tensor,  # noqa: A002 - PyTorch's name
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """``(bags, embedding_dim)`` from ``(bags, n)``, or ``(n,)`` with offsets ``(bags,)``."""
        return ops.embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Sizes and mode."""
        text = f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


def _row_number(name: str, padding_idx: int | None, rows: int) -> int | None:
    """The row's number from the start."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise BoundsError(
            name, "padding_idx is one of the rows", padding_idx=padding_idx, num_embeddings=rows
        )
    return padding_idx % rows


def _require_table(name: str, embeddings: Tensor) -> tuple[int, ...]:
    if embeddings.ndim != 2:
        raise ShapeError(name, "the table is (rows, width)", embeddings=embeddings.shape)
    return embeddings.shape


def _draw(weight: Parameter, padding_idx: int | None) -> None:
    init.normal_(weight)
    if padding_idx is not None:
        ops.narrow(weight.detach(), 0, padding_idx, 1).zero_()
