"""Cross entropy of class scores (or log-probabilities) against target classes.

The loss of a target outside the classes, and what is made from it, is NaN, and nothing outside the
arrays is read; it is reported without waiting for the device.
"""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Check, Launch, Scratch, Target
from ...values.dtypes import from_name
from ...values.record import NamedTuple
from ..grid import filled, in_groups, lanes_of
from ..kernel import Kernel, Named, by_name, joined, nbytes_of
from ..reduce import Reduction, reduce
from .cross_entropy_mean import cross_entropy_mean
from .softmax import Lines


class Settings(NamedTuple):
    """What is computed.

    Attributes:
        reduction: ``"none"``, ``"sum"`` or ``"mean"`` (over the weights of the targets).
        ignore_index: the target that counts nothing.
        label_smoothing: share of the loss that is spread over all classes, in [0, 1].
        normalize: ``x`` are scores; otherwise they are logarithms of probabilities already.
    """

    reduction: str
    ignore_index: int
    label_smoothing: float
    normalize: bool


_TEMPLATE = "softmax/cross_entropy.mako"
ROWS = Kernel("cross_entropy_rows", _TEMPLATE)
COLUMNS = Kernel("cross_entropy_columns", _TEMPLATE)
GROUP = Kernel("cross_entropy_group", _TEMPLATE)

# More losses than this are summed by the whole device first.
_MEAN_MOST = 1 << 14
EXP_FLOPS = 10


def cross_entropy(
    target: Target,
    out: Array,
    lse: Array | None,
    total: Array | None,
    x: Array,
    targets: Array,
    weight: Array | None,
    *,
    settings: Settings,
    check: Check | None = None,
) -> list[Launch]:
    """Losses, or their sum or mean.

    Args:
        target: the device's traits and the scratch memory allowed.
        out: dense; for reduction none of ``targets``' shape, else one element.
        lse: dense, 2 times ``targets``' shape: the largest scores, and the logarithms of the sums
            of exponentials less them, for the gradient; None unless ``settings.normalize``.
        total: one element, for the mean: the sum of the targets' weights; else None.
        x: dense ``(n, c, ...)``, or ``(c,)``: floating; on GPUs with room between rows ``(n, c)``,
            and where work-items run in groups of 16 bits, too, if all else is float32.
        targets: dense int64 ``(n, ...)``, or one element.
        weight: dense ``(c,)`` or None.
        settings: what to compute.
        check: what a target outside the classes is reported as; None: it is not reported.
    """
    memory = Scratch(x.device)
    none = settings.reduction == "none"
    wide = from_name(x.dtype.compute)
    loss = out if none else Array.scratch(memory, targets.shape, wide)
    counted = Array.scratch(memory, targets.shape, wide)
    arrays = (loss, lse, counted, x, targets, weight)
    launches = []
    if targets.size:
        launches.append(_forward(target, arrays, settings, check=check))
    every = tuple(range(targets.ndim))
    if settings.reduction == "sum":
        launches += reduce(target, out, loss, dims=every, kind=Reduction.SUM, memory=memory)
    elif settings.reduction == "mean" and total is not None:
        if targets.size > _MEAN_MOST:
            sums = [Array.scratch(memory, (), wide) for _ in range(2)]
            for one, many in zip(sums, (loss, counted), strict=True):
                launches += reduce(target, one, many, dims=every, kind=Reduction.SUM, memory=memory)
            loss, counted = sums
        launches.append(cross_entropy_mean(target, out, total, loss, counted))
    return launches


def loss_params(settings: Settings, x: Array, weight: Array | None) -> Named:
    """The parameters that the loss and its gradient have."""
    return joined(
        by_name("normalize smooth", settings.normalize, settings.label_smoothing != 0),
        by_name("weighted", weight is not None),
        by_name("ctype acc", *[from_name(x.dtype.compute).ctype] * 2),
    )


def lines_of(target: Target, *arrays: Array) -> Lines:
    """The classes of each loss, in rows that may lie apart where groups read them."""
    x, apart = arrays[0], in_groups(target.traits) and arrays[0].ndim == 2
    for array in arrays:
        if not apart or array.strides[1] != 1 or array.strides[0] < array.shape[1]:
            Lines.of("cross_entropy", array, min(1, x.ndim - 1))
    return (
        Lines(x.shape[0], x.shape[1], 1)
        if apart
        else Lines.of("cross_entropy", x, min(1, x.ndim - 1))
    )


def outer_step(x: Array, lines: Lines) -> int:
    """Elements from the classes of one outer item to those of the next."""
    return lines.n * lines.inner if x.contiguous else x.strides[0]


def numbers_of(settings: Settings, lines: Lines) -> Named:
    """The numbers among the arguments that both have."""
    return by_name("n ignored smoothing", lines.n, settings.ignore_index, settings.label_smoothing)


def _forward(
    target: Target, arrays: tuple[Any, ...], settings: Settings, *, check: Check | None
) -> Launch:
    *_, x, _, weight = arrays
    lines = lines_of(target, x)
    acc = from_name(x.dtype.compute)
    params = joined(loss_params(settings, x, weight), by_name("check", check is not None))
    args = joined(
        numbers_of(settings, lines), by_name("loss lse counted x targets weight", *arrays)
    )
    flops = x.size * (2 + EXP_FLOPS * settings.normalize)
    cost = {"flops": flops, "bytes": nbytes_of(arrays)}
    if not in_groups(target.traits):
        lanes = filled(lanes_of(target, acc.itemsize), lines.n if lines.inner == 1 else lines.inner)
        params = joined(params, by_name("lanes", lanes))
        if lines.inner > 1:
            args = joined(by_name("rows", lines.count), args)
            return lines.by_columns(lanes, COLUMNS, params, args, **cost).reporting(check)
        return lines.by_rows(target, ROWS, params, args, **cost).reporting(check)
    params = joined(params, by_name("x_type", x.dtype.stored))
    places = by_name("rows inner x_outer", lines.count, lines.inner, outer_step(x, lines))
    args = joined(places, args)
    shape = lines.group_shape(target)
    return lines.by_groups(shape, GROUP, params, args, **cost).reporting(check)
