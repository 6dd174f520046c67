"""Groups of channels on CPUs: an item normalises one, or makes its gradient, in one launch."""

from __future__ import annotations

from ...array import Array
from ...device import DeviceTraits, Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..grid import in_groups, items, jobs_per_item, lanes_of
from ..kernel import Kernel, Named, by_name, joined, nbytes_of
from ..streaming import streams_rows

GROUPS = Kernel("norm_groups", "norm/norm_groups.mako")
GRAD = Kernel("norm_groups_grad", "norm/norm_groups.mako")
JOIN = Kernel("norm_groups_join", "norm/norm_groups.mako")

# Elements that are summed before sums are joined: the second pass over them finds them in a cache.
_PART = 4096
# Fewer groups than a few for each core are cut up, unless one core has them sooner.
_GROUPS_PER_UNIT = 4
_SMALL = 1 << 15
_MOST_LANES = 16


def whole_groups(traits: DeviceTraits, shape: tuple[int, ...]) -> bool:
    """Whether an item takes a whole group.

    Args:
        traits: the device's.
        shape: ``(n, groups, members, inner)`` of what is normalised.
    """
    n, groups, members, inner = shape
    total = n * groups * members * inner
    shared = n * groups >= _GROUPS_PER_UNIT * traits.compute_units or total <= _SMALL
    vectors = inner == 1 or inner >= _MOST_LANES
    return not in_groups(traits) and shared and vectors and members * inner < 2**31 and total > 0


def norm_groups(
    target: Target,
    y: Array,
    statistics: tuple[Array, Array, Array],
    x: Array,
    weight: Array | None,
    bias: Array | None,
    *,
    eps: float,
) -> list[Launch]:
    """The launch of :func:`.norm.group_norm` where :func:`whole_groups` says so."""
    params = by_name("weighted biased", weight is not None, bias is not None)
    arrays = (y, *statistics, x, weight, bias)
    args = by_name("y mean invstd var x weight bias eps", *arrays, eps)
    return [_launch(GROUPS, target, y, params, args, flops=8, moved=nbytes_of(arrays))]


def groups_grad(
    target: Target,
    gx: Array,
    sums: tuple[Array, ...],
    gy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
) -> list[Launch]:
    """Gradients of a group norm where :func:`whole_groups` says so.

    Args:
        target: the device's traits and the scratch memory allowed.
        gx: dense, ``x``'s shape.
        sums: gradients of weight and bias, ``(groups, members)``, or nothing.
        gy: dense, ``x``'s shape.
        x: dense ``(n, groups, members, inner)``, float32 or float64.
        mean: ``(n * groups,)``: what the normalisation found.
        invstd: what it found.
        weight: dense ``(groups, members)``, or None.
    """
    n, groups, members, _ = x.shape
    memory = Scratch(x.device)
    partial = tuple(Array.scratch(memory, (n, groups * members), a.dtype) for a in sums)
    params = by_name("weighted summed", weight is not None, bool(sums))
    arrays = (gx, gy, x, mean, invstd, weight)
    args = joined(
        by_name("gx gy x mean invstd weight", *arrays),
        dict(zip(("sums", "products"), partial, strict=False)),
    )
    moved = nbytes_of((*arrays, *partial))
    launches = [_launch(GRAD, target, gx, params, args, flops=16, moved=moved)]
    if not sums:
        return launches
    channels = groups * members
    join = JOIN.launch(
        {"ctype": x.dtype.ctype},
        joined(
            by_name("n channels gweight gbias", n, channels, *sums),
            by_name("sums products", *partial),
        ),
        **items(target, channels),
        flops=2 * n * channels,
        bytes=nbytes_of((*sums, *partial)),
    )
    return [*launches, join]


def _launch(
    kernel: Kernel,
    target: Target,
    out: Array,
    params: Named,
    args: Named,
    *,
    flops: int,
    moved: int,
) -> Launch:
    n, groups, members, inner = out.shape
    count, flat, lanes = n * groups, inner == 1, lanes_of(target, out.dtype.itemsize)
    per_item = jobs_per_item(target, count, out.size)
    stream = streams_rows(out, members if flat else inner, lanes)
    sizes = (count, per_item, groups, members, inner, _PART)
    return kernel.launch(
        joined(params, by_name("flat ctype lanes stream", flat, out.dtype.ctype, lanes, stream)),
        joined(by_name("count per_item groups members inner part_size", *sizes), args),
        global_size=(ceil_div(count, per_item),),
        flops=flops * out.size,
        bytes=moved,
    )
