"""Images and volumes at the places of a grid, and the gradients, by items that have vectors."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import jobs_per_item
from ..kernel import Kernel

_TEMPLATE = "pool/grid_sample_lanes.mako"
_SAMPLE = Kernel("grid_sample_lanes", _TEMPLATE)
_IMAGE = Kernel("grid_sample_lanes_image", _TEMPLATE)
_PLACES = Kernel("grid_sample_lanes_places", _TEMPLATE)
_LANES = 64  # places that are worked out at a time: kept in the first cache
_STEP = 16  # channels for which places are worked out once, at least
# An item adds up what a plane's elements were read for. So many units to a plane are left without
# work before a sort by elements, which all share, is faster: 4,096 places of one channel took it
# 0.02 core milliseconds, and the sort 0.3.
_IDLE = 16


def sample_lanes(
    target: Target, y: Array, x: Array, params: dict[str, Any], args: dict[str, Any]
) -> Launch:
    """The launch of :func:`.grid_sample.grid_sample`, with its parameters and sizes."""
    n, channels = x.shape[:2]
    step = min(channels, _STEP)
    jobs = n * ceil_div(prod(y.shape[2:]), _LANES) * ceil_div(channels, step)
    return _launch(target, _SAMPLE, jobs, y.size, params, {**args, "step": step, "y": y, "x": x})


def image_lanes(
    target: Target, gx: Array, gy: Array, params: dict[str, Any], args: dict[str, Any]
) -> Launch | None:
    """The launch of :func:`.grid_sample.grid_sample_image`; None if units would have no planes."""
    n, channels = gx.shape[:2]
    units = target.traits.compute_units
    if n * channels * _IDLE < units:
        return None
    step = max(1, min(channels, _STEP, n * channels // (2 * units)))
    jobs = n * ceil_div(channels, step)
    args = {**args, "step": step, "gx": gx, "gy": gy}
    return _launch(target, _IMAGE, jobs, gx.size + gy.size, params, args)


def places_lanes(
    target: Target, gp: Array, gy: Array, x: Array, params: dict[str, Any], args: dict[str, Any]
) -> Launch:
    """The launch of :func:`.grid_sample.grid_sample_places`."""
    jobs = x.shape[0] * ceil_div(prod(gy.shape[2:]), _LANES)
    args = {**args, "gp": gp, "gy": gy, "x": x}
    return _launch(target, _PLACES, jobs, gy.size, params, args)


def _launch(
    target: Target,
    kernel: Kernel,
    jobs: int,
    elements: int,
    params: dict[str, Any],
    args: dict[str, Any],
) -> Launch:
    share = jobs_per_item(target, jobs, elements)
    return kernel.launch(
        {**params, "lanes": _LANES},
        {"jobs": jobs, "share": share, **args},
        global_size=(ceil_div(jobs, share),),
        flops=2 * len(params["combos"]) * elements,
        bytes=sum(v.nbytes for v in args.values() if isinstance(v, Array)),
    )
