"""Normalisation over the last axes: layer norm and RMS norm."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ShapeError
from ..kernels.norm import row_norm as launch_row_norm
from ..kernels.norm import row_norm_grad
from ..values.dtypes import from_name
from .arithmetic import rsqrt, square
from .group_norms import normalized_groups
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
)
from .norm import affine
from .shape import contiguous, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

# Longer rows are cut up, so that few of them keep a device busy.
_LONGEST_ROW = 1 << 15


class RowNorm(Function):
    """Each row of ``(rows, n)`` by its deviation from its mean, or by its root mean square.

    Its inputs are x and, where they are, weight and bias of ``(n,)``; its outputs y, ``1 /
    sqrt(mean square + eps)`` of each row and, if ``centred``, the rows' means.
    """

    repeats = True

    centred: bool
    weighted: bool
    biased: bool
    eps: float

    differentiable = (0,)

    @property
    def name(self) -> str:
        return "layer_norm" if self.centred else "rms_norm"

    def infer(self, x: Array, *affine: Array) -> tuple[Array, ...]:
        """``x``'s shape, and a statistic or two of each row."""
        acc = from_name(x.dtype.compute)
        statistics = (Array.abstract(x.shape[:1], acc, x.device) for _ in range(1 + self.centred))
        return (Array.abstract(x.shape, x.dtype, x.device), *statistics)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        y, invstd, *mean = outputs
        x, weight, bias = affine(self, inputs)
        centre = mean[0] if mean else None
        return launch_row_norm(target, y, centre, invstd, x, weight, bias, eps=self.eps)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The input, the weight and the statistics."""
        return ((0, 1) if self.weighted else (0,)), ((1, 2) if self.centred else (1,))

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One op for all gradients."""
        statistics = [saved.outputs[1 + i] for i in range(1 + self.centred)]
        weight = (saved.inputs[1],) if self.weighted else ()
        function = RowNormBackward(self.centred, self.weighted, any(needs[1:]))
        found = apply(function, contiguous(grads[0]), saved.inputs[0], *statistics, *weight)
        gx, *sums = found if any(needs[1:]) else (found,)
        given = [gx, *sums[: self.weighted], *(sums[-1:] if self.biased else ())]
        given += [None] * (len(needs) - len(given))
        dtypes = [dtype for _, dtype in saved.input_specs]
        return tuple(
            to_dtype(g, dtype) if need else None
            for g, dtype, need in zip(given, dtypes, needs, strict=True)
        )

    def decompose(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """In means, differences and products; of 16 bits in float32."""
        x, weight, bias = affine(self, inputs)
        distance = to_dtype(x, from_name(x.dtype.compute))
        rows, statistics = (x.shape[0],), []
        if self.centred:
            mean = distance.mean(1, keepdim=True)
            distance = distance - mean
            statistics = [reshape(mean, rows)]
        invstd = rsqrt(square(distance).mean(1, keepdim=True) + self.eps)
        y = distance * invstd
        if weight is not None:
            y = y * weight
        if bias is not None:
            y = y + bias
        return to_dtype(y, x.dtype), reshape(invstd, rows), *statistics


class RowNormBackward(Function):
    """Gradients to input and, if ``summed``, weight and (if ``centred``) bias.

    Its inputs are gy, x, the statistics as :class:`RowNorm` gave them, and the weight if there is
    one.
    """

    repeats = True

    centred: bool
    weighted: bool
    summed: bool

    @property
    def name(self) -> str:
        return "layer_norm_backward" if self.centred else "rms_norm_backward"

    def infer(self, gy: Array, x: Array, invstd: Array, *rest: Array) -> tuple[Array, ...]:
        """``x``'s shape and, of each sum, a row's."""
        count = (1 + self.centred) * self.summed
        sums = (Array.abstract(x.shape[1:], invstd.dtype, x.device) for _ in range(count))
        return (Array.abstract(x.shape, x.dtype, x.device), *sums)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """All rows, and the joining of sums over parts of them."""
        gx, *sums = outputs
        gy, x, invstd, *rest = inputs
        mean = rest[0] if self.centred else None
        weight = rest[-1] if self.weighted else None
        return row_norm_grad(target, gx, tuple(sums), gy, x, mean, invstd, weight)


@op(Face.FUNCTIONAL | Face.FUNCTION)
def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last axes (Ba et al. 2016).

    Args:
        x: ``(..., *normalized_shape)``, floating.
        normalized_shape: sizes of the axes that mean and variance are over.
        weight: ``normalized_shape`` or None.
        bias: ``normalized_shape`` or None.
        eps: added to the variance.

    Returns:
        ``x``'s shape.

    Raises:
        ShapeError: if a shape does not fit.
        DtypeError: if ``x`` is not floating.
    """
    rows, n = _rows("layer_norm", x, normalized_shape, {"weight": weight, "bias": bias})
    if n > _LONGEST_ROW:
        return normalized_groups("layer_norm", x, (rows, 1, n, 1), weight, bias, eps)[0]
    return _normalized(x, (rows, n), weight, bias, eps, centred=True)


@op(Face.FUNCTIONAL | Face.FUNCTION)
def rms_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """``x / sqrt(mean(x * x) + eps) * weight`` over the last axes (Zhang and Sennrich 2019).

    Args:
        x: ``(..., *normalized_shape)``, floating.
        normalized_shape: sizes of the axes that the mean is over.
        weight: ``normalized_shape`` or None.
        eps: added to the mean square; None: the spacing at 1 of the dtype it is computed in, which
            is float32 for 16 bits.

    Returns:
        ``x``'s shape.

    Raises:
        ShapeError: if a shape does not fit.
        DtypeError: if ``x`` is not floating.
    """
    shape = _rows("rms_norm", x, normalized_shape, {"weight": weight})
    spacing = from_name(x.dtype.compute).eps if eps is None else eps
    return _normalized(x, shape, weight, None, spacing, centred=False)


def _rows(
    name: str, x: Tensor, normalized_shape: int | Sequence[int], affine: dict[str, Tensor | None]
) -> tuple[int, int]:
    """How many rows ``x`` has, and their length."""
    require_floating(name, x.array)
    several = isinstance(normalized_shape, Sequence)
    shape = tuple(normalized_shape) if several else (normalized_shape,)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(name, "x ends in normalized_shape", x=x.shape, normalized_shape=shape)
    for key, operand in affine.items():
        if operand is not None and operand.shape != shape:
            got: dict[str, Any] = {"normalized_shape": shape, key: operand.shape}
            raise ShapeError(name, f"{key} has the normalized_shape", **got)
    return prod(x.shape[: x.ndim - len(shape)]), prod(shape)


def _normalized(
    x: Tensor,
    shape: tuple[int, int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    centred: bool,
) -> Tensor:
    wide, given = from_name(x.dtype.compute), [a for a in (weight, bias) if a is not None]
    # The kernels read both in one dtype: that of x, or the one it is computed in.
    kept = len({a.dtype for a in given}) == 1 and given[0].dtype in (x.dtype, wide)
    affine = [contiguous(reshape(a if kept else to_dtype(a, wide), shape[1:])) for a in given]
    function = RowNorm(centred, weight is not None, bias is not None, eps)
    return reshape(apply(function, reshape(contiguous(x), shape), *affine)[0], x.shape)
