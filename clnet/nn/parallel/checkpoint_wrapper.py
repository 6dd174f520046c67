"""Wrappers around modules that are computed again in backward, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import Any

from ...autodiff.recompute import checkpoint
from ...errors import ArgumentError
from ..module import Module
from .divided_state import CHECKPOINTED
from .wrap_policy import chosen_modules

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]


class CheckpointImpl(Enum):
    """How values are computed again: taken, there is one way."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """A module in a wrapper, whose state has the module's names.

    Args:
        mod: the module.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self.add_module(CHECKPOINTED, mod)
        self._register_state_dict_hook(_saved)
        self._register_load_state_dict_pre_hook(_loaded)

    def __getattr__(self, name: str) -> Any:
        """What the wrapper has not is the module's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get(CHECKPOINTED)
            if inner is None:
                raise
            return getattr(inner, name)

    def __getitem__(self, key: int) -> Any:
        """Of a container."""
        inner: Any = self.__dict__["_modules"][CHECKPOINTED]
        return inner[key]


class CheckpointWrapper(ActivationWrapper):
    """A module that runs under :func:`clnet.checkpoint`.

    Args:
        mod: the module.
        checkpoint_impl: taken.
        checkpoint_fn: ``checkpoint_fn(module, *args, **kwargs)`` is called in its place.
        **checkpoint_fn_kwargs: for ``checkpoint_fn``.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        del checkpoint_impl
        own = (
            checkpoint if checkpoint_fn is None else partial(checkpoint_fn, **checkpoint_fn_kwargs)
        )
        self.__dict__["checkpoint_fn"] = own

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        inner = self.__dict__["_modules"][CHECKPOINTED]
        return self.__dict__["checkpoint_fn"](inner, *args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """A :class:`CheckpointWrapper` around a module; arguments as there."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """Refuse: kept values stay on the device.

    Raises:
        ArgumentError: always.
    """
    law, remedy = "kept values stay on the device", "Take checkpoint_wrapper"
    raise ArgumentError("offload_wrapper", law, module=type(module).__name__, remedy=remedy)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Put modules below a model into wrappers, inner ones first.

    Args:
        model: the model.
        checkpoint_wrapper_fn: makes a wrapper.
        check_fn: whether a module gets one.
        auto_wrap_policy: the same, as policies say it; see :mod:`.wrap_policy`.
    """
    if auto_wrap_policy is not None:
        places: Iterable[tuple[Module, str, Module]] = [
            (owner, key, child)
            for owner, key, child, _ in chosen_modules(model, auto_wrap_policy, set())
        ]
    else:
        every = [m for m in model.modules() if not isinstance(m, ActivationWrapper)]
        tables = [(m, vars(m)["_modules"]) for m in every]
        found = [(m, k, child) for m, t in tables for k, child in t.items() if child is not None]
        places = [place for place in reversed(found) if check_fn(place[2])]
    for owner, key, child in places:
        setattr(owner, key, checkpoint_wrapper_fn(child))


def _saved(module: Module, state: Any, prefix: str, local: Any) -> None:
    del module, local
    inner = f"{prefix}{CHECKPOINTED}."
    for name in [n for n in state if n.startswith(inner)]:
        state[prefix + name[len(inner) :]] = state.pop(name)


def _loaded(state: Any, prefix: str, *rest: Any) -> None:
    del rest
    inner = f"{prefix}{CHECKPOINTED}."
    for name in [n for n in state if n.startswith(prefix) and not n.startswith(inner)]:
        state[inner + name[len(prefix) :]] = state.pop(name)
