"""The gradient of a cross entropy with respect to its scores."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import from_name
from ..grid import filled, in_groups, lanes_of
from ..kernel import Kernel, by_name, joined, nbytes_of
from ..streaming import LINE_BYTES, streams_rows
from .cross_entropy import EXP_FLOPS, Settings, lines_of, loss_params, numbers_of, outer_step

_TEMPLATE = "softmax/cross_entropy_grad.mako"
GRAD_ROWS = Kernel("cross_entropy_grad_rows", _TEMPLATE)
GRAD_COLUMNS = Kernel("cross_entropy_grad_columns", _TEMPLATE)
GRAD_GROUP = Kernel("cross_entropy_grad_group", _TEMPLATE)


def cross_entropy_grad(
    target: Target,
    gx: Array,
    gy: Array,
    lse: Array | None,
    total: Array | None,
    x: Array,
    targets: Array,
    weight: Array | None,
    *,
    settings: Settings,
) -> list[Launch]:
    """The gradient of :func:`.cross_entropy` with respect to ``x``, in one launch.

    ``gx`` is shaped as ``x``, and as dense, of its dtype or as wide as ``out``, ``gy`` as ``out``
    was; the rest is as that had or left it.
    """
    if gx.size == 0:
        return []
    lines = lines_of(target, x, gx)
    acc = from_name(x.dtype.compute)
    arrays = (gx, gy, lse, total, x, targets, weight)
    params = joined(loss_params(settings, x, weight), by_name("reduction", settings.reduction))
    args = joined(numbers_of(settings, lines), by_name("gx gy lse total x targets weight", *arrays))
    flops = x.size * (4 + EXP_FLOPS * settings.normalize)
    cost = {"flops": flops, "bytes": nbytes_of(arrays)}
    if not in_groups(target.traits):
        # Neighbouring lines by whole lines of the caches, of which each store would fetch a half.
        # Of doubles half a line: of a whole one PoCL 3.0's code generator does not come to an end.
        line = LINE_BYTES if acc.itemsize < 8 else LINE_BYTES // 2
        most = lanes_of(target, acc.itemsize) if lines.inner == 1 else line // acc.itemsize
        lanes = filled(most, lines.n if lines.inner == 1 else lines.inner)
        params = joined(params, by_name("lanes", lanes))
        if lines.inner > 1:
            args = joined(by_name("rows", lines.count), args)
            return [lines.by_columns(lanes, GRAD_COLUMNS, params, args, **cost)]
        params = joined(params, by_name("stream", streams_rows(gx, lines.n, lanes)))
        return [lines.by_rows(target, GRAD_ROWS, params, args, **cost)]
    params = joined(params, by_name("x_type gx_type", x.dtype.stored, gx.dtype.stored))
    places = by_name("x_outer gx_outer", outer_step(x, lines), outer_step(gx, lines))
    args = joined(by_name("rows inner", lines.count, lines.inner), places, args)
    return [lines.by_groups(lines.group_shape(target), GRAD_GROUP, params, args, **cost)]
