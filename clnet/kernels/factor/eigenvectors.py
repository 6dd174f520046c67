"""Eigenvectors of matrices that need not be symmetric."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ..grid import items
from ..kernel import Kernel, by_name
from .spectrum import real_of

_VECTORS = Kernel("eigenvectors", "factor/eigenvectors.mako")


def eigenvectors(target: Target, v: Array, h: Array, q: Array, values: Array) -> list[Launch]:
    """The eigenvectors of ``q @ h @ q.T``.

    Args:
        target: what to choose the kernels for.
        v: ``(batch, n, n, 2)``, dense: real and imaginary parts; columns of length 1.
        h: ``(batch, n, n)``, dense and quasi-triangular, as ``schur`` leaves it.
        q: the shape of ``h``, dense: the basis.
        values: ``(batch, n, 2)``, dense: what ``schur`` found in ``h``.
    """
    batch, n, _ = h.shape
    x = Array.scratch(Scratch.beside(h.storage, q.storage), v.shape, v.dtype)
    return [
        _VECTORS.launch(
            real_of(h),
            by_name("batch n v x h q values", batch, n, v, x, h, q, values),
            **items(target, batch * n),
            flops=batch * n**3 * 6,
            bytes=4 * h.nbytes,
        )
    ]
