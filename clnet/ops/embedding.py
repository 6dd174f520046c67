"""Rows of a table looked up by number, kept within a length where that is asked for."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import TYPE_CHECKING

from ..array import Array
from ..device import Check, Launch, Target
from ..errors import ArgumentError, BoundsError, ShapeError
from ..kernels import index as kernels
from ..values import mode
from ..values.dtypes import from_name, int64
from .arithmetic import clamp, where
from .check import of_index
from .complex_parts import by_parts
from .index import GatherRows, GatherRowsBackward, PutRows, added_up, dense_rows, require_index
from .machinery.function import Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .shape import contiguous, reshape, to_dtype
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor


_EPS = 1e-7  # PyTorch's


class Embedding(Function):
    """As :class:`GatherRows`; the row ``padding`` gets no gradient.

    Attributes:
        padding: the row; -1 for none.
        by_frequency: whether a row's gradient is the mean over its uses, not the sum.
    """

    of_complex = by_parts
    repeats = True

    padding: int
    by_frequency: bool
    check: Check | None = None
    saved_inputs = (1,)

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        return GatherRows(wrap=False, check=self.check).infer(x, index)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.gather_rows(target, outputs[0], *inputs, check=self.check)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Rows added up where they came from, but for the padding's."""
        index, g = saved.inputs[1], grads[0]
        function = GatherRowsBackward(saved.input_specs[0][0][1], False, self.padding)
        if not self.by_frequency:
            return added_up(function, g, index), None
        g = to_dtype(g, from_name(g.dtype.compute))
        uses = added_up(function, g.new_ones((1, g.shape[1], 1)), index)
        total = added_up(function, g, index) / clamp(uses, min=1)
        return to_dtype(total, grads[0].dtype), None


@op(Face.FUNCTIONAL)
def embedding(
    input: Tensor,  # noqa: A002 - PyTorch's name
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table: ``y[..., :] = weight[input[...], :]``.

    Args:
        input: indices in ``[0, rows)``, any shape, int64 or int32; one out of range gives NaN: to
            raise an error the host would have to wait for the device.
        weight: ``(rows, width)``.
        padding_idx: a row that gets no gradient; None for none.
        max_norm: the rows that are looked up are scaled down to this length first, in the table
            itself, and off the tape; None: they stay what they are.
        norm_type: of which norm that is; ``inf`` for the largest element.
        scale_grad_by_freq: divide each row's gradient by how often it is looked up here.
        sparse: the table's gradient is sparse, of the rows that were looked up alone; in compiled
            functions, and with ``scale_grad_by_freq``, it is dense, 0 in the other rows.

    Returns:
        ``(*input.shape, width)``.

    Raises:
        ShapeError: if ``weight`` has not two axes.
        DtypeError: if ``input`` does not hold indices.
        BoundsError: if ``padding_idx`` is not a row.
        ArgumentError: if ``max_norm`` is below 0.
    """
    require_index("embedding", input)
    if weight.ndim != 2:
        raise ShapeError("embedding", "weight is (rows, width)", weight=weight.shape)
    rows, width = weight.shape
    padding = -1 if padding_idx is None else row_of(padding_idx, rows)
    index = contiguous(reshape(input, (input.numel(),)))
    if max_norm is not None:
        _shorten(weight.detach(), index, max_norm, norm_type)
    now = mode.current()
    alone = sparse and not scale_grad_by_freq and now.tracer is now.batching is None
    if alone and now.grad and weight.requires_grad:
        found = weight._clnet_looked_up(to_dtype(index, int64), padding)
        return reshape(found, (*input.shape, width))
    table = reshape(dense_rows(weight), (1, rows, width))
    check = of_index("embedding", "input", size="rows")
    result = apply(Embedding(padding, scale_grad_by_freq, check), table, index)
    return reshape(result, (*input.shape, width))


def row_of(padding_idx: int, rows: int) -> int:
    """The row of a table that a number, which may count from the end, names.

    Raises:
        BoundsError: if it is none.
    """
    if not -rows <= padding_idx < rows:
        raise BoundsError("embedding", "padding_idx is a row", padding_idx=padding_idx, rows=rows)
    return padding_idx % rows


def _shorten(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of an index, in place, to a length they may have."""
    if max_norm < 0:
        raise ArgumentError("embedding", "max_norm is 0 or more", max_norm=max_norm)
    if not weight.array.contiguous:
        raise ArgumentError(
            "embedding",
            "with max_norm the table is dense, since its rows are overwritten",
            strides=weight.array.strides,
            remedy="Pass weight.contiguous(), and keep that",
        )
    table = reshape(weight, (1, *weight.shape))
    found = apply(GatherRows(wrap=False), table, index)
    length = norm(found, norm_type, -1, keepdim=True)
    # Equal indices find equal rows; one out of range writes nothing.
    shorter = where(length > max_norm, found * (max_norm / (length + _EPS)), found)
    apply(PutRows(wrap=False), table, contiguous(shorter), index)
