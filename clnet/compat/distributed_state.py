"""``torch.distributed.checkpoint.state_dict``: states of models and optimisers by plain names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CheckpointError
from ..nn import Module
from ..nn.module import IncompatibleKeys
from ..nn.parallel.data_parallel import DataParallel
from ..nn.parallel.distributed import DistributedDataParallel
from ..nn.parallel.divided import DividedParameter
from ..nn.parallel.divided_state import (
    named_optim_state,
    own_optim_state,
    plain_name,
    whole_state,
)
from ..nn.parallel.fully_sharded import FullyShardedDataParallel, StateDictType
from ..optim import Optimizer
from ..ranks.membership import get_rank, is_initialized
from ..ranks.message import broadcast_object_list
from ..ranks.placement import DTensor
from ..tensor import Tensor, tensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """What states hold.

    Attributes:
        full_state_dict: whole tensors, of which other ranks than 0 get none with ``cpu_offload``;
            else parts.
        cpu_offload: tensors of the host's.
        ignore_frozen_params: leave out parameters that are not trained.
        keep_submodule_prefixes: taken.
        strict: whether names must be the same when a model's state is set.
        broadcast_from_rank0: whether only rank 0 gives a state, of whole tensors.
        flatten_optimizer_state_dict: False.
        dsd_fqn_modifiers: taken.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _inner(model: Module) -> Any:
    """A model without wrappers of copies."""
    while isinstance(model, DistributedDataParallel | DataParallel):
        model = model.module
    return model


def _written(state: Any, options: StateDictOptions | None) -> Any:
    options = options or StateDictOptions()
    if not options.full_state_dict:
        return state
    nothing = options.cpu_offload and is_initialized() and get_rank() != 0
    return whole_state(state, cpu=options.cpu_offload, empty=nothing)


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state by plain names; all ranks call it.

    Args:
        model: also one that is wrapped or lies in parts.
        submodules: None.
        options: what it holds.

    Raises:
        CheckpointError: if ``submodules`` are given.
    """
    if submodules is not None:
        raise CheckpointError("get_model_state_dict", "submodules is None")
    inner = _inner(model)
    with FullyShardedDataParallel.state_dict_type(inner, StateDictType.SHARDED_STATE_DICT):
        given = inner.state_dict()
    parts = {plain_name(n): p for n, p in inner.named_parameters()}
    state: dict[str, Any] = {}
    for name, value in given.items():
        plain = plain_name(name)
        part = parts.get(plain)
        leaves_out = options is not None and options.ignore_frozen_params
        if leaves_out and part is not None and not part.requires_grad:
            continue
        divided = isinstance(part, DividedParameter) and not isinstance(value, DTensor)
        state[plain] = part.as_dtensor() if divided else value
    return _written(state, options)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | tuple[Optimizer, ...],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Optimisers' states by names of parameters; all ranks call it.

    Args:
        model: whose parameters they update.
        optimizers: one or several.
        submodules: None.
        options: what it holds.

    Raises:
        CheckpointError: for states that are not kept so.
    """
    name = "get_optimizer_state_dict"
    if submodules is not None or (options is not None and options.flatten_optimizer_state_dict):
        law = "submodules is None, and flatten_optimizer_state_dict False"
        raise CheckpointError(name, law)
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _several(optimizers):
        found = named_optim_state(_inner(model), optimizer, optimizer.state_dict())
        whole["state"].update(found["state"])
        whole["param_groups"] += found["param_groups"]
    return _written(whole, options)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | tuple[Optimizer, ...],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both :func:`get_model_state_dict` and :func:`get_optimizer_state_dict`."""
    given: dict[str, Any] = {"submodules": submodules, "options": options}
    return (
        get_model_state_dict(model, **given),
        get_optimizer_state_dict(model, optimizers, **given),
    )


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Load a state by plain names; all ranks call it. A model on ``meta`` takes its tensors.

    Args:
        model: also one that is wrapped or lies in parts.
        model_state_dict: parts, or whole tensors on every rank.
        options: ``strict``, and whether rank 0's state is taken.

    Returns:
        The names that differ.
    """
    options = options or StateDictOptions()
    inner = _inner(model)
    state = _from_first(model_state_dict) if options.broadcast_from_rank0 else model_state_dict
    names = {plain_name(n): n for n in _state_names(inner)}
    return inner.load_state_dict(
        {names.get(name, name): value for name, value in state.items()},
        strict=options.strict,
        assign=any(p.is_meta for p in inner.parameters()),
    )


def _state_names(model: Any) -> list[str]:
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        return [*model.state_dict()]


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | tuple[Optimizer, ...],
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Let optimisers continue from states by names; all ranks call it.

    Args:
        model: whose parameters they update.
        optimizers: one or several.
        optim_state_dict: what :func:`get_optimizer_state_dict` gave, on every rank.
        options: whether rank 0's state is taken.
    """
    given: Any = optim_state_dict
    if options is not None and options.broadcast_from_rank0:
        given = _from_first(given)
    groups = list(given["param_groups"])
    for optimizer in _several(optimizers):
        count = len(optimizer.param_groups)
        own, groups = groups[:count], groups[count:]
        state = {"state": given["state"], "param_groups": own}
        optimizer.load_state_dict(own_optim_state(_inner(model), optimizer, state))


def set_state_dict(
    model: Module,
    optimizers: Optimizer | tuple[Optimizer, ...],
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Both :func:`set_model_state_dict` and :func:`set_optimizer_state_dict`."""
    found = IncompatibleKeys([], [])
    if model_state_dict:
        found = set_model_state_dict(model, model_state_dict, options=options)
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


def _several(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _from_first(state: Any) -> Any:
    """Rank 0's state, of whole tensors, on every rank."""
    if not is_initialized():
        return state
    told = [_packed(state) if get_rank() == 0 else None]
    broadcast_object_list(told, 0)
    return _unpacked(told[0])


def _packed(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _Host(value.detach().array.numpy())
    if isinstance(value, Mapping):
        return {k: _packed(v) for k, v in value.items()}
    return [_packed(v) for v in value] if isinstance(value, list) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, _Host):
        return tensor(value.array)
    if isinstance(value, dict):
        return {k: _unpacked(v) for k, v in value.items()}
    return [_unpacked(v) for v in value] if isinstance(value, list) else value


@dataclass
class _Host:
    """A tensor's elements on their way."""

    array: Any


def _init_optim_state(optim: Any) -> None:  # for programs
    """Nothing: an optimiser's state has tensors before its first step."""
    del optim
