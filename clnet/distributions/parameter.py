"""What distributions that programs write take from ``torch.distributions.utils``."""

from __future__ import annotations

from numbers import Number
from typing import Any

from .. import ops
from ..errors import KindError
from ..inspection import finfo
from ..tensor import Tensor, tensor
from ..values.arguments import shown
from ..values.lazy import lazy as lazy_property

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape, numbers in the dtype of the first tensor.

    Raises:
        KindError: if one is neither.
    """
    if any(not isinstance(v, Tensor | Number) for v in values):
        law = "values are tensors or numbers"
        raise KindError("broadcast_all", law, got=", ".join(map(shown, values)))
    first = next((v for v in values if isinstance(v, Tensor)), None)
    like: dict[str, Any] = {} if first is None else {"dtype": first.dtype, "device": first.device}
    made = (v if isinstance(v, Tensor) else tensor(v if like else float(v), **like) for v in values)
    return tuple(ops.broadcast_tensors(*made))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """Logarithms of probabilities, or of odds of two ways."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """The inverse: a sigmoid, or a softmax over the last axis."""
    return logits.sigmoid() if is_binary else ops.softmax(logits, -1)
