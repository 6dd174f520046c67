"""Caffe's ``.caffemodel`` files: the weights of layers, by the layers' names.

They are messages of protobuf (``NetParameter`` of Caffe's ``caffe.proto``), of which the few fields
that hold names, types and blobs are read; layers before ``V1LayerParameter`` are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cursor import Cursor, opened

__all__ = ["load_caffe"]

# Numbers of fields.
_LAYERS_V1, _LAYERS = 2, 100
_V1 = {"name": 4, "kind": 5, "blob": 6}
_NEW = {"name": 1, "kind": 2, "blob": 7}
_OLD_SHAPE, _DATA, _DOUBLES, _SHAPE = (1, 2, 3, 4), 5, 8, 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Field(NamedTuple):
    """A field of a message: its number, its wire type, and a number or a message's cursor."""

    number: int
    wire: int
    value: Any


def load_caffe(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read the weights of a Caffe network.

    Args:
        path: the file.

    Returns:
        Names to arrays as the file has them, float32 or float64: a layer's first blob is
        ``name.weight``, its second ``name.bias``, further ones ``name.2`` and so on. Of batch norms
        ``name.running_mean`` and ``name.running_var``, divided by the factor that is stored beside
        them.

    Raises:
        MissingFileError: if there is none.
        CheckpointError: if it is damaged, or holds no layer.
    """
    cursor = opened(path)
    found: dict[str, NDArray[Any]] = {}
    layers = 0
    for field in _fields(cursor):
        if field.number in (_LAYERS_V1, _LAYERS) and field.wire == _BYTES:
            layers += 1
            for name, array in _layer(field.value, _NEW if field.number == _LAYERS else _V1):
                if name in found:
                    raise cursor.damaged("two layers have one name", name=repr(name))
                found[name] = array
    if not layers:
        raise cursor.damaged("it holds no layer of Caffe's")
    return found


def _fields(cursor: Cursor) -> Iterator[_Field]:
    """The fields of a message, in order."""
    while cursor.left:
        key = _varint(cursor)
        number, wire = key >> 3, key & 7
        if not number or wire not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
            raise cursor.damaged("not a message of protobuf", field=number, wire=wire)
        if wire == _VARINT:
            value: Any = _varint(cursor)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
            value = Cursor(cursor.name, cursor.take(_varint(cursor) if size is None else size))
        yield _Field(number, wire, value)


def _varint(cursor: Cursor) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = cursor.number("B")
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1)
    raise cursor.damaged("a number of protobuf has up to ten bytes")


def _layer(layer: Cursor, numbers: dict[str, int]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and weights of a layer."""
    name, kind, blobs = "", None, []
    for field in _fields(layer):
        if field.number == numbers["name"] and field.wire == _BYTES:
            name = field.value.text(field.value.left)
        elif field.number == numbers["kind"]:
            kind = bytes(field.value.data) if field.wire == _BYTES else field.value
        elif field.number == numbers["blob"] and field.wire == _BYTES:
            blobs.append(_blob(field.value))
    if kind == b"BatchNorm" and len(blobs) == 3 and blobs[2].size == 1:
        factor = blobs[2].reshape(())
        for blob, meaning in zip(blobs, ("mean", "var"), strict=False):
            with np.errstate(all="ignore"):  # any numbers may stand in a file
                scaled = blob / factor.astype(blob.dtype) if factor else np.zeros_like(blob)
            yield f"{name}.running_{meaning}", np.asarray(scaled)
        return
    for i, blob in enumerate(blobs):
        yield f"{name}.{('weight', 'bias')[i] if i < 2 else i}", blob


def _blob(blob: Cursor) -> NDArray[Any]:
    """An array: numbers packed or one by one, and its sizes in the new or the old fields."""
    parts: dict[int, list[NDArray[Any]]] = {_DATA: [], _DOUBLES: []}
    sizes: list[int] | None = None
    old = dict.fromkeys(_OLD_SHAPE, 0)
    for field in _fields(blob):
        if field.number in parts and field.wire != _VARINT:
            dtype = np.dtype(np.float32 if field.number == _DATA else np.float64)
            count, rest = divmod(field.value.left, dtype.itemsize)
            if rest:
                raise blob.damaged("numbers of a blob are whole", bytes=field.value.left)
            parts[field.number].append(field.value.array(dtype, (count,)))
        elif field.number == _SHAPE and field.wire == _BYTES:
            sizes = _sizes(field.value)
        elif field.number in old and field.wire == _VARINT:
            old[field.number] = field.value
    arrays = parts[_DATA] or parts[_DOUBLES]
    flat = np.concatenate(arrays) if arrays else np.zeros(0, np.float32)
    if sizes is None:
        sizes = [old[n] for n in _OLD_SHAPE]
    blob.require_sizes(sizes)
    if prod(sizes) != flat.size:
        raise blob.damaged("a blob has as many numbers as its sizes say", sizes=sizes)
    return flat.reshape(sizes)


def _sizes(shape: Cursor) -> list[int]:
    found: list[int] = []
    for field in _fields(shape):
        if field.number == 1 and field.wire == _VARINT:
            found.append(field.value)
        elif field.number == 1 and field.wire == _BYTES:
            while field.value.left:
                found.append(_varint(field.value))
    return found
