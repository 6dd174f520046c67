"""``clnet.utils.checkpoint``: :func:`clnet.checkpoint` with the settings that PyTorch's takes."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from enum import Enum
from functools import wraps
from typing import Any

from ..autodiff import recompute
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from ..values.plain import shown

__all__ = [
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointPolicy(Enum):
    """What a policy of :func:`create_selective_checkpoint_contexts` says of an operator."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is given first.

    Attributes:
        is_recompute: whether the function runs once more.
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Two contexts for ``context_fn`` of :func:`checkpoint`, in which all is computed once more.

    So is what a policy would keep, since a function is computed once more as a whole: results and
    gradients are the same, and memory is that of a plain checkpoint.

    Args:
        policy_fn_or_list: operators that are to be kept, or a function that gives a policy.
        allow_cache_entry_mutation: taken.

    Returns:
        A context for the first time, and one for the second.

    Raises:
        ArgumentError: if the first is neither.
    """
    del allow_cache_entry_mutation
    listed = isinstance(policy_fn_or_list, list | tuple) and all(map(callable, policy_fn_or_list))
    if not listed and not callable(policy_fn_or_list):
        law = "a policy is a function, or a list of operators"
        raise ArgumentError(
            "create_selective_checkpoint_contexts", law, policy=shown(policy_fn_or_list)
        )
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """As :func:`clnet.checkpoint`; most settings change nothing: random numbers are the same.

    Args:
        function: as there.
        *args: its arguments.
        use_reentrant: taken.
        context_fn: gives two context managers: the function runs in the first, and in the second
            when it runs once more in backward.
        determinism_check: taken.
        debug: taken.
        early_stop: taken.
        preserve_rng_state: taken.
        **kwargs: plain values for the function.

    Returns:
        What the function returns.

    Raises:
        ArgumentError: of ``context_fn`` with ``use_reentrant=True``.
    """
    if context_fn is not None:
        if use_reentrant:
            raise ArgumentError("checkpoint", "context_fn goes with use_reentrant=False")
        function = _within(function, *context_fn())
    return recompute.checkpoint(function, *args, **kwargs)


def _within(function: Callable[..., Any], forward: Any, again: Any) -> Callable[..., Any]:
    """A function that runs in one context, and in another when it is computed once more."""

    @wraps(function)
    def within(*args: Any, **kwargs: Any) -> Any:
        with again if mode.current().recomputing else forward:
            return function(*args, **kwargs)

    return within


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A block that changes nothing: a function is computed once more as a whole.

    Args:
        enable: taken.
    """
    del enable
    yield


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,  # noqa: A002 - PyTorch's name
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """As :func:`clnet.checkpoint_sequential`."""
    return recompute.checkpoint_sequential(functions, segments, input)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """None: one generator draws for all devices, ``clnet.get_rng_state()`` is its state."""
    return [], []


def set_device_states(devices: Any, states: Any, **given: Any) -> None:
    """Nothing: see :func:`get_device_states`."""


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without their graphs, which want gradients as before; all else as it is."""
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor among them wants a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        text = "None of the inputs have requires_grad=True. Gradients will be None"
        warnings.warn(text, stacklevel=2)
