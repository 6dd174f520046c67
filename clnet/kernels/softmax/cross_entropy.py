"""Cross entropy of class scores (or log-probabilities) against target classes, and its gradient.

The loss of a target outside the classes, and what is made from it, is NaN, and nothing outside the
arrays is read; it is reported without waiting for the device.
"""

from __future__ import annotations

from typing import NamedTuple

from ...array import Array
from ...device import Check, Launch, Scratch, Target
from ...values.dtypes import from_name
from ...values.shapes import ceil_div
from ..grid import lanes_of
from ..kernel import Constraint, Kernel
from ..reduce import Reduction, reduce
from ..streaming import streams_rows
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


class RowsParams(NamedTuple):
    """Parameters of ``cross_entropy_rows``; the template's header says what they are."""

    normalize: bool
    weighted: bool
    smooth: bool
    ctype: str
    acc: str
    lanes: int
    check: bool


class GroupParams(NamedTuple):
    """Parameters of ``cross_entropy_group``."""

    normalize: bool
    weighted: bool
    smooth: bool
    ctype: str
    acc: str
    group: int
    reduce_items: int
    kept_fast: bool
    check: bool


class MeanParams(NamedTuple):
    """Parameters of ``cross_entropy_mean``."""

    ctype: str
    acc: str
    group: int


class GradRowsParams(NamedTuple):
    """Parameters of ``cross_entropy_grad_rows``."""

    normalize: bool
    weighted: bool
    smooth: bool
    reduction: str
    ctype: str
    acc: str
    lanes: int
    stream: bool


class GradGroupParams(NamedTuple):
    """Parameters of ``cross_entropy_grad_group``."""

    normalize: bool
    weighted: bool
    smooth: bool
    reduction: str
    ctype: str
    acc: str
    group: int
    reduce_items: int
    kept_fast: bool


_TEMPLATE = "softmax/cross_entropy.mako"
ROWS = Kernel("cross_entropy_rows", _TEMPLATE)
GROUP = Kernel("cross_entropy_group", _TEMPLATE)
MEAN = Kernel(
    "cross_entropy_mean", _TEMPLATE, (Constraint("group & (group - 1) == 0", "a binary tree"),)
)
GRAD_ROWS = Kernel("cross_entropy_grad_rows", _TEMPLATE)
GRAD_GROUP = Kernel("cross_entropy_grad_group", _TEMPLATE)

_MEAN_GROUP = 64
# More losses than this are summed by the whole device first.
_MEAN_MOST = 1 << 14
_GROUP = 64
_EXP_FLOPS = 10


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
        x: dense ``(n, c, ...)``, or ``(c,)``: floating.
        targets: dense int64 ``(n, ...)``, or one element.
        weight: dense ``(c,)`` or None.
        settings: what to compute.
        check: what a target outside the classes is reported as; None: it is not reported.

    Returns:
        The launches.
    """
    memory = Scratch(x.device)
    none = settings.reduction == "none"
    loss = out if none else Array.scratch(memory, targets.shape, x.dtype)
    counted = Array.scratch(memory, targets.shape, x.dtype)
    saved = () if lse is None else (lse,)
    arrays = (loss, *saved, counted, x, targets, *(() if weight is None else (weight,)))
    launches = []
    if targets.size:
        launches.append(
            _forward(target, x, arrays, settings, weighted=weight is not None, check=check)
        )
    every = tuple(range(targets.ndim))
    if settings.reduction == "sum":
        launches += reduce(target, out, loss, dims=every, kind=Reduction.SUM, memory=memory)
    elif settings.reduction == "mean" and total is not None:
        if targets.size > _MEAN_MOST:
            sums = [Array.scratch(memory, (), x.dtype) for _ in range(2)]
            for one, many in zip(sums, (loss, counted), strict=True):
                launches += reduce(target, one, many, dims=every, kind=Reduction.SUM, memory=memory)
            loss, counted = sums
        launches.append(_mean(target, out, total, loss, counted))
    return launches


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
    """The gradient of :func:`cross_entropy` with respect to ``x``, in one launch.

    Args:
        target: the device's traits and the scratch memory allowed.
        gx: dense, ``x``'s shape.
        gy: dense, the shape ``out`` had.
        lse: as :func:`cross_entropy` left it.
        total: as it left it.
        x: as it had it.
        targets: as it had them.
        weight: as it had it.
        settings: the same.

    Returns:
        One launch, none when there are no elements.
    """
    if gx.size == 0:
        return []
    lines = Lines.of("cross_entropy", x, min(1, x.ndim - 1))
    acc = from_name(x.dtype.compute)
    kept = [a for a in (lse, total, x, targets, weight) if a is not None]
    features = (settings.normalize, weight is not None, settings.label_smoothing != 0)
    numbers = (settings.ignore_index, settings.label_smoothing)
    flops = x.size * (4 + _EXP_FLOPS * settings.normalize)
    cost = {"flops": flops, "bytes": gx.nbytes + gy.nbytes + sum(a.nbytes for a in kept)}
    if lines.inner == 1 and not target.traits.dedicated_local_memory:
        per_item = lines.rows_per_item(target)
        lanes = lanes_of(target, acc.itemsize)
        streams = streams_rows(gx, lines.n, lanes)
        return [
            GRAD_ROWS.launch(
                GradRowsParams(
                    *features, settings.reduction, x.dtype.ctype, acc.ctype, lanes, streams
                ),
                (lines.outer, per_item, lines.n, *numbers, gx, gy, *kept),
                global_size=(ceil_div(lines.outer, per_item),),
                local_size=(1,),
                **cost,
            )
        ]
    share, items = _group_shape(target, lines)
    size = share * items
    shape = (size, share, lines.inner > 1)
    return [
        GRAD_GROUP.launch(
            GradGroupParams(*features, settings.reduction, x.dtype.ctype, acc.ctype, *shape),
            (lines.count, lines.inner, lines.n, *numbers, gx, gy, *kept),
            global_size=(ceil_div(lines.count, items) * size,),
            local_size=(size,),
            **cost,
        )
    ]


def _group_shape(target: Target, lines: Lines) -> tuple[int, int]:
    """Work-items that share one loss, and losses of a group."""
    if target.traits.dedicated_local_memory:
        return lines.group_shape(target)
    # Without work-items that run together a loss is one work-item's work, and no barrier waits.
    return 1, min(_GROUP, target.traits.max_group_size)


def _forward(
    target: Target,
    x: Array,
    arrays: tuple[Array, ...],
    settings: Settings,
    *,
    weighted: bool,
    check: Check | None,
) -> Launch:
    lines = Lines.of("cross_entropy", x, min(1, x.ndim - 1))
    acc = from_name(x.dtype.compute)
    types = (x.dtype.ctype, acc.ctype)
    features = (settings.normalize, weighted, settings.label_smoothing != 0)
    numbers = (settings.ignore_index, settings.label_smoothing)
    flops = x.size * (2 + _EXP_FLOPS * settings.normalize)
    cost = {"flops": flops, "bytes": sum(a.nbytes for a in arrays)}
    if lines.inner == 1 and not target.traits.dedicated_local_memory:
        per_item = lines.rows_per_item(target)
        return ROWS.launch(
            RowsParams(
                *features,
                *types,
                lanes_of(target, acc.itemsize),
                check is not None,
            ),
            (lines.outer, per_item, lines.n, *numbers, *arrays),
            global_size=(ceil_div(lines.outer, per_item),),
            local_size=(1,),
            **cost,
        ).reporting(check)
    share, items = _group_shape(target, lines)
    size = share * items
    return GROUP.launch(
        GroupParams(*features, *types, size, share, lines.inner > 1, check is not None),
        (lines.count, lines.inner, lines.n, *numbers, *arrays),
        global_size=(ceil_div(lines.count, items) * size,),
        local_size=(size,),
        **cost,
    ).reporting(check)


def _mean(target: Target, out: Array, total: Array, loss: Array, counted: Array) -> Launch:
    group = min(_MEAN_GROUP, target.traits.max_group_size)
    acc = from_name(loss.dtype.compute)
    return MEAN.launch(
        MeanParams(loss.dtype.ctype, acc.ctype, group),
        (loss.size, out, total, loss, counted),
        global_size=(group,),
        local_size=(group,),
        flops=2 * loss.size,
        bytes=2 * loss.nbytes,
    )
