"""Optimisers' states as PyTorch's have them, so that checkpoints go either way.

What clnet keeps beside stays: ``num_params`` tells its states from PyTorch's, in which parameters
without a step have no entry.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError
from ..ops import full_like
from ..tensor import Tensor, full
from ..values.arguments import shown
from ..values.dtypes import float32

if TYPE_CHECKING:
    from .optimizer import Optimizer

_CAPTURABLE = {"capturable": False}
_LISTS: dict[str, Any] = {"foreach": None, "differentiable": False}
_FLAGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("ASGD", "Adadelta", "Adamax", "NAdam", "RAdam"), _LISTS | _CAPTURABLE),
    **dict.fromkeys(("RMSprop", "Rprop"), _LISTS | _CAPTURABLE),
    **dict.fromkeys(("SGD", "Adagrad"), _LISTS | {"fused": None}),
    **dict.fromkeys(("Adam", "AdamW"), _LISTS | _CAPTURABLE | {"fused": None}),
    "Adafactor": {"foreach": None},
}
"""Settings of PyTorch's that choose how it computes, and that its steps look up in a group."""
_LATER = {"maximize", "decoupled_weight_decay", "differentiable"}
"""Settings that clnet's own states were saved without, before there were these."""
_COUNTLESS = ("SGD", "Muon", "LBFGS", "SparseAdam")
"""Those of which PyTorch's counts no steps, or counts them in a number of Python."""


def filled_like(p: Tensor, value: float) -> Tensor:
    """A parameter's state that begins with a number, in both parts of complex elements."""
    return full_like(p.detach(), complex(value, value) if p.dtype.is_complex else value)


def given_once(optimizer: str, params: Sequence[Tensor]) -> list[Tensor]:
    """A group's parameters without those that come again, of which a warning tells."""
    found = list({id(p): p for p in params}.values())
    if len(found) < len(params):
        text = f"{optimizer}: of a group's {len(params)} parameters {len(found)} are different"
        warnings.warn(
            f"{text}; each is updated once a step, which PyTorch does twice", stacklevel=4
        )
    return found


def flags_of(name: str) -> dict[str, Any]:
    """Settings of PyTorch's optimiser of a name that choose how it computes, which is one here."""
    return _FLAGS.get(name, {})


def groups_of(optimizer: Optimizer, name: str) -> list[dict[str, Any]]:
    """The settings of groups, of an optimiser of a name; parameters are named by position."""
    flags, first = _FLAGS.get(name, {}), 0
    groups: list[dict[str, Any]] = []
    for own in optimizer.param_groups:
        last = first + len(own["params"])
        settings = {**flags, **{k: v for k, v in own.items() if k != "params"}}
        groups.append({**settings, "num_params": last - first, "params": [*range(first, last)]})
        first = last
    return groups


def checked_groups(optimizer: Optimizer, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The groups of a state.

    Raises:
        CheckpointError: if they do not fit the optimiser's.
    """
    name = type(optimizer).__name__
    if not isinstance(state, Mapping) or not {"param_groups", "state"} <= set(state):
        law, hint = "not an optimiser's state", "Pass what state_dict() gave"
        raise CheckpointError(name, law, state=shown(state), remedy=hint)
    groups = state["param_groups"]
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    theirs = [group.get("num_params", len(group.get("params", ()))) for group in groups]
    whole = all("num_params" in group for group in groups)  # else it is PyTorch's
    entries = len(state["state"]) - len(beside(state["state"]))
    if theirs != sizes or (whole and entries != sum(sizes)):
        raise CheckpointError(
            name, "the state has other groups or parameters", state=theirs, optimiser=sizes
        )
    for own, group in zip(optimizer.param_groups, groups, strict=True):
        # States were saved before there were these settings.
        if {*own} & {*optimizer.defaults} - _LATER - {*group}:
            raise CheckpointError(
                name,
                "the state's settings are those of another optimiser",
                state=sorted(group),
                optimiser=sorted(own),
            )
    return groups


def taken(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What of a state's group an optimiser of a name keeps."""
    left = {"num_params", "params", *_FLAGS.get(name, {})}
    return {
        k: v.detach().clone() if isinstance(v, Tensor) else v
        for k, v in settings.items()
        if k not in left
    }


def is_counted(optimizer: Optimizer) -> bool:
    """Whether PyTorch's optimiser of the name keeps a number of steps for each parameter."""
    return type(optimizer).__name__ not in _COUNTLESS


def step_tensor(num_steps: int, device: Any) -> Tensor:
    """The number of a parameter's steps as PyTorch keeps it: a float in a tensor."""
    return full((), float(num_steps), dtype=float32, device=device)


def entry_of(states: Mapping[Any, Any], i: int, *, pytorchs: bool) -> Mapping[str, Any] | None:
    """What a state holds of a parameter; PyTorch's has nothing before the first step."""
    found = states.get(i, states.get(str(i)))  # files of clnet's have texts
    if not pytorchs:
        return found
    found = {k: v for k, v in (found or {}).items() if v is not None}
    return {"step": int(bool(found)), **found}  # SGD counts no steps


def number_of(optimizer: str, **named: Any) -> float:
    """A number of a state, given by its name there; PyTorch's are tensors.

    Raises:
        CheckpointError: if it is none.
    """
    ((name, value),) = named.items()
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # told below
        pass
    raise CheckpointError(optimizer, f"{name} is a number", **{name: repr(value)[:80]})


def beside(states: Mapping[Any, Any]) -> dict[Any, Any]:
    """What a program keeps in an optimiser's state that is of no parameter."""

    def is_place(key: Any) -> bool:
        return isinstance(key, Tensor | int) or (isinstance(key, str) and key.isdecimal())

    return {key: value for key, value in states.items() if not is_place(key)}


def placed_state(optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    """A state in which tensors that lie in parts, as their parameters do, say so."""
    return _changed(optimizer, state, "placed")


def own_state(optimizer: Any, state: Any) -> Any:
    """A state of this rank's parts, of one that has parts or whole tensors."""
    if isinstance(state, Mapping) and isinstance(state.get("state"), Mapping):
        return _changed(optimizer, state, "own_of")
    return state


def _changed(optimizer: Any, state: Any, how: str) -> Any:
    """A state whose entries of gathered parameters a method of theirs has changed."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    gathered = {k: p for k, p in enumerate(params) if vars(p).get("is_gathered")}
    if not gathered:
        return state
    entries = type(state["state"])(state["state"])
    for k, p in gathered.items():
        key = k if k in entries else str(k)
        if isinstance(entries.get(key), Mapping):
            change = getattr(p, how)
            entries[key] = {name: change(v) for name, v in entries[key].items()}
    return {**state, "state": entries}
