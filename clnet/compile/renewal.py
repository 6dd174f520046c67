"""How often a compiled function is traced anew, and when calls run uncompiled instead."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..errors import TraceError
from .kept_plans import KeptPlans

__all__ = ["Renewals"]

_MOST_RESTLESS = 8
_MOST_CROWDED = 32
_RETRIED = 64


class Renewals:
    """Counts traces that no replay has repaid yet; after too many, calls run uncompiled.

    A trace takes as long as some hundred ops, so who needs one at every call is faster without.
    Each replay repays one trace. What runs uncompiled owes nothing, and one such call in 64 is
    traced all the same: when the program finds rest, replays follow and all is as before.

    Args:
        name: of the function.
        always: whether every call is traced that finds no plan, after the warning, too.

    Attributes:
        owed: whether :meth:`repay` has something to do.
    """

    def __init__(self, name: str, *, always: bool = False) -> None:
        self._name, self._always = name, always
        self._restless = 0  # traces in a row of what the function itself changed, less replays
        self._disturbed = 0  # ... of what lies outside and was another, without a replay between
        self._crowded = 0  # traces while no more plans are kept, less replays
        self._names: Sequence[str] = ()
        self._kept = 0
        self._reached = self._told = self.owed = False
        self._spared = 0

    def repay(self) -> None:
        """A plan was replayed."""
        self._restless, self._disturbed = max(self._restless - 1, 0), 0
        self._crowded = max(self._crowded - 1, 0)
        self.owed = bool(self._restless or self._crowded)
        self._reached = self._reached and self.owed

    def begin(self, outside: Sequence[str], plans: KeptPlans) -> None:
        """A trace begins.

        Args:
            outside: the names of what lies outside for which a plan went.
            plans: those that are kept.
        """
        self._disturbed = self._disturbed + 1 if outside and not self._restless else 0
        if plans.full:
            kept = [guards for guards, *_ in plans.signatures()]
            self._crowded, self._kept = min(self._crowded + 1, _MOST_CROWDED), len(kept)
            self._names = _differing(kept)
        if self._disturbed:
            self._names = outside
        self.owed = self.owed or bool(self._disturbed or self._crowded)

    def end(self, changed: Sequence[str]) -> None:
        """A trace has ended.

        Args:
            changed: the names of what the function reads and changes itself, and must know.
        """
        self._restless = min(self._restless + 1, _MOST_RESTLESS) if changed else 0
        if changed:
            self._names = changed
            self.owed = True

    def give_up(self) -> None:
        """Too many signatures cannot be traced, which was told: no further ones are."""
        self._reached = self._told = self.owed = True

    def spares(self, stacklevel: int) -> bool:
        """Whether a call that finds no plan runs uncompiled; the first time a warning says why.

        Args:
            stacklevel: of the caller, for the warning.
        """
        if not self._reached:
            why = self._why()
            if why is None:
                return False
            if not self._told:
                self._told = True
                warnings.warn(self._text(*why), RuntimeWarning, stacklevel=stacklevel + 1)
            self._reached, self._spared = True, 0
        self._spared += 1
        return not self._always and self._spared % _RETRIED != 0

    def _why(self) -> tuple[str, str] | None:
        if self._restless >= _MOST_RESTLESS:
            hint = "Pass it as an argument, or keep it in a tensor; int(n) and x[n] must know it"
            return "the function changes what it reads itself", hint
        if self._disturbed >= _MOST_RESTLESS:
            hint = "Pass it as an argument, or keep it in a tensor"
            return "what it finds outside is another each time", hint
        if self._crowded >= _MOST_CROWDED:
            hint = "Pad to a few lengths, pass numbers in tensors, or compile a function for each"
            return f"arguments or modes of more than {self._kept} forms take turns", hint
        return None

    def _text(self, why: str, hint: str) -> str:
        then = "" if self._always else ". Calls that find no plan run uncompiled from now on"
        names = ", ".join(dict.fromkeys(self._names))
        error = TraceError(
            "compile",
            f"each call is traced anew: {why}",
            function=self._name,
            **({"changed": names} if names else {}),
            remedy=hint + then,
        )
        return str(error)


def _differing(kept: Sequence[tuple[Any, ...]]) -> list[str]:
    """Which arguments tell signatures apart, where all have the same ones."""
    first = kept[0] if kept else ()
    names: list[Any] = [*range(len(first))]
    if first and type(first[0]) is int:  # how many have no name, then the names of the others
        named = [part for part in first if type(part) is str]
        names = [None, *[None] * len(named), *range(first[0]), *named]
        if any(each[: len(named) + 1] != first[: len(named) + 1] for each in kept):
            return []
    if any(len(each) != len(first) for each in kept):
        return []
    differ = [any(each[k] != part for each in kept) for k, part in enumerate(first)]
    return [f"argument {name}" for name, other in zip(names, differ, strict=False) if other]
