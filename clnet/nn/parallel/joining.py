"""Ranks with unequal numbers of batches: who has none left takes part in others' exchanges."""

from __future__ import annotations

from ...errors import DistributedError, TraceError
from ...ranks.operations import all_reduce
from ...ranks.world import Group
from ...tensor import tensor
from ...values import mode
from ...values.dtypes import int32

__all__ = ["Joining"]


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
