"""GGUF files, as llama.cpp writes them: tensors by name, blocks of integers as float32.

The format is ``docs/gguf.md`` of ggml's repository, versions 2 and 3, little end first.
"""

from __future__ import annotations

import os
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..values.dtypes import bfloat16
from .cursor import Cursor, opened

__all__ = ["MAGIC", "Gguf", "load_gguf"]

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_BLOCK = 32
_DEEPEST = 8
_MOST_AXES = 4
# Types of values of the metadata by number, in struct's letters.
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9
_PLAIN = {
    0: np.float32,
    1: np.float16,
    30: bfloat16.numpy,
    28: np.float64,
    24: np.int8,
    25: np.int16,
    26: np.int32,
    27: np.int64,
}
_Q4_0, _Q8_0 = 2, 8
# A scale, then 32 numbers: of 4 bits, the first 16 in the low halves of the bytes, or of 8.
_BLOCKS = {
    _Q4_0: np.dtype([("scale", "<f2"), ("numbers", "u1", _BLOCK // 2)]),
    _Q8_0: np.dtype([("scale", "<f2"), ("numbers", "i1", _BLOCK)]),
}


class Gguf(NamedTuple):
    """What a GGUF file holds.

    Attributes:
        arrays: names to arrays, in the file's order; sizes outermost first. F32, F16, BF16, F64 and
            integers as they are, Q8_0 and Q4_0 as float32.
        metadata: names to numbers, texts and lists of them.
    """

    arrays: dict[str, NDArray[Any]]
    metadata: dict[str, Any]


def load_gguf(path: str | os.PathLike[str]) -> Gguf:
    """Read a GGUF file; its sizes are compared with the file before anything is made of them.

    Args:
        path: the file.

    Returns:
        Its arrays, which may be written to, and its metadata.

    Raises:
        MissingFileError: if there is none.
        CheckpointError: if it is damaged, of another version, or a tensor is of a type that is not
            read (it is named).
    """
    cursor = opened(path)
    if bytes(cursor.take(min(4, cursor.left))) != MAGIC:
        raise CheckpointError(cursor.name, "not a GGUF file")
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise cursor.damaged("versions 2 and 3 are read, little end first", version=version)
    tensors, entries = cursor.number("Q"), cursor.number("Q")
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        _enter(cursor, metadata, _name(cursor), _value(cursor, cursor.number("I"), 0))
    infos: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(tensors):
        _enter(cursor, infos, _name(cursor), _info(cursor))
    step = metadata.get("general.alignment", 32)
    if type(step) is not int or not 0 < step <= 2**20:
        raise cursor.damaged("tensors lie at multiples of a small number", alignment=step)
    # Behind empty tensors alone a file may end before the place where they would begin.
    begin = min(-(-cursor.place // step) * step, len(cursor.data))
    arrays: dict[str, NDArray[Any]] = {}
    read = 0  # tensors do not share bytes: a small file does not fill the memory
    for name, info in infos.items():
        arrays[name] = _tensor(cursor, name, begin, info)
        read += cursor.place - begin - info[2]
        if read > len(cursor.data):
            raise cursor.damaged("tensors lie in one another", name=repr(name))
    return Gguf(arrays, metadata)


def _enter(cursor: Cursor, into: dict[str, Any], name: str, value: Any) -> None:
    if name in into:
        raise cursor.damaged("a name stands there twice", name=repr(name))
    into[name] = value


def _name(cursor: Cursor) -> str:
    return cursor.text(cursor.number("Q"))


def _value(cursor: Cursor, kind: int, depth: int) -> Any:
    if kind in _NUMBERS:
        return cursor.number(_NUMBERS[kind])
    if kind == _TEXT:
        return _name(cursor)
    if kind != _ARRAY or depth > _DEEPEST:
        raise cursor.damaged("a value has no such type", type=kind)
    inner, count = cursor.number("I"), cursor.number("Q")
    return [_value(cursor, inner, depth + 1) for _ in range(count)]


def _info(cursor: Cursor) -> tuple[tuple[int, ...], int, int]:
    """Shape, type and place of a tensor."""
    axes = cursor.number("I")
    if axes > _MOST_AXES:
        raise cursor.damaged("a tensor has up to four axes", axes=axes)
    shape = tuple(cursor.number("Q") for _ in range(axes))[::-1]
    return shape, cursor.number("I"), cursor.number("Q")


def _tensor(
    cursor: Cursor, name: str, begin: int, info: tuple[tuple[int, ...], int, int]
) -> NDArray[Any]:
    shape, kind, offset = info
    if begin + offset > len(cursor.data):
        raise cursor.damaged("a tensor lies behind the file's end", name=repr(name), offset=offset)
    cursor.place = begin + offset
    if kind in _PLAIN:
        return cursor.array(_PLAIN[kind], shape)
    if kind not in _BLOCKS:
        raise cursor.damaged(
            "F32, F16, BF16, F64, integers, Q8_0 and Q4_0 are read, not this tensor's type",
            name=repr(name),
            type=kind,
        )
    cursor.require_sizes(shape)
    if not shape or shape[-1] % _BLOCK:
        raise cursor.damaged(
            "rows of a tensor are whole blocks", name=repr(name), sizes=list(shape)
        )
    form = _BLOCKS[kind]
    blocks = np.frombuffer(cursor.take(prod(shape) // _BLOCK * form.itemsize), form)
    numbers = blocks["numbers"]
    if kind == _Q4_0:
        numbers = np.concatenate([numbers & 15, numbers >> 4], 1).astype(np.int8) - np.int8(8)
    with np.errstate(invalid="ignore"):  # a scale may be any number
        return (numbers * blocks["scale"].astype(np.float32)[:, None]).reshape(shape)
