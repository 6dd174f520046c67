"""What a compiled function returns, made of a plan's results and the tensors of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..tensor import Tensor
from ..values import mode
from .differentiable import Differentiable
from .record import Recorded
from .states import States

__all__ = ["Finish"]


class Finish:
    """Makes what the function returns of a plan's results and the tensors it was called with.

    Attributes:
        assigns: whether it puts tensors into objects outside.
        reach: what tells the objects that the function finds from others.
    """

    def __init__(
        self,
        recorded: Recorded,
        on_tape: Differentiable | None,
        asked: Sequence[Any],
        reach: frozenset[object],
    ) -> None:
        self._recorded = recorded
        self.assigns = bool(recorded.assigned or recorded.written)
        self.reach = reach
        self._on_tape = on_tape
        self._asked = tuple(asked)
        self._states = States(recorded.written)

    def gradients(self, given: list[Tensor]) -> list[Tensor] | None:
        """Those that a call finds in leaves, further arguments; None if they do not fit."""
        return self._recorded.gradients(given)

    def part(self, given: list[Tensor]) -> None:
        """Before the plan runs: who holds a state that it writes keeps that.

        Raises:
            TraceError: if an argument is found by another name, where that makes a difference.
        """
        self._recorded.require_apart(given)
        self._states.part()

    def fits(self, given: list[Tensor]) -> bool:
        """Whether a call's tensors answer what the function asked as those of its trace."""
        return all(_agree(question(given[k]), answer) for k, question, answer in self._asked)

    def results(self, arrays: list[Array], given: list[Tensor]) -> Any:
        """What the function returns."""
        self._states.settle()
        self._recorded.flag(given)
        if self._on_tape is None:
            return self._recorded.rebuild(map(Tensor, arrays), given)
        with mode.using(grad=True):  # of enable_grad inside, too
            found = self._on_tape.results(arrays, given)
        return self._recorded.rebuild(found, given)


def _agree(answer: Any, before: Any) -> bool:
    """Whether two answers are one; of tensors and what is on the tape only it itself is."""
    plain = isinstance(answer, int | str | tuple | frozenset)
    return answer is before or (plain and type(answer) is type(before) and answer == before)
