"""``fully_shard``: modules of which each rank holds a part of every parameter (ZeRO's third stage).

Parameters of a module are gathered before its forward pass and before its backward pass, and freed
behind both; gradients are averaged to the ranks that have the parts.
"""

# It puts other tensors in the place of a module's own parameters.
# pyrefly: ignore-errors[protected-access]

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import ArgumentError, DistributedError
from ...ranks.membership import group_of
from ...ranks.mesh import DeviceMesh
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter, is_lazy
from .divided import DividedParameter, part_for
from .sharded import MixedPrecisionPolicy, Place, Unit

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "shard_module",
    "units_of",
    "whole_parameters",
]

_UNIT = "_clnet_unit"


class OffloadPolicy:
    """Where parts lie: on the module's device."""


class CPUOffloadPolicy(OffloadPolicy):
    """Parts lie in the host's memory: on processors they do, elsewhere it is refused.

    Args:
        pin_memory: taken.
    """

    def __init__(self, pin_memory: bool = True) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        self.pin_memory = pin_memory


class UnshardHandle:
    """What :meth:`FSDPModule.unshard` gives with ``async_op``: it is done already."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


class FSDPModule:
    """What :func:`fully_shard` makes of a module, whose class it becomes beside the module's own.

    What changes how gradients are exchanged is for a step that is not compiled: a compiled one is
    traced again.
    """

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` with whole parameters."""
        above: Any = super()
        return _unit(self).run(above.__call__, args, kwargs)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:  # noqa: FBT001, FBT002
        """Have whole parameters until :meth:`reshard`, or behind the next call; all call it.

        Gradients flow from them to the parts, as they are now.

        Args:
            async_op: whether to give a handle.
        """
        unit = _unit(self)
        if not unit.is_open:
            unit.show_whole(on_tape=True)
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Have the parts again."""
        _unit(self).hide()

    def _set(self, name: str, value: Any, *, recurse: bool) -> None:
        own: Any = self
        for unit in units_of(own) if recurse else [_unit(own)]:
            setattr(unit, name, value)
            unit.module._clnet_changed()

    def set_requires_gradient_sync(
        self,
        requires_gradient_sync: bool,  # noqa: FBT001 - PyTorch's
        *,
        recurse: bool = True,
    ) -> None:
        """Whether backward passes average gradients, or only add them up on each rank.

        Args:
            requires_gradient_sync: False: whole gradients are held until one that averages.
            recurse: whether of modules below, too.
        """
        self._set("sync", requires_gradient_sync, recurse=recurse)

    def set_requires_all_reduce(
        self,
        requires_all_reduce: bool,  # noqa: FBT001 - PyTorch's
        *,
        recurse: bool = True,
    ) -> None:
        """Whether gradients are averaged over ranks that have the same part, too."""
        self._set("reduces_replicas", requires_all_reduce, recurse=recurse)

    def set_reshard_after_forward(
        self,
        reshard_after_forward: bool,  # noqa: FBT001 - PyTorch's
        recurse: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Whether whole parameters are freed between forward and backward."""
        self._set("reshard", reshard_after_forward, recurse=recurse)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What the sums of gradients are divided by, in the place of the number of ranks."""
        self._set("divides_by", float(factor), recurse=False)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def _taken(self, *args: Any, **kwargs: Any) -> None:
        """Taken: when parameters are asked for is settled here."""

    set_is_last_backward = set_reshard_after_backward = set_modules_to_forward_prefetch = _taken
    set_modules_to_backward_prefetch = set_unshard_in_backward = _taken
    set_force_sum_reduction_for_comms = set_allocate_memory_from_process_group_for_comm = _taken


def _unit(module: Any) -> Unit:
    return vars(module)[_UNIT]


def units_of(module: Module) -> list[Unit]:
    """The units of a module and of those below, the outermost first."""
    return [vars(m)[_UNIT] for m in map(_uncompiled, module.modules()) if _UNIT in vars(m)]


def _uncompiled(module: Any) -> Any:
    """The module that was compiled, if one was."""
    return vars(module)["__wrapped__"] if "num_traces" in vars(module) else module


def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: Iterable[Tensor] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Let each rank have a part of a module's parameters, which are whole while the module runs.

    Call it for blocks first, then for the model: a call takes the parameters that no call before
    took, and what it took is gathered and freed as one. All ranks call it, and the module, alike;
    then make the optimiser, whose state lies in parts, too. ``clip_grad_norm_`` and a
    ``GradScaler`` go by whole gradients. The bits are the same at every run, and those of
    :class:`.DistributedDataParallel` but for rounding; a compiled step has the exchanges among its
    steps.

    The parameters become :class:`.DividedParameter`: rows as ``chunk`` cuts the first axis.
    ``state_dict()`` has a :class:`.DTensor` for each, and ``load_state_dict`` takes such, or whole
    tensors.

    Args:
        module: its parameters are alike on all ranks.
        mesh: of one axis; of two, the first has copies and the second parts; None: all ranks.
        reshard_after_forward: whether parameters are freed between forward and backward; None: but
            those of the outermost module. A number is True.
        shard_placement_fn: None: parameters are divided along their first axis.
        mp_policy: dtypes.
        offload_policy: taken.
        ignored_params: stay as they are, whole on each rank; nobody averages their gradients.
        dp_mesh_dims: None.

    Returns:
        The module, now also a :class:`FSDPModule`.

    Raises:
        DistributedError: if the processes are not joined, or this is not one of the mesh.
        ArgumentError: if it was called for the module before, or asks for what there is not.
    """
    name = "fully_shard"
    if not isinstance(module, Module):
        raise ArgumentError(name, "module is a module", type=type(module).__name__)
    compiled, module = module, _uncompiled(module)
    if "num_traces" in vars(vars(module).get("forward", module)):
        law, remedy = "a module's forward is not compiled yet", "Call compile() afterwards"
        raise ArgumentError(name, law, module=type(module).__name__, remedy=remedy)
    if shard_placement_fn is not None or dp_mesh_dims is not None:
        raise ArgumentError(name, "shard_placement_fn and dp_mesh_dims are None")
    if isinstance(offload_policy, CPUOffloadPolicy):
        for p in module.parameters():
            if p.device.type != "cpu":
                law = "parts lie where the module does"
                raise ArgumentError(name, law, device=p.device, remedy="Leave offload_policy out")
    policy = MixedPrecisionPolicy() if mp_policy is None else mp_policy
    shard_module(module, name, mesh, policy, reshard_after_forward, ignored_params or ())
    kind = type(module)
    known: dict[str, Any] = {"__module__": FSDPModule.__module__.replace(".nn.", "."), "_of": kind}
    object.__setattr__(module, "__class__", type(f"FSDP{kind.__name__}", (FSDPModule, kind), known))
    module._clnet_changed()
    return compiled


def shard_module(
    module: Module,
    name: str,
    mesh: DeviceMesh | None,
    policy: MixedPrecisionPolicy,
    reshard: bool | int | None,  # noqa: FBT001
    ignored: Iterable[Tensor],
) -> Unit:
    """Divide the parameters of a module that are not yet; its unit.

    Args:
        module: whose they are, its own and those of modules below.
        name: of who asks.
        mesh: as for :func:`fully_shard`.
        policy: dtypes.
        reshard: as ``reshard_after_forward`` there.
        ignored: parameters that stay.
    """
    if _UNIT in vars(module):
        raise ArgumentError(name, "a module is divided once", module=type(module).__name__)
    if mesh is None:
        group = group_of(name, None)
        if group is None:
            raise DistributedError(name, "this rank is in the group")
        mesh = DeviceMesh.from_group(group)
    if mesh.ndim > 2:
        raise ArgumentError(name, "the mesh has one axis, or two: copies and parts", mesh=mesh)
    below = units_of(module)
    spared = {id(p) for p in ignored}
    taken = {id(piece.shard) for unit in below for piece in unit.pieces}
    found: dict[int, tuple[Parameter, list[Place]]] = {}
    for owner in module.modules():
        for key, p in owner._parameters.items():
            if p is None or id(p) in spared or id(p) in taken:
                continue
            if vars(p).get("is_gathered"):
                law, remedy = "a unit's parameters are its own", "Shard what holds both places"
                raise ArgumentError(name, law, parameter=key, remedy=remedy)
            if is_lazy(p):
                law, remedy = "parameters have shapes", "Call the module once before"
                raise ArgumentError(name, law, parameter=key, remedy=remedy)
            found.setdefault(id(p), (p, []))[1].append((owner, key))
    unit = Unit(
        module,
        list(found.values()),
        mesh=mesh if mesh.ndim == 1 else _line(mesh, 1),
        replicas=mesh.get_group(0) if mesh.ndim == 2 else None,
        policy=policy,
        reshard=reshard,
    )
    for other in below:
        other.reshard |= other.keeps_outermost
    vars(module)[_UNIT] = unit
    for piece in unit.pieces:
        for owner, key in piece.places:
            _hang_state_hooks(owner, key)
    return unit


def _line(mesh: DeviceMesh, axis: int) -> DeviceMesh:
    return DeviceMesh.from_group(mesh.get_group(axis), mesh.device_type)


def _hang_state_hooks(owner: Module, key: str) -> None:
    """Let a module's state have the parts as parts, and take such or whole tensors."""

    def saved(module: Module, state: Any, prefix: str, local: Any) -> None:
        del local
        own = module._parameters.get(key)
        if isinstance(own, DividedParameter) and prefix + key in state:
            # Parts of parts are written whole.
            whole = own.full_tensor() if own.beyond is not None else own.as_dtensor()
            state[prefix + key] = whole

    def loaded(state: Any, prefix: str, local: Any, *rest: Any) -> None:
        del rest
        own = owner._parameters.get(key)
        if isinstance(own, DividedParameter) and prefix + key in state:
            part = part_for(own, state[prefix + key])
            if local.get("assign_to_params_buffers") and isinstance(part, Tensor):
                part = part.detach().clone()  # it must not hold the whole
            state[prefix + key] = part

    owner._register_state_dict_hook(saved)
    owner._register_load_state_dict_pre_hook(loaded)


@contextmanager
def whole_parameters(module: Module, *, writeback: bool, recurse: bool = True) -> Iterator[None]:
    """A block in which a module has whole parameters, off the tape; all ranks enter it.

    Args:
        module: with units in it.
        writeback: whether what they became there is kept.
        recurse: whether of modules below, too.
    """
    units = [u for u in units_of(module)[: None if recurse else 1] if not u.is_open]
    try:
        shown = [(unit, unit.show_whole(on_tape=False)) for unit in units]
        yield
        if writeback:
            for unit, whole in shown:
                unit.keep(whole)
    finally:
        for unit in units:
            unit.hide()


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let a method run with whole parameters, as ``forward`` does.

    Args:
        module: a :class:`FSDPModule`; others stay as they are.
        method_name: of the method.
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)

    def called(*args: Any, **kwargs: Any) -> Any:
        return _unit(module).run(method, args, kwargs)

    vars(module)[method_name] = called
