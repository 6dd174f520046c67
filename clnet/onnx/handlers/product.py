"""Products: matrices, Einstein's sums, determinants."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...tensor import Tensor
from ...values.dtypes import Kind, float64
from ..registry import handler
from .elementwise import aligned


@handler("MatMul")
def matmul(x: Tensor, other: Tensor) -> Tensor:
    """The product of matrices, or of stacks of them."""
    if x.dtype.kind is Kind.INTEGER:
        # Exact up to 2^53, and the kernels of products are of floating types.
        return ops.matmul(x.to(float64), other.to(float64)).to(x.dtype)
    return ops.matmul(x, other)


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
    b = ops.transpose(b, 0, 1) if transB else b
    if c is not None and alpha == 1 and beta == 1 and c.ndim <= 1 and a.dtype.is_floating_point:
        return ops.addmm(c, a, b) if c.ndim else ops.add(ops.matmul(a, b), c)
    y = matmul(a, b)
    y = y if alpha == 1 else y * alpha
    if c is None:
        return y
    return y + aligned(y, c if beta == 1 else c * beta, broadcast=0, axis=None)


@handler("Einsum")
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    """Einstein's sum."""
    return ops.einsum(equation, *tensors)


@handler("Det")
def det(x: Tensor) -> Tensor:
    """Determinants of square matrices."""
    return ops.det(x)
