"""Products of groups of rows, each with a matrix of its own: mixtures of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, DtypeError, ShapeError
from ..values.dtypes import int32
from .join import cat, stack
from .machinery.function import Face, op
from .matmul import bmm, matmul
from .shape import narrow

if TYPE_CHECKING:
    from ..tensor import Tensor
    from ..values.dtypes import DType


@op(face=Face.FUNCTIONAL)
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """``g`` products, of parts of matrices where an operand has two axes.

    A part ends where ``offs`` says and begins where the one before ends; the host reads them.

    Args:
        mat_a: ``(g, m, k)``, or ``(m, k)``, whose rows are divided (columns, if ``mat_b`` has two
            axes, too).
        mat_b: ``(g, k, n)``, or ``(k, n)``, whose columns (or rows, likewise) are divided.
        offs: int32 ``(g,)``, growing; None: both operands have three axes.
        bias: None: there is none.
        out_dtype: that of the operands.

    Returns:
        ``(m, n)`` where rows or columns are divided, 0 behind the last part, else ``(g, m, n)``.

    Raises:
        ShapeError: if the sizes do not fit.
        DtypeError: if the dtypes differ, or ``offs`` are not int32.
        ArgumentError: if ``offs`` lack or are too many, or do not grow within the axis, or there
            is a bias.
    """
    axes = (mat_a.ndim, mat_b.ndim)
    if bias is not None:
        raise ArgumentError("grouped_mm", "there is no bias", remedy="Add it to the result")
    if mat_a.dtype is not mat_b.dtype or (out_dtype or mat_a.dtype) is not mat_a.dtype:
        law = "operands and result have one dtype"
        raise DtypeError("grouped_mm", law, a=mat_a.dtype, b=mat_b.dtype, out_dtype=out_dtype)
    if not {*axes} <= {2, 3}:
        law = "operands have two or three axes"
        raise ShapeError("grouped_mm", law, a=mat_a.shape, b=mat_b.shape)
    if (offs is None) is not (axes == (3, 3)):
        law = "offs come where an operand has two axes, and only there"
        raise ArgumentError("grouped_mm", law, a=mat_a.shape, b=mat_b.shape, offs=offs)
    if offs is None:
        return bmm(mat_a, mat_b)
    if offs.dtype is not int32:
        raise DtypeError("grouped_mm", "offs are int32", offs=offs.dtype)
    if axes == (2, 2):
        parts = _bounds(offs, mat_a.shape[1], None)
        return stack([matmul(_part(mat_a, 1, p), _part(mat_b, 0, p)) for p in parts], 0)
    if axes == (2, 3):
        parts = _bounds(offs, mat_a.shape[0], mat_b.shape[0])
        rows = [matmul(_part(mat_a, 0, p), mat_b[k]) for k, p in enumerate(parts)]
        return _filled(rows, 0, mat_a, (mat_a.shape[0], mat_b.shape[2]))
    parts = _bounds(offs, mat_b.shape[1], mat_a.shape[0])
    columns = [matmul(mat_a[k], _part(mat_b, 1, p)) for k, p in enumerate(parts)]
    return _filled(columns, 1, mat_a, (mat_a.shape[1], mat_b.shape[1]))


def _bounds(offs: Tensor, size: int, count: int | None) -> list[tuple[int, int]]:
    """Where each part begins and ends."""
    if offs.ndim != 1 or offs.shape[0] != (count or offs.shape[0]):
        raise ShapeError("grouped_mm", "each group has an end", offs=offs.shape, groups=count)
    ends: list[Any] = offs.tolist()
    begins = [0, *ends][: len(ends)]
    if any(not begin <= end <= size for begin, end in zip(begins, ends, strict=True)):
        raise ArgumentError("grouped_mm", "offs grow, up to the size", offs=ends, size=size)
    return list(zip(begins, ends, strict=True))


def _part(x: Tensor, dim: int, bounds: tuple[int, int]) -> Tensor:
    return narrow(x, dim, bounds[0], bounds[1] - bounds[0])


def _filled(parts: list[Tensor], dim: int, like: Tensor, shape: tuple[int, int]) -> Tensor:
    """Parts behind each other, and zeros behind the last of them."""
    left = shape[dim] - sum(part.shape[dim] for part in parts)
    if left or not parts:
        rest = (left, shape[1]) if dim == 0 else (shape[0], left)
        parts = [*parts, like.new_zeros(rest)]
    return cat(parts, dim)
