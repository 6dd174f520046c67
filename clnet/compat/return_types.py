"""``torch.return_types``: the tuples with names that functions give, by PyTorch's names.

A class here knows results as instances, and makes one of a sequence, as PyTorch's do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..face.further import MinMax
from ..face.histogram import Histogram
from ..ops.definite import FactorAndInfo
from ..ops.eigen import EigenPairs
from ..ops.elimination import SignAndLogarithm
from ..ops.leastsquares import LeastSquares
from ..ops.orthogonal import Factors
from ..ops.reduce import Extremes
from ..ops.scan import Extremes as ExtremesSoFar
from ..ops.sort import Ordered
from ..ops.special_functions import Parts
from ..ops.spectral import Eigen, Singular, SingularColumns
from ..ops.triangular import InverseAndInfo, Packed, ResultAndInfo, TriangularFactors

__all__: list[str] = []


class _OfSequence(type):
    """Classes made of one sequence, whose instances are also those of what they are made from."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or type(instance) in cls.__bases__


def _declared(name: str, record: Any) -> type:
    def made(cls: Any, sequence: Iterable[Any], dict: Any = None) -> Any:  # noqa: A002 - PyTorch's
        return tuple.__new__(cls, tuple(sequence))

    body = {
        "__new__": made,
        "__getnewargs__": lambda self: (tuple(self),),
        "__doc__": f"What ``torch.{name.replace('linalg_', 'linalg.')}`` gives, of a sequence.",
        "__module__": __name__,
        "n_fields": len(record._fields),
        "n_sequence_fields": len(record._fields),
    }
    return _OfSequence(name, (record,), body)


_RECORDS: dict[str, Any] = {
    **dict.fromkeys(("max", "min"), Extremes),
    **dict.fromkeys(("cummax", "cummin"), ExtremesSoFar),
    **dict.fromkeys(("sort", "topk", "median", "nanmedian", "mode", "kthvalue"), Ordered),
    "aminmax": MinMax,
    "histogram": Histogram,
    "frexp": Parts,
    **dict.fromkeys(("slogdet", "linalg_slogdet"), SignAndLogarithm),
    **dict.fromkeys(("qr", "linalg_qr"), Factors),
    "linalg_eig": EigenPairs,
    "linalg_eigh": Eigen,
    "linalg_svd": Singular,
    "svd": SingularColumns,
    "linalg_cholesky_ex": FactorAndInfo,
    "linalg_inv_ex": InverseAndInfo,
    "linalg_lu": TriangularFactors,
    "linalg_lu_factor": Packed,
    "linalg_solve_ex": ResultAndInfo,
    "linalg_lstsq": LeastSquares,
}
globals().update({name: _declared(name, record) for name, record in _RECORDS.items()})
all_return_types = [globals()[name] for name in _RECORDS]
