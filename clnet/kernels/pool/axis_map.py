"""A sparse linear map along one axis, from a table of terms: no atomics, a fixed order."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import from_name
from ..grid import items
from ..kernel import Kernel
from .window import by_rows

_MAP = Kernel("axis_map", "pool/axis_map.mako")
_ROWS = Kernel("axis_map_rows", "pool/axis_map.mako")

# A work-item of a CPU makes a run of this many elements, or more.
_LEAST_RUN = 8


def axis_map(
    target: Target,
    y: Array,
    x: Array,
    starts: Array,
    index: Array,
    weight: Array | None,
    *,
    terms: int = 0,
) -> list[Launch]:
    """``y[o, i] = sum of weight[t] * x[o, index[t]]`` for ``starts[i] <= t < starts[i + 1]``.

    Args:
        target: what to choose the sizes for.
        y: ``(outer, n, inner)``, dense.
        x: ``(outer, rows, inner)``, dense.
        starts: ``(n + 1,)``, int32.
        index: int32, in ``[0, rows)``.
        weight: as ``index``, of ``x``'s compute dtype; None: all 1.
        terms: how many every output has; 0: different numbers.
    """
    if y.size == 0:
        return []
    compute = from_name(x.dtype.compute)
    params = {
        "ctype": x.dtype.ctype,
        "stored": x.dtype.stored,
        "real": compute.ctype,
        "weighted": weight is not None,
    }
    tables = {"starts": starts, "index": index}
    if weight is not None:
        tables["weight"] = weight
    outer, n, inner = y.shape
    products = index.size * (y.size // n)
    cost: dict[str, Any] = {
        "flops": products if weight is None else 2 * products,
        "bytes": y.nbytes + x.nbytes + sum(t.nbytes for t in tables.values()),
    }
    run, runs = (n, outer) if inner == 1 else (inner, outer * n)
    args = {"n": n, "rows": x.shape[1], "inner": inner, "y": y, "x": x, **tables}
    if by_rows(target) and run >= _LEAST_RUN and runs >= target.traits.compute_units:
        shape: dict[str, Any] = {"global_size": (runs,), "local_size": (1,)}
        return [_ROWS.launch({**params, "terms": terms}, {"count": runs, **args}, **shape, **cost)]
    return [_MAP.launch(params, {"count": y.size, **args}, **items(target, y.size), **cost)]
