"""States of models and optimisers whose parameters lie in parts: by names, whole or as parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import CheckpointError
from ...ranks.placement import DTensor
from ...tensor import Tensor
from ..module import Module
from .divided import DividedParameter

__all__ = [
    "CHECKPOINTED",
    "WRAPPED",
    "named_optim_state",
    "own_optim_state",
    "plain_name",
    "whole_state",
]

WRAPPED, CHECKPOINTED = "_fsdp_wrapped_module", "_checkpoint_wrapped_module"
"""Names of modules in wrappers, in PyTorch's words."""


def plain_name(name: str) -> str:
    """A parameter's name without those of wrappers around modules."""
    for part in (WRAPPED, CHECKPOINTED):
        name = name.replace(f"{part}.", "")
    return name


def _names(model: Module, optimizer: Any) -> list[tuple[str, Tensor]]:
    """The optimiser's parameters in order, each with its name in the model.

    Raises:
        CheckpointError: if one is not the model's.
    """
    known = {id(p): plain_name(name) for name, p in model.named_parameters()}
    every = [p for group in optimizer.param_groups for p in group["params"]]
    if any(id(p) not in known for p in every):
        law, remedy = "an optimiser updates the model's parameters", "Make it of model.parameters()"
        raise CheckpointError("optim_state_dict", law, remedy=remedy)
    return [(known[id(p)], p) for p in every]


def named_optim_state(model: Module, optimizer: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimiser's state by names of parameters; what lies in parts is a :class:`.DTensor`.

    Args:
        model: whose parameters it updates.
        optimizer: the optimiser.
        state: what its ``state_dict()`` gave.
    """
    named = _names(model, optimizer)
    entries = {
        name: {k: _placed(p, v) for k, v in state["state"][i].items()}
        for i, (name, p) in enumerate(named)
        if i in state["state"]
    }
    groups = _groups(optimizer, state, [name for name, _ in named])
    return {"state": entries, "param_groups": groups}


def _groups(optimizer: Any, state: Mapping[str, Any], keys: Sequence[Any]) -> list[dict[str, Any]]:
    """A state's groups, with what stands for each of their parameters, of all groups in order."""
    groups, start = [], 0
    for own, group in zip(optimizer.param_groups, state["param_groups"], strict=True):
        end = start + len(own["params"])
        groups.append({**group, "params": list(keys[start:end])})
        start = end
    return groups


def _placed(p: Tensor, value: Any) -> Any:
    """A state of a parameter as a part, where it lies as the parameter does."""
    return p.placed(value) if isinstance(p, DividedParameter) else value


def own_optim_state(model: Module, optimizer: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """What an optimiser's ``load_state_dict`` takes of a state by names.

    Args:
        model: whose parameters it updates.
        optimizer: the optimiser.
        state: whole tensors or parts.

    Raises:
        CheckpointError: if the groups are others.
    """
    named = _names(model, optimizer)
    if len(state["param_groups"]) != len(optimizer.param_groups):
        given, own = len(state["param_groups"]), len(optimizer.param_groups)
        law = "the state has the optimiser's groups"
        raise CheckpointError("optim_state_dict_to_load", law, state=given, optimiser=own)
    entries = {
        i: {k: _own(p, v) for k, v in state["state"][name].items()}
        for i, (name, p) in enumerate(named)
        if name in state["state"]
    }
    groups = _groups(optimizer, state, range(len(named)))
    return {"state": entries, "param_groups": groups}


def _own(p: Tensor, value: Any) -> Any:
    if isinstance(p, DividedParameter):
        return p.own_of(value)
    return value.full_tensor() if isinstance(value, DTensor) else value


def whole_state(state: Any, *, cpu: bool = False, empty: bool = False) -> Any:
    """A state of whole tensors; all ranks call it, with the same names.

    Args:
        state: tensors and parts, in dicts and lists.
        cpu: whether they become the host's.
        empty: whether this rank gets none of it.
    """
    found = _whole(state, cpu=cpu)
    return {} if empty else found


def _whole(value: Any, *, cpu: bool) -> Any:
    if isinstance(value, DTensor):
        value = value.full_tensor().detach()
    if isinstance(value, Tensor):
        return value.cpu() if cpu else value
    if isinstance(value, Mapping):
        return {k: _whole(v, cpu=cpu) for k, v in value.items()}
    if isinstance(value, list):
        return [_whole(v, cpu=cpu) for v in value]
    return value
