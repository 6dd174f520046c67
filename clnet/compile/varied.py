"""Which numbers of a compiled function vary, as its calls and traces teach."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dis import opmap
from typing import Any

from ..errors import ArgumentError, ClnetError, DtypeError
from ..values.programs import is_programs_code
from .arguments import looked_at
from .numbers import Numbers
from .outer import Outer

__all__ = ["Varied", "is_refusal"]

_MOST_KINDS = 16
_RAISE = opmap["RAISE_VARARGS"]
# What those raise who take Python's own numbers alone; libraries have errors of their own.
_REFUSALS = (TypeError, AttributeError, ArgumentError, DtypeError)


class Varied:
    """What is known of a function's numbers; who traces it learns more, one thread at a time.

    Attributes:
        loose: positions of numbers among arguments that may differ for one plan.
        stiff: whether the function failed by what stands for a number. From then on only those
            vary that it counts and never reads.
    """

    def __init__(self) -> None:
        self.loose: frozenset[int] = frozenset()
        self.stiff = False
        self._tight: set[int] = set()  # positions of numbers that the function must know
        self._slots: set[tuple[int, Any]] = set()  # names of slots in whose numbers calls differ
        self._last: dict[Any, list[Any]] = {}  # numbers of traced calls, by what else they were

    def loosened(self, modes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether numbers among the arguments vary that did not: a call that was traced had others.

        It was the same but for them. The function must know none of them.
        """
        _, _, shared, numbers = looked_at(args, kwargs, range(2**31))
        before = self._last.pop((modes, shared), None)
        self._last[modes, shared] = numbers
        if len(self._last) > _MOST_KINDS:
            del self._last[next(iter(self._last))]
        if before is None or self.stiff:
            return False
        pairs = zip(before, numbers, strict=True)
        found = {k for k, (a, b) in enumerate(pairs) if repr(a) != repr(b)} - self._tight
        if found <= self.loose:
            return False
        self.loose |= found
        return True

    def differ(self, names: Iterator[tuple[int, Any]]) -> None:
        """Let numbers in slots of these names vary from the next trace on."""
        self._slots.update(names)

    def numbers(self, outer: Outer, *, stiff: bool) -> Numbers:
        """Those of a trace: slots hold what stands for them.

        What stands for a number has a type of its own, so of a function that asks for types, too,
        those alone vary that it never reads.

        Args:
            outer: what the function finds.
            stiff: whether it has just failed.
        """
        stiff = stiff or self.stiff or outer.types
        numbers = Numbers(() if stiff else self.loose, stiff=stiff)
        self.vary(outer, numbers)
        return numbers

    def vary(self, outer: Outer, numbers: Numbers) -> None:
        """Let those numbers vary in which calls differed or that code writes, and optimisers'."""
        for slot in outer.slots(self._slots, unread=numbers.stiff):
            numbers.vary([slot])
        for optimizer in () if numbers.stiff else outer.optimizers:
            if optimizer.written or "param_groups" in outer.names:
                for slots in optimizer._clnet_slots():
                    numbers.vary(slots)
        for scheduler in () if numbers.stiff else outer.schedulers:
            if outer.names & scheduler._clnet_named:
                for slot, read in scheduler._clnet_numbers():
                    numbers.vary_read(slot, read)
        outer.mask(numbers.names)

    def learn(self, outer: Outer, numbers: Numbers, before: list[Any]) -> set[tuple[int, Any]]:
        """Take note of what a trace has shown: it is for this call, later ones are others.

        Args:
            outer: what the function finds.
            numbers: those that varied.
            before: the version of that before the function was called.

        Returns:
            The names of slots that it changed itself though their numbers did not vary.
        """
        changed = {slot.name for slot, _ in outer.changed_slots(before)}
        known, names = numbers.known()
        self._tight |= self.loose if numbers.stiff else known
        self.loose -= self._tight
        outer.counted += names
        self._slots |= changed
        return changed


def is_refusal(error: BaseException) -> bool:
    """Whether an error may have come because some code takes Python's own numbers alone.

    What the program raises itself is none, and no law about shapes or data: it stands, and the
    function is not called once more. No error that one of these was made of may be one, either.
    """
    chain = [error]
    for each in chain:
        chain += [e for e in (each.__cause__, each.__context__) if e is not None and e not in chain]
    return any(_is_one(each) for each in chain)


def _is_one(error: BaseException) -> bool:
    kind = type(error)
    others = not isinstance(error, ClnetError) and not hasattr(builtins, kind.__name__)
    if not isinstance(error, _REFUSALS) and kind is not ValueError and not others:
        return False
    walk = error.__traceback__
    while walk is not None and walk.tb_next is not None:
        walk = walk.tb_next
    if walk is None:
        return True
    code = walk.tb_frame.f_code
    return code.co_code[walk.tb_lasti] != _RAISE or not is_programs_code(code)
