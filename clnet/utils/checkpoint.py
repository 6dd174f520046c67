"""``clnet.utils.checkpoint``: :func:`clnet.checkpoint` with the settings that PyTorch's takes."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autodiff import recompute

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
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
