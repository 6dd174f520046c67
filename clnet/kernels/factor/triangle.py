"""Elimination with exchanged rows, Cholesky's factors, and triangular systems."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..grid import items
from ..kernel import Kernel, named
from ..moving import copy, fill
from .householder import group_of

_LU = Kernel("lu", "factor/triangle.mako")
_CHOLESKY = Kernel("cholesky", "factor/triangle.mako")
_SUBSTITUTE = Kernel("substitute", "factor/triangle.mako")
_EXCHANGED = Kernel("exchanged", "factor/triangle.mako")


def lu(target: Target, a: Array, pivots: Array, info: Array, x: Array) -> list[Launch]:
    """``x`` with exchanged rows as a lower triangle times an upper one.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, m, n)``, dense: both triangles; the lower one's diagonal is 1.
        pivots: ``(batch, min(m, n))``, dense int32: which row, from 1, each was exchanged with.
        info: ``(batch,)``, dense int32: the first pivot, from 1, that is 0; 0 if none is.
        x: the shape of ``a``.
    """
    if x.size == 0:
        return fill(target, info, 0)
    batch, m, n = x.shape
    group = group_of(target)
    return [
        *copy(target, a, x),
        _LU.launch(
            {"ctype": x.dtype.ctype, "group": group},
            named("m n a pivots info", m, n, a, pivots, info),
            global_size=(batch * group,),
            local_size=(group,),
            flops=2 * batch * m * n * min(m, n),
            bytes=2 * x.nbytes,
        ),
    ]


def cholesky(target: Target, a: Array, info: Array, x: Array) -> list[Launch]:
    """The lower triangle whose product with its transpose is ``x``.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, n, n)``, dense; NaN where ``x`` is not positive definite.
        info: ``(batch,)``, dense int32: the first leading block, from 1, that is not; else 0.
        x: the shape of ``a``; its lower triangle counts.
    """
    if x.size == 0:
        return fill(target, info, 0)
    batch, n, _ = x.shape
    group = group_of(target)
    return [
        *copy(target, a, x),
        _CHOLESKY.launch(
            {"ctype": x.dtype.ctype, "group": group},
            named("n a info", n, a, info),
            global_size=(batch * group,),
            local_size=(group,),
            flops=batch * n**3 // 3,
            bytes=2 * x.nbytes,
        ),
    ]


def substitute(
    target: Target, x: Array, a: Array, b: Array, *, upper: bool, unit: bool
) -> list[Launch]:
    """``x`` with ``a @ x = b``, for triangles ``a``.

    Args:
        target: what to choose the kernels for.
        x: ``(batch, n, columns)``, dense.
        a: ``(batch, n, n)``, dense; the other triangle is not read.
        b: the shape of ``x``.
        upper: whether the upper triangle counts.
        unit: whether the diagonal is taken for ones.
    """
    if x.size == 0:
        return []
    batch, n, columns = x.shape
    return [
        *copy(target, x, b),
        _SUBSTITUTE.launch(
            {"ctype": x.dtype.ctype, "upper": upper, "unit": unit},
            named("batch n columns x a", batch, n, columns, x, a),
            **items(target, batch * columns),
            flops=x.size * n,
            bytes=2 * x.nbytes + a.nbytes,
        ),
    ]


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
            named("batch rows count order pivots", batch, rows, count, order, pivots),
            **items(target, batch),
            flops=0,
            bytes=order.nbytes + pivots.nbytes,
        )
    ]
