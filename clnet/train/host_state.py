"""The state of models and optimisers away from the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from ..values.containers import again


def on_host(value: Any) -> Any:
    """A tree with NumPy arrays in place of tensors, in plain dicts whose keys are texts."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, Mapping):
        return {str(key): on_host(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return again(value, (on_host(v) for v in value))
    return value
