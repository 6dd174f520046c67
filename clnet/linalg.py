"""``clnet.linalg``: norms, products, factorizations; exported by their own declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import LinAlgError as LinAlgError
from .ops.machinery.function import PUBLIC_OPS, Face
from .values.place import placed

if TYPE_CHECKING:  # what editors and type checkers see; at run time only the names below
    from .ops.chain import multi_dot as multi_dot
    from .ops.contraction import linalg_cross as cross  # noqa: F401
    from .ops.contraction import vecdot as vecdot
    from .ops.definite import cholesky as cholesky
    from .ops.definite import cholesky_ex as cholesky_ex
    from .ops.eigen import eig as eig
    from .ops.eigen import eigvals as eigvals
    from .ops.elimination import det as det
    from .ops.elimination import inv as inv
    from .ops.elimination import matrix_power as matrix_power
    from .ops.elimination import slogdet as slogdet
    from .ops.elimination import solve as solve
    from .ops.indefinite import ldl_factor as ldl_factor
    from .ops.indefinite import ldl_factor_ex as ldl_factor_ex
    from .ops.indefinite import ldl_solve as ldl_solve
    from .ops.leastsquares import linalg_cond as cond  # noqa: F401
    from .ops.leastsquares import linalg_diagonal as diagonal  # noqa: F401
    from .ops.leastsquares import lstsq as lstsq
    from .ops.leastsquares import matrix_exp as matrix_exp
    from .ops.leastsquares import matrix_rank as matrix_rank
    from .ops.leastsquares import pinv as pinv
    from .ops.leastsquares import tensorinv as tensorinv
    from .ops.leastsquares import tensorsolve as tensorsolve
    from .ops.leastsquares import vander as vander
    from .ops.matmul import matmul as matmul
    from .ops.orthogonal import householder_product as householder_product
    from .ops.orthogonal import linalg_qr as qr  # noqa: F401
    from .ops.spectral import eigh as eigh
    from .ops.spectral import eigvalsh as eigvalsh
    from .ops.spectral import linalg_svd as svd  # noqa: F401
    from .ops.spectral import svdvals as svdvals
    from .ops.triangular import inv_ex as inv_ex
    from .ops.triangular import linalg_lu as lu  # noqa: F401
    from .ops.triangular import linalg_lu_factor as lu_factor  # noqa: F401
    from .ops.triangular import linalg_lu_factor_ex as lu_factor_ex  # noqa: F401
    from .ops.triangular import linalg_lu_solve as lu_solve  # noqa: F401
    from .ops.triangular import solve_ex as solve_ex
    from .ops.triangular import solve_triangular as solve_triangular
    from .ops.vector import linalg_norm as norm  # noqa: F401 - the alias is what is exported
    from .ops.vector import matrix_norm as matrix_norm
    from .ops.vector import vector_norm as vector_norm

_OWN = {n: f for n, (f, face) in PUBLIC_OPS.items() if Face.LINALG in face}
globals().update(placed(__name__, {n.removeprefix("linalg."): f for n, f in _OWN.items()}))
