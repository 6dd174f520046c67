"""An array in a larger one, and around it elements of its own, on CPUs."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import DeviceTraits, HostScalar, Launch, Target
from ...values.shapes import Shape, ceil_div
from ..grid import in_groups, jobs_per_item, lanes_of
from ..kernel import Kernel, by_name, joined

_AROUND = Kernel("around", "moving/around.mako")
# Bytes of an element that vectors are made of, and what a kernel may count with an int.
_LONGEST, _INT_ELEMENTS = 8, 2**31 - 1


def around_fits(traits: DeviceTraits, x_shape: Shape, shape: Shape, itemsize: int) -> bool:
    """Whether :func:`around` makes an array of ``shape`` on a device.

    Args:
        traits: the device's.
        x_shape: of what is put into it.
        shape: of the result.
        itemsize: bytes of an element.
    """
    countable = 0 < prod(shape) < _INT_ELEMENTS and min(shape, default=0) > 0
    return not in_groups(traits) and itemsize <= _LONGEST and countable and min(x_shape) > 0


def around(
    target: Target,
    y: Array,
    x: Array,
    *,
    starts: tuple[int, ...],
    mode: str,
    value: float | HostScalar | None = None,
) -> Launch:
    """``y`` is ``x`` from ``starts`` on, and elsewhere what ``mode`` picks of ``x``, or a value.

    Args:
        target: whose vectors and cores are used; :func:`around_fits`.
        y: dense, one axis or more, and an element or more.
        x: dense, of ``y``'s dtype and as many axes; none has 0 elements.
        starts: where in ``y`` it begins along each axis; below 0: how many elements are left out.
        mode: ``"reflect"``, ``"replicate"`` or ``"circular"``, as ``pad`` of ops has them, each
            of which is asked for no more than it can give; or ``"constant"``.
        value: of ``"constant"``, as kernels that move elements take it.
    """
    axes: list[tuple[int, int, int]] = []
    for n, m, low in zip(y.shape, x.shape, starts, strict=True):
        if axes and n == m and not low:  # whole rows go with the axis before
            size, x_size, before = axes[-1]
            if size == x_size and not before:
                axes[-1] = (size * n, x_size * n, 0)
                continue
        axes.append((n, m, low))
    *outer, (n, m, low) = axes
    rows = prod(size for size, _, _ in outer)
    share = jobs_per_item(target, rows, y.size)
    lanes = lanes_of(target, y.dtype.itemsize)
    sizes, x_sizes, lows = zip(*outer, strict=True) if outer else ((), (), ())
    return _AROUND.launch(
        by_name("ctype lanes mode ndim", y.dtype.moved_as, lanes, mode, len(outer)),
        joined(
            by_name("rows share n m low", rows, share, n, m, low),
            by_name("size_{d}", sizes),
            by_name("x_size_{d}", x_sizes),
            by_name("low_{d}", lows),
            by_name("y x", y, x),
            by_name("value", value) if mode == "constant" else {},
        ),
        global_size=(ceil_div(rows, share),),
        flops=0,
        bytes=y.nbytes + x.nbytes,
    )
