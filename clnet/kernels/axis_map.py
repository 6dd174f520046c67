"""A sparse linear map along one axis, from a table of terms: no atomics, a fixed order."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..device import Launch, Target
from ..dtypes import from_name
from .grid import items
from .kernel import Kernel


class _Map(NamedTuple):
    ctype: str
    stored: str
    real: str
    weighted: bool


_MAP = Kernel("axis_map", "axis_map.mako")


def axis_map(
    target: Target, y: Array, x: Array, starts: Array, index: Array, weight: Array | None
) -> list[Launch]:
    """``y[o, i] = sum of weight[t] * x[o, index[t]]`` for ``starts[i] <= t < starts[i + 1]``.

    Args:
        target: what to choose the sizes for.
        y: ``(outer, n, inner)``, dense.
        x: ``(outer, rows, inner)``, dense.
        starts: ``(n + 1,)``, int32.
        index: int32, in ``[0, rows)``.
        weight: as ``index``, of ``x``'s compute dtype; None: all 1.

    Returns:
        The launches; none for no elements.
    """
    if y.size == 0:
        return []
    compute = from_name(x.dtype.compute)
    stored = "bfloat16" if x.dtype.name == "bfloat16" else x.dtype.ctype
    params = _Map(x.dtype.ctype, stored, compute.ctype, weight is not None)
    tables = [starts, index] if weight is None else [starts, index, weight]
    _, n, inner = y.shape
    terms = index.size * (y.size // n)
    global_size, local_size = items(target, y.size)
    return [
        _MAP.launch(
            params,
            (y.size, n, x.shape[1], inner, y, x, *tables),
            global_size=global_size,
            local_size=local_size,
            flops=terms if weight is None else 2 * terms,
            bytes=y.nbytes + x.nbytes + sum(t.nbytes for t in tables),
        )
    ]
