"""Devices, queues, memory and programs: the only part of clnet that knows pyopencl."""

# isort: off
from .builders import EARLY as EARLY  # starts processes, if they are wanted, before all else

# isort: on
from .absent import AbsentDevice
from .beside import Beside, Pin
from .bfloat16_dot import BFLOAT16_DOTS, pair_macros
from .bound import BoundLaunches
from .buffer_pool import BlockSizes, BufferPool, PoolStatistics, size_class
from .chain import Chaining, are_short
from .device import (
    Device,
    DeviceName,
    cuda_device,
    current_device,
    device,
    devices,
    on_open,
    opened_devices,
    traits_for,
    use_as_cuda,
)
from .discovery import Found
from .fault import Check, users_line
from .integer_dot import DOTS, IntegerDot
from .kept import KeptLaunches
from .launch import HostScalar, KernelSource, Launch, Scratch, Storage
from .matrix_units import MatrixUnit, matrix_units
from .memory_figures import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
    set_memory_limit,
    synchronize,
)
from .op_sequence import Memory, OpAgain, OpSequence
from .program import Prepared, ProgramStatistics
from .queue import Queue
from .recorder import PHASES, Call, Command, Recorder
from .target import Target
from .traits import DeviceIdentity, DeviceKind, DeviceTraits
from .transfer import Passage, transfer
from .tunings import Tunings
from .warpgroups import WARPGROUP_UNITS, WarpgroupUnit, map_form
from .watch import CallObserver, Observer, Record, Watch

__all__ = [
    "BFLOAT16_DOTS",
    "DOTS",
    "PHASES",
    "WARPGROUP_UNITS",
    "AbsentDevice",
    "Beside",
    "BlockSizes",
    "BoundLaunches",
    "BufferPool",
    "Call",
    "CallObserver",
    "Chaining",
    "Check",
    "Command",
    "Device",
    "DeviceIdentity",
    "DeviceKind",
    "DeviceName",
    "DeviceTraits",
    "Found",
    "HostScalar",
    "IntegerDot",
    "KeptLaunches",
    "KernelSource",
    "Launch",
    "MatrixUnit",
    "Memory",
    "Observer",
    "OpAgain",
    "OpSequence",
    "Passage",
    "Pin",
    "PoolStatistics",
    "Prepared",
    "ProgramStatistics",
    "Queue",
    "Record",
    "Recorder",
    "Scratch",
    "Storage",
    "Target",
    "Tunings",
    "WarpgroupUnit",
    "Watch",
    "are_short",
    "cuda_device",
    "current_device",
    "device",
    "devices",
    "empty_cache",
    "map_form",
    "matrix_units",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "on_open",
    "opened_devices",
    "pair_macros",
    "reset_peak_memory_stats",
    "set_memory_limit",
    "size_class",
    "synchronize",
    "traits_for",
    "transfer",
    "use_as_cuda",
    "users_line",
]
