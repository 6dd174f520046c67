"""``nn.parallel.scatter_gather``: parts of arguments, whole results, by PyTorch's old names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .data_parallel import gather as gather
from .data_parallel import scatter as scatter

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments and named arguments for each device.

    Args:
        inputs: arguments; their tensors are divided.
        kwargs: the same by name.
        target_gpus: the devices.
        dim: the axis along which they are divided.
    """
    both = scatter((tuple(inputs), dict(kwargs or {})), target_gpus, dim)
    return tuple(part for part, _ in both), tuple(named for _, named in both)
