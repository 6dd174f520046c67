"""Sums over runs of equal keys: how gradients of gathers are added up without atomics."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import DeviceTraits, Launch, Scratch, Target
from ...values.dtypes import float64, int32
from ...values.shapes import round_up
from ..grid import flat_type, in_groups, items, lanes_of
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..streaming import streams_rows
from .sort import Sorted

_TREE_LANES = 32
_TREE_SLICES = 8
# Runs so long in the mean are cut: a group for each would leave most units without one.
_LONG_RUN = 64
_PIECE = 512
_POWER_OF_2 = Constraint("slices & (slices - 1) == 0", "the tree halves them")


_STARTS = Kernel("segment_starts", "index/segment.mako")
_MARKS = Kernel("segment_marks", "index/segment.mako")
_SUM_ELEMENTS = Kernel("segment_sum_elements", "index/segment.mako")
_SUM_ROWS = Kernel("segment_sum_rows", "index/segment.mako")
_SUM_TREE = Kernel("segment_sum_tree", "index/segment.mako", constraints=(_POWER_OF_2,))
_SUM_PIECES = Kernel("segment_sum_pieces", "index/segment.mako", constraints=(_POWER_OF_2,))
_SUM_JOINED = Kernel("segment_sum_joined", "index/segment.mako", constraints=(_POWER_OF_2,))
_LAST = Kernel("segment_last", "index/segment.mako")


def segment_sum(target: Target, memory: Scratch, y: Array, x: Array, runs: Sorted) -> list[Launch]:
    """``y[o, r] = sum of x[o, i]`` over the ``i`` whose key is ``r``, in ascending ``i``.

    Takes 4 bytes of scratch memory for a row, and those of some sums of each long run.

    Args:
        target: what to choose the kernels for.
        memory: the op's scratch memory.
        y: ``(outer, rows, inner)``, dense; written whole, 0 where no key points.
        x: ``(outer, n, inner)``, dense.
        runs: the ``n`` keys in order; those of ``rows`` and more are left out.

    Returns:
        The launches, those of the sort not among them.
    """
    if y.size == 0:
        return []
    outer, rows, inner = y.shape
    starts, launches = starts_of_runs(target, memory, rows, runs)
    traits, n = target.traits, runs.keys.size
    real = "double" if y.dtype.compute == "float64" else y.dtype.ctype
    params: dict[str, Any] = {"ctype": y.dtype.ctype, "real": real, "flat": _flat(y, x)}
    if in_groups(traits) and n >= _LONG_RUN * rows and n > _PIECE:
        return [*launches, *_by_pieces(traits, memory, params, y, x, starts, runs)]
    if not in_groups(traits) and inner >= traits.simd_width:
        lanes = lanes_of(target, 4)
        kernel = _SUM_ROWS
        params |= {"vector": lanes, "stream": streams_rows(y, inner, lanes)}
        sizes: dict[str, Any] = {"global_size": (rows, outer)}
    elif in_groups(traits) and inner >= _TREE_LANES // 2 and n >= rows:
        kernel = _SUM_TREE
        group = _tree_items(traits)
        lanes = min(_TREE_LANES, group)
        slices = group // lanes
        params |= {"lanes": lanes, "slices": slices}
        count = (round_up(inner, lanes), rows * slices, outer)
        sizes = {"global_size": count, "local_size": (lanes, slices, 1)}
    else:
        kernel = _SUM_ELEMENTS
        sizes = items(target, y.size)
    moved = y.nbytes + x.nbytes + starts.nbytes + runs.order.nbytes
    launches.append(
        kernel.launch(
            params,
            _args(y, x, starts, runs),
            **sizes,
            flops=x.size,
            bytes=moved,
        )
    )
    return launches


def _tree_items(traits: DeviceTraits) -> int:
    """Work-items of a group that adds runs up as a tree."""
    return min(_TREE_LANES * _TREE_SLICES, traits.max_group_size)


def _by_pieces(
    traits: DeviceTraits,
    memory: Scratch,
    params: dict[str, Any],
    y: Array,
    x: Array,
    starts: Array,
    runs: Sorted,
) -> list[Launch]:
    """Sums of pieces of runs, then of those: as many groups wherever the runs' ends are."""
    outer, rows, inner = y.shape
    lanes = min(_TREE_LANES, _tree_items(traits), 1 << (inner - 1).bit_length())
    params |= {"lanes": lanes, "slices": _tree_items(traits) // lanes, "piece": _PIECE}
    ids = runs.keys.size // _PIECE + rows
    summed = float64 if params["real"] == "double" else y.dtype
    parts = Array.scratch(memory, (outer, ids, inner), summed)
    common = joined(
        by_name("outer rows n inner", outer, rows, runs.keys.size, inner),
        by_name("ids starts parts", ids, starts, parts),
    )

    def launch(kernel: Kernel, groups: int, args: Named, nbytes: int) -> Launch:
        across, down = round_up(inner, lanes), params["slices"]
        return kernel.launch(
            params,
            joined(common, args),
            global_size=(across, groups * down, outer),
            local_size=(lanes, down, 1),
            flops=x.size if kernel is _SUM_PIECES else parts.size,
            bytes=parts.nbytes + starts.nbytes + nbytes,
        )

    read = x.nbytes + runs.order.nbytes
    return [
        launch(_SUM_PIECES, ids, by_name("x order", x, runs.order), read),
        launch(_SUM_JOINED, rows, by_name("y", y), y.nbytes),
    ]


def segment_last(target: Target, memory: Scratch, y: Array, x: Array, runs: Sorted) -> list[Launch]:
    """``y[o, r] = x[o, i]`` for the last ``i`` whose key is ``r``; other rows stay as they are.

    The arguments are those of :func:`segment_sum`.
    """
    if y.size == 0:
        return []
    starts, launches = starts_of_runs(target, memory, y.shape[1], runs)
    launches.append(
        _LAST.launch(
            {"ctype": y.dtype.moved_as, "flat": _flat(y, x)},
            _args(y, x, starts, runs),
            **items(target, y.size),
            flops=0,
            bytes=2 * x.nbytes + starts.nbytes + runs.order.nbytes,
        )
    )
    return launches


def _flat(y: Array, x: Array) -> str:
    """The type of places in both."""
    return flat_type(max(y.size, x.size))


def _args(y: Array, x: Array, starts: Array, runs: Sorted) -> Named:
    outer, rows, inner = y.shape
    return joined(
        by_name("outer rows n inner", outer, rows, runs.keys.size, inner),
        by_name("y x starts order", y, x, starts, runs.order),
    )


def starts_of_runs(
    target: Target, memory: Scratch, rows: int, runs: Sorted
) -> tuple[Array, list[Launch]]:
    """Where each row's run begins, ``(rows + 1,)``, int32, and what computes it."""
    starts = Array.scratch(memory, (rows + 1,), int32)
    # A search takes a CPU longer than to write down one by one where runs begin.
    searched = in_groups(target.traits)
    launch = (_STARTS if searched else _MARKS).launch(
        {},
        by_name("rows n starts keys", rows, runs.keys.size, starts, runs.keys),
        **items(target, 1 + (rows if searched else runs.keys.size)),
        flops=0,
        bytes=starts.nbytes + runs.keys.nbytes,
    )
    return starts, [launch]
