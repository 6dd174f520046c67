"""Tensors that go from one device to another, and their gradients back."""

from __future__ import annotations

from ..device import Device
from ..ops.machinery.crossing import on_device
from ..ops.machinery.function import Function, Grads, Needs, Saved
from ..ops.shape import contiguous
from ..tensor import Tensor
from ..values import mode
from .overwrite import refresh
from .tape import Node


class Moved(Function):
    """The elements on another device; the gradient goes back to the first."""

    op_name = "to"
    takes_complex = True

    source: Device
    target: Device

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient, moved back."""
        return (move(grads[0], self.source),)


def move(x: Tensor, target: Device) -> Tensor:
    """A copy of a tensor on another device, on the tape if the tensor is.

    Args:
        x: of any shape and dtype; its device is waited for.
        target: another device, which is not waited for.

    Raises:
        TraceError: in a function that is compiled, to a device without memory.
        DtypeError: if the device has no such dtype.
        OutOfDeviceMemory: if it has no room left.
    """
    function = Moved(x.device, target)
    if x.version < x.array.storage.recorded:  # a view of what was overwritten since
        refresh(function, x)
    dense = contiguous(x)
    array = on_device(dense.array, target, function)
    if not (mode.current().grad and dense.requires_grad):
        return Tensor(array)
    return Tensor(array, Node(function, (dense,), (True,), (array,), Tensor))
