"""What the host reads of a tensor: arrays, Python's numbers and lists. All of it waits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from .array import Array
from .device import users_line
from .errors import ArgumentError, DtypeError, GradientError, ShapeError, TraceError
from .values import mode
from .values.arguments import shown
from .values.dtypes import DType
from .values.foreign import host_as

Number = bool | int | float | complex


class OnHost:
    """Methods of :class:`~clnet.Tensor` that wait for its elements.

    Raises:
        TraceError: each of them, inside a function that :func:`clnet.compile` traces: there are no
            elements yet.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """A copy on the host; waits for the device.

        Args:
            force: also of a tensor that requires a gradient.

        Raises:
            GradientError: if it requires a gradient, and gradients are recorded.
        """
        if not force and self.requires_grad and mode.current().grad:
            law = "a tensor that requires a gradient leaves the tape"
            raise GradientError("numpy", law, remedy="Use x.detach().numpy()")
        return self._read("numpy").numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001 - NumPy's protocol
        if copy is False:
            raise ArgumentError(
                "asarray", "reading a tensor copies", remedy="Use tensor.map() for a view"
            )
        host = self._read("asarray").numpy()
        dtype = dtype.numpy if isinstance(dtype, DType) else dtype
        return host if dtype is None else host_as(host, dtype)

    def map(self) -> AbstractContextManager[np.ndarray]:
        """The elements on the host, read-only, without a copy where memory is shared.

        Returns:
            A context manager; the array it gives is valid inside the ``with`` block alone.
        """
        return self._read("map").map()

    def item(self) -> Any:
        """The only element, as a Python number of the dtype's kind; waits for the device.

        Raises:
            ShapeError: if there are more or fewer.
        """
        return self._element("item")

    def _element(self, name: str) -> Number:
        """The only element; errors call the op by a name."""
        if self.array.size != 1:
            raise ShapeError(name, "the tensor has one element", shape=self.shape)
        return self._read(name).numpy().reshape(()).item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._read("tolist").numpy().tolist()

    def __float__(self) -> float:
        return float(self._real("float"))

    def __int__(self) -> int:
        return int(self._real("int"))

    def __complex__(self) -> complex:
        return complex(self._element("complex"))

    def _real(self, name: str) -> Any:
        """The only element, a real number (or a complex one whose imaginary part is 0)."""
        found = self._element(name)
        if isinstance(found, complex):
            if found.imag:
                law, hint = "the number is real", "Take x.real or x.abs()"
                raise DtypeError(name, law, value=found, remedy=hint)
            return found.real
        return found

    def __bool__(self) -> bool:
        tracer = mode.current().tracer
        if tracer is not None and self.array.size == 1:
            known = tracer.truth(self.array)
            if known is not None:
                return known
        return bool(self._element("bool"))

    def __index__(self) -> int:
        if self.dtype.differentiable:
            raise DtypeError("index", "an index is an integer", dtype=self.dtype)
        return int(self._real("index"))

    def __format__(self, spec: str) -> str:
        if not isinstance(spec, str):
            raise DtypeError("format", "a specification is a string", spec=shown(spec))
        known = mode.current().tracer is None and self.device.type != "meta"
        number = self.ndim == 0 and (spec or known)
        try:
            return format(self.item() if number else str(self), spec)
        except ValueError as error:
            law = "the specification is one for numbers, of a tensor with axes one for text"
            raise ArgumentError("format", law, spec=repr(spec), shape=self.shape) from error

    def _read(self, op_name: str) -> Array:
        if mode.current().tracer is not None:
            raise TraceError(
                op_name,
                "a value is read on the host inside a function that clnet.compile traces",
                shape=self.shape,
                line=users_line(),
                remedy="Return the tensor and read it outside; choose elements by clnet.where",
            )
        return self.array
