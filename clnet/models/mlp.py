"""The multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from .. import nn
from ..errors import ArgumentError
from ..tensor import Tensor


class MLP(nn.Module):
    """Dense layers with ReLU between them.

    Args:
        input_shape: of one example, any number of axes.
        classes: outputs.
        hidden: features of the layers between.

    Raises:
        ArgumentError: if a size is below 1.
    """

    def __init__(
        self, input_shape: Sequence[int], classes: int, *, hidden: Sequence[int] = (256, 128)
    ) -> None:
        super().__init__()
        sizes = [prod(input_shape), *hidden, classes]
        if min(sizes) < 1:
            raise ArgumentError("MLP", "sizes are 1 or more", input_shape=input_shape, sizes=sizes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """``(n, classes)``, before the softmax, from ``(n, *input_shape)``."""
        x = x.flatten(1)
        *inner, last = self.layers
        for layer in inner:
            x = layer(x).relu()
        return last(x)
