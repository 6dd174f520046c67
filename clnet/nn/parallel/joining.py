"""Ranks with unequal numbers of batches: who has none left takes part in others' exchanges."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ...errors import ArgumentError, DistributedError, TraceError
from ...ranks.operations import all_reduce
from ...ranks.world import Group
from ...tensor import tensor
from ...values import mode
from ...values.dtypes import int32

__all__ = ["Join", "Joining"]


class Joining:
    """Who of a group still has batches, as ranks tell each other at each forward pass.

    Args:
        group: the ranks.
        by_initial: whether gradients are divided by the number of all ranks, else of those that
            have batches.
        throws: whether it is an error that one has none left.

    Attributes:
        root: the first rank of the group that had a batch last.
        factor: what the mean over all ranks is multiplied by.
    """

    def __init__(self, group: Group, *, by_initial: bool, throws: bool) -> None:
        self._group, self._by_initial, self._throws = group, by_initial, throws
        self.root, self.factor = 0, 1.0

    def tell(self, *, goes_on: bool) -> bool:
        """Whether a rank has a batch, by what all say at the same time.

        Args:
            goes_on: whether this one has.

        Raises:
            TraceError: in a function that is compiled.
            DistributedError: if one has none, where that is an error.
        """
        if mode.current().tracer is not None:
            raise TraceError(
                "join",
                "a step that is compiled makes the same exchanges at every call",
                remedy="Wrap the compiled module: DistributedDataParallel(clnet.compile(module))",
            )
        here = self._group.rank()
        flags = tensor([int(goes_on and i == here) for i in range(self._group.size())], dtype=int32)
        all_reduce(flags, group=self._group)
        there = [i for i, flag in enumerate(flags.tolist()) if flag]
        if not there:
            return False
        if self._throws and len(there) < self._group.size():
            raise DistributedError(
                "join",
                "all ranks have as many batches",
                rank=self._group.ranks[here],
                go_on=[self._group.ranks[i] for i in there],
            )
        self.root = there[0]
        self.factor = 1.0 if self._by_initial else self._group.size() / len(there)
        return True


class Join:
    """A block in which ranks may have unequal numbers of batches, of several modules at once.

    Args:
        joinables: modules with a ``join``, such as :class:`.DistributedDataParallel`; their
            optimisers exchange nothing.
        enable: False: nothing is done.
        throw_on_early_termination: whether it is an error, on all ranks, that one has left.
        **given: ``divide_by_initial_world_size``, as for ``join``.

    Raises:
        ArgumentError: for anything else.
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        throw_on_early_termination: bool = False,  # noqa: FBT001, FBT002
        **given: Any,
    ) -> None:
        for each in joinables:
            if not callable(getattr(each, "join", None)):
                law = "joinables are modules that average gradients"
                remedy = "Leave others out; let all ranks have as many batches otherwise"
                raise ArgumentError("Join", law, given=type(each).__name__, remedy=remedy)
        self._joinables = list(joinables)
        self._given = {
            **given,
            "enable": enable,
            "throw_on_early_termination": throw_on_early_termination,
        }
        self._stack = ExitStack()

    def __enter__(self) -> None:
        """Begin, for each of them."""
        with ExitStack() as stack:  # leaves those that were entered if another cannot be
            for each in self._joinables:
                stack.enter_context(each.join(**self._given))
            self._stack = stack.pop_all()

    def __exit__(self, *error: Any) -> bool | None:
        """Take part until no rank has a batch left."""
        return self._stack.__exit__(*error)
