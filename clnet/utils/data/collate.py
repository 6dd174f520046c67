"""A batch of examples: numbers and arrays become tensors, containers keep their kind."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import DtypeError, ShapeError
from ...tensor import Tensor, tensor

Make = Callable[[np.ndarray], Any]
np_str_obj_array_pattern = re.compile("[SaUO]")
"""Kinds of NumPy's arrays that are no numbers, as packages look for them."""


class OnHost:
    """An array that becomes a tensor where it is unpickled: workers need no device for theirs."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __reduce__(self) -> tuple[Any, ...]:
        return tensor, (self.array,)


default_collate_fn_map: dict[Any, Callable[..., Any]] = {}
"""Classes of examples, or tuples of such, and what makes a batch of them, which programs add to."""


def _users_way(first: Any) -> Callable[..., Any] | None:
    """What programs have said of an example's class, or of one above it."""
    if not default_collate_fn_map:
        return None
    found = default_collate_fn_map.get(type(first))
    above = (make for kind, make in default_collate_fn_map.items() if isinstance(first, kind))
    return next(above, None) if found is None else found


def default_collate(batch: Sequence[Any]) -> Any:
    """The examples as one: tensors, arrays and numbers stacked, containers of them alike.

    Args:
        batch: examples of one structure. Tensors and arrays of one shape are stacked to ``(n,
            ...)``; Python floats become float64, whole numbers int64; texts stay a list; mappings,
            named tuples and sequences are gone into, tuples become lists.

    Returns:
        The batch.

    Raises:
        DtypeError: if an example is of another type.
        ShapeError: if sequences or arrays differ in size.

    Example:
        >>> batch = default_collate([{"x": 1, "y": [0.5]}, {"x": 2, "y": [1.5]}])
        >>> batch["x"].tolist(), batch["y"][0].tolist()
        ([1, 2], [0.5, 1.5])
    """
    return collated(batch, tensor)


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """Tensors of one shape, stacked.

    Args:
        batch: the tensors.
        collate_fn_map: is for containers, and taken from those that ask for all such functions.

    Returns:
        ``(n, ...)``, of n tensors.
    """
    return ops.stack(tuple(batch))


def collated(batch: Sequence[Any], make: Make) -> Any:
    """As :func:`default_collate`.

    Args:
        batch: the examples.
        make: what becomes of an array: :func:`tensor`, or :class:`OnHost` in a worker.
    """
    way = _users_way(batch)  # of what a data set gave as one
    first = batch[0] if way is None else None
    way = way or _users_way(first)
    if way is not None:
        return way(batch, collate_fn_map=default_collate_fn_map)
    if isinstance(first, Tensor):
        return ops.stack(tuple(batch))
    if _is_array(first):
        return make(_stacked(batch))
    if isinstance(first, bool | int | float):
        host = np.asarray(batch, np.float64 if isinstance(first, float) else None)
        mixed = host.dtype == np.float64 and not isinstance(first, float)  # as PyTorch: float32
        return make(host.astype(np.float32) if mixed else host)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _mapping(first, {key: collated([x[key] for x in batch], make) for key in first})
    if isinstance(first, Sequence):
        sizes = {len(x) for x in batch}
        if len(sizes) != 1:
            law = "sequences in a batch have one length"
            raise ShapeError("default_collate", law, lengths=sorted(sizes))
        parts = [collated(part, make) for part in zip(*batch, strict=True)]
        return _sequence(first, parts)
    raise DtypeError(
        "default_collate",
        "a batch holds tensors, NumPy arrays, numbers, texts, mappings or sequences",
        type=type(first).__name__,
        remedy="Give the loader a collate_fn",
    )


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, in containers too; everything else stays.

    Args:
        data: an example of a loader without batches.
    """
    return converted(data, tensor)


def converted(data: Any, make: Make) -> Any:
    """As :func:`default_convert`; ``make`` as for :func:`collated`."""
    if _is_array(data) and not isinstance(data, Tensor):
        array = np.asarray(data)
        return data if array.dtype.kind in "SUO" else make(array)
    if isinstance(data, Mapping):
        return _mapping(data, {key: converted(value, make) for key, value in data.items()})
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return [converted(value, make) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _sequence(data, [converted(value, make) for value in data])
    return data


def _is_array(value: Any) -> bool:
    """NumPy's, or what NumPy can read: PyTorch's tensors that torchvision's transforms make."""
    if isinstance(value, np.ndarray | np.generic):
        return not isinstance(value, np.str_ | np.bytes_)
    return hasattr(type(value), "__array__") and hasattr(type(value), "shape")


def _stacked(batch: Sequence[Any]) -> np.ndarray:
    arrays = [np.asarray(x) for x in batch]
    if arrays[0].dtype.kind in "SUO":
        law = "arrays hold numbers"
        raise DtypeError("default_collate", law, dtype=arrays[0].dtype)
    shapes = {a.shape for a in arrays}
    if len(shapes) != 1:
        law = "arrays in a batch have one shape"
        raise ShapeError("default_collate", law, shapes=sorted(shapes))
    return np.stack(arrays)


def _mapping(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """The values in a mapping of another's type, or a dict where that takes no such argument."""
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)
            made.update(values)
            return made
        return type(like)(values)  # pyrefly: ignore[bad-argument-count] - if it can be made of a dict
    except TypeError:
        return values


def _sequence(like: Sequence[Any], values: list[Any]) -> Any:
    """The values in a sequence of another's type, or a list where that takes no such argument."""
    if isinstance(like, tuple):
        return type(like)(*values) if hasattr(like, "_fields") else values
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)
            for k, value in enumerate(values):
                made[k] = value
            return made
        return type(like)(values)  # pyrefly: ignore[bad-argument-count] - if it can be made of a list
    except (TypeError, ShapeError):  # of a bytearray: a tensor of several elements is no byte
        return values
