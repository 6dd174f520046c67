"""Medians and quantiles along an axis, in PyTorch's names; each of them is read off a sort."""

# ruff: noqa: FBT001, FBT002 - PyTorch takes `keepdim` by position
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import Bad
from ..values.dtypes import int64
from ..values.returned import returned
from ..values.shapes import normalize_dim
from .arithmetic import clamp, eq, floor, isnan, logical_not, where
from .check import of_value, require_elements
from .copying import copy_launches
from .index import gather_within
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply, op, require_floating
from .rearrange import movedim
from .reduce import any as some
from .reduce import sum as total
from .shape import reshape, squeeze, to_dtype, unsqueeze
from .sort import Ordered, sort

if TYPE_CHECKING:
    from ..tensor import Tensor

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


class Shared(Function):
    """A value found among the elements of a tensor; those that equal it share its gradient."""

    repeats = True

    op_name: str

    @property
    def name(self) -> str:
        """The public op."""
        return self.op_name

    def infer(self, x: Array, value: Array) -> tuple[Array, ...]:
        """A dense output."""
        return (Array.abstract(value.shape, value.dtype, value.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One copy."""
        return copy_launches(target, outputs[0], inputs[1])

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Both operands."""
        return (0, 1), ()

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Evenly spread, also over NaN."""
        x, value = saved.inputs[0], saved.inputs[1]
        found = to_dtype(where(isnan(value), isnan(x), eq(x, value)), grads[0].dtype)
        return (found * (grads[0] / found.sum()), None)


@op()
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower one of two; NaN where there is a NaN.

    Args:
        x: any shape and dtype.
        dim: the axis; None: of all elements.
        keepdim: leave the axis with size 1.

    Returns:
        A number without axes (NaN of no floats); with ``dim`` values and int64 indices, of NaN
        that of the first.

    Raises:
        ArgumentError: if the axis is empty.
    """
    return _middle("median", x, dim, keepdim, ignoring=False)


@op()
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """As :func:`median`, of the elements that are not NaN."""
    return _middle("nanmedian", x, dim, keepdim, ignoring=True)


def _middle(name: str, x: Tensor, dim: int | None, keepdim: bool, *, ignoring: bool) -> Any:
    if dim is None and x.numel() == 0 and x.dtype.is_floating_point:
        return x.new_full((), float("nan"))
    axis = 0 if dim is None else normalize_dim(name, dim, x.ndim)
    made = returned(name, Ordered)
    if dim is None or x.ndim == 0:
        rows = reshape(x.detach() if dim is None else x, (x.numel(),))
        values, indices = (reshape(y, ()) for y in _middle_of_last(name, rows, ignoring=ignoring))
        return apply(Shared(name), x, values) if dim is None else made(values, indices)
    found = _middle_of_last(name, movedim(x, axis, -1), ignoring=ignoring)
    return made(*(movedim(y, -1, axis) if keepdim else squeeze(y, -1) for y in found))


def _middle_of_last(name: str, x: Tensor, *, ignoring: bool) -> Ordered:
    size = x.shape[-1]
    if size == 0:
        raise ArgumentError(name, "the axis has an element", x=x.shape)
    ordered = sort(x, -1)
    half = x.new_full((*x.shape[:-1], 1), (size - 1) // 2, dtype=int64)
    if x.dtype.is_floating_point:  # NaN comes last, the first one of the axis first
        left: Any = total(to_dtype(logical_not(isnan(x.detach())), int64), -1, keepdim=True)
        half = clamp((left - 1) // 2, min=0) if ignoring else where(left < size, left, half)
    return Ordered(
        gather_within(ordered.values, -1, half), gather_within(ordered.indices, -1, half)
    )


@op()
def quantile(
    x: Tensor,
    q: float | Sequence[float] | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The elements below which the shares ``q`` of an axis lie, in between by interpolation.

    Args:
        x: any shape, floating; NaN gives NaN.
        q: in ``[0, 1]``: a number, or several as a sequence or a vector.
        dim: the axis; None: of all elements.
        keepdim: leave the axis with size 1.
        interpolation: ``"linear"``, ``"lower"``, ``"higher"``, ``"midpoint"`` or ``"nearest"``.

    Returns:
        Without the axis; with several ``q`` an axis for them in front.

    Raises:
        ArgumentError: if the axis is empty, or the interpolation or a number ``q`` is no such one.
        DtypeError: if ``x`` is not floating.
        ShapeError: if ``q`` has several axes.
    """
    return _quantile("quantile", x, q, dim, keepdim, interpolation)


@op()
def nanquantile(
    x: Tensor,
    q: float | Sequence[float] | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """As :func:`quantile`, of the elements that are not NaN."""
    return _quantile("nanquantile", x, q, dim, keepdim, interpolation)


def _quantile(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    require_floating(name, x.array)
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(name, f"interpolation is one of {_INTERPOLATIONS}", got=interpolation)
    if hasattr(q, "detach"):
        require_elements(q, of_value(name, "q", "it lies in [0, 1]"), Bad.OUTSIDE, 0, 1)
    shares = q if hasattr(q, "detach") else _shares(name, x, q)
    if shares.ndim > 1:
        raise ShapeError(name, "q is a number or a vector", q=shares.shape)
    ndim = x.ndim
    axis = 0 if dim is None else normalize_dim(name, dim, ndim)
    rows = reshape(x, (x.numel(),)) if dim is None or not ndim else movedim(x, axis, -1)
    if rows.shape[-1] == 0:
        raise ArgumentError(name, "the axis has an element", x=x.shape)
    several = reshape(shares, (shares.numel(),))
    found = movedim(_between(rows, several, interpolation, ignoring=name[0] == "n"), -1, 0)
    if keepdim:
        whole = dim is None or ndim == 0
        found = reshape(found, (-1, *(1,) * ndim)) if whole else unsqueeze(found, axis + 1)
    return found if shares.ndim else squeeze(found, 0)


def _shares(name: str, x: Tensor, q: Any) -> Tensor:
    several = [q] if isinstance(q, int | float) else list(q)
    if not several:
        return x.detach().new_empty(0)
    if not all(0 <= share <= 1 for share in several):
        raise ArgumentError(name, "q lies in [0, 1]", q=q)
    made = [x.new_full((1,), float(share)) for share in several]
    vector = made[0].detach() if len(made) == 1 else made[0].new_empty(len(made))
    for i, share in enumerate(made if len(made) > 1 else ()):
        vector[i : i + 1] = share
    return reshape(vector, ()) if isinstance(q, int | float) else vector


def _between(rows: Tensor, q: Tensor, interpolation: str, *, ignoring: bool) -> Tensor:
    """The quantiles along the last axis of sorted ``rows``, one behind the other."""
    ordered, size = sort(rows, -1).values, rows.shape[-1]
    missing = isnan(rows.detach())
    last = rows.new_full((*rows.shape[:-1], 1), size - 1)
    if ignoring:
        last = clamp(total(to_dtype(logical_not(missing), rows.dtype), -1, keepdim=True) - 1, min=0)
    else:
        q = where(some(missing, -1, keepdim=True), 1.0, q)  # NaN comes last
    at = last * q
    below = floor(at)
    share = at - below
    if interpolation == "nearest":
        below = at.round()
    above = below if interpolation in ("nearest", "lower") else -floor(-at)
    low, high = (gather_within(ordered, -1, to_dtype(i, int64)) for i in (below, above))
    if interpolation == "higher":
        return high
    if interpolation in ("nearest", "lower"):
        return low
    if interpolation == "midpoint":
        return high - (high - low) * 0.5
    # From the nearer end: half of infinity would be added to its opposite, and give NaN.
    return where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
