"""Where values lie among others, how often they occur, and whether they are equal."""

from __future__ import annotations

from math import fabs, isfinite
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, DtypeError, ShapeError
from ..kernels.index import search_rows, tally
from ..kernels.reduce import Bad
from ..values.dtypes import Kind, bool_, float32, float64, int32, int64
from ..values.shapes import normalize_dim
from .arithmetic import abs as magnitude
from .arithmetic import (
    clamp,
    eq,
    ge,
    gt,
    le,
    logical_and,
    logical_not,
    logical_or,
    ne,
    where,
)
from .arithmetic import floor as rounded_down
from .check import of_index, of_value, require_elements
from .create import positions
from .index import gather_within, index_select, require_index
from .machinery.function import Arrays, Face, Function, apply, op
from .machinery.pointwise import Result, evaluate
from .machinery.promotion import Operand, result_type
from .reduce import all as every
from .reduce import max as largest
from .reduce import min as smallest
from .scan import cumsum
from .scatter import index_add, index_add_within
from .shape import contiguous, expand, fresh, reshape, to_dtype
from .sort import sort

if TYPE_CHECKING:
    from ..tensor import Tensor


_MOST_COUNTED = 2**31 - 1
"""So many elements a kernel counts with 32 bits."""


@op(Face.FUNCTION)
def searchsorted(
    sorted_sequence: Tensor,
    values: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many elements of a sorted row are less than each value: where it would be put in.

    Args:
        sorted_sequence: ascending along the last axis, ``(n,)`` or ``(..., n)``.
        values: a number, any shape beside ``(n,)``, or ``(..., m)``.
        out_int32: give int32.
        right: count equal elements, too.
        side: ``"left"`` or ``"right"``, as ``right``.
        sorter: indices that sort the last axis, int64.

    Returns:
        The shape of ``values``, int64; a search in halves, all values at once.

    Raises:
        ArgumentError: if ``side`` is another word, or contradicts ``right``.
        ShapeError: if the leading axes differ.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        law = "side is 'left' or 'right', as right says"
        raise ArgumentError("searchsorted", law, side=repr(side), right=right)
    right = right or side == "right"
    rows = sorted_sequence.detach()
    if sorter is not None:
        if sorter.shape != rows.shape or sorter.dtype is not int64:
            law = "the sorter is an int64 index for each element of the sequence"
            raise ShapeError(
                "searchsorted", law, sorter=sorter.shape, dtype=sorter.dtype, sequence=rows.shape
            )
        rows = gather_within(rows, -1, sorter, of_index("searchsorted", "sorter"))
    wanted = values.detach() if hasattr(values, "detach") else rows.new_full((), values)
    alike = rows.ndim == wanted.ndim and rows.shape[:-1] == wanted.shape[:-1]
    if rows.ndim == 0 or (rows.ndim > 1 and not alike):
        raise ShapeError(
            "searchsorted",
            "the sequence is (n,), or has the leading axes of the values",
            sorted_sequence=rows.shape,
            values=wanted.shape,
        )
    flat = wanted if rows.ndim > 1 else reshape(wanted, (wanted.numel(),))
    found = _counted_below(rows, flat, or_equal=right)
    return to_dtype(reshape(found, wanted.shape), int32 if out_int32 else int64)


class Search(Function):
    """How many elements of each row lie below (or at) values: ``(n,)`` and ``(m,)``, or of rows."""

    sixteen_bit = False
    repeats = True
    differentiable = ()
    op_name = "searchsorted"

    or_equal: bool

    def infer(self, rows: Array, values: Array) -> tuple[Array, ...]:
        """The shape of the values, int64."""
        del rows
        return (Array.abstract(values.shape, int64, values.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        return [search_rows(target, *outputs, *inputs, or_equal=self.or_equal)]

    def decompose(self, rows: Tensor, values: Tensor) -> tuple[Any, ...]:
        """In as many steps."""
        return (_counted_in_steps(rows, values, or_equal=self.or_equal),)


class Tally(Function):
    """How often each of ``numbers`` numbers from 0 on occurs in int64 keys, as int32."""

    repeats = True
    differentiable = ()
    op_name = "bincount"

    numbers: int

    def infer(self, keys: Array) -> tuple[Array, ...]:
        """``(numbers,)``."""
        return (Array.abstract((self.numbers,), int32, keys.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Two launches."""
        return tally(target, *outputs, *inputs)


def counted(keys: Tensor, numbers: int) -> Tensor:
    """How often each number occurs, int64.

    Args:
        keys: int64; what is no such number is not counted.
        numbers: how many there are, from 0 on.

    Returns:
        ``(numbers,)``.
    """
    if keys.numel() > _MOST_COUNTED:
        ones = keys.new_ones(keys.shape)
        return index_add_within(ones.new_zeros(numbers), 0, keys, ones)
    return to_dtype(apply(Tally(numbers), contiguous(keys)), int64)


def _counted_below(rows: Tensor, values: Tensor, *, or_equal: bool) -> Tensor:
    """How many elements of each row lie below (or at) the values: half of the rest a step.

    The steps are those of PyTorch, so that rows that are not sorted, or hold NaN, give the same.
    """
    kind = result_type(rows, values)
    kind = int32 if kind is bool_ else kind
    given = [contiguous(to_dtype(x, kind)) for x in (rows, values)]
    if values.numel() == 0 or max(rows.numel(), values.numel()) > _MOST_COUNTED:
        return _counted_in_steps(*given, or_equal=or_equal)
    return apply(Search(or_equal), *given)


def _counted_in_steps(rows: Tensor, values: Tensor, *, or_equal: bool) -> Tensor:
    size = rows.shape[-1]
    first = values.new_zeros(values.shape, dtype=int64)
    last = first + size
    beyond = gt if or_equal else ge  # false for NaN: what is no number lies behind all
    for _ in range(size.bit_length()):
        middle: Any = (first + last) // 2
        there = gather_within(rows, -1, clamp(middle, max=size - 1))
        left = logical_or(beyond(there, values), ge(first, last))
        first, last = where(left, first, middle + 1), where(left, middle, last)
    return first


@op(Face.FUNCTION)
def bucketize(
    x: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The number of the bucket between ascending boundaries that each element lies in.

    Args:
        x: any shape, or a number.
        boundaries: ``(n,)``, ascending; a bucket ends with its boundary.
        out_int32: give int32.
        right: a bucket begins with its boundary instead.

    Returns:
        The shape of ``x``, int64.

    Raises:
        ShapeError: if the boundaries have another number of axes.
    """
    if boundaries.ndim != 1:
        raise ShapeError("bucketize", "boundaries are (n,)", boundaries=boundaries.shape)
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


@op(Face.FUNCTION)
def isin(elements: Operand, test_elements: Operand, *, invert: bool = False) -> Tensor:
    """Whether each element is one of others.

    Args:
        elements: any shape, or a number.
        test_elements: the others, any shape, or a number beside a tensor.
        invert: give the contrary.

    Returns:
        The shape of ``elements``, bool.

    Raises:
        DtypeError: if there is no tensor.
    """
    if not hasattr(elements, "detach"):
        if not hasattr(test_elements, "detach"):
            raise DtypeError("isin", "one of both is a tensor", elements=elements)
        found = logical_not(every(ne(test_elements, elements)))
    elif not hasattr(test_elements, "detach"):
        found = eq(elements, test_elements)
    elif test_elements.numel() == 0:
        found = elements.new_zeros(elements.shape, dtype=bool_)
    else:
        others = sort(reshape(test_elements.detach(), -1)).values
        flat = reshape(elements.detach(), (elements.numel(),))
        at = clamp(_counted_below(others, flat, or_equal=False), max=others.numel() - 1)
        found = reshape(eq(gather_within(others, 0, at), flat), elements.shape)
    return logical_not(found) if invert else found


@op()
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs, or the sum of the weights where it does.

    Args:
        x: ``(n,)``, whole numbers, none below 0.
        weights: ``(n,)``.
        minlength: the least length of the result.

    Returns:
        ``(max(x) + 1,)`` at least; the host waits for the size. float32 if the weights are, float64
        for others (float32 on a device without it), int64 if there are none, or no element.

    Raises:
        DtypeError: if ``x`` holds no whole numbers.
        ShapeError: if ``x`` is no vector, or the weights have another shape.
        ArgumentError: if an element or ``minlength`` is below 0.
    """
    if x.dtype.kind is Kind.INTEGER:
        x = to_dtype(x, int64)
    require_index("bincount", x)
    if x.ndim != 1 or (weights is not None and weights.shape != x.shape):
        of = None if weights is None else weights.shape
        raise ShapeError("bincount", "x is (n,), weights as well", x=x.shape, weights=of)
    least = int(smallest(x).item()) if x.numel() else 0
    if least < 0 or minlength < 0:
        law = "elements and minlength are 0 or more"
        raise ArgumentError("bincount", law, least=least, minlength=minlength)
    size = int(largest(x).item()) + 1 if x.numel() else 0
    size = size if size > minlength else minlength
    if weights is None or not x.numel():
        return counted(x, size)
    wide = float64 if x.device.traits.float64 else float32
    added = weights if weights.dtype is float32 else to_dtype(weights, wide)
    return index_add(added.new_zeros(size), 0, x, added)


@op()
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002 - PyTorch's
    """How many elements lie in each of some bins of equal width; the last one has both ends.

    Args:
        x: any shape, floating or whole numbers, as on PyTorch's GPUs.
        bins: their number.
        min: where the first begins.
        max: where the last ends; the same as ``min``: the elements' own range, for which the host
            waits.

    Returns:
        ``(bins,)``, of the dtype of ``x``; what lies outside is not counted.

    Raises:
        ArgumentError: if there is no bin, ``min > max``, or one is not finite, which of the
            elements' own range holds, too.
        DtypeError: if ``x`` is boolean or complex.
    """
    if x.dtype is bool_ or x.dtype.is_complex:
        law = "operands are floating or whole numbers"
        raise DtypeError("histc", law, dtype=x.dtype, remedy="Convert it with .float()")
    low, high = float(min), float(max)
    if bins < 1 or low > high or not isfinite(high - low):
        law = "there is a bin or more, and min is at most max, both finite"
        raise ArgumentError("histc", law, bins=bins, min=min, max=max)
    flat = reshape(x.detach(), (x.numel(),))
    if low == high and x.numel():
        low, high = float(smallest(flat).item()), float(largest(flat).item())
        if not isfinite(high - low):
            law = "where neither min nor max is given, all elements are finite"
            raise ArgumentError("histc", law, smallest=low, largest=high)
    if low == high:
        low, high = low - 1, high + 1
    wide = flat
    if not x.dtype.differentiable:
        wide = to_dtype(flat, float64 if x.device.traits.float64 else float32)
    elif x.dtype.itemsize < float32.itemsize:
        wide = to_dtype(flat, float32)
    at = clamp(rounded_down((wide - low) * (bins / (high - low))), max=bins - 1)
    inside = logical_and(ge(wide, low), le(wide, high))
    return to_dtype(counted(to_dtype(where(inside, at, -1.0), int64), bins), x.dtype)


def _close(x: Any, other: Any, rtol: Any, atol: Any) -> Any:
    near = abs(x - other) <= atol + rtol * abs(other)
    return e.logical_or(e.eq(x, other), e.logical_and(near, e.logical_not(e.isinf(other))))


def _close_or_nan(x: Any, other: Any, rtol: Any, atol: Any) -> Any:
    return e.logical_or(_close(x, other, rtol, atol), e.logical_and(e.isnan(x), e.isnan(other)))


def _whole_close(x: Tensor, other: Operand, rtol: float, atol: float) -> Tensor:
    """Of whole numbers the difference is exact, and what is allowed a float."""
    if hasattr(other, "array"):
        number: Any = to_dtype(other, int64)
        size: Any = to_dtype(magnitude(number), float32)
    else:
        number, size = int(other), fabs(other)
    gap = to_dtype(magnitude(to_dtype(x, int64) - number), float32)
    return logical_or(eq(x, other), le(gap, size * rtol + atol))


@op()
def isclose(
    x: Tensor,
    other: Operand,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Tensor:
    """``|x - other| <= atol + rtol |other|``, or both are equal.

    Args:
        x: any shape.
        other: broadcasts with it.
        rtol: allowed, relative to ``other``.
        atol: allowed beside.
        equal_nan: whether NaN is close to NaN.

    Returns:
        The broadcast shape, bool.

    Raises:
        ArgumentError: if ``rtol`` or ``atol`` is below 0.
    """
    if not (rtol >= 0 and atol >= 0):
        raise ArgumentError("isclose", "rtol and atol are 0 or more", rtol=rtol, atol=atol)
    if result_type(x, other).kind in (Kind.BOOL, Kind.INTEGER):
        return _whole_close(x, other, rtol, atol)
    body = _close_or_nan if equal_nan else _close
    return evaluate(
        "isclose", body, [x, other], [rtol, atol], result=Result.boolean, promoted=[x, other]
    )


@op()
def allclose(
    x: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> bool:
    """Whether all elements are close, as Python's bool; arguments as :func:`isclose`'s."""
    return bool(every(isclose(x, other, rtol, atol, equal_nan)).item())


@op()
def equal(x: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape and equal elements, as Python's bool."""
    return x.shape == other.shape and bool(every(eq(x, other)).item())


@op()
def repeat_interleave(
    x: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Every slice of an axis several times, one after another.

    Args:
        x: any shape.
        repeats: how often: one number, or one for each slice, for which the host waits; None: so
            often as each element of the vector ``x`` says, its position.
        dim: the axis; None: of all elements in a row.
        output_size: the sum of the repeats, if it is known: nothing waits then.

    Returns:
        ``x``'s shape with the sum of the repeats at ``dim``.

    Raises:
        ShapeError: if there are neither one nor as many repeats as slices.
        ArgumentError: if a number of repeats is below 0.
    """
    if repeats is None:
        require_index("repeat_interleave", x)
        if x.ndim != 1:
            law = "repeats of positions are a vector"
            raise ShapeError("repeat_interleave", law, repeats=x.shape)
        x, repeats = positions(type(x), x.numel(), x.device, dtype=x.dtype), x
    if dim is None:
        x, dim = reshape(x, (x.numel(),)), 0
    axis = normalize_dim("repeat_interleave", dim, x.ndim)
    size = x.shape[axis] if x.ndim else 1
    if not isinstance(repeats, int) and repeats.ndim > 1:
        law = "repeats are one number, or one for each slice"
        raise ShapeError("repeat_interleave", law, repeats=repeats.shape)
    if not isinstance(repeats, int) and repeats.numel() == 1:
        number: Any = repeats.item()
        repeats = int(number)
    if isinstance(repeats, int):
        if repeats < 0:
            raise ArgumentError("repeat_interleave", "repeats are 0 or more", repeats=repeats)
        if output_size not in (None, size * repeats):
            law = "output_size is the slices times their repeats"
            raise ArgumentError(
                "repeat_interleave", law, output_size=output_size, slices=size, repeats=repeats
            )
        shape = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
        wide = expand(reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])), shape)
        return fresh(reshape(wide, (*x.shape[:axis], size * repeats, *x.shape[axis + 1 :])), x)
    require_index("repeat_interleave", repeats)
    if repeats.shape != (size,):
        raise ShapeError(
            "repeat_interleave",
            "there is a number for each slice",
            repeats=repeats.shape,
            x=x.shape,
        )
    require_elements(
        repeats, of_value("repeat_interleave", "repeats", "they are 0 or more"), Bad.BELOW, 0
    )
    ends = cumsum(repeats, 0)
    last: Any = ends[-1].item() if output_size is None and size else output_size or 0
    count = int(last)
    places = positions(type(x.detach()), count, x.device)
    return index_select(x, dim, searchsorted(ends, places, right=True))
