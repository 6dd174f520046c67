"""``clnet.cond`` and ``clnet.while_loop``: PyTorch's control flow, as Python runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor import Tensor

__all__ = ["cond", "while_loop"]


def cond(
    pred: Tensor | float,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """What one of two functions gives; the host waits for ``pred``.

    Args:
        pred: a tensor of one element, or a number.
        true_fn: called with the operands where it is not 0.
        false_fn: called with them else.
        operands: of either.
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Call a function on its results as long as another says so; the host waits at each turn.

    Args:
        cond_fn: called with the values; gives a tensor of one element, or a bool.
        body_fn: called with the values; gives as many.
        carried_inputs: the first.

    Returns:
        The last.
    """
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        found = body_fn(*values)
        values = tuple(found) if isinstance(found, tuple | list) else (found,)
    return values
