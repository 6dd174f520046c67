"""``clnet.distributed``: there is one process, and it says so; what needs several raises.

Optimisers and trainers ask ``is_initialized()`` before they exchange anything. No tensor is
a ``tensor.DTensor``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any

from ..errors import DeviceError

__all__ = ["ProcessGroup", "ReduceOp", "is_available", "is_initialized", "tensor"]


class ReduceOp(Enum):
    """How values of processes would be joined."""

    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


class ProcessGroup:
    """Processes that would exchange tensors."""


class DTensor:
    """A tensor that lies on several devices: there is none."""


def is_available() -> bool:
    """False: nothing can be exchanged between processes."""
    return False


def is_initialized() -> bool:
    """False: there is no group of processes."""
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_available


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        raise DeviceError(
            f"distributed.{name}",
            "there is no group of processes",
            remedy="clnet trains on one device of one process: ask is_initialized() first",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises: there is no group of processes."
    return refuse


REFUSED = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all"),
    *("barrier", "broadcast", "broadcast_object_list", "gather", "get_backend", "get_rank"),
    *("get_world_size", "init_process_group", "irecv", "isend", "new_group", "recv", "reduce"),
    *("reduce_scatter", "reduce_scatter_tensor", "scatter", "send", "destroy_process_group"),
)
"""What needs several processes."""
globals().update({name: _refused(name) for name in REFUSED})

tensor = ModuleType("clnet.distributed.tensor", "Tensors on several devices: there are none.")
tensor.DTensor = DTensor  # pyright: ignore[reportAttributeAccessIssue] - a module made here
_tensor = tensor
rpc = ModuleType("clnet.distributed.rpc", "Calls in other processes: there are none.")
rpc.__dict__.update(
    {name: _refused(f"rpc.{name}") for name in ("init_rpc", "remote", "rpc_async", "rpc_sync")},
    is_available=is_available,
)


class DeviceMesh:
    """Devices of several processes, laid out in a grid: there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("DeviceMesh")()


def _submodule(name: str, **members: Any) -> ModuleType:
    made = ModuleType(f"clnet.distributed.{name}", "Of several processes, which there are not.")
    made.__dict__.update(members)
    return made


init_device_mesh = _refused("init_device_mesh")
device_mesh = _submodule("device_mesh", DeviceMesh=DeviceMesh, init_device_mesh=init_device_mesh)
nn = ModuleType("clnet.distributed.nn", "Exchanges with gradients: there is no group of processes.")
nn.__dict__.update({name: globals()[name] for name in ("all_gather", "all_reduce", "reduce")})
