"""``clnet.save`` and ``clnet.load``: tensors in nested containers, as safetensors; no pickle.

A module or another object is stored as its class's name and its attributes, or what its own
``__getstate__`` gives. It is read where the caller says ``weights_only=False``, or the program that
the class is safe, and has loaded the class, which is looked up and not imported; of its code
``__setstate__`` alone is run.

Tensors are stored under their path (``model.conv1.weight``), so that any reader of safetensors
finds them; the tree, with every other value, is JSON in the metadata. Files that PyTorch wrote are
read by ``torch_file``.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from .. import ops
from ..array import Array
from ..compile import Compiled
from ..device import Device, current_device
from ..device import device as open_device
from ..errors import ArgumentError, CheckpointError, MissingFileError, refusal, shortened
from ..nn import Module, Parameter, functional
from ..sparse import SparseTensor, sparse_coo_tensor
from ..tensor import Tensor
from ..values.arguments import shown
from ..values.atomic import replacing
from ..values.dtypes import DType, from_name
from ..values.foreign import host_array, is_foreign
from ..values.words import WORDS
from . import gguf, mxnet_file
from .beside import HOLDERS, is_plain_class, is_stateful_class, set_state
from .caffe_file import load_caffe
from .checkpoint import escaped, unused_name
from .named import SAFE, name_of, of_name
from .sharing import groups_of, laid
from .state import load_state, packed
from .torch_file import read_stream, read_zip

File: TypeAlias = "str | os.PathLike[str] | BinaryIO"
_TREE, _SHARED = "clnet.saved", "clnet.shared"
_DEEPEST = 200
_TENSOR, _ARRAY, _TUPLE, _FLOAT, _COMPLEX = "$tensor", "$array", "$tuple", "$float", "$complex"
_PAIRS, _ORDERED, _SET, _BYTES, _DTYPE = "$pairs", "$ordered", "$set", "$bytes", "$dtype"
_NAMESPACE, _PATH, _OBJECT, _ENUM = "$namespace", "$path", "$object", "$enum"
_MODULE, _AGAIN, _OP, _COMPILED = "$module", "$again", "$op", "$compiled"
_SPARSE, _NAME, _PARTIAL, _STATED = "$sparse", "$name", "$partial", "$stated"

_SORTS: dict[type, str] = {
    **dict.fromkeys((Module, Compiled), "a module"),
    **dict.fromkeys((object, Enum), "an object"),
}


class _UnstorableError(Exception):
    """A value that has no place in a file."""


def save(obj: Any, f: File, *args: Any, **kwargs: Any) -> None:
    """Write tensors, plain values and containers of them; :func:`load` gives them back.

    Args:
        obj: tensors and parameters, NumPy's arrays and numbers, PyTorch's tensors, numbers, texts,
            bytes, dtypes, paths, None, in dicts, OrderedDicts, lists, tuples, sets and the
            namespaces of ``argparse`` and ``types``, members of enumerations. Tensors that share
            memory do so when they are loaded, and are stored once if it is all. Modules and other
            objects that are their attributes, or what their class's own ``__getstate__`` gives, if
            these are of these kinds; classes and functions of modules (not of Python's library),
            which are stored by name, and ``functools.partial`` of them; hooks are left out.
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
    metadata = {_TREE: tree}
    if groups := groups_of(writer.owned):
        metadata[_SHARED] = json.dumps(groups)
    content = packed(name, writer.arrays, metadata)
    if not isinstance(f, str | os.PathLike):
        f.write(content)
        if hasattr(f, "flush"):  # programs read the file by its name while it is open
            f.flush()
        return
    try:
        with replacing(Path(f)) as file:
            file.write(content)
    except OSError as error:
        remedy = "Give a file in a folder that exists and can be written"
        raise CheckpointError(
            name, "the file cannot be written", error=refusal(error), remedy=remedy
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
    """Read what :func:`save` or ``torch.save`` wrote, another safetensors file, or others' weights.

    Those are GGUF, MXNet's ``.params`` and, by its name, Caffe's ``.caffemodel``.

    Nothing in a file is ever run: of PyTorch's pickles, tensors, NumPy's arrays, plain containers
    and namespaces of arguments are read, and anything else is refused by name. Modules and objects
    that :func:`save` wrote are made of classes that the program has loaded, without calling their
    ``__init__``; a class that says by ``__setstate__`` what it takes back is asked to.

    Args:
        f: a path, or a binary file.
        map_location: the device that tensors go to, however it is spelt; None, a function or a dict
            (which speak of PyTorch's devices): the current one.
        pickle_module: refused if given; there is no unpickler to choose.
        weights_only: False: modules and objects are made, too, and may hold functions of what the
            program has loaded, which run when the program calls what holds them: this is for files
            of people whom you trust. Else those that ``serialization.add_safe_globals`` names are.
        mmap: taken as PyTorch does.
        encoding: taken as PyTorch does.

    Returns:
        What was saved; of a safetensors file of others, or their weights, the tensors by name.

    Raises:
        MissingFileError: if there is none: a CheckpointError, and a FileNotFoundError.
        CheckpointError: if the file is damaged, of another format, or holds what is neither tensor
            nor plain container.
        DtypeError: if clnet or the device has no dtype for a tensor's.
    """
    del mmap, encoding
    if pickle_module is not None:
        raise ArgumentError("load", "there is no unpickler to choose: nothing in a file is run")
    theirs = map_location is None or callable(map_location) or isinstance(map_location, Mapping)
    device = current_device() if theirs else open_device(map_location)
    if isinstance(f, str | os.PathLike):
        if not Path(f).exists():
            raise MissingFileError(str(f), "there is no such file", folder=Path(f).parent)
        return _read(Path(f), device, modules=weights_only is False)
    with tempfile.TemporaryDirectory() as folder:  # safetensors and zips are read by position
        path = Path(folder, "file")
        with path.open("wb") as copy:
            shutil.copyfileobj(f, copy)
        return _read(path, device, modules=weights_only is False)


def _read(path: Path, device: Device, *, modules: bool) -> Any:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(str(path), "the file cannot be read", error=refusal(error)) from error
    if head[:4] == b"PK\x03\x04":
        return read_zip(path, device)
    if head[:1] == b"\x80" and head[8:9] != b"{":
        return read_stream(path, device)
    if head[257:262] == b"ustar":
        remedy = "Load it with PyTorch and save it again"
        raise CheckpointError(str(path), "a file of PyTorch before 0.2", remedy=remedy)
    arrays, metadata = _weights(path, head), {}
    if arrays is None:
        arrays, metadata = load_state(path)
    if _TREE not in metadata:
        return OrderedDict((k, Tensor(Array.from_numpy(a, device))) for k, a in arrays.items())
    try:
        shared = laid(json.loads(metadata.get(_SHARED, "[]")), arrays, device)
        reader = _Reader(arrays, device, str(path), modules=modules, shared=shared)
        return reader.value(json.loads(metadata[_TREE]))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            str(path), "the file's tree is damaged", error=shortened(error)
        ) from error


def _weights(path: Path, head: bytes) -> dict[str, np.ndarray] | None:
    """Arrays of a file of llama.cpp's, MXNet's or Caffe's; None of another."""
    if head[:4] == gguf.MAGIC:
        return gguf.load_gguf(path).arrays
    if head[:16] == mxnet_file.HEAD:
        return mxnet_file.load_mxnet(path)
    return load_caffe(path) if path.suffix == ".caffemodel" else None


class _Writer:
    """Makes JSON of a tree, and puts its arrays aside."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.owned: dict[str, Array] = {}  # those of clnet's tensors, as they lie
        self._names: dict[tuple[Any, ...], str] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of one that was stored
        self._modules: dict[int, int] = {}

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
        if isinstance(value, SparseTensor):
            plain = value.detach()
            parts = (plain.places(), plain.elements(), tuple(plain.shape), plain.is_coalesced())
            given = (*parts, plain.layout.name, value.requires_grad)
            return {_SPARSE: [self.stored(part, where, 0) for part in given]}
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
        if isinstance(value, PurePath):
            return {_PATH: value.as_posix()}
        if isinstance(value, Enum) and value.name in type(value).__members__:
            return {_ENUM: [f"{type(value).__module__}:{type(value).__qualname__}", value.name]}
        return NotImplemented

    def _tensor(self, key: tuple[Any, ...], value: Tensor, where: str) -> Any:
        name = self._named(key, value.array.storage, where, lambda: value.array.numpy())
        self.owned[name] = value.array
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

        stateful = is_stateful_class(type(value))  # some are mappings, too
        if isinstance(value, Mapping) and not stateful:
            return self._mapping(value, where, depth)
        if isinstance(value, list):
            return inside(value)
        if isinstance(value, tuple):
            return {_TUPLE: inside(value)}
        if isinstance(value, set | frozenset):
            return {_SET: inside(sorted(value, key=repr))}
        if type(value) in HOLDERS:
            kind = int(type(value) is HOLDERS[1])
            return {_NAMESPACE: [kind, self._mapping(vars(value), where, depth)]}
        if isinstance(value, Compiled) and isinstance(value.__wrapped__, Module):
            kind = f"{type(value).__module__}:{type(value).__qualname__}"
            return {_COMPILED: [kind, self.stored(value.__wrapped__, where, depth)]}
        if isinstance(value, Module):
            return self._module(value, where, depth)
        plain = is_plain_class(type(value)) and hasattr(value, "__dict__")
        if plain or stateful:
            return self._object(value, where, depth)
        name = getattr(value, "__name__", "")
        if callable(value) and _op_named(name) is value:
            return {_OP: name}
        if type(value) is partial:
            parts = (value.func, value.args, value.keywords)
            return {_PARTIAL: [self.stored(part, where, depth) for part in parts]}
        if (name := name_of(value)) is not None:
            return {_NAME: name}
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise _UnstorableError(f"{where or 'it'} is a {kind}, which cannot be stored")

    def _object(self, value: Any, where: str, depth: int) -> Any:
        """Class and attributes, or class and state."""
        if id(value) in self._modules:
            return {_AGAIN: self._modules[id(value)]}
        self._modules[id(value)] = len(self._modules)
        self._kept.append(value)
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        if not is_plain_class(type(value)):
            state = value.__getstate__()
            self._kept.append(state)
            return {_STATED: [kind, self.stored(state, where, depth)]}
        return {_OBJECT: [kind, self._mapping(vars(value), where, depth)]}

    def _module(self, module: Module, where: str, depth: int) -> Any:
        """Class, attributes, parameters, buffers, which of those are transient, and modules."""
        if id(module) in self._modules:
            return {_AGAIN: self._modules[id(module)]}
        self._modules[id(module)] = len(self._modules)
        kind = f"{type(module).__module__}:{type(module).__qualname__}"
        tables = {"_parameters", "_buffers", "_modules"}
        plain = {
            name: value
            for name, value in vars(module).items()
            if name not in tables and not name.startswith("_clnet_")
        }
        given = vars(module)
        parts = [
            *(plain, dict(given["_parameters"]), dict(given["_buffers"])),
            *(given["_clnet_transient"], dict(given["_modules"])),
        ]
        return {_MODULE: [kind, *(self.stored(part, where, depth) for part in parts)]}

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
        file: the file's name, for errors.
        modules: whether modules are made.
        shared: arrays that lie in memory with others, by name.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        device: Device,
        file: str,
        *,
        modules: bool,
        shared: Mapping[str, Array],
    ) -> None:
        self._shared = shared
        self._arrays = arrays
        self._device = device
        self._file = file
        self._making = modules
        self._modules: list[Any] = []
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
            _PATH: Path,
            _NAMESPACE: lambda given: self._namespace(*given),
            _MODULE: lambda given: self._module(*given),
            _OBJECT: lambda given: self._object(*given),
            _STATED: lambda given: self._stated(*given),
            _ENUM: lambda given: self._member(*given),
            _COMPILED: lambda given: self._kind(given[0], Compiled)(self.value(given[1])),
            _SPARSE: lambda parts: self._sparse(*map(self.value, parts)),
            _NAME: self._named,
            _PARTIAL: lambda parts: partial(
                self.value(parts[0]), *self.value(parts[1]), **self.value(parts[2])
            ),
            _AGAIN: lambda number: self._modules[number],
            _OP: _op_named,
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

    def _namespace(self, kind: int, given: Any) -> Any:
        made = HOLDERS[kind]()
        set_state(made, self.value(given))
        return made

    def _module(
        self, kind: str, plain: Any, parameters: Any, buffers: Any, transient: Any, modules: Any
    ) -> Module:
        made: Module = object.__new__(self._kind(kind, Module))
        Module.__init__(made)
        self._modules.append(made)
        for table, items in (("_parameters", parameters), ("_buffers", buffers)):
            vars(made)[table].update(self.value(items))
        vars(made)["_clnet_transient"].update(self.value(transient))
        for key, value in self.value(modules).items():
            made.add_module(key, value)
        vars(made).update(self.value(plain))
        return made

    def _object(self, kind: str, attributes: Any) -> Any:
        found = self._kind(kind, object)
        if not is_plain_class(found):
            raise CheckpointError(self._file, "the class keeps attributes alone", module=kind)
        made = object.__new__(found)
        self._modules.append(made)
        vars(made).update(self.value(attributes))
        return made

    def _stated(self, kind: str, state: Any) -> Any:
        found = self._kind(kind, object)
        if not is_stateful_class(found):
            raise CheckpointError(self._file, "the class takes a state back", module=kind)
        made = object.__new__(found)
        self._modules.append(made)
        made.__setstate__(self.value(state))
        return made

    def _member(self, kind: str, name: str) -> Any:
        members = self._kind(kind, Enum).__members__
        if name not in members:
            law = "the enumeration has the member"
            raise CheckpointError(self._file, law, module=kind, name=name)
        return members[name]

    def _kind(self, kind: str, base: type) -> Any:
        """The class of that name, a subclass of ``base``."""
        self._require_making(_SORTS[base], kind)
        place, _, name = kind.partition(":")
        found: Any = sys.modules.get(place)
        for part in name.split("."):
            found = getattr(found, part, None)
        if not (isinstance(found, type) and issubclass(found, base)):
            hint = "Define or import it before the file is loaded, under that name"
            raise CheckpointError(self._file, "the class is loaded", module=kind, remedy=hint)
        return found

    def _named(self, name: str) -> Any:
        self._require_making("a class or a function", name)
        found = of_name(name)
        if found is None:
            hint = "Define or import it before the file is loaded, under that name"
            raise CheckpointError(self._file, "it is loaded", name=name, remedy=hint)
        return found

    def _require_making(self, sort: str, kind: str) -> None:
        if not self._making and kind not in SAFE:
            hint = "Pass weights_only=False if objects are to be made, or save a state_dict()"
            law = f"the file holds {sort}, and weights_only is not False"
            raise CheckpointError(self._file, law, module=kind, remedy=hint)

    def _sparse(self, places: Any, values: Any, size: Any, *given: Any) -> Tensor:
        coalesced, layout, wanted = given
        made = sparse_coo_tensor(places, values, size, is_coalesced=coalesced)
        made = made if layout == made.layout.name else made.to_sparse(layout=WORDS[layout])
        return made.requires_grad_(wanted)

    def _tensor(self, name: str, form: int) -> Tensor:
        if (name, form) not in self._made:
            first = next((t for (n, _), t in self._made.items() if n == name), None)
            array = self._shared.get(name) if first is None else first.array
            if array is None:
                array = Array.from_numpy(self._arrays[name], self._device)
            wanted = bool(form & 1)
            plain = Tensor(array)
            made = Parameter(plain, wanted) if form & 2 else plain.requires_grad_(wanted)
            self._made[name, form] = made
        return self._made[name, form]


def _op_named(name: str) -> Any:
    """A function of ``nn.functional``, or an op; None if there is none of that name."""
    return getattr(functional, name, None) or getattr(ops, name, None)


def _name_of(f: Any) -> str:
    if isinstance(f, str | os.PathLike):
        return os.fspath(f)
    if not hasattr(f, "write"):
        raise ArgumentError("save", "f is a path or a binary file", f=shown(f))
    return str(getattr(f, "name", "a file object"))
