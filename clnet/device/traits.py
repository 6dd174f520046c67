"""What kernels may know of a device: numbers and capabilities, never a name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from ..errors import ArgumentError, shortened
from ..values.lazy import lazy

_MAY_BE_NONE = {"local_memory_bytes", "large_local_memory_bytes"}


class DeviceKind(Enum):
    """The OpenCL device type."""

    CPU = "cpu"
    GPU = "gpu"
    ACCELERATOR = "accelerator"


@dataclass(frozen=True)
class DeviceTraits:
    """Numbers and capabilities of one device.

    Attributes:
        kind: the OpenCL device type, for showing; kernels look at the capabilities below.
        compute_units: cores or multiprocessors that run work-groups at the same time.
        simd_width: float32 lanes of the widest vector one work-item should use (1 on most GPUs).
        max_group_size: work-items a group may have, rounded down to a power of two.
        local_memory_bytes: local memory of a work-group.
        dedicated_local_memory: local memory is its own fast memory, as on GPUs, and work-items
            of a group run together; otherwise one work-item per group with vectors is faster.
        global_memory_bytes: memory of the device.
        max_allocation_bytes: largest single buffer.
        base_align_bytes: alignment of the device's buffers; a plan's regions keep it.
        unified_memory: the device shares the host's memory.
        float16: ``cl_khr_fp16`` arithmetic.
        float64: double precision.
        asynchronous_copies: work-items can start copies from global to local memory and go on;
            found out by trying, see :mod:`.probe`.
        large_local_memory_bytes: local memory that arrays declared in a kernel may take where it is
            more than the device reports, else 0; found out by trying.
        matrix_units: the units that multiply small matrices, by a name of
            :mod:`.matrix_units`' table, found out by trying; ``"emulated "`` before it is for tests
            of what uses them; ``""``: there are none.
        warpgroup_units: 128 items multiply at once, from boxes that a copy engine brings in
            (:mod:`.warpgroups`); found out by trying.
        item_registers: registers of 32 bits that a compiler gives a work-item at most.
    """

    kind: DeviceKind
    compute_units: int
    simd_width: int
    max_group_size: int
    local_memory_bytes: int
    dedicated_local_memory: bool
    global_memory_bytes: int
    max_allocation_bytes: int
    base_align_bytes: int
    unified_memory: bool
    float16: bool
    float64: bool
    asynchronous_copies: bool = False
    large_local_memory_bytes: int = 0
    matrix_units: str = ""
    warpgroup_units: bool = False
    item_registers: int = 256

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        """Worked out once: every launch looks something up by its device's traits."""
        return hash(tuple(getattr(self, f.name) for f in fields(self)))

    def __reduce__(self) -> tuple[Any, ...]:  # hashes differ from process to process
        return DeviceTraits.from_dict, (self.to_dict(),)

    @property
    def static_local_bytes(self) -> int:
        """Local memory that arrays declared in a kernel may take."""
        return max(self.local_memory_bytes, self.large_local_memory_bytes)

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name, as JSON has them; :meth:`from_dict` reads them."""
        return {**asdict(self), "kind": self.kind.value}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> DeviceTraits:
        """Traits from what :meth:`to_dict` gave; those with a default may be missing.

        Raises:
            ArgumentError: if another number is missing, unknown, of another type or too small.
        """
        types = {**get_type_hints(DeviceTraits), "kind": str}
        missing = {f.name for f in fields(DeviceTraits) if f.default is MISSING} - {*values}
        wrong = missing | {n for n, v in values.items() if type(v) is not types.get(n)}
        wrong |= {n for n, v in values.items() if type(v) is int and v < (n not in _MAY_BE_NONE)}
        if wrong or values["kind"] not in {k.value for k in DeviceKind}:
            raise ArgumentError(
                "traits",
                "they are the numbers that clnet devices --json prints",
                wrong=sorted(wrong) or ["kind"],
            )
        numbers = {name: value for name, value in values.items() if name != "kind"}
        return DeviceTraits(kind=DeviceKind(values["kind"]), **numbers)

    @staticmethod
    def from_file(path: str | Path) -> DeviceTraits:
        """Traits from what ``clnet devices --json`` printed: of one device, or its traits alone.

        Raises:
            ArgumentError: if the file holds something else, or cannot be read.
        """
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ArgumentError(
                "traits", f"cannot read the traits ({shortened(error)})", file=path
            ) from error
        if isinstance(found, list) and len(found) == 1:
            found = found[0]
        traits = found.get("traits", found) if isinstance(found, dict) else None
        if not isinstance(traits, dict):
            raise ArgumentError("traits", "the file holds one device", file=path)
        return DeviceTraits.from_dict(traits)


@dataclass(frozen=True)
class DeviceIdentity:
    """Who a device is: keys of caches and tunings, and lines in tables. Kernels never see it.

    Attributes:
        platform: name of the OpenCL platform.
        platform_version: its version text.
        name: the device's name.
        vendor: the device's vendor.
        driver: the driver's version text.
        version: the device's version text (PoCL names the CPU it compiles for there).
    """

    platform: str
    platform_version: str
    name: str
    vendor: str
    driver: str
    version: str

    @property
    def key(self) -> str:
        """One line that differs whenever compiled kernels or tunings may not be shared."""
        return " | ".join(
            (self.platform, self.platform_version, self.name, self.driver, self.version)
        )

    @property
    def kernels_folder(self) -> tuple[str, str]:
        """Where its compiled kernels are kept in the cache."""
        return "kernels", hashlib.sha256(self.key.encode()).hexdigest()[:16]
