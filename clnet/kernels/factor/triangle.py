"""Elimination with exchanged rows, Cholesky's factors, and triangular systems."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..gemm import gemm
from ..grid import in_groups, items
from ..kernel import Constraint, Kernel, by_name
from ..moving import copy, fill
from .householder import items_across, lanes_across

_ROWS = (Constraint("group % lanes == 0", "items are rows of lanes"),)
_LU = Kernel("lu", "factor/triangle.mako", _ROWS)
_LU_BESIDE = Kernel("lu_beside", "factor/triangle.mako")
_CHOLESKY = Kernel("cholesky", "factor/triangle.mako", _ROWS)
_SUBSTITUTE = Kernel("substitute", "factor/triangle.mako")
_EXCHANGED = Kernel("exchanged", "factor/triangle.mako")

# Columns of a panel, which one group takes from column to column; all else are products.
PANEL = 32
_GROUP = 256


def lu(
    target: Target, a: Array, pivots: Array, info: Array, x: Array, *, panel: int = PANEL
) -> list[Launch]:
    """``x`` with exchanged rows as a lower triangle times an upper one.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, m, n)``, dense: both triangles; the lower one's diagonal is 1.
        pivots: ``(batch, min(m, n))``, dense int32: which row, from 1, each was exchanged with.
        info: ``(batch,)``, dense int32: the first pivot, from 1, that is 0; 0 if none is.
        x: the shape of ``a``.
        panel: columns of a panel.
    """
    if x.size == 0:
        return fill(target, info, 0)
    batch, m, n = x.shape
    launches = copy(target, a, x)
    params, sizes = _shared(target, x, panel)
    lanes = lanes_across(target, x, n)
    for first, end in _panels(min(m, n), panel):
        launches.append(
            _LU.launch(
                params,
                by_name("m n first end a pivots info", m, n, first, end, a, pivots, info),
                **sizes,
                flops=batch * (m - first) * (end - first) ** 2,
                bytes=2 * batch * (m - first) * (end - first) * x.dtype.itemsize,
            )
        )
        others = n - (end - first)
        blocks = ceil_div(first, lanes) + ceil_div(n - end, lanes)
        if others:
            launches.append(
                _LU_BESIDE.launch(
                    by_name("ctype panel lanes", x.dtype.ctype, panel, lanes),
                    by_name("batch m n first end a pivots", batch, m, n, first, end, a, pivots),
                    **items_across(target, batch * blocks, lanes),
                    flops=batch * (n - end) * (end - first) ** 2,
                    bytes=2 * batch * others * (end - first) * x.dtype.itemsize,
                )
            )
        launches += _taken_off(
            target,
            _part(a, (end, m), (end, n)),
            _part(a, (end, m), (first, end)),
            _part(a, (first, end), (end, n)),
        )
    return launches


def cholesky(
    target: Target, a: Array, info: Array, x: Array, *, panel: int = PANEL
) -> list[Launch]:
    """The lower triangle whose product with its transpose is ``x``.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, n, n)``, dense; NaN where ``x`` is not positive definite.
        info: ``(batch,)``, dense int32: the first leading block, from 1, that is not; else 0.
        x: the shape of ``a``; its lower triangle counts.
        panel: columns of a panel.
    """
    if x.size == 0:
        return fill(target, info, 0)
    batch, n, _ = x.shape
    launches = copy(target, a, x)
    params, sizes = _shared(target, x, panel)
    for first, end in _panels(n, panel):
        launches.append(
            _CHOLESKY.launch(
                params,
                by_name("n first end a info", n, first, end, a, info),
                **sizes,
                flops=batch * (n - first) * (end - first) ** 2,
                bytes=2 * batch * (n - first) * (end - first) * x.dtype.itemsize,
            )
        )
        below = _part(a, (end, n), (first, end))
        across = below.view((batch, end - first, n - end), (below.strides[0], 1, n), below.offset)
        launches += _taken_off(target, _part(a, (end, n), (end, n)), below, across)
    return launches


def substitute(
    target: Target,
    x: Array,
    a: Array,
    b: Array,
    *,
    upper: bool,
    unit: bool,
    panel: int = PANEL,
) -> list[Launch]:
    """``x`` with ``a @ x = b``, for triangles ``a``.

    Args:
        target: what to choose the kernels for.
        x: ``(batch, n, columns)``, dense.
        a: ``(batch, n, n)``, dense; the other triangle is not read.
        b: the shape of ``x``.
        upper: whether the upper triangle counts.
        unit: whether the diagonal is taken for ones.
        panel: rows of a block.
    """
    if x.size == 0:
        return []
    batch, n, columns = x.shape
    launches = copy(target, x, b)
    blocks = _panels(n, panel)
    lanes = lanes_across(target, x, columns)
    sizes = items_across(target, batch * ceil_div(columns, lanes), lanes)
    for first, end in reversed(blocks) if upper else blocks:
        launches.append(
            _SUBSTITUTE.launch(
                by_name("ctype upper unit lanes", x.dtype.ctype, upper, unit, lanes),
                by_name("batch n columns first end x a", batch, n, columns, first, end, x, a),
                **sizes,
                flops=batch * columns * (end - first) ** 2,
                bytes=2 * batch * columns * (end - first) * x.dtype.itemsize,
            )
        )
        rest = (0, first) if upper else (end, n)
        launches += _taken_off(
            target,
            _part(x, rest, (0, columns)),
            _part(a, rest, (first, end)),
            _part(x, (first, end), (0, columns)),
        )
    return launches


def _shared(target: Target, x: Array, panel: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and sizes of kernels in which a group has a matrix."""
    # More than for a reflection: a column of a panel is short, a panel is not.
    group = min(_GROUP, target.traits.max_group_size) if in_groups(target.traits) else 1
    lanes = 1 << min(group, panel).bit_length() - 1
    params = {"ctype": x.dtype.ctype, "group": group, "lanes": lanes}
    return params, {"global_size": (x.shape[0] * group,), "local_size": (group,)}


def _panels(size: int, panel: int) -> list[tuple[int, int]]:
    """Where panels begin and end."""
    return [(first, min(first + panel, size)) for first in range(0, size, panel)]


def _part(x: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    """Some rows and columns of dense matrices."""
    batch, size, pitch = x.shape
    shape = (batch, rows[1] - rows[0], columns[1] - columns[0])
    return x.view(shape, (size * pitch, pitch, 1), x.offset + rows[0] * pitch + columns[0])


def _taken_off(target: Target, out: Array, a: Array, b: Array) -> list[Launch]:
    """``out -= a @ b``."""
    return gemm(target, out, a, b, alpha=-1.0, beta=1.0)


def exchanged(target: Target, order: Array, pivots: Array) -> list[Launch]:
    """Which row each comes from, after the exchanges that :func:`lu` gave.

    Args:
        target: what to choose the kernel for.
        order: ``(batch, rows)``, dense int64.
        pivots: ``(batch, count)``, dense int32, from 1; what lies outside is taken for an end.
    """
    if order.size == 0:
        return []
    (batch, rows), count = order.shape, pivots.shape[1]
    return [
        _EXCHANGED.launch(
            {},
            by_name("batch rows count order pivots", batch, rows, count, order, pivots),
            **items(target, batch),
            flops=0,
            bytes=order.nbytes + pivots.nbytes,
        )
    ]
