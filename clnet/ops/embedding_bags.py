"""Rows of a table looked up and reduced bag by bag, without waiting for the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..array import Array
from ..device import Check, Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels import index as kernels
from ..kernels.reduce import Bad
from ..values.dtypes import int64
from .arithmetic import clamp, mul, ne, where
from .check import of_index, of_value, require_elements
from .create import positions
from .embedding import Embedding, embedding, row_of
from .index import GatherRows, GatherRowsBackward, added_up, require_index
from .machinery.function import Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .reduce import max as largest
from .scatter import index_add_within, scatter_reduce_within
from .search import searchsorted
from .shape import contiguous, expand, narrow, reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

_MODES = ("sum", "mean", "max")


class BagSums(Function):
    """Sums, or means, of the rows that bags of indices name, of a table ``(1, rows, width)``.

    Bags are equally long, or begin where a third input says; the row ``padding`` does not count.
    """

    op_name = "embedding_bag"
    sixteen_bit = False
    repeats = True

    bags: int
    padding: int
    mean: bool
    check: Check | None = None

    def infer(self, x: Array, index: Array, *starts: Array) -> tuple[Array, ...]:
        GatherRows(wrap=False, check=self.check).infer(x, index)
        return (Array.abstract((self.bags, x.shape[2]), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        (y,), (x, index, *starts) = outputs, inputs
        return kernels.bag_sums(
            target,
            y,
            x.view(x.shape[1:], x.strides[1:]),
            index,
            starts[0] if starts else None,
            each=0 if starts else index.size // self.bags,
            skip=self.padding,
            mean=self.mean,
            check=self.check,
        )

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The indices."""
        return range(1, len(needs)), ()

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What came to a bag, for each of its rows, added up where they came from."""
        (g,), index = grads, saved.inputs[1]
        width, rows = g.shape[1], saved.input_specs[0][0][1]
        starts = [saved.inputs[k] for k in range(2, len(needs))]
        bags = _numbers(index, starts[0]) if starts else None
        if self.mean:
            g = g / clamp(unsqueeze(self._sizes(index, bags), 1), min=1)
        if bags is None:
            each = expand(unsqueeze(g, 1), (self.bags, index.shape[0] // self.bags, width))
            each = reshape(each, (1, index.shape[0], width))
        else:
            own = reshape(contiguous(g), (1, self.bags, width))
            each = apply(GatherRows(wrap=False, zero=True), own, contiguous(bags))
        function = GatherRowsBackward(rows, False, self.padding)
        return (added_up(function, each, index), *(None for _ in needs[1:]))

    def decompose(self, x: Tensor, index: Tensor, *starts: Tensor) -> Tensor:
        """In rows, one by one."""
        rows = apply(Embedding(self.padding, False, self.check), x, index)[0]
        counted = None if self.padding < 0 else unsqueeze(ne(index, self.padding), 1)
        how = "mean" if self.mean else "sum"
        if starts:
            bags = _numbers(index, starts[0])
            if counted is not None:
                bags = where(reshape(counted, bags.shape), bags, -1)
            return _rows_of_numbered_bags(rows, bags, self.bags, how)
        rows = reshape(rows, (self.bags, -1, x.shape[2]))
        if counted is not None:
            counted = reshape(counted, (self.bags, -1, 1))
        return _rows_of_equal_bags(rows, counted, how)

    def _sizes(self, index: Tensor, bags: Tensor | None) -> Tensor:
        """How many indices of each bag count."""
        counted = to_dtype(ne(index, self.padding), int64)
        if bags is None:
            return reshape(counted, (self.bags, -1)).sum(1)
        return index_add_within(bags.new_zeros(self.bags), 0, bags, counted)


@op(Face.FUNCTIONAL)
def embedding_bag(
    input: Tensor,  # noqa: A002 - PyTorch's name
    weight: Tensor,
    offsets: Tensor | None = None,
    *,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The sum, mean or maximum of each bag's rows of a table; 0 for an empty bag.

    Args:
        input: indices in ``[0, rows)``: ``(bags, n)``, or ``(n,)`` with offsets; int64 or int32.
        weight: ``(rows, width)``.
        offsets: ``(bags,)``, where each bag begins, ascending from 0; only for ``(n,)``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: factors of the rows, of the input's shape; only with ``"sum"``.
        include_last_offset: the last offset is the end of the last bag, not the start of one more.
        padding_idx: a row that does not count and gets no gradient; None for none.
        max_norm: as :func:`embedding`'s.
        norm_type: as :func:`embedding`'s.
        scale_grad_by_freq: as :func:`embedding`'s; not with ``"max"``.
        sparse: as :func:`embedding`'s; not with ``"max"``.

    Returns:
        ``(bags, width)``.

    Raises:
        ArgumentError: if the mode is another, there are weights without ``"sum"``, offsets do
            not go with the input, or ``scale_grad_by_freq`` or ``sparse`` goes with ``"max"``.
        ShapeError: if shapes do not fit.
        DtypeError: if ``input`` or ``offsets`` does not hold indices.
        BoundsError: if ``padding_idx`` is not a row.
        DataBoundsError: at the next synchronisation, if an index is no row.
        DataDomainError: at the next synchronisation, if the offsets do not begin with 0, ascend
            and lie in the input.
    """
    _check(input, offsets, mode, per_sample_weights, include_last_offset=include_last_offset)
    if mode == "max" and (scale_grad_by_freq or sparse):
        law = "scale_grad_by_freq and sparse go with sums and means"
        raise ArgumentError("embedding_bag", law, mode=mode)
    if offsets is not None:
        _check_offsets(offsets, input.numel())
    plain = per_sample_weights is None and max_norm is None and mode != "max"
    if plain and not (scale_grad_by_freq or sparse) and _at_once(input, weight, offsets):
        starts = None
        if offsets is not None:
            starts = narrow(offsets, 0, 0, offsets.shape[0] - int(include_last_offset))
        return _summed(input, weight, starts, padding_idx, mean=mode == "mean")
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = mul(rows, unsqueeze(per_sample_weights, -1))
    counted = None
    if padding_idx is not None:
        counted = unsqueeze(ne(input, padding_idx % weight.shape[0]), -1)
    if offsets is None:
        return _rows_of_equal_bags(rows, counted, mode)
    starts = narrow(offsets, 0, 0, offsets.shape[0] - int(include_last_offset))
    bags = _numbers(input, starts)
    if counted is not None:
        bags = where(reshape(counted, bags.shape), bags, -1)
    return _rows_of_numbered_bags(rows, bags, starts.shape[0], mode)


def _numbers(index: Tensor, starts: Tensor) -> Tensor:
    """``(n,)``, int64: the bag of each index, -1 before the first."""
    place = positions(type(index.detach()), index.shape[0], index.device)
    return searchsorted(to_dtype(starts, int64), place, right=True) - 1


def _rows_of_equal_bags(rows: Tensor, counted: Tensor | None, mode: str) -> Tensor:
    """``(bags, n, width)`` reduced over ``n``."""
    if mode == "max" and rows.shape[1]:
        if counted is None:
            return largest(rows, 1)[0]
        found = largest(where(counted, rows, float("-inf")), 1)[0]
        return where(counted.any(1), found, 0.0)
    kept = rows if counted is None else where(counted, rows, 0.0)
    total = kept.sum(1)
    if mode != "mean":
        return total
    return total / (max(rows.shape[1], 1) if counted is None else clamp(counted.sum(1), min=1))


def _rows_of_numbered_bags(rows: Tensor, bags: Tensor, count: int, mode: str) -> Tensor:
    """``(n, width)`` reduced by the number of the bag; rows of bag -1 do not count."""
    empty = rows.new_zeros((count, rows.shape[1]))
    if mode == "max":
        numbers = expand(unsqueeze(bags, 1), rows.shape)
        return scatter_reduce_within(empty, 0, numbers, rows, "amax", include_self=False)
    total = index_add_within(empty, 0, bags, rows)
    if mode == "sum":
        return total
    sizes = index_add_within(bags.new_zeros(count), 0, bags, bags.new_ones(bags.shape))
    return total / unsqueeze(clamp(sizes, min=1), 1)


def _at_once(input: Tensor, weight: Tensor, offsets: Tensor | None) -> bool:  # noqa: A002
    """Whether :class:`BagSums` takes them: a table, and bags, of which some have indices."""
    some = input.numel() > 0 and (offsets is None or offsets.numel() > 0)
    full = weight.ndim == 2 and weight.numel() > 0
    return some and full and kernels.sums_bags(weight.device.target, weight.dtype)


def _summed(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    starts: Tensor | None,
    padding_idx: int | None,
    *,
    mean: bool,
) -> Tensor:
    rows, width = weight.shape
    padding = -1 if padding_idx is None else row_of(padding_idx, rows)
    index = contiguous(reshape(input, (input.numel(),)))
    bags = input.shape[0] if starts is None else starts.shape[0]
    function = BagSums(bags, padding, mean, of_index("embedding", "input", size="rows"))
    table = reshape(contiguous(weight), (1, rows, width))
    return apply(function, table, index, *(() if starts is None else (to_dtype(starts, int64),)))


def _check_offsets(offsets: Tensor, count: int) -> None:
    """Have offsets checked on the device: they begin with 0, ascend, and lie in the input."""

    def check(law: str) -> Check:
        return of_value("embedding_bag", "offsets", law)

    bags = offsets.shape[0]
    if not bags:
        return
    require_elements(narrow(offsets, 0, 0, 1), check("the first is 0"), Bad.OUTSIDE, 0, 0)
    law = f"they lie in [0, n], n indices, here {count}"
    require_elements(offsets, check(law), Bad.OUTSIDE, 0, count)
    steps = narrow(offsets, 0, 1, bags - 1) - narrow(offsets, 0, 0, bags - 1)
    require_elements(steps, of_value("embedding_bag", "step", "offsets ascend"), Bad.BELOW, 0)


def _check(
    input: Tensor,  # noqa: A002 - PyTorch's name
    offsets: Tensor | None,
    mode: str,
    weights: Tensor | None,
    *,
    include_last_offset: bool,
) -> None:
    name = "embedding_bag"
    require_index(name, input)
    if mode not in _MODES:
        raise ArgumentError(name, f"mode is one of {_MODES}", mode=repr(mode))
    if weights is not None and mode != "sum":
        raise ArgumentError(name, "per_sample_weights go with mode='sum'", mode=repr(mode))
    if weights is not None and weights.shape != input.shape:
        raise ShapeError(name, "each index has a weight", input=input.shape, weights=weights.shape)
    if input.ndim not in (1, 2):
        raise ShapeError(name, "input is (bags, n), or (n,) with offsets", input=input.shape)
    if (offsets is None) == (input.ndim == 1):
        raise ArgumentError(
            name,
            "offsets go with one axis of indices",
            input=input.shape,
            offsets=offsets is not None,
        )
    if offsets is not None:
        require_index(name, offsets)
        if offsets.ndim != 1 or offsets.shape[0] < int(include_last_offset):
            raise ShapeError(name, "offsets is (bags,)", offsets=offsets.shape)
