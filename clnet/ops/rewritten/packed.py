"""Linear layers whose weights lie in panels, as products read them."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...kernels.epilogue import Epilogue, Finish
from ...kernels.gemm import gemm, pack_into, panel_elements
from ..machinery.function import Arrays, Function
from ..matmul import Linear


class PackPanels(Function):
    """A weight ``(n, k)`` as the products with ``rows`` rows read it.

    Attributes:
        rows: of the other operand.
        elements: of the panels.
    """

    rows: int
    elements: int

    def infer(self, weight: Array) -> tuple[Array, ...]:
        """One axis of panels, meant for such products alone."""
        return (Array.abstract((self.elements,), weight.dtype, weight.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The packing."""
        (weight,) = inputs
        out, a, b = _operands(self.rows, weight)
        return [pack_into(target, outputs[0], out, a, b)]


class PackedLinear(Linear):
    """A linear layer of an input, a weight, the weight's panels, and perhaps a bias."""

    differentiable = ()

    def infer(self, x: Array, weight: Array, *others: Array) -> tuple[Array, ...]:
        """The layer's result; it does not depend on panels and bias."""
        return super().infer(x, weight)

    def lower(
        self,
        target: Target,
        outputs: Arrays,
        inputs: Arrays,
        finish: Finish | None = None,
    ) -> list[Launch]:
        """The product, the bias in its epilogue."""
        (out,), (panels, *bias) = outputs, inputs[2:]
        a, b = self.operands(out, inputs)
        epilogue = Epilogue(bias[0] if bias else None, activation=self.activation, finish=finish)
        return gemm(target, out, a, b, epilogue=epilogue, panels=panels)


def elements_of_panels(target: Target, rows: int, weight: Array) -> int | None:
    """Elements of a weight's panels; None where such products read none.

    Args:
        target: what the device is like.
        rows: of the other operand.
        weight: ``(n, k)``.
    """
    return panel_elements(target, *_operands(rows, weight))


def _operands(rows: int, weight: Array) -> tuple[Array, Array, Array]:
    """Result, left and right operand of the product, of which only the last has a place."""
    n, k = weight.shape
    out = Array.abstract((rows, n), weight.dtype, weight.device)
    a = Array.abstract((rows, k), weight.dtype, weight.device)
    return out, a, weight.view(weight.shape[::-1], weight.strides[::-1])
