"""PyTorch's ``.pt`` and ``.pth`` files, the zips of today and the streams before 1.6; none is run.

Sizes are checked against the file before anything is made of them.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..array import Array
from ..device import Device
from ..errors import CheckpointError, ClnetError, DtypeError, shortened
from ..nn import Parameter
from ..tensor import Tensor
from ..values import dtypes
from ..values.shapes import contiguous_strides, last_place
from .beside import BESIDE, set_state
from .unpickle import Global, Machine

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_AXES = 64
_PICKLE_BYTES = 2**28  # of names and sizes: a thousand times what the largest models have
_NAMES = {
    "float64 float32 float16 bfloat16": "Double Float Half BFloat16",
    "complex64 complex128": "ComplexFloat ComplexDouble",
    "int64 int32 int16 int8 uint8 bool uint8": "Long Int Short Char Byte Bool Untyped",
}
_STORAGES = {
    f"{kind}Storage": dtype
    for ours, theirs in _NAMES.items()
    for kind, dtype in zip(theirs.split(), ours.split(), strict=True)
}
"""PyTorch's classes of storages, and the dtypes of their elements."""
_OTHER_DTYPES = ("complex32", "uint16", "uint32", "uint64")


@dataclass
class Storage:
    """A storage of the file.

    Attributes:
        dtype: of its elements.
        count: elements.
        data: reads its bytes; None: in a first look, which only wants to know where they are.
        order: of the bytes of an element, ``"<"`` or ``">"``.
        array: its elements on the device, once a tensor has been made of them.
    """

    dtype: dtypes.DType
    count: int
    data: Callable[[], bytes] | None
    order: str = "<"
    array: Array | None = None

    def on(self, device: Device) -> Array:
        """All of it in one axis, on a device; made once, so that tensors share it as they did."""
        if self.array is None:
            content = b"" if self.data is None else self.data()
            kind = self.dtype.numpy
            # Parts of complex numbers have each an order of their own.
            item = self.dtype.itemsize // (2 if self.dtype.is_complex else 1)
            if kind == np.bool_:  # any byte but 0 is true, and kernels expect 1
                host = np.frombuffer(content, np.uint8) != 0
            else:  # as whole numbers first: NumPy's extension types have one order alone
                given = np.frombuffer(content, np.dtype(f"{self.order}u{item}"))
                host = given.astype(np.dtype(f"=u{item}"), copy=False).view(kind)
            self.array = Array.from_numpy(host, device)
        return self.array


class _Reader:
    """Makes tensors of what a pickle of PyTorch's says.

    Args:
        name: of the file.
        device: where tensors go.
        most_bytes: what a tensor can have at most: the file's size.
    """

    def __init__(self, name: str, device: Device, most_bytes: int) -> None:
        self.name = name
        self.device = device
        self.most_bytes = most_bytes
        kinds = dict.fromkeys((*_OTHER_DTYPES, *(d.name for d in dtypes.ALL)))
        self.globals: dict[str, Global] = {
            **BESIDE,
            "torch._utils._rebuild_tensor": Global(self.tensor),
            "torch._utils._rebuild_tensor_v2": Global(self.tensor),
            "torch._utils._rebuild_parameter": Global(self.parameter),
            "torch._utils._rebuild_parameter_with_state": Global(self.parameter),
            "torch._tensor._rebuild_from_type_v2": Global(self.of_type),
            "torch.Size": Global(lambda sizes=(): tuple(self.whole(sizes))),
            "torch.device": Global(_device_name),
            "torch.Tensor": Global(None, Tensor),
            "torch.nn.parameter.Parameter": Global(None, Parameter),
            "torch.serialization._get_layout": Global(str),
            **{f"torch.{kind}": Global(None, _dtype(kind)) for kind in kinds},
        }
        for kind, dtype in _STORAGES.items():
            value = dtypes.from_name(dtype)
            self.globals[f"torch.{kind}"] = Global(None, value)
            self.globals[f"torch.storage.{kind}"] = Global(None, value)

    def read(self, data: bytes, persistent: Callable[[Any], Any], position: int = 0) -> Machine:
        """A machine for a pickle in ``data``."""
        return Machine(
            data, self.globals, persistent=persistent, built=_set_metadata, position=position
        )

    def whole(self, numbers: Any) -> tuple[int, ...]:
        """Sizes or strides."""
        good = isinstance(numbers, tuple | list) and len(numbers) <= _MOST_AXES
        if not good or any(type(n) is not int or not 0 <= n < 2**63 for n in numbers):
            raise CheckpointError(self.name, "sizes are whole numbers, 0 or more")
        return tuple(numbers)

    def tensor(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any = False,  # noqa: FBT002 - PyTorch's order
        *_: Any,
    ) -> Tensor:
        """A tensor on a storage."""
        if not isinstance(storage, Storage):
            raise CheckpointError(self.name, "a tensor without a storage")
        shape, strides = self.whole(size), self.whole(stride)
        (start,) = self.whole((offset,))
        if len(shape) != len(strides):
            law = "a tensor has a stride for each axis"
            raise CheckpointError(self.name, law, size=shape, stride=strides)
        count, dtype = prod(shape), storage.dtype
        last = start + last_place(shape, strides)
        outside = count and last >= storage.count
        if outside or count * dtype.itemsize > max(self.most_bytes, 1):
            raise CheckpointError(
                self.name,
                "a tensor is larger than what the file holds of it",
                size=shape,
                stride=strides,
                offset=start,
                elements=storage.count,
            )
        if count == 0 or storage.data is None:
            array = Array.abstract(shape if count == 0 else (), dtype, self.device)
            array.storage.materialize()
        else:
            dense = contiguous_strides(shape)
            strides = tuple(
                d if n == 1 else s for n, s, d in zip(shape, strides, dense, strict=True)
            )
            array = storage.on(self.device).view(shape, strides, start)
        return Tensor(array).requires_grad_(bool(requires_grad) and dtype.is_floating_point)

    def parameter(self, data: Any, requires_grad: Any = True, *_: Any) -> Tensor:  # noqa: FBT002
        """A parameter."""
        if not isinstance(data, Tensor):
            raise CheckpointError(self.name, "a parameter without a tensor")
        return Parameter(data, bool(requires_grad) and data.dtype.is_floating_point)

    def of_type(self, rebuild: Any, kind: Any, arguments: Any, *_: Any) -> Tensor:
        """A tensor or parameter that carried attributes; these are left out."""
        if kind not in (Tensor, Parameter) or type(arguments) is not tuple:
            raise CheckpointError(self.name, "a tensor of a class that is not known")
        if rebuild not in (self.tensor, self.parameter):
            raise CheckpointError(self.name, "a tensor made in a way that is not known")
        return rebuild(*arguments)


def _device_name(kind: Any, index: Any = None) -> str:
    return f"{kind!s:.20}" if index is None else f"{kind!s:.20}:{index!s:.20}"


def _dtype(name: str) -> Any:
    """The dtype of PyTorch's name, or the name itself where there is none."""
    return name if name in _OTHER_DTYPES else dtypes.from_name(name)


def _set_metadata(value: Any, state: Any) -> None:
    """Of a container's attributes, the versions that state dicts carry are kept."""
    set_state(value, state)
    if isinstance(value, OrderedDict) and type(state) is dict and "_metadata" in state:
        value._metadata = state["_metadata"]  # pyrefly: ignore[missing-attribute] - as PyTorch's do


def _storage_id(name: str, given: Any) -> tuple[dtypes.DType, str, int]:
    """Dtype, key and elements that a persistent id names."""
    what, dtype, key, _, count = (
        given[:5] if type(given) is tuple and len(given) > 4 else [None] * 5
    )
    if what != "storage" or type(key) is not str or type(count) is not int or count < 0:
        raise CheckpointError(name, "the pickle names a storage in a way that is not known")
    if not isinstance(dtype, dtypes.DType):
        raise DtypeError(name, "clnet has no such dtype", dtype=_kind(dtype))
    return dtype, key, count


def _kind(value: Any) -> str:
    """What stands for a dtype, for an error."""
    return value if isinstance(value, str) else type(value).__name__


def read_zip(path: Path, device: Device) -> Any:
    """The value that ``torch.save`` wrote, as it writes since 1.6.

    Args:
        path: the file.
        device: where its tensors go.

    Returns:
        Tensors in plain containers.

    Raises:
        CheckpointError: if it is damaged, no such file, or names what is not known.
        DtypeError: if clnet has no dtype for a tensor's.
    """
    name, size = str(path), path.stat().st_size
    try:
        with zipfile.ZipFile(path) as file:
            return _read_archive(name, size, file, device)
    except ClnetError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            name, "not a whole zip file", bytes=size, error=shortened(error)
        ) from error


def _read_archive(name: str, size: int, file: zipfile.ZipFile, device: Device) -> Any:
    archive = _Archive(name, size, file)
    data = archive.content("data.pkl")
    if len(data) > _PICKLE_BYTES:
        raise CheckpointError(name, "its pickle is too large", bytes=len(data))
    return _Reader(name, device, size).read(data, archive.storage).run(name)


class _Archive:
    """The entries of a zip file that ``torch.save`` wrote, and the storages among them.

    Args:
        name: of the file, in errors.
        size: its bytes: no entry is larger, nor are all together.
        file: the open zip file.

    Raises:
        CheckpointError: if it is none of PyTorch's, or its directory lies.
    """

    def __init__(self, name: str, size: int, file: zipfile.ZipFile) -> None:
        self._name, self._file = name, file
        self._entries = entries = _entries(name, size, file)
        heads = (entry.partition("/") for entry in entries)
        folders = [head for head, _, tail in heads if tail == "data.pkl"]
        if not folders or any(n.startswith(f"{folders[-1]}/code/") for n in entries):
            raise CheckpointError(
                name,
                "a zip, but none of torch.save",
                entries=[n[:100] for n in list(entries)[:4]],
                remedy="Scripted modules and NumPy's archives are not read",
            )
        self._folder = folders[-1]
        stated = f"{self._folder}/byteorder" in entries
        self._order = ">" if stated and self.content("byteorder") == b"big" else "<"
        self._known: dict[str, Storage] = {}

    def content(self, tail: str) -> bytes:
        """The bytes of an entry."""
        entry = self._entries.get(f"{self._folder}/{tail}")
        if entry is None:
            raise CheckpointError(self._name, "an entry is missing", entry=f"{tail[:100]!r}")
        found = self._file.read(entry)
        if len(found) != entry.file_size:
            raise CheckpointError(self._name, "an entry has another size", entry=f"{tail[:100]!r}")
        return found

    def storage(self, given: Any) -> Storage:
        """The storage that a persistent id of the pickle names, the same for the same key."""
        name, known = self._name, self._known
        dtype, key, count = _storage_id(name, given)
        if key not in known:
            entry = self._entries.get(f"{self._folder}/data/{key}")
            found = 0 if entry is None else entry.file_size
            if entry is None or found != count * dtype.itemsize:
                law = "a storage is not of the size that the pickle says"
                raise CheckpointError(name, law, key=repr(key[:40]), bytes=found, elements=count)
            known[key] = Storage(dtype, count, partial(self.content, f"data/{key}"), self._order)
        if known[key].dtype is not dtype:
            raise CheckpointError(name, "a storage has two dtypes", key=repr(key[:40]))
        return known[key]


def _entries(name: str, size: int, file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The directory of a zip file, by names.

    Raises:
        CheckpointError: if an entry is packed, or they do not fit into the file.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in file.infolist():
        entries[entry.filename] = entry
        packed = entry.compress_type != zipfile.ZIP_STORED
        packed = packed or entry.compress_size != entry.file_size  # by which a reader would go
        if packed or entry.file_size > size or entry.flag_bits & 1:
            law = "PyTorch stores entries as they are, and within the file"
            raise CheckpointError(name, law, entry=repr(entry.filename[:100]))
    if sum(entry.file_size for entry in entries.values()) > size:
        raise CheckpointError(name, "entries of the zip lie over each other", bytes=size)
    return entries


def read_stream(path: Path, device: Device) -> Any:
    """The value that ``torch.save`` wrote before 1.6, or without its zip format.

    Pickles stand one behind the other: a magic number, versions, the value, the keys of storages;
    then the storages themselves. Arguments, result and errors are :func:`read_zip`'s.
    """
    name, size = str(path), path.stat().st_size
    with path.open("rb") as file:
        head = file.read(min(size, _PICKLE_BYTES))
        reader = _Reader(name, device, size)
        position = 0
        found: list[Any] = []
        for _ in range(3):
            machine = reader.read(head, _no_storage, position)
            found.append(machine.run(name))
            position = machine.position
        if found[0] != LEGACY_MAGIC:
            raise CheckpointError(name, "a pickle, but none of torch.save")
        if type(found[2]) is not dict or found[2].get("little_endian") is not True:
            raise CheckpointError(name, "only files of little-endian machines are read")
        return _read_values(name, file, head, position, reader)


def _no_storage(given: Any) -> Any:
    raise CheckpointError("load", "a storage where there is none", id=type(given).__name__)


def _read_values(name: str, file: BinaryIO, head: bytes, position: int, reader: _Reader) -> Any:
    """The value, which is read twice: first to learn where its storages are."""
    known: dict[str, Storage] = {}

    def storage(given: Any) -> Storage:
        dtype, key, count = _storage_id(name, given)
        if len(given) > 5 and given[5] is not None:
            raise CheckpointError(name, "a view of a storage, as files before 0.4 have")
        return known.setdefault(key, Storage(dtype, count, None))

    first = reader.read(head, storage, position)
    first.run(name)
    machine = reader.read(head, _no_storage, first.position)
    keys = machine.run(name)
    if type(keys) is not list or sorted(map(str, keys)) != sorted(known):
        raise CheckpointError(name, "its storages are not those that it names")
    end = os.fstat(file.fileno()).st_size
    at = machine.position
    for key in keys:
        entry = known[key]
        file.seek(at)
        (count,) = struct.unpack("<q", file.read(8).ljust(8, b"\xff"))
        length = count * entry.dtype.itemsize
        if count != entry.count or at + 8 + length > end:
            law = "a storage is not of the size that the pickle says"
            raise CheckpointError(name, law, elements=entry.count, found=count)
        entry.data = _part(file, at + 8, length)
        at += 8 + length
    return reader.read(head, storage, position).run(name)


def _part(file: BinaryIO, start: int, length: int) -> Callable[[], bytes]:
    def read() -> bytes:
        file.seek(start)
        return file.read(length)

    return read
