"""Sums, products, largest and smallest elements over any axes of a strided array.

Owns how the reduced elements are cut up; what ``dim`` and ``keepdim`` mean is decided above.
"""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ...errors import ArgumentError
from ...values.dtypes import DType, Kind, float32, from_name, int32, int64
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..grid import flat_type, in_groups, jobs_per_item, lanes_of
from ..kernel import Constraint, Kernel, Named, by_name, joined
from .running import running_dtype


class Reduction(Enum):
    """What is reduced, and how two partial results become one: ``(join, load)``."""

    SUM = ("sum", "plain")
    MEAN = ("sum", "plain", "mean")
    SUM_SQUARES = ("sum", "square")
    PROD = ("prod", "plain")
    MAX = ("max", "plain")
    MIN = ("min", "plain")
    ANY = ("max", "nonzero")
    ALL = ("min", "nonzero")

    @property
    def join(self) -> str:
        """Name of the joining function in the template."""
        return self.value[0]

    @property
    def load(self) -> str:
        """What is done to an element first."""
        return self.value[1]


ROWS = Kernel("reduce_rows", "reduce/reduce.mako")
COLUMNS = Kernel(
    "reduce_columns",
    "reduce/reduce.mako",
    (Constraint("block % lanes == 0", "whole vectors per block"),),
)
GROUP = Kernel(
    "reduce_group",
    "reduce/reduce.mako",
    (Constraint("group % reduce_items == 0", "whole outputs per group"),),
)

_COLUMN_BLOCK = 1024
# A part is long enough to pay for its share of a launch, and a work-item that has several cores'
# worth of outputs beside it need not be cut up before rounding errors ask for it.
_PART = 1 << 16
_PART_WHEN_MANY = 1 << 20
_GROUPS_PER_UNIT = 4
# Neighbouring outputs of a group, at least: those of a sector of memory, of float32.
_LEAST_KEPT = 8
_GROUP = 256
# Work-items that a unit has room for; few columns share so many between their groups.
_RESIDENT_ITEMS = 2048


class _Axis(NamedTuple):
    size: int
    x: int
    out: int
    y: int = 0


class Problem(NamedTuple):
    """The axes of ``x``, kept and reduced, each kind sorted by stride and merged.

    ``divisor`` is what a mean is over, where that is not the number of elements; ``pair`` the
    kernel that takes the elements of ``x`` with others, how, and those.
    """

    out: Array
    x: Array
    acc: DType
    join: str
    load: str
    mean: bool
    kept: tuple[_Axis, ...]
    reduced: tuple[_Axis, ...]
    divisor: float | None = None
    pair: tuple[Kernel, str, Array] | None = None

    @property
    def outs(self) -> int:
        """How many results there are."""
        return prod([axis.size for axis in self.kept])

    @property
    def total(self) -> int:
        """How many elements each is of."""
        return prod([axis.size for axis in self.reduced])

    @property
    def columns(self) -> bool:
        """Whether neighbours in memory belong to different outputs."""
        return self.kept[-1].x == 1 and self.kept[-1].size > 1


def accumulator(reduction: Reduction, dtype: DType) -> DType:
    """The dtype partial results of an array of ``dtype`` are held in."""
    if reduction.load == "nonzero":
        return int32
    if dtype.kind is Kind.FLOATING:
        return from_name(dtype.compute)
    wide = reduction.join in ("sum", "prod") or dtype is int64
    return int64 if wide else int32


def reduce(
    target: Target,
    out: Array,
    x: Array,
    *,
    dims: tuple[int, ...],
    kind: Reduction,
    memory: Scratch | None = None,
) -> list[Launch]:
    """``out = reduction of x over dims``.

    Args:
        target: the device's traits and the scratch memory allowed.
        out: ``x``'s shape without ``dims`` (or with size 1 there, or strided: as long as its other
            axes are in order), of the dtype the result is stored as.
        x: any shape and strides.
        dims: axes of ``x``, counted from the front, none twice. Over no elements the result is the
            reduction's identity (0, 1, infinities, true for ALL), and NaN for MEAN.
        kind: what to compute; MEAN takes floating ``x``.
        memory: the scratch memory of the op that this is a part of, if it has any.

    Returns:
        One launch, or two when few outputs would leave the device idle.

    Raises:
        ArgumentError: if the sizes of ``out`` are not those that ``x`` keeps.
    """
    acc = accumulator(kind, x.dtype)
    if kind is Reduction.PROD and acc is float32:  # each factor's rounding stays in a product
        acc = running_dtype(target, acc)
    mean, axes = kind is Reduction.MEAN, axes_of(out, x, x, dims)
    return launches_of(target, Problem(out, x, acc, kind.join, kind.load, mean, *axes), memory)


def axes_of(
    out: Array, x: Array, y: Array, dims: tuple[int, ...]
) -> tuple[tuple[_Axis, ...], tuple[_Axis, ...]]:
    """The axes that are kept, and those that are reduced, of arrays of one shape.

    Raises:
        ArgumentError: if the sizes of ``out`` are not those that are kept.
    """
    kept_sizes = tuple(n for i, n in enumerate(x.shape) if i not in dims and n != 1)
    out_axes = [(n, s) for n, s in zip(out.shape, out.strides, strict=True) if n != 1]
    if kept_sizes != tuple(n for n, _ in out_axes):
        raise ArgumentError(
            "reduce", "out has the sizes x keeps", out=out.shape, x=x.shape, dims=dims
        )
    out_strides = iter(s for _, s in out_axes)
    kept, reduced = [], []
    for i, (size, stride, other) in enumerate(zip(x.shape, x.strides, y.strides, strict=True)):
        if i in dims:
            reduced.append(_Axis(size, stride, 0, other))
        elif size != 1:
            kept.append(_Axis(size, stride, next(out_strides), other))
    return _merge(kept), _merge(reduced)


def launches_of(target: Target, problem: Problem, memory: Scratch | None) -> list[Launch]:
    """The launches of a problem; none for no outputs."""
    if problem.outs == 0:
        return []
    parts = parts_of(target, problem)
    if parts == 1:
        return [_launch(target, problem)]
    return _two_stages(target, problem, parts, memory or Scratch(problem.x.device))


def _merge(axes: list[_Axis]) -> tuple[_Axis, ...]:
    """Axes from the longest stride to the shortest, neighbours merged; at least one."""
    if any(axis.size == 0 for axis in axes):
        return (_Axis(0, 0, 0),)
    merged: list[_Axis] = []
    for axis in sorted(axes, key=lambda a: (-a.x, -a.out)):
        if axis.size == 1:
            continue
        last = merged[-1] if merged else None
        if last and last[1:] == tuple(axis.size * step for step in axis[1:]):
            merged[-1] = axis._replace(size=last.size * axis.size)
        else:
            merged.append(axis)
    return tuple(merged) or (_Axis(1, 0, 0),)


def parts_of(target: Target, problem: Problem) -> int:
    """Into how many parts each output's elements are cut."""
    units = target.traits.compute_units
    if in_groups(target.traits):
        groups = ceil_div(problem.outs, _group_shape(target, problem)[1])
        wanted = ceil_div(units * _GROUPS_PER_UNIT, groups)
        parts = min(wanted, ceil_div(problem.total, 8 * _GROUP))
    else:
        jobs = problem.outs
        if problem.columns:
            width = problem.kept[-1].size
            jobs = jobs // width * ceil_div(width, _COLUMN_BLOCK)
        least = _PART if jobs < 4 * units else _PART_WHEN_MANY
        parts = min(ceil_div(problem.outs * problem.total // jobs, least), problem.total)
    room = target.workspace_limit // (problem.outs * problem.acc.itemsize)
    return max(1, min(parts, room))


def _two_stages(target: Target, problem: Problem, parts: int, memory: Scratch) -> list[Launch]:
    """Partial results of all parts into scratch memory, then their reduction."""
    wide = _joined_in(target, problem)
    partial = Array.scratch(memory, (parts * problem.outs,), wide)
    part_stride, step = (problem.outs, 1) if problem.columns else (1, parts)
    first, second = [], []
    for axis in reversed(problem.kept):
        first.append(axis._replace(out=step))
        second.append(_Axis(axis.size, step, axis.out))
        step *= axis.size
    cut = problem._replace(out=partial, mean=False, kept=tuple(reversed(first)))
    rest = problem._replace(
        x=partial,
        acc=wide,
        pair=None,
        load="plain",
        kept=_merge(second),
        reduced=(_Axis(parts, part_stride, 0),),
    )
    divisor = problem.total if problem.divisor is None else problem.divisor
    return [
        _launch(target, cut, parts=parts, part_stride=part_stride),
        _launch(target, rest, divisor=divisor),
    ]


def _launch(
    target: Target,
    problem: Problem,
    *,
    parts: int = 1,
    part_stride: int = 0,
    divisor: float | None = None,
) -> Launch:
    """One launch; ``divisor`` when other than the number of elements this launch reduces."""
    kept = tuple(zip(*problem.kept, strict=True))[:3]
    reduced = tuple(zip(*problem.reduced, strict=True))
    args = by_name(
        "parts part_stride kept_size{i} kept_x{i} kept_out{i} reduced_size{i} reduced_x{i} out x",
        *(parts, part_stride, *kept, *reduced[:2], problem.out, problem.x),
    )
    if problem.mean:
        divisor = problem.divisor if divisor is None else divisor
        total = problem.total if divisor is None else divisor
        args = joined(args, by_name("divisor", float(total)))
    if in_groups(target.traits):
        return _group(target, problem, parts, args)
    return (_columns if problem.columns else _rows)(target, problem, parts, args)


def _params(problem: Problem, parts: int) -> Named:
    """The parameters that all kernels have."""
    ranks = (len(problem.kept), len(problem.reduced))
    types = (problem.x.dtype.stored, problem.out.dtype.ctype, problem.acc.ctype)
    flat = _flat(problem, parts)
    names = "kind load mean ctype out_ctype acc flat kept_rank reduced_rank"
    return by_name(names, problem.join, problem.load, problem.mean, *types, flat, *ranks)


def _joined_in(target: Target, problem: Problem) -> DType:
    """The dtype in which CPUs join what chains of additions or products of floats give."""
    long = problem.join in ("sum", "prod") and problem.acc is float32
    return running_dtype(target, problem.acc) if long else problem.acc


def _flat(problem: Problem, parts: int) -> str:
    return flat_type(max(problem.total, problem.outs * parts))


def _cost(problem: Problem, parts: int) -> dict[str, Any]:
    elements = problem.outs * problem.total
    written = problem.outs * parts * problem.out.dtype.itemsize
    pair = problem.pair is not None
    per_element = 2 if problem.load == "square" or pair else 1
    read = elements * problem.x.dtype.itemsize * (1 + pair)
    return {"flops": elements * per_element, "bytes": read + written}


def _lanes(target: Target, problem: Problem) -> int:
    """Lanes of a vector: PoCL's conversions of vectors wider than the CPU's give zeros."""
    return lanes_of(target, max(problem.acc.itemsize, problem.x.dtype.itemsize))


def _rows(target: Target, problem: Problem, parts: int, args: Named) -> Launch:
    jobs, total = problem.outs * parts, problem.total
    per_item = jobs_per_item(target, jobs, problem.outs * total)
    how = (_lanes(target, problem), problem.reduced[-1].x == 1)
    wide = _joined_in(target, problem).ctype
    numbers = (jobs, per_item, total, ceil_div(total, parts))
    return ROWS.launch(
        joined(_params(problem, parts), by_name("wide lanes dense", wide, *how)),
        joined(by_name("jobs jobs_per_item total part_size", *numbers), args),
        global_size=(ceil_div(jobs, per_item),),
        **_cost(problem, parts),
    )


def _columns(target: Target, problem: Problem, parts: int, args: Named) -> Launch:
    width, total = problem.kept[-1].size, problem.total
    # Vectors that rows can fill: what is left of a row is loaded one by one.
    lanes = min(_lanes(target, problem), 1 << (width.bit_length() - 1))
    blocks, wide = ceil_div(width, _COLUMN_BLOCK), _joined_in(target, problem).ctype
    return COLUMNS.launch(
        joined(_params(problem, parts), by_name("wide lanes block", wide, lanes, _COLUMN_BLOCK)),
        joined(by_name("blocks rows_total part_rows", blocks, total, ceil_div(total, parts)), args),
        global_size=(problem.outs // width * blocks * parts,),
        **_cost(problem, parts),
    )


def _group_shape(target: Target, problem: Problem) -> tuple[int, int]:
    """Work-items that share one output, and outputs of a group."""
    group = min(_GROUP, target.traits.max_group_size)
    if problem.columns:
        kept = min(32, group, 1 << (problem.kept[-1].size - 1).bit_length())
        # Sums too short to be cut into parts: more groups of fewer neighbours keep more units busy.
        while (
            kept > _LEAST_KEPT
            and problem.outs < kept * target.traits.compute_units
            and 4 * group // kept <= problem.total <= 8 * _GROUP
        ):
            kept //= 2
        room = target.traits.compute_units * _RESIDENT_ITEMS // ceil_div(problem.outs, kept)
        while 2 * group <= min(room, target.traits.max_group_size, problem.total):
            group *= 2
        return group // kept, kept
    share = min(group, 1 << max(problem.total - 1, 0).bit_length())
    return share, group // share


def _group(target: Target, problem: Problem, parts: int, args: Named) -> Launch:
    share, kept = _group_shape(target, problem)
    group, total = share * kept, problem.total
    kernel, params = GROUP, _params(problem, parts)
    if problem.pair is not None:
        kernel, of, y = problem.pair
        ranks = (len(problem.kept), len(problem.reduced))
        names = "of ctype mean flat kept_rank reduced_rank"
        params = by_name(names, of, problem.acc.ctype, problem.mean, _flat(problem, parts), *ranks)
        steps = ([axis.y for axis in axes] for axes in (problem.kept, problem.reduced))
        args = joined(args, by_name("kept_y{i} reduced_y{i} y", *steps, y))
    how = (group, share, problem.columns)
    return kernel.launch(
        joined(params, by_name("group reduce_items kept_fast", *how)),
        joined(by_name("outs total part_size", problem.outs, total, ceil_div(total, parts)), args),
        global_size=(ceil_div(problem.outs, kept) * parts * group,),
        local_size=(group,),
        **_cost(problem, parts),
    )
