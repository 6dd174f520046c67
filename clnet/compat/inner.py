"""``torch._C``: the few names of PyTorch's inside that packages touch as they are imported."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..autodiff.axes import hidden as _functorch  # noqa: F401 - for packages
from ..device import DeviceName, current_device
from ..errors import ClnetError, LinAlgError
from ..face.attribute import destination
from ..face.subclass import disabled as _disabled_torch_function_impl  # noqa: F401 - for packages
from ..values import mode, override
from ..values.generator import Generator
from . import differences

__all__ = ["DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Generator"]

_LinAlgError = LinAlgError
_OutOfMemoryError = ClnetError


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """Names of PyTorch's backends, as texts."""


class DispatchKeySet:
    """Several of them.

    Args:
        key: the first.
    """

    def __init__(self, key: Any = None) -> None:
        self.keys = frozenset() if key is None else frozenset([key])

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        made = DispatchKeySet()
        made.keys = self.keys | other.keys
        return made


class _TensorMeta(type):  # for packages
    """The class of PyTorch's class of tensors; clnet's has Python's own."""


class DisableTorchFunctionSubclass(mode.using):
    """A block in which classes of tensors take over no function."""

    def __init__(self) -> None:
        super().__init__(takes_over=False)


DisableTorchFunction = DisableTorchFunctionSubclass


class Graph:
    """A name for annotations of ``symbolic``, as TorchScript's nodes and values are."""


class Node:
    """A name for annotations."""


class Value:
    """A name for annotations."""


class _ExcludeDispatchKeyGuard:  # for packages
    """A block like any other."""

    def __init__(self, keys: Any) -> None:
        self.keys = keys

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *raised: object) -> None:
        """Nothing was changed."""


def _taken(*args: Any, **kwargs: Any) -> None:
    """A setting of what is not here."""


def _no(*args: Any, **kwargs: Any) -> bool:
    """False."""
    return False


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, None]:
    """Device and dtype that arguments of ``to`` name, and PyTorch's flags."""
    device, dtype = destination("to", args, kwargs)
    device = DeviceName(device) if isinstance(device, str) else device
    return device, dtype, bool(kwargs.get("non_blocking")), None


def _get_accelerator() -> DeviceName:  # for packages
    """The kind of the current device: an accelerator, or the host's processors."""
    return DeviceName(current_device().type)


def _get_default_device() -> str:  # for packages
    """The kind of device that new tensors are on."""
    return current_device().type


def _is_torch_function_mode_enabled() -> bool:  # for packages
    """Whether this thread is in a mode."""
    return bool(override.modes())


def _is_alias_of(a: Any, b: Any) -> bool:  # for packages
    """Whether two tensors lie in one memory."""
    return a.array.storage is b.array.storage


_nn = ModuleType("torch._C._nn", "Of modules.")
_nn.__dict__["_parse_to"] = _parse_to
_profiler = ModuleType("torch._C._profiler", "Of PyTorch's profiler.")
_profiler.__dict__["_ExperimentalConfig"] = _taken
_get_tracing_state = _log_api_usage_once = _taken
_are_functorch_transforms_active = _jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _no


def __getattr__(name: str) -> Any:
    if name.startswith(("_jit_set_", "_jit_override_")):
        return _taken
    raise differences.missing("torch._C", name)
