"""``clnet.distributed``: exchanges between processes (:mod:`clnet.ranks`), by PyTorch's names.

What PyTorch builds on them is named here, too, and refused where there is nothing of it: calls in
other processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from types import ModuleType
from typing import Any

from ..errors import DeviceError
from ..errors import DistributedError as DistError  # PyTorch's name
from ..nn.parallel import (
    checkpoint_wrapper,
    comm_hook,
    joining,
    power_sgd,
    sequence_parallel,
    tensor_parallel,
)
from ..nn.parallel.module_on_mesh import distribute_module
from ..optim.zero import ZeroRedundancyOptimizer
from ..ranks import differentiable, laid_out, placement
from ..ranks.loss_in_parts import loss_parallel
from ..ranks.many import all_gather_coalesced, all_reduce_coalesced  # noqa: F401 - PyTorch's
from ..ranks.membership import *
from ..ranks.mesh import DeviceMesh, init_device_mesh
from ..ranks.message import *
from ..ranks.operations import *
from ..ranks.scattering import *
from ..ranks.to_each import *
from ..ranks.work import Work as Work
from ..ranks.world import DEFAULT_SECONDS
from ..ranks.world import Group as ProcessGroup  # noqa: F401 - PyTorch's name
from ..values.settings import SETTINGS
from . import distributed_checkpoint as checkpoint  # noqa: F401 - PyTorch's name
from . import fsdp as fsdp
from . import pipelining as pipelining
from .distributed_store import *

DistBackendError = DistNetworkError = DistStoreError = DistError
default_pg_timeout = timedelta(seconds=DEFAULT_SECONDS)
GradBucket = comm_hook.GradBucket


class Backend(str):
    """What exchanges tensors, by name, in small letters: MPI does, whatever is named."""

    __slots__ = ()
    UNDEFINED, GLOO, NCCL, UCC, MPI = "undefined", "gloo", "nccl", "ucc", "mpi"

    def __new__(cls, name: str) -> Backend:
        return str.__new__(cls, name.lower())


def get_default_backend_for_device(device: Any) -> str:
    """``"mpi"``, of any device."""
    del device
    return "mpi"


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number among those of its machine, from 0: which GPU is its own.

    Args:
        fallback_rank: what it is where no ``mpirun`` has started the process.

    Raises:
        DistributedError: if none has, and no other number is given.
    """
    found = SETTINGS.rank_here if SETTINGS.rank_here is not None else fallback_rank
    if found is None:
        law = "mpirun has started the process"
        raise DistError("get_node_local_rank", law, remedy="Give a fallback_rank")
    return found


def is_torchelastic_launched() -> bool:
    """False: ``mpirun`` starts processes, and MPI is all that exchanges tensors."""
    return False


is_nccl_available = is_gloo_available = is_torchelastic_launched


def _refused(name: str) -> Callable[..., Any]:
    """A function of PyTorch's that stands on calls in other processes, of which there are none."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        raise DeviceError(
            f"distributed.{name}",
            "there is no group of processes for it",
            remedy="Exchange tensors by all_reduce, broadcast, send and recv",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refuse: there are no calls in other processes."
    return refuse


_OF_CALLS = (
    *("RRef", "RemoteModule", "TensorPipeRpcBackendOptions", "get_worker_info", "init_rpc"),
    *("remote", "rpc_async", "rpc_sync", "shutdown"),
)
rpc = ModuleType("clnet.distributed.rpc", "Calls in other processes: there are none.")
rpc.__dict__.update(
    {name: _refused(f"rpc.{name}") for name in _OF_CALLS},
    is_available=is_torchelastic_launched,
)


_OF_THEIR_GRADIENTS = ("backward", "context", "get_gradients")
autograd = ModuleType("clnet.distributed.autograd", "Gradients through other processes.")
autograd.__dict__.update({name: _refused(f"autograd.{name}") for name in _OF_THEIR_GRADIENTS})
autograd.__dict__["is_available"] = is_torchelastic_launched


def _submodule(name: str, **members: Any) -> ModuleType:
    made = ModuleType(f"clnet.distributed.{name}", "Of several processes.")
    made.__dict__.update(members)
    return made


device_mesh = _submodule("device_mesh", DeviceMesh=DeviceMesh, init_device_mesh=init_device_mesh)
tensor = _submodule(
    "tensor",
    **{name: getattr(placement, name) for name in placement.__all__ if name[0].isupper()},
    distribute_tensor=placement.distribute_tensor,
    distribute_module=distribute_module,
    **{name: getattr(laid_out, name) for name in laid_out.__all__},
    DeviceMesh=DeviceMesh,
    init_device_mesh=init_device_mesh,
    experimental=_submodule("tensor.experimental", implicit_replication=nullcontext),
    parallel=_submodule(
        "tensor.parallel",
        **{name: getattr(tensor_parallel, name) for name in tensor_parallel.__all__},
        **{name: getattr(sequence_parallel, name) for name in sequence_parallel.__all__},
        loss_parallel=loss_parallel,
    ),
)
tensor.__dict__["placement_types"] = placement
_tensor = tensor
distributed_c10d = sys.modules[__name__]
elastic = _submodule(
    "elastic",
    multiprocessing=_submodule(
        "elastic.multiprocessing",
        errors=_submodule("elastic.multiprocessing.errors", record=lambda fn: fn),
    ),
)
_composable = _submodule("_composable", fsdp=fsdp)
optim = _submodule(
    "optim",
    ZeroRedundancyOptimizer=ZeroRedundancyOptimizer,
    DistributedOptimizer=_refused("optim.DistributedOptimizer"),  # of calls in other processes
)
_DIFFERENTIABLE = (
    "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter "
    "scatter"
).split()
nn = _submodule(
    "nn",
    **{name: getattr(differentiable, name) for name in _DIFFERENTIABLE},
    functional=differentiable,
)
algorithms = _submodule(
    "algorithms",
    join=joining,
    _checkpoint=_submodule("algorithms._checkpoint", checkpoint_wrapper=checkpoint_wrapper),
    ddp_comm_hooks=_submodule(
        "algorithms.ddp_comm_hooks",
        default_hooks=_submodule(
            "algorithms.ddp_comm_hooks.default_hooks",
            **{name: getattr(comm_hook, name) for name in comm_hook.__all__ if "_" in name},
        ),
        powerSGD_hook=power_sgd,
    ),
)
