"""Complex matrices as products of triangles; numbers are pairs along a last axis of 2."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..kernel import Kernel, by_name
from ..moving import copy, fill
from .householder import group_of

_LU = Kernel("complex_lu", "factor/complex_triangle.mako")


def complex_lu(target: Target, a: Array, pivots: Array, info: Array, x: Array) -> list[Launch]:
    """As :func:`.triangle.lu`, of ``(batch, m, n, 2)``."""
    if x.size == 0:
        return fill(target, info, 0)
    batch, m, n, _ = x.shape
    group = group_of(target)
    return [
        *copy(target, a, x),
        _LU.launch(
            {"ctype": x.dtype.ctype, "group": group},
            by_name("m n a pivots info", m, n, a, pivots, info),
            global_size=(batch * group,),
            local_size=(group,),
            flops=8 * batch * m * n * min(m, n),
            bytes=2 * x.nbytes,
        ),
    ]
