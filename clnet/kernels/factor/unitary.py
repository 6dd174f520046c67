"""Complex matrices reflected into simpler ones; numbers are pairs along a last axis of 2."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ..kernel import Kernel, by_name
from ..moving import copy
from .householder import factored, group_of, reflected

_UNITARY = Kernel("unitary", "factor/unitary.mako")
_REFLECT = Kernel("unitary_reflect", "factor/unitary.mako")
_FORM = Kernel("unitary_form", "factor/unitary.mako")


def unitary(target: Target, a: Array, tau: Array, x: Array) -> list[Launch]:
    """As :func:`.householder.householder`, of ``(batch, m, n, 2)``; R's diagonal is real."""
    return factored(_UNITARY, target, a, tau, x, flops=16)


def unitary_reflect(
    target: Target, y: Array, a: Array, tau: Array, c: Array, *, turned: bool
) -> list[Launch]:
    """As :func:`.householder.reflect`, of pairs; the conjugate transpose is the turned product."""
    return reflected(_REFLECT, target, y, a, tau, c, turned=turned, flops=8)


def unitary_form(target: Target, a: Array, q: Array, p: Array | None, x: Array) -> list[Launch]:
    """``x = q @ a @ p.mH``, bidiagonal; or without ``p`` Hessenberg's form, ``q @ a @ q.mH``.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, n, n, 2)``, dense; numbers on the diagonal and beside it of a bidiagonal
            matrix, and those below that of the other, are real.
        q: the shape of ``a``, dense and unitary.
        p: the same; None: the same reflections stand on both sides.
        x: the shape of ``a``.
    """
    if x.size == 0:
        return []
    batch, n, _, _ = x.shape
    group = group_of(target)
    w = Array.scratch(Scratch.beside(a.storage, q.storage), (batch, n, 2), x.dtype)
    return [
        *copy(target, a, x),
        _FORM.launch(
            {"ctype": x.dtype.ctype, "group": group, "both": p is not None},
            by_name("n a q p w", n, a, q, p, w),
            global_size=(batch * group,),
            local_size=(group,),
            flops=batch * n**3 * 20,
            bytes=2 * x.nbytes,
        ),
    ]
