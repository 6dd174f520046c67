"""Linear algebra by the standard's names: functions of ``clnet.linalg``."""

# ruff: noqa: A002 - the standard's names

from __future__ import annotations

from typing import Any

from .. import linalg, ops
from ..errors import ShapeError
from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values.dtypes import DType
from .elementwise import promoted
from .manipulation import Axes, listed

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Products of matrices."""
    return ops.matmul(*promoted("matmul", x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over axes of both."""
    a, b = promoted("tensordot", x1, x2)
    return ops.tensordot(a, b, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Inner products along an axis; of complex numbers with conjugates of the first.

    Raises:
        ShapeError: if the axis has two sizes, also if one of them is 1.
    """
    a, b = promoted("vecdot", x1, x2)
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError("vecdot", "the axis has one size", x1=a.shape, x2=b.shape, axis=axis)
    return to_dtype(linalg.vecdot(a, b, dim=axis), a.dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Every product of elements of two vectors."""
    a, b = promoted("outer", x1, x2)
    return a.reshape(-1, 1) * b.reshape(1, -1)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of 3 elements."""
    a, b = promoted("cross", x1, x2)
    return linalg.cross(a, b, dim=axis)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """A triangle whose product with its transpose is ``x``."""
    return linalg.cholesky(x, upper=upper)


def det(x: Tensor, /) -> Tensor:
    """Determinants."""
    return linalg.det(x)


def slogdet(x: Tensor, /) -> Any:
    """Signs and logarithms of determinants."""
    return linalg.slogdet(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses."""
    return linalg.inv(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """``y`` with ``x1 @ y = x2``; a vector, if ``x2`` has one axis."""
    a, b = promoted("solve", x1, x2)
    if b.ndim != 1:
        batch = ops.broadcast_tensors(a[..., 0, 0], b[..., 0, 0])[0].shape if b.numel() else ()
        b = b.expand((*batch, *b.shape[-2:])) if b.numel() else b
        return linalg.solve(a, b)
    return linalg.solve(a, b.unsqueeze(-1).expand((*a.shape[:-1], 1))).squeeze(-1)


def eigh(x: Tensor, /) -> Any:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric matrices."""
    return linalg.eigvalsh(x)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """An orthonormal and a triangular factor."""
    return linalg.qr(x, mode)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Singular vectors and values."""
    return linalg.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values."""
    return linalg.svdvals(x)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudo-inverses."""
    return linalg.pinv(x, rtol=rtol)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are not 0."""
    return linalg.matrix_rank(x, rtol=rtol)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Norms of matrices."""
    return linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Matrices times themselves."""
    return linalg.matrix_power(x, n)


def vector_norm(
    x: Tensor, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Lengths of vectors."""
    axes = listed(axis, x.ndim)
    if not axes:
        return linalg.vector_norm(x.unsqueeze(0), ord, 0)
    return linalg.vector_norm(x, ord, axes, keepdims)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Diagonals of matrices."""
    return ops.diagonal(x, offset, dim1=-2, dim2=-1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """Sums of diagonals."""
    return ops.sum(diagonal(x, offset=offset), -1, dtype=dtype)
