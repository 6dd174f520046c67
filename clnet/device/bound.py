"""Launches bound once: their arguments are set before, and a replay only enqueues them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .launch import HostScalar, Launch, Storage

if TYPE_CHECKING:
    from .program import CompiledKernel


class BoundLaunches:
    """Launches in order, with kernels of their own whose arguments stay set.

    They hold a reference to every buffer they bind: OpenCL does not. Made by
    :meth:`clnet.device.Queue.bind`.

    Args:
        launches: what is run.
        kernels: for each a kernel of its own.
        args: for each its arguments; None for a pointer that :meth:`rebind` will set.

    Attributes:
        launches: what is run.
        enqueues: for each the ``pyopencl.Kernel``, the global and the local size.
    """

    __slots__ = ("_cells", "_keep", "_pointers", "enqueues", "launches")

    def __init__(
        self,
        launches: Sequence[Launch],
        kernels: Sequence[CompiledKernel],
        args: Sequence[list[Any]],
    ) -> None:
        self.launches = tuple(launches)
        self.enqueues = [
            (kernel.handle, launch.global_size, launch.local_size)
            for launch, kernel in zip(launches, kernels, strict=True)
        ]
        self._keep = args
        self._cells: list[list[Any]] = []
        self._pointers: dict[Storage, list[tuple[int, int]]] = {}
        for number, (launch, kernel) in enumerate(zip(launches, kernels, strict=True)):
            kernel.set_args(*args[number])
            for index, arg in enumerate(launch.args):
                if isinstance(arg, HostScalar):
                    value = args[number][index]
                    self._cells.append([arg, value, kernel.handle, index, kernel.types[index]])
                elif isinstance(arg, Storage):
                    self._pointers.setdefault(arg, []).append((number, index))

    def rebind(self, storage: Storage) -> None:
        """Set a storage's pointers anew, after it got another buffer."""
        for number, index in self._pointers.get(storage, ()):
            self.enqueues[number][0].set_arg(index, storage.buffer)
            self._keep[number][index] = storage.buffer

    def refresh(self) -> None:
        """Set the scalars whose cells hold another number than before."""
        for entry in self._cells:
            cell, before, handle, index, scalar = entry
            value = cell.value
            if value is not before:
                handle.set_arg(index, scalar(value))
                entry[1] = value
