"""``nn.attention.bias``: causal masks of queries and keys that are not equally many."""

from __future__ import annotations

from ..creation import ones
from ..tensor import Tensor
from ..values.dtypes import bool_

__all__ = ["causal_lower_right", "causal_upper_left"]


def causal_upper_left(*size: int) -> Tensor:
    """Whether query i may look at key j: ``j <= i``.

    Args:
        size: numbers of queries and keys.

    Returns:
        A boolean mask of that shape, for ``F.scaled_dot_product_attention``.
    """
    return ones(*size, dtype=bool_).tril()


def causal_lower_right(*size: int) -> Tensor:
    """The same, counted from the last query and key: ``j <= i + keys - queries``.

    Argument and result as for :func:`causal_upper_left`.
    """
    return ones(*size, dtype=bool_).tril(size[-1] - size[-2])
