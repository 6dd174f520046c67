"""Eigenvalues of complex matrices, whose numbers are pairs along a last axis of 2."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ..grid import items
from ..kernel import Kernel, by_name
from .spectrum import real_of
from .unitary import unitary_form

_SCHUR = Kernel("complex_schur", "factor/complex_schur.mako")
_VECTORS = Kernel("complex_vectors", "factor/complex_schur.mako")


def complex_eigen(target: Target, values: Array, vectors: Array | None, x: Array) -> list[Launch]:
    """Eigenvalues in the order in which they stand on the diagonal of a Schur form.

    Args:
        target: what to choose the kernels for.
        values: ``(batch, n, 2)``, dense.
        vectors: ``(batch, n, n, 2)``, dense: its columns have length 1; None: not wanted.
        x: ``(batch, n, n, 2)``, with elements of at most a few.
    """
    if x.size == 0:
        return []
    batch, n, _, _ = x.shape
    memory, wanted = Scratch(x.device), vectors is not None
    h, q = (Array.scratch(memory, x.shape, x.dtype) for _ in range(2))
    launches = [
        *unitary_form(target, h, q, None, x),
        _SCHUR.launch(
            {**real_of(x), "vectors": wanted},
            by_name("batch n h values q", batch, n, h, values, q if wanted else None),
            **items(target, batch),
            flops=batch * n**3 * 80,
            bytes=2 * x.nbytes,
        ),
    ]
    if vectors is None:
        return launches
    work = Array.scratch(memory, x.shape, x.dtype)
    return [
        *launches,
        _VECTORS.launch(
            real_of(x),
            by_name("batch n v x h q", batch, n, vectors, work, h, q),
            **items(target, batch * n),
            flops=batch * n**3 * 12,
            bytes=4 * x.nbytes,
        ),
    ]
