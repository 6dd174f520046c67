"""``clnet.utils.checkpoint``: :func:`clnet.checkpoint` with the settings that PyTorch's takes."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ..autodiff import recompute
from ..tensor import Tensor

__all__ = [
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "set_device_states",
]


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
    """As :func:`clnet.checkpoint`; the settings change nothing: random numbers are always the same.

    Args:
        function: as there.
        *args: its arguments.
        use_reentrant: taken.
        context_fn: taken.
        determinism_check: taken.
        debug: taken.
        early_stop: taken.
        preserve_rng_state: taken.
        **kwargs: plain values for the function.

    Returns:
        What the function returns.
    """
    return recompute.checkpoint(function, *args, **kwargs)


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
