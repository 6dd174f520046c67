"""Elements picked by truth values. Where the size of a result depends on them, the host waits once.

``nonzero``, ``masked_select`` and indexing with a mask count the true elements and read that number
on the host; so they cannot be traced by ``clnet.compile``. ``masked_fill``, ``where`` and the
assignment of one value to a mask need no such number.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, DtypeError, ShapeError
from ..expr import Input, Scalar, floor_divide, remainder
from ..expr import where as chosen
from ..kernels.index import MOST_AXES, true_places, unravel
from ..kernels.pointwise import pointwise as launch_pointwise
from ..values.dtypes import Kind, bool_, int32, int64, of_scalar, uint8
from ..values.foreign import is_held
from ..values.shapes import Shape, broadcast_shapes, contiguous_strides
from .arithmetic import ne
from .arithmetic import where as either
from .create import full_like
from .index import pick
from .join import unbind
from .machinery.function import Arrays, Face, Function, apply, op
from .machinery.pointwise import evaluate
from .machinery.promotion import Operand
from .shape import contiguous, expand, narrow, overwrite, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


class TruePlaces(Function):
    """Where a flat mask is true, ascending, at the front of as many as it has; their number."""

    repeats = True
    differentiable = ()
    op_name = "nonzero"

    def infer(self, mask: Array) -> tuple[Array, ...]:
        """int32 outputs, ``(n,)`` and ``(1,)``."""
        shapes = mask.shape, (1,)
        return tuple(Array.abstract(shape, int32, mask.device) for shape in shapes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Three launches."""
        return true_places(target, *outputs, *inputs)


class Unravel(Function):
    """Row-major int32 positions in a shape as coordinates, one row for each."""

    differentiable = ()

    shape: Shape

    def infer(self, flat: Array) -> tuple[Array, ...]:
        """A dense int64 output."""
        return (Array.abstract((flat.size, len(self.shape)), int64, flat.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch; of so many axes that a kernel does not know them one for each axis."""
        (y,), (places,) = outputs, inputs
        count, ndim = y.shape
        if ndim <= MOST_AXES:
            return unravel(target, y, places, self.shape)
        columns = [y.view((count,), (ndim,), y.offset + d) for d in range(ndim)]
        exprs = tuple(
            remainder(floor_divide(Input(0), Scalar(2 * d)), Scalar(2 * d + 1)) for d in range(ndim)
        )
        sizes = zip(contiguous_strides(self.shape), self.shape, strict=True)
        scalars = [n for pair in sizes for n in pair]
        return launch_pointwise(target, columns, inputs, exprs, scalars=scalars, compute=int64)


def positions_of(mask: Tensor) -> Tensor:
    """Flat positions of a mask's true elements, ascending, int32; the host waits for their number.

    Raises:
        TraceError: inside a function that ``clnet.compile`` traces.
    """
    flat = reshape(contiguous(mask), (mask.numel(),))
    if not flat.numel():
        return flat.new_empty(0, dtype=int32)
    places, total = apply(TruePlaces(), flat)
    return narrow(places, 0, 0, int(total.item()))


@op()
def nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    """Coordinates of the elements that are not 0, in row-major order; the host waits once.

    Args:
        x: any shape and dtype.
        as_tuple: give a vector for each axis, as indexing takes them.

    Returns:
        ``(count, axes)``, int64; with ``as_tuple`` its columns (of a number: one).

    Raises:
        TraceError: inside a function that ``clnet.compile`` traces.
    """
    if as_tuple and x.ndim == 0:
        x = reshape(x, 1)
    mask = x.detach() if x.dtype is bool_ else ne(x.detach(), 0)
    flat = positions_of(mask)
    if x.ndim == 0:
        return flat.new_empty(flat.numel(), 0, dtype=int64)
    found = apply(Unravel(x.shape), flat)
    return unbind(found, 1) if as_tuple else found


@op()
def argwhere(x: Tensor) -> Tensor:
    """As :func:`nonzero`."""
    return nonzero(x)


@op(Face.FUNCTION)
def where(condition: Tensor, x: Operand | None = None, other: Operand | None = None) -> Any:
    """``x`` where the condition is true, else ``other``; of a condition alone, where it is true.

    Args:
        condition: bool, any shape.
        x: a number or a tensor; all three are broadcast together.
        other: the same.

    Returns:
        The broadcast shape, in the promoted dtype of ``x`` and ``other``. Without these two, as
        ``nonzero(condition, as_tuple=True)``.

    Raises:
        ArgumentError: if only one of both is given.
    """
    if x is None and other is None:
        return nonzero(condition, as_tuple=True)
    if x is None or other is None:
        raise ArgumentError("where", "both values are given, or none", x=x, other=other)
    return either(condition, x, other)


@op()
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements at which a mask is true, in row-major order; the host waits once.

    Args:
        x: any shape.
        mask: bool; both are broadcast together.

    Returns:
        A vector.

    Raises:
        DtypeError: if the mask is not bool.
        TraceError: inside a function that ``clnet.compile`` traces.
    """
    mask = require_mask("masked_select", mask)
    shape = broadcast_shapes("masked_select", x.shape, mask.shape)
    flat = reshape(expand(x, shape), (prod(shape),))
    return pick(flat, 0, 1, positions_of(expand(mask, shape)), wrap=False)


def _filled(mask: Any, value: Any, x: Any) -> Any:
    return chosen(mask, value, x)


@op()
def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """``x`` with ``value`` where a mask is true.

    Args:
        x: any shape and dtype.
        mask: bool, broadcast together with ``x``.
        value: a number or a tensor without axes; of a number the fraction is cut off where ``x``
            holds whole ones.

    Returns:
        The broadcast shape, in the dtype of ``x``.

    Raises:
        DtypeError: if the mask is not bool, or the dtype of ``x`` cannot hold the value.
        ShapeError: if the value has axes.
    """
    mask = require_mask("masked_fill", mask)
    tensor = hasattr(value, "__apply_function__")
    if tensor and value.ndim:
        raise ShapeError("masked_fill", "the value has no axes", value=value.shape)
    dtype = value.dtype if tensor else of_scalar(value)
    if isinstance(value, float) and x.dtype.kind is Kind.INTEGER and is_held(value, x.dtype):
        value, dtype = int(value), x.dtype  # as PyTorch takes it
    elif not tensor and x.dtype is bool_:
        value, dtype = bool(value), x.dtype
    if dtype.kind > x.dtype.kind:
        raise DtypeError("masked_fill", "x holds the value", x=x.dtype, value=dtype)
    return evaluate("masked_fill", _filled, [mask, value, x], promoted=[x])


@op(Face.FUNCTION)
def fill(x: Tensor, value: Operand) -> Tensor:
    """A tensor like ``x`` with one value everywhere; its gradient is that of ``value`` alone.

    Args:
        x: any shape and dtype.
        value: a number or a tensor without axes, as :func:`masked_fill` takes it.

    Returns:
        The shape and dtype of ``x``.
    """
    return masked_fill(x, full_like(x.detach(), 1, dtype=bool_), value)


@op()
def masked_fill_(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """:func:`masked_fill` in place; returns the tensor.

    Raises:
        GradientError: if it is on the tape and gradients are recorded.
        ShapeError: if the mask does not broadcast to it.
    """
    return overwrite(x, masked_fill(x, mask, value), "masked_fill_")


def require_mask(name: str, mask: Tensor) -> Tensor:
    """A tensor of truth values; uint8 counts as such, as it did before PyTorch had bool.

    Raises:
        DtypeError: if it is another.
    """
    if mask.dtype is uint8:
        return to_dtype(mask, bool_)
    if mask.dtype is not bool_:
        raise DtypeError(name, "a mask is bool", dtype=mask.dtype, remedy="Compare, or .bool()")
    return mask
