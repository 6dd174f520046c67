"""``clnet.distributed``: exchanges between processes (:mod:`clnet.ranks`), by PyTorch's names.

What PyTorch builds on them is named here, too, and refused where there is nothing of it: tensors
that lie on several devices (``DTensor``), meshes of devices, calls in other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..errors import DeviceError
from ..errors import DistributedError as DistError  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name
from ..ranks import differentiable
from ..ranks.membership import *
from ..ranks.message import *
from ..ranks.operations import *
from ..ranks.work import Work as Work
from ..ranks.world import Group as ProcessGroup  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name


class DTensor:
    """A tensor that lies on several devices: there is none."""


def is_torchelastic_launched() -> bool:
    """False: ``mpirun`` starts processes, and MPI is all that exchanges tensors."""
    return False


is_nccl_available = is_gloo_available = is_torchelastic_launched


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        raise DeviceError(
            f"distributed.{name}",
            "there is no group of processes for it",
            remedy="a tensor lies on one device of one process: exchange tensors by all_reduce, "
            "broadcast, send and recv",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises: there is nothing of it."
    return refuse


tensor = ModuleType("clnet.distributed.tensor", "Tensors on several devices: there are none.")
tensor.DTensor = DTensor  # pyright: ignore[reportAttributeAccessIssue] - a module made here
_tensor = tensor
rpc = ModuleType("clnet.distributed.rpc", "Calls in other processes: there are none.")
rpc.__dict__.update(
    {name: _refused(f"rpc.{name}") for name in ("init_rpc", "remote", "rpc_async", "rpc_sync")},
    is_available=is_torchelastic_launched,
)


class DeviceMesh:
    """Devices of several processes, laid out in a grid: there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("DeviceMesh")()


def _submodule(name: str, **members: Any) -> ModuleType:
    made = ModuleType(f"clnet.distributed.{name}", "Of several processes.")
    made.__dict__.update(members)
    return made


init_device_mesh = _refused("init_device_mesh")
device_mesh = _submodule("device_mesh", DeviceMesh=DeviceMesh, init_device_mesh=init_device_mesh)
nn = _submodule("nn", all_reduce=differentiable.all_reduce, functional=differentiable)
