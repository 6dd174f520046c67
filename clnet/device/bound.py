"""Launches bound once: their arguments are set before, and a replay only enqueues them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .launch import HostScalar, Launch, Storage, values_of

if TYPE_CHECKING:
    from .program import CompiledKernel


class BoundLaunches:
    """Launches in order, with kernels of their own whose arguments stay set.

    They hold a reference to every buffer they bind: OpenCL does not. Made by
    :meth:`clnet.device.Queue.bind`.

    Args:
        launches: what is run.
        kernels: for each a kernel of its own.

    Attributes:
        launches: what is run.
        enqueues: for each the ``pyopencl.Kernel``, the global and the local size.
    """

    __slots__ = ("_args", "_cells", "_pointers", "enqueues", "launches")

    def __init__(self, launches: Sequence[Launch], kernels: Sequence[CompiledKernel]) -> None:
        self.launches = tuple(launches)
        self.enqueues = [
            (kernel.handle, launch.global_size, launch.local_size)
            for launch, kernel in zip(launches, kernels, strict=True)
        ]
        self._args = [
            values_of(launch.args, kernel.signature.item_bytes)
            for launch, kernel in zip(launches, kernels, strict=True)
        ]
        self._cells: list[list[Any]] = []
        self._pointers: dict[Storage, list[tuple[int, int]]] = {}
        for number, (launch, kernel) in enumerate(zip(launches, kernels, strict=True)):
            args = self._args[number]
            kernel.set_args(*args)
            for index, arg in enumerate(launch.args):
                if isinstance(arg, HostScalar):
                    cell = [arg, args[index], kernel.handle, index, kernel.signature.types[index]]
                    self._cells.append(cell)
                elif isinstance(arg, Storage):
                    self._pointers.setdefault(arg, []).append((number, index))

    def rebind(self, storage: Storage) -> None:
        """Set those of a storage's pointers anew that lead to another buffer than its present."""
        buffer = storage.buffer
        for number, index in self._pointers.get(storage, ()):
            if self._args[number][index] is not buffer:
                self.enqueues[number][0].set_arg(index, buffer)
                self._args[number][index] = buffer

    def refresh(self) -> None:
        """Set the scalars whose cells hold another number than before."""
        for entry in self._cells:
            cell, before, handle, index, scalar = entry
            value = cell.value
            if value is not before:
                handle.set_arg(index, scalar(value))
                entry[1] = value
