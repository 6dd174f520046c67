"""Devices, queues, memory and programs: the only part of clnet that knows pyopencl.

What is in the room:

- **Devices**: `discovery` finds them by name, `device` opens one, `absent` stands for one that is
  not here; `install_hint` says what is missing, `forked` what a forked process must not use.
- **What kernels may know**: `traits` and `target`, and measured choices, `tunings`. What OpenCL
  does not say is tried: `probe`, `first_form`, `oversize`, `quirk`. Instructions of some devices
  are `matrix_units`, `warpgroups`, `integer_dot` and `bfloat16_dot`.
- **Memory**: `buffer_pool`, `workspace`, and `memory_figures` of them; pages of the host's by
  `backing` and `large_pages`. Bytes come and go by `staging`, `in_place` and `transfer`.
- **Launches**: `launch` is what is to run and `queue` the one door; `beside` has further queues.
  `handles` sets arguments; `bound` launches are a plan's, `kept` ones and an `op_sequence` are
  those of ops that come again, a `chain` is several as one.
- **Programs**: `program` goes from a text to kernels. Many are built `ahead`, in the processes of
  `builders`, which run `builder`; `claims` shares the work between processes, `binaries` are kept
  on disk. `apart`, `builtin_functions`, `linking`, `quiet_build` and `spared_headers` make
  compilers faster; `build_progress`, `build_times`, `driver_room` and `spills` tell of them.
- **What goes wrong**: in data, `fault`; in a call, `misfit` and `refusal`; in a driver, `first_use`
  and `guard`.
- **Who looks on**: `watch` and `recorder`.
"""

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
