"""Batch normalisation: statistics of channels, the normalisation, and its gradients.

The statistics are those of the rows of any ``(n, channels, inner)`` view; the normalisation itself is
a pointwise expression, so that other norms can share the first and write the second.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..array import Array
from ..device import HostScalar, Launch, Scratch, Target
from ..dtypes import DType, from_name
from ..errors import ArgumentError
from ..expr import Expr, Input, Scalar, sqrt
from ..shapes import ceil_div, round_up
from .kernel import Kernel
from .pointwise import pointwise
from .reduce import lanes_of


class PartsParams(NamedTuple):
    """Parameters of ``norm_parts``; the template's header says what they are."""

    columns: bool
    grad: bool
    ctype: str
    acc: str
    lanes: int


class PartsGroupParams(NamedTuple):
    """Parameters of ``norm_parts_group``."""

    columns: bool
    grad: bool
    ctype: str
    acc: str
    group: int
    reduce_items: int


class StatisticsParams(NamedTuple):
    """Parameters of ``norm_statistics``."""

    running: bool
    acc: str


class SlopesParams(NamedTuple):
    """Parameters of ``norm_slopes``."""

    acc: str


PARTS = Kernel("norm_parts", "norm.mako")
PARTS_GROUP = Kernel("norm_parts_group", "norm.mako")
STATISTICS = Kernel("norm_statistics", "norm.mako")
SLOPES = Kernel("norm_slopes", "norm.mako")

# Elements of a part: the second pass over it should find it in a core's own cache (32 KiB of float32).
_PART = 8192
_MOST_PARTS = 256
_GROUP = 256
_CHANNEL_GROUP = 64


class Channels(NamedTuple):
    """A dense array as ``(n, channels, inner)``."""

    n: int
    count: int
    inner: int

    @staticmethod
    def of(x: Array) -> Channels:
        """The channels of ``x``, axis 1.

        Raises:
            ArgumentError: if ``x`` is not dense.
        """
        if not x.contiguous:
            raise ArgumentError("norm", "arrays are dense", shape=x.shape, strides=x.strides)
        return Channels(x.shape[0], x.shape[1], prod(x.shape[2:]))

    @property
    def total(self) -> int:
        """Elements of a channel."""
        return self.n * self.inner

    def part_size(self) -> int:
        """Elements of a part."""
        if self.inner == 1:  # many channels side by side: fewer rows fill the cache
            return max(_PART // max(self.count, 16), ceil_div(self.total, _MOST_PARTS), 32)
        return max(_PART, ceil_div(self.total, _MOST_PARTS))


def batch_norm(
    target: Target,
    y: Array,
    mean: Array,
    invstd: Array,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running: tuple[Array, Array] | None,
    *,
    momentum: float | HostScalar,
    eps: float,
) -> list[Launch]:
    """``y = (x - mean) * invstd * weight + bias`` by the statistics of ``x`` itself.

    Args:
        target: the device's traits and the scratch memory allowed.
        y: dense, ``x``'s shape and dtype.
        mean, invstd: ``(c,)``, of ``x``'s compute dtype: kept for the gradient.
        x: dense ``(n, c, ...)``, floating, at least one element a channel.
        weight, bias: dense ``(c,)`` or None.
        running: the running mean and (unbiased) variance, updated in place, or None.
        momentum: share of the new statistics in the running ones.
        eps: added to the variance.

    Returns:
        The launches: parts of the statistics, their joining, the normalisation.
    """
    channels = Channels.of(x)
    part_size = channels.part_size()
    parts = ceil_div(channels.total, part_size)
    acc = from_name(x.dtype.compute)
    memory = Scratch(x.device)
    means, squares = (Array.scratch(memory, (channels.count, parts), acc) for _ in range(2))
    numbers = (eps,) if running is None else (eps, momentum)
    group = min(_CHANNEL_GROUP, target.traits.max_group_size)
    return [
        _parts(target, channels, (means, squares), (x,), acc),
        STATISTICS.launch(
            StatisticsParams(running is not None, acc.ctype),
            (
                channels.count,
                channels.total,
                part_size,
                parts,
                *numbers,
                mean,
                invstd,
                *(running or ()),
                means,
                squares,
            ),
            global_size=(round_up(channels.count, group),),
            local_size=(group,),
            flops=8 * channels.count * parts,
            bytes=2 * means.nbytes + (2 if running is None else 6) * mean.nbytes,
        ),
        *_normalize(target, y, x, mean, invstd, weight, bias, None),
    ]


def batch_norm_eval(
    target: Target,
    y: Array,
    x: Array,
    mean: Array,
    var: Array,
    weight: Array | None,
    bias: Array | None,
    *,
    eps: float,
) -> list[Launch]:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` by given statistics, in one launch."""
    return _normalize(target, y, x, mean, var, weight, bias, eps)


def batch_norm_grad(
    target: Target,
    gx: Array | None,
    gweight: Array | None,
    gbias: Array | None,
    gy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
    *,
    training: bool,
) -> list[Launch]:
    """Gradients of :func:`batch_norm`, or of it with given statistics.

    Args:
        target: the device's traits and the scratch memory allowed.
        gx: dense, ``x``'s shape; None when it is not wanted.
        gweight, gbias: ``(c,)``; None when they are not wanted.
        gy: dense, ``x``'s shape.
        x, weight: as the normalisation had them.
        mean, invstd: ``(c,)``: what ``x`` was normalised with.
        training: the statistics are those of ``x``, and change with it.

    Returns:
        The launches.
    """
    channels = Channels.of(x)
    acc = from_name(x.dtype.compute)
    launches = []
    memory = Scratch(x.device)
    if training or gweight is not None or gbias is not None:
        parts = ceil_div(channels.total, channels.part_size())
        partial = tuple(Array.scratch(memory, (channels.count, parts), acc) for _ in range(2))
        gweight = gweight or Array.scratch(memory, (channels.count,), acc)
        gbias = gbias or Array.scratch(memory, (channels.count,), acc)
        group = min(_CHANNEL_GROUP, target.traits.max_group_size)
        launches += [
            _parts(target, channels, partial, (x, gy, mean), acc),
            SLOPES.launch(
                SlopesParams(acc.ctype),
                (channels.count, parts, gweight, gbias, *partial, invstd),
                global_size=(round_up(channels.count, group),),
                local_size=(group,),
                flops=2 * channels.count * parts,
                bytes=2 * partial[0].nbytes + 3 * invstd.nbytes,
            ),
        ]
    if gx is not None:
        inputs = [gy, x, *(_spread(a, x) for a in (mean, invstd))] if training else [gy, _spread(invstd, x)]
        if training:
            inputs += [_spread(a, x) for a in (gweight, gbias) if a is not None]
        if weight is not None:
            inputs.append(_spread(weight, x))
        expr = _slope(training=training, weighted=weight is not None)
        scalars = (1 / max(channels.total, 1),) if training else ()
        launches += pointwise(target, [gx], inputs, (expr,), scalars=scalars, compute=acc)
    return launches


def _normalize(
    target: Target,
    y: Array,
    x: Array,
    mean: Array,
    spread: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float | None,
) -> list[Launch]:
    """The pointwise half; ``spread`` is the variance when ``eps`` is given, else ``invstd``."""
    inputs = [x, *(_spread(a, x) for a in (mean, spread, weight, bias) if a is not None)]
    expr = _normalized(
        weighted=weight is not None, biased=bias is not None, variance=eps is not None
    )
    scalars = () if eps is None else (eps,)
    compute = from_name(x.dtype.compute)
    return pointwise(target, [y], inputs, (expr,), scalars=scalars, compute=compute)


def _spread(channels: Array, x: Array) -> Array:
    """A value for each channel, in the axes of ``x``."""
    ones = (1,) * (x.ndim - 2)
    return channels.view((1, channels.size, *ones), (0, channels.strides[0], *ones))


@lru_cache(maxsize=None)
def _normalized(*, weighted: bool, biased: bool, variance: bool) -> Expr:
    x, mean, spread = Input(0), Input(1), Input(2)
    scale = 1 / sqrt(spread + Scalar(0)) if variance else spread
    if weighted:
        scale = scale * Input(3)
    y = (x - mean) * scale
    return y + Input(3 + weighted) if biased else y


@lru_cache(maxsize=None)
def _slope(*, training: bool, weighted: bool) -> Expr:
    gy = Input(0)
    if not training:
        slope = gy * Input(1)
        return slope * Input(2) if weighted else slope
    x, mean, invstd, gweight, gbias = (Input(i) for i in range(1, 6))
    share = Scalar(0)
    scale = invstd * Input(6) if weighted else invstd
    return scale * (gy - gbias * share - (x - mean) * (invstd * (gweight * share)))


def _parts(
    target: Target,
    channels: Channels,
    outputs: tuple[Array, ...],
    inputs: tuple[Array, ...],
    acc: DType,
) -> Launch:
    """Two sums of every part of every channel: of ``x``, or of ``x``, ``gy`` and the mean."""
    x = inputs[0]
    grad = len(inputs) > 1
    columns = channels.inner == 1
    part_size = channels.part_size()
    parts = outputs[0].shape[1]
    args = (channels.count, channels.inner, channels.total, part_size, parts, *outputs, *inputs)
    cost = {"flops": 4 * x.size, "bytes": sum(a.nbytes for a in (*outputs, *inputs))}
    if target.traits.dedicated_local_memory:
        group = min(_GROUP, target.traits.max_group_size)
        kept = min(32, group) if columns else 1
        share = group // kept
        return PARTS_GROUP.launch(
            PartsGroupParams(columns, grad, x.dtype.ctype, acc.ctype, group, share),
            args,
            global_size=(ceil_div(channels.count, kept) * parts * group,),
            local_size=(group,),
            **cost,
        )
    lanes = lanes_of(target, acc.itemsize)
    items = ceil_div(channels.count, lanes) if columns else channels.count
    return PARTS.launch(
        PartsParams(columns, grad, x.dtype.ctype, acc.ctype, lanes),
        args,
        global_size=(items * parts,),
        local_size=(1,),
        **cost,
    )
