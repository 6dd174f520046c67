"""``torch.return_types``: the tuples with names that functions give, by PyTorch's names.

A class makes an object of a sequence, as PyTorch's do. One class stands for both names of
``slogdet``, which is one function here.
"""

from __future__ import annotations

from typing import Any

from ..face.further import MinMax
from ..face.histogram import Histogram, HistogramOfPoints
from ..ops.definite import FactorAndInfo
from ..ops.eigen import EigenPairs
from ..ops.elimination import SignAndLogarithm
from ..ops.indefinite import SymmetricFactors, SymmetricFactorsAndInfo
from ..ops.leastsquares import LeastSquares
from ..ops.orthogonal import Factors, Reflections
from ..ops.reduce import Extremes
from ..ops.scan import Extremes as ExtremesSoFar
from ..ops.sort import Ordered
from ..ops.special_functions import Parts
from ..ops.spectral import Eigen, Singular, SingularColumns
from ..ops.triangular import (
    InverseAndInfo,
    Packed,
    PackedAndInfo,
    ResultAndInfo,
    SolvedSystem,
    TriangularFactors,
)
from ..values.returned import returned

__all__: list[str] = []

_RECORDS: dict[str, Any] = {
    **dict.fromkeys(("max", "min"), Extremes),
    **dict.fromkeys(("cummax", "cummin"), ExtremesSoFar),
    **dict.fromkeys(("sort", "topk", "median", "nanmedian", "mode", "kthvalue"), Ordered),
    "aminmax": MinMax,
    "histogram": Histogram,
    "frexp": Parts,
    "histogramdd": HistogramOfPoints,
    "linalg_slogdet": SignAndLogarithm,
    "geqrf": Reflections,
    **dict.fromkeys(("qr", "linalg_qr"), Factors),
    "linalg_eig": EigenPairs,
    "linalg_eigh": Eigen,
    "linalg_svd": Singular,
    "svd": SingularColumns,
    "linalg_cholesky_ex": FactorAndInfo,
    "linalg_inv_ex": InverseAndInfo,
    **dict.fromkeys(("linalg_lu", "lu_unpack"), TriangularFactors),
    "linalg_lu_factor_ex": PackedAndInfo,
    "linalg_ldl_factor": SymmetricFactors,
    "linalg_ldl_factor_ex": SymmetricFactorsAndInfo,
    "triangular_solve": SolvedSystem,
    "linalg_lu_factor": Packed,
    "linalg_solve_ex": ResultAndInfo,
    "linalg_lstsq": LeastSquares,
}
all_return_types = [returned(name, _RECORDS[name]) for name in sorted(_RECORDS)]
globals().update({c.__name__: c for c in all_return_types})
slogdet = returned("linalg_slogdet", SignAndLogarithm)
