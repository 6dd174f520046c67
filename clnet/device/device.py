"""A device opened for work: its context, queue, pool, workspace and programs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from numbers import Integral
from threading import RLock, local
from typing import Any

import pyopencl as cl

from ..errors import ArgumentError, DeviceError
from ..values import mode
from ..values.arguments import integer, shown
from ..values.cache import Shelf, shelf
from ..values.lazy import lazy
from ..values.process import in_child, process_lock
from ..values.settings import SETTINGS
from .ahead import Ahead
from .beside import Beside
from .bfloat16_dot import bfloat16_dot
from .binaries import loses_places
from .buffer_pool import BufferPool
from .builders import EARLY, FORKS, Line, most_processes
from .builtin_functions import POCL
from .discovery import Found, chosen, discover, identity_of, select, traits_of
from .first_use import FirstUses, first_uses
from .forked import INHERITANCE
from .guard import guarded
from .integer_dot import integer_dot
from .oversize import keeps_numbers
from .probe import Trial
from .program import ProgramCache
from .queue import Queue
from .target import Target
from .traits import DeviceIdentity, DeviceKind, DeviceTraits
from .tunings import tunings_of
from .watch import Watch
from .workspace import Arenas, Workspace


class _Cuda:
    """What PyTorch's programs mean by ``"cuda"``, once they were told."""

    name: str | None = None


_CUDA = _Cuda()
_BLOCKS = local()
_WORKSPACE_SHARE = 8
_WORKSPACE_MOST = 512 * 2**20


class Device:
    """One OpenCL device with all that clnet keeps for it. Get it from :func:`device`.

    Args:
        found: the device.
        threads: compute units of it to use, or None for all.
        part: which of several such parts; None: there is one.

    Attributes:
        chains: whether launches that follow each other are faster as one (:mod:`.chain`).
        open_start, open_seconds: when its context was created, and how long that took.
        poison: fills memory nobody has written yet, where ``CLNET_POISON`` asks for it.
        lock: held by whoever enqueues: for one op, one replay or one upload, never while waiting
            for a value. It guards the queue, the arguments of kernels, the pool, the workspace, the
            arenas and the staging memory. A thread holds that of one device at a time (a replay on
            several holds all of them, taken in one order, and waits for copies), and takes no
            other lock under it but those of caches and builds, under which this one is not taken.
        first_uses: which of the driver's kernels were compared with plainer ones; None: none is.
        inherited: whether it is the parent's of a process that was forked: it refuses everything.

    Raises:
        DeviceError: if the runtime refuses to open it.
    """

    poison: Callable[[Any, int], None] | None = None
    first_uses: FirstUses | None = None
    inherited = False
    _tried: tuple[str, Shelf] | None = None

    def __init__(self, found: Found, threads: int | None, part: int | None = None) -> None:
        self.name = found.selector if threads is None else f"{found.selector}[{threads}]"
        if part is not None:
            self.name = f"{found.selector}[{threads}:{part}]"
        handle = found.handle if threads is None else _partition(found, threads, part)
        self._found: Found | None = found if threads is None else None
        self.identity: DeviceIdentity = identity_of(found.handle)
        kept = shelf(SETTINGS.cache_dir, *self.identity.kernels_folder)
        self._tried = (found.selector, kept)
        traits = traits_of(handle)
        # A CPU has none of it, nor has a simulator, which says that it is one, too.
        tries = traits.dedicated_local_memory and not handle.type & cl.device_type.CPU
        trial, ahead = _begun(found, traits, kept, tries=tries)  # while the context is made
        self.open_start = time.perf_counter()
        context = self._opened(handle)
        self.open_seconds = time.perf_counter() - self.open_start
        watch = Watch()
        self.lock: Any = RLock()
        if trial is not None:
            traits = replace(traits, **trial.verdict()._asdict())
        traits = guarded(traits, self.identity, found.selector)
        self.traits: DeviceTraits = traits
        self.first_uses = first_uses(self.identity, traits)
        pocl = self.identity.platform == POCL
        copies = pocl and not traits.dedicated_local_memory
        about = {"header": pocl, "copies": copies, "loses_places": loses_places(self.identity)}
        room = SETTINGS.pocl_cache if pocl else None
        self.programs = ProgramCache(
            context, handle, self.identity.key, kept, watch, ahead, room=room, **about
        )
        # Threads of several processes on the same cores would wait for each other's.
        self.chains = copies and traits.compute_units > 1 and SETTINGS.ranks_here == 1
        workspace = Workspace(self)
        self.queue = Queue(context, handle, self.programs, workspace, watch, self.lock)
        self._beside = partial(Beside, context, handle, self.programs)
        if SETTINGS.poison:
            self.poison = self.queue.poison
        self.pool = self._pool_of(context, watch)
        self.arenas = Arenas(self)
        tunings = tunings_of(self.identity, self.traits, SETTINGS.tunings_dir)
        self.target = Target(self.traits, workspace_limit(self.traits), tunings)

    def _opened(self, handle: Any) -> Any:
        try:
            return cl.Context([handle])
        except cl.Error as error:
            raise DeviceError(
                f"device {self.name!r}", "the runtime cannot open it", status=error
            ) from error

    def _pool_of(self, context: Any, watch: Watch) -> BufferPool:
        """Buffers from the queue, as many as the settings allow; of the host's own no more."""
        limit = SETTINGS.memory_limit
        if limit is None and self.traits.unified_memory:
            limit = self.traits.global_memory_bytes
        return BufferPool(
            create=self.queue.create,
            finish=self.queue.wait,
            max_block=self.traits.max_allocation_bytes,
            keeps=partial(keeps_numbers, context),
            limit=limit,
            whole=self.traits.global_memory_bytes,
            watch=watch,
            poison=self.poison,
            lock=self.lock,
        )

    def __repr__(self) -> str:
        return f"clnet.device({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)

    def __enter__(self) -> Device:
        """Make it the current device until the ``with`` block ends."""
        self._blocks().append(mode.using(device=self))
        self._blocks()[-1].__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._blocks().pop().__exit__(*raised)

    def _blocks(self) -> list[AbstractContextManager[Any]]:
        """The ``with`` blocks of this device that this thread is in."""
        return vars(_BLOCKS).setdefault(self.name, [])

    @property
    def type(self) -> str:
        """``"cpu"`` or ``"gpu"``; ``"cuda"`` for the device that :func:`use_as_cuda` named."""
        return "cuda" if self.name == _CUDA.name else self.traits.kind.value

    @property
    def index(self) -> int:
        """Which of its platform's devices it is."""
        return int(re.sub(r"\[.*", "", self.name).rpartition(":")[2] or 0)

    @lazy
    def integer_dot(self) -> str:
        """How it multiplies small integers: a name of :data:`.integer_dot.DOTS`, once tried."""
        return "" if self._tried is None else integer_dot(*self._tried)

    @lazy
    def bfloat16_dot(self) -> str:
        """How it multiplies pairs of bfloat16: a name of :data:`.bfloat16_dot.BFLOAT16_DOTS`."""
        return "" if self._tried is None else bfloat16_dot(*self._tried)

    @lazy
    def beside(self) -> Beside:
        """Its second queue, made when it is first asked for."""
        return self._beside()

    def split(self, parts: int) -> tuple[Device, ...]:
        """Its compute units in equal parts: devices of their own, for ``nn.DataParallel``.

        Args:
            parts: how many; units that are left over belong to none.

        Raises:
            ArgumentError: if it has fewer units.
            DeviceError: if it is a part itself, or its runtime cannot divide it.
        """
        units = self.traits.compute_units
        number = integer("split", "parts", parts)
        if not 1 <= number <= units:
            raise ArgumentError("split", f"parts lies in [1, {units}]", parts=parts)
        if number == 1:
            return (self,)
        if self._found is None:
            raise DeviceError("split", "a part of a device is not divided", device=self.name)
        found = self._found
        return tuple(_open(found, units // number, part) for part in range(number))

    def set_workspace_limit(self, nbytes: int) -> None:
        """Let algorithms use at most ``nbytes`` of scratch memory; others give way."""
        with self.lock:
            self.target = Target(self.traits, nbytes, self.target.tunings)
            self.queue.workspace.release()

    @contextmanager
    def poisoned(self) -> Iterator[None]:
        """Memory that nobody has written is NaN while the body runs, as ``CLNET_POISON`` has it."""
        before = self.poison
        self.poison = self.queue.poison
        self.pool.poison_with(self.poison)
        try:
            yield
        finally:
            self.poison = before
            self.pool.poison_with(before)

    def narrow(self, simd_width: int) -> None:
        """Choose kernels as if the widest vector had so many floats: as on a narrower CPU."""
        self.leave_out({"simd_width": simd_width})

    def leave_out(self, changes: dict[str, Any]) -> None:
        """Choose kernels by other traits, as :mod:`.guard` has them."""
        target = self.target_without(changes)
        with self.lock:
            self.traits, self.target = target.traits, target

    def target_without(self, changes: dict[str, Any]) -> Target:
        """What kernels would be chosen by, were its traits others."""
        traits = replace(self.traits, **changes)
        tunings = tunings_of(self.identity, traits, SETTINGS.tunings_dir)
        return Target(traits, self.target.workspace_limit, tunings)

    def synchronize(self) -> None:
        """Wait until all that was asked of the device is done.

        Raises:
            ClnetError: if a kernel has found an index out of range, or a number that its op is not
                defined for, since the last synchronisation.
        """
        self.queue.finish()


# Opening a device once more costs memory of its own where that is not the host's: 0.3 to 0.5 GB of
# NVIDIA's, so an eighth of it together, until all is built or a minute after a first start.
_MEMORY_A_BUILDER = 2**32
# They open it one after another, so that only large networks wait for the last of them.
_MOST_OF_A_CARD = 16


def _begun(
    found: Found, traits: DeviceTraits, kept: Shelf, *, tries: bool
) -> tuple[Trial | None, Ahead | None]:
    """What tries a device, if it is to be tried, and what builds for it behind that."""
    line = Line() if tries and FORKS else None
    trial = Trial(found.selector, kept, line) if tries else None
    ahead = _ahead(found, traits, kept, line)
    if line is not None:
        line.close()
    return trial, ahead


def _ahead(found: Found, traits: DeviceTraits, kept: Shelf, line: Line | None) -> Ahead | None:
    """What builds a device's kernels in processes of their own, started if all are to be built."""
    most = most_processes()
    if not traits.unified_memory:
        most = most_processes(_MOST_OF_A_CARD)
        most = min(most, traits.global_memory_bytes // _MEMORY_A_BUILDER)
    ahead = Ahead(found.handle, most) if most else None
    if ahead is not None and kept.is_empty():
        ahead.start(line)
    EARLY.end()
    return ahead


WITHOUT_HARDWARE: dict[str, Callable[[], Device]] = {}
"""What gives devices that need none, by name; their modules put it here."""


def devices() -> tuple[Found, ...]:
    """Every OpenCL device here, and every platform that had to be skipped, with its reason."""
    INHERITANCE.use()
    return discover()


def device(name: str | int | Device | None = None, *, threads: int | None = None) -> Device:
    """The device of a name; the same object each time.

    Args:
        name: ``"nvidia:0"``, ``"pocl"``, ``"cpu"``, ``"gpu"``, ``"pocl:0[1:0]"`` (a part that
            :meth:`Device.split` gave) ..., a :class:`Device` (returned as it is), a number (of the
            GPUs, of all devices where there is none), or None for ``CLNET_DEVICE``, else the first
            GPU, else the first device.
        threads: compute units of a CPU to use, or None for ``CLNET_THREADS``, else all; of several
            ranks that ``mpirun`` has started on this machine each has its share.

    Returns:
        The device.

    Raises:
        ArgumentError: if the name is malformed or ``threads`` does not fit the device.
        DeviceError: if there is no such device, or it cannot be opened.
    """
    if isinstance(name, Device):
        return name
    if isinstance(name, AbsentDevice):
        name = str(name)
    if isinstance(name, str) and name.partition(":")[0] in WITHOUT_HARDWARE:
        return WITHOUT_HARDWARE[name.partition(":")[0]]()
    if not (name is None or isinstance(name, str | Integral)) or isinstance(name, bool):
        raise ArgumentError(
            "device",
            "a device is a name like 'pocl:0' or 'cpu', a number, or a clnet device",
            type=type(name).__name__,
        )
    if threads is not None:
        threads = integer("device", "threads", threads)
    wanted = SETTINGS.device if name is None else name
    if isinstance(wanted, str) and wanted.partition(":")[0] == "cuda":
        return _cuda(wanted)
    if isinstance(wanted, str) and threads is None and wanted.endswith("]"):
        return _named_part(wanted)
    asked = wanted, SETTINGS.threads if threads is None else threads
    there = _found()
    known = _OPENED.named.get(asked)
    if known is not None and known[0] is there:
        return known[1]
    found = chosen(name if name is None or isinstance(name, str) else int(name), there)
    opened = _open(found, _units(found, threads))
    _OPENED.named[asked] = there, opened
    return opened


def _units(found: Found, threads: int | None) -> int | None:
    """How many of a device's compute units are used; None: all.

    Args:
        found: the device.
        threads: how many the program asks for; None: a setting, or that there are other ranks,
            limits them of a CPU.
    """
    units = found.handle.max_compute_units
    if threads is None:
        if found.kind is not DeviceKind.CPU:
            return None
        threads = SETTINGS.threads or max(1, units // SETTINGS.ranks_here)
    return None if threads == units else threads


def _cuda(name: str) -> Device:
    if _CUDA.name is None:
        raise DeviceError(
            f"device {name!r}",
            "there is no CUDA",
            remedy="Name an OpenCL device ('gpu', 'nvidia:0'), or say once which one is meant by "
            "'cuda': clnet.cuda.use('gpu')",
        )
    return device(_CUDA.name)


def use_as_cuda(name: str | int | Device | None) -> None:
    """Let ``"cuda"``, with any number, be the name of a device; None: of none, as at first.

    Raises:
        DeviceError: if there is no such device.
    """
    _CUDA.name = None if name is None else device(name).name


def cuda_device() -> Device | None:
    """The device that is called ``"cuda"``, if one is."""
    return None if _CUDA.name is None else device(_CUDA.name)


@dataclass(frozen=True)
class AbsentDevice:
    """The name of a device of another library that is not here: programs compare it, and ask first.

    Whoever puts a tensor there gets a :class:`~clnet.errors.DeviceError`.

    Attributes:
        type: ``"cuda"``, ``"mps"`` or ``"xpu"``.
        index: the number behind it, if there is one.
    """

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


_ABSENT = frozenset({"cuda", "mps", "xpu"})


class _DeviceClass(type):
    """A class that is called as :func:`device` is, and that every device is an instance of."""

    def __call__(
        cls,
        type: str | int | Device | None = None,  # noqa: A002 - PyTorch's name
        index: int | None = None,
        *,
        threads: int | None = None,
    ) -> Any:
        if index is not None:
            if not isinstance(type, str):
                law = "index is the number behind a name"
                raise ArgumentError("device", law, type=shown(type), index=shown(index))
            type = f"{type}:{integer('device', 'index', index)}"  # noqa: A001
        if isinstance(type, AbsentDevice):
            type = str(type)  # noqa: A001
        kind, _, number = type.partition(":") if isinstance(type, str) else ("", "", "")
        if kind in _ABSENT and not (kind == "cuda" and _CUDA.name is not None):
            return AbsentDevice(kind, int(number) if number.isdigit() else None)
        return device(type, threads=threads)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Device | AbsentDevice)


class DeviceName(metaclass=_DeviceClass):
    """``clnet.device``: what :func:`device` is inside, and the type of devices.

    Args:
        type: the name, as :func:`device` takes it.
        index: the number behind it, if the name has none.
        threads: compute units of a CPU to use.
    """


def _named_part(name: str) -> Device:
    """Some units of a device, by the name that they have.

    Raises:
        ArgumentError: if the name is none, or there are not so many units.
    """
    form = re.fullmatch(r"([a-z]+(?::\d+)?)\[(\d+)(?::(\d+))?\]", name)
    if form is None:
        raise ArgumentError(
            "device", "a part of a device is named like 'pocl:0[2]' or 'pocl:0[2:1]'", name=name
        )
    bare, threads = form.group(1), int(form.group(2))
    if form.group(3) is None:
        return device(bare, threads=threads)
    found, part = select(bare, _found()), int(form.group(3))
    units = found.handle.max_compute_units
    if not 0 < threads * (part + 1) <= units:
        raise ArgumentError("device", f"the part lies in {units} units", name=name)
    return _open(found, threads, part)


def traits_for(wanted: DeviceTraits | Device | str | None) -> DeviceTraits:
    """The numbers of a device, which is not opened for it.

    Args:
        wanted: traits (returned as they are), a device, or a name as :func:`device` takes it.
    """
    if isinstance(wanted, DeviceTraits):
        return wanted
    if isinstance(wanted, Device):
        return wanted.traits
    current = mode.current().device
    if wanted is None and current is not None:
        return current.traits
    found = chosen(wanted, _found())
    return traits_of(found.handle)


def current_device() -> Device:
    """The device of the current mode, else the default one."""
    current = mode.current().device
    return device() if current is None else current


@cache
def _found_once() -> tuple[Found, ...]:
    return discover()


def _found() -> tuple[Found, ...]:
    INHERITANCE.use()
    with _OPENED.lock:
        return _found_once()


class _Opened:
    """The devices this process has opened, and who wants to hear of the next one.

    Attributes:
        devices: by what was found, how many compute units are used, and which part that is.
        named: by name and units: what there was then, and which device was meant.
        listeners: called with each new one.
    """

    def __init__(self) -> None:
        self.devices: dict[tuple[Found, int | None, int | None], Device] = {}
        self.named: dict[tuple[Any, int | None], tuple[Any, Device]] = {}
        self.listeners: list[Callable[[Device], None]] = []
        self.lock = process_lock()


_OPENED = _Opened()
in_child(lambda: INHERITANCE.forked(_OPENED.devices.values()))


def opened_devices() -> tuple[Device, ...]:
    """The devices this process has opened so far."""
    return tuple(_OPENED.devices.values())


@contextmanager
def on_open(listener: Callable[[Device], None]) -> Iterator[None]:
    """Call ``listener`` with every device that is opened while the body runs.

    Args:
        listener: called before anything is asked of the device.
    """
    _OPENED.listeners.append(listener)
    try:
        yield
    finally:
        _OPENED.listeners.remove(listener)


def _open(found: Found, threads: int | None, part: int | None = None) -> Device:
    units = found.handle.max_compute_units
    if threads is not None and not 1 <= threads <= units:
        raise ArgumentError(
            f"device {found.selector!r}", f"threads lies in [1, {units}]", threads=threads
        )
    with _OPENED.lock:
        opened = _OPENED.devices.get((found, threads, part))
        if opened is None:
            opened = Device(found, threads, part)
            # A new table, since others look through the old one without the lock.
            _OPENED.devices = {**_OPENED.devices, (found, threads, part): opened}
            for listener in tuple(_OPENED.listeners):
                listener(opened)
        return opened


def _partition(found: Found, threads: int, part: int | None = None) -> Any:
    """A sub-device of so many compute units, or one of several such.

    The last of two: Intel's CPU runtime lets the first use all cores. Ranks of a machine take
    different ones, where there are so many.
    """
    units = found.handle.max_compute_units
    if part is None and 1 < SETTINGS.ranks_here <= units // threads:
        part = SETTINGS.rank_here
    rest = units - threads
    by_counts = [cl.device_partition_property.BY_COUNTS, rest, threads, 0]
    try:
        if part is not None:
            equally = [cl.device_partition_property.EQUALLY, threads, 0]
            return found.handle.create_sub_devices(equally)[part]
        return found.handle.create_sub_devices(by_counts)[-1]
    except cl.Error as error:
        raise DeviceError(
            f"device {found.selector!r}",
            "it cannot be divided",
            threads=threads,
            status=error,
            remedy="Leave threads out, or use the runtime's own setting",
        ) from error


def workspace_limit(traits: DeviceTraits) -> int:
    """Bytes of scratch memory that algorithms may ask for: the user's setting, else an eighth."""
    if SETTINGS.workspace_limit is not None:
        return SETTINGS.workspace_limit
    share = traits.global_memory_bytes // _WORKSPACE_SHARE
    return min(share, _WORKSPACE_MOST, traits.max_allocation_bytes)
