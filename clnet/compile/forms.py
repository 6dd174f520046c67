"""Values in another form from step to step, and plain ones where a step asks for these.

A pass that keeps images in a form of its own, as :mod:`.layout` and :mod:`.channels_last` do, walks
the steps once. A step whose op has a rule may run on that form, and leave results in it; any other
finds its operands plain. A copy stands only where the two meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..array import Array
from ..device import Storage
from ..ops.machinery.function import Function
from .trace import Trace
from .tracer import Action, Step

_Rule = TypeVar("_Rule", bound=Callable[..., bool])


def registering(
    rules: dict[type[Function], _Rule],
) -> Callable[..., Callable[[_Rule], _Rule]]:
    """A decorator, ``@rule(Conv2d)``, that puts a rule into a table under the classes it names."""

    def rule_of(*functions: type[Function]) -> Callable[[_Rule], _Rule]:
        def register(rule: _Rule) -> _Rule:
            rules.update(dict.fromkeys(functions, rule))
            return rule

        return register

    return rule_of


class Forms(ABC):
    """The forms that values have so far, and the steps that made them; what rules work with.

    Args:
        trace: what is rewritten.
        rules: by ops' types; each is told of the forms and a step, and says whether it has emitted
            what stands in the step's place.
    """

    def __init__(
        self, trace: Trace, rules: Mapping[type[Function], Callable[[Any, Step], bool]]
    ) -> None:
        self.trace = trace
        self.target = trace.device.target
        self._rules = rules
        self._steps: list[Step | Action] = []
        self._asker = next(step for _, step in trace.ops)
        # Values that have the other form: plain, and in it; and those that have it alone.
        self._forms: dict[Storage, tuple[Array, Array]] = {}
        self._no_plain: set[Storage] = set()
        self._made: dict[Any, Array] = {}

    @abstractmethod
    def changeable(self, array: Array) -> bool:
        """Whether an array can have the other form."""

    @abstractmethod
    def emit_plain(self, whole: Array, inside: Array) -> None:
        """Add the step that writes a value's plain form from the other."""

    def rewritten(self) -> Trace:
        """The trace after the walk."""
        for step in self.trace.steps:
            if isinstance(step, Action):
                self._steps.append(step)
                continue
            self._asker = step
            rule = self._rules.get(type(step.function))
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

    def plain(self, array: Array) -> None:
        """See to it that an array's plain form is there."""
        self._plain_of(array.storage)

    def replaceable(self, *outputs: Array) -> bool:
        """Whether the outputs of a step are values of which the other form can stand for all."""
        return all(
            self.changeable(y) and y.contiguous and self.trace.is_value(y.storage) for y in outputs
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
            self._no_plain.discard(storage)
            self.emit_plain(*self._forms[storage])
