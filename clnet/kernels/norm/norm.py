"""Batch normalisation: statistics of channels, the normalisation, and its gradients.

The statistics are those of any ``(n, channels, inner)`` view; the normalisation itself is a
pointwise expression, so that other norms can share the first and write the second.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ...errors import ArgumentError
from ...expr import Expr, Input, Scalar
from ...values.dtypes import DType, from_name
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups, lanes_of
from ..kernel import Kernel, by_name, joined, nbytes_of
from ..pointwise import pointwise
from .norm_columns import columns_fit, moments, slopes
from .norm_groups import norm_groups, whole_groups
from .norm_in_registers import part_fits, runs
from .norm_parts_group import parts_by_groups
from .running import Statistics, track_of, written

PARTS = Kernel("norm_parts", "norm/norm.mako")
STATISTICS = Kernel("norm_statistics", "norm/norm.mako")
SLOPES = Kernel("norm_slopes", "norm/norm.mako")
GROUP_SLOPES = Kernel("norm_group_slopes", "norm/norm.mako")

# Elements of a part: the second pass over it should find it in a core's own cache.
_PART = 8192
_MOST_PARTS = 256
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

    def parts(self) -> int:
        """Into how many parts a channel is cut; a channel without elements has one."""
        return max(1, ceil_div(self.total, self.part_size()))


def batch_norm(
    target: Target,
    y: Array,
    statistics: Statistics,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    *,
    eps: float,
) -> list[Launch]:
    """``y = (x - mean) * invstd * weight + bias`` by the statistics of ``x`` itself.

    Args:
        target: the device's traits and the scratch memory allowed.
        y: dense, ``x``'s shape and dtype.
        statistics: written, ``(c,)`` each, of ``x``'s compute dtype: the mean, ``1 / sqrt(variance
            + eps)``, and the unbiased variance (NaN for one element a channel), or instead of it
            running statistics.
        x: dense ``(n, c, ...)``, floating.
        weight: ``(c,)`` or None.
        bias: ``(c,)`` or None.
        eps: added to the variance.

    Returns:
        The launches: parts of the statistics, their joining, the normalisation.

    Raises:
        ArgumentError: if ``x`` is not dense.
    """
    channels = Channels.of(x)
    if channels.count == 0:
        return []
    launches = _statistics(target, channels, statistics, x, eps)
    mean, invstd, _ = statistics
    inputs = [x, *(spread(a, x) for a in (mean, invstd, weight, bias) if a is not None)]
    expr = normalized(weighted=weight is not None, biased=bias is not None)
    return launches + pointwise(target, [y], inputs, (expr,), compute=from_name(x.dtype.compute))


def batch_norm_statistics(
    target: Target, statistics: tuple[Array, Array, Array], x: Array, *, eps: float
) -> list[Launch]:
    """The statistics of :func:`batch_norm` alone: the launches of their parts and their joining.

    Raises:
        ArgumentError: if ``x`` is not dense.
    """
    channels = Channels.of(x)
    return _statistics(target, channels, statistics, x, eps) if channels.count else []


def group_norm(
    target: Target,
    y: Array,
    statistics: tuple[Array, Array, Array],
    x: Array,
    weight: Array | None,
    bias: Array | None,
    *,
    eps: float,
) -> list[Launch]:
    """``y = (x - mean) * invstd * weight + bias`` by the statistics of each group.

    As :func:`batch_norm`, of ``x`` ``(n, groups, members, inner)``: statistics are ``(n *
    groups,)`` each, weight and bias ``(groups, members)``.
    """
    if x.size == 0:
        return []
    if whole_groups(target.traits, x.shape):
        return norm_groups(target, y, statistics, x, weight, bias, eps=eps)
    n, groups, members, inner = x.shape
    launches = _statistics(target, Channels(1, n * groups, members * inner), statistics, x, eps)
    inputs = [x, *(a.view((n, groups, 1, 1), (groups, 1, 1, 1)) for a in statistics[:2])]
    inputs += [
        a.view((1, *a.shape, 1), (0, *a.strides, 1)) for a in (weight, bias) if a is not None
    ]
    expr = normalized(weighted=weight is not None, biased=bias is not None)
    return launches + pointwise(target, [y], inputs, (expr,), compute=from_name(x.dtype.compute))


def group_norm_sums(
    target: Target,
    written: tuple[Array, Array, Array, Array],
    gy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
) -> list[Launch]:
    """The sums that gradients of :func:`group_norm` need, in one pass over ``gy`` and ``x``.

    Args:
        target: the device's traits and the scratch memory allowed.
        written: gradients of weight and bias, ``(groups, members)``; of each group the sums of
            ``gy weight (x - mean) invstd`` and of ``gy weight``, ``(n * groups,)``.
        gy: dense, ``x``'s shape.
        x: as the normalisation had it.
        mean: what it found.
        invstd: what it found.
        weight: dense, or None.
    """
    n, groups, members, inner = x.shape
    channels, acc, memory = Channels(1, n * groups * members, inner), mean.dtype, Scratch(x.device)
    parts = channels.parts()
    partial = tuple(Array.scratch(memory, (channels.count, parts), acc) for _ in range(2))
    centres = Array.scratch(memory, (n * groups, members), acc)
    each = mean.view((n * groups, members), (1, 0))
    group = min(_CHANNEL_GROUP, target.traits.max_group_size)
    weights = {} if weight is None else {"weight": weight}
    return [
        *pointwise(target, [centres], [each], (Input(0),), compute=acc),
        _parts(target, channels, _sums(partial), (x, gy, centres), acc),
        GROUP_SLOPES.launch(
            {"acc": acc.ctype, "weighted": weight is not None},
            joined(
                by_name("n groups members parts", n, groups, members, parts),
                by_name("gweight gbias scaled level", *written),
                by_name("sums products invstd", *partial, invstd),
                weights,
            ),
            global_size=(round_up(n * groups + groups * members, group),),
            local_size=(group,),
            flops=6 * partial[0].size,
            bytes=4 * partial[0].nbytes + 3 * invstd.nbytes + 3 * written[0].nbytes,
        ),
    ]


def batch_norm_grad(
    target: Target,
    gx: Array | None,
    gweight: Array,
    gbias: Array,
    gy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
) -> list[Launch]:
    """Gradients of :func:`batch_norm`.

    Args:
        target: the device's traits and the scratch memory allowed.
        gx: dense, ``x``'s shape; None when it is not wanted.
        gweight: ``(c,)``.
        gbias: ``(c,)``.
        gy: dense, ``x``'s shape.
        x: as the normalisation had it.
        mean: ``(c,)``: what it found.
        invstd: ``(c,)``: what it found.
        weight: as the normalisation had it.

    Raises:
        ArgumentError: if ``x`` is not dense.
    """
    channels = Channels.of(x)
    if channels.count == 0:
        return []
    launches = _slopes(target, channels, (gweight, gbias), gy, x, mean, invstd)
    if gx is None:
        return launches
    per_channel = [a for a in (mean, invstd, gweight, gbias, weight) if a is not None]
    inputs = [gy, x, *(spread(a, x) for a in per_channel)]
    share, acc = 1 / max(channels.total, 1), from_name(x.dtype.compute)
    expr = slope(weighted=weight is not None)
    return launches + pointwise(target, [gx], inputs, (expr,), scalars=(share,), compute=acc)


def _slopes(
    target: Target,
    channels: Channels,
    written: tuple[Array, Array],
    gy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
) -> list[Launch]:
    """The gradients of weight and bias, ``written``."""
    gweight, gbias = written
    if channels.inner == 1 and columns_fit(target, (rows := _rows(x), _rows(gy))):
        return slopes(target, gweight, gbias, _rows(gy), rows, mean, invstd)
    acc, inputs = from_name(x.dtype.compute), (x, gy, mean)
    if _is_whole(target, channels, inputs):
        whole = {"gweight": gweight, "gbias": gbias, "invstd": invstd}
        return [_parts(target, channels, whole, inputs, acc)]
    memory = Scratch(x.device)
    parts = channels.parts()
    partial = tuple(Array.scratch(memory, (channels.count, parts), acc) for _ in range(2))
    group = min(_CHANNEL_GROUP, target.traits.max_group_size)
    return [
        _parts(target, channels, _sums(partial), inputs, acc),
        SLOPES.launch(
            {"acc": acc.ctype},
            joined(
                by_name("channels parts gweight gbias", channels.count, parts, gweight, gbias),
                by_name("sums products invstd", *partial, invstd),
            ),
            global_size=(round_up(channels.count, group),),
            local_size=(group,),
            flops=2 * partial[0].size,
            bytes=2 * partial[0].nbytes + 3 * invstd.nbytes,
        ),
    ]


def _statistics(
    target: Target,
    channels: Channels,
    statistics: Statistics,
    x: Array,
    eps: float,
) -> list[Launch]:
    """Mean, ``1 / sqrt(variance + eps)`` and unbiased variance of each channel."""
    if channels.inner == 1 and columns_fit(target, (_rows(x),)):
        return moments(target, statistics, _rows(x), eps=eps)
    acc, track, finish = from_name(x.dtype.compute), track_of(statistics), written(statistics)
    if _is_whole(target, channels, (x,)):
        return [_parts(target, channels, {"eps": eps, **finish}, (x,), acc, track)]
    parts, memory = channels.parts(), Scratch(x.device)
    means, squares = (Array.scratch(memory, (channels.count, parts), acc) for _ in range(2))
    group = min(_CHANNEL_GROUP, target.traits.max_group_size)
    sizes = (channels.count, channels.total, channels.part_size(), parts, eps)
    return [
        _parts(target, channels, _sums((means, squares)), (x,), acc),
        STATISTICS.launch(
            {"acc": acc.ctype, "track": track},
            joined(
                by_name("channels total part_size parts eps", *sizes),
                finish,
                by_name("means squares", means, squares),
            ),
            global_size=(round_up(channels.count, group),),
            local_size=(group,),
            flops=8 * means.size,
            bytes=2 * means.nbytes + nbytes_of(a for a in finish.values() if isinstance(a, Array)),
        ),
    ]


def _is_whole(target: Target, channels: Channels, inputs: tuple[Array, ...]) -> bool:
    """Whether whoever sums the only part of a channel finishes it, too: a launch less."""
    if channels.parts() > 1:
        return False
    fits = channels.inner > 1 and part_fits(target.traits, channels.part_size(), inputs)
    return fits if in_groups(target.traits) else True


def _rows(x: Array) -> Array:
    """An array of single values for each channel, as rows of channels."""
    return x.view(x.shape[:2], x.strides[:2])


def spread(channels: Array, x: Array) -> Array:
    """A value for each channel, in the axes of ``x``."""
    ones = (1,) * (x.ndim - 2)
    return channels.view((1, channels.size, *ones), (0, channels.strides[0], *ones))


@cache
def normalized(*, weighted: bool, biased: bool) -> Expr:
    """``y`` from x, mean, invstd and, where they are, weight and bias."""
    x, mean, scale = Input(0), Input(1), Input(2)
    if weighted:
        scale = scale * Input(3)
    y = (x - mean) * scale
    return y + Input(3 + weighted) if biased else y


@cache
def slope(*, weighted: bool) -> Expr:
    """``gx`` from gy, x, mean, invstd, gweight, gbias and weight, if it is; 1 / count a scalar."""
    gy, x, mean, invstd, gweight, gbias = (Input(i) for i in range(6))
    share = Scalar(0)
    scale = invstd * Input(6) if weighted else invstd
    return scale * (gy - gbias * share - (x - mean) * (invstd * (gweight * share)))


def _sums(of_parts: tuple[Array, ...]) -> dict[str, Any]:
    """Where the two sums of parts go."""
    return dict(zip(("first", "second"), of_parts, strict=True))


def _parts(
    target: Target,
    channels: Channels,
    finish: dict[str, Any],
    inputs: tuple[Array, ...],
    acc: DType,
    track: str = "",
) -> Launch:
    """Two sums of every part of every channel: of ``x``, or of ``x``, ``gy`` and the mean.

    Args:
        target: the device's traits and the scratch memory allowed.
        channels: as ``x`` lies.
        finish: arguments by name: ``first`` and ``second``, where the sums go; or, if channels are
            whole, what :data:`STATISTICS` or :data:`SLOPES` would make of them, and what they need.
        inputs: as above.
        acc: the sums' dtype.
        track: what the statistics of whole channels are stored in, as :mod:`.running` says.
    """
    x = inputs[0]
    columns = channels.inner == 1
    part_size = channels.part_size()
    parts = channels.parts()
    whole = "first" not in finish
    args: dict[str, Any] = {
        "channels": channels.count,
        "inner": channels.inner,
        "total": channels.total,
        "part_size": part_size,
        "parts": parts,
        **finish,
        **dict(zip(("x", "gy", "mean"), inputs, strict=False)),
    }
    if in_groups(target.traits) and not columns and part_fits(target.traits, part_size, inputs):
        return runs(target.traits, args, whole=whole, track=track)
    if in_groups(target.traits):
        return parts_by_groups(target.traits, args, columns=columns)
    lanes = lanes_of(target, acc.itemsize)
    items = ceil_div(channels.count, lanes) if columns else channels.count
    of_arrays = by_name("grad ctype acc", len(inputs) > 1, x.dtype.stored, acc.ctype)
    return PARTS.launch(
        joined(of_arrays, by_name("columns lanes whole track", columns, lanes, whole, track)),
        args,
        global_size=(items * parts,),
        flops=4 * x.size,
        bytes=nbytes_of(a for a in args.values() if isinstance(a, Array)),
    )
