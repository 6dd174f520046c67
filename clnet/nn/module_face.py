"""What programs ask of a module beside its parameters: where it is, in which dtype, extra state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..creation import empty
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.dtypes import DType, bfloat16, float16, float32, float64

if TYPE_CHECKING:
    from .module import Module

ModuleT = TypeVar("ModuleT", bound="ModuleFace")


class ModuleFace:
    """Methods of :class:`Module` that only call others."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def float(self: ModuleT) -> ModuleT:
        """Convert floating parameters and buffers to float32 in place; returns the module."""
        return self._floating_to(float32)

    def double(self: ModuleT) -> ModuleT:
        """Convert floating parameters and buffers to float64 in place; returns the module."""
        return self._floating_to(float64)

    def half(self: ModuleT) -> ModuleT:
        """Convert floating parameters and buffers to float16 in place; returns the module."""
        return self._floating_to(float16)

    def bfloat16(self: ModuleT) -> ModuleT:
        """Convert floating parameters and buffers to bfloat16 in place; returns the module."""
        return self._floating_to(bfloat16)

    def _floating_to(self: ModuleT, dtype: DType) -> ModuleT:
        return self._apply(lambda x: x.to(dtype) if x.dtype.is_floating_point else x)

    def type(self: ModuleT, dst_type: Any) -> ModuleT:
        """Convert floating and complex parameters and buffers in place; returns the module."""
        return self.to(dtype=getattr(dst_type, "dtype", dst_type))

    def cpu(self: ModuleT) -> ModuleT:
        """Move to the host's processor, if that is an OpenCL device; returns the module."""
        where = next((t.cpu().device for t in _tensors(self)), None)
        return self if where is None else self.to(where)

    def cuda(self: ModuleT, device: Any = None) -> ModuleT:
        """Move to the device that is called ``cuda`` (``clnet.cuda.use``); returns the module."""
        return self.to("cuda")

    def to_empty(self: ModuleT, *, device: Any, recurse: bool = True) -> ModuleT:
        """Move to a device, in place; returns the module.

        Args:
            device: where.
            recurse: whether the modules below move, too.

        Returns:
            The module. Elements are kept, but for those of ``meta``, which are of any value then.
        """

        def moved(x: Tensor) -> Tensor:
            return empty(x.shape, dtype=x.dtype, device=device) if x.is_meta else x.to(device)

        for value in _tensors(self) if recurse else _own(self):
            value.grad = None
        return self._apply(moved, recurse=recurse)  # which programs override

    def share_memory(self: ModuleT) -> ModuleT:
        """The module: memory is not shared between processes.

        Raises:
            ArgumentError: if a parameter has no shape yet.
        """
        for value in _tensors(self):
            value.share_memory_()
        return self

    @property
    def _non_persistent_buffers_set(self) -> set[str]:  # by which loaders of weights ask for it
        return vars(self)["_clnet_transient"]

    def get_extra_state(self) -> Any:
        """What a subclass wants in the state beside tensors.

        Raises:
            ArgumentError: here, where there is none.
        """
        raise ArgumentError(type(self).__name__, "it has no extra state")

    def set_extra_state(self, state: Any) -> None:
        """Take what :meth:`get_extra_state` gave.

        Raises:
            ArgumentError: here, where there is none.
        """
        raise ArgumentError(type(self).__name__, "it has no extra state")

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        """Put a module in the place of a dotted name.

        Args:
            target: the name.
            module: what comes there.
            strict: whether there must be one already.

        Raises:
            ArgumentError: if the name is empty.
            AttributeError: if there is no such place.
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise ArgumentError("set_submodule", "the name is not empty")
        if strict:
            self.get_submodule(target)
        self.get_submodule(path).add_module(name, module)


def _own(module: Any) -> list[Tensor]:
    """A module's own parameters and buffers, without those of the modules below."""
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]


def _tensors(module: Any) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]
