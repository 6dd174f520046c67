"""Moments of the channels of blocked arrays, and sums of pointwise expressions over a channel.

A blocked array is a dense ``(n, c / b, h, w, b)``. What is computed of the moments and the sums is
pointwise, so that it can be fused with its neighbours (``pointwise_vectors``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import HostScalar, Launch, Scratch
from ...expr import Expr, flops, print_c
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..streaming import STREAM_BYTES, aligned

_LANES = (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),)

# Vectors of a part: the second pass over it should find it in a core's own cache.
_PART = 512
_MOST_PARTS = 512
# Vectors whose sum is made by itself: longer chains round more, which batch norms over few elements
# enlarge.
_RUN = 32


MOMENTS = Kernel("blocked_moments", "norm/blocked_norm.mako", _LANES)
STATISTICS = Kernel("blocked_statistics", "norm/blocked_norm.mako", _LANES)
SUMS = Kernel("blocked_sums", "norm/blocked_norm.mako", _LANES)
JOIN = Kernel("blocked_join", "norm/blocked_norm.mako", _LANES)


class _Parts(NamedTuple):
    """How the vectors of a group of channels are cut up."""

    groups: int
    pixels: int
    total: int
    size: int
    count: int

    def sizes(self) -> Named:
        """As arguments."""
        return by_name("groups pixels total part_size parts", *self)

    @staticmethod
    def of(x: Array) -> _Parts:
        n, groups, height, width, _ = x.shape
        total = n * height * width
        size = max(_PART, ceil_div(total, _MOST_PARTS))
        count = max(1, ceil_div(total, size))
        return _Parts(groups, height * width, total, max(1, ceil_div(total, count)), count)


def blocked_moments(
    statistics: tuple[Array, Array, Array], x: Array, *, eps: float
) -> list[Launch]:
    """Mean, ``1 / sqrt(variance + eps)`` and unbiased variance of each channel.

    Args:
        statistics: written, ``(c,)`` each.
        x: ``(n, c / b, h, w, b)``, float32, dense but for its steps over images and blocks.
        eps: added to the variance.

    Returns:
        Two launches: the parts and their joining; none for no channels.
    """
    if statistics[0].size == 0:
        return []
    parts, lanes = _Parts.of(x), x.shape[-1]
    memory = Scratch(x.device)
    shape = (parts.groups, parts.count, lanes)
    means, squares = (Array.scratch(memory, shape, float32) for _ in range(2))
    return [
        MOMENTS.launch(
            {"lanes": lanes, "run": _RUN},
            joined(
                parts.sizes(),
                by_name("means squares x", means, squares, x),
                by_name("image_step group_step", *x.strides[:2]),
            ),
            global_size=(parts.groups * parts.count,),
            flops=4 * x.size,
            bytes=x.nbytes + 2 * means.nbytes,
        ),
        STATISTICS.launch(
            {"lanes": lanes},
            joined(
                by_name("total part_size parts eps", *parts[2:], eps),
                by_name("mean invstd var means squares", *statistics, means, squares),
            ),
            global_size=(parts.groups,),
            flops=8 * means.size,
            bytes=2 * means.nbytes + 3 * statistics[0].nbytes,
        ),
    ]


def blocked_sums(
    sums: Sequence[Array],
    inputs: Sequence[Array],
    exprs: tuple[Expr, ...],
    *,
    scalars: Sequence[float | HostScalar] = (),
    made: Sequence[Array] = (),
) -> list[Launch]:
    """``sums[k] = sum of exprs[k](inputs, scalars)`` over images and pixels, for each channel.

    Args:
        sums: ``(c,)`` each.
        inputs: float32; blocked ones ``(n, c / b, h, w, b)``, dense but for their steps over images
            and blocks, at least one; and dense ``(c,)``, a value for each channel.
        exprs: an expression for each array of ``made``, then one for each sum.
        scalars: ``Scalar(i)`` of the expressions.
        made: arrays written in the same pass, blocked and dense.

    Returns:
        Two launches, the parts and their joining; none for no channels.
    """
    if sums[0].size == 0:
        return []
    streamed = aligned(made) and sum(a.nbytes for a in made) >= STREAM_BYTES
    x = next(a for a in inputs if a.ndim == 5)
    parts, lanes = _Parts.of(x), x.shape[-1]
    printed = print_c(
        exprs,
        f"float{lanes}",
        inputs=[f"v_{j}" for j in range(len(inputs))],
        scalars=[f"s_{j}" for j in range(len(scalars))],
    )
    blocked = tuple(a.ndim == 5 for a in inputs)
    steps = [array.strides[:2] for array in inputs if array.ndim == 5]
    params = joined(
        printed._asdict(),
        by_name("made stream lanes run", len(made), streamed, lanes, _RUN),
        by_name("inputs scalars", blocked, len(scalars)),
    )
    shape = (parts.groups, parts.count, len(sums), lanes)
    partial = Array.scratch(Scratch(x.device), shape, float32)
    return [
        SUMS.launch(
            params,
            joined(
                parts.sizes(),
                by_name("partial y_{k} x_{j}", partial, made, inputs),
                by_name("x_{j}_image", [image for image, _ in steps]),
                by_name("x_{j}_group s_{j}", [group for _, group in steps], scalars),
            ),
            global_size=(parts.groups * parts.count,),
            flops=x.size * (flops(*exprs) + len(sums)),
            bytes=sum(a.nbytes for a in (*inputs, *made, partial)),
        ),
        JOIN.launch(
            {"lanes": lanes, "sums": len(sums)},
            {"parts": parts.count, "sum_{k}": sums, "partial": partial},
            global_size=(parts.groups,),
            flops=partial.size,
            bytes=partial.nbytes + sum(s.nbytes for s in sums),
        ),
    ]
