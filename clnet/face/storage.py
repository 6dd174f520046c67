"""The memory below tensors as programs ask for it: which it is, and how long; and subclasses."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import numpy as np

from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked, require_tensors
from ..values.dtypes import uint8

__all__ = ["TypedStorage", "UntypedStorage", "place_of"]

TensorT = TypeVar("TensorT", bound=Tensor)


def place_of(x: Tensor) -> int:
    """Where a tensor's memory begins on the host; a number of its own if it is not there."""
    found = x.array.place() if mode.current().tracer is None else None
    return id(x.array.storage) if found is None else found


class UntypedStorage:
    """A tensor's memory, of which views are parts.

    Args:
        tensor: one that lies in it.
    """

    _itemsize = 1

    def __init__(self, tensor: Tensor) -> None:
        require_tensors(type(self).__name__, tensor=tensor)
        self._tensor = tensor
        self._storage = tensor.array.storage

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
        """A byte, or those of a slice as NumPy's; waits for the device."""
        found = self._bytes()[index]
        return found.view(FileBytes) if isinstance(index, slice) else int(found)

    def _bytes(self) -> np.ndarray:
        x = self._tensor.detach()
        count = self._storage.nbytes // x.dtype.itemsize
        return x.as_strided((count,), (1,), 0).view(uint8).numpy()

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
        tensor: one that lies in it.
    """

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor)
        self._itemsize = tensor.dtype.itemsize

    @property
    def dtype(self) -> Any:
        """Of its elements."""
        return self._tensor.dtype

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    def tolist(self) -> list[Any]:
        """All elements, also those that the tensor does not show; waits for the device."""
        x = self._tensor.detach()
        return x.as_strided((self.size(),), (1,), 0).tolist()


def untyped_storage(x: Tensor) -> UntypedStorage:
    """The memory that it lies in."""
    return UntypedStorage(x)


def storage(x: Tensor) -> TypedStorage:
    """The memory that it lies in, as elements of its dtype."""
    return TypedStorage(x)


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


for _function in (storage, untyped_storage):
    setattr(Tensor, _function.__name__, checked(_function, skip=1))
Tensor.as_subclass = as_subclass  # no class takes it over
