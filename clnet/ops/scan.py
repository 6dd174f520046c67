"""Running sums and products along an axis, in PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..dtypes import DType, float32, int64
from ..kernels.scan import Scan, scan
from ..shapes import normalize_dim
from .arithmetic import eq, logical_and, where
from .function import Function, Saved, apply, op
from .shape import contiguous, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


@dataclass(frozen=True)
class Cumulate(Function):
    """The running sum or product of a dense tensor along ``dim``; ``reverse``: from the end."""

    kind: Scan
    dim: int
    reverse: bool = False

    @property
    def name(self) -> str:
        """The public op."""
        return f"cum{self.kind.value}"

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A dense output."""
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch, or three and more along a long axis."""
        (y,), (x,) = outputs, inputs
        return scan(target, y, x, dim=self.dim, kind=self.kind, reverse=self.reverse)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Sums need nothing, products their factors and results."""
        return ((), ()) if self.kind is Scan.SUM else ((0,), (0,))

    def backward(
        self, saved: Saved, grads: tuple[Any, ...], needs: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        """The running sum the other way round, of what each factor is multiplied with."""
        (g,) = grads
        if self.kind is Scan.SUM:
            return (self._summed_back(g),)
        x, y = saved.inputs[0], saved.outputs[0]
        # Behind the first zero all results are 0; at it, they are what they would be without it.
        zero = eq(x, 0)
        zeros = apply(Cumulate(Scan.SUM, self.dim, self.reverse), to_dtype(zero, int64))
        first = logical_and(zero, eq(zeros, 1))
        filled = where(first, 1.0, x)
        without = apply(Cumulate(Scan.PROD, self.dim, self.reverse), filled)
        before = self._summed_back(g * y) / where(zero, 1.0, x)
        at = where(first, self._summed_back(g * without), 0.0)
        return (where(eq(zeros, 0), before, at),)

    def _summed_back(self, g: Tensor) -> Tensor:
        return apply(Cumulate(Scan.SUM, self.dim, not self.reverse), contiguous(g))


def _cumulated(kind: Scan, x: Tensor, dim: int, dtype: DType | None) -> Tensor:
    axis = normalize_dim(f"cum{kind.value}", dim, x.ndim)
    kept = dtype or (x.dtype if x.dtype.is_floating_point else int64)
    # A running value of 16 bits would lose small elements.
    wide = float32 if kept.compute == "float32" else kept
    given = contiguous(to_dtype(to_dtype(x, kept), wide))
    function = Cumulate(kind, axis)
    if x.ndim == 0:
        return to_dtype(reshape(apply(function, reshape(given, (1,))), ()), kept)
    return to_dtype(apply(function, given), kept)


@op()
def cumsum(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The sum of an element and all before it along an axis; booleans and integers give int64.

    Args:
        x: any shape.
        dim: the axis.
        dtype: what to convert ``x`` to first.

    Returns:
        The same shape.

    Raises:
        BoundsError: if ``x`` has no such axis.

    Example:
        >>> import clnet
        >>> clnet.cumsum(clnet.tensor([1, 2, 3]), 0).tolist()
        [1, 3, 6]
    """
    return _cumulated(Scan.SUM, x, dim, dtype)


@op()
def cumprod(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The product of an element and all before it along an axis; arguments as :func:`cumsum`'s.

    Its gradient is exact also where there are zeros; its second derivative where there are none.
    """
    return _cumulated(Scan.PROD, x, dim, dtype)
