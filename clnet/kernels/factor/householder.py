"""QR by Householder's reflections, kept as LAPACK keeps them, and their products with a matrix."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ..grid import in_groups, items
from ..kernel import Kernel, by_name
from ..moving import copy

_GPU_GROUP = 128

_HOUSEHOLDER = Kernel("householder", "factor/householder.mako")
_REFLECT = Kernel("reflect", "factor/householder.mako")


def group_of(target: Target) -> int:
    """Work-items that share a matrix: one on a CPU, whose vectors do the rest."""
    return min(_GPU_GROUP, target.traits.max_group_size) if in_groups(target.traits) else 1


def householder(target: Target, a: Array, tau: Array, x: Array) -> list[Launch]:
    """``x`` as reflections and a triangle.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, m, n)``, dense: the triangle, and below it the reflections but for their first
            elements, which are 1.
        tau: ``(batch, min(m, n))``, dense: the reflections' factors.
        x: the shape of ``a``.
    """
    if x.size == 0:
        return []
    batch, m, n = x.shape
    group = group_of(target)
    w = Array.scratch(Scratch(x.device), (batch, n), x.dtype)
    return [
        *copy(target, a, x),
        _HOUSEHOLDER.launch(
            {"ctype": x.dtype.ctype, "group": group},
            by_name("m n a tau w", m, n, a, tau, w),
            global_size=(batch * group,),
            local_size=(group,),
            flops=4 * batch * m * n * min(m, n),
            bytes=2 * x.nbytes,
        ),
    ]


def reflect(
    target: Target, y: Array, a: Array, tau: Array, c: Array, *, turned: bool
) -> list[Launch]:
    """``y = Q @ c`` for the reflections that :func:`householder` gave, ``Q.T @ c`` if ``turned``.

    Args:
        target: what to choose the kernels for.
        y: ``(batch, m, p)``, dense.
        a: ``(batch, m, n)``, dense.
        tau: ``(batch, count)``, dense, at most ``n`` of them.
        c: the shape of ``y``.
        turned: the transposed product.
    """
    if y.size == 0:
        return []
    (batch, m, p), n, count = y.shape, a.shape[2], tau.shape[1]
    launches = copy(target, y, c)
    if count == 0:
        return launches
    return [
        *launches,
        _REFLECT.launch(
            {"ctype": y.dtype.ctype, "turned": turned},
            by_name("batch m n p count c a tau", batch, m, n, p, count, y, a, tau),
            **items(target, batch * p),
            flops=4 * y.size * count,
            bytes=2 * y.nbytes + a.nbytes,
        ),
    ]
