"""A window that moves over planes, and how work-items lie over them; it launches nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...errors import ArgumentError
from ...values.record import NamedTuple
from ..grid import in_groups, items
from ..kernel import Named, by_name

# Elements of a window that are written out one by one.
_MOST_UNROLLED = 64
# Elements of all planes together: kernels count them in an int, and step past the end.
_MOST_ELEMENTS = 2**31 - 2**16


class Window(NamedTuple):
    """A window and how it moves over a plane.

    Attributes:
        kh, kw: its height and width.
        sh, sw: steps from window to window.
        ph, pw: padding on every side of the plane, at most half the window.
        dh, dw: steps within a window (1 for means).
    """

    kh: int
    kw: int
    sh: int
    sw: int
    ph: int = 0
    pw: int = 0
    dh: int = 1
    dw: int = 1

    def params(self, *, dilated: bool = True) -> Named:
        """It as parameters of a kernel, of means without steps within a window."""
        names = "kh kw sh sw ph pw dh dw" if dilated else "kh kw sh sw ph pw"
        return by_name(names, *(self if dilated else self[:6]))

    def inside(self, y: Array, x: Array) -> bool:
        """Whether no window of ``y`` reaches over an edge of ``x``."""
        down = (y.shape[-2] - 1) * self.sh + (self.kh - 1) * self.dh < x.shape[-2]
        right = (y.shape[-1] - 1) * self.sw + (self.kw - 1) * self.dw < x.shape[-1]
        return down and right and self.ph == self.pw == 0


def by_rows(target: Target) -> bool:
    """Whether an item makes a row of a plane instead of an element."""
    return not in_groups(target.traits)


def unchecked(target: Target, window: Window, y: Array, x: Array) -> str:
    """Which windows are written out, without checks: ``"all"``, ``"some"`` or ``"none"``."""
    if window.kh * window.kw > _MOST_UNROLLED:
        return "none"
    if window.inside(y, x):
        return "all"
    return "some" if by_rows(target) else "none"


def real_type(array: Array) -> str:
    """The type that sums of its elements are kept in."""
    return "double" if array.dtype.compute == "float64" else "float"


def plane_sizes(result: Array, y: Array, x: Array) -> Named:
    """Rows of what is written, and the sizes of an output and an input plane."""
    return by_name(
        "rows out_h out_w height width",
        result.size // result.shape[-1],
        *(y.shape[-2:] + x.shape[-2:]),
    )


def plane_items(target: Target, result: Array) -> dict[str, Any]:
    """Global and local size to make ``result`` by rows or by elements."""
    if by_rows(target):
        return {"global_size": (result.size // result.shape[-1],), "local_size": (1,)}
    return items(target, result.size)


def planes_of(array: Array) -> int:
    """How many planes an array holds."""
    return prod(array.shape[:-2])


def in_pieces(
    op: str, launches: Callable[..., list[Launch]], *arrays: Array | None
) -> list[Launch]:
    """Launches over as many planes at a time as kernels count the elements of; none for all.

    Args:
        op: who asks, for errors.
        launches: gives those for the arrays of a piece.
        *arrays: dense, ``(..., h, w)`` with sizes of their own, as many planes each; None stays.

    Raises:
        ArgumentError: if a plane alone has more elements.
    """
    given = [array for array in arrays if array is not None]
    if max(array.size for array in given) <= _MOST_ELEMENTS:
        return []
    largest = max(prod(array.shape[-2:]) for array in given)
    step, planes = _MOST_ELEMENTS // largest, planes_of(given[0])
    if step == 0:
        law = "a plane has no more elements than an int counts"
        raise ArgumentError(op, law, elements=largest, most=_MOST_ELEMENTS)

    def piece(array: Array | None, first: int) -> Array | None:
        if array is None:
            return None
        h, w = array.shape[-2:]
        shape = (min(step, planes - first), h, w)
        return array.view(shape, (h * w, w, 1), array.offset + first * h * w)

    starts = range(0, planes, step)
    return [each for at in starts for each in launches(*(piece(array, at) for array in arrays))]
