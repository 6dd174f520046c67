"""The largest or smallest elements along one axis, and their indices."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ...errors import ArgumentError
from ...values.dtypes import int64
from ...values.record import NamedTuple
from ...values.shapes import Shape, Strides, ceil_div, collapse
from ..grid import filled, flat_type, in_groups, jobs_per_item, lanes_of
from ..kernel import Kernel, Named, by_name, joined
from .reduce import Reduction, accumulator

ROWS = Kernel("arg_reduce_rows", "reduce/arg_reduce.mako")
COLUMNS = Kernel("arg_reduce_columns", "reduce/arg_reduce.mako")
GROUP = Kernel("arg_reduce_group", "reduce/arg_reduce.mako")
PICK = Kernel("arg_reduce_pick", "reduce/arg_reduce.mako")

_PART = 1 << 15
# Places are counted within a part, by an int where values have four bytes.
_PART_MOST = 1 << 30
_GROUPS_PER_UNIT = 4
_GROUP = 256
_PICK_GROUP = 64


class _Problem(NamedTuple):
    """``x`` as ``n`` elements, ``step`` apart, for each place on its kept axes."""

    kind: str
    x: Array
    sizes: Shape
    strides: Strides
    n: int
    step: int

    @property
    def outs(self) -> int:
        return prod(self.sizes)

    @property
    def columns(self) -> bool:
        return self.strides[-1] == 1 and self.sizes[-1] > 1

    @property
    def acc(self) -> str:
        return accumulator(Reduction.MAX, self.x.dtype).ctype


def arg_reduce(
    target: Target, values: Array | None, indices: Array, x: Array, *, dim: int, kind: Reduction
) -> list[Launch]:
    """``values, indices = the largest (smallest) elements of x along dim, and where they are``.

    The first of equal elements wins; a NaN wins over every number.

    Args:
        target: the device's traits and the scratch memory allowed.
        values: dense, ``x``'s shape without ``dim`` (or with size 1 there), ``x``'s dtype; None
            when only the indices are wanted.
        indices: as ``values``, int64.
        x: any shape and strides, at least one element along ``dim``.
        dim: an axis of ``x``, counted from the front.
        kind: ``Reduction.MAX`` or ``Reduction.MIN``.

    Returns:
        One launch, or two when few outputs would leave the device idle.

    Raises:
        ArgumentError: if ``x`` has no element along ``dim``, or ``kind`` has no index.
    """
    if kind not in (Reduction.MAX, Reduction.MIN):
        raise ArgumentError("arg_reduce", "only MAX and MIN have an index", kind=kind)
    if x.shape[dim] == 0:
        raise ArgumentError("arg_reduce", "dim has at least one element", x=x.shape, dim=dim)
    if indices.size == 0:
        return []
    kept = [i for i in range(x.ndim) if i != dim]
    sizes, (strides,) = collapse(
        tuple(x.shape[i] for i in kept), [tuple(x.strides[i] for i in kept)]
    )
    problem = _Problem(kind.join, x, sizes, strides, x.shape[dim], x.strides[dim])
    memory = Scratch(x.device)
    if values is None:
        values = Array.scratch(memory, indices.shape, x.dtype)
    parts = _parts(target, problem)
    search = _group if in_groups(target.traits) else _vector
    if parts == 1:
        return [search(target, problem, values, indices, 1)]
    partial = Array.scratch(memory, (problem.outs, parts), x.dtype)
    places = Array.scratch(memory, (problem.outs, parts), int64)
    return [
        search(target, problem, partial, places, parts),
        _pick(problem, values, indices, partial, places),
    ]


def _parts(target: Target, problem: _Problem) -> int:
    """Into how many parts the axis is cut."""
    units = target.traits.compute_units
    if in_groups(target.traits):
        groups = ceil_div(problem.outs, _group_shape(target, problem)[1])
        parts = min(ceil_div(units * _GROUPS_PER_UNIT, groups), ceil_div(problem.n, 8 * _GROUP))
    else:
        parts = 1 if problem.outs >= 4 * units else ceil_div(problem.n, _PART)
    room = target.workspace_limit // (problem.outs * (problem.x.dtype.itemsize + 8)) - 1
    parts = max(1, min(parts, room), ceil_div(problem.n, _PART_MOST))
    # No part may be empty: each begins with an element of its own.
    return ceil_div(problem.n, ceil_div(problem.n, parts))


def _cost(problem: _Problem, parts: int) -> dict[str, Any]:
    elements = problem.outs * problem.n
    itemsize = problem.x.dtype.itemsize
    return {"flops": elements, "bytes": elements * itemsize + problem.outs * parts * (itemsize + 8)}


def _params(problem: _Problem, parts: int) -> Named:
    flat = flat_type(max(problem.n, problem.outs * parts))
    return by_name("kind ctype acc flat", problem.kind, problem.x.dtype.ctype, problem.acc, flat)


def _args(problem: _Problem, out: Array, where: Array, parts: int) -> Named:
    """The arguments that all searches have."""
    return joined(
        by_name("n part_size parts", problem.n, ceil_div(problem.n, parts), parts),
        by_name("step kept_size{i} kept_x{i}", problem.step, problem.sizes, problem.strides),
        by_name("out where x", out, where, problem.x),
    )


def _vector(target: Target, problem: _Problem, out: Array, where: Array, parts: int) -> Launch:
    itemsize = 8 if problem.acc in ("double", "long") else 4
    lanes = lanes_of(target, itemsize)
    place = "long" if itemsize == 8 else "int"
    rank, down = len(problem.sizes), problem.columns and problem.step != 1
    if down:
        lanes = filled(lanes, problem.sizes[-1])
    params = joined(_params(problem, parts), by_name("place lanes kept_rank", place, lanes, rank))
    args = _args(problem, out, where, parts)
    if down:
        blocks = ceil_div(problem.sizes[-1], lanes)
        return COLUMNS.launch(
            params,
            joined(by_name("blocks", blocks), args),
            global_size=(problem.outs // problem.sizes[-1] * blocks * parts,),
            **_cost(problem, parts),
        )
    jobs = problem.outs * parts
    per_item = jobs_per_item(target, jobs, problem.outs * problem.n)
    return ROWS.launch(
        params,
        joined(by_name("jobs jobs_per_item", jobs, per_item), args),
        global_size=(ceil_div(jobs, per_item),),
        **_cost(problem, parts),
    )


def _group_shape(target: Target, problem: _Problem) -> tuple[int, int]:
    """Work-items that share one output, and outputs of a group."""
    group = min(_GROUP, target.traits.max_group_size)
    if problem.columns:
        kept = min(32, group, 1 << (problem.sizes[-1] - 1).bit_length())
        return group // kept, kept
    share = min(group, 1 << (problem.n - 1).bit_length())
    return share, group // share


def _group(target: Target, problem: _Problem, out: Array, where: Array, parts: int) -> Launch:
    share, kept = _group_shape(target, problem)
    group, rank = share * kept, len(problem.sizes)
    shape = by_name("group reduce_items kept_fast kept_rank", group, share, problem.columns, rank)
    return GROUP.launch(
        joined(_params(problem, parts), shape),
        joined(by_name("outs", problem.outs), _args(problem, out, where, parts)),
        global_size=(ceil_div(problem.outs, kept) * parts * group,),
        local_size=(group,),
        **_cost(problem, parts),
    )


def _pick(problem: _Problem, out: Array, where: Array, partial: Array, places: Array) -> Launch:
    itemsize = problem.x.dtype.itemsize
    return PICK.launch(
        _params(problem, partial.shape[1]),
        joined(
            by_name("outs parts", problem.outs, partial.shape[1]),
            by_name("out where values places", out, where, partial, places),
        ),
        global_size=(ceil_div(problem.outs, _PICK_GROUP) * _PICK_GROUP,),
        local_size=(_PICK_GROUP,),
        flops=partial.size,
        bytes=(partial.size + problem.outs) * (itemsize + 8),
    )
