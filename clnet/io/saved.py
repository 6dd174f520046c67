"""``clnet.save`` and ``clnet.load``: tensors in nested containers, as safetensors; no pickle.

Tensors are stored under their path (``model.conv1.weight``), so that any reader of safetensors
finds them; the tree, with every other value, is JSON in the metadata. Files that PyTorch wrote are
read by ``torch_file``.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from ..array import Array
from ..device import Device, current_device
from ..device import device as open_device
from ..errors import ArgumentError, CheckpointError, shortened
from ..nn import Parameter
from ..tensor import Tensor
from ..values.arguments import shown
from ..values.atomic import replacing
from ..values.dtypes import DType, from_name
from ..values.foreign import host_array, is_foreign
from .checkpoint import escaped, unused_name
from .state import load_state, packed
from .torch_file import read_stream, read_zip

File: TypeAlias = "str | os.PathLike[str] | BinaryIO"
_TREE = "clnet.saved"
_DEEPEST = 200
_TENSOR, _ARRAY, _TUPLE, _FLOAT, _COMPLEX = "$tensor", "$array", "$tuple", "$float", "$complex"
_PAIRS, _ORDERED, _SET, _BYTES, _DTYPE = "$pairs", "$ordered", "$set", "$bytes", "$dtype"


class _UnstorableError(Exception):
    """A value that has no place in a file."""


def save(obj: Any, f: File, *args: Any, **kwargs: Any) -> None:
    """Write tensors, plain values and containers of them; :func:`load` gives them back.

    Args:
        obj: tensors and parameters, NumPy's arrays and numbers, PyTorch's tensors, numbers, texts,
            bytes, dtypes, None, in dicts, OrderedDicts, lists, tuples and sets. Tensors that share
            all their memory are stored once.
        f: a path, whose file is replaced atomically, or a binary file to write to.
        *args: PyTorch's ``pickle_module`` and ``pickle_protocol``, which say nothing here.
        **kwargs: the same by name.

    Raises:
        CheckpointError: if a value cannot be stored (its path is named), or the file not be
            written.

    Example:
        >>> import clnet, io
        >>> file = io.BytesIO()
        >>> clnet.save({"model": clnet.nn.Linear(2, 1).state_dict(), "epoch": 3}, file)
        >>> _ = file.seek(0)
        >>> clnet.load(file)["epoch"]
        3
    """
    del args
    unknown = set(kwargs) - {"pickle_module", "pickle_protocol", "_use_new_zipfile_serialization"}
    if unknown:
        raise ArgumentError("save", "it has no such argument", names=sorted(unknown))
    name = _name_of(f)
    writer = _Writer()
    try:
        tree = json.dumps(writer.stored(obj, "", 0), allow_nan=False)
    except _UnstorableError as error:
        remedy = "Save tensors and plain containers, such as a state_dict()"
        raise CheckpointError(name, str(error), remedy=remedy) from None
    content = packed(name, writer.arrays, {_TREE: tree})
    if not isinstance(f, str | os.PathLike):
        f.write(content)
        return
    try:
        with replacing(Path(f)) as file:
            file.write(content)
    except OSError as error:
        remedy = "Give a file in a folder that exists and can be written"
        raise CheckpointError(
            name, "the file cannot be written", error=error, remedy=remedy
        ) from error


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """Read what :func:`save` or ``torch.save`` wrote, or another safetensors file.

    Nothing in a file is ever run: of PyTorch's pickles, tensors and plain containers are read, and
    anything else is refused by name.

    Args:
        f: a path, or a binary file.
        map_location: the device that tensors go to, however it is spelt; None, a function or a dict
            (which speak of PyTorch's devices): the current one.
        pickle_module: refused if given; there is no unpickler to choose.
        weights_only: taken as PyTorch does; nothing else is ever read.
        mmap: taken as PyTorch does.
        encoding: taken as PyTorch does.

    Returns:
        What was saved; of a safetensors file of others, its tensors by name.

    Raises:
        CheckpointError: if the file is missing, damaged, of another format, or holds what is
            neither tensor nor plain container.
        DtypeError: if clnet or the device has no dtype for a tensor's.
    """
    del weights_only, mmap, encoding
    if pickle_module is not None:
        raise ArgumentError("load", "there is no unpickler to choose: nothing in a file is run")
    theirs = map_location is None or callable(map_location) or isinstance(map_location, Mapping)
    device = current_device() if theirs else open_device(map_location)  # pyright: ignore[reportArgumentType] - checked there
    if isinstance(f, str | os.PathLike):
        return _read(Path(f), device)
    with tempfile.TemporaryDirectory() as folder:  # safetensors and zips are read by position
        path = Path(folder, "file")
        with path.open("wb") as copy:
            shutil.copyfileobj(f, copy)
        return _read(path, device)


def _read(path: Path, device: Device) -> Any:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(str(path), "the file cannot be read", error=error) from error
    if head[:4] == b"PK\x03\x04":
        return read_zip(path, device)
    if head[:1] == b"\x80" and head[8:9] != b"{":
        return read_stream(path, device)
    if head[257:262] == b"ustar":
        remedy = "Load it with PyTorch and save it again"
        raise CheckpointError(str(path), "a file of PyTorch before 0.2", remedy=remedy)
    arrays, metadata = load_state(path)
    if _TREE not in metadata:
        return OrderedDict((k, Tensor(Array.from_numpy(a, device))) for k, a in arrays.items())
    try:
        return _Reader(arrays, device).value(json.loads(metadata[_TREE]))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            str(path), "the file's tree is damaged", error=shortened(error)
        ) from error


class _Writer:
    """Makes JSON of a tree, and puts its arrays aside."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of one that was stored

    def stored(self, value: Any, where: str, depth: int) -> Any:
        """The JSON of a value.

        Args:
            value: what to store.
            where: its path.
            depth: of containers around it.
        """
        if depth > _DEEPEST:
            raise _UnstorableError(f"{where[:100]}... lies more than {_DEEPEST} containers deep")
        if isinstance(value, np.generic):
            value = value.item()
        leaf = self._leaf(value, where)
        return self._container(value, where, depth + 1) if leaf is NotImplemented else leaf

    def _leaf(self, value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {_FLOAT: repr(value)}
        if isinstance(value, Tensor):
            array = value.array
            key = (id(array.storage), array.offset, array.shape, array.strides, array.dtype)
            return self._tensor(key, value, where)
        if is_foreign(value) or isinstance(value, np.ndarray):
            kind = _ARRAY if isinstance(value, np.ndarray) else _TENSOR
            name = self._named((id(value),), value, where, lambda: host_array(value))
            return {kind: [name, 0] if kind == _TENSOR else name}
        if isinstance(value, complex):
            return {_COMPLEX: [repr(value.real), repr(value.imag)]}
        if isinstance(value, bytes | bytearray):
            return {_BYTES: value.hex()}
        if isinstance(value, DType):
            return {_DTYPE: value.name}
        if isinstance(value, Device):
            return value.name
        return NotImplemented

    def _tensor(self, key: tuple[Any, ...], value: Tensor, where: str) -> Any:
        name = self._named(key, value.array.storage, where, lambda: value.array.numpy())
        form = 2 if isinstance(value, Parameter) else 0
        return {_TENSOR: [name, form + int(value.requires_grad)]}

    def _named(
        self, key: tuple[Any, ...], owner: Any, where: str, read: Callable[[], np.ndarray]
    ) -> str:
        """The name of an array, which is stored when it first comes."""
        if key not in self._names:
            name = unused_name(where or "tensor", self.arrays)
            self.arrays[name] = read()
            self._names[key] = name
            self._kept.append(owner)
        return self._names[key]

    def _container(self, value: Any, where: str, depth: int) -> Any:
        def inside(items: Any) -> list[Any]:
            return [
                self.stored(v, f"{where}.{i}" if where else str(i), depth)
                for i, v in enumerate(items)
            ]

        if isinstance(value, Mapping):
            return self._mapping(value, where, depth)
        if isinstance(value, list):
            return inside(value)
        if isinstance(value, tuple):
            return {_TUPLE: inside(value)}
        if isinstance(value, set | frozenset):
            return {_SET: inside(sorted(value, key=repr))}
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise _UnstorableError(f"{where or 'it'} is a {kind}, which cannot be stored")

    def _mapping(self, value: Mapping[Any, Any], where: str, depth: int) -> Any:
        if not isinstance(value, dict):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise _UnstorableError(f"{where or 'it'} is a {kind}, which cannot be stored")
        paths = [f"{where}.{key}" if where else f"{key}" for key in value]
        values = [self.stored(v, p, depth) for v, p in zip(value.values(), paths, strict=True)]
        if all(type(key) is str for key in value) and not isinstance(value, OrderedDict):
            return dict(zip(map(escaped, value), values, strict=True))
        keys = [self.stored(key, where, depth) for key in value]
        kind = _ORDERED if isinstance(value, OrderedDict) else _PAIRS
        return {kind: [list(pair) for pair in zip(keys, values, strict=True)]}


class _Reader:
    """Makes a tree of JSON and arrays.

    Args:
        arrays: by name.
        device: where tensors go.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], device: Device) -> None:
        self._arrays = arrays
        self._device = device
        self._made: dict[tuple[str, int], Tensor] = {}
        self._forms: dict[str, Callable[[Any], Any]] = {
            _TENSOR: lambda given: self._tensor(*given),
            _ARRAY: lambda name: self._arrays[name],
            _TUPLE: lambda items: tuple(map(self.value, items)),
            _SET: lambda items: set(map(self.value, items)),
            _PAIRS: lambda pairs: {self.value(k): self.value(v) for k, v in pairs},
            _ORDERED: lambda pairs: OrderedDict((self.value(k), self.value(v)) for k, v in pairs),
            _FLOAT: float,
            _COMPLEX: lambda parts: complex(*map(float, parts)),
            _BYTES: bytes.fromhex,
            _DTYPE: from_name,
        }

    def value(self, node: Any) -> Any:
        """The value of a piece of JSON."""
        if isinstance(node, list):
            return [self.value(v) for v in node]
        if not isinstance(node, dict):
            return node
        for form, made in self._forms.items():
            if form in node:
                return made(node[form])
        return {key.removeprefix("$"): self.value(v) for key, v in node.items()}

    def _tensor(self, name: str, form: int) -> Tensor:
        if (name, form) not in self._made:
            first = next((t for (n, _), t in self._made.items() if n == name), None)
            array = (
                Array.from_numpy(self._arrays[name], self._device) if first is None else first.array
            )
            wanted = bool(form & 1)
            plain = Tensor(array)
            made = Parameter(plain, wanted) if form & 2 else plain.requires_grad_(wanted)
            self._made[name, form] = made
        return self._made[name, form]


def _name_of(f: Any) -> str:
    if isinstance(f, str | os.PathLike):
        return os.fspath(f)
    if not hasattr(f, "write"):
        raise ArgumentError("save", "f is a path or a binary file", f=shown(f))
    return str(getattr(f, "name", "a file object"))
