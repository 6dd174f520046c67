"""Eigenvalues of symmetric matrices."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ..kernel import Kernel, by_name
from .householder import group_of

_EIGEN = Kernel("symmetric_eigen", "factor/spectrum.mako")


def symmetric_eigen(
    target: Target, values: Array, vectors: Array | None, x: Array, *, upper: bool = False
) -> list[Launch]:
    """Eigenvalues in ascending order, and their vectors.

    Args:
        target: what to choose the kernels for.
        values: ``(batch, n)``, dense.
        vectors: ``(batch, n, n)``, dense: its columns are orthonormal; None: not wanted.
        x: ``(batch, n, n)``, dense; one triangle counts.
        upper: whether it is the upper one.
    """
    if x.size == 0:
        return []
    batch, n, _ = x.shape
    group = group_of(target)
    memory = Scratch(x.device)
    a = Array.scratch(memory, x.shape, x.dtype)
    e = Array.scratch(memory, (batch, 4, n), x.dtype)
    z = None if vectors is None else Array.scratch(memory, x.shape, x.dtype)
    return [
        _EIGEN.launch(
            {**real_of(x), "group": group, "upper": upper, "vectors": vectors is not None},
            by_name("n x a d e z v", n, x, a, values, e, z, vectors),
            global_size=(batch * group,),
            local_size=(group,),
            flops=batch * n**3 * (2 if vectors is None else 12),
            bytes=2 * x.nbytes,
        ),
    ]


def real_of(x: Array) -> dict[str, Any]:
    """Parameters that say which real numbers a kernel computes in."""
    suffix = "f" if x.dtype.ctype == "float" else ""
    return {"ctype": x.dtype.ctype, "eps": f"{x.dtype.eps!r}{suffix}"}
