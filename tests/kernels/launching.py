"""What tests of kernels without ops share: targets of both shapes, poisoned outputs, views."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Device, Launch, Target, device


def cpu_shaped(opened: Device) -> Target:
    """The device's target, as a CPU's, with vectors that blocks of channels can have."""
    lanes = opened.traits.simd_width
    traits = replace(
        opened.traits, dedicated_local_memory=False, simd_width=lanes if lanes > 1 else 16
    )
    return replace(opened.target, traits=traits)


def gpu_shaped(opened: Device) -> Target:
    """The device's target, as a GPU's with the least that AMD's and Intel's have."""
    traits = replace(
        opened.traits,
        dedicated_local_memory=True,
        simd_width=1,
        max_group_size=min(opened.traits.max_group_size, 256),
        local_memory_bytes=32768,
        large_local_memory_bytes=0,
    )
    return replace(opened.target, traits=traits)


both_shapes = pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers, the same each time."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_device(values: np.ndarray, *, opened: Device | None = None) -> Array:
    """A copy on the device."""
    return Array.from_numpy(np.asarray(values), opened or device())


def poisoned(shape: tuple[int, ...], dtype: type | np.dtype = np.float32) -> Array:
    """An output that holds NaN, or an integer no kernel writes, before the launch."""
    kind = np.dtype(dtype)
    value = np.nan if kind.kind == "f" else 1 if kind.kind == "b" else np.iinfo(kind).max - 7
    return on_device(np.full(shape, value, kind))


def offset(values: np.ndarray) -> Array:
    """The same values, not at the start of their storage."""
    values = np.asarray(values)
    whole = on_device(
        np.concatenate([values.ravel()[:0], np.zeros(5, values.dtype), values.ravel()])
    )
    return whole.view(values.shape, Array.abstract(values.shape, whole.dtype, device()).strides, 5)


def run(launches: list[Launch]) -> None:
    """Enqueue them in order."""
    for launch in launches:
        device().queue.launch(launch)
