"""Values between convolutions in the layout they are fastest in: channels blocked, on a CPU.

The pass walks the steps once. A step whose op has a rule (:mod:`.layout_rules`) and whose operands
are worth it runs on blocked arrays, and leaves blocked results; any other finds its operands plain.
A reorder stands only where the two meet: what is in one form, and is asked for in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..array import Array
from ..device import Storage, Target
from ..kernels.conv_blocked import block_size
from ..ops.machinery.function import Function
from ..ops.rewritten.blocked_layers import Reorder
from ..ops.shape import Copy
from ..values.shapes import Shape, contiguous_strides, is_contiguous
from .convolution import convolution_of, learns
from .layout_rules import RULES
from .trace import Trace
from .tracer import Action, Step

_FLOAT_BYTES = 4
"""Elements that reorders take; others are copied in the other order."""


def layout(trace: Trace) -> Trace:
    """The trace with blocked values, if a convolution of it is computed between blocked arrays."""
    lanes = block_size(trace.device.traits)
    target = trace.device.target
    if lanes is None or not any(fits(target, step) for _, step in trace.ops):
        return trace
    return Layouts(trace, lanes).rewritten()


class Layouts:
    """The forms that values have so far, and the steps that made them; what rules work with.

    Args:
        trace: what is rewritten.
        lanes: channels of a block.
    """

    def __init__(self, trace: Trace, lanes: int) -> None:
        self.trace = trace
        self.lanes = lanes
        self.target: Target = trace.device.target
        self.learns = learns(trace)
        self._steps: list[Step | Action] = []
        self._asker = next(step for _, step in trace.ops)
        # Values that have a blocked form, with their plain one; and those that have not both.
        self._blocked: dict[Storage, tuple[Array, Array]] = {}
        self._no_plain: set[Storage] = set()
        self._made: dict[Any, Array] = {}

    def rewritten(self) -> Trace:
        """The trace after the walk."""
        for step in self.trace.steps:
            if isinstance(step, Action):
                self._steps.append(step)
                continue
            self._asker = step
            rule: Callable[[Layouts, Step], bool] | None = RULES.get(type(step.function))
            if rule is None or not rule(self, step):
                for array in step.inputs:
                    self.plain(array)
                self._steps.append(step)
            for storage in step.mutated:  # what was made of it is not of what it is now
                for key in [key for key in self._made if key[0] is storage]:
                    del self._made[key]
        for array in self.trace.results:
            self.plain(array)
        for storage in self.trace.kept:
            self._plain_of(storage)
        return self.trace.with_steps(self._steps)

    def blockable(self, array: Array) -> bool:
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
        forms = self._blocked.get(array.storage)
        if forms is None or not self.blockable(array):
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
            array: one for which :meth:`blockable` holds.
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

    def plain(self, array: Array) -> None:
        """See to it that an array's plain form is there."""
        self._plain_of(array.storage)

    def output(self, array: Array) -> Array:
        """The blocked array that a step writes in place of a plain one, dense."""
        free = self._free_view(array)
        n, c, h, w = array.shape
        shape = (n, c // self.lanes, h, w, self.lanes)
        inside = free if free is not None else Array.abstract(shape, array.dtype, array.device)
        self._blocked[array.storage] = (array, inside)
        if free is None:
            self._no_plain.add(array.storage)
        return inside

    def replaceable(self, *outputs: Array) -> bool:
        """Whether the outputs of a step are values of which a blocked form can stand for all."""
        return all(
            self.blockable(y) and y.contiguous and self.trace.is_value(y.storage) for y in outputs
        )

    def emit(
        self, function: Function, inputs: tuple[Array, ...], outputs: tuple[Array, ...]
    ) -> None:
        """Add a step in place of the present one, for the same asker."""
        asker = self._asker
        self._steps.append(Step(function, inputs, outputs, asker.module_path, asker.phase))

    def make(self, function: Function, x: Array) -> Array:
        """The output of an op added to the trace; the same one as long as its input stays."""
        key = (x.storage, function, x.offset, x.shape, x.strides)
        if key not in self._made:
            (output,) = function.infer(x)
            self.emit(function, (x,), (output,))
            self._made[key] = output
        return self._made[key]

    def _plain_of(self, storage: Storage) -> None:
        if storage in self._no_plain:
            whole, inside = self._blocked[storage]
            self._no_plain.discard(storage)
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
