"""The element types and PyTorch's promotion rules; pure data, no device."""

from __future__ import annotations

from enum import Enum
from numbers import Complex, Integral, Real

import ml_dtypes
import numpy as np

from ..errors import DtypeError
from .words import Named


class Kind(str, Enum):
    """Category of a dtype, by NumPy's letters; promotion takes the higher category first."""

    BOOL = "b"
    INTEGER = "i"
    FLOATING = "f"
    COMPLEX = "c"

    @property
    def height(self) -> int:
        """Its place among them."""
        return "bifc".index(self)

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.height < other.height

    def __le__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.height <= other.height

    def __gt__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.height > other.height

    def __ge__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.height >= other.height


class DType(Named):
    """One element type. Compared by identity: there is one object for each type.

    Attributes:
        name: PyTorch's name, ``"float32"``.
        kind: its category.
        itemsize: bytes of an element in memory.
        ctype: the OpenCL C type it is stored as; a complex number is its real and imaginary part.
        compute: name of the dtype arithmetic on it is done in; of its parts, if it is complex.
        numpy: the NumPy dtype that holds it on the host.
        is_floating_point: whether it is one of the floating types.
        is_complex: whether it is one of the complex types.
        is_signed: whether it holds numbers below 0.
        differentiable: whether gradients flow through tensors of it.
    """

    # No dataclass: packages that walk through containers walk into those.
    __slots__ = (
        *("compute", "ctype", "differentiable", "is_complex", "is_floating_point", "itemsize"),
        *("is_signed", "kind", "name", "numpy"),
    )

    def __init__(
        self, name: str, kind: Kind, itemsize: int, ctype: str, compute: str, numpy: np.dtype
    ) -> None:
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.ctype = ctype
        self.compute = compute
        self.numpy = numpy
        self.is_floating_point = kind is Kind.FLOATING
        self.is_complex = kind is Kind.COMPLEX
        self.is_signed = name not in ("bool", "uint8", "uint16", "uint32", "uint64")
        self.differentiable = self.is_floating_point or self.is_complex

    def __reduce__(self) -> str | tuple[object, ...]:
        return (from_name, (self.name,))

    @property
    def real(self) -> DType:
        """The dtype of a complex type's parts; of others the type itself."""
        return from_name(self.compute) if self.is_complex else self

    @property
    def moved_as(self) -> str:
        """The C type of kernels that only move elements; no device needs half precision for it."""
        return _MOVED_AS.get(self.ctype, self.ctype)

    @property
    def stored(self) -> str:
        """The type in memory as templates name it: of C, or ``"bfloat16"``, unknown to C."""
        return "bfloat16" if self.name == "bfloat16" else self.ctype

    @property
    def eps(self) -> float:
        """Spacing of the floating type, or of the complex type's parts, at 1.0; 0 for others."""
        return float(ml_dtypes.finfo(self.real.numpy).eps) if self.differentiable else 0.0


_MOVED_AS = {"half": "ushort", "float2": "long"}


def _dtype(
    name: str, kind: Kind, ctype: str, compute: str | None = None, numpy: object = None
) -> DType:
    host = np.dtype(name if numpy is None else numpy)  # pyrefly: ignore[no-matching-overload] - any spelling NumPy takes
    return DType(name, kind, host.itemsize, ctype, compute or name, host)


bool_ = _dtype("bool", Kind.BOOL, "uchar", numpy=np.bool_)
uint8 = _dtype("uint8", Kind.INTEGER, "uchar")
int8 = _dtype("int8", Kind.INTEGER, "char")
int16 = _dtype("int16", Kind.INTEGER, "short")
int32 = _dtype("int32", Kind.INTEGER, "int")
int64 = _dtype("int64", Kind.INTEGER, "long")
float16 = _dtype("float16", Kind.FLOATING, "half", compute="float32")
bfloat16 = _dtype("bfloat16", Kind.FLOATING, "ushort", compute="float32", numpy=ml_dtypes.bfloat16)
float32 = _dtype("float32", Kind.FLOATING, "float")
float64 = _dtype("float64", Kind.FLOATING, "double")
complex64 = _dtype("complex64", Kind.COMPLEX, "float2", compute="float32")
complex128 = _dtype("complex128", Kind.COMPLEX, "double2", compute="float64")

REAL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
ALL = (*REAL, complex64, complex128)
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}


def from_name(name: str) -> DType:
    """The dtype of a PyTorch name.

    Raises:
        DtypeError: if there is none.
    """
    if name not in _BY_NAME:
        raise DtypeError(
            "dtype", "has no such name", name=repr(name), remedy=f"Use one of {', '.join(_BY_NAME)}"
        )
    return _BY_NAME[name]


def from_numpy(dtype: np.dtype) -> DType:
    """The dtype that holds a NumPy dtype's values exactly.

    Raises:
        DtypeError: if clnet has none (strings, unsigned of 16 bits and more ...).
    """
    found = _BY_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise DtypeError(
            "dtype",
            "NumPy's dtype has no counterpart",
            dtype=dtype,
            remedy=f"convert it to one of {', '.join(_BY_NAME)}",
        )
    return found


_BY_TYPE = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(spelling: object) -> DType:
    """A dtype, however it is spelt: clnet's, NumPy's, or Python's ``int``, ``float`` ...

    Raises:
        DtypeError: if there is none of that spelling.
    """
    if isinstance(spelling, DType):
        return spelling
    if isinstance(spelling, type) and spelling in _BY_TYPE:
        return _BY_TYPE[spelling]
    is_numpys = isinstance(spelling, type) and issubclass(spelling, np.generic)
    if is_numpys or isinstance(spelling, np.dtype):
        try:
            return from_numpy(np.dtype(spelling))
        except TypeError:
            pass
    raise DtypeError(
        "dtype",
        "it is a dtype",
        type=type(spelling).__name__,
        remedy=f"One of {', '.join(f'clnet.{name}' for name in _BY_NAME)}",
    )


def promote(a: DType, b: DType) -> DType:
    """The dtype an op on ``a`` and ``b`` (both with dimensions) gives, by PyTorch's table."""
    if a is b:
        return a
    if a.kind is not b.kind:
        higher, lower = (a, b) if a.kind > b.kind else (b, a)
        return complex128 if higher.is_complex and lower is float64 else higher
    if a.kind is Kind.INTEGER and uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    if a.itemsize == b.itemsize:  # float16 with bfloat16
        return float32
    return a if a.itemsize > b.itemsize else b


_defaults = [float32, complex64]
"""What Python's floats and complex numbers become; PyTorch's is one for the process, too."""


def default_float() -> DType:
    """The dtype of floats for which none is given: float32, unless a program chose another."""
    return _defaults[0]


def default_complex() -> DType:
    """The dtype of complex numbers for which none is given."""
    return _defaults[1]


def choose_default_float(dtype: DType) -> None:
    """Make a floating dtype that of floats for which none is given."""
    _defaults[:] = dtype, complex128 if dtype is float64 else complex64


def of_scalar(value: complex) -> DType:
    """PyTorch's default dtype of a Python number (or NumPy scalar).

    Raises:
        DtypeError: if ``value`` is not a bool or a number.
    """
    if isinstance(value, bool | np.bool_):
        return bool_
    if isinstance(value, Integral):
        return int64
    if isinstance(value, Real):
        return default_float()
    if isinstance(value, Complex):
        return default_complex()
    raise DtypeError("dtype", "a scalar is a bool or a number", type=type(value).__name__)


def of_levels(strong: DType, weak: DType) -> DType:
    """The dtype of an op on operands of which the second only raises the category.

    Args:
        strong: of tensors with axes; or of those without, beside numbers.
        weak: of tensors without axes, or of numbers.
    """
    if strong.kind >= weak.kind:
        return strong
    if weak.is_complex and strong.is_floating_point:  # parts are the strong operand's
        return complex128 if strong is float64 else complex64
    return weak
