"""Images and volumes at the places of a grid, and the gradients to both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import prod
from typing import Any, NamedTuple

from ...array import Array
from ...device import Launch, Scratch, Target
from ...expr import Expr, print_c
from ...values.dtypes import int32
from ...values.shapes import ceil_div
from ..grid import in_groups, items
from ..index import sort, starts_of_runs
from ..kernel import Kernel
from .grid_sample_lanes import image_lanes, places_lanes, sample_lanes

_TEMPLATE = "pool/grid_sample.mako"
_SAMPLE = Kernel("grid_sample", _TEMPLATE)
_ROWS = Kernel("grid_sample_rows", _TEMPLATE)
_PLACES = Kernel("grid_sample_places", _TEMPLATE)
_IMAGE = Kernel("grid_sample_image", _TEMPLATE)
_STEP = 16  # channels for which an item works out where its place lies
_TILE = 4  # channels that an item adds up at once


class Taps(NamedTuple):
    """Which elements a place reads along an axis, and how much each counts.

    Attributes:
        exprs: of the coordinate and an axis' scalars, for each tap its index, its weight, and
            whether it is inside, as a number.
        slopes: for each tap the weight's derivative.
        scalars: of each axis, first to last.
    """

    exprs: tuple[Expr, ...]
    slopes: tuple[Expr, ...]
    scalars: tuple[tuple[float, ...], ...]

    @property
    def count(self) -> int:
        """Taps of a place."""
        return (len(self.exprs) // 3) ** len(self.scalars)


def grid_sample(target: Target, y: Array, x: Array, grid: Array, taps: Taps) -> list[Launch]:
    """``y[n, c, p]``: the image ``x[n, c]`` at the place ``grid[n, p]``.

    Args:
        target: what to choose sizes for.
        y: dense ``(n, c, ...)``, as many places as the grid has; float32 or float64.
        x: dense ``(n, c, h, w)`` or ``(n, c, d, h, w)``.
        grid: dense ``(n, ..., 2)`` or ``(n, ..., 3)``, the last axis' coordinate first.
        taps: of each axis.

    Returns:
        One launch; none for no elements.
    """
    if y.size == 0:
        return []
    n, channels = x.shape[:2]
    places = prod(y.shape[2:])
    args = {**_axes(grid, x.shape[2:], taps), "channels": channels}
    if not in_groups(target.traits):
        return [sample_lanes(target, y, x, _params(y, taps), args)]
    jobs = n * places * ceil_div(channels, _STEP)
    return [
        _SAMPLE.launch(
            _params(y, taps),
            {"jobs": jobs, **args, "step": _STEP, "y": y, "x": x},
            **items(target, jobs),
            flops=2 * taps.count * y.size,
            bytes=y.nbytes + x.nbytes + grid.nbytes,
        )
    ]


def grid_sample_image(
    target: Target, gx: Array, gy: Array, grid: Array, taps: Taps
) -> list[Launch]:
    """The gradient to the image: what each of its elements was read for, in a fixed order.

    Takes 24 bytes of scratch memory for each tap of each place where it sorts: on GPUs, and on
    CPUs with many more units than there are planes.

    Args:
        target: what to choose kernels for.
        gx: as ``x`` of :func:`grid_sample`; written whole.
        gy: as ``y``.
        grid: the same.
        taps: the same.
    """
    if gx.size == 0:
        return []
    n, channels, *sizes = gx.shape
    pixels, places = prod(sizes), prod(gy.shape[2:])
    of_axes = _axes(grid, sizes, taps)
    if not in_groups(target.traits):
        alone = image_lanes(target, gx, gy, _params(gx, taps), {**of_axes, "channels": channels})
        if alone is not None:
            return [alone]
    memory = Scratch(gx.device)
    read = (taps.count * n * places,)
    keys, order = (Array.scratch(memory, read, int32) for _ in range(2))
    weights = Array.scratch(memory, read, gx.dtype)
    args = {"jobs": n * places, **of_axes, "limit": n * pixels}
    launches: list[Launch] = []
    if n * places:
        launches.append(
            _ROWS.launch(
                _params(gx, taps),
                {**args, "keys": keys, "order": order, "weights": weights},
                **items(target, n * places),
                flops=0,
                bytes=grid.nbytes + keys.nbytes + order.nbytes + weights.nbytes,
            )
        )
    runs = sort(target, memory, keys, order, limit=n * pixels)
    starts, begun = starts_of_runs(target, memory, n * pixels, runs)
    blocks = ceil_div(channels, _TILE)
    jobs = n * pixels * blocks
    sizes_ = {"channels": channels, "blocks": blocks, "places": places, "pixels": pixels}
    arrays = {"gx": gx, "gy": gy, "starts": starts, "order": runs.order, "weights": weights}
    last = _IMAGE.launch(
        {"ctype": gx.dtype.ctype, "tile": _TILE},
        {"jobs": jobs, **sizes_, "count": max(n * places, 1), **arrays},
        **items(target, jobs),
        flops=2 * taps.count * gy.size,
        bytes=gx.nbytes + gy.nbytes + starts.nbytes + runs.order.nbytes + weights.nbytes,
    )
    return [*launches, *runs.launches, *begun, last]


def grid_sample_places(
    target: Target, gp: Array, gy: Array, x: Array, grid: Array, taps: Taps
) -> list[Launch]:
    """The gradient to the places, ``gp`` like the grid; the others as for :func:`grid_sample`."""
    n, channels = x.shape[:2]
    jobs = n * prod(gy.shape[2:])
    if jobs == 0:
        return []
    params = _params(gp, taps, taps.slopes)
    args = {**_axes(grid, x.shape[2:], taps), "channels": channels}
    if not in_groups(target.traits):
        return [places_lanes(target, gp, gy, x, params, args)]
    return [
        _PLACES.launch(
            params,
            {"jobs": jobs, **args, "gp": gp, "gy": gy, "x": x},
            **items(target, jobs),
            flops=2 * taps.count * gy.size,
            bytes=gp.nbytes + gy.nbytes + x.nbytes + grid.nbytes,
        )
    ]


def _params(like: Array, taps: Taps, slopes: tuple[Expr, ...] = ()) -> dict[str, Any]:
    count, dims = len(taps.exprs) // 3, len(taps.scalars)
    scalars = len(taps.scalars[0])
    names = [f"s_{j}" for j in range(scalars)]
    ctype = like.dtype.ctype
    printed = print_c((*taps.exprs, *slopes), ctype, inputs=["place"], scalars=names)
    return {
        "ctype": ctype,
        "statements": printed.statements,
        "results": printed.results,
        "taps": count,
        "dims": dims,
        "scalars": scalars,
        "combos": tuple(product(range(count), repeat=dims)),
    }


def _axes(grid: Array, sizes: Sequence[int], taps: Taps) -> dict[str, Any]:
    """Arguments of what reads the grid."""
    return {
        "places": prod(grid.shape[1:-1]),
        "size_{a}": tuple(sizes),
        "s_{a}_{j}": tuple(chain.from_iterable(taps.scalars)),
        "grid": grid,
    }
