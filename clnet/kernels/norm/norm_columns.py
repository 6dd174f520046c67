"""Statistics of channels that lie side by side, on devices whose items run together."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import bfloat16, float16, float32
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups
from ..kernel import Kernel, Named, by_name, joined
from .running import Statistics, track_of, written

COLUMNS = Kernel("norm_columns", "norm/norm_columns.mako")
JOIN = Kernel("norm_columns_join", "norm/norm_columns.mako")
_GROUP = 256
_ACROSS = 16  # 128 bytes of 16-bit channels
_WIDTH = 4
_ROWS = 8  # of a read; the template has the same
_GROUPS_PER_UNIT = 8
_SHARE = 32


def columns_fit(target: Target, inputs: Sequence[Array]) -> bool:
    """Whether items can read four neighbours at once.

    Args:
        target: the device.
        inputs: ``x``, or ``x`` and ``gy``, dense ``(total, channels)``.
    """
    x = inputs[0]
    known = all(a.dtype in (float32, float16, bfloat16) for a in inputs)
    alike = all(a.dtype is x.dtype for a in inputs)
    whole = x.shape[1] % _WIDTH == 0 and all(a.offset % _WIDTH == 0 for a in inputs)
    return in_groups(target.traits) and known and alike and whole and x.size > 0


def moments(target: Target, statistics: Statistics, x: Array, *, eps: float) -> list[Launch]:
    """Mean, ``1 / sqrt(variance + eps)`` and unbiased variance of each column.

    Args:
        target: the device; :func:`columns_fit`.
        statistics: written, float32; instead of the variance may be running statistics.
        x: dense ``(total, channels)``.
        eps: added to the variance.
    """
    launch, numbers, partial = _parts(target, (x,), None)
    args, track = joined(numbers, {"eps": eps, **written(statistics)}), track_of(statistics)
    return [launch, _join(target, x.shape[1], partial, args, grad=False, track=track)]


def slopes(
    target: Target,
    gweight: Array,
    gbias: Array,
    gy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
) -> list[Launch]:
    """The sums of a batch norm's gradient over each column; arguments as ``batch_norm_grad``'s."""
    launch, numbers, partial = _parts(target, (x, gy), mean)
    args = joined(numbers, by_name("gweight gbias invstd", gweight, gbias, invstd))
    return [launch, _join(target, x.shape[1], partial, args, grad=True)]


def _parts(
    target: Target, inputs: Sequence[Array], mean: Array | None
) -> tuple[Launch, Named, Named]:
    """The launch that sums parts, and what the one that joins them is given."""
    x = inputs[0]
    total, channels = x.shape
    group = min(_GROUP, target.traits.max_group_size)
    quads = channels // _WIDTH
    across = min(_ACROSS, group, 1 << (quads - 1).bit_length())
    blocks = ceil_div(quads, across)
    wanted = max(1, _GROUPS_PER_UNIT * target.traits.compute_units // blocks)
    part_size = round_up(ceil_div(total, wanted), group // across * _ROWS)
    parts = ceil_div(total, part_size)
    memory = Scratch(x.device)
    first, second = (Array.scratch(memory, (channels, parts), float32) for _ in range(2))
    numbers = by_name("channels total part_size parts", channels, total, part_size, parts)
    partial = by_name("first second", first, second)
    grad = mean is not None
    names = "x gy mean" if grad else "x"
    launch = COLUMNS.launch(
        by_name("grad ctype group across", grad, x.dtype.stored, group, across),
        joined(numbers, partial, by_name(names, *inputs, *([mean] if grad else []))),
        global_size=(blocks * parts * group,),
        local_size=(group,),
        flops=4 * x.size,
        bytes=sum(a.nbytes for a in (*inputs, first, second)),
    )
    return launch, numbers, partial


def _join(
    target: Target, channels: int, partial: Named, args: Named, *, grad: bool, track: str = ""
) -> Launch:
    group = min(_GROUP, target.traits.max_group_size)
    share = min(_SHARE, group)
    first = partial[1][0]
    return JOIN.launch(
        by_name("grad track group share", grad, track, group, share),
        joined(args, partial),
        global_size=(ceil_div(channels, group // share) * group,),
        local_size=(group,),
        flops=8 * first.size,
        bytes=2 * first.nbytes,
    )
