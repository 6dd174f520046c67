"""The memory below tensors as programs ask for it: which it is, and how long; and subclasses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..array import Array
from ..autodiff.data import place_anew
from ..creation import empty
from ..errors import ArgumentError, DtypeError, GradientError
from ..ops.shape import sizes_of
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.arguments import checked
from ..values.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    default_float,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..values.plain import integer
from ..values.shapes import contiguous_strides
from ..values.words import MemoryFormat

__all__ = ["STORAGE_NAMES", "TypedStorage", "UntypedStorage", "place_of", "storage_class"]

TensorT = TypeVar("TensorT", bound=Tensor)


def place_of(x: Tensor) -> int:
    """Where a tensor's memory begins on the host; a number of its own if it is not there.

    0 on the device ``meta``.
    """
    if x.device.type == "meta":
        return 0
    found = x.array.place() if mode.current().tracer is None else None
    return id(x.array.storage) if found is None else found


class UntypedStorage:
    """A tensor's memory, of which views are parts.

    Args:
        given: a tensor that lies in it; or for new memory how many bytes, or which.
        device: of new memory; None: the current one.

    Raises:
        DtypeError: if it is something else.
        ShapeError: if there are fewer than 0.
    """

    _itemsize = 1
    _as: DType | None = uint8

    def __init__(self, given: Any = 0, *, device: Any = None) -> None:
        self._tensor = _memory(type(self).__name__, given, uint8, device)
        self._storage = self._tensor.array.storage

    @property
    def device(self) -> Any:
        """Where it is."""
        return self._storage.device

    def data_ptr(self) -> int:
        """Where it begins, as tensors' ``data_ptr``."""
        return place_of(self._tensor)

    def nbytes(self) -> int:
        """Bytes."""
        return self._storage.nbytes

    def size(self) -> int:
        """Elements: bytes, if it has no type."""
        return self._storage.nbytes // self._itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._itemsize

    def is_shared(self) -> bool:
        """False: memory is not shared between processes."""
        return False

    @staticmethod
    def from_file(
        filename: str | os.PathLike[str],
        shared: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
        nbytes: int = 0,
    ) -> Any:
        """The bytes of a file, read where they are looked at: an array that tensors are made of.

        Args:
            filename: its path.
            shared: False: writing to the file is not done.
            nbytes: how many of them, from the beginning.

        Raises:
            ArgumentError: if ``shared``, or the file has not as many.
        """
        if shared:
            law, remedy = "a file is read, not written", "Leave shared out"
            raise ArgumentError("from_file", law, shared=shared, remedy=remedy)
        if not 0 <= nbytes <= (size := os.path.getsize(filename)):
            law = "the file has as many bytes as are asked for"
            raise ArgumentError("from_file", law, nbytes=nbytes, size=size)
        if not nbytes:  # of which the system maps nothing
            return FileBytes((0,), np.uint8)
        return np.memmap(filename, np.uint8, "c", shape=(nbytes,)).view(FileBytes)

    def __getitem__(self, index: int | slice) -> Any:
        """An element, or those of a slice, of bytes as NumPy's; waits for the device."""
        if isinstance(index, slice):
            return self.elements().numpy()[index].view(FileBytes)
        return self.elements()[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        """Overwrite an element, or those of a slice."""
        self.elements()[index] = value

    def elements(self) -> Tensor:
        """All of them, as a line of numbers in this memory, off the tape."""
        x = self._tensor.detach()
        flat = x.as_strided((self._storage.nbytes // x.dtype.itemsize,), (1,), 0)
        return flat if x.dtype is (self._as or x.dtype) else flat.view(uint8)

    def elements_of(self, dtype: DType | None) -> Tensor:
        """The same memory as a line of elements of a dtype, off the tape; None: the default one."""
        return self.elements().view(dtype or default_float())

    def tolist(self) -> list[Any]:
        """All elements, also those that the tensor does not show; waits for the device."""
        return self.elements().tolist()

    def fill_(self, value: Any) -> Any:
        """Overwrite all elements with a number; gives the storage."""
        self.elements().fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Overwrite all elements with those of a storage of as many; gives this one."""
        self.elements().copy_(source.elements())
        return self

    def clone(self) -> Any:
        """The same elements in memory of their own."""
        return type(self)(self.elements().clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = self.clone()
        return made

    def cpu(self) -> Any:
        """In the memory of the host's processor; itself if it is there."""
        return self if self.device.type == "cpu" else type(self)(self.elements().cpu())

    def to(self, *args: Any, **given: Any) -> Any:
        """Elsewhere, as tensors' ``to``; itself if it is there."""
        now = self.elements()
        made = now.to(*args, **given)
        return self if made is now else type(self)(made)

    is_pinned = is_shared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))


class FileBytes(np.ndarray[Any, Any]):
    """Bytes that a storage is asked for, on the host: an array of ``uint8``."""

    def untyped(self) -> FileBytes:
        """Themselves."""
        return self


class TypedStorage(UntypedStorage):
    """A tensor's memory as elements of its dtype.

    Args:
        given: a tensor that lies in it; or for new memory how many elements, or which.
        wrap_storage: memory that there is, in place of ``given``.
        dtype: of new memory, or as what memory that there is is looked at.
        device: of new memory; None: the current one.

    Raises:
        DtypeError: if ``given`` is something else.
    """

    _own: DType | None = None  # of FloatStorage and the like
    _as = None

    def __init__(
        self,
        given: Any = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
        device: Any = None,
    ) -> None:
        dtype = self._own if dtype is None else dtype
        if wrap_storage is not None:
            given = wrap_storage.elements_of(dtype)
        self._tensor = _memory(type(self).__name__, given, dtype or default_float(), device)
        self._storage = self._tensor.array.storage
        self._itemsize = self._tensor.dtype.itemsize

    @property
    def dtype(self) -> Any:
        """Of its elements."""
        return self._tensor.dtype

    def elements_of(self, dtype: DType | None) -> Tensor:
        """The same memory as a line of elements, off the tape.

        Raises:
            DtypeError: if they are of another dtype.
        """
        if dtype not in (None, self.dtype):
            law = "a storage is of the dtype that is asked for, or has no type"
            raise DtypeError("tensor", law, dtype=dtype, storage=self.dtype)
        return self.elements()

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    def to(self, *args: Any, **given: Any) -> TypedStorage:
        """Of another dtype, or elsewhere, as tensors' ``to``; itself if it is."""
        now = self.elements()
        made = now.to(*args, **given)
        return self if made is now else TypedStorage(made)

    def type(self, dtype: DType | None = None) -> Any:
        """The old name of its type, ``"torch.FloatStorage"``; with a dtype, converted to that."""
        if dtype is not None:
            return self.to(dtype)
        return f"torch.{_NAME_OF[self.dtype]}"


_NAMES = {
    "Float": float32,
    "Double": float64,
    "Half": float16,
    "BFloat16": bfloat16,
    "Byte": uint8,
    "Char": int8,
    "Short": int16,
    "Int": int32,
    "Long": int64,
    "Bool": bool_,
    "ComplexFloat": complex64,
    "ComplexDouble": complex128,
}
_NAME_OF = {dtype: f"{name}Storage" for name, dtype in _NAMES.items()}
_TO = {
    **{name.lower(): dtype for name, dtype in _NAMES.items()},
    "complex_float": complex64,
    "complex_double": complex128,
}
for _name, _dtype in _TO.items():
    setattr(TypedStorage, _name, lambda self, to=_dtype: self.to(to))

STORAGE_NAMES = {name: dtype for dtype, name in _NAME_OF.items()}
"""PyTorch's old names of storages of a dtype."""


def storage_class(name: str) -> type[TypedStorage]:
    """``clnet.FloatStorage`` and the like: a storage of that dtype, of a length or of data."""
    dtype = STORAGE_NAMES[name]
    return type(name, (TypedStorage,), {"_own": dtype, "__doc__": f"A storage of {dtype.name}."})


def _memory(name: str, given: Any, dtype: DType, device: Any) -> Tensor:
    """The tensor that a storage is of: that which is given, or a new line of elements."""
    if isinstance(given, Tensor):
        return given
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if listed or (isinstance(given, np.ndarray) and given.ndim):
        return tensor(given, dtype=dtype, device=device).reshape(-1)
    return empty(integer(name, "length", given), dtype=dtype, device=device)


def untyped_storage(x: Tensor) -> UntypedStorage:
    """The memory that it lies in."""
    return UntypedStorage(x)


def storage(x: Tensor) -> TypedStorage:
    """The memory that it lies in, as elements of its dtype."""
    return TypedStorage(x)


def resize_(x: Tensor, *sizes: Any, memory_format: MemoryFormat | None = None) -> Tensor:
    """Another shape in place; the elements stay in order, new ones have any value.

    A shape that it has already changes nothing, and one for which there is room lies in the memory
    that it has, as before from its first element on; else the memory is new.

    Raises:
        GradientError: if it requires gradients.
    """
    if x.requires_grad:
        raise GradientError("resize_", "a tensor that requires gradients keeps its shape")
    wanted = sizes_of("resize_", sizes)
    if wanted == tuple(x.shape):
        return x
    own = x.array
    room = own.storage.nbytes // x.dtype.itemsize - own.offset
    if mode.current().tracer is None and prod(wanted) <= room:
        own.require_alone()
        steps = contiguous_strides(wanted)
        place_anew(x, Array(own.storage, wanted, steps, own.offset, x.dtype), name="resize_")
        x.source = None
        return x
    made = empty(*wanted, dtype=x.dtype, device=x.device)
    count = min(made.numel(), x.numel())
    if count:
        made.view(-1)[:count] = x.reshape(-1)[:count]
    place_anew(x, made.array, name="resize_")
    x.source, x.version = None, made.version
    return x


def resize_as_(x: Tensor, tensor: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """The shape of another tensor, as :func:`resize_`."""
    return resize_(x, *tensor.shape)


def set_(
    x: Tensor,
    source: Tensor | UntypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] = (),
) -> Tensor:
    """Let the tensor be elements of other memory.

    Args:
        x: any tensor.
        source: the same elements as a tensor; those of a storage; None: no elements.
        storage_offset: elements of the memory before the first.
        size: the shape; None: all elements behind the first, of a tensor that tensor's.
        stride: steps along the axes; none: row-major.

    Raises:
        GradientError: if it requires gradients.
        DtypeError: if ``source`` is a tensor, or a storage with a type, of another dtype.
        ShapeError: if elements lie outside of the memory.
    """
    if x.requires_grad and mode.current().grad:
        raise GradientError("set_", "a tensor that requires gradients keeps its memory")
    typed = isinstance(source, Tensor | TypedStorage)
    if typed and source.dtype is not x.dtype:
        raise DtypeError("set_", "a tensor keeps its dtype", x=x.dtype, source=source.dtype)
    if source is None:
        other = empty(0, dtype=x.dtype, device=x.device)
    elif isinstance(source, Tensor) and size is None:
        other = source.detach()
    else:
        memory = source if isinstance(source, UntypedStorage) else UntypedStorage(source)
        flat = memory.elements()
        flat = flat if flat.dtype is x.dtype else flat.view(x.dtype)
        size = (len(flat) - storage_offset,) if size is None else tuple(size)
        steps = tuple(stride) or contiguous_strides(size)
        other = flat.as_strided(size, steps, storage_offset)
    place_anew(x, other.array, name="set_")
    x.source, x.version = None, other.version
    return x


def as_subclass(x: Tensor, cls: type[TensorT]) -> TensorT:
    """The same tensor, on the tape as it is, as one of a subclass; so are results of ops of it.

    Raises:
        ArgumentError: if ``cls`` is no subclass of the tensor's.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise ArgumentError("as_subclass", "cls is a class of tensors", cls=cls)
    made = object.__new__(cls)  # what programs say of new ones is for those that they make
    Tensor.__init__(made, x.array, x.node, x.index)
    made.source, made.version = x.source, x.version
    if x.node is None:
        made._requires_grad = x.requires_grad
    return made


for _function in (storage, untyped_storage, resize_, resize_as_, set_):
    setattr(Tensor, _function.__name__, checked(_function, skip=1))
Tensor.as_subclass = as_subclass  # no class takes it over
