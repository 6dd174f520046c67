"""Products: matrices, Einstein's sums, determinants."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import Kind, float64, int64
from ..registry import handler
from .elementwise import aligned


@handler("MatMul")
def matmul(x: Tensor, other: Tensor) -> Tensor:
    """The product of matrices, or of stacks of them."""
    return _whole(x, other) if x.dtype.kind is Kind.INTEGER else ops.matmul(x, other)


def _whole(x: Tensor, other: Tensor) -> Any:
    """The product of whole numbers, modulo their range, as overflow leaves it.

    The kernels of products are of floating types: 16 bits of each operand at a time are multiplied
    exactly in double precision, and those of one weight added in one product.
    """
    bits = 8 * x.dtype.itemsize
    rows = -2 if other.ndim > 1 else 0
    left, right = (_limbs(operand, -(-bits // 16)) for operand in (x, other))
    total = 0
    for weight in range(len(left)):
        parts = [(left[i], right[weight - i]) for i in range(weight + 1)]
        a, b = ops.cat([p for p, _ in parts], -1), ops.cat([p for _, p in parts], rows)
        share = ops.matmul(a, b).to(int64) * 2 ** (16 * weight)
        total = share + total
    if bits == 64:
        return total
    half = 1 << (bits - 1)
    return (ops.bitwise_and(total + half, 2 * half - 1) - half).to(x.dtype)


def _limbs(x: Tensor, count: int) -> list[Tensor]:
    """Digits of 16 bits, from the lowest on, as doubles."""
    wide = x.to(int64)
    return [
        ops.bitwise_and(ops.bitwise_right_shift(wide, 16 * i), 0xFFFF).to(float64)
        for i in range(count)
    ]


@handler("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's names
    transB: int = 0,  # noqa: N803
    broadcast: Any = None,
) -> Tensor:
    """``alpha a b + beta c``."""
    a = ops.transpose(a, 0, 1) if transA else a
    # What PyTorch's dense layers are exported as, here a product with its bias in one launch.
    dense = transB and alpha == beta == 1 and a.dtype.is_floating_point
    if dense and (c is None or tuple(c.shape) == tuple(b.shape[:1])):
        return functional.linear(a, b, c)
    b = ops.transpose(b, 0, 1) if transB else b
    if c is not None and alpha == 1 and beta == 1 and c.ndim <= 1 and a.dtype.is_floating_point:
        return ops.addmm(c, a, b) if c.ndim else ops.add(ops.matmul(a, b), c)
    y = _times(matmul(a, b), alpha)
    return y if c is None else y + aligned(y, _times(c, beta), broadcast=0, axis=None)


def _times(x: Tensor, factor: float) -> Tensor:
    """Whole numbers stay whole, whatever the factor."""
    if factor == 1:
        return x
    if x.dtype.kind is not Kind.INTEGER:
        return x * factor
    return x * int(factor) if float(factor).is_integer() else (x * factor).to(x.dtype)


@handler("Einsum")
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    """Einstein's sum."""
    return ops.einsum(equation, *tensors)


@handler("Det")
def det(x: Tensor) -> Tensor:
    """Determinants of square matrices."""
    return ops.det(x)
