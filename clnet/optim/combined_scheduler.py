"""Schedules made of others: one after another, or all at once.

They step their parts, as PyTorch's do, so what a part does beside (a momentum that it cycles, rates
that a program wrote) is done, and each part knows how far it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ArgumentError
from .cyclic_scheduler import ReduceLROnPlateau
from .optimizer import Optimizer
from .rate import rate_of, set_rate
from .scheduler import LRScheduler


def _checked(name: str, optimizer: Any, schedulers: Sequence[LRScheduler]) -> list[LRScheduler]:
    """The parts of a schedule of an optimiser.

    Raises:
        ArgumentError: if there is none, one is another optimiser's, or needs a metric.
    """
    if not schedulers or any(s.optimizer is not optimizer for s in schedulers):
        law = "there are schedulers, all of the same optimiser"
        raise ArgumentError(name, law, schedulers=len(schedulers))
    if any(isinstance(s, ReduceLROnPlateau) for s in schedulers):
        hint = "Step ReduceLROnPlateau beside it"
        raise ArgumentError(name, "no scheduler needs a metric", remedy=hint)
    return list(schedulers)


class SequentialLR(LRScheduler):
    """One scheduler after another; each counts its steps from the milestone where it begins.

    Args:
        optimizer: whose rates are set.
        schedulers: of the same optimiser; only the sequence is stepped.
        milestones: the step at which the second, third, ... begins, ascending.

    Raises:
        ArgumentError: if the numbers do not fit, a scheduler is of another optimiser, or one needs
            a metric.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]
    ) -> None:
        if len(milestones) != len(schedulers) - 1 or sorted(milestones) != list(milestones):
            raise ArgumentError(
                "SequentialLR",
                "there is an ascending milestone between each two schedulers",
                schedulers=len(schedulers),
                milestones=list(milestones),
            )
        self.schedulers = _checked("SequentialLR", optimizer, schedulers)
        self.milestones = list(milestones)
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """What the scheduler whose turn it is has set."""
        return rate_of(self.optimizer.param_groups[group])

    def _turn(self) -> tuple[LRScheduler, int]:
        """Whose turn it is, and the steps since it began."""
        turn = bisect_right(self.milestones, self.last_epoch)
        begin = max(self.milestones[turn - 1], 0) if turn else 0
        return self.schedulers[turn], self.last_epoch - begin

    def _go_on(self, epoch: int | None) -> None:
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        scheduler, steps = self._turn()
        if steps == 0 or epoch is not None:
            scheduler._go_on(steps)
        else:
            scheduler._step_as_part()
        self._last_lr = self._rates()

    def _apply(self) -> None:
        # The rates that the schedulers set as they were made are the first ones again.
        for group in self.optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        scheduler, scheduler.last_epoch = self._turn()
        scheduler._apply_behind()

    def _translated(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        found = state.get("_milestones", state.get("milestones", self.milestones))
        return {**state, "milestones": found}


class ChainedScheduler(LRScheduler):
    """Several schedulers at once, each stepped behind the one before.

    So the rate is the base rate times the factor of each, but for those that set it whatever it
    was: LambdaLR, cycles, and what programs write.

    Args:
        schedulers: of one optimiser; only the chain is stepped.
        optimizer: that optimiser; None: the first's.

    Raises:
        ArgumentError: if there is none, they are of several optimisers, or one needs a metric.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        own = schedulers[0].optimizer if schedulers and optimizer is None else optimizer
        self.schedulers = _checked("ChainedScheduler", own, schedulers)
        super().__init__(self.schedulers[0].optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """What the last one has set."""
        return rate_of(self.optimizer.param_groups[group])

    def _go_on(self, epoch: int | None) -> None:
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for scheduler in self.schedulers:
            if epoch is None:
                scheduler._step_as_part()
            else:
                scheduler._go_on(epoch)
        self._last_lr = self._rates()

    def _apply(self) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            set_rate(group, base)
        for scheduler in self.schedulers:
            if self.last_epoch:  # not while it is made: schedulers may have gone on before
                scheduler.last_epoch = self.last_epoch
            scheduler._apply_behind()
