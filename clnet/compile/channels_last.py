"""Images with their channels last from step to step, on devices whose matrix units convolve.

Convolutions on matrix units read pixels whose channels are dense, and turn other images over
first. The pass walks the steps once, as :mod:`.layout` does for CPUs: what a convolution on the
units gives lies ``(n, h, w, c)``, what a step with a rule makes of such images lies so, too, and
copies stand only where a step without one reads them.
"""

from __future__ import annotations

from ..array import Array
from ..kernels.conv import Order
from ..ops.rewritten.last import as_first, as_last
from ..ops.shape import Copy
from ..values.shapes import contiguous_strides
from .convolution import on_units
from .forms import Forms
from .last_rules import RULES
from .simplify import without_copies
from .trace import Trace

_RUN_BYTES = 16


def channels_last(trace: Trace) -> Trace:
    """The trace with images that lie channels last, if matrix units compute a convolution of it."""
    target = trace.device.target
    if not any(on_units(target, step, Order.OPEN) for _, step in trace.ops):
        return trace
    return without_copies(LastForms(trace).rewritten())


class LastForms(Forms):
    """Images that lie ``(n, h, w, c)``."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, RULES)

    def changeable(self, array: Array) -> bool:
        """Whether an array can lie so: images."""
        return array.ndim == 4 and array.size > 0

    def emit_plain(self, whole: Array, inside: Array) -> None:
        """Add the copy that writes images plainly."""
        place = whole.view(whole.shape, contiguous_strides(whole.shape))
        self.emit(Copy(), (as_first(inside),), (place,))

    def walks(self, array: Array) -> Array | None:
        """A view of any shape on a last form, None where the value has none, or none says it."""
        return self.view(array) if array.storage in self._forms and array.size else None

    def is_last(self, array: Array) -> bool:
        """Whether an array's images lie channels last already."""
        return self.seen(array) is not None

    def seen(self, array: Array) -> Array | None:
        """An array ``(n, c, h, w)`` as ``(n, h, w, c)`` of its last form, or None if it has none.

        It may be a part of the images, channels and pixels; or plain memory that lies so.
        """
        if not self.changeable(array):
            return None
        forms = self._forms.get(array.storage)
        if forms is not None:
            found = self.view(array)
            return None if found is None else as_last(found)
        turned = as_last(array)
        pixels = array.shape[2] * array.shape[3]
        return turned if turned.contiguous and (pixels == 1 or not array.contiguous) else None

    def view(self, array: Array) -> Array | None:
        """A view of a value's plain form as one of its last form, of any axes.

        Where a plain one ``(2, 3, 4, 5)`` is walked in steps of 20, channels pass: in the last form
        these are neighbours. None where a step leaves its axis, as it does in images made flat.
        """
        whole, inside = self._forms[array.storage]
        moves = as_first(inside).strides
        start = _place(array.offset - whole.offset, whole.strides)
        ends, strides = list(start), list[int]()
        for size, stride in zip(array.shape, array.strides, strict=True):
            if size == 1 or stride == 0:
                strides.append(0)
                continue
            axis = next(
                k for k, s in enumerate(whole.strides) if stride % s == 0 and _wide(whole, k)
            )
            ends[axis] += (size - 1) * (stride // whole.strides[axis])
            strides.append(stride // whole.strides[axis] * moves[axis])
        if any(end >= size for end, size in zip(ends, whole.shape, strict=True)):
            return None
        first = sum(at * move for at, move in zip(start, moves, strict=True))
        return inside.view(array.shape, tuple(strides), inside.offset + first)

    def last(self, array: Array, *, dense: bool = True) -> Array:
        """An array ``(n, c, h, w)`` as ``(n, h, w, c)``, turned over if need be.

        Args:
            array: images.
            dense: whether it must be; else its pixels may lie anyhow.
        """
        found = self.seen(array)
        if found is None:
            self.plain(array)
            return self.make(Copy(), as_last(array))
        if dense and not found.contiguous:
            return self.make(Copy(), found)
        return found

    def spread(self, array: Array) -> Array:
        """An operand that is broadcast over some axes, in the order of last ones."""
        self.plain(array)
        missing = 4 - array.ndim
        shape, strides = (1,) * missing + array.shape, (0,) * missing + array.strides
        return as_last(array.view(shape, strides))

    def turns(self, array: Array) -> bool:
        """Whether images' channels are whole runs of 16 bytes, as matrix units read them."""
        return array.shape[1] % (_RUN_BYTES // array.dtype.itemsize) == 0

    def output(self, array: Array) -> Array:
        """The array ``(n, h, w, c)`` that a step writes in place of a plain one, dense."""
        n, c, h, w = array.shape
        if h * w == 1:
            return as_last(array)  # both forms are the same memory
        inside = Array.abstract((n, h, w, c), array.dtype, array.device)
        self._forms[array.storage] = (array, inside)
        self._no_plain.add(array.storage)
        return inside


def _wide(whole: Array, axis: int) -> bool:
    """Whether an axis can be walked: of several with one step, the one that has elements."""
    return whole.shape[axis] > 1 or axis == whole.ndim - 1


def _place(elements: int, strides: tuple[int, ...]) -> list[int]:
    """Where along each axis of a dense array an element lies."""
    found = []
    for stride in strides:
        at, elements = divmod(elements, stride)
        found.append(at)
    return found
