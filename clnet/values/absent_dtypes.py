"""PyTorch's dtypes that clnet does not have, by name: programs list and compare them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..errors import DtypeError
from .words import Named

__all__ = ["DTYPES", "AbsentDType"]


class AbsentDType(Named):
    """A dtype that no tensor has; where one is asked for it is refused as no dtype.

    Attributes:
        name: PyTorch's.
        itemsize: of an element, in bytes.
        is_floating_point: whether it would hold fractions.
        is_complex: whether it would hold complex numbers.
    """

    # No dataclass: packages that walk through containers walk into those.
    def __init__(
        self, name: str, itemsize: int, *, is_floating_point: bool = False, is_complex: bool = False
    ) -> None:
        self.name = name
        self.itemsize = itemsize
        self.is_floating_point = is_floating_point
        self.is_complex = is_complex

    def __reduce__(self) -> tuple[object, ...]:
        return (_named, (self.name,))

    @property
    def real(self) -> AbsentDType:
        """The dtype itself."""
        return self

    @property
    def numpy(self) -> np.dtype:
        """NumPy's, or that of ml_dtypes, whose limits it has.

        Raises:
            DtypeError: if neither has one.
        """
        if not self.name.startswith(("uint", "float8")):
            raise DtypeError("dtype", "its limits are known", dtype=self.name)
        return np.dtype(getattr(ml_dtypes, self.name, self.name))

    @property
    def is_signed(self) -> bool:
        """Whether there would be numbers below 0."""
        return not self.name.startswith(("uint", "quint"))


def _named(name: str) -> AbsentDType:
    return DTYPES[name]


_EIGHT = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
DTYPES = {
    dtype.name: dtype
    for dtype in (
        *(AbsentDType(f"uint{8 * size}", size) for size in (2, 4, 8)),
        *(AbsentDType(f"float8_{layout}", 1, is_floating_point=True) for layout in _EIGHT),
        AbsentDType("float4_e2m1fn_x2", 1, is_floating_point=True),
        AbsentDType("complex32", 4, is_complex=True),
        *(AbsentDType(name, 1) for name in ("qint8", "quint8", "quint4x2", "quint2x4")),
        AbsentDType("qint32", 4),
    )
}
"""All of them, by name."""
