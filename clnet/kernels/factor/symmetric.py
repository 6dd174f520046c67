"""Symmetric matrices that need not be definite, as ``L D L.T``."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..grid import items
from ..kernel import Kernel, by_name
from ..moving import copy, fill
from .householder import group_of

_LDL = Kernel("ldl", "factor/symmetric.mako")
_SUBSTITUTE = Kernel("ldl_substitute", "factor/symmetric.mako")


def ldl(target: Target, a: Array, pivots: Array, info: Array, x: Array) -> list[Launch]:
    """``x``, symmetric with exchanged rows, as a triangle and blocks of one or two rows.

    Args:
        target: what to choose the kernels for.
        a: ``(batch, n, n)``, dense, with zeros above the diagonal.
        pivots: ``(batch, n)``, dense int32, as LAPACK's ``sytrf`` gives them.
        info: ``(batch,)``, dense int32: the first block, from 1, that is 0; 0 if none is.
        x: the shape of ``a``, both triangles.
    """
    if x.size == 0:
        return fill(target, info, 0)
    batch, n, _ = x.shape
    group = group_of(target)
    return [
        *copy(target, a, x),
        _LDL.launch(
            {"ctype": x.dtype.ctype, "group": group},
            by_name("n a pivots info", n, a, pivots, info),
            global_size=(batch * group,),
            local_size=(group,),
            flops=batch * n**3,
            bytes=2 * x.nbytes,
        ),
    ]


def ldl_substitute(target: Target, x: Array, a: Array, pivots: Array, b: Array) -> list[Launch]:
    """The solutions of systems whose matrices :func:`ldl` factored.

    Args:
        target: what to choose the kernels for.
        x: ``(batch, n, columns)``, dense.
        a: ``(batch, n, n)``, dense.
        pivots: ``(batch, n)``, dense int32.
        b: the shape of ``x``.
    """
    if x.size == 0:
        return []
    batch, n, columns = x.shape
    return [
        *copy(target, x, b),
        _SUBSTITUTE.launch(
            {"ctype": x.dtype.ctype},
            by_name("batch n columns x a pivots", batch, n, columns, x, a, pivots),
            **items(target, batch * columns),
            flops=2 * x.size * n,
            bytes=2 * x.nbytes + a.nbytes,
        ),
    ]
