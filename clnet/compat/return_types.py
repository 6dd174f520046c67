"""``torch.return_types``: what ops give several results in; a class may serve several ops."""

# ruff: noqa: A001, A004, N813 - PyTorch's names

from __future__ import annotations

from ..face.further import Histogram as histogram
from ..face.further import MinMax as aminmax
from ..ops.definite import FactorAndInfo as linalg_cholesky_ex
from ..ops.eigen import EigenPairs as linalg_eig
from ..ops.elimination import SignAndLogarithm as linalg_slogdet
from ..ops.leastsquares import LeastSquares as linalg_lstsq
from ..ops.orthogonal import Factors as linalg_qr
from ..ops.reduce import Extremes as max
from ..ops.scan import Extremes as cummax
from ..ops.sort import Ordered as sort
from ..ops.special_functions import Parts as frexp
from ..ops.spectral import Eigen as linalg_eigh
from ..ops.spectral import Singular as linalg_svd
from ..ops.spectral import SingularColumns as svd
from ..ops.triangular import InverseAndInfo as linalg_inv_ex
from ..ops.triangular import Packed as linalg_lu_factor
from ..ops.triangular import ResultAndInfo as linalg_solve_ex
from ..ops.triangular import TriangularFactors as linalg_lu

__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "frexp",
    "histogram",
    "kthvalue",
    "linalg_cholesky_ex",
    "linalg_eig",
    "linalg_eigh",
    "linalg_inv_ex",
    "linalg_lstsq",
    "linalg_lu",
    "linalg_lu_factor",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_solve_ex",
    "linalg_svd",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "qr",
    "slogdet",
    "sort",
    "svd",
    "topk",
]

min, cummin, qr, slogdet = max, cummax, linalg_qr, linalg_slogdet
kthvalue = median = mode = nanmedian = topk = sort
