"""Launches bound once: their arguments are set before, and a replay only enqueues them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from .fault import Faults
from .launch import HostScalar, Launch, Storage, values_of
from .misfit import misfit

if TYPE_CHECKING:
    from .program import CompiledKernel


class BoundLaunches:
    """Launches in order, with kernels of their own whose arguments stay set.

    They hold a reference to every buffer they bind: OpenCL does not. Made by
    :meth:`clnet.device.Queue.bind`.

    Args:
        launches: what is run.
        kernels: for each its kernel, of which it gets a handle of its own.
        faults: where kernels that check their data report to.
        stand_for: what they are a chain of, which observers are shown in their place.

    Attributes:
        checks: whether one of them checks its data.
        launches: what is run, one by one where somebody looks on.
        enqueues: for each the ``pyopencl.Kernel``, the global and the local size.
    """

    __slots__ = (
        *("__weakref__", "_args", "_cells", "_pointers"),
        *("checks", "enqueues", "launches"),
    )

    def __init__(
        self,
        launches: Sequence[Launch],
        kernels: Sequence[CompiledKernel],
        faults: Faults,
        stand_for: Sequence[Launch] = (),
    ) -> None:
        self.launches = tuple(stand_for or launches)
        self.checks = any(launch.check is not None for launch in self.launches)
        self.enqueues: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []
        self._args: list[list[Any]] = []
        self._cells: list[list[Any]] = []
        self._pointers: dict[Storage, list[tuple[int, int, tuple[Any, ...]]]] = {}
        for launch, kernel in zip(launches, kernels, strict=True):
            self._bind(launch, faults.args_of(launch), kernel)

    def _bind(self, launch: Launch, args: tuple[Any, ...], kernel: CompiledKernel) -> None:
        wrong = misfit(launch, (), ())  # its sizes, which a replay enqueues as they are
        if wrong is not None:
            raise wrong
        handle, number = kernel.new_handle(), len(self.enqueues)
        values = values_of(args, kernel.signature.pointers)
        items, types = dict(kernel.signature.pointers), kernel.signature.types
        for index, (arg, value) in enumerate(zip(args, values, strict=True)):
            scalar = types[index]
            try:
                handle.set_arg(index, value if scalar is None else scalar(value))
            except (OverflowError, RuntimeError, TypeError, ValueError) as error:
                raise misfit(launch, types, values) or error from error
            if isinstance(arg, HostScalar):
                self._cells.append([arg, value, handle, index, scalar, launch])
            elif isinstance(arg, Storage):
                follows, offset = args[index + 1 : index + 2], ()
                if follows and isinstance(follows[0], int):  # in chains none does
                    offset = (follows[0], items[index], types[index + 1])
                self._pointers.setdefault(arg, []).append((number, index, offset))
        self.enqueues.append((handle, launch.global_size, launch.local_size))
        self._args.append(values)

    @property
    def storages(self) -> Collection[Storage]:
        """What their pointers lead to."""
        return self._pointers.keys()

    def rebind(self, storage: Storage) -> None:
        """Set those of a storage's pointers anew that lead to another place than its present."""
        buffer, begin = storage.buffer, storage.begin
        for number, index, offset in self._pointers.get(storage, ()):
            values = self._args[number]
            if values[index] is not buffer:
                self.enqueues[number][0].set_arg(index, buffer)
                values[index] = buffer
            if offset:
                first, item, scalar = offset
                if values[index + 1] != (now := first + begin // item):
                    self.enqueues[number][0].set_arg(index + 1, scalar(now))
                    values[index + 1] = now

    def refresh(self) -> None:
        """Set the scalars whose cells hold another number than before.

        Raises:
            ArgumentError: if it is none that the kernel's parameter holds.
        """
        for entry in self._cells:
            cell, before, handle, index, scalar, launch = entry
            value = cell.value
            if value is not before:
                try:
                    handle.set_arg(index, scalar(value))
                except (OverflowError, RuntimeError, TypeError, ValueError) as error:
                    types = (*(None,) * index, scalar)  # those before it stay as they are
                    raise misfit(launch, types, (*types[:index], value)) or error from error
                entry[1] = value
