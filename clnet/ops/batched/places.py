"""Rules of what is picked and put by indices, sorted and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..arithmetic import eq, ge, logical_and, lt, where
from ..create import positions
from ..embedding import Embedding
from ..index import (
    ExtremesAlong,
    FoldIndices,
    Gather,
    GatherBackward,
    GatherRows,
    GatherRowsBackward,
    MovedRows,
    ReplaceRows,
    Scatter,
)
from ..machinery.function import apply, results_of
from ..scattered import MetAlong, ProductsAlong, ProductsAlongBackward
from ..search import Search
from ..shape import contiguous, expand, permute, reshape, to_dtype
from ..sort import Sort, Top
from .rule import Flags, all_with_batch, folded, of_folded, rule, unfolded, with_batch


@rule(MetAlong, ProductsAlong)
def _met(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    x, src, index = inputs
    if index.ndim - flags[2] < src.ndim - flags[1]:  # a vector for all lines
        index = reshape(index, (*index.shape[: flags[2]], 1, index.shape[-1], 1))
        index = expand(index, (*index.shape[: flags[2]], *src.shape[flags[1] :]))
    return _gather(function, flags, (x, src, index), size)


@rule(Gather, Scatter, ProductsAlongBackward)
def _gather(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    given = map(contiguous, all_with_batch(flags, inputs, size))
    return results_of(replace(function, dim=function.dim + 1), *given)


@rule(GatherBackward, ExtremesAlong)
def _gather_back(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    own = replace(function, dim=function.dim + 1, shape=(size, *function.shape))
    return results_of(own, *map(contiguous, all_with_batch(flags, inputs, size)))


@rule(FoldIndices)
def _fold_indices(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    return results_of(function, *map(contiguous, all_with_batch(flags, inputs, size)))


def _everywhere(index: Any, flag: bool, rows: int, size: int, *, wrap: bool) -> Any:  # noqa: FBT001
    """Indices of each element among all elements' rows; those out of range lie behind them."""
    index = with_batch(index, flag, size)
    within = index
    if wrap:
        within = where(lt(index, 0), index + rows, index)
    first = reshape(positions(type(index.detach()), size, index.device) * rows, (size, 1))
    inside = logical_and(ge(within, 0), lt(within, rows))
    found = where(inside, within + to_dtype(first, within.dtype), size * rows)
    return contiguous(reshape(found, (-1,)))


@rule(GatherRows, Embedding)
def _rows(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    x, index = inputs
    if not size:
        return None
    if not flags[1]:
        return [unfolded(apply(function, folded(x), index), size)]
    if not flags[0]:  # one table, more places
        y = apply(function, x, contiguous(reshape(index, (-1,))))
        return [unfolded(y, size, 1)]
    if isinstance(function, Embedding) and (function.by_frequency or function.padding >= 0):
        return None
    rows = x.shape[2]
    wrap = not isinstance(function, Embedding) and function.wrap
    zero = not isinstance(function, Embedding) and function.zero
    own = GatherRows(False, function.check, zero)
    places = _everywhere(index, True, rows, size, wrap=wrap)
    return [unfolded(apply(own, folded(x, 1), places), size, 1)]


@rule(GatherRowsBackward)
def _rows_back(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    x, index = inputs
    if not size:
        return None
    if not flags[1]:
        return [unfolded(apply(function, folded(x), index), size)]
    x = with_batch(x, flags[0], size)
    if function.skip >= 0:
        x = where(reshape(eq(index, function.skip), (size, 1, -1, 1)), 0.0, x)
    places = _everywhere(index, True, function.rows, size, wrap=function.wrap)
    own = GatherRowsBackward(function.rows * size, False, -1, function.check)
    return [unfolded(apply(own, folded(x, 1), places), size, 1)]


@rule(ReplaceRows)
def _replace(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    if not size:
        return None
    x, value = (with_batch(each, f, size) for each, f in zip(inputs[:2], flags[:2], strict=True))
    index = inputs[2]
    if not flags[2]:
        return [unfolded(apply(function, folded(x), folded(value), index), size)]
    places = _everywhere(index, True, x.shape[2], size, wrap=function.wrap)
    own = ReplaceRows(False, function.check)
    return [unfolded(apply(own, folded(x, 1), folded(value, 1), places), size, 1)]


@rule(MovedRows)
def _moved_rows(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    if not size or any(flags[1:]):
        return None
    x, index, inverse = inputs
    wide = contiguous(reshape(permute(x, (1, 0, 2)), (x.shape[1], -1)))
    y = apply(function, wide, index, inverse)
    y = reshape(y, (y.shape[0], size, x.shape[2]))
    return [permute(y, (1, 0, 2))]


rule(Sort, Top)(of_folded)


@rule(Search)
def _search(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    if inputs[0].ndim - flags[0] != 2:
        return None
    return of_folded(function, flags, inputs, size)
