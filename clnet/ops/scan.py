"""Running sums, products and extremes along an axis, and differences, in PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import (
    Scan,
    running_extreme,
    running_logsum,
    running_logsum_gradient,
    running_product_slope,
    scan,
)
from ..values.dtypes import DType, bool_, float32, int32, int64
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import axis_of, normalize_dim
from .arithmetic import eq, logical_and, ne, where
from .complex_parts import by_parts
from .index import GatherBackward, added_up
from .join import cat
from .machinery.autocast import autocast_operands
from .machinery.derived import derived
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
from .mathematics import logaddexp
from .rearrange import movedim
from .reduce import sum as total
from .shape import clone, contiguous, dense_copy, fresh, narrow, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


_MANY_LINES = 4096
"""As many keep a GPU busy with an item each."""


class Extremes(NamedTuple):
    """Running extremes, and where they are."""

    values: Any
    indices: Any


class Cumulate(Function):
    """The running sum or product of a dense tensor along ``dim``; ``reverse``: from the end."""

    repeats = True

    kind: Scan
    dim: int
    reverse: bool = False

    @property
    def name(self) -> str:
        return f"cum{self.kind.value}"

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch, or three and more along a long axis."""
        (y,), (x,) = outputs, inputs
        return scan(target, y, x, dim=self.dim, kind=self.kind, reverse=self.reverse)

    def of_complex(self, x: Tensor) -> Any:
        """Sums part by part, products of twice as many elements each time."""
        return by_parts(self, x) if self.kind is Scan.SUM else self._doubled(x)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Sums need nothing, products their factors and results."""
        return ((), ()) if self.kind is Scan.SUM else ((0,), (0,))

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The running sum the other way round; of products by one pass from the end."""
        (g,) = grads
        if self.kind is Scan.SUM:
            return (self._summed_back(g),)
        function = CumulateBackward("cumprod_backward", self.dim)
        return (apply(function, contiguous(g), saved.inputs[0], saved.outputs[0]),)

    @property
    def decompose(self) -> Any:
        """Products over twice as many elements each time, right beside zeros to any order."""
        return self._doubled if self.kind is Scan.PROD else None

    def _doubled(self, x: Tensor) -> tuple[Any, ...]:
        size, done = x.shape[self.dim], 1
        while done < size:
            head, tail = (size - done, done) if self.reverse else (done, size - done)
            ends = narrow(x, self.dim, 0, head), narrow(x, self.dim, head, tail)
            near = narrow(x, self.dim, done if self.reverse else 0, size - done)
            joined = (ends[0] * near, ends[1]) if self.reverse else (ends[0], ends[1] * near)
            x, done = cat(joined, self.dim), 2 * done
        return (x,)

    def _summed_back(self, g: Tensor) -> Tensor:
        return apply(Cumulate(Scan.SUM, self.dim, not self.reverse), contiguous(g))


class CumulateBackward(Function):
    """The gradient of running products from the first on, from the result's, x and the result."""

    sixteen_bit = False
    repeats = True

    op_name: str
    dim: int

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        if not inputs[0].size:
            return []
        return [running_product_slope(target, outputs[0], *inputs, dim=self.dim)]

    def decompose(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """In running sums of what each factor is multiplied with, and of that without zeros."""
        g, x, y = inputs
        # Behind the first zero all results are 0; at it, they are what they would be without it.
        zero = eq(x, 0)
        zeros = apply(Cumulate(Scan.SUM, self.dim), to_dtype(zero, int64))
        first = logical_and(zero, eq(zeros, 1))
        without = apply(Cumulate(Scan.PROD, self.dim), where(first, 1.0, x))
        before = self._summed(g * y) / where(zero, 1.0, x)
        at = where(first, self._summed(g * without), 0.0)
        return (where(eq(zeros, 0), before, at),)

    def _summed(self, g: Tensor) -> Tensor:
        return apply(Cumulate(Scan.SUM, self.dim, reverse=True), contiguous(g))


class RunningExtreme(Function):
    """Extremes of elements and all before along ``dim`` of a dense tensor, and where they are."""

    sixteen_bit = False
    repeats = True
    differentiable = ()

    dim: int
    largest: bool

    @property
    def name(self) -> str:
        return "cummax" if self.largest else "cummin"

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``x``'s shape and dtype, and its shape, int64."""
        return tuple(Array.abstract(x.shape, dtype, x.device) for dtype in (x.dtype, int64))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        (values, y), (x,) = outputs, inputs
        if x.size == 0:
            return []
        return [running_extreme(target, values, y, x, dim=self.dim, largest=self.largest)]


class RunningLogSum(Function):
    """``log`` of running sums of ``exp`` along ``dim`` of a dense tensor."""

    op_name = "logcumsumexp"
    sixteen_bit = False
    repeats = True
    saved_inputs = (0,)
    saved_outputs = (0,)

    dim: int

    def infer(self, x: Array) -> tuple[Array, ...]:
        require_floating("logcumsumexp", x)
        return super().infer(x)

    def of_complex(self, x: Tensor) -> Any:
        """Sums of twice as many elements each time."""
        return self.decompose(x)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        (y,), (x,) = outputs, inputs
        return [running_logsum(target, y, x, dim=self.dim)] if x.size else []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One launch."""
        x, y = saved.inputs[0], saved.outputs[0]
        return (apply(RunningLogSumBackward(self.dim), contiguous(grads[0]), x, y),)

    def decompose(self, x: Tensor) -> tuple[Any, ...]:
        """Steps of 1, 2, 4 ... elements back: after each the sums of twice as many are known."""
        back = 1
        while back < x.shape[self.dim]:
            size = x.shape[self.dim] - back
            sums = logaddexp(narrow(x, self.dim, 0, size), narrow(x, self.dim, back, size))
            x = cat([narrow(x, self.dim, 0, back), sums], self.dim)
            back *= 2
        return (x,)


class RunningLogSumBackward(Function):
    """The gradient of running sums' logarithms, of dense tensors: ``gy``, ``x`` and ``y``."""

    op_name = "logcumsumexp"
    sixteen_bit = False
    repeats = True

    dim: int

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        if inputs[0].size == 0:
            return []
        return [running_logsum_gradient(target, *outputs, *inputs, dim=self.dim)]


def _along(axis: int, function: Callable[[int], Function], x: Tensor) -> Any:
    """What a function makes of all lines along an axis.

    On GPUs few lines that lie across others are turned first: then a group has a line, where an
    item would go through it alone.
    """
    lines = x.numel() // max(x.shape[axis], 1)
    across = axis < x.ndim - 1 and x.device.traits.dedicated_local_memory
    if not across or lines >= _MANY_LINES:
        return apply(function(axis), contiguous(x))
    turned = apply(function(x.ndim - 1), contiguous(movedim(x, axis, -1)))
    if isinstance(turned, tuple):
        return tuple(contiguous(movedim(y, -1, axis)) for y in turned)
    return contiguous(movedim(turned, -1, axis))


def _cumulated(kind: Scan, x: Tensor, dim: int, dtype: DType | None) -> Tensor:
    name = f"cum{kind.value}"
    axis = normalize_dim(name, dim, x.ndim)
    (x,) = autocast_operands(name, x)
    kept = dtype or (x.dtype if x.dtype.differentiable else int64)
    # A running value of 16 bits would lose small elements.
    wide = float32 if kept.compute == "float32" and not kept.is_complex else kept
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


@op()
def cummax(x: Tensor, dim: int) -> Extremes:
    """The largest of an element and all before it along an axis, and where the last such one is.

    Args:
        x: any shape and dtype; NaN stays from where it is on.
        dim: the axis.

    Returns:
        Values and int64 indices, of the shape of ``x``.
    """
    return _running_extreme("cummax", x, dim, largest=True)


@op()
def cummin(x: Tensor, dim: int) -> Extremes:
    """The smallest of an element and all before it; else as :func:`cummax`."""
    return _running_extreme("cummin", x, dim, largest=False)


def _running_extreme(name: str, x: Tensor, dim: int, *, largest: bool) -> Extremes:
    axis = normalize_dim(name, dim, x.ndim)
    made = returned(name, Extremes)
    if x.ndim == 0:
        return made(clone(x), x.new_zeros((), dtype=int64))
    given = contiguous(to_dtype(x.detach(), int32) if x.dtype is bool_ else x.detach())
    values, indices = _along(axis, lambda dim: RunningExtreme(dim, largest), given)
    results = (to_dtype(values, x.dtype),)
    return made(derived(name, _picked, (x, indices), results, settings=(axis,)), indices)


def _picked(inputs: Any, results: Any, grads: Any, dim: int) -> Sequence[Any]:
    """Gradients go to where values came from."""
    x, indices = inputs
    return added_up(GatherBackward(dim, x.shape), grads[0], contiguous(indices)), None


@op()
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """``log`` of the sum of ``exp`` of an element and all before it, without overflow.

    Args:
        x: any shape, floating or complex.
        dim: the axis.

    Returns:
        The same shape.

    Raises:
        DtypeError: if ``x`` is of another kind.
    """
    if not x.dtype.is_complex:
        require_floating("logcumsumexp", x.array)
    axis = normalize_dim("logcumsumexp", dim, x.ndim)
    if x.ndim == 0:
        return clone(x)
    return _along(axis, RunningLogSum, x)


@op()
def diff(
    x: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along an axis, ``n`` times over.

    Args:
        x: one axis or more; of booleans, whether neighbours differ.
        n: how often.
        dim: the axis.
        prepend: what comes before, of the shape of ``x`` but for the axis.
        append: what comes after.

    Returns:
        The shape of ``x``, the axis shorter by ``n``.

    Raises:
        ArgumentError: if ``n`` is below 0.
        ShapeError: if ``x`` has no axis.
    """
    if n < 0:
        raise ArgumentError("diff", "n is 0 or more", n=n)
    axis = axis_of("diff", dim, x.shape)
    parts = [part for part in (prepend, x, append) if part is not None]
    joined = cat(parts, axis) if len(parts) > 1 else x
    if n == 0:  # PyTorch looks at the ends, too, and leaves them
        return dense_copy(x)
    before, x = x, joined
    for _ in range(min(n, x.shape[axis])):
        size = x.shape[axis] - 1
        right, left = narrow(x, axis, 1, size), narrow(x, axis, 0, size)
        x = ne(right, left) if x.dtype is bool_ else right - left
    return fresh(x, before)


@op(Face.FUNCTION)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral along an axis by the trapezoidal rule.

    Args:
        y: the values, one axis or more.
        x: where they are, ``(n,)`` or as ``y``, or broadcast to it; None: ``dx`` apart.
        dx: the distance.
        dim: the axis.

    Returns:
        ``y``'s shape without the axis.

    Raises:
        ArgumentError: if both ``x`` and ``dx`` are given.
        ShapeError: if ``y`` has no axis, or ``x`` not an element for each of ``y``'s along it.
    """
    pairs, axis, half = _trapezoids("trapezoid", y, x, dx, dim)
    if not pairs.dtype.differentiable:
        return total(pairs, axis) * half
    return total(pairs * 0.5, axis) * (2 * half)  # sums of pairs may leave float16's range


@op(Face.FUNCTION)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1
) -> Tensor:
    """The integral up to each point, as :func:`trapezoid`; one element less along ``dim``."""
    pairs, axis, half = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(pairs * half, axis)


def _trapezoids(
    op: str, y: Tensor, x: Tensor | None, dx: float, dim: int
) -> tuple[Tensor, int, float]:
    """Sums of neighbours times their distance in ``x``, their axis, and by what areas are less."""
    if y.ndim == 0:
        raise ShapeError(op, "y has an axis", y=y.shape)
    if x is not None and dx != 1:
        raise ArgumentError(op, "distances are given once, by x or dx", x=x.shape, dx=dx)
    axis = normalize_dim(op, dim, y.ndim) - y.ndim
    size = y.shape[axis]
    if not (y.dtype.is_floating_point or y.dtype.is_complex):
        y = to_dtype(y, int64)  # as PyTorch's sum of them: neighbours may leave the dtype's range
    sums = narrow(y, axis, 1, size - 1) + narrow(y, axis, 0, size - 1)
    if x is None:
        return sums, axis, dx / 2
    if x.ndim == 1:
        x = reshape(x, (*x.shape, *(1,) * (-1 - axis)))
    if not -axis <= x.ndim <= y.ndim or x.shape[axis] != size:
        law = "x has an element for each of y's along the axis"
        raise ShapeError(op, law, x=x.shape, y=y.shape, dim=dim)
    return sums * diff(x, dim=axis), axis, 0.5
