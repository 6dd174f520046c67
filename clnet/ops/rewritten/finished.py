"""A product and what pointwise steps make of its result, as one op; compiled functions have it."""

from __future__ import annotations

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...expr import Expr
from ...kernels.epilogue import Finish
from ...kernels.gemm import finishes
from ...values.dtypes import DType
from ...values.shapes import Shape
from ..machinery.function import Arrays, Function
from ..matmul import Linear, MatMul


class Finished(Function):
    """Pointwise expressions of a product's result, some of which overwrite inputs.

    Its inputs are those that are overwritten, others of the result's shape, then the product's.

    Attributes:
        product: the product.
        parts: names of the pointwise ops.
        exprs: first those that overwrite inputs, then those of the outputs; ``Input(0)`` is the
            product's result, ``Input(1 + i)`` input i.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        shapes: of the outputs; all have as many elements as the result.
        dtype: of all arrays.
        changed: how many inputs, the first ones, are overwritten.
        reads: how many inputs come before the product's.
    """

    product: MatMul | Linear
    parts: tuple[str, ...]
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]
    shapes: tuple[Shape, ...]
    dtype: DType
    changed: int
    reads: int

    @property
    def name(self) -> str:
        """The names of its parts."""
        return "+".join(dict.fromkeys((self.product.name, *self.parts)))

    @property
    def mutates(self) -> tuple[int, ...]:
        """The first inputs."""
        return tuple(range(self.changed))

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        return tuple(Array.abstract(s, self.dtype, inputs[0].device) for s in self.shapes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The product's launches."""
        written, reads = (*inputs[: self.changed], *outputs), inputs[: self.reads]
        finish = Finish(self.exprs, self.scalars, written, reads)
        operands = inputs[self.reads :]
        (result,) = self.product.infer(*operands)
        # (Or by columns, all arrays alike.)
        steps = result.strides if written[0].contiguous else (1, result.shape[0])
        out = written[0].view(result.shape, steps)
        return self.product.lower(target, (out,), operands, finish)


def should_finish(
    target: Target,
    product: MatMul | Linear,
    out: Array,
    inputs: tuple[Array, ...],
    *,
    operands: int,
    light: bool,
    effort: int,
) -> bool:
    """Whether a product's kernel should apply expressions to its result.

    Args:
        target: what the device is like.
        product: the product.
        out: its result.
        inputs: its inputs.
        operands: arrays that are read, and arrays that are written.
        light: there is nothing but arithmetic to do.
        effort: instructions for one element, roughly.
    """
    a, b = product.operands(out, inputs)
    return finishes(target, out, a, b, operands=operands, light=light, effort=effort)
