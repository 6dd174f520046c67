"""``clnet.cuda``: there is none, unless the user says which device programs mean by it.

``clnet.cuda.use("gpu")`` lets ``"cuda"`` be a name of the first GPU, whoever made it. Then
``is_available()`` is True and what else is here speaks of that device.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..device import (
    Device,
    cuda_device,
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
    synchronize,
    use_as_cuda,
)
from ..errors import DeviceError, OutOfDeviceMemory
from ..face.attribute import TYPE_NAMES, typed_class
from ..profiling import memory_snapshot, memory_stats, memory_summary
from ..random import get_rng_state as state_of_all
from ..random import manual_seed
from ..random import seed as seed_anew
from ..random import set_rng_state as set_state_of_all
from . import amp as amp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..tensor import Tensor

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
    "use",
]

use = use_as_cuda
OutOfMemoryError = OutOfDeviceMemory
manual_seed_all = manual_seed


def is_available() -> bool:
    """Whether :func:`use` named a device."""
    return cuda_device() is not None


is_initialized = is_available
_initialized = False  # programs then keep the one generator there is, which is all devices'


def device_count() -> int:
    """1 if :func:`use` named a device, else 0."""
    return int(is_available())


def _device() -> Device:
    found = cuda_device()
    if found is None:
        raise DeviceError(
            "cuda", "there is no CUDA", remedy="Say which device is meant: clnet.cuda.use('gpu')"
        )
    return found


def current_device() -> int:
    """0: there is one.

    Raises:
        DeviceError: if :func:`use` named none.
    """
    _device()
    return 0


def set_device(device: Any) -> None:
    """Taken: there is one device of that name."""


def get_device_name(device: Any = None) -> str:
    """What the driver calls the device.

    Raises:
        DeviceError: if :func:`use` named none.
    """
    return _device().identity.name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(0, 0): OpenCL has no such number.

    Raises:
        DeviceError: if :func:`use` named none.
    """
    _device()
    return (0, 0)


def get_arch_list() -> list[str]:
    """None: nothing was compiled for a kind of device."""
    return []


class _Properties:
    """What PyTorch's programs print of a device."""

    def __init__(self, device: Device) -> None:
        self.name = device.identity.name
        self.total_memory = device.traits.global_memory_bytes
        self.multi_processor_count = device.traits.compute_units
        self.major, self.minor = 0, 0


def get_device_properties(device: Any = None) -> _Properties:
    """Name, memory and compute units.

    Raises:
        DeviceError: if :func:`use` named none.
    """
    return _Properties(_device())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that the pool has not taken, and bytes there are.

    Raises:
        DeviceError: if :func:`use` named none.
    """
    total = _device().traits.global_memory_bytes
    return total - memory_reserved(_device()), total


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether :func:`use` named a device: bfloat16 is computed in float32 on all."""
    return is_available()


def is_tf32_supported() -> bool:
    """As :func:`is_available`: what TF32 stands for, products of rounded operands, is taken."""
    return is_available()


def init() -> None:
    """Devices are opened when they are first used."""


def ipc_collect() -> None:
    """Memory is not shared between processes."""


def seed() -> None:
    """Start the generator, which serves every device, from a number nobody chose."""
    seed_anew()


seed_all = seed


def get_rng_state(device: Any = None) -> Tensor:
    """As ``clnet.get_rng_state``: one generator serves every device."""
    return state_of_all()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """As ``clnet.set_rng_state``."""
    set_state_of_all(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the generator, which serves every device."""
    return [get_rng_state()]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Continue from what :func:`get_rng_state_all` gave; an empty list changes nothing."""
    for state in new_states[:1]:
        set_rng_state(state)


class Stream:
    """The only queue there is: work is done in the order in which it was asked for."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = device

    def synchronize(self) -> None:
        """Wait until all that was asked for is done."""
        synchronize()

    def wait_stream(self, stream: Any) -> None:
        """There is one order."""

    def wait_event(self, event: Any) -> None:
        """There is one order."""

    def query(self) -> bool:
        """Whether all is done; waits until it is."""
        synchronize()
        return True


_STREAM = Stream()


def current_stream(device: Any = None) -> Stream:
    """The only one."""
    return _STREAM


default_stream = current_stream


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """A block whose work goes to a stream: there is one."""
    yield


StreamContext = stream


class CUDAGraph:
    """Launches that are recorded and replayed: ``clnet.compile`` records those of a function."""

    def replay(self) -> None:
        """Refuse.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(
            "cuda.CUDAGraph",
            "launches are recorded with a function",
            remedy="Use clnet.compile(function), which records and replays them",
        )

    capture_begin = capture_end = replay


@contextmanager
def graph(cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None) -> Iterator[None]:
    """A block that would be recorded.

    Raises:
        DeviceError: always: see :class:`CUDAGraph`.
    """
    cuda_graph.replay()
    yield


def is_current_stream_capturing() -> bool:
    """False: a function is recorded by ``clnet.compile``."""
    return False


@contextmanager
def device(device: Any) -> Iterator[None]:
    """A block in which a device is the current one.

    Raises:
        DeviceError: if :func:`use` named none.
    """
    with _device():
        yield


class Event:
    """A moment of the host's clock, taken once the device has done what was asked for."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._seconds: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Wait for the device, and look at the clock."""
        synchronize()
        self._seconds = perf_counter()

    def synchronize(self) -> None:
        """It was waited for."""

    def query(self) -> bool:
        """Whether it was recorded."""
        return self._seconds is not None

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this moment to another.

        Raises:
            DeviceError: if one was not recorded.
        """
        if self._seconds is None or end_event._seconds is None:
            raise DeviceError("elapsed_time", "both events are recorded")
        return (end_event._seconds - self._seconds) * 1000.0


def __getattr__(name: str) -> Any:
    """``cuda.FloatTensor`` and the like, made when they are asked for."""
    if name not in TYPE_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, typed_class(name, "cuda"))


@contextmanager
def device_of(x: Any) -> Iterator[None]:
    """A block in which the device of a tensor is the current one."""
    with x.device:
        yield


@contextmanager
def _named(msg: str = "", *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block with a name, which ``clnet.profile()`` does not need."""
    yield


def _taken(*args: Any, **kwargs: Any) -> None:
    """A mark for a profiler that is not here."""


nvtx = ModuleType("clnet.cuda.nvtx", "Marks for NVIDIA's profilers.")
nvtx.__dict__.update(range=_named, range_push=_taken, range_pop=_taken, mark=_taken)
random = ModuleType("clnet.cuda.random", "The generator of all devices.")
random.__dict__.update(
    {n: globals()[n] for n in ("get_rng_state", "get_rng_state_all", "set_rng_state", "seed")},
    set_rng_state_all=set_rng_state_all,
    manual_seed=manual_seed,
    manual_seed_all=manual_seed,
)
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
profiler = ModuleType("clnet.cuda.profiler", "NVIDIA's profiler, which is not here.")
profiler.__dict__.update(start=_taken, stop=_taken, profile=_named)
memory = ModuleType("clnet.cuda.memory", "Memory of the device.")
memory.__dict__.update(
    {n: globals()[n] for n in ("empty_cache", "max_memory_allocated", "max_memory_reserved")},
    **{n: globals()[n] for n in ("memory_allocated", "memory_reserved", "memory_stats")},
    memory_summary=memory_summary,
    mem_get_info=mem_get_info,
    reset_peak_memory_stats=reset_peak_memory_stats,
    _dump_snapshot=_taken,
    _record_memory_history=_taken,
    _snapshot=memory_snapshot,
)
