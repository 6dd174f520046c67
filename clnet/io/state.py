"""Named arrays in a safetensors file, written whole or not at all; it nests nothing."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import CheckpointError, refusal, shortened
from ..values.atomic import replacing

RESERVED_NAME = "__metadata__"  # safetensors keeps the metadata under this name, beside the arrays
# The name stands in the value, too: a damaged name does not switch the checksum off.
_CHECKSUM = "clnet.crc32"
_OURS, _MARK = "clnet.", f"{_CHECKSUM}:"
# safetensors has no complex128: such arrays are stored as pairs of float64, and named here.
_PAIRS = "clnet.complex128"


class State(NamedTuple):
    """What a safetensors file holds.

    Attributes:
        arrays: names to arrays, sorted by name.
        metadata: names to texts.
    """

    arrays: dict[str, NDArray[Any]]
    metadata: dict[str, str]


def save_state(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays to a safetensors file, with a checksum; an old file is replaced atomically.

    Args:
        path: the file; its folder exists.
        arrays: names to arrays of any layout, of a dtype safetensors has (bfloat16 included), or
            complex128.
        metadata: names to texts, stored beside them.

    Raises:
        CheckpointError: if an array or a text cannot be stored, or the file not be written; an old
            file is then left as it was.

    Example:
        >>> import tempfile, numpy
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_state(f"{folder}/a.safetensors", {"w": numpy.eye(2)}, metadata={"step": "3"})
        ...     load_state(f"{folder}/a.safetensors").metadata
        {'step': '3'}
    """
    target = Path(path)
    content = packed(str(target), arrays, metadata)
    try:
        with replacing(target) as file:
            file.write(content)
    except OSError as error:
        raise CheckpointError(
            str(target),
            "the file cannot be written",
            error=refusal(error),
            remedy=f"Give a file in a folder that exists and can be written; not {target.parent}",
        ) from error


def packed(
    name: str, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The content of a safetensors file, with a checksum.

    Args:
        name: of the file, for errors.
        arrays: names to arrays, as :func:`save_state` takes them.
        metadata: names to texts.

    Raises:
        CheckpointError: if an array or a text cannot be stored.
    """
    dense = {key: _dense(name, key, array) for key, array in arrays.items()}
    texts = dict(metadata or {})
    for reserved in (_CHECKSUM, _PAIRS):
        if reserved in texts:
            raise CheckpointError(name, "this metadata name is reserved", name=reserved)
    wide = sorted(key for key, array in dense.items() if array.dtype == np.complex128)
    if wide:
        texts[_PAIRS] = json.dumps(wide)
        pairs = {k: dense[k].reshape(-1).view(np.float64).reshape(*dense[k].shape, 2) for k in wide}
        dense |= pairs
    try:
        return save(dense, {**texts, _CHECKSUM: _MARK + _checksum(dense, texts)})
    except (SafetensorError, TypeError, ValueError) as error:
        raise CheckpointError(
            name,
            "safetensors cannot store these arrays and texts",
            error=error,
            dtypes=sorted({str(array.dtype) for array in dense.values()}),
        ) from error


def load_state(path: str | os.PathLike[str]) -> State:
    """Read a safetensors file, whoever wrote it; its checksum is compared if it has one.

    Args:
        path: the file.

    Returns:
        Its arrays, which may be written to, and its metadata.

    Raises:
        CheckpointError: if it is missing, truncated, damaged or not a safetensors file.
    """
    source = Path(path)
    try:
        found = source.stat().st_size
    except OSError as error:
        raise CheckpointError(
            str(source), "the file cannot be read", error=refusal(error)
        ) from error
    try:
        with safe_open(source, "np") as file:
            metadata = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except Exception as error:  # of many kinds: a dtype that NumPy lacks, a name that is no text
        raise CheckpointError(
            str(source), "not a whole safetensors file", bytes=found, error=shortened(error)
        ) from error
    expected = metadata.pop(_CHECKSUM, None)
    if expected is None and any(
        k.startswith(_OURS) or _CHECKSUM in k + v for k, v in metadata.items()
    ):
        raise CheckpointError(
            str(source), "its checksum is missing, the file is damaged", metadata=sorted(metadata)
        )
    actual = None if expected is None else _checksum(arrays, metadata)
    expected = None if expected is None else expected.removeprefix(_MARK)
    if expected != actual:
        raise CheckpointError(
            str(source), "the checksum differs, the file is damaged", stored=expected, actual=actual
        )
    for name in json.loads(metadata.pop(_PAIRS, "[]")):
        arrays[name] = arrays[name].view(np.complex128)[..., 0]
    return State(arrays, metadata)


def _dense(file: str, name: str, array: NDArray[Any]) -> NDArray[Any]:
    if name == RESERVED_NAME:
        raise CheckpointError(file, "safetensors reserves this name", name=repr(name))
    if not isinstance(array, np.ndarray):
        raise CheckpointError(
            file, "a state holds NumPy arrays", name=repr(name), type=type(array).__name__
        )
    # Not ascontiguousarray, which gives a scalar array a dimension; the format is little-endian.
    little = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
    return np.asarray(array, dtype=little, order="C")


def _checksum(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """CRC of names, dtypes, shapes, texts and bytes; safetensors itself only compares sizes."""
    names = sorted(arrays)
    header = [(name, arrays[name].dtype.name, arrays[name].shape) for name in names]
    crc = zlib.crc32(json.dumps([sorted(metadata.items()), header]).encode())
    for name in names:
        crc = zlib.crc32(arrays[name].reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"
