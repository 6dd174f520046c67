"""Ops that PyTorch keeps for itself and programs call all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ..creation import arange
from ..distributions import Dirichlet
from ..errors import DtypeError, ShapeError
from ..ops import grouped_mm as _grouped_mm  # noqa: F401 - its first name
from ..ops import segment_reduce as _segment_reduce  # noqa: F401 - PyTorch has both
from ..values.dtypes import DType, int8, int32, int64

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__: list[str] = []


def _softmax_backward_data(  # for programs
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """A softmax's gradient, of its result and the result's gradient, as ``input_dtype``."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(  # for programs
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """The same of a logarithm's."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _sample_dirichlet(x: Tensor, generator: Any = None) -> Tensor:  # for programs
    """Values of Dirichlet's distribution of concentrations ``(..., k)``, in their shape."""
    del generator
    return Dirichlet(x.detach(), validate_args=False).sample()


def _int_mm(x: Tensor, mat2: Tensor) -> Tensor:  # for programs
    """The product of matrices of int8, ``(m, k)`` and ``(k, n)``, as int32.

    Raises:
        DtypeError: if they are not int8.
        ShapeError: if they are no matrices.
    """
    if x.dtype is not int8 or mat2.dtype is not int8:
        raise DtypeError("_int_mm", "operands are int8", a=x.dtype, b=mat2.dtype)
    if x.ndim != 2 or mat2.ndim != 2:
        raise ShapeError("_int_mm", "operands are matrices", a=x.shape, b=mat2.shape)
    return ops.matmul(x.to(int32), mat2.to(int32))


def _convert_indices_from_coo_to_csr(  # for programs
    input: Tensor,  # noqa: A002 - PyTorch's name
    size: int,
    *,
    out_int32: bool = False,
) -> Tensor:
    """Where each of ``size`` rows begins, ``(size + 1,)``, of elements' rows that ascend."""
    rows = arange(size + 1, device=input.device, dtype=input.dtype)
    return ops.searchsorted(input, rows).to(int32 if out_int32 else int64)


def _convert_indices_from_csr_to_coo(  # for programs
    crow_indices: Tensor,
    col_indices: Tensor,
    *,
    out_int32: bool = False,
    transpose: bool = False,
) -> Tensor:
    """Rows and columns of elements, ``(2, n)``, of where rows begin; ``transpose`` swaps them."""
    every = arange(col_indices.shape[0], device=col_indices.device, dtype=crow_indices.dtype)
    rows = ops.searchsorted(crow_indices, every, right=True) - 1
    dtype = int32 if out_int32 else int64
    both = (rows.to(dtype), col_indices.to(dtype))
    return ops.stack(both[::-1] if transpose else both)
