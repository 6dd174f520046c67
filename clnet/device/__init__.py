"""Devices, queues, memory and programs: the only part of clnet that knows pyopencl."""

from .bound import BoundLaunches
from .device import Device, current_device, device, devices
from .discovery import Found
from .launch import HostScalar, KernelSource, Launch, Scratch, Storage
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
    set_memory_limit,
    synchronize,
)
from .pool import BufferPool, PoolStatistics, size_class
from .profiler import Profile, profile
from .program import ProgramStatistics
from .queue import Observer, Queue, Record
from .traits import DeviceIdentity, DeviceKind, DeviceTraits, Target

__all__ = [
    "BoundLaunches",
    "BufferPool",
    "Device",
    "DeviceIdentity",
    "DeviceKind",
    "DeviceTraits",
    "Found",
    "HostScalar",
    "KernelSource",
    "Launch",
    "Observer",
    "PoolStatistics",
    "Profile",
    "ProgramStatistics",
    "Queue",
    "Record",
    "Scratch",
    "Storage",
    "Target",
    "current_device",
    "device",
    "devices",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "profile",
    "reset_peak_memory_stats",
    "set_memory_limit",
    "size_class",
    "synchronize",
]
