"""Fourier transforms of lines that fit local memory, by Stockham's passes."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import in_groups
from ..kernel import Kernel
from .stockham_lanes import lanes_of, transform_lanes

_STOCKHAM = Kernel("stockham", "fourier/stockham.mako")
_RADICES = (4, 2, 3, 5, 7)
_GPU_GROUP = 128
_MOST = 4096  # elements of a line: beyond it two transforms of shorter lines are faster


def radices_of(n: int) -> tuple[int, ...] | None:
    """The radices whose product is ``n``, the largest powers of 2 first; None if there are none."""
    found: list[int] = []
    for radix in _RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def longest_line(target: Target, itemsize: int) -> int:
    """How many complex elements of ``itemsize`` bytes a line may have: two copies are kept."""
    return min(_MOST, target.traits.static_local_bytes // (2 * itemsize))


def transform_lines(target: Target, y: Array, x: Array, *, n: int, sign: int) -> list[Launch]:
    """``y[line][k]``, the sum of ``x[line][j] * exp(sign 2 pi i j k / n)``.

    Args:
        target: what to choose the group for.
        y: ``(lines, n)``, dense: complex or real parts; or ``(lines, n // 2 + 1)``, complex.
        x: ``(lines, n)``, dense: complex or real; or ``(lines, n // 2 + 1)``, complex: then the
            others are conjugates of these, and the imaginary parts of the ends are not read.
        n: what :func:`radices_of` takes, of at most :func:`longest_line`.
        sign: -1 forward, 1 back.
    """
    lines, radices = y.shape[0], radices_of(n)
    if y.size == 0 or radices is None:
        return []
    ctype = y.dtype.real.ctype
    forms = {
        "load": _layout(x, n),
        "store": _layout(y, n),
        "source": x.dtype.ctype,
        "result": y.dtype.ctype,
    }
    if (lanes := lanes_of(target, lines, n, y.dtype.real.itemsize)) is not None:
        return [transform_lanes(target, y, x, lanes, radices, sign, forms)]
    most = ceil_div(n, max(radices, default=1))
    group = 1
    if in_groups(target.traits):
        group = min(_GPU_GROUP, target.traits.max_group_size, most)
    params = {"ctype": ctype, "n": n, "radices": radices, "sign": sign, "group": group, **forms}
    flops = lines * n * sum(8 * radix for radix in radices)
    moved = x.nbytes + y.nbytes
    sizes = {"global_size": (lines * group,), "local_size": (group,)}
    return [
        _STOCKHAM.launch(params, {"size": n, "y": y, "x": x}, **sizes, flops=flops, bytes=moved)
    ]


def _layout(x: Array, n: int) -> str:
    if not x.dtype.is_complex:
        return "real"
    return "complex" if x.shape[1] == n else "half"
