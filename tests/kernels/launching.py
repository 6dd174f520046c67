"""What tests of kernels without ops share: targets of both shapes, poisoned outputs, views."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Device, Launch, Target, device
from clnet.kernels.conv import conv_implicit, conv_implicit_weight
from clnet.kernels.gemm import gemm_tiled
from clnet.kernels.tile import Tile
from tests.groups import are_compiled_wrongly


def cpu_shaped(opened: Device) -> Target:
    """The device's target, as a CPU's, with vectors that blocks of channels can have."""
    lanes = opened.traits.simd_width
    traits = replace(
        opened.traits, dedicated_local_memory=False, simd_width=lanes if lanes > 1 else 16
    )
    return replace(opened.target, traits=traits)


def compiled_rightly(target: Target, opened: Device) -> Target:
    """The target; skips what tiles in local memory where the driver is known to compile it wrongly.

    PoCL 5.0 for AVX-512 gives wrong numbers, always the same ones, where work-items are run as
    loops between barriers and a tile has 32 rows; with POCL_WORK_GROUP_METHOD=cbs, where these
    tests are not skipped, all of them pass. No CPU is given such a kernel but by tests.
    """
    wrong = are_compiled_wrongly(opened)
    as_loops = os.environ.get("POCL_WORK_GROUP_METHOD") != "cbs"
    if target.traits.dedicated_local_memory and wrong and as_loops:
        pytest.skip("PoCL 5.0 miscompiles tiles for AVX-512; POCL_WORK_GROUP_METHOD=cbs runs them")
    return target


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


def in_small_groups(target: Target) -> Target:
    """The target with groups of 8 items: lines of all lengths from 8 on take one kernel then.

    For what is not about how many items share a line, which are part of a kernel's text.
    """
    return replace(target, traits=replace(target.traits, max_group_size=8))


# PoCL takes a third or half of a larger tile's time for these. The ring's copies go around
# registers, as a GPU's do, without its asynchronous instructions.
SMALL_TILE = ((Tile(32, 32, 8, 4, 4, 4), 1.0),)
SMALL_RING = ((Tile(16, 32, 8, 4, 4, 4, 3, "direct", ahead=True), 1.0),)


def in_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's products and implicit convolutions in one small tile, for what is not about tiles."""
    for module in (gemm_tiled, conv_implicit, conv_implicit_weight):
        monkeypatch.setattr(module, "TILINGS", SMALL_TILE)


def gpu_copying_directly(monkeypatch: pytest.MonkeyPatch) -> Device:
    """The session's device, as a GPU whose tiles' copies go around registers."""
    opened = device()
    monkeypatch.setattr(gemm_tiled, "TILINGS", SMALL_RING)
    monkeypatch.setattr(opened, "target", gpu_shaped(opened))
    return opened


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


def names_launched(opened: Device, patch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels that ops launch on the device from now on, until the test ends."""
    names: list[str] = []
    run = opened.queue.run

    def watched(launches: Sequence[Launch], *made: Any) -> None:
        names.extend(launch.kernel.name for launch in launches)
        run(launches, *made)

    patch.setattr(opened.queue, "run", watched)
    return names
