"""Eigenvalues of matrices that need not be symmetric, and their vectors."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ..grid import items
from ..kernel import Kernel, by_name
from ..moving import copy
from .eigenvectors import eigenvectors
from .householder import group_of
from .spectrum import real_of

_HESSENBERG = Kernel("hessenberg", "factor/schur.mako")
_SCHUR = Kernel("schur", "factor/schur.mako")


def general_eigen(target: Target, values: Array, vectors: Array | None, x: Array) -> list[Launch]:
    """Eigenvalues in the order in which they stand on the diagonal of a Schur form.

    Args:
        target: what to choose the kernels for.
        values: ``(batch, n, 2)``, dense: real and imaginary parts.
        vectors: ``(batch, n, n, 2)``, dense: its columns have length 1; None: not wanted.
        x: ``(batch, n, n)``, with elements of at most a few.
    """
    if x.size == 0:
        return []
    batch, n, _ = x.shape
    group, real, wanted = group_of(target), real_of(x), vectors is not None
    memory = Scratch(x.device)
    h = Array.scratch(memory, x.shape, x.dtype)
    w = Array.scratch(memory, (batch, n), x.dtype)
    q = Array.scratch(memory, x.shape, x.dtype) if wanted else None
    launches = [
        *copy(target, h, x),
        _HESSENBERG.launch(
            {"ctype": real["ctype"], "group": group, "vectors": wanted},
            by_name("n h w q", n, h, w, q),
            global_size=(batch * group,),
            local_size=(group,),
            flops=batch * n**3 * 10 // 3,
            bytes=2 * x.nbytes,
        ),
        _SCHUR.launch(
            {**real, "vectors": wanted},
            by_name("batch n h values q", batch, n, h, values, q),
            **items(target, batch),
            flops=batch * n**3 * (20 if wanted else 10),
            bytes=2 * x.nbytes,
        ),
    ]
    if vectors is None or q is None:
        return launches
    return launches + eigenvectors(target, vectors, h, q, values)
