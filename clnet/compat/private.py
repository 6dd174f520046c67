"""``torch._utils``: a few private functions of PyTorch's that packages call."""

from __future__ import annotations

from typing import Any

from ..values.dtypes import DType

__all__: list[str] = []


def _get_device_index(  # pyright: ignore[reportUnusedFunction] - for packages
    device: Any,
    optional: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    allow_cpu: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> int:
    """The number of a device; 0 where none is said."""
    if isinstance(device, int):
        return device
    named = str(device).partition(":")[2] if device is not None else ""
    return int(named) if named.isdecimal() else 0


def _element_size(dtype: DType) -> int:  # pyright: ignore[reportUnusedFunction] - for packages
    """Bytes of an element."""
    return dtype.itemsize
