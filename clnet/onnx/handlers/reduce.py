"""Sums, means, extremes and norms along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...tensor import Tensor, full
from ...values.dtypes import Kind, bool_, float32, uint8
from ..registry import Host, handler


def least(x: Tensor) -> float | int | bool:
    """The number below which no element of the type lies."""
    if x.dtype.kind is Kind.FLOATING:
        return -math.inf
    return _bounds(x)[0]


def _most(x: Tensor) -> float | int | bool:
    if x.dtype.kind is Kind.FLOATING:
        return math.inf
    return _bounds(x)[1]


def _bounds(x: Tensor) -> tuple[int, int]:
    if x.dtype is bool_:
        return 0, 1
    bits = 8 * x.dtype.itemsize
    return (0, 255) if x.dtype is uint8 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _total(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001 - as the others
    return ops.sum(x, axes, keep, dtype=x.dtype)


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    if x.dtype.kind is Kind.FLOATING:
        return ops.mean(x, axes, keep)
    count = math.prod(x.shape[a] for a in axes)
    return ops.div(_total(x, axes, keep), count, rounding_mode="trunc")


def _prod(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    product: Any = ops.prod
    for axis in sorted((a % x.ndim for a in axes), reverse=True):
        x = product(x, axis, keep, dtype=x.dtype)
    return x


def _extreme(name: str) -> Callable[[Tensor, list[int], bool], Tensor]:
    reduce = ops.amax if name == "max" else ops.amin
    neutral = least if name == "max" else _most

    def compute(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
        if any(x.shape[a] == 0 for a in axes):
            inside = {a % x.ndim for a in axes}
            shape = [
                1 if i in inside else n for i, n in enumerate(x.shape) if keep or i not in inside
            ]
            return full(shape, neutral(x), dtype=x.dtype, device=x.device)
        if x.dtype is bool_:
            return reduce(x.to(uint8), axes, keep).to(bool_)
        return reduce(x, axes, keep)

    return compute


def _l1(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    return _total(ops.abs(x), axes, keep)


def _squares(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    return _total(x * x, axes, keep)


def _l2(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    root: Any = ops.sqrt
    return root(_squares(_floating(x), axes, keep)).to(x.dtype)


def _log_sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    logarithm: Any = ops.log
    return logarithm(_total(_floating(x), axes, keep)).to(x.dtype)


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:  # noqa: FBT001
    if any(x.shape[a] == 0 for a in axes):
        return _log_sum(ops.exp(_floating(x)), axes, keep).to(x.dtype)
    return ops.logsumexp(_floating(x), axes, keep).to(x.dtype)


def _floating(x: Tensor) -> Tensor:
    return x if x.dtype.kind is Kind.FLOATING else x.to(float32)


def _reduction(name: str, compute: Callable[[Tensor, list[int], bool], Tensor]) -> None:
    def old(x: Tensor, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Tensor:
        return compute(x, list(range(x.ndim)) if axes is None else list(axes), bool(keepdims))

    def new(
        x: Tensor,
        axes: Host | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        asked = [] if axes is None else [int(a) for a in axes]
        if not asked and noop_with_empty_axes:
            return _alone(name, x)
        return compute(x, asked or list(range(x.ndim)), bool(keepdims))

    handler(name)(old)
    handler(name, since=13 if name == "ReduceSum" else 18)(new)


def _alone(name: str, x: Tensor) -> Tensor:
    """What a reduction without axes makes of each element."""
    if name in {"ReduceL1", "ReduceL2"}:
        return ops.abs(x)
    if name == "ReduceSumSquare":
        return x * x
    return ops.log(x) if name == "ReduceLogSum" else x


for _name, _compute in {
    "ReduceSum": _total,
    "ReduceMean": _mean,
    "ReduceProd": _prod,
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _squares,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}.items():
    _reduction(_name, _compute)


def _first(x: Tensor, axis: int, *, keep: bool, last: bool, largest: bool) -> Tensor:
    find = ops.argmax if largest else ops.argmin
    if not last:
        return find(x, axis, keepdim=keep)
    return x.shape[axis] - 1 - find(ops.flip(x, [axis]), axis, keepdim=keep)


@handler("ArgMax")
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the maximum lies along an axis: the first, or the last."""
    return _first(x, axis, keep=bool(keepdims), last=bool(select_last_index), largest=True)


@handler("ArgMin")
def argmin(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the minimum lies along an axis: the first, or the last."""
    return _first(x, axis, keep=bool(keepdims), last=bool(select_last_index), largest=False)


@handler("CumSum")
def cumsum(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Sums of all elements up to each."""
    return _scan(x, int(axis.item()), ops.cumsum, 0, bool(exclusive), bool(reverse))


@handler("CumProd")
def cumprod(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Products of all elements up to each."""
    return _scan(x, int(axis.item()), ops.cumprod, 1, bool(exclusive), bool(reverse))


def _scan(
    x: Tensor,
    axis: int,
    compute: Callable[..., Tensor],
    neutral: int,
    exclusive: bool,  # noqa: FBT001
    reverse: bool,  # noqa: FBT001
) -> Tensor:
    x = ops.flip(x, [axis]) if reverse else x
    if exclusive and x.shape[axis]:
        first = ops.full_like(ops.narrow(x, axis, 0, 1), neutral)
        x = ops.cat([first, ops.narrow(x, axis, 0, x.shape[axis] - 1)], axis)
    y = compute(x, axis, dtype=x.dtype)
    return ops.flip(y, [axis]) if reverse else y
