"""What a device reaches at best: products of large matrices and copies, measured once and kept."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..array import Array
from ..device import Device, Launch
from ..kernels.gemm import gemm
from ..kernels.moving import copy
from ..values.atomic import replacing
from ..values.dtypes import float32
from ..values.settings import SETTINGS

_GEMM_SIZES = (1024, 2048, 4096)
_COPY_BYTES = 256 * 2**20
_ROUNDS = 5
_ENOUGH_SECONDS = 1.0


@dataclass(frozen=True)
class Limits:
    """The rates that fractions are given of.

    Attributes:
        gflops: float32 products of square matrices, the best of some sizes.
        gbytes: copies of a buffer far larger than caches; bytes read and bytes written count.
    """

    gflops: float
    gbytes: float

    def text(self) -> str:
        """One line."""
        return f"gemm {self.gflops:,.1f} GFLOP/s, copy {self.gbytes:,.1f} GB/s"


def known_limits(device: Device) -> Limits | None:
    """The limits measured earlier, or None.

    Args:
        device: whose.
    """
    try:
        fields = json.loads(_file(device).read_text(encoding="utf-8"))
        return Limits(float(fields["gflops"]), float(fields["gbytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measured_limits(device: Device, *, again: bool = False) -> Limits:
    """The limits; measured if they are not known, and kept in the cache folder.

    Args:
        device: whose.
        again: measure though they are known.

    Returns:
        The limits.
    """
    known = None if again else known_limits(device)
    if known is not None:
        return known
    limits = Limits(_best_gemm(device), _best_copy(device))
    _keep(device, limits)
    return limits


def _keep(device: Device, limits: Limits) -> None:
    path = _file(device)
    fields = {"device": device.identity.key, "compute_units": device.traits.compute_units}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(fields | asdict(limits), indent=1).encode())
    except OSError as error:
        warnings.warn(
            f"limits: cannot write {path.parent} ({error.strerror}); they are measured anew each "
            "time. Set CLNET_CACHE_DIR to a folder you may write",
            RuntimeWarning,
            stacklevel=3,
        )


def _file(device: Device) -> Path:
    key = f"{device.identity.key} | {device.traits.compute_units}"
    return SETTINGS.cache_dir / "limits" / f"{sha256(key.encode()).hexdigest()[:16]}.json"


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
