"""Which OpenCL devices there are, by the names users give them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from ..errors import ArgumentError, DeviceError
from ..values.settings import SETTINGS
from .traits import DeviceIdentity, DeviceKind, DeviceTraits

# Platforms are called by the first word of their name, but for those whose first word says nothing.
_ALIASES = {"portable": "pocl", "advanced": "amd"}
# Floats in a vector of the CPUs that LLVM knows. One that it does not know, being newer, it takes
# for an older one, while the driver still reports the vectors that are there: PoCL 3.0 says 16 on
# AMD's Zen 4, compiles for znver3, and LLVM 14 crashes in kernels of 16-wide vectors.
_LANES = {
    4: "x86-64 x86-64-v2 generic core2 penryn nehalem westmere silvermont goldmont btver1 amdfam10",
    8: "x86-64-v3 sandybridge ivybridge haswell broadwell skylake alderlake raptorlake meteorlake "
    "arrowlake lunarlake sierraforest bdver1 bdver2 bdver3 bdver4 btver2 znver1 znver2 znver3",
}
_LANES_OF = {name: lanes for lanes, names in _LANES.items() for name in names.split()}
# Registers of an item: Intel's GPUs have 4 KiB for eight items that run as one.
_REGISTERS, _REGISTERS_OF_EIGHT, _OF_EIGHT = 256, 128, "cl_intel_required_subgroup_size"
_KINDS = {
    cl.device_type.CPU: DeviceKind.CPU,
    cl.device_type.GPU: DeviceKind.GPU,
}


@dataclass(frozen=True)
class Found:
    """A device that can be used, or a platform that cannot.

    Attributes:
        selector: its name, ``"pocl:0"``.
        handle: the ``pyopencl.Device``, or None for a platform that was skipped.
        problem: why it was skipped, or None.
    """

    selector: str
    handle: Any
    problem: str | None = None

    @property
    def kind(self) -> DeviceKind:
        """The OpenCL device type."""
        return device_kind(self.handle)


def device_kind(handle: Any) -> DeviceKind:
    """The OpenCL type of a ``pyopencl.Device``."""
    return next((k for flag, k in _KINDS.items() if handle.type & flag), DeviceKind.ACCELERATOR)


def discover() -> tuple[Found, ...]:
    """Every device of every platform; a platform without any is kept with its reason."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # the loader reports an absent platform as an error
        return (Found("opencl", None, f"no OpenCL platform ({error})"),)
    found: list[Found] = []
    counts: Counter[str] = Counter()
    for platform in platforms:
        slug = "unknown"
        try:
            slug = _slug(platform.name)
            handles = platform.get_devices()
        except cl.Error as error:
            found.append(Found(slug, None, f"skipped: {error}"))
            continue
        if not handles:
            found.append(Found(slug, None, "skipped: the platform has no device"))
        for handle in handles:
            problem = _problem(handle)
            selector = f"{slug}:{counts[slug]}"
            counts[slug] += 1
            found.append(Found(selector, None if problem else handle, problem))
    return tuple(found)


def chosen(name: str | int | None, found: tuple[Found, ...]) -> Found:
    """The device a caller names; of None that of ``CLNET_DEVICE``, which an error then names.

    Arguments and errors as :func:`select` has them.
    """
    if name is not None:
        return select(name, found)
    return select(SETTINGS.device, found, asked_by="CLNET_DEVICE")


def select(
    name: str | int | None, found: tuple[Found, ...], *, asked_by: str | None = None
) -> Found:
    """The device a user names.

    Args:
        name: ``"nvidia:0"`` or ``"pocl"`` (a platform and a number, 0 when left out), ``"cpu"`` or
            ``"gpu"`` with or without a number, or None for the first GPU, else the first device.
        found: what there is.
        asked_by: where the name stands, for errors; None: in the call.

    Returns:
        The device.

    Raises:
        ArgumentError: if the name is not of that form.
        DeviceError: if there is no such device, or no device at all.
    """
    usable = [f for f in found if f.handle is not None]
    problems = "; ".join(f"{f.selector}: {f.problem}" for f in found if f.problem)
    if not usable:
        raise DeviceError(
            "device",
            "no usable OpenCL device found",
            found=problems or "none",
            remedy='Install an OpenCL driver: pip install "clnet[pocl]" runs on any CPU; '
            "clnet devices says what a GPU needs here",
        )
    if name is None:
        return next((f for f in usable if f.kind is DeviceKind.GPU), usable[0])
    if isinstance(name, int):
        counted = [f for f in usable if f.kind is DeviceKind.GPU] or usable
        if not 0 <= name < len(counted):
            have = ", ".join(f.selector for f in counted)
            raise DeviceError("device", "not found", number=name, have=have)
        return counted[name]
    asked = {} if asked_by is None else {"asked_by": asked_by}
    form = re.fullmatch(r"([a-z]+)(?::(\d+))?", name.strip().lower())
    if form is None:
        raise ArgumentError(
            "device",
            "a device is named like 'pocl:0', 'nvidia', 'cpu' or 'gpu'",
            name=repr(name),
            **asked,
        )
    word, index = form.group(1), int(form.group(2) or 0)
    matching = [f for f in usable if f.selector.split(":")[0] == word or f.kind.value == word]
    if index >= len(matching):
        have = ", ".join(f"{f.selector} ({f.handle.name.strip()})" for f in usable)
        remedies = [f"Skipped: {problems}"] if problems else []
        if word in ("cpu", "pocl"):
            remedies.append('pip install "clnet[pocl]" brings an OpenCL driver for any CPU')
        raise DeviceError(
            f"device {name!r}",
            "not found",
            have=have,
            **asked,
            remedy=". ".join(remedies) or None,
        )
    return matching[index]


def traits_of(handle: Any) -> DeviceTraits:
    """The numbers and capabilities of a ``pyopencl.Device``."""
    extensions = set(handle.extensions.split())
    gpu = device_kind(handle) is DeviceKind.GPU
    return DeviceTraits(
        kind=device_kind(handle),
        compute_units=handle.max_compute_units,
        simd_width=_lanes(handle),
        # Groups add up in trees, which halve them: of 12, 192 or 768 items that is 8, 128 or 512.
        max_group_size=1 << (handle.max_work_group_size.bit_length() - 1),
        local_memory_bytes=handle.local_mem_size,
        dedicated_local_memory=handle.local_mem_type == cl.device_local_mem_type.LOCAL,
        global_memory_bytes=handle.global_mem_size,
        max_allocation_bytes=handle.max_mem_alloc_size,
        base_align_bytes=max(handle.mem_base_addr_align // 8, 1),
        unified_memory=bool(handle.host_unified_memory) or device_kind(handle) is DeviceKind.CPU,
        float16="cl_khr_fp16" in extensions,
        float64="cl_khr_fp64" in extensions or bool(handle.double_fp_config),
        item_registers=_REGISTERS_OF_EIGHT if gpu and _OF_EIGHT in extensions else _REGISTERS,
    )


def extensions_of(handle: Any) -> list[str]:
    """What a ``pyopencl.Device`` can do beside what its version of OpenCL says."""
    return sorted(handle.extensions.split())


def _lanes(handle: Any) -> int:
    """Floats in the vectors that kernels should use: those the driver's compiler has."""
    reported = max(handle.native_vector_width_float, handle.preferred_vector_width_float, 1)
    if device_kind(handle) is not DeviceKind.CPU:
        return reported
    if SETTINGS.simd_width is not None:
        return SETTINGS.simd_width
    # PoCL's version ends in the target: "... HSTR: pthread-x86_64-unknown-linux-gnu-znver3".
    target = re.search(r"-(?:x86_64|i686)-.*?-gnu-(\S+)", handle.version)
    return reported if target is None else min(reported, _LANES_OF.get(target[1], reported))


def identity_of(handle: Any) -> DeviceIdentity:
    """Who a ``pyopencl.Device`` is."""
    platform = handle.platform
    return DeviceIdentity(
        platform=platform.name.strip(),
        platform_version=platform.version.strip(),
        name=handle.name.strip(),
        vendor=handle.vendor.strip(),
        driver=handle.driver_version.strip(),
        version=handle.version.strip(),
    )


def _slug(platform_name: str) -> str:
    words = re.findall(r"[a-z]+", platform_name.lower())
    first = words[0] if words else "unknown"
    return _ALIASES.get(first, first)


def _problem(handle: Any) -> str | None:
    try:
        if not handle.available:
            return "skipped: the device is not available"
        if not handle.compiler_available:
            return "skipped: the device has no compiler"
    except cl.Error as error:
        return f"skipped: {error}"
    return None
