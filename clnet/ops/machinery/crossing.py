"""Arrays that go from one device to another."""

from __future__ import annotations

from ...array import Array
from ...device import Device, users_line
from ...errors import TraceError
from ...values import mode
from .function import Function

__all__ = ["Crossed", "on_device"]


class Crossed(Function):
    """The elements of a dense array on another device; off the tape."""

    op_name = "to"
    takes_complex = True

    target: Device


def on_device(x: Array, target: Device, step: Function) -> Array:
    """A copy of a dense array on another device; while a function is traced, a step of it.

    Raises:
        TraceError: in a function that is compiled, from or to a device without memory.
        DtypeError: if the device has no such dtype.
        OutOfDeviceMemory: if it has no room left.
    """
    now = mode.current()
    if now.tracer is not None:
        if "meta" in {x.device.type, target.type}:
            raise TraceError(
                "to",
                "a function that clnet.compile traces runs on devices that have memory",
                source=x.device.name,
                target=target.name,
                line=users_line(),
            )
        array = Array.abstract(x.shape, x.dtype, target)
        now.tracer.record(step, (x,), (array,))
        return array
    if not (now.abstract or target.type == "meta"):
        return x.moved(target)
    array = Array.abstract(x.shape, x.dtype, target)
    if not now.abstract:
        array.storage.materialize()
    return array
