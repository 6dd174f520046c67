"""What is measured beside the loss; a metric is a mean over the examples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..tensor import Tensor

Metric: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""``metric(outputs, targets)`` gives a tensor of one element."""


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The part of the examples whose largest output is that of the target class.

    Args:
        outputs: ``(n, classes)``.
        targets: ``(n,)``, class numbers.

    Returns:
        One element, from 0 to 1.
    """
    return (outputs.argmax(1) == targets).float().mean()
