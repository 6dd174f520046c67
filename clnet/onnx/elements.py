"""ONNX's element types, and values on their way between host and device.

A value of a model is a `Tensor` on the device; a NumPy array on the host, where it is a shape, an
axis, a text or another thing that says how to compute and is not computed with; a `Carried` tensor;
a list (a sequence); or None (an optional without its element).

Types that no kernel knows are carried: a wider tensor holds their values exactly, and the results
of ops are brought back into their range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .. import ops
from ..creation import as_tensor
from ..errors import OnnxError
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType, float32, from_numpy, int8, int32, int64

__all__ = [
    "Carried",
    "Element",
    "Known",
    "by_name",
    "by_number",
    "by_numpy",
    "to_device",
    "to_host",
]


@dataclass(frozen=True)
class Element:
    """One of ONNX's element types.

    Attributes:
        number: in ``TensorProto.DataType``.
        name: ONNX's name in lower case.
        numpy: the NumPy dtype of it.
        dtype: clnet's; of a carried type that of the tensor that holds its values.
        carried: whether no dtype of clnet is this type.
    """

    number: int
    name: str
    numpy: np.dtype
    dtype: DType | None
    carried: bool = False

    @property
    def is_small_float(self) -> bool:
        """Whether it is a floating type of 8 bits or fewer."""
        return self.name.startswith(("float8", "float6e", "float4e"))

    def wrapped(self, x: Tensor) -> Tensor:
        """Integers modulo the type's range, as overflow leaves them."""
        bits = {"uint16": 16, "uint32": 32, "uint4": 4, "uint2": 2}.get(self.name)
        if bits is not None:
            return ops.bitwise_and(x, (1 << bits) - 1)
        half = {"int4": 8, "int2": 2}.get(self.name)
        if half is not None:
            return ops.sub(ops.bitwise_and(ops.add(x, half), 2 * half - 1), half)
        return x


@dataclass(frozen=True)
class Carried:
    """A tensor that holds the values of a type that clnet does not have."""

    tensor: Tensor
    element: Element


class Laid:
    """A tensor of the model that lies in another order; :mod:`.images` has the one kind."""

    def plain(self) -> Tensor:
        """It as the model has it."""
        raise NotImplementedError


class Known:
    """A constant: host data, brought to a device when it is first asked for there.

    Args:
        array: its data.
    """

    _LONGEST_SHAPE = 4096

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._there: dict[str, Tensor | Carried | np.ndarray] = {}

    @property
    def is_host(self) -> bool:
        """Whether it may be a shape: numbers with one axis at most, and few of them."""
        few = self.array.ndim <= 1 and self.array.size <= self._LONGEST_SHAPE
        return few and self.array.dtype.kind in "biuf"

    def on(self, device: Any) -> Tensor | Carried | np.ndarray:
        """It on a device."""
        key = str(device)
        if key not in self._there:
            # Also while a call is traced: every later one has it from here.
            with mode.using(tracer=None):
                self._there[key] = to_device(self.array, device)
        return self._there[key]


def _elements() -> list[Element]:
    native = {
        1: "float32",
        2: "uint8",
        3: "int8",
        5: "int16",
        6: "int32",
        7: "int64",
        9: "bool",
        10: "float16",
        11: "float64",
        14: "complex64",
        15: "complex128",
    }
    found = [Element(k, n, np.dtype(n), from_numpy(np.dtype(n))) for k, n in native.items()]
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    found.append(Element(16, "bfloat16", bfloat16, from_numpy(bfloat16)))
    found.append(Element(8, "string", np.dtype(object), None))
    wider = {4: ("uint16", int32), 12: ("uint32", int64), 13: ("uint64", int64)}
    found += [Element(k, n, np.dtype(n), wide, True) for k, (n, wide) in wider.items()]
    small: dict[int, tuple[str, Any, DType]] = {
        17: ("float8e4m3fn", ml_dtypes.float8_e4m3fn, float32),
        18: ("float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, float32),
        19: ("float8e5m2", ml_dtypes.float8_e5m2, float32),
        20: ("float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, float32),
        24: ("float8e8m0", ml_dtypes.float8_e8m0fnu, float32),
        23: ("float4e2m1", ml_dtypes.float4_e2m1fn, float32),
        27: ("float6e2m3", ml_dtypes.float6_e2m3fn, float32),
        28: ("float6e3m2", ml_dtypes.float6_e3m2fn, float32),
        21: ("uint4", ml_dtypes.uint4, int8),
        22: ("int4", ml_dtypes.int4, int8),
        25: ("uint2", ml_dtypes.uint2, int8),
        26: ("int2", ml_dtypes.int2, int8),
    }
    found += [Element(k, n, np.dtype(t), wide, True) for k, (n, t, wide) in small.items()]
    return found


_ELEMENTS = _elements()
_BY_NUMBER = {e.number: e for e in _ELEMENTS}
_BY_NUMPY = {e.numpy: e for e in _ELEMENTS}
_BY_NAME = {e.name: e for e in _ELEMENTS}


def by_number(number: int) -> Element:
    """The element type of a number in ``TensorProto.DataType``.

    Raises:
        OnnxError: if there is none.
    """
    if number not in _BY_NUMBER:
        raise OnnxError("onnx", "an element type is one that ONNX numbers", number=number)
    return _BY_NUMBER[number]


def by_name(name: str) -> Element:
    """The element type of an ONNX name in lower case."""
    return _BY_NAME[name]


def by_numpy(dtype: np.dtype) -> Element:
    """The element type of a NumPy dtype.

    Raises:
        OnnxError: if there is none.
    """
    if dtype.kind in "OUST":
        return _BY_NAME["string"]
    plain = dtype.newbyteorder("=")
    if plain not in _BY_NUMPY:
        raise OnnxError("onnx", "an array has one of ONNX's element types", dtype=dtype)
    return _BY_NUMPY[plain]


def to_device(array: np.ndarray, device: Any = None) -> Tensor | Carried | np.ndarray:
    """A host array on the device; texts stay where they are.

    Raises:
        OnnxError: if unsigned numbers of 64 bits reach beyond those of int64.
    """
    element = by_numpy(array.dtype)
    if element.dtype is None:
        return array
    if not element.carried:
        return as_tensor(np.ascontiguousarray(array).reshape(array.shape), device=device)
    if element.name == "uint64" and (array > np.iinfo(np.int64).max).any():
        raise OnnxError("onnx", "unsigned numbers of 64 bits stay below 2^63")
    wide = as_tensor(array.astype(element.dtype.numpy), device=device)
    return Carried(wide, element)


def to_host(value: Any) -> Any:
    """A value as NumPy arrays: a tensor's, a carried one's in its own type, those of a list."""
    if isinstance(value, Laid):
        value = value.plain()
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, Carried):
        host = value.tensor.detach().numpy()
        return (
            host.view(np.uint64)
            if value.element.name == "uint64"
            else host.astype(value.element.numpy)
        )
    if isinstance(value, Known):
        return value.array
    if isinstance(value, list):
        return [to_host(part) for part in value]
    return value
