"""Maxima and means over windows of planes on CPUs: neighbouring windows are a vector."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import lanes_of
from ..kernel import Arguments, Constraint, Kernel, by_name, joined, nbytes_of
from .window import Window, by_rows, plane_sizes

__all__ = ["avg_pool_vectors", "lanes_inside", "max_pool_vectors"]

_LAWS = (
    Constraint("sw <= 2", "vectors are read whole, or every second element of them"),
    Constraint("2 * ph <= dh * (kh - 1) + 1", "every window holds an element"),
    Constraint("2 * pw <= dw * (kw - 1) + 1", "every window holds an element"),
)
_LEAST_LANES = 4
# Taps of a window's row are written out.
_MOST_ACROSS = 16
# Windows of a group's rows, if that leaves so many groups to a unit.
_GROUP_WINDOWS, _GROUPS_PER_UNIT = 4096, 8


_MAX = Kernel("max_pool_vectors", "pool/pool_vectors.mako", constraints=_LAWS)
_MEAN = Kernel(
    "avg_pool_vectors",
    "pool/pool_vectors.mako",
    constraints=(
        _LAWS[0],
        Constraint("2 * ph <= kh and 2 * pw <= kw", "every window holds an element"),
    ),
)


def lanes_inside(target: Target, window: Window, y: Array, x: Array) -> int:
    """Windows of a vector, or 0 if no vector of them lies between the ends of a row.

    Args:
        target: what to choose for.
        window: how it lies.
        y: ``(..., oh, ow)``.
        x: ``(..., h, w)``.
    """
    float32 = x.dtype.ctype == "float"
    if not (by_rows(target) and float32 and window.sw <= 2 and window.kw <= _MOST_ACROSS):
        return 0
    reach = (window.kw - 1) * window.dw + 1 - window.pw
    right = min((x.shape[-1] - reach) // window.sw + 1, y.shape[-1])
    inside = right - ceil_div(window.pw, window.sw)
    lanes = min(lanes_of(target, 4), 1 << max(inside, 1).bit_length() - 1)
    return lanes if lanes >= _LEAST_LANES else 0


def max_pool_vectors(
    target: Target, y: Array, x: Array, index: Array | None, window: Window, lanes: int
) -> Launch:
    """Maxima of a float32 ``x``; the arguments are those of :func:`.max_pool.max_pool`.

    ``y`` is not empty, the index int32; ``lanes`` is what :func:`lanes_inside` said.
    """
    params = joined(by_name("with_index lanes", index is not None, lanes), window.params())
    return _launch(target, _MAX, params, {"y": y, "index": index, "x": x}, window)


def avg_pool_vectors(
    target: Target,
    y: Array,
    x: Array,
    window: Window,
    lanes: int,
    *,
    include_pad: bool,
    divisor: int,
) -> Launch:
    """Means of a float32 ``x``; the arguments are those of :func:`.avg_pool.avg_pool`.

    ``y`` is not empty; ``lanes`` is what :func:`lanes_inside` said.
    """
    how = {"include_pad": include_pad, "divisor": divisor, "lanes": lanes}
    params = joined(how, window.params(dilated=False))
    return _launch(target, _MEAN, params, {"y": y, "x": x}, window)


def _launch(
    target: Target,
    kernel: Kernel,
    params: Arguments,
    arrays: dict[str, Any],
    window: Window,
) -> Launch:
    y, x = arrays["y"], arrays["x"]
    sizes = plane_sizes(y, y, x)
    rows = y.size // y.shape[-1]
    fair = rows // (_GROUPS_PER_UNIT * target.traits.compute_units)
    some = max(1, min(_GROUP_WINDOWS // y.shape[-1], fair))
    return kernel.launch(
        params,
        joined(by_name("some", some), sizes, arrays),
        global_size=(ceil_div(rows, some),),
        flops=y.size * window.kh * window.kw,
        bytes=nbytes_of(arrays.values()),
    )
