"""MXNet's ``.params`` files: lists of dense arrays with names.

The layout is that of ``NDArray::Save`` in MXNet's ``src/ndarray/ndarray.cc``, of all its versions.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..values.dtypes import bfloat16
from .cursor import Cursor, opened

__all__ = ["HEAD", "load_mxnet"]

HEAD = (0x112).to_bytes(8, "little") + bytes(8)  # a number, and a field that is reserved
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DENSE = 0
_MOST_AXES = 32
_TYPES = {
    0: np.float32,
    1: np.float64,
    2: np.float16,
    3: np.uint8,
    4: np.int32,
    5: np.int8,
    6: np.int64,
    7: np.uint8,
    12: bfloat16.numpy,
}
_BOOL = 7


def load_mxnet(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read arrays that MXNet saved by name, parameters and auxiliary states.

    Args:
        path: the file.

    Returns:
        Names, without ``arg:`` and ``aux:``, to arrays, which may be written to; of a list without
        names ``"0"``, ``"1"`` ...

    Raises:
        MissingFileError: if there is none.
        CheckpointError: if it is damaged, or has sparse arrays.
    """
    cursor = opened(path)
    if bytes(cursor.take(min(len(HEAD), cursor.left))) != HEAD:
        raise CheckpointError(cursor.name, "not a file of MXNet's arrays")
    arrays: list[NDArray[Any]] = [_array(cursor) for _ in range(cursor.number("Q"))]
    count = cursor.number("Q")
    names = [str(i) for i in range(len(arrays))]
    if count:
        if count != len(arrays):
            raise cursor.damaged("each array has a name", arrays=len(arrays), names=count)
        texts = (cursor.text(cursor.number("Q")) for _ in arrays)
        names = [text.removeprefix("arg:").removeprefix("aux:") for text in texts]
    if len({*names}) < len(names) or cursor.left:
        raise cursor.damaged("names are different, and nothing follows them", left=cursor.left)
    return dict(zip(names, arrays, strict=True))


def _array(cursor: Cursor) -> NDArray[Any]:
    magic = cursor.number("I")
    if magic in (_V2, _V3) and (kind := cursor.number("i")) != _DENSE:
        raise cursor.damaged("sparse arrays are not read", storage=kind)
    if magic in (_V1, _V2, _V3):
        axes, size = cursor.number("i"), "q"
    else:  # before them an array began with its number of axes
        axes, size = magic, "I"
    if axes > _MOST_AXES:
        raise cursor.damaged("an array has fewer axes", axes=axes)
    shape = [cursor.number(size) for _ in range(axes)]
    if axes < 0 or (axes == 0 and magic != _V3):  # there is no array; it has no further fields
        return np.zeros(0, np.float32)
    cursor.take(8)  # the device that it lay on
    kind = cursor.number("i")
    if kind not in _TYPES:
        raise cursor.damaged("an array has no such type", type=kind)
    found = cursor.array(_TYPES[kind], shape)
    return found != 0 if kind == _BOOL else found
