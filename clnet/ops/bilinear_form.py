"""The bilinear map of two vectors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ..errors import ShapeError
from .machinery.function import Face, op
from .matmul import matmul
from .shape import permute, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


@op(Face.FUNCTION | Face.FUNCTIONAL)
def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``y[..., o] = x1[..., :] @ weight[o] @ x2[..., :] + bias[o]``.

    Args:
        x1: ``(..., in1)``, floating.
        x2: ``(..., in2)``, same leading axes and dtype.
        weight: ``(out, in1, in2)``, same dtype.
        bias: ``(out,)`` or None.

    Returns:
        ``(..., out)``.

    Raises:
        ShapeError: if the sizes do not fit.
        DtypeError: if the dtypes differ.
    """
    fits = weight.ndim == 3 and x1.ndim > 0 and x1.shape[:-1] == x2.shape[:-1]
    if not fits or (x1.shape[-1], x2.shape[-1]) != weight.shape[1:]:
        raise ShapeError(
            "bilinear",
            "x1 and x2 end in the weight's last two sizes, their other axes agree",
            x1=x1.shape,
            x2=x2.shape,
            weight=weight.shape,
        )
    out, in1, in2 = weight.shape
    if bias is not None and bias.shape != (out,):
        raise ShapeError(
            "bilinear", "the bias has one number for each output", weight=weight.shape,
            bias=bias.shape,
        )  # fmt: skip
    lead = x1.shape[:-1]
    rows = prod(lead)
    halves = reshape(permute(weight, (1, 0, 2)), (in1, out * in2))
    left = reshape(matmul(reshape(x1, (rows, in1)), halves), (rows, out, in2))
    y = reshape(matmul(left, reshape(x2, (rows, in2, 1))), (*lead, out))
    return y if bias is None else y + bias
