"""Neighbouring elements of an axis joined, in segments of lengths that tensors hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import Bad
from ..values.shapes import axis_of
from .arithmetic import clamp, where
from .check import of_value, require_elements
from .create import positions
from .machinery.function import Face, op, require_floating
from .reduce import sum as total
from .scan import cumsum
from .scatter import scatter_reduce_within
from .search import searchsorted
from .shape import contiguous, expand, narrow, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

_JOINS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
    "prod": ("prod", 1.0),
    "amax": ("amax", -math.inf),
    "amin": ("amin", math.inf),
}
_WHOLE = of_value("segment_reduce", "lengths", "those of a row add up to the axis of data")


@op(Face.FUNCTION)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Segments of an axis, each joined into one element, in order.

    Args:
        data: ``(*batch, n, *rest)``, floating.
        reduce: ``sum``, ``mean``, ``max`` (or ``amax``), ``min`` (or ``amin``) or ``prod``.
        lengths: ``(*batch, segments)``, whole numbers.
        indices: not taken, as in PyTorch.
        offsets: ``(*batch, segments + 1)``: where segments begin and end; in place of lengths.
        axis: that of ``n``: the last one of the lengths.
        unsafe: do not look whether lengths add up to ``n``.
        initial: what each segment begins with.

    Returns:
        ``(*batch, segments, *rest)``. Without ``initial`` an empty segment is 0, NaN (``mean``),
        infinite (``max``, ``min``), or 1.

    Raises:
        ArgumentError: if ``reduce`` is another, or not just one of lengths and offsets is given.
        ShapeError: if their batch or axis is not that of ``data``.
        DtypeError: if ``data`` is not floating.
        DataDomainError: at the next synchronisation, if lengths do not add up.
    """
    name = "segment_reduce"
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    require_floating(name, data.array)
    if reduce not in _JOINS:
        raise ArgumentError(name, f"reduce is one of {', '.join(_JOINS)}", reduce=reduce)
    given = lengths if offsets is None else offsets
    if indices is not None or given is None or (lengths is not None and offsets is not None):
        law, remedy = "either lengths or offsets are given", "Take scatter_reduce for indices"
        raise ArgumentError(name, law, remedy=remedy)
    at, batch = axis_of(name, axis, data.shape), given.shape[:-1]
    if (
        given.ndim != at + 1
        or batch != data.shape[:at]
        or (offsets is not None and 0 in given.shape)
    ):
        law = "lengths have the axes of data up to the one that is joined"
        raise ShapeError(name, law, data=data.shape, given=given.shape, axis=at)
    n, rest = data.shape[at], data.shape[at + 1 :]
    if offsets is None:
        counts, ends = given, cumsum(given, -1)
    else:
        ends = narrow(offsets, -1, 1, offsets.shape[-1] - 1)
        counts = ends - narrow(offsets, -1, 0, ends.shape[-1])
    segments = counts.shape[-1]
    if not unsafe:
        require_elements(total(counts, -1), _WHOLE, Bad.OUTSIDE, n, n)
    places = positions(type(data.detach()), n, data.device)
    index = searchsorted(contiguous(ends), contiguous(expand(places, (*batch, n))), right=True)
    index = expand(reshape(index, (*batch, n, *(1,) * len(rest))), data.shape)
    join, identity = _JOINS[reduce]
    extreme = join in ("amax", "amin")
    start = identity if initial is None or extreme else initial
    own = data.detach().new_full((*batch, segments + 1, *rest), start)
    y = narrow(scatter_reduce_within(own, at, index, data, join, nans_share=True), at, 0, segments)
    if extreme and initial is not None:  # a tie's gradient is the data's
        y = where(y < initial if join == "amax" else y > initial, initial, y)
    if reduce != "mean":
        return y
    sizes: Any = to_dtype(counts if initial is None else clamp(counts, min=1), data.dtype)
    return y / reshape(sizes, (*batch, segments, *(1,) * len(rest)))
