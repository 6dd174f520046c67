"""What a device reaches at best: products of large matrices and copies, measured once and kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..array import Array
from ..device import Device, Launch
from ..kernels.gemm import gemm
from ..kernels.moving import copy
from ..values.cache import Shelf, shelf
from ..values.dtypes import float32
from ..values.settings import SETTINGS

_GEMM_SIZES = (1024, 2048, 4096)
_COPY_BYTES = 256 * 2**20
_ROUNDS = 5
_ENOUGH_SECONDS = 1.0
_DISTURBING = 0.1  # of the processors' time, spent by others


@dataclass(frozen=True)
class Limits:
    """The rates that fractions are given of.

    Attributes:
        gflops: float32 products of square matrices, the best of some sizes.
        gbytes: copies of a buffer far larger than caches; bytes read and bytes written count.
        disturbed: whether others kept the machine busy meanwhile; then they are too low.
    """

    gflops: float
    gbytes: float
    disturbed: bool = False

    def text(self) -> str:
        """One line."""
        rates = f"gemm {self.gflops:,.1f} GFLOP/s, copy {self.gbytes:,.1f} GB/s"
        busy = (
            ", too low: the machine was busy with other things; clnet bench limits measures again"
        )
        return rates + busy if self.disturbed else rates


def known_limits(device: Device) -> Limits | None:
    """The limits measured earlier, or None.

    Args:
        device: whose.
    """
    kept = _shelf().read(_key(device))
    return None if kept is None else Limits(**json.loads(kept))


def measured_limits(device: Device, *, again: bool = False) -> Limits:
    """The limits; measured if they are not known, and kept in the cache folder.

    Args:
        device: whose.
        again: measure though they are known; what was measured on a busy machine always is.

    Returns:
        The limits.
    """
    known = None if again else known_limits(device)
    if known is not None and not known.disturbed:
        return known
    others = _Others()
    gflops, gbytes = _best_gemm(device), _best_copy(device)
    device.queue.workspace.release()  # which held copies of the largest matrices
    limits = Limits(gflops, gbytes, others.share() > _DISTURBING)
    _shelf().write(_key(device), json.dumps(asdict(limits)).encode())
    return limits


class _Others:
    """What others take of the machine's processors, from now on."""

    def __init__(self) -> None:
        self._start, self._own = _busy_seconds(), time.process_time()
        self._begin = time.perf_counter()

    def share(self) -> float:
        """Their part of the processors' time; 0 where the system does not say."""
        busy, seconds = _busy_seconds(), time.perf_counter() - self._begin
        if busy is None or self._start is None:
            return 0.0
        others = busy - self._start - (time.process_time() - self._own)
        return max(others, 0.0) / (seconds * (os.cpu_count() or 1))


def _busy_seconds() -> float | None:
    """Seconds that all processors together have worked since the machine started."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system, _, _, interrupts, soft, stolen = map(int, fields[1:9])
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    return (user + nice + system + interrupts + soft + stolen) / ticks


def _shelf() -> Shelf:
    return shelf(SETTINGS.cache_dir, "limits", suffix=".json")


def _key(device: Device) -> str:
    return f"limits 1 | {device.identity.key} | {device.traits.compute_units}"


def _best_gemm(device: Device) -> float:
    """GFLOP/s of the fastest size; sizes grow until one takes too long."""
    best = 0.0
    for size in _GEMM_SIZES:
        values = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
        a, b = Array.from_numpy(values, device), Array.from_numpy(values, device)
        out = _empty(device, (size, size))
        launches = gemm(device.target, out, a, b)
        seconds = _fastest(device, lambda launches=launches: _enqueue(device, launches))
        best = max(best, 2 * size**3 / seconds / 1e9)
        if 8 * seconds * _ROUNDS > _ENOUGH_SECONDS:
            break
    return best


def _best_copy(device: Device) -> float:
    """GB/s of a copy on the device: the driver's own, or our kernel's where that is faster."""
    nbytes = min(_COPY_BYTES, device.traits.max_allocation_bytes // 4)
    source, target = (_empty(device, (nbytes // 4,)) for _ in range(2))
    device.queue.copy(source.storage, target.storage, nbytes)  # pages that exist
    launches = copy(device.target, target, source)
    seconds = min(
        _fastest(device, lambda: device.queue.copy(target.storage, source.storage, nbytes)),
        _fastest(device, lambda: _enqueue(device, launches)),
    )
    return 2 * nbytes / seconds / 1e9


def _fastest(device: Device, run: Callable[[], None]) -> float:
    run()
    device.synchronize()
    times: list[float] = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        run()
        device.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def _enqueue(device: Device, launches: Sequence[Launch]) -> None:
    for launch in launches:
        device.queue.launch(launch)


def _empty(device: Device, shape: tuple[int, ...]) -> Array:
    out = Array.abstract(shape, float32, device)
    out.storage.materialize()
    return out
