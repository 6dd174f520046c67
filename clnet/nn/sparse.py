"""Look-up tables of trained rows."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from .. import ops
from ..creation import abstract, empty
from ..errors import BoundsError, ShapeError
from ..tensor import Tensor
from ..values.dtypes import DType
from . import init
from .module import Module, Parameter

__all__ = ["Embedding", "EmbeddingBag"]

T = TypeVar("T", bound="_Table")


class _Rule(NamedTuple):
    """How rows are looked up; names as :func:`clnet.ops.embedding`'s."""

    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool


class _Table(Module):
    """A trained table of rows, one of which may stand for nothing."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        rule: _Rule,
        *,
        table: Tensor | None = None,
        frozen: bool = False,
        **like: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = self._row_number(padding_idx)
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = rule
        sizes = (num_embeddings, embedding_dim)
        if table is not None and table.shape != sizes:
            law = "the table has a row of that width for each number"
            raise ShapeError(type(self).__name__, law, table=table.shape, sizes=sizes)
        made = empty(*sizes, **like) if table is None else table.detach()
        self.weight = Parameter(made, requires_grad=not frozen)
        if table is None:
            self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls: type[T],
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        **settings: Any,
    ) -> T:
        """A layer with this table, which is not copied.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: the table gets no gradient.
            padding_idx: a row that gets no gradient.
            settings: the class's others.

        Raises:
            ShapeError: if the table has not two axes.
        """
        if embeddings.ndim != 2:
            raise ShapeError(
                cls.__name__, "the table is (rows, width)", embeddings=embeddings.shape
            )
        with abstract():
            layer = cls(*embeddings.shape, padding_idx=padding_idx, **settings)
        layer.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            ops.narrow(self.weight.detach(), 0, self.padding_idx, 1).zero_()

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"{self.num_embeddings}, {self.embedding_dim}"
        return sizes + self._padding() + self._settings() + ", sparse=True" * self.sparse

    def _padding(self) -> str:
        return "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"

    def _settings(self) -> str:
        """What is not the default."""
        text = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        return f"{text}, scale_grad_by_freq=True" if self.scale_grad_by_freq else text

    def _looked_up(self) -> dict[str, Any]:
        """The settings, as ops take them."""
        rule = _Rule(self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)
        return {"padding_idx": self.padding_idx, **rule._asdict()}

    def _row_number(self, padding_idx: int | None) -> int | None:
        """The row's number from the start."""
        rows = self.num_embeddings
        if padding_idx is None:
            return None
        if not -rows <= padding_idx < rows:
            raise BoundsError(
                type(self).__name__,
                "padding_idx is one of the rows",
                padding_idx=padding_idx,
                num_embeddings=rows,
            )
        return padding_idx % rows


class Embedding(_Table):
    """Rows of a table, looked up by number.

    Args:
        num_embeddings: rows.
        embedding_dim: their size.
        padding_idx: a row that is 0 at first and gets no gradient, from the end if negative.
        max_norm: rows are scaled down to this length, in the table, when they are looked up.
        norm_type: of which norm that is.
        scale_grad_by_freq: divide each row's gradient by how often the batch looks it up.
        sparse: the table's gradient is sparse, of the rows that were looked up alone; in compiled
            functions, and with ``scale_grad_by_freq``, it is dense, 0 in the other rows.
        _weight: the table itself, which is not copied; None: a new one.
        _freeze: the table gets no gradient.
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
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        *,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        rule = _Rule(max_norm, norm_type, scale_grad_by_freq, sparse)
        like = {"device": device, "dtype": dtype, "table": _weight, "frozen": _freeze}
        super().__init__(num_embeddings, embedding_dim, padding_idx, rule, **like)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., embedding_dim)`` from whole numbers ``(...)``."""
        return ops.embedding(x, self.weight, **self._looked_up())


class EmbeddingBag(_Table):
    """Sums, means or maxima of a table's rows, bag by bag, as :func:`clnet.ops.embedding_bag`.

    Args:
        num_embeddings: rows.
        embedding_dim: their size.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: a row that is 0 at first, does not count and gets no gradient, from the end if
            negative.
        max_norm, norm_type, scale_grad_by_freq, sparse: as :class:`Embedding`'s.
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
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        *,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        rule = _Rule(max_norm, norm_type, scale_grad_by_freq, sparse)
        like = {"device": device, "dtype": dtype}
        super().__init__(num_embeddings, embedding_dim, padding_idx, rule, **like)
        self.mode = mode
        self.include_last_offset = include_last_offset

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
            **self._looked_up(),
        )

    def extra_repr(self) -> str:
        """Sizes and mode."""
        sizes = f"{self.num_embeddings}, {self.embedding_dim}"
        return f"{sizes}{self._settings()}, mode={self.mode!r}{self._padding()}"
