"""Complex matrices as real ones of twice the sizes, which multiply and factor as they do.

A number ``a + bi`` is the matrix ``[[a, -b], [b, a]]``. Singular values, and eigenvalues of
Hermitian matrices, come twice then; sums, products, powers and Cholesky's factors are the real
forms of the complex ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .complex_parts import complex_of, imag, real
from .join import cat
from .reduce import mean
from .shape import narrow, permute, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


def in_blocks(x: Tensor) -> Tensor:
    """``[[real, -imag], [imag, real]]``, ``(..., 2 m, 2 n)`` of ``(..., m, n)``."""
    re, im = real(x), imag(x)
    return cat([cat([re, -im], -1), cat([im, re], -1)], -2)


def of_blocks(y: Tensor) -> Tensor:
    """The complex matrix that has this form."""
    m, n = y.shape[-2] // 2, y.shape[-1] // 2
    first = narrow(y, -1, 0, n)
    return complex_of(narrow(first, -2, 0, m), narrow(first, -2, m, m))


def interleaved(x: Tensor) -> Tensor:
    """The real form with each number's four in one place: of a triangle it is a triangle."""
    y = in_blocks(x)
    return _exchanged(y, (2, x.shape[-2], 2, x.shape[-1]))


def of_interleaved(y: Tensor) -> Tensor:
    """The complex matrix of which :func:`interleaved` made it."""
    return of_blocks(_exchanged(y, (y.shape[-2] // 2, 2, y.shape[-1] // 2, 2)))


def once(values: Tensor) -> Tensor:
    """Of sorted values that come twice one each, whose gradient both share."""
    return mean(reshape(values, (*values.shape[:-1], values.shape[-1] // 2, 2)), -1)


def _exchanged(y: Tensor, sizes: tuple[int, int, int, int]) -> Any:
    batch, k = y.shape[:-2], y.ndim - 2
    parts = reshape(y, (*batch, *sizes))
    turned = permute(parts, (*range(k), k + 1, k, k + 3, k + 2))
    return reshape(turned, (*batch, *y.shape[-2:]))
