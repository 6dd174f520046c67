"""``FullyShardedDataParallel``: a wrapper around modules whose parameters lie in parts.

It divides as :func:`.fully_shard` does, parameter by parameter; there are no flat parameters.
"""

# It puts other tensors in the place of a module's own parameters.
# pyrefly: ignore-errors[protected-access]

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...autograd import no_grad
from ...errors import ArgumentError, DistributedError
from ...ranks.many import broadcast_many
from ...ranks.membership import get_rank, group_of
from ...ranks.mesh import DeviceMesh
from ...ranks.world import Group
from ...tensor import Tensor
from ...values.dtypes import DType
from ..module import Module
from ..parameters import clip_grad_norm_
from .divided_state import WRAPPED, named_optim_state, own_optim_state, whole_state
from .fully_shard import shard_module, units_of, whole_parameters
from .sharded import MixedPrecisionPolicy, Unit
from .wrap_policy import chosen_modules

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class StateDictType(Enum):
    """What ``state_dict()`` holds: whole tensors, or parts (:class:`.DTensor`)."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class ShardingStrategy(Enum):
    """What lies in parts.

    ``SHARD_GRAD_OP`` keeps whole parameters between forward and backward, ``NO_SHARD`` always; the
    hybrid ones divide along the second axis of a mesh, along whose first ranks have copies.
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When parameters are asked for in backward: taken."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """Dtypes; see :class:`.MixedPrecisionPolicy`.

    Attributes:
        param_dtype: parameters are gathered and computed with in.
        reduce_dtype: gradients are averaged in; None: ``param_dtype``.
        buffer_dtype: buffers become, once.
        keep_low_precision_grads: taken: gradients have the parts' dtype.
        cast_forward_inputs: whether floating arguments of each wrapped module become it.
        cast_root_forward_inputs: whether those of the outermost do.
        _module_classes_to_ignore: taken.
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Whether parts lie in the host's memory: on processors they do."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How states are written: ``offload_to_cpu`` has tensors of the host's."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """``rank0_only``: the states of all but the first rank of the group are empty."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of parts."""

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig(StateDictConfig):
    """Of an optimiser's state."""


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """``rank0_only``: the states of all but the first rank of the group are empty."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of parts."""


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of parts."""

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """What states of a module hold, and how they are written."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)


class FullyShardedDataParallel(Module):
    """A module of whose parameters each rank holds parts; see :func:`.fully_shard`.

    ``parameters()`` gives the parts, under the modules' names. Make the optimiser afterwards.

    Args:
        module: alike on all ranks.
        process_group: who takes part; None: all.
        sharding_strategy: what lies in parts; None: all.
        cpu_offload: as of :func:`.fully_shard`.
        auto_wrap_policy: which modules below are wrapped on their own; see
            :mod:`.wrap_policy`. None: none.
        backward_prefetch: taken.
        mixed_precision: dtypes.
        ignored_modules: whose parameters stay whole, without averaged gradients.
        param_init_fn: None.
        device_id: where the module is brought before; None: it stays.
        sync_module_states: whether parameters and buffers begin as rank 0's.
        forward_prefetch: taken.
        limit_all_gathers: taken.
        use_orig_params: taken: parameters keep their names and axes.
        ignored_states: parameters, or modules, that stay whole.
        device_mesh: of one axis, or of two for a hybrid strategy.

    Raises:
        DistributedError: if the processes are not joined, or this is not one of the group.
        ArgumentError: for what there is not.
    """

    def __init__(
        self,
        module: Module,
        process_group: Group | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        name = "FullyShardedDataParallel"
        del backward_prefetch, forward_prefetch, limit_all_gathers, use_orig_params
        super().__init__()
        if param_init_fn is not None:
            law, remedy = "param_init_fn is None", "Make the module with its elements"
            raise ArgumentError(name, law, remedy=remedy)
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = _mesh(name, process_group, strategy, device_mesh)
        if device_id is not None:
            module.to(device_id)
        ignored = [*(ignored_modules or ()), *(ignored_states or ())]
        modules = [m for m in ignored if isinstance(m, Module)]
        spared = [p for p in ignored if isinstance(p, Tensor)]
        spared += [p for m in modules for p in m.parameters()]
        if sync_module_states:
            _alike(module, mesh, {id(p) for p in spared})
        given: dict[str, Any] = {
            "sharding_strategy": strategy,
            "cpu_offload": cpu_offload,
            "mixed_precision": mixed_precision,
            "ignored_states": spared,
            "device_mesh": mesh,
        }
        if auto_wrap_policy is not None:
            left = {id(m) for m in modules}
            for owner, key, child, own in chosen_modules(module, auto_wrap_policy, left):
                setattr(owner, key, FullyShardedDataParallel(child, **(given | own)))
        self.add_module(WRAPPED, module)
        offloads = cpu_offload is not None and cpu_offload.offload_params
        if offloads and any(p.device.type != "cpu" for p in module.parameters()):
            law = "parts lie where the module does"
            raise ArgumentError(name, law, remedy="Leave cpu_offload out")
        policy = _policy(module, mixed_precision)
        keeps = strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
        reshard = None if not keeps and strategy is not ShardingStrategy.NO_SHARD else False
        unit = shard_module(self, name, mesh, policy, reshard, spared)
        self.__dict__.update(
            sharding_strategy=strategy, process_group=unit.group, _settings=StateDictSettings()
        )
        self._register_state_dict_hook(_saved)
        self._register_load_state_dict_pre_hook(_loaded)

    @property
    def module(self) -> Module:
        """The wrapped module."""
        return self._modules[WRAPPED]

    def __getattr__(self, name: str) -> Any:
        """What the wrapper has not is the module's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get(WRAPPED)
            if inner is None or name in ("_clnet_unit", "_settings"):
                raise
            return getattr(inner, name)

    def __getitem__(self, key: int) -> Any:
        """Of a container."""
        inner: Any = self.module
        return inner[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return vars(self)["_clnet_unit"].run(self.module, args, kwargs)

    def clip_grad_norm_(self, max_norm: float, norm_type: float | str = 2.0) -> Tensor:
        """Scale all gradients so that their norm together, on all ranks, is at most ``max_norm``.

        Args:
            max_norm: of all gradients taken as one vector.
            norm_type: of the norm.

        Returns:
            The norm before, ``()``.
        """
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backward passes within are only added up here, whole."""
        units = [u for u in units_of(self) if u.sync]
        self._set_sync(units, sync=False)
        try:
            yield
        finally:
            self._set_sync(units, sync=True)

    @staticmethod
    def _set_sync(units: list[Unit], *, sync: bool) -> None:
        for unit in units:
            unit.sync = sync
            unit.module._clnet_changed()

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Refuse: gradients are averaged to the ranks that have the parts.

        Raises:
            ArgumentError: always.
        """
        law, remedy = "gradients are averaged", "Pass MixedPrecision(reduce_dtype=...)"
        raise ArgumentError("register_comm_hook", law, hook=hook, state=state, remedy=remedy)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The wrapped modules in a module.

        Args:
            module: where.
            root_only: whether only those that lie in no other.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {id(m) for f in found for m in f.module.modules()}
        return [m for m in found if not root_only or id(m) not in inner]

    # Whole parameters, and states.

    @staticmethod
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> AbstractContextManager[None]:
        """A block in which a module has whole parameters; all ranks enter it.

        Args:
            module: with wrapped ones in it.
            recurse: whether of modules below, too.
            writeback: whether what they become is kept.
            rank0_only: taken: all ranks have them.
            offload_to_cpu: taken.
            with_grads: False.

        Raises:
            ArgumentError: with ``with_grads``.
        """
        del rank0_only, offload_to_cpu
        if with_grads:
            raise ArgumentError("summon_full_params", "with_grads is False", with_grads=True)
        return whole_parameters(module, writeback=writeback, recurse=recurse)

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Say what states of a module hold from now on.

        Args:
            module: with wrapped ones in it.
            state_dict_type: whole tensors, or parts.
            state_dict_config: how they are written.
            optim_state_dict_config: how optimisers' are.

        Returns:
            What was said before.
        """
        before = FullyShardedDataParallel.get_state_dict_type(module)
        settings = StateDictSettings(
            state_dict_type,
            state_dict_config or StateDictConfig(),
            optim_state_dict_config or OptimStateDictConfig(),
        )
        for wrapped in FullyShardedDataParallel.fsdp_modules(module):
            wrapped.__dict__["_settings"] = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What states of a module hold."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0].__dict__["_settings"] if found else StateDictSettings()

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """A block of :meth:`set_state_dict_type`."""
        kind = FullyShardedDataParallel
        given = (state_dict_type, state_dict_config, optim_state_dict_config)
        before = kind.set_state_dict_type(module, *given)
        try:
            yield
        finally:
            for wrapped in kind.fsdp_modules(module):
                wrapped.__dict__["_settings"] = before

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> Any:
        """An optimiser's state by parameters' names, as the model's ``state_dict_type`` says.

        Args:
            model: whose parameters it updates.
            optim: the optimiser.
            optim_state_dict: its state; None: what it gives now.
            group: taken.
        """
        del group
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config: Any = settings.optim_state_dict_config
        state = optim.state_dict() if optim_state_dict is None else optim_state_dict
        named = named_optim_state(model, optim, state)
        if settings.state_dict_type is not StateDictType.FULL_STATE_DICT:
            return named
        empty = getattr(config, "rank0_only", False) and not _is_first(model)
        return whole_state(named, empty=empty)

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, rank0_only: bool = True, **given: Any
    ) -> Any:
        """An optimiser's state by parameters' names, of whole tensors; all ranks call it."""
        del given
        named = named_optim_state(model, optim, optim.state_dict())
        return whole_state(named, empty=rank0_only and not _is_first(model))

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: Mapping[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> Any:
        """What ``optim.load_state_dict`` takes, of a state by parameters' names.

        Args:
            model: whose parameters it updates.
            optim: the optimiser.
            optim_state_dict: whole tensors or parts, on every rank.
            is_named_optimizer: taken.
            load_directly: whether it is loaded, too.
            group: taken.
        """
        del is_named_optimizer, group
        found = own_optim_state(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found


def _mesh(
    name: str, group: Group | None, strategy: ShardingStrategy, given: DeviceMesh | None
) -> DeviceMesh:
    """The ranks that have parts along its last axis, and copies along the one before."""
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    if given is None:
        members = group_of(name, group)
        if members is None:
            raise DistributedError(name, "this rank is in the group")
        given = DeviceMesh.from_group(members)
    if hybrid != (given.ndim == 2) and strategy is not ShardingStrategy.NO_SHARD:
        law = "a hybrid strategy has a mesh of two axes, another of one"
        remedy = "Pass device_mesh=init_device_mesh(device, (copies, parts))"
        raise ArgumentError(name, law, strategy=strategy, mesh=given, remedy=remedy)
    if strategy is ShardingStrategy.NO_SHARD and given.ndim == 1:
        return DeviceMesh(given.device_type, given.mesh.reshape(-1, 1))
    return given


def _policy(module: Module, given: MixedPrecision | None) -> MixedPrecisionPolicy:
    if given is None:
        return MixedPrecisionPolicy()
    if given.buffer_dtype is not None:
        for owner in module.modules():
            for key, buffer in owner._buffers.items():
                if buffer is not None and buffer.dtype.is_floating_point:
                    owner._buffers[key] = buffer.to(given.buffer_dtype)
    casts = given.cast_forward_inputs or given.cast_root_forward_inputs
    return MixedPrecisionPolicy(given.param_dtype, given.reduce_dtype, None, casts)


def _alike(module: Module, mesh: DeviceMesh, spared: set[int]) -> None:
    """Parameters and buffers become those of the mesh's first rank."""
    every = [*module.parameters(), *module.buffers()]
    given = [x.detach() for x in every if id(x) not in spared]
    if given:
        with no_grad():
            for axis in reversed(range(mesh.ndim)):
                broadcast_many(given, mesh.get_group(axis), 0)


def _is_first(module: Module) -> bool:
    """Whether states of whole tensors are this rank's: the first of who has the module."""
    units = units_of(module)
    return units[0].is_first if units else get_rank() == 0


def _saved(module: Any, state: Any, prefix: str, local: Any) -> Any:
    """The state without the wrapper's name, of whole tensors if that is asked for."""
    del local
    settings: StateDictSettings = module.__dict__["_settings"]
    config: Any = settings.state_dict_config
    whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
    own = [name for name in state if name.startswith(f"{prefix}{WRAPPED}.")]
    for name in own:
        value = state.pop(name)
        if whole:
            value = whole_state(value, cpu=config.offload_to_cpu)
            if getattr(config, "rank0_only", False) and not _is_first(module):
                continue
        state[prefix + name[len(prefix) + len(WRAPPED) + 1 :]] = value
    return state


def _loaded(state: Any, prefix: str, *rest: Any) -> None:
    """The names as the wrapper's module has them."""
    del rest
    for name in [n for n in state if n.startswith(prefix)]:
        below = name[len(prefix) :]
        if not below.startswith(f"{WRAPPED}."):
            state[f"{prefix}{WRAPPED}.{below}"] = state.pop(name)
