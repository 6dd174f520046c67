"""Arrays of a file that shared memory when they were saved, and do again when they are loaded.

Each is stored whole, so that any reader of safetensors finds it under its name; beside them the
file says how those that overlapped lay in one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..array import Array
from ..device import Device
from ..values.shapes import last_place

Group = list[list[Any]]
"""Of arrays that overlap: name, place of the first element, and strides, in elements."""


def groups_of(arrays: Mapping[str, Array]) -> list[Group]:
    """Those arrays that overlap others, with their places.

    Args:
        arrays: names to arrays.
    """
    spans: dict[Any, list[tuple[int, int, str]]] = {}
    for name, array in arrays.items():
        if 0 not in array.shape:
            end = array.offset + last_place(array.shape, array.strides)
            spans.setdefault((array.storage, array.dtype), []).append((array.offset, end, name))
    found: list[Group] = []
    for of_storage in spans.values():
        of_storage.sort()
        members, start, end = list[str](), 0, -1
        for begin, last, name in [*of_storage, (np.inf, np.inf, "")]:
            if begin <= end:
                members.append(name)
                end = max(end, last)
                continue
            # With gaps that nobody has it would be larger than what is there.
            if len(members) > 1 and end - start < sum(_count(arrays[m]) for m in members):
                placed = [(m, arrays[m].offset - start, arrays[m].strides) for m in members]
                found.append([[m, place, list(strides)] for m, place, strides in placed])
            members, start, end = [name], begin, last
    return found


def laid(
    groups: Sequence[Group], arrays: Mapping[str, np.ndarray], device: Device
) -> dict[str, Array]:
    """Device arrays of all that share memory.

    Args:
        groups: as :func:`groups_of` gave them; a file's may say anything.
        arrays: the file's, by name.
        device: where they go.

    Raises:
        ValueError: if they do not lie where they should, so that memory would be made or read that
            is not theirs.
    """
    made: dict[str, Array] = {}
    for group in groups:
        views = [(arrays[name], int(place), tuple(map(int, s))) for name, place, s in group]
        total = sum(a.size for a, _, _ in views)
        for a, place, strides in views:
            wrong = len(strides) != a.ndim or place < 0 or min(strides, default=0) < 0
            if wrong or not a.size or place + last_place(a.shape, strides) >= total:
                raise ValueError("arrays that share memory lie outside of it")
        size = max(place + last_place(a.shape, strides) for a, place, strides in views) + 1
        flat = np.zeros(size, views[0][0].dtype)
        for a, place, strides in views:
            steps = tuple(s * flat.itemsize for s in strides)
            np.lib.stride_tricks.as_strided(flat[place:], a.shape, steps)[...] = a
        whole = Array.from_numpy(flat, device)
        for (name, _, _), (a, place, strides) in zip(group, views, strict=True):
            made[name] = whole.view(a.shape, strides, place)
    return made


def _count(array: Array) -> int:
    return int(np.prod(array.shape, dtype=np.int64))
