"""Lists of tensors, as optimisers of PyTorch's kind take them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor

__all__ = ["group_by_device_and_dtype"]


def group_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]],
    with_indices: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """Lists of one length, cut alike: by device and dtype of the first list's tensors.

    Args:
        tensorlistlist: the lists.
        with_indices: whether the places in the whole lists are given; else none are.

    Returns:
        For each device and dtype the parts of the lists, and the places.
    """
    found: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]] = {}
    for place, first in enumerate(tensorlistlist[0]):
        key = (None, None) if first is None else (first.device, first.dtype)
        lists, places = found.setdefault(key, ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            if whole:
                part.append(whole[place])
        if with_indices:
            places.append(place)
    return found


def _has_foreach_support(tensors: Sequence[Tensor], device: Any) -> bool:  # for programs
    """Whether functions of lists take them: always."""
    return True


def _device_has_foreach_support(device: Any) -> bool:  # for programs
    """Whether functions of lists run there: everywhere."""
    return True


_group_tensors_by_device_and_dtype = group_by_device_and_dtype
