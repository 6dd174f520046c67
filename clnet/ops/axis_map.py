"""Sparse linear maps along one axis. Padding, interpolation and windows in depth are such maps.

The table of a map follows from sizes alone and is made on the host, once; the elements are added on
the device. The gradient is the transposed map, a gather as well, so nothing needs atomics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..array import Array
from ..device import Device, Launch, Target
from ..kernels.pool import axis_map as launch_axis_map
from ..values.dtypes import DType, from_name
from ..values.lazy import lazy
from .complex_parts import by_parts
from .machinery.constant import constant
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply
from .shape import contiguous, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


@dataclass(frozen=True, eq=False)
class Table:
    """The terms of each output of a map.

    Attributes:
        rows: the size of the axis before it.
        n: the size after it.
        starts: ``(n + 1,)``: output ``i`` has the terms ``starts[i]`` to ``starts[i + 1]``.
        index: which input each term reads.
        weight: what it is multiplied by; None: all 1.
    """

    rows: int
    n: int
    starts: np.ndarray
    index: np.ndarray
    weight: np.ndarray | None

    @staticmethod
    def of(rows: int, index: np.ndarray, weight: np.ndarray | None = None) -> Table:
        """From the inputs (and weights) of each output.

        Args:
            rows: size of the axis before.
            index: ``(n,)`` or ``(n, terms)``; an index outside the axis has no term.
            weight: as ``index``; a term of weight 0 is left out; None: all 1.
        """
        index = index if index.ndim == 2 else index[:, None]
        kept = (index >= 0) & (index < rows)
        if weight is not None:
            weight = weight.reshape(index.shape)
            kept &= weight != 0
            weight = weight[kept]
        starts = np.concatenate([[0], np.cumsum(kept.sum(1))]).astype(np.int32)
        return Table(rows, len(index), starts, index[kept].astype(np.int32), weight)

    @lazy
    def terms(self) -> int:
        """How many terms every output has; 0: different numbers, or none."""
        counts = np.unique(np.diff(self.starts))
        return int(counts[0]) if len(counts) == 1 else 0

    @lazy
    def transposed(self) -> Table:
        """The table of the transposed map; terms in ascending order of the outputs."""
        order = np.argsort(self.index, kind="stable")
        outputs = np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.starts))
        starts = np.searchsorted(self.index[order], np.arange(self.rows + 1)).astype(np.int32)
        weight = None if self.weight is None else self.weight[order]
        return Table(self.n, self.rows, starts, outputs[order], weight)


class AxisMap(Function):
    """``(outer, n, inner)`` from ``(outer, rows, inner)`` and the arrays of a table."""

    of_complex = by_parts
    repeats = True

    op_name: str
    table: Table

    def infer(self, x: Array, *table: Array) -> tuple[Array, ...]:
        outer, _, inner = x.shape
        return (Array.abstract((outer, self.table.n, inner), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        x, starts, index, *weight = inputs
        return launch_axis_map(
            target,
            outputs[0],
            x,
            starts,
            index,
            weight[0] if weight else None,
            terms=self.table.terms,
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The transposed map."""
        gx = _mapped(f"{self.op_name}_backward", grads[0], self.table.transposed)
        return (gx, *(None for _ in needs[1:]))


def map_axis(name: str, x: Tensor, dim: int, table: Table) -> Tensor:
    """``x`` with a map applied along an axis.

    Args:
        name: the op it is done for.
        x: any shape; its size at ``dim`` is ``table.rows``.
        dim: the axis, from the front.
        table: the map.

    Returns:
        As ``x``, with ``table.n`` at ``dim``.
    """
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    flat = reshape(x, (prod(before), table.rows, prod(after)))
    return reshape(_mapped(name, flat, table), (*before, table.n, *after))


def _mapped(name: str, x: Tensor, table: Table) -> Tensor:
    arrays = _on_device(table, x.device, from_name(x.dtype.compute))
    return apply(AxisMap(name, table), contiguous(x), *map(type(x), arrays))


@lru_cache(maxsize=512)
def _on_device(table: Table, device: Device, real: DType) -> tuple[Array, ...]:
    arrays = [table.starts, table.index]
    if table.weight is not None:
        arrays.append(table.weight.astype(real.numpy))
    return tuple(constant(a, device) for a in arrays)
