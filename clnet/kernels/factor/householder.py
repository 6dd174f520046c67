"""QR by Householder's reflections, kept as LAPACK keeps them, and their products with a matrix."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..grid import in_groups, items, lanes_of
from ..kernel import Kernel, by_name
from ..moving import copy

_GPU_GROUP = 128

_HOUSEHOLDER = Kernel("householder", "factor/householder.mako")
_REFLECT = Kernel("reflect", "factor/householder.mako")


def group_of(target: Target) -> int:
    """Work-items that share a matrix: one on a CPU, whose vectors do the rest."""
    return min(_GPU_GROUP, target.traits.max_group_size) if in_groups(target.traits) else 1


def lanes_across(target: Target, x: Array, columns: int) -> int:
    """Columns that an item takes at once: on CPUs a vector, if there are so many."""
    lanes = lanes_of(target, x.dtype.itemsize)
    return 1 if in_groups(target.traits) or columns < lanes else lanes


def items_across(target: Target, jobs: int, lanes: int) -> dict[str, Any]:
    """Sizes for so many items; those that take vectors are groups of their own."""
    return items(target, jobs) if lanes == 1 else {"global_size": (jobs,), "local_size": (1,)}


def householder(target: Target, a: Array, tau: Array, x: Array) -> list[Launch]:
    """``x`` as reflections and a triangle.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, m, n)``, dense: the triangle, and below it the reflections but for their first
            elements, which are 1.
        tau: ``(batch, min(m, n))``, dense: the reflections' factors.
        x: the shape of ``a``.
    """
    return factored(_HOUSEHOLDER, target, a, tau, x, flops=4)


def factored(
    kernel: Kernel, target: Target, a: Array, tau: Array, x: Array, *, flops: int
) -> list[Launch]:
    """As :func:`householder`, by a kernel that takes so many flops for a number and a reflection.

    Complex numbers lie as pairs along a last axis.
    """
    if x.size == 0:
        return []
    batch, m, n, *pair = x.shape
    group = group_of(target)
    w = Array.scratch(Scratch(x.device), (batch, n, *pair), x.dtype)
    return [
        *copy(target, a, x),
        kernel.launch(
            {"ctype": x.dtype.ctype, "group": group},
            by_name("m n a tau w", m, n, a, tau, w),
            global_size=(batch * group,),
            local_size=(group,),
            flops=flops * batch * m * n * min(m, n),
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
    lanes = lanes_across(target, y, y.shape[2])
    return reflected(_REFLECT, target, y, a, tau, c, turned=turned, flops=4, lanes=lanes)


def reflected(
    kernel: Kernel,
    target: Target,
    y: Array,
    a: Array,
    tau: Array,
    c: Array,
    *,
    turned: bool,
    flops: int,
    lanes: int = 0,
) -> list[Launch]:
    """As :func:`reflect`, by a kernel that takes so many flops for an element and a reflection.

    Complex numbers lie as pairs along a last axis. ``lanes`` columns are an item's, or one, of a
    kernel that has no such parameter.
    """
    if y.size == 0:
        return []
    batch, m, p = y.shape[:3]
    n, count = a.shape[2], tau.shape[1]
    launches = copy(target, y, c)
    if count == 0:
        return launches
    return [
        *launches,
        kernel.launch(
            {"ctype": y.dtype.ctype, "turned": turned, **({"lanes": lanes} if lanes else {})},
            by_name("batch m n p count c a tau", batch, m, n, p, count, y, a, tau),
            **items_across(target, batch * ceil_div(p, lanes or 1), lanes or 1),
            flops=flops * y.size * count,
            bytes=2 * y.nbytes + a.nbytes,
        ),
    ]
