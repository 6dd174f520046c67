"""Elements and slices put, or added up, where an index says; the same bits every time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..device import Check
from ..errors import ArgumentError, BoundsError, ShapeError
from ..kernels.index import first_extreme, meets_in_order, takes_extremes
from ..values import mode
from ..values.dtypes import bool_, int32, int64, uint8
from ..values.plain import shown
from ..values.shapes import Shape, normalize_dim
from .arithmetic import Number, eq, logical_or, maximum, minimum, ne, scaled, where
from .check import of_index, require_classes
from .create import positions
from .index import (
    ExtremesAlong,
    GatherBackward,
    GatherRowsBackward,
    PutRows,
    ReplaceRows,
    Scatter,
    ScatterInto,
    added_up,
    gather_within,
    none_of,
    require_index,
)
from .machinery.autocast import autocast_operands
from .machinery.derived import derived
from .machinery.function import Face, apply, op, require_same_dtype
from .machinery.pointwise import apart, evaluate
from .machinery.promotion import Operand
from .rearrange import select
from .scattered import combined, met, multiplied
from .shape import (
    Slice,
    clone,
    contiguous,
    expand,
    overwrite,
    reshape,
    settled,
    to_dtype,
    unsqueeze,
)

if TYPE_CHECKING:
    from ..tensor import Tensor


@op()
def scatter(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Operand | None = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """``y[i][index[i][j][k]][k] = src[i][j][k]`` for ``dim = 1``, elsewhere ``y = x``.

    Args:
        x: any shape.
        dim: the axis.
        index: as many axes, sizes at most those of ``x`` but for ``dim``; int64 or int32, in
            ``[0, size)``; of equal ones the last stays, one out of range writes nothing and is
            reported at the next synchronisation.
        src: a number, or a tensor no axis of which is shorter than the index's.
        value: a number, as ``src``.
        reduce: ``"add"`` or ``"multiply"`` combines with what is there; None replaces.

    Returns:
        The shape of ``x``.

    Raises:
        ArgumentError: if ``reduce`` is another.
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices, or the dtypes differ.
    """
    if reduce not in (None, "add", "multiply"):
        law = "reduce is None, 'add' or 'multiply'"
        raise ArgumentError("scatter", law, reduce=repr(reduce))
    if (src is None) == (value is None):
        raise ArgumentError("scatter", "either src or value is given", value=shown(value))
    source = value if src is None else src
    if not isinstance(source, type(x.detach())):
        source = x.new_full(index.shape, source)
    if reduce == "add":
        return scatter_add(x, dim, index, source)
    if reduce == "multiply":
        return scatter_reduce(x, dim, index, source, "prod")
    axis, flat = _checked("scatter", x, dim, index, source)
    return reshape(apply(Scatter(axis, of_index("scatter")), *flat), x.shape)


@op()
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``y[i][index[i][j][k]][k] += src[i][j][k]`` for ``dim = 1``, beginning with ``y = x``.

    Sums are made in the order of the index: the same bits every time.

    Args:
        x: any shape.
        dim: the axis.
        index: as :func:`scatter` takes it.
        src: no axis shorter than the index's.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices, or the dtypes differ.
    """
    return _added(x, dim, index, src, of_index("scatter_add"))


def _plus(x: Tensor, sums: Tensor) -> Tensor:
    """``x + sums``; where these are 0, as where nothing is added, -0.0 stays what it is."""
    if not x.dtype.is_floating_point:
        return x + sums
    return evaluate("add", _sum, [x, sums], gradient=_both)


def _sum(x: Any, sums: Any) -> Any:
    return e.where(e.eq(sums, 0), x, x + sums)


def _both(g: Any, y: Any, x: Any, sums: Any) -> Any:
    return g, g


def _added(x: Tensor, dim: int, index: Tensor, src: Tensor, check: Check | None) -> Tensor:
    name = "scatter_add" if check is None else check.op
    axis, (y, source, places) = _checked(name, x, dim, index, src)
    rows = _one_for_slices(x, axis, index) if x.dtype.is_floating_point else None
    if rows is not None:
        return _plus(y, _rows_added(y, axis, rows, source, check))
    function = GatherBackward(axis, y.shape, check)
    return reshape(_plus(y, added_up(function, source, places)), x.shape)


def _one_for_slices(x: Tensor, axis: int, index: Tensor) -> Tensor | None:
    """The vector that an index was expanded from, if whole slices of ``x`` have one number.

    So graphs' messages are added up: then there is a number for each slice, not for each element.
    Of whole numbers GPUs add up elements by atomics, without a sort.
    """
    steps, shape = index.array.strides, index.shape
    others = [d for d in range(index.ndim) if d != axis]
    whole = all(shape[d] == x.shape[d] and (steps[d] == 0 or shape[d] == 1) for d in others)
    if not (others and whole and index.numel()):
        return None
    for d in reversed(others):
        index = select(index, d, 0)
    return contiguous(index)


def _counted(x: Tensor, axis: int, index: Tensor, check: Check | None) -> Tensor:
    """How many indices name each element of ``x``, int32; expanded where slices have one number."""
    rows, shape = _one_for_slices(x, axis, index), x.shape
    if rows is not None:
        index, shape = rows, shape[axis : axis + 1]
    ones = index.new_ones(index.shape, dtype=int32)
    count = _added(
        index.new_zeros(shape, dtype=int32), axis if rows is None else 0, index, ones, check
    )
    if rows is None:
        return count
    return expand(reshape(count, (*shape, *(1,) * (x.ndim - axis - 1))), x.shape)


def _checked(
    name: str, x: Tensor, dim: int, index: Tensor, src: Tensor
) -> tuple[int, tuple[Tensor, Tensor, Tensor]]:
    """The axis, and the operands dense, with an axis at least, and the source cut to the index."""
    require_index(name, index)
    x, src = autocast_operands(name, x, src)
    require_same_dtype(name, x=x.array, src=src.array)
    axis = normalize_dim(name, dim, x.ndim)
    if x.ndim == 1:  # of one element none has an axis in PyTorch
        index, src = (reshape(y, (1,)) if y.ndim == 0 else y for y in (index, src))
    index, src = _require_fit(name, x, axis, index, src)
    if src.shape != index.shape:
        src = apply(Slice((0,) * src.ndim, (1,) * src.ndim, index.shape), src)
    if x.ndim == 0:
        x, index, src = (reshape(y, (y.numel(),)) for y in (x, index, src))
    return axis, (x, contiguous(src), contiguous(index))


def _require_fit(
    name: str, x: Tensor, axis: int, index: Tensor, src: Tensor
) -> tuple[Tensor, Tensor]:
    """The index and its source, which fit; one that names nothing does so in any shape."""
    if not index.numel():
        empty = (0,) * max(x.ndim, 1)
        return none_of(index, empty), none_of(src, empty)
    fits = index.ndim == x.ndim == src.ndim and all(
        i <= s and (d == axis or i <= n)
        for d, (n, i, s) in enumerate(zip(x.shape, index.shape, src.shape, strict=True))
    )
    if not fits:
        raise ShapeError(
            name,
            "the index has as many axes as x and src, none longer but x's for dim",
            x=x.shape,
            index=index.shape,
            src=src.shape,
            dim=axis,
        )
    if 0 in x.shape[axis : axis + 1]:
        raise BoundsError(name, "an index lies in [0, size)", x=x.shape, dim=axis)
    return index, src


@op()
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """``x`` with the slices of ``source``, times ``alpha``, added to those an index names.

    Args:
        x: any shape.
        dim: the axis.
        index: ``(n,)``, int64 or int32; one out of range adds nothing and is reported at the next
            synchronisation.
        source: as ``x``, with ``n`` at ``dim``.
        alpha: a factor.

    Returns:
        The shape of ``x``; sums are made in the order of the index.

    Raises:
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices, or the dtypes differ.
    """
    if x.ndim == 0:  # an axis of one element
        if source.ndim:
            raise ShapeError("index_add", "source has the axes of x", x=(), source=source.shape)
        normalize_dim("index_add", dim, 1)
        one = reshape(source, (1,))
        return reshape(index_add(reshape(x, (1,)), 0, index, one, alpha=alpha), ())
    # The source is scaled, not the sums: NaN times 0 were NaN where nothing is added.
    source = to_dtype(scaled("index_add", source, alpha), source.dtype)
    return _plus(x, _rows_added(x, dim, index, source, of_index("index_add")))


def index_add_within(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """:func:`index_add` for ops that know their index; what lies out of range adds nothing."""
    return x + _rows_added(x, dim, index, source, None)


def _rows_added(x: Tensor, dim: int, index: Tensor, source: Tensor, check: Check | None) -> Tensor:
    _, rows, places = _slices("index_add", x, dim, index, source)
    size = x.shape[normalize_dim("index_add", dim, x.ndim)]
    return reshape(added_up(GatherRowsBackward(size, False, -1, check), rows, places), x.shape)


@op()
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``x`` with the slices of ``source`` in place of those an index names.

    Args:
        x: any shape.
        dim: the axis.
        index: ``(n,)``, int64 or int32; of equal ones the last stays, one out of range writes
            nothing and is reported at the next synchronisation.
        source: as ``x``, with ``n`` at ``dim``.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices, or the dtypes differ.
    """
    if x.ndim == 0:  # an axis of one element
        found = index_copy(reshape(x, (1,)), dim, index, reshape(source, (source.numel(),)))
        return reshape(found, ())
    if source.ndim == 0 and x.ndim == 1:
        source = reshape(source, (1,))
    y, rows, places = _slices("index_copy", x, dim, index, source)
    function = ReplaceRows(wrap=False, check=of_index("index_copy"))
    return reshape(apply(function, y, rows, places), x.shape)


@op()
def index_fill(x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """``x`` with a number in the slices that an index names; arguments as :func:`index_copy`'s.

    A tensor without axes is a number, too, and has its gradient.

    Negative indices count from the end.
    """
    if x.ndim == 0:
        return reshape(index_fill(reshape(x, (1,)), dim, index, value), ())
    axis = normalize_dim("index_fill", dim, x.ndim)
    # Which slices: a mask along the axis, however large they are.
    n, ones = x.shape[axis], index.new_ones(index.numel(), dtype=uint8)
    y, rows, places = _slices("index_fill", ones.new_zeros(n), 0, index, ones)
    function = ReplaceRows(wrap=True, check=of_index("index_fill", wrap=True))
    marks = apply(function, y, rows, places)
    along = (1,) * axis + (n,) + (1,) * (x.ndim - axis - 1)
    number = hasattr(value, "__apply_function__")
    filled = to_dtype(reshape(value, ()), x.dtype) if number else x.new_full((), value)
    return where(ne(reshape(marks, along), 0), filled, x)


def _slices(
    name: str, x: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` and the source as ``(outer, rows, inner)``, and the index, all dense."""
    require_index(name, index)
    x, source = autocast_operands(name, x, source)
    require_same_dtype(name, x=x.array, source=source.array)
    axis = normalize_dim(name, dim, x.ndim)
    if index.ndim == 0:  # what squeeze() leaves of one index
        index = reshape(index, (1,))
    expected: Shape = (*x.shape[:axis], index.numel(), *x.shape[axis + 1 :])
    if index.ndim != 1 or x.ndim == 0 or source.shape != expected:
        raise ShapeError(
            name,
            "the index has one axis or none, and source as many slices as it has elements",
            x=x.shape,
            dim=dim,
            index=index.shape,
            source=source.shape,
        )
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    rows = reshape(x, (outer, x.shape[axis], inner))
    return rows, contiguous(reshape(source, (outer, index.numel(), inner))), contiguous(index)


# In place.


def _written_at_once(x: Tensor, source: Any) -> bool:
    """Whether the memory of ``x`` itself may be written: it is dense, and no tape asks for it."""
    taped = x.requires_grad or (isinstance(source, type(x.detach())) and source.requires_grad)
    dense = x.array.contiguous and x.numel() > 0 and not x.dtype.is_complex
    return dense and x.ndim > 0 and not (mode.current().grad and taped)


@op(Face.METHOD)
def scatter_(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Operand | None = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """:func:`scatter` in place; returns the tensor."""
    source = value if src is None else src
    if reduce is None and source is not None and _written_at_once(x, source):
        if not isinstance(source, type(x.detach())):
            source = x.new_full(index.shape, source)
        axis, (own, elements, places) = _checked("scatter", x, dim, index, source)
        if own is x:
            into = ScatterInto(axis, of_index("scatter"))
            apply(into, x, apart(elements, x), apart(places, x))
            return x
    return overwrite(x, scatter(x, dim, index, src, value=value, reduce=reduce), "scatter_")


@op(Face.METHOD)
def scatter_add_(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """:func:`scatter_add` in place; returns the tensor."""
    return overwrite(x, scatter_add(x, dim, index, src), "scatter_add_")


@op(Face.METHOD)
def index_add_(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """:func:`index_add` in place; returns the tensor."""
    return overwrite(x, index_add(x, dim, index, source, alpha=alpha), "index_add_")


@op(Face.METHOD)
def index_copy_(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """:func:`index_copy` in place; returns the tensor."""
    if x.ndim and _written_at_once(x, source):
        own, rows, places = _slices("index_copy", x, dim, index, source)
        if own.array.storage is x.array.storage:
            into = PutRows(wrap=False, check=of_index("index_copy"), op_name="index_copy_")
            apply(into, own, apart(rows, x), apart(places, x))
            return x
    return overwrite(x, index_copy(x, dim, index, source), "index_copy_")


@op(Face.METHOD)
def index_fill_(x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """:func:`index_fill` in place; returns the tensor."""
    if x.ndim and _written_at_once(x, value):
        axis = normalize_dim("index_fill", dim, x.ndim)
        slices = x.new_full((*x.shape[:axis], index.numel(), *x.shape[axis + 1 :]), value)
        own, rows, places = _slices("index_fill", x, dim, index, slices)
        into = PutRows(wrap=True, check=of_index("index_fill", wrap=True), op_name="index_fill_")
        apply(into, own, rows, apart(places, x))
        return x
    return overwrite(x, index_fill(x, dim, index, value), "index_fill_")


_EXTREMES = {"amax": "most", "amin": "least"}
_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@op()
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """``x`` with each element reduced with those of ``src`` whose index along an axis names it.

    Args:
        x: any shape.
        dim: the axis.
        index: as :func:`scatter` takes it.
        src: no axis shorter than the index's.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the element itself takes part where an index names it.

    Returns:
        The shape of ``x``; of equal extremes each gets an equal part of the gradient.

    Raises:
        ArgumentError: if ``reduce`` is another.
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices, or the dtypes differ.
    """
    if reduce not in _REDUCTIONS:
        law = f"reduce is one of {_REDUCTIONS}"
        raise ArgumentError("scatter_reduce", law, reduce=repr(reduce))
    if x.ndim == 0:
        parts = (reshape(x, (1,)), reshape(src, (src.numel(),)))
        places = reshape(index, (index.numel(),))
        found = scatter_reduce(parts[0], dim, places, parts[1], reduce, include_self=include_self)
        return reshape(found, ())
    check = of_index("scatter_reduce")
    return scatter_reduce_within(x, dim, index, src, reduce, include_self=include_self, check=check)


def scatter_reduce_within(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    check: Check | None = None,
    nans_share: bool = False,  # NaNs have shares of their extreme's gradient, which else are NaN
) -> Tensor:
    """:func:`scatter_reduce` for ops that know their index; one out of range takes no part."""
    require_same_dtype("scatter_reduce", x=x.array, src=src.array)
    axis = normalize_dim("scatter_reduce", dim, x.ndim)
    index, src = _require_fit("scatter_reduce", x, axis, index, src)
    if x.dtype is bool_:
        wide = (to_dtype(x, uint8), dim, index, to_dtype(src, uint8), reduce)
        found = scatter_reduce_within(*wide, include_self=include_self, check=check)
        return to_dtype(found, bool_)
    if src.shape != index.shape:
        src = apply(Slice((0,) * src.ndim, (1,) * src.ndim, index.shape), src)
    rows, how = _one_for_slices(x, axis, index), _EXTREMES.get(reduce)
    rule = _shares(axis, of_nans=nans_share)
    in_order = meets_in_order(x.device.target)
    if reduce == "prod" and include_self:
        return multiplied(x, axis, src, index, rows=rows, check=check)
    if how is not None and include_self and in_order:
        found = met(x.detach(), axis, src.detach(), index, how, rows=rows, check=check)
        return _with_shares(rule, found, x, index, src, None)
    count = _counted(x, axis, index, check)
    named = count > 0
    if how is not None and in_order:
        first = first_extreme(x.dtype, largest=how == "most")
        kept = to_dtype(where(named, first, x.detach()), x.dtype)
        found = met(kept, axis, src.detach(), index, how, rows=rows, check=None)
        return _with_shares(rule, found, x, index, src, named)
    if how is not None:
        largest = how == "most"
        found = _extremes(x, axis, index, src, named, largest=largest, with_x=include_self)
        return _with_shares(rule, found, x, index, src, None if include_self else named)
    if reduce in ("sum", "mean"):
        kept = x if include_self else where(named, 0, x)
        total = _added(to_dtype(kept, x.dtype), dim, index, src, None)
        if reduce == "sum":
            return total
        shares = where(named, count + int(include_self), 1)
        return total / shares if x.dtype.is_floating_point else to_dtype(total // shares, x.dtype)
    kept = to_dtype(where(named, 1, x), x.dtype)
    return multiplied(kept, axis, src, index, rows=rows, check=None)


@op(Face.METHOD)
def scatter_reduce_(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """:func:`scatter_reduce` in place; returns the tensor."""
    # The gradient of extremes and products looks at what was there.
    kept = reduce in ("amax", "amin", "prod") and (x.requires_grad or src.requires_grad)
    before = clone(x) if kept else x
    y = scatter_reduce(before, dim, index, src, reduce, include_self=include_self)
    return settled(x, y, inplace=True)


def _extremes(
    x: Tensor,
    axis: int,
    index: Tensor,
    src: Tensor,
    named: Tensor,
    *,
    largest: bool,
    with_x: bool,
) -> Tensor:
    """The extremes, off the tape, without an order: by atomics, or by a sort."""
    better = maximum if largest else minimum
    own, others = x.detach(), src.detach()
    if takes_extremes(x.device.target, x.dtype) and x.ndim:
        function = ExtremesAlong(axis, x.shape, largest)
        found = apply(function, contiguous(others), contiguous(index))
    else:
        found = combined(better, own.shape, axis, index, others)
    return where(named, better(found, own) if with_x else found, own)


def _with_shares(
    rule: Any, found: Tensor, x: Tensor, index: Tensor, src: Tensor, named: Tensor | None
) -> Tensor:
    """Extremes on the tape; elements that are equal to one share its gradient.

    Args:
        rule: what shares it.
        found: the extremes.
        x: what they were found among, with ``src``.
        index: places.
        src: what it names.
        named: where ``x`` takes no part; None: it takes part.
    """
    if not x.requires_grad and not src.requires_grad:
        return found
    inputs = (x, src, index) if named is None else (x, src, index, named)
    return derived("scatter_reduce", rule, inputs, (found,))


@cache
def _shares(axis: int, *, of_nans: bool) -> Any:
    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        x, src, index, *rest = inputs
        (found,), (g,) = results, grads
        # As in PyTorch an element that takes no part has its share of what equals it, unread.
        mine, theirs = eq(x, found), eq(src, gather_within(found, axis, index))
        if of_nans:
            mine, theirs = logical_or(mine, ne(x, x)), logical_or(theirs, ne(src, src))
        mine, theirs = to_dtype(mine, g.dtype), to_dtype(theirs, g.dtype)
        # Of NaN, which equals nothing, none has a share: all of them get NaN, 0 times infinity.
        share = g / _added(mine, axis, index, theirs, None)
        mine, theirs = mine * share, theirs * gather_within(share, axis, index)
        return where(rest[0], 0.0, mine) if rest else mine, theirs, *(None for _ in inputs[2:])

    return rule


@op(Face.FUNCTIONAL)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the position each element names along a new last axis, else 0.

    Args:
        tensor: classes in ``[0, num_classes)``, any shape, int64 or int32; one out of range gives
            a row of zeros, and an error at the next synchronisation.
        num_classes: the size of the new axis; -1: the largest class and 1, for which the host
            waits.

    Returns:
        ``(*tensor.shape, num_classes)``, int64.

    Raises:
        ArgumentError: if ``num_classes`` is below -1, or without it a class below 0.
        DtypeError: if ``tensor`` does not hold indices.
        ShapeError: if it is empty and ``num_classes`` is -1.
    """
    require_index("one_hot", tensor)
    if num_classes < -1:
        law = "the number of classes is 0 or more, or -1"
        raise ArgumentError("one_hot", law, num_classes=num_classes)
    if num_classes < 0 and tensor.numel() == 0:
        raise ShapeError("one_hot", "no elements tell the number of classes", x=tensor.shape)
    count = num_classes
    if num_classes < 0:
        least, largest = (int(f().item()) for f in (tensor.min, tensor.max))
        if least < 0:
            raise ArgumentError("one_hot", "classes are 0 or more", least=least)
        count = largest + 1
    require_classes("one_hot", tensor, count, argument="tensor")
    classes = positions(type(tensor), count, tensor.device)
    return to_dtype(eq(unsqueeze(tensor, -1), classes), int64)
