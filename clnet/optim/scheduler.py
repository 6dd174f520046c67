"""Learning-rate schedules in PyTorch's names; they write ``lr`` into the optimiser's groups.

Each is a function of its settings and the number of steps alone (PyTorch's closed forms), so going
on from a state, which holds both, gives the same rates to the last bit. Where something else
has changed a rate (a program, another scheduler), those that PyTorch computes from step to step go
on from there. So do those of :mod:`.combined_scheduler`, which step several.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from numbers import Real
from types import NoneType
from typing import Any, ClassVar

from ..compile.numbers import Slot
from ..errors import ArgumentError, CheckpointError
from ..ops.machinery.function import host_action
from ..values import mode
from ..values.arguments import checked_class, shown
from ..values.containers import ByPosition
from .optimizer import Optimizer
from .rate import rate_of, set_rate
from .restart import begun, made, scheduler_as_it_is


class LRScheduler:
    """Sets the learning rate of every group, at once and again at each :meth:`step`.

    A subclass writes :meth:`rate`, or as for PyTorch ``get_lr()``, that gives the rate of each
    group. The base rate of a group is its ``"initial_lr"``, taken from ``"lr"`` by the first
    scheduler that is given the optimiser.

    Args:
        optimizer: whose rates are set.
        last_epoch: steps that were taken before, less 1.

    Attributes:
        last_epoch: how many steps were taken (epochs or batches, as the caller steps).
        base_lrs: the base rate of each group.
    """

    _clnet_named: ClassVar[frozenset[str]] = frozenset(("last_epoch", "get_last_lr", "_last_lr"))
    """By which compiled functions read numbers that a step sets."""
    _last_lr: list[float]
    _translations: ClassVar[frozenset[str]] = frozenset()
    """PyTorch's names of settings that have others here."""
    _carries = False
    """Whether a rate that something else has set is gone on from, as PyTorch's recursion does."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if cls.__module__.startswith(f"{__package__}."):
            checked_class(cls, later=("last_epoch",))

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.last_epoch = last_epoch + 1
        self._step_count = 1  # rates that programs write ask for it
        self.base_lrs = self._first_rates()
        self._apply_behind()
        self._last_lr = self._rates()
        made(self)

    def _first_rates(self) -> list[float]:
        """The base rate of each group, which stays with it for the next scheduler."""
        groups = self.optimizer.param_groups
        return [float(group.setdefault("initial_lr", rate_of(group))) for group in groups]

    def _apply_behind(self) -> None:
        """Set the rates, going on from those that another scheduler has left."""
        groups = self.optimizer.param_groups
        found = [rate_of(group) for group in groups]
        self._apply()
        if not self._carries or self._written():
            return
        for group, base, rate in zip(groups, self.base_lrs, found, strict=True):
            if isinstance(rate, float | int) and rate != base:  # another scheduler's
                set_rate(group, rate * rate_of(group) / base if base else rate)

    def _take_last_epoch(self, last_epoch: int) -> None:
        """Go on behind so many steps, as PyTorch's ``last_epoch``; -1: from the start.

        Raises:
            ArgumentError: if it is below -1.
        """
        if last_epoch < -1:
            law = "last_epoch is -1 or more"
            raise ArgumentError(type(self).__name__, law, last_epoch=last_epoch)
        if last_epoch >= 0:
            self.last_epoch = last_epoch + 1
            self._apply()

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """The learning rate of a group after so many steps.

        Args:
            base_lr: the group's base rate.
            steps: steps taken so far.
            group: its position in ``param_groups``.
        """
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rate of each group at ``last_epoch``."""
        return [self.rate(b, self.last_epoch, i) for i, b in enumerate(self.base_lrs)]

    def step(self, epoch: int | None = None) -> None:
        """Go one step further; called after the optimiser's step, once an epoch or once a batch.

        In a function that ``clnet.compile`` traces it does so at every call.

        Args:
            epoch: go there instead.
        """
        self._act(lambda: self._go_on(epoch))

    def _act(self, action: Callable[[], None]) -> None:
        """Take a step, at every replay of what is traced; for subclasses."""
        begun(self, scheduler_as_it_is)
        host_action(action, changes=self)
        tracer = mode.current().tracer
        if tracer is not None:
            groups = self.optimizer.param_groups
            rates = ((Slot(g, key), partial(g.get, key)) for g in groups for key in g)
            tracer.numbers.set_later((*rates, *self._clnet_numbers()))

    def _clnet_numbers(self) -> Iterator[tuple[Slot, Callable[[], Any]]]:
        """Where numbers lie that a step sets, those of groups apart, and what reads them later."""
        for name in ("last_epoch", "_step_count"):
            yield Slot(vars(self), name), partial(getattr, self, name)
        for k in range(len(self._last_lr)):  # another list at each step
            yield Slot(self._last_lr, k), partial(self._last_of, k)

    def _last_of(self, group: int) -> float:
        return self._last_lr[group]

    def _go_on(self, epoch: int | None) -> None:
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", True):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in "
                "the opposite order: the first value of the schedule is skipped",  # as PyTorch
                UserWarning,
                stacklevel=4,
            )
        self._meet_groups()
        changed = {} if epoch is not None else self._changed()
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._apply()
        for k, (found, before) in changed.items():
            group = self.optimizer.param_groups[k]
            set_rate(group, self.carried(found, before, rate_of(group), k))
        self._last_lr = self._rates()

    def _meet_groups(self) -> None:
        """Take groups in that the optimiser was given later: their rates go on from what they are.

        Raises:
            ArgumentError: if the schedule has numbers or functions for each group, or sets rates
                whatever they are.
        """
        new = self.optimizer.param_groups[len(self.base_lrs) :]
        if not new or self._written():
            return
        if not self._carries or "lr_lambdas" in vars(self):
            hint = "Add groups before the scheduler is made"
            law = "its groups are those that it was made with"
            raise ArgumentError(type(self).__name__, law, remedy=hint)
        self.base_lrs += [float(rate_of(group)) for group in new]

    def _step_as_part(self) -> None:
        """:meth:`step` of another scheduler's part, whose step is a host action already."""
        if type(self).step is LRScheduler.step:
            self._go_on(None)
        else:
            self.step()

    def _changed(self) -> dict[int, tuple[float, float]]:
        """Of groups that something else has given another rate: that rate, and the scheduler's."""
        if not self._carries or self._written():
            return {}
        found = [rate_of(group) for group in self.optimizer.param_groups]
        pairs = enumerate(zip(found, self.get_lr(), strict=True))
        return {
            k: pair for k, pair in pairs if isinstance(pair[0], float | int) and pair[0] != pair[1]
        }

    def carried(self, found: float, before: float, rate: float, group: int) -> float:
        """The rate to go on with where another one than the scheduler's was found.

        Args:
            found: the rate as it stands.
            before: what the scheduler would have made it at the last step.
            rate: what it makes it now.
            group: its position in ``param_groups``.

        Returns:
            ``found``, changed by the same factor.
        """
        return found * rate / before if before else rate or found

    def get_last_lr(self) -> list[float]:
        """The rate of each group as this scheduler, or its state, set it last."""
        return [*self._last_lr]

    def _rates(self) -> list[float]:
        """The rate of each group just now."""
        return [rate_of(group) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Steps taken, base rates and settings, but for functions, which are not kept; PyTorch's.

        Of one that a program wrote: all its attributes but the optimiser.
        """
        if self._written():
            return {k: v for k, v in vars(self).items() if k != "optimizer"}
        state = settings_of(self)
        if inner := vars(self).get("schedulers"):
            state["_schedulers"] = [scheduler.state_dict() for scheduler in inner]
        # PyTorch's, which it looks up as it goes on.
        state |= {"_step_count": self._step_count, "_last_lr": self._rates()}
        return state | {"_is_initial": False, "_get_lr_called_within_step": False}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave; the optimiser's rates are set accordingly.

        Settings that the state has take the place of those the scheduler was built with. A state of
        PyTorch's scheduler of the same name is taken, too.

        Raises:
            CheckpointError: if it is no such state, or has another number of groups or schedulers.
        """
        if self._written():
            vars(self).update(state)
            for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
                set_rate(group, rate)
            return
        inner: Sequence[LRScheduler] = vars(self).get("schedulers", ())
        self._require(state, len(inner))
        for scheduler, own in zip(inner, state.get("_schedulers", ()), strict=False):
            scheduler.load_state_dict(own)
        if "last_epoch" not in state:  # PyTorch's chain counts in its parts
            state = {**state, "last_epoch": inner[0].last_epoch}
        take_settings(self, self._translated(state))
        self._step_count = state.get("_step_count", self.last_epoch + 1)
        self._apply()
        for k, rate in enumerate(state.get("_last_lr", ())):
            set_rate(self.optimizer.param_groups[k], float(rate))
        self._last_lr = self._rates()

    def _require(self, state: Mapping[str, Any], schedulers: int) -> None:
        """Refuse a state that is none, before anything is changed."""
        name, groups = type(self).__name__, len(self.optimizer.param_groups)
        several = isinstance(state, Mapping) and "_schedulers" in state
        needed = {"_schedulers"} if several else {"last_epoch", "base_lrs"}
        require_state(name, state, needed, PYTORCHS | self._translations | set(settings_of(self)))
        for key in ("base_lrs", "max_lrs", "_last_lr"):
            given = state.get(key, [0.0] * groups)
            if not _fits(given, [0.0]) or len(given) != groups:
                law = "the state has other groups"
                raise CheckpointError(name, law, state=shown(given), groups=groups)
        parts = state.get("_schedulers", [{}] * schedulers)
        if not isinstance(parts, Sequence) or len(parts) != schedulers:
            law = "the state has other schedulers"
            raise CheckpointError(name, law, state=shown(parts), schedulers=schedulers)

    def _translated(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """A state whose settings have the names of ours, if PyTorch calls some otherwise."""
        return state

    def _written(self) -> bool:
        """Whether a program wrote it, with ``get_lr``."""
        return type(self).get_lr is not LRScheduler.get_lr

    def _apply(self) -> None:
        groups = self.optimizer.param_groups
        try:
            rates = self.get_lr()
        except OverflowError:
            raise ArgumentError(
                type(self).__name__,
                "a rate is a number that a float holds",
                base_lrs=self.base_lrs,
                last_epoch=self.last_epoch,
                remedy="Use another factor or power",
            ) from None
        for group, rate in zip(groups, rates, strict=True):
            set_rate(group, rate)


_LRScheduler = LRScheduler  # PyTorch's older name

PYTORCHS = frozenset("verbose T_cur T_i use_beta1 mode_worse default_min_lr lr_lambdas".split())
"""What PyTorch's states have beside: it follows from the rest, or is a function."""


def require_state(name: str, state: Any, needed: Set[str], known: Set[str]) -> None:
    """Refuse what is not the state of such a scheduler.

    Args:
        name: the scheduler's.
        state: what was given.
        needed: names that a state has.
        known: those that it may have, beside private ones.

    Raises:
        CheckpointError: if a name is missing, or is one of another scheduler's.
    """
    law, hint = "not a scheduler's state", "Pass what state_dict() gave"
    if not isinstance(state, Mapping):
        raise CheckpointError(name, law, type=type(state).__name__, remedy=hint)
    others = {k for k in state if not k.startswith("_")} - known
    if not needed <= set(state) or others:
        raise CheckpointError(name, law, keys=sorted(state), remedy=hint)


def settings_of(scheduler: Any) -> dict[str, Any]:
    """The numbers, words and lists of them that a scheduler has by name."""
    plain = bool | int | float | str | list | tuple | NoneType
    return {
        k: list(v) if isinstance(v, tuple | list) else v
        for k, v in vars(scheduler).items()
        if isinstance(v, plain) and not k.startswith("_") and k not in ("schedulers", "lr_lambdas")
    }


def take_settings(scheduler: Any, state: Mapping[str, Any]) -> None:
    """Give a scheduler those of its settings that a state has.

    Raises:
        CheckpointError: if one is of another kind than the scheduler's; nothing is changed then.
    """
    own = settings_of(scheduler)
    taken = {key: state[key] for key in own.keys() & state.keys()}
    wrong = {key: shown(value) for key, value in taken.items() if not _fits(value, own[key])}
    if wrong:
        raise CheckpointError(type(scheduler).__name__, "a setting is of another kind", **wrong)
    for key, value in taken.items():
        setattr(scheduler, key, list(value) if isinstance(value, tuple | list) else value)


def _fits(value: Any, like: Any) -> bool:
    """Whether a setting can take the place of another: numbers, words, or lists of them."""
    if like is None or value is None:
        return like is None
    if isinstance(like, list):
        several = isinstance(value, tuple | list)
        return several and (not like or all(_fits(v, like[0]) for v in value))
    return isinstance(value, str if isinstance(like, str) else Real)


def for_each_group(name: str, groups: Sequence[Any], value: float | Sequence[float]) -> list[float]:
    """A number for each group: the same, or its own.

    Raises:
        ArgumentError: if there are numbers, but not as many as groups.
    """
    if not isinstance(value, Sequence):
        return [float(value)] * len(groups)
    if len(value) != len(groups):
        raise ArgumentError(
            name, "there is a number for each group", numbers=len(value), groups=len(groups)
        )
    return [float(v) for v in value]


class StepLR(LRScheduler):
    """``lr = base * gamma ** (steps // step_size)``.

    Args:
        optimizer: whose rates are set.
        step_size: steps from one drop to the next, 1 or more. Of a fraction, those of its multiples
            count that are whole: of 1.5 a drop comes every 3 steps, as in PyTorch.
        gamma: the factor of a drop.

    Raises:
        ArgumentError: if ``step_size`` is below 1.
    """

    _carries = True

    def __init__(self, optimizer: Optimizer, step_size: float, gamma: float = 0.1) -> None:
        if not step_size >= 1:
            raise ArgumentError("StepLR", "step_size is 1 or more", step_size=step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """A drop every ``step_size`` steps."""
        # Of p / q, the least multiple that is whole is p.
        size = self.step_size
        apart = math.inf if math.isinf(size) else size.as_integer_ratio()[0]
        return base_lr * self.gamma ** (steps // apart)


class MultiStepLR(LRScheduler):
    """``lr = base * gamma ** (milestones passed)``.

    Args:
        optimizer: whose rates are set.
        milestones: steps at which the rate drops.
        gamma: the factor of a drop.
    """

    _carries = True

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[float], gamma: float = 0.1
    ) -> None:
        self.milestones = sorted(  # others are never met
            m for m in milestones if m >= 0 and m % 1 == 0
        )
        self.gamma = gamma
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """As every scheduler's; milestones are counted, as PyTorch's are."""
        return {**super().state_dict(), "milestones": ByPosition(Counter(self.milestones))}

    def _translated(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        found = state.get("milestones")
        if not isinstance(found, Mapping):
            return state
        # PyTorch counts how often there is each.
        return {**state, "milestones": sorted(int(m) for m, n in found.items() for _ in range(n))}

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """A drop at each milestone."""
        return base_lr * self.gamma ** bisect_right(self.milestones, steps)


class ExponentialLR(LRScheduler):
    """``lr = base * gamma ** steps``.

    Args:
        optimizer: whose rates are set.
        gamma: the factor of each step.
    """

    _carries = True

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """Smaller by the same factor at every step."""
        return base_lr * self.gamma**steps


class CosineAnnealingLR(LRScheduler):
    """``lr = eta_min + (base - eta_min) * (1 + cos(pi * steps / T_max)) / 2``.

    Args:
        optimizer: whose rates are set.
        T_max: steps from the base rate to the lowest, 1 or more.
        eta_min: the lowest rate.

    Raises:
        ArgumentError: if ``T_max`` is below 1.
    """

    _carries = True

    def __init__(self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0) -> None:  # noqa: N803 - PyTorch's name
        if not T_max >= 1:
            raise ArgumentError("CosineAnnealingLR", "T_max is 1 or more", T_max=T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """Half a cosine down; going on, half a cosine up."""
        height = (1 + math.cos(math.pi * steps / self.T_max)) / 2
        return self.eta_min + (base_lr - self.eta_min) * height

    def carried(self, found: float, before: float, rate: float, group: int) -> float:
        """Its distance from the lowest rate is changed by the same factor."""
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # there it is 0
            return found + rate - self.eta_min
        height, above = (
            1 + math.cos(math.pi * steps / self.T_max)
            for steps in (self.last_epoch, self.last_epoch - 1)
        )
        return self.eta_min + (found - self.eta_min) * height / above


class LinearLR(LRScheduler):
    """From ``base * start_factor`` to ``base * end_factor`` in a straight line: a warm-up.

    Args:
        optimizer: whose rates are set.
        start_factor: at the start, in (0, 1].
        end_factor: at the end and afterwards, in [0, 1].
        total_iters: steps from start to end, 0 or more; below 1 the rate stays at the start, as
            PyTorch's does.

    Raises:
        ArgumentError: if an argument is out of range.
    """

    _carries = True

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: float = 5,
    ) -> None:
        if not (0 < start_factor <= 1 and 0 <= end_factor <= 1 and total_iters >= 0):
            raise ArgumentError(
                "LinearLR",
                "start_factor lies in (0, 1], end_factor in [0, 1], total_iters is 0 or more",
                start_factor=start_factor,
                end_factor=end_factor,
                total_iters=total_iters,
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """A straight line, then level."""
        whole = int(self.total_iters)
        done = min(steps, whole) / self.total_iters if whole else 0
        return base_lr * (self.start_factor + (self.end_factor - self.start_factor) * done)
