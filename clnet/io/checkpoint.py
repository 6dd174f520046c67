"""A nested training state in one safetensors file: its arrays by name, the rest as JSON.

It knows trees of Python values; files and bytes belong to ``state``.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, shortened
from ..values.containers import ByPosition
from .state import RESERVED_NAME, load_state, save_state

Value: TypeAlias = (
    "dict[str, Value] | list[Value] | tuple[Value, ...] | NDArray[Any] | str | float | int | None"
)

_TREE = "clnet.checkpoint"
_ARRAY, _TUPLE, _FLOAT = "$array", "$tuple", "$float"


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Value]) -> None:
    """Write a nested state; :func:`load_checkpoint` gives it back exactly.

    Arrays are stored under their path (``model.conv1.weight``), so that any reader of safetensors
    finds them; the tree, with every other value, is JSON in the metadata.

    Args:
        path: the file; its folder exists. An old file is replaced atomically.
        state: arrays, numbers, texts, booleans and None, in dicts (with text keys), lists and
            tuples.

    Raises:
        CheckpointError: if a value cannot be stored (its path is named) or the file not be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(f"{folder}/c.safetensors", {"epoch": 3, "betas": (0.9, 0.999)})
        ...     load_checkpoint(f"{folder}/c.safetensors")
        {'epoch': 3, 'betas': (0.9, 0.999)}
    """
    arrays: dict[str, NDArray[Any]] = {}
    try:
        tree = json.dumps(_flatten(state, "", arrays), allow_nan=False)
    except _UnstorableError as error:
        raise CheckpointError(
            os.fspath(path), str(error), remedy="Store an array or a plain Python value"
        ) from None
    save_state(path, arrays, metadata={_TREE: tree})


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Value]:
    """Read what :func:`save_checkpoint` wrote.

    Args:
        path: the file.

    Returns:
        The state, equal to what was saved, types included.

    Raises:
        CheckpointError: if it is missing, damaged, or a safetensors file without a state.
    """
    arrays, metadata = load_state(path)
    if _TREE not in metadata:
        raise CheckpointError(
            os.fspath(path),
            "a safetensors file, but not a checkpoint of save_checkpoint",
            arrays=len(arrays),
            metadata=sorted(metadata),
            remedy="read it with load_state",
        )
    try:
        state = _unflatten(json.loads(metadata[_TREE]), arrays)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            os.fspath(path), "the checkpoint's tree is damaged", error=shortened(error)
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(
            os.fspath(path), "the checkpoint's tree is damaged", top=type(state).__name__
        )
    return state


class _UnstorableError(Exception):
    """A value that has no place in a checkpoint."""


def _flatten(value: Value, where: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """The JSON for ``value``; its arrays are put into ``arrays``."""
    if isinstance(value, np.ndarray):
        name = unused_name(where, arrays)
        arrays[name] = value
        return {_ARRAY: name}
    # Exact types: an IntEnum or a numpy.float64 would come back as something else.
    if type(value) is float and not math.isfinite(value):
        return {_FLOAT: repr(value)}  # JSON has no word for these
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_flatten(v, f"{where}.{i}", arrays) for i, v in enumerate(value)]
    if type(value) is tuple:
        return {_TUPLE: [_flatten(v, f"{where}.{i}", arrays) for i, v in enumerate(value)]}
    if type(value) is ByPosition:
        value = {str(key): v for key, v in value.items()}
    if isinstance(value, dict) and type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise _UnstorableError(f"a key of {where or 'the state'} is no text: {key!r}")
        return {
            escaped(key): _flatten(v, f"{where}.{key}" if where else key, arrays)
            for key, v in value.items()
        }
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise _UnstorableError(f"{where or 'the state'} is a {kind}, which cannot be stored")


def _unflatten(node: Any, arrays: dict[str, NDArray[Any]]) -> Value:
    if isinstance(node, list):
        return [_unflatten(v, arrays) for v in node]
    if not isinstance(node, dict):
        return node
    if _ARRAY in node:
        return arrays[node[_ARRAY]]
    if _TUPLE in node:
        return tuple(_unflatten(v, arrays) for v in node[_TUPLE])
    if _FLOAT in node:
        return float(node[_FLOAT])
    return {key.removeprefix("$"): _unflatten(v, arrays) for key, v in node.items()}


def escaped(key: str) -> str:
    """A user's key that starts with ``$`` gets a second one, so it never looks like a mark."""
    return f"${key}" if key.startswith("$") else key


def unused_name(where: str, arrays: dict[str, NDArray[Any]]) -> str:
    """``where``, or with a suffix: ``{"a.b": x, "a": {"b": y}}`` has the path ``a.b`` twice."""
    printable = where.encode("utf-8", "backslashreplace").decode()
    name, count = printable, 1
    while name in arrays or name == RESERVED_NAME:
        count += 1
        name = f"{printable}#{count}"
    return name
