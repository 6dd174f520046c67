"""Which function writes the nodes of an op: exporters by the op's class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ...array import Array
from ...compile.tracer import Step
from ...ops.machinery.function import Function
from ..sizes import Dynamic, Size
from ..writing import Graph, NotExported

__all__ = ["EXPORTERS", "Exporter", "Given", "NotExported", "exporter"]


@dataclass
class Given:
    """What an exporter gets: an op of a trace, at all sizes that it was traced at.

    Attributes:
        graph: to write into.
        steps: the op at each size; all but what an exporter ``varies`` is equal.
        names: of the inputs' values.
        dynamic: the dynamic sizes.
        know: lets an array have a name, beside the outputs.
        maker: the op that made an array, at the smallest sizes, with its inputs' names; None if
            none did.
    """

    graph: Graph
    steps: Sequence[Step]
    names: tuple[str, ...]
    dynamic: Dynamic
    know: Callable[[Array, str], None]
    maker: Callable[[Array], tuple[Step, Sequence[str]] | None]

    @property
    def step(self) -> Step:
        """The op at the smallest sizes."""
        return self.steps[0]

    @property
    def function(self) -> Any:
        """Its function, at the smallest sizes."""
        return self.steps[0].function

    def sizes(self, of: Callable[[Step], Sequence[int]]) -> list[Size]:
        """Sizes as polynomials of the dynamic ones.

        Args:
            of: the sizes at one point.
        """
        columns = zip(*(of(step) for step in self.steps), strict=True)
        return [self.dynamic.size(values) for values in columns]

    def shape(self, place: int = 0) -> list[Size]:
        """An input's shape."""
        return self.sizes(lambda step: step.inputs[place].shape)

    def made(self, place: int = 0) -> list[Size]:
        """An output's shape."""
        return self.sizes(lambda step: step.outputs[place].shape)

    def fixed(self, sizes: Sequence[Size], what: str) -> list[int]:
        """Sizes that are numbers.

        Raises:
            NotExported: if one is dynamic.
        """
        found = [size.number for size in sizes]
        known = [n for n in found if n is not None]
        if len(known) < len(found):
            raise NotExported(self.function.name, f"{what} is not dynamic in an exported model")
        return known


Writer: TypeAlias = Callable[[Given], Any]
F = TypeVar("F", bound=Writer)


@dataclass(frozen=True)
class Exporter:
    """How an op is written.

    Attributes:
        write: gives the outputs' names: one, or a tuple; None of what has no counterpart.
        varies: fields that may differ from size to size.
    """

    write: Writer
    varies: frozenset[str]


EXPORTERS: dict[type[Function], Exporter] = {}


def exporter(*functions: type[Any], varies: str = "") -> Callable[[F], F]:
    """Let a function write the nodes of an op.

    Args:
        functions: the op's classes.
        varies: names of fields that may differ from size to size, with spaces between.
    """

    def register(write: F) -> F:
        made = Exporter(write, frozenset(varies.split()))
        EXPORTERS.update(dict.fromkeys(functions, made))
        return write

    return register
