"""Products of one left operand, as one op; compiled functions have it."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import Launch, Target
from ...kernels.epilogue import Epilogue
from ...kernels.gemm import Multiplied, gemm_together
from ..machinery.function import Arrays, Function
from ..matmul import Linear, rounds_to_tf32


class Together(Function):
    """Linear layers of the same input: the input, then each one's weight and bias.

    Attributes:
        layers: the layers; none has a bias, or all have.
        biased: whether they have.
    """

    layers: tuple[Linear, ...]
    biased: bool

    @property
    def name(self) -> str:
        """Those of its parts."""
        return " and ".join(["linear"] * len(self.layers))

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """Each one's output."""
        parts = zip(self.layers, self._inputs(inputs), strict=True)
        return tuple(layer.infer(*operands)[0] for layer, operands in parts)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch, or each layer's own."""
        parts = list(zip(self.layers, outputs, self._inputs(inputs), strict=True))
        launches = gemm_together(target, [_multiplied(*part) for part in parts])
        if launches is not None:
            return launches
        return [x for layer, y, operands in parts for x in layer.lower(target, (y,), operands)]

    def _inputs(self, inputs: Arrays) -> list[Arrays]:
        each = 1 + self.biased
        x, rest = inputs[0], inputs[1:]
        return [(x, *rest[i : i + each]) for i in range(0, len(rest), each)]


def are_together(
    target: Target, layers: Sequence[Linear], outputs: Arrays, inputs: Sequence[Arrays]
) -> bool:
    """Whether linear layers of one input take less time in one launch.

    Args:
        target: what the device is like.
        layers: the layers.
        outputs: of each.
        inputs: of each.
    """
    if rounds_to_tf32():
        return False
    parts = [_multiplied(*part) for part in zip(layers, outputs, inputs, strict=True)]
    return gemm_together(target, parts) is not None


def _multiplied(layer: Linear, output: Array, inputs: Arrays) -> Multiplied:
    bias = inputs[2] if len(inputs) == 3 else None
    a, b = layer.operands(output, inputs)
    return Multiplied(output, a, b, Epilogue(bias, activation=layer.activation))
