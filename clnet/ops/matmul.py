"""Matrix products: one Function over the gemm kernels, and the public ops made of it."""

from __future__ import annotations

import math
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ShapeError
from ..kernels.epilogue import Epilogue, Finish
from ..kernels.gemm import BATCH_AXES, gemm, multiplies, pairs_fit
from ..values import mode
from ..values.dtypes import bfloat16
from ..values.shapes import Shape, broadcast_shapes, broadcast_strides, collapse, contiguous_strides
from .complex_parts import view_as_complex, view_as_real
from .join import stack
from .machinery.function import Face, Function, Grads, Needs, Saved, apply, op, require_same_dtype
from .shape import contiguous, expand, reshape, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


# Elements that are copied in the time of a launch: of a GPU, and of a CPU.
_COPIED_A_LAUNCH = {True: 2**21, False: 2**12}


class MatMul(Function):
    """``a @ b`` of stacks of matrices."""

    sixteen_bit = False
    repeats = True

    op_name: str = "matmul"

    def infer(self, a: Array, b: Array) -> tuple[Array, ...]:
        """``(..., m, n)`` from ``(..., m, k)`` and ``(..., k, n)``."""
        require_same_dtype(self.op_name, a=a, b=b)
        if a.shape[-1] != b.shape[-2]:
            raise ShapeError(
                self.op_name,
                f"inner sizes differ, {a.shape[-1]} != {b.shape[-2]}",
                a=a.shape,
                b=b.shape,
            )
        batch = broadcast_shapes(self.op_name, a.shape[:-2], b.shape[:-2])
        return (Array.abstract((*batch, a.shape[-2], b.shape[-1]), a.dtype, a.device),)

    def lower(
        self,
        target: Target,
        outputs: tuple[Array, ...],
        inputs: tuple[Array, ...],
        finish: Finish | None = None,
    ) -> list[Launch]:
        """One gemm, over all batches at once; finished in compiled functions."""
        (out,) = outputs
        (a, b), epilogue = self.operands(out, inputs), Epilogue(finish=finish)
        tf32, split = rounds_to_tf32(), splits()
        dot = pair_dot(out)
        return gemm(target, out, a, b, epilogue=epilogue, tf32=tf32, split=split, dot=dot)

    def narrow_on(self, target: Target, inputs: tuple[Array, ...]) -> bool:
        """Where matrix units multiply 16 bits, or a processor pairs of them."""
        return _on_units(target, inputs) or _by_pairs(target, inputs, inputs[1].shape)

    def operands(self, out: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        """The gemm's operands."""
        a, b = (_repeated(x, out.shape[:-2]) for x in inputs)
        return a, b

    def of_complex(self, a: Tensor, b: Tensor) -> Tensor:
        """One real product: rows of parts side by side, times ``[[re, im], [-im, re]]``."""
        require_same_dtype(self.op_name, a=a.array, b=b.array)
        left = view_as_real(contiguous(a))
        turned = view_as_real(stack([b, b * 1j], -2))  # (..., k, 2, n, 2)
        *rest, k, _, n, _ = turned.shape
        rows = reshape(left, (*a.shape[:-1], 2 * a.shape[-1]))
        y = apply(self, rows, reshape(turned, (*rest, 2 * k, 2 * n)))
        return view_as_complex(reshape(y, (*y.shape[:-1], n, 2)))

    def saves(self, needs: tuple[bool, ...]) -> tuple[list[int], list[int]]:
        """Each operand is needed for the other's gradient."""
        return [i for i in (0, 1) if needs[1 - i]], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """``g @ b.T`` and ``a.T @ g``, summed over broadcast batches; of numbers, multiples."""
        (g,) = grads
        left = right = None
        if needs[0]:
            turned = _transposed(saved.inputs[1])
            number = g.shape[-2:] == (1, 1)
            left = g * turned if number else apply(MatMul("matmul_backward"), g, turned)
            left = left.sum_to_size(saved.input_specs[0][0])
        if needs[1]:
            right = _right_gradient(saved.inputs[0], g, saved.input_specs[1][0])
        return left, right


class Linear(Function):
    """``x @ weight.T``, plus a bias as a third input; its gradients are dense.

    Attributes:
        activation: None, or ``"relu"`` in compiled functions; it is applied last.
    """

    sixteen_bit = False
    repeats = True

    activation: str | None = None
    op_name = "linear"

    def infer(self, x: Array, weight: Array, *bias: Array) -> tuple[Array, ...]:
        """``(m, n)`` from ``(m, k)`` and ``(n, k)``."""
        require_same_dtype("linear", x=x, weight=weight)
        return (Array.abstract((x.shape[0], weight.shape[0]), x.dtype, x.device),)

    def lower(
        self,
        target: Target,
        outputs: tuple[Array, ...],
        inputs: tuple[Array, ...],
        finish: Finish | None = None,
    ) -> list[Launch]:
        """One gemm, the bias in its epilogue; finished in compiled functions."""
        (out,) = outputs
        a, b = self.operands(out, inputs)
        bias = inputs[2] if len(inputs) == 3 else None
        epilogue = Epilogue(bias, activation=self.activation, finish=finish)
        tf32, split = rounds_to_tf32(), splits()
        dot = pair_dot(out)
        return gemm(target, out, a, b, epilogue=epilogue, tf32=tf32, split=split, dot=dot)

    def narrow_on(self, target: Target, inputs: tuple[Array, ...]) -> bool:
        """Where matrix units multiply 16 bits, or a processor pairs of them."""
        turned = inputs[1].shape[::-1]
        return _on_units(target, inputs) or _by_pairs(target, inputs, turned)

    def operands(self, out: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        """The gemm's operands."""
        x, weight = inputs[:2]
        return x, weight.view(weight.shape[::-1], weight.strides[::-1])

    def of_complex(self, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        """A product, and a sum."""
        y = apply(MatMul("linear"), x, _transposed(weight))
        return y + bias[0] if bias else y

    def saves(self, needs: tuple[bool, ...]) -> tuple[list[int], list[int]]:
        """Each operand is needed for the other's gradient."""
        return [i for i in (0, 1) if needs[1 - i]], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """``g @ weight``, ``g.T @ x`` and the sum of ``g`` over the rows."""
        (g,) = grads
        out: list[Any] = [None] * len(needs)
        if needs[0]:
            out[0] = apply(MatMul("linear_backward"), g, saved.inputs[1])
        if needs[1]:
            out[1] = apply(MatMul("linear_backward"), _transposed(g), saved.inputs[0])
        if len(needs) == 3 and needs[2]:
            out[2] = g.sum(0)
        return tuple(out)


def rounds_to_tf32() -> bool:
    """Whether float32 products may be rounded, as ``set_float32_matmul_precision`` said."""
    return mode.current().float32_precision in ("high", "medium")


def splits() -> bool:
    """Whether float32 products may be sums of three of TF32."""
    return mode.current().float32_precision == "tf32x3"


def _on_units(target: Target, inputs: tuple[Array, ...]) -> bool:
    """Whether matrix units multiply the operands, which share a dtype, and sums are not empty."""
    first = inputs[0]
    alike = all(x.dtype is first.dtype for x in inputs)
    return alike and first.shape[-1] > 0 and multiplies(target, first.dtype)


def _by_pairs(target: Target, inputs: tuple[Array, ...], right: Shape) -> bool:
    """Whether pairs of bfloat16 are multiplied, with a right operand of that shape."""
    first = inputs[0]
    alike = all(x.dtype is first.dtype for x in inputs)
    return alike and pairs_fit(target, first.dtype, first.shape, right) and bool(pair_dot(first))


def pair_dot(x: Array) -> str | None:
    """How a processor multiplies pairs of such an array's elements; None if it does not."""
    if x.dtype is not bfloat16 or x.device.traits.dedicated_local_memory:
        return None
    return x.device.bfloat16_dot or None


def _right_gradient(a: Tensor, g: Tensor, shape: tuple[int, ...]) -> Tensor:
    if len(shape) == 2 and a.ndim > 2:  # one matrix for all batches: the product sums over them
        a, g = _rows(a), _rows(g)
    if g.shape[-2:] == (1, 1):
        return (_transposed(a) * g).sum_to_size(shape)
    return apply(MatMul("matmul_backward"), _transposed(a), g).sum_to_size(shape)


def _rows(x: Tensor) -> Tensor:
    return x if x.ndim == 2 else reshape(x, prod(x.shape[:-1]), x.shape[-1])


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-1, -2)


def _repeated(x: Array, batch: tuple[int, ...]) -> Array:
    """The matrices of an array over the common batch."""
    shape = (*batch, *x.shape[-2:])
    return x.view(shape, broadcast_strides(x.shape, x.strides, shape))


def _in_few_axes(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The operands, one of them copied where their batches would be several launches.

    A product has two axes of batches; of more that do not lie behind each other it becomes one for
    each of the others. Where one operand is repeated along an axis between those along which the
    other is, a copy that repeats it costs less.
    """
    if max(a.ndim, b.ndim) <= 2 + BATCH_AXES:
        return a, b
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    dense = contiguous_strides(batch)
    a_launch = _COPIED_A_LAUNCH[a.device.traits.dedicated_local_memory]
    best: tuple[float, tuple[bool, ...]] = math.inf, ()
    for copies in product((False, True), repeat=2):
        steps, cost = [dense], 0
        for x, copied in zip((a, b), copies, strict=True):
            steps.append(dense if copied else _repeated(x.array, batch).strides[:-2])
            cost += copied * prod(batch) * x.shape[-2] * x.shape[-1]
        sizes, _ = collapse(batch, steps)
        launches = prod(sizes[: max(len(sizes) - BATCH_AXES, 0)])
        best = min(best, (cost + a_launch * launches, copies))
    _, copies = best
    left, right = (
        contiguous(expand(x, (*batch, *x.shape[-2:]))) if copied else x
        for x, copied in zip((a, b), copies, strict=True)
    )
    return left, right


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def matmul(x: Tensor, other: Tensor) -> Tensor:
    """The matrix product, as NumPy's ``@``: vectors are rows on the left and columns on the right.

    Args:
        x: ``(k,)`` or ``(..., m, k)``.
        other: ``(k,)`` or ``(..., k, n)``, same dtype.

    Returns:
        ``(..., m, n)`` with the batch axes broadcast; axes added for vectors are removed again.

    Raises:
        ShapeError: if the inner sizes differ, or an operand has no axes.
        DtypeError: if the dtypes differ.

    Example:
        >>> import clnet
        >>> clnet.matmul(clnet.ones(2, 3), clnet.ones(3, 4)).shape
        (2, 4)
    """
    if x.ndim == 0 or other.ndim == 0:
        raise ShapeError("matmul", "operands have one axis or more", a=x.shape, b=other.shape)
    a = unsqueeze(x, 0) if x.ndim == 1 else x
    b = unsqueeze(other, 1) if other.ndim == 1 else other
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            "matmul",
            f"inner sizes differ, {a.shape[-1]} != {b.shape[-2]}",
            a=x.shape,
            b=other.shape,
        )
    if b.ndim == 2 and a.ndim > 2:  # one product with more rows
        y = apply(MatMul(), _rows(a), b)
        y = reshape(y, (*a.shape[:-1], b.shape[-1]))
    else:
        y = apply(MatMul(), *_in_few_axes(a, b))
    dropped = {
        d for d, vector in ((y.ndim - 2, x.ndim == 1), (y.ndim - 1, other.ndim == 1)) if vector
    }
    return reshape(y, tuple(n for d, n in enumerate(y.shape) if d not in dropped)) if dropped else y


@op()
def mm(x: Tensor, other: Tensor) -> Tensor:
    """The product of two matrices, ``(m, k)`` and ``(k, n)``.

    Raises:
        ShapeError: if they are not matrices, or the inner sizes differ.
    """
    if x.ndim != 2 or other.ndim != 2:
        raise ShapeError("mm", "operands are matrices", a=x.shape, b=other.shape)
    return apply(MatMul("mm"), x, other)


@op()
def bmm(x: Tensor, other: Tensor) -> Tensor:
    """Products of matrices pair by pair, ``(b, m, k)`` and ``(b, k, n)``.

    Raises:
        ShapeError: if they are not stacks of the same length, or the inner sizes differ.
    """
    if x.ndim != 3 or other.ndim != 3 or x.shape[0] != other.shape[0]:
        raise ShapeError(
            "bmm", "operands are stacks of equally many matrices", a=x.shape, b=other.shape
        )
    return apply(MatMul("bmm"), x, other)


@op(Face.FUNCTIONAL)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``; the bias is added in the product's kernel.

    Args:
        x: ``(..., in_features)``, floating.
        weight: ``(out_features, in_features)``, same dtype; or ``(in_features,)``, without bias.
        bias: ``(out_features,)`` or None.

    Returns:
        ``(..., out_features)``; of a weight with one axis ``(...)``.

    Raises:
        ShapeError: if the sizes do not fit.
        DtypeError: if the dtypes differ.
    """
    if weight.ndim == 1 and bias is None and x.ndim and x.shape[-1] == weight.shape[0]:
        y = linear(x, reshape(weight, (1, -1)))
        return reshape(y, x.shape[:-1])
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            "linear", "x ends in the weight's in_features", x=x.shape, weight=weight.shape
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(
            "linear", "the bias has the weight's out_features", weight=weight.shape, bias=bias.shape
        )
    y = apply(Linear(), _rows(x), weight, *(() if bias is None else (bias,)))
    return y if x.ndim == 2 else reshape(y, (*x.shape[:-1], weight.shape[0]))
