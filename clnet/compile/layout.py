"""Values between convolutions in the layout they are fastest in: channels blocked, on a CPU.

The pass walks the steps once. A step whose op has a rule (:mod:`.layout_rules`) and whose operands
are worth it runs on blocked arrays, and leaves blocked results; any other finds its operands plain.
A reorder stands only where the two meet: what is in one form, and is asked for in the other.
"""

from __future__ import annotations

from ..array import Array
from ..device import Target
from ..kernels.conv_blocked import block_size
from ..ops.rewritten.blocked_layers import Reorder
from ..ops.shape import Copy
from ..values.shapes import Shape, contiguous_strides, is_contiguous
from .convolution import convolution_of, learns
from .forms import Forms
from .layout_rules import RULES
from .trace import Trace
from .tracer import Step

_FLOAT_BYTES = 4
"""Elements that reorders take; others are copied in the other order."""


def layout(trace: Trace) -> Trace:
    """The trace with blocked values, if a convolution of it is computed between blocked arrays."""
    lanes = block_size(trace.device.traits)
    target = trace.device.target
    if lanes is None or not any(fits(target, step) for _, step in trace.ops):
        return trace
    return Layouts(trace, lanes).rewritten()


class Layouts(Forms):
    """Images whose channels are blocked.

    Args:
        trace: what is rewritten.
        lanes: channels of a block.
    """

    def __init__(self, trace: Trace, lanes: int) -> None:
        super().__init__(trace, RULES)
        self.lanes = lanes
        self.learns = learns(trace)

    def changeable(self, array: Array) -> bool:
        """Whether an array can have a blocked form: images of whole blocks of channels."""
        return array.ndim == 4 and array.size > 0 and array.shape[1] % self.lanes == 0

    def is_blocked(self, array: Array) -> bool:
        """Whether an array's elements are at hand in blocked form."""
        return self.seen(array) is not None

    def wanted(self, array: Array) -> bool:
        """Whether a step that reads an array is sure to run on blocked ones."""
        readers = (self.trace.steps[i] for i in self.trace.readers.get(array.storage, ()))
        return any(
            isinstance(step, Step)
            and (fits(self.target, step) or any(map(self.is_blocked, step.inputs)))
            for step in readers
        )

    def seen(self, array: Array) -> Array | None:
        """An array in the blocked form its storage has, or None.

        It may be all of it, or some of its images, blocks of channels and pixels.
        """
        forms = self._forms.get(array.storage)
        if forms is None or not self.changeable(array):
            return None
        whole, inside = forms
        images, pixels = whole.strides[:2]
        n, c, h, w = array.shape
        if array.strides[1] != pixels or (n > 1 and array.strides[0] != images):
            return None
        image, rest = divmod(array.offset - whole.offset, images)
        channel, pixel = divmod(rest, pixels)
        if channel % self.lanes:
            return None
        down, right = (s * self.lanes for s in array.strides[2:])
        return inside.view(
            (n, c // self.lanes, h, w, self.lanes),
            (*inside.strides[:2], down, right, 1),
            inside.offset + image * images + channel * pixels + pixel * self.lanes,
        )

    def blocked(self, array: Array, *, dense: bool = True) -> Array:
        """An array in blocked form, reordered if need be.

        Args:
            array: one for which :meth:`changeable` holds.
            dense: whether it must be; else its pixels may lie anyhow.
        """
        found = self.seen(array)
        if found is None:
            found = self._free_view(array)
        if found is None:
            source = array
            self.plain(array)
            if array.dtype.itemsize != _FLOAT_BYTES:
                return self.make(Copy(), self.spread(array))
            if not is_contiguous(array.shape[1:], array.strides[1:]):
                source = self.make(Copy(), array)
            found = self.make(Reorder(self.lanes), source)
        if dense and not found.contiguous:
            found = self.make(Copy(), found)
        return found

    def spread(self, array: Array) -> Array:
        """An operand that is broadcast over images or pixels, as one of blocked arrays."""
        self.plain(array)
        missing = 4 - array.ndim
        shape, strides = (1,) * missing + array.shape, (0,) * missing + array.strides
        (n, c, h, w), (of_n, of_c, of_h, of_w) = shape, strides
        if c == 1:
            return array.view((n, 1, h, w, 1), (of_n, 0, of_h, of_w, 0))
        return array.view(
            (n, c // self.lanes, h, w, self.lanes), (of_n, of_c * self.lanes, of_h, of_w, of_c)
        )

    def channels(self, values: Array) -> Array:
        """A value for each channel as an operand of blocked arrays."""
        return self.spread(values.view((1, values.size, 1, 1), (0, values.strides[0], 0, 0)))

    def output(self, array: Array) -> Array:
        """The blocked array that a step writes in place of a plain one, dense."""
        free = self._free_view(array)
        n, c, h, w = array.shape
        shape = (n, c // self.lanes, h, w, self.lanes)
        inside = free if free is not None else Array.abstract(shape, array.dtype, array.device)
        self._forms[array.storage] = (array, inside)
        if free is None:
            self._no_plain.add(array.storage)
        return inside

    def emit_plain(self, whole: Array, inside: Array) -> None:
        """Add the step that writes images plainly."""
        if whole.dtype.itemsize == _FLOAT_BYTES:
            self.emit(Reorder(0), (inside,), (whole,))
            return
        n, groups, h, w, lanes = inside.shape
        images, blocks, down, right, _ = inside.strides
        turned = inside.view((n, groups, lanes, h, w), (images, blocks, 1, down, right))
        place = whole.view(turned.shape, contiguous_strides(turned.shape))
        self.emit(Copy(), (turned,), (place,))

    def _free_view(self, array: Array) -> Array | None:
        """Images of one pixel, dense: both forms are the same memory."""
        n, c, h, w = array.shape
        if h * w != 1 or not array.contiguous:
            return None
        shape: Shape = (n, c // self.lanes, 1, 1, self.lanes)
        return array.view(shape, (c, self.lanes, self.lanes, self.lanes, 1))


def fits(target: Target, step: Step) -> bool:
    """Whether a step is a convolution that is computed between blocked arrays."""
    found = convolution_of(step)
    return found is not None and found.form(target) is not None
