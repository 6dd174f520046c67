"""``clnet.linalg``: norms and products, in PyTorch's names; exported by their own declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import LinAlgError as LinAlgError
from .ops.machinery.function import PUBLIC_OPS, Face

if TYPE_CHECKING:  # what editors and type checkers see; at run time only the names below
    from .ops.factor import cholesky as cholesky
    from .ops.factor import det as det
    from .ops.factor import inv as inv
    from .ops.factor import linalg_cross as cross  # noqa: F401 # pyright: ignore[reportUnusedImport]
    from .ops.factor import matrix_power as matrix_power
    from .ops.factor import multi_dot as multi_dot
    from .ops.factor import qr as qr
    from .ops.factor import slogdet as slogdet
    from .ops.factor import solve as solve
    from .ops.factor import vecdot as vecdot
    from .ops.matmul import matmul as matmul
    from .ops.vector import linalg_norm as norm  # noqa: F401 # pyright: ignore[reportUnusedImport] - the alias is what is exported
    from .ops.vector import matrix_norm as matrix_norm
    from .ops.vector import vector_norm as vector_norm

globals().update(
    {n.removeprefix("linalg."): f for n, (f, face) in PUBLIC_OPS.items() if Face.LINALG in face}
)
