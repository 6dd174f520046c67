"""Memory that other libraries look at, DLPack, and what NumPy's functions make of tensors.

A CPU device's memory is the host's: what is given away there is a view, read-only, which keeps the
tensor's memory until the other library lets go. Of other devices it is a copy.
"""

from __future__ import annotations

import ctypes
import weakref
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..device import DeviceKind
from ..device import device as open_device
from ..errors import ExchangeError
from ..tensor import Tensor, tensor

__all__ = ["host_view"]

HOST = (1, 0)
"""DLPack's name of host memory: its code of CPUs, and the first of them."""


def host_view(op_name: str, x: Tensor, *, copy: bool | None = None) -> np.ndarray:
    """The elements in host memory: a read-only view where they lie there, else a copy.

    Args:
        op_name: for the errors.
        x: off the tape.
        copy: True: a copy in any case; False: none.

    Raises:
        ExchangeError: if it is on the tape, or no copy is allowed and one is needed.
    """
    if x.requires_grad:
        law, hint = "what leaves clnet is off the tape", "Use x.detach()"
        raise ExchangeError(op_name, law, shape=x.shape, remedy=hint)
    if copy or x.device.traits.kind is not DeviceKind.CPU:
        if copy is False:
            law = "the device's memory is not the host's, so it is copied"
            raise ExchangeError(op_name, law, device=x.device.name, remedy="Leave copy out")
        return x.numpy()
    with ExitStack() as stack:
        view = stack.enter_context(x.map())
        weakref.finalize(view, stack.pop_all().close)
    return view


def to_dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of the elements in host memory; the device has written them.

    Args:
        self: off the tape.
        stream: None: host memory has no streams.
        max_version: of DLPack that is understood; before 1.0 nothing can say that it is read-only,
            so that it is a copy, unless ``copy=False`` asks for the memory itself: who writes into
            it changes the tensor unseen.
        dl_device: None, or that of host memory.
        copy: True: a copy in any case; False: none.

    Raises:
        ExchangeError: if a copy is needed and not allowed, the dtype is none of DLPack's, or
            another device is asked for.
    """
    if stream is not None or dl_device not in (None, HOST):
        law = "elements are given away in host memory"
        raise ExchangeError("__dlpack__", law, stream=stream, dl_device=dl_device)
    if max_version is not None and not isinstance(max_version, tuple):
        raise ExchangeError("__dlpack__", "max_version is a pair of numbers", got=max_version)
    old = max_version is None or max_version[0] < 1
    wanted = copy if copy is False else copy or old or None
    host = host_view("__dlpack__", self, copy=wanted)
    if old and copy is False:
        host = _open(host)
    try:
        return host.__dlpack__() if old else host.__dlpack__(max_version=max_version)
    except BufferError as error:
        law = f"DLPack has such numbers: {error}"
        raise ExchangeError("__dlpack__", law, dtype=self.dtype, remedy="Convert it") from None


def _open(view: np.ndarray) -> np.ndarray:
    """A view of the same memory that is not marked read-only; it keeps the other."""
    if view.flags.writeable or not view.size:
        return view
    steps = zip(view.shape, view.strides, strict=True)  # none is below 0
    extent = sum((n - 1) * step for n, step in steps) + view.itemsize
    memory = (ctypes.c_char * extent).from_address(view.ctypes.data)
    memory.kept = view  # pyrefly: ignore[missing-attribute] - ctypes lets arrays have any
    flat: Any = np.frombuffer(memory, view.dtype, extent // view.itemsize)  # pyrefly: ignore[no-matching-overload]
    return np.lib.stride_tricks.as_strided(flat, view.shape, view.strides)


def wrapped(
    self: Tensor,
    array: np.ndarray,
    context: Any = None,
    return_scalar: bool = False,  # noqa: FBT001, FBT002 - NumPy's protocol
) -> Any:
    """What NumPy's functions make of a tensor, as ``np.sqrt(x)``: a tensor, as PyTorch has it.

    Booleans are uint8, also there. Of a tensor on the tape it stays NumPy's: what is computed is
    no part of the tape.
    """
    if self.requires_grad:
        return array[()] if return_scalar else array
    return tensor(array.astype(np.uint8) if array.dtype == bool else array, device=self.device)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """Host memory: ``(1, 0)``."""
    return HOST


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The array API's name of ``to``.

    Raises:
        ExchangeError: if a stream is given.
    """
    if stream is not None:
        raise ExchangeError("to_device", "queues have an order of their own", stream=stream)
    return self.to(device=open_device(device))


Tensor.__array_wrap__ = wrapped
Tensor.__dlpack__ = to_dlpack
Tensor.__dlpack_device__ = dlpack_device
Tensor.to_device = to_device
