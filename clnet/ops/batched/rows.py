"""Rules of reductions, norms, softmax, losses, pooling, and of factors of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...values.dtypes import from_name
from ..axis_map import AxisMap
from ..check import CheckElements
from ..definite import CholeskyFactor
from ..eigen import GeneralEigen
from ..loss import CrossEntropy, CrossEntropyBackward
from ..machinery.function import apply, results_of
from ..norm import BatchNorm, BatchNormBackward
from ..orthogonal import Householder, Reflect
from ..patches import Fold, Unfold
from ..pool import (
    AdaptiveAvgPool,
    AdaptiveAvgPoolBackward,
    AvgPool,
    AvgPoolBackward,
    MaxPool,
    MaxPoolBackward,
    WindowMax,
)
from ..reduce import ArgExtreme, ArgReduce, PairSum, Reduce
from ..row_norm import RowNorm, RowNormBackward
from ..sampling import GridSample, GridSampleImage, GridSamplePlaces
from ..scan import Cumulate, RunningExtreme, RunningLogSum, RunningLogSumBackward
from ..shape import contiguous, permute, reshape, to_dtype
from ..softmax import Softmax, SoftmaxBackward
from ..spectral import OrthogonalRows, SymmetricEigen
from ..statistic import Spread
from ..triangular import Exchanged, LuFactor, Substitute
from .rule import Flags, all_with_batch, folded, moved, of_folded, rule, unfolded

rule(
    *(AvgPool, AvgPoolBackward, AdaptiveAvgPool, AdaptiveAvgPoolBackward, MaxPool, WindowMax),
    *(Unfold, Fold, GridSample, GridSamplePlaces, CholeskyFactor, LuFactor, Substitute, Exchanged),
    *(Householder, Reflect, SymmetricEigen, OrthogonalRows, GeneralEigen),
)(of_folded)


@rule(MaxPoolBackward, GridSampleImage)
def _shaped(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    n, *rest = function.shape
    return of_folded(replace(function, shape=(size * n, *rest)), flags, inputs, size)


@rule(Reduce, PairSum, Spread)
def _reduce(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    own = replace(function, dims=moved(function.dims))
    if isinstance(function, PairSum):
        return results_of(own, *all_with_batch(flags, inputs, size))
    return results_of(own, *inputs)


@rule(ArgReduce, ArgExtreme)
def _extreme(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags, size
    return results_of(replace(function, dim=function.dim + 1), *inputs)


@rule(Softmax, SoftmaxBackward, Cumulate, RunningExtreme, RunningLogSum, RunningLogSumBackward)
def _along(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    given = map(contiguous, all_with_batch(flags, inputs, size))
    return results_of(replace(function, dim=function.dim + 1), *given)


@rule(CheckElements)
def _check(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    if any(not f for f in flags[1:]):
        inputs, flags = all_with_batch(flags, inputs, size), (True,) * len(flags)
    return results_of(function, *map(contiguous, inputs))


@rule(AxisMap)
def _axis_map(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    if any(flags[1:]) or not size:
        return None
    x, *table = inputs
    return [unfolded(apply(function, folded(x), *table), size)]


@rule(RowNorm)
def _row_norm(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    x, *affine = inputs
    if not flags[0] or not size:
        return None
    if not any(flags[1:]):
        return [unfolded(y, size) for y in results_of(function, folded(x), *affine)]
    plain = replace(function, weighted=False, biased=False)
    y, *statistics = (unfolded(y, size) for y in results_of(plain, folded(x)))
    for k, (each, flag) in enumerate(zip(affine, flags[1:], strict=True)):
        own = reshape(each, (size, 1, -1)) if flag else each
        y = y * own if function.weighted and k == 0 else y + own
    return [to_dtype(y, x.dtype), *statistics]


@rule(RowNormBackward)
def _row_norm_back(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    """Sums are those of each element, so they are made apart."""
    if not size:
        return None
    gy, x, invstd, *rest = all_with_batch(flags, inputs, size)
    weight = rest.pop() if function.weighted else None
    scaled = gy if weight is None else gy * reshape(weight, (size, 1, -1))
    plain = replace(function, weighted=False, summed=False)
    gx = apply(plain, *(folded(each) for each in (to_dtype(scaled, gy.dtype), x, invstd, *rest)))
    found = [unfolded(gx, size)]
    if function.summed:
        wide = from_name(x.dtype.compute)
        distance = to_dtype(x, wide)
        if function.centred:
            distance = distance - rest[0][..., None]
        arrived = to_dtype(gy, wide)
        found.append((arrived * (distance * invstd[..., None])).sum(1))
        if function.centred:
            found.append(arrived.sum(1))
    return found


def _channels(x: Any) -> Any:
    """``(n, size * c, ...)`` of ``(size, n, c, ...)``: each element's channels are its own."""
    size, n, c, *rest = x.shape
    return contiguous(reshape(permute(x, (1, 0, *range(2, x.ndim))), (n, size * c, *rest)))


def _elements(y: Any, size: int) -> Any:
    n, c, *rest = y.shape
    y = reshape(y, (n, size, c // size, *rest))
    return permute(y, (1, 0, *range(2, y.ndim)))


@rule(BatchNorm)
def _batch_norm(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    if not flags[0] or not size:
        return None
    x, *affine = all_with_batch(flags, inputs, size)
    vectors = [contiguous(reshape(v, (-1,))) for v in affine]
    y, *statistics = results_of(function, _channels(x), *vectors)
    return [_elements(y, size), *(reshape(s, (size, -1)) for s in statistics)]


@rule(BatchNormBackward)
def _batch_norm_back(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    if not size:
        return None
    gy, x, *rest = all_with_batch(flags, inputs, size)
    vectors = [contiguous(reshape(v, (-1,))) for v in rest]
    gweight, gbias, *gx = results_of(function, _channels(gy), _channels(x), *vectors)
    sums = (reshape(s, (size, -1)) for s in (gweight, gbias))
    return [*sums, *(_elements(g, size) for g in gx)]


@rule(CrossEntropy)
def _cross_entropy(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    """Losses of all elements' examples at once, then the reduction of each."""
    x, targets, *weight = inputs
    if not size or any(flags[2:]) or x.ndim - flags[0] == 0:
        return None
    settings = function.settings
    x, targets = all_with_batch(flags[:2], (x, targets), size)
    single = x.ndim == 2  # an element is one example
    each = replace(function, settings=settings._replace(reduction="none"))
    rows = (contiguous(x), contiguous(targets)) if single else (folded(x), folded(targets))
    losses, *kept = results_of(each, *rows, *weight)
    lse = [] if not settings.normalize else [kept[0] if single else unfolded(kept[0], size, 1)]
    lse = [permute(kept[0], (1, 0)) if single else y for y in lse]
    losses = losses if single else unfolded(losses, size)
    if settings.reduction == "none":
        return [losses, *lse]
    dims = tuple(range(1, losses.ndim))
    loss = losses.sum(dims) if dims else losses
    if settings.reduction == "sum":
        return [loss, *lse]
    counted = to_dtype(targets != settings.ignore_index, from_name(x.dtype.compute))
    if weight:
        counted = counted * weight[0][targets.clamp(0, weight[0].shape[0] - 1)]
    total = counted.sum(dims) if dims else counted
    return [to_dtype(loss / total, losses.dtype), *lse, total]


@rule(CrossEntropyBackward)
def _cross_entropy_back(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    settings = function.settings
    gy, x, targets, *rest = inputs
    total = (rest.pop(), flags[-1]) if settings.reduction == "mean" else None
    flags = flags[: 3 + len(rest)]
    lse = (rest.pop(), flags[-1]) if settings.normalize else None
    if not size or any(flags[3 : 3 + len(rest)]):
        return None
    gy, x, targets = all_with_batch(flags[:3], (gy, x, targets), size)
    single = x.ndim == 2
    if settings.reduction != "none":
        if total is not None:
            (held,) = all_with_batch((total[1],), (total[0],), size)
            gy = to_dtype(gy / held, gy.dtype)
        gy = reshape(gy, (size, *(1,) * (targets.ndim - 1)))
        gy = gy.expand(targets.shape)
    own = replace(function, settings=settings._replace(reduction="none"))
    given = [contiguous(each) if single else folded(each) for each in (gy, x, targets)]
    given += rest
    if lse is not None:
        (kept,) = all_with_batch((lse[1],), (lse[0],), size)
        given.append(contiguous(permute(kept, (1, 0))) if single else folded(kept, 1))
    gx = apply(own, *given)
    return [gx if single else unfolded(gx, size)]
