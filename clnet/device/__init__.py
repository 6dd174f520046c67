"""Devices, queues, memory and programs: the only part of clnet that knows pyopencl."""

from .device import Device, current_device, device, devices
from .discovery import Found
from .launch import HostScalar, KernelSource, Launch, Scratch, Storage
from .pool import BufferPool, PoolStatistics, size_class
from .program import ProgramStatistics
from .queue import BoundLaunch, Observer, Queue, Record
from .traits import DeviceIdentity, DeviceKind, DeviceTraits, Target

__all__ = [
    "BoundLaunch",
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
    "ProgramStatistics",
    "Queue",
    "Record",
    "Scratch",
    "Storage",
    "Target",
    "current_device",
    "device",
    "devices",
    "size_class",
]
