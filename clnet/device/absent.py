"""A device that is not here: ops on it infer, choose kernels and take memory, and compute nothing.

What a real device would need is counted by the same pool, workspace and plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, NoReturn

from ..errors import DeviceError
from ..values.settings import SETTINGS
from .buffer_pool import BufferPool
from .device import WITHOUT_HARDWARE, Device, workspace_limit
from .kept import KeptLaunches
from .launch import Launch, Scratch, Storage
from .program import Prepared
from .target import Target
from .traits import DeviceIdentity, DeviceKind, DeviceTraits
from .tunings import tunings_of
from .watch import Observer
from .workspace import Arenas, Workspace


class AbsentDevice(Device):
    """A device known by its traits alone. Tensors on it have shapes and sizes, but no elements.

    Args:
        traits: its numbers.
        name: what it is called.

    Attributes:
        pool: counts what is allocated; raises ``OutOfDeviceMemory`` as the device would.
    """

    def __init__(self, traits: DeviceTraits, name: str = "absent") -> None:
        self.name = name
        self._found = None
        self.traits = traits
        self.lock = RLock()
        self.identity = DeviceIdentity("none", "", name, "", "", "")
        self.queue: Any = _AbsentQueue(self)
        self.pool = BufferPool(
            create=_Block,
            finish=self.queue.finish,
            max_block=traits.max_allocation_bytes,
            limit=traits.global_memory_bytes,
            whole=traits.global_memory_bytes,
            lock=self.lock,
        )
        self.arenas = Arenas(self)
        # What was measured on devices like it is what the device itself would go by.
        tunings = tunings_of(self.identity, traits, SETTINGS.tunings_dir)
        self.target = Target(traits, workspace_limit(traits), tunings)

    def __repr__(self) -> str:
        return f"AbsentDevice({self.name!r})"


class MetaDevice(AbsentDevice):
    """PyTorch's ``meta``: tensors on it have shapes and dtypes, of any size, and no elements.

    A model that is made there costs nothing; ``to_empty`` or ``load_state_dict(assign=True)`` gives
    it memory elsewhere.
    """

    def __init__(self) -> None:
        super().__init__(_META, "meta")
        self.pool.limit = None

    @property
    def type(self) -> str:
        """``"meta"``."""
        return self.name

    index = None


class _Block:
    """Stands where a device has a buffer."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def release(self) -> None:
        """Nothing was taken."""


class _AbsentQueue:
    """Takes what a queue takes, and does nothing but lend workspaces; nothing can be read."""

    def __init__(self, device: AbsentDevice) -> None:
        self._name = device.name
        self.lock = device.lock
        self.workspace = Workspace(device)
        self._count: Callable[[Launch], None] | None = None

    @contextmanager
    def counting(self, count: Callable[[Launch], None]) -> Iterator[None]:
        """Tell ``count`` of every launch while the body runs."""
        self._count = count
        try:
            yield
        finally:
            self._count = None

    def launch(self, launch: Launch) -> None:
        """Lend the scratch memory that it needs."""
        self.run((launch,))

    def run(self, launches: Sequence[Launch], made: Sequence[Any] = ()) -> None:
        """Give what is made its memory, and lend scratch memory."""
        if self._count is not None:
            for launch in launches:
                self._count(launch)
        with self.lock:
            for array in made:
                array.storage.materialize()
            for arg in (arg for launch in launches for arg in launch.args):
                if type(arg) is Scratch:
                    self.workspace.lend(arg.nbytes)

    def run_again(
        self,
        kept: KeptLaunches,
        op: Any,
        storages: Sequence[Storage],
        numbers: Sequence[Any],
        num_made: int,
    ) -> None:
        """As :meth:`run` does."""
        with self.lock:
            for storage in storages[:num_made]:
                storage.materialize()
        launches = kept.launches(storages[0].device, storages, numbers)
        for launch in launches:
            launch.op = op.name
        self.run(launches)

    def prepare(self, launches: Sequence[Launch]) -> Prepared:
        """Count the kernels; none is built."""
        return Prepared(len({launch.kernel for launch in launches}))

    def bind(self, launches: Sequence[Launch]) -> _AbsentLaunches:
        """Remember them."""
        return _AbsentLaunches(launches)

    def replay(self, bound: _AbsentLaunches) -> None:
        """Nothing to enqueue."""

    def upload(self, storage: Storage, array: Any, offset_bytes: int = 0) -> None:
        """Nowhere to put it."""

    def copy(self, target: Storage, source: Storage, nbytes: int, **offsets: int) -> None:
        """Nothing to copy."""

    def finish(self) -> None:
        """Nothing is under way."""

    def wait(self) -> None:
        """Nothing is under way."""

    def download(self, array: Any, storage: Storage, offset_bytes: int = 0) -> NoReturn:
        """Refused."""
        raise self._nothing()

    def map(self, storage: Storage, nbytes: int, offset_bytes: int = 0) -> NoReturn:
        """Refused."""
        raise self._nothing()

    @property
    def in_place(self) -> NoReturn:
        """Refused."""
        raise self._nothing()

    @contextmanager
    def expecting(self, *, least: int, most: int) -> Iterator[None]:
        """There are no pages."""
        yield

    @contextmanager
    def observe(self, observer: Observer) -> Iterator[None]:
        """There is nothing to see."""
        yield

    def _nothing(self) -> DeviceError:
        return DeviceError(
            f"device {self._name!r}",
            "it is absent: tensors on it have shapes, but no elements",
            remedy="Read shapes and memory figures alone",
        )


class _AbsentLaunches:
    """What a plan would enqueue."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)
        self.storages: tuple[Storage, ...] = ()


_META = DeviceTraits(
    kind=DeviceKind.CPU,
    compute_units=1,
    simd_width=1,
    max_group_size=1,
    local_memory_bytes=2**15,
    dedicated_local_memory=False,
    global_memory_bytes=2**62,
    max_allocation_bytes=2**62,
    base_align_bytes=128,
    unified_memory=True,
    float16=False,
    float64=True,
)
WITHOUT_HARDWARE["meta"] = cache(MetaDevice)
