"""Cyclic schedules, schedules of one cycle, and those that watch a metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, CheckpointError
from .optimizer import Group, Optimizer
from .rate import rate_of, set_rate
from .scheduler import (
    PYTORCHS,
    LRScheduler,
    for_each_group,
    require_state,
    settings_of,
    take_settings,
)


class ConstantLR(LRScheduler):
    """``base * factor`` for the first steps, then the base rate.

    Args:
        optimizer: whose rates are set.
        factor: in [0, 1].
        total_iters: steps at the smaller rate. A number that no step meets (0, or a fraction) makes
            it stay, as PyTorch's does.

    Raises:
        ArgumentError: if ``factor`` lies outside.
    """

    _carries = True

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: float = 5) -> None:
        if not 0 <= factor <= 1:
            raise ArgumentError("ConstantLR", "factor lies in [0, 1]", factor=factor)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """One step up, at the step that is ``total_iters``."""
        met = self.total_iters > 0 and self.total_iters % 1 == 0
        return base_lr * (1.0 if met and steps >= self.total_iters else self.factor)


class PolynomialLR(LRScheduler):
    """``base * (1 - steps / total_iters) ** power``, then 0.

    Args:
        optimizer: whose rates are set.
        total_iters: steps to 0, 0 or more; below 1 the rate stays, as PyTorch's does.
        power: of the polynomial.

    Raises:
        ArgumentError: if ``total_iters`` is below 0.
    """

    _carries = True

    def __init__(self, optimizer: Optimizer, total_iters: float = 5, power: float = 1.0) -> None:
        if not total_iters >= 0:
            raise ArgumentError("PolynomialLR", "total_iters is 0 or more", total_iters=total_iters)
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """Down to 0."""
        if self.total_iters < 1:
            return base_lr
        return base_lr * (1 - min(steps, int(self.total_iters)) / self.total_iters) ** self.power


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines down, each followed by a jump to the base rate (Loshchilov, Hutter 2017).

    Args:
        optimizer: whose rates are set.
        T_0: steps of the first, 1 or more.
        T_mult: each is so many times as long as the one before, 1 or more.
        eta_min: the lowest rate.

    Raises:
        ArgumentError: if ``T_0`` or ``T_mult`` is below 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - PyTorch's
        T_mult: int = 1,  # noqa: N803 - PyTorch's
        eta_min: float = 0.0,
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ArgumentError(
                "CosineAnnealingWarmRestarts",
                "T_0 and T_mult are 1 or more",
                T_0=T_0,
                T_mult=T_mult,
            )
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self._beyond = 0.0  # the part of a step that lies behind last_epoch
        super().__init__(optimizer)

    def step(self, epoch: float | None = None) -> None:
        """As every scheduler's; the step to go to may have a fraction: ``epoch + batch / batches``.

        Raises:
            ArgumentError: if it is below 0.
        """
        if epoch is not None and not epoch >= 0:
            raise ArgumentError("CosineAnnealingWarmRestarts", "epoch is 0 or more", epoch=epoch)
        self._act(lambda: self._go_to(epoch))

    def _go_to(self, epoch: float | None) -> None:
        if epoch is None:
            self._go_on(None)
            return
        whole = math.floor(epoch)
        self._beyond = epoch - whole
        self._go_on(whole)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        within = state.get("T_cur", 0)  # jumps come at whole steps
        self._beyond = within % 1 if isinstance(within, float) else 0.0

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """Where in its cosine the step lies."""
        within, length = self._cosine(steps + self._beyond)
        height = (1 + math.cos(math.pi * within / length)) / 2
        return self.eta_min + (base_lr - self.eta_min) * height

    def _cosine(self, steps: float) -> tuple[float, int]:
        """How far into its cosine a step is, and how long that is."""
        length = self.T_0
        while steps >= length:
            steps -= length
            length *= self.T_mult
        return steps, length

    def state_dict(self) -> dict[str, Any]:
        """As every scheduler's, with the place in the cosine, as PyTorch's."""
        return {**super().state_dict(), "T_cur": self.T_cur, "T_i": self.T_i}

    @property
    def T_cur(self) -> float:  # noqa: N802 - PyTorch's
        """Steps since the last jump."""
        within = self._cosine(self.last_epoch + self._beyond)[0]
        return within if self._beyond else int(within)

    @property
    def T_i(self) -> int:  # noqa: N802 - PyTorch's
        """Steps from that jump to the next."""
        return self._cosine(self.last_epoch)[1]


class CyclicLR(LRScheduler):
    """From ``base_lr`` to ``max_lr`` and back in straight lines, again and again (Smith 2017).

    Args:
        optimizer: whose rates are set.
        base_lr: the lowest rate, one for all groups or one for each.
        max_lr: the highest rate, the same.
        step_size_up: steps up.
        step_size_down: steps down; None: as many.
        mode: ``"triangular"``, ``"triangular2"`` (each cycle half as high as the last) or
            ``"exp_range"`` (as high as ``gamma ** steps``).
        gamma: for ``"exp_range"``.
        scale_fn: in the place of ``mode``: how high a cycle is, of 1.
        scale_mode: what ``scale_fn`` is given: the ``"cycle"``, from 1, or the ``"iterations"``.
        cycle_momentum: let the momentum go the other way.
        base_momentum: its lowest value, one for all groups or one for each.
        max_momentum: its highest value, the same.

    Raises:
        ArgumentError: if a setting is no good, or momentum is cycled where there is none.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: float = 2000,
        step_size_down: float | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        *,
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
    ) -> None:
        if scale_mode not in ("cycle", "iterations"):
            law = "scale_mode is cycle or iterations"
            raise ArgumentError("CyclicLR", law, scale_mode=repr(scale_mode))
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(
                "CyclicLR", "mode is triangular, triangular2 or exp_range", mode=repr(mode)
            )
        groups = optimizer.param_groups
        lows, self.max_lrs = (for_each_group("CyclicLR", groups, v) for v in (base_lr, max_lr))
        if cycle_momentum:
            _require_momentum("CyclicLR", groups)
        self.up = float(step_size_up)
        self.length = self.up + (step_size_up if step_size_down is None else step_size_down)
        if not self.up > 0 or not self.length >= self.up:
            law = "step_size_up is above 0, step_size_down 0 or more"
            raise ArgumentError(
                "CyclicLR", law, step_size_up=step_size_up, step_size_down=step_size_down
            )
        self.mode = mode
        self.gamma = gamma
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        self.momenta = [
            for_each_group("CyclicLR", groups, v) for v in (base_momentum, max_momentum)
        ]
        self._lows = lows
        super().__init__(optimizer)

    def _first_rates(self) -> list[float]:
        """The lowest ones; the base rate of a scheduler that was there before stays."""
        for group, low in zip(self.optimizer.param_groups, self._lows, strict=True):
            group.setdefault("initial_lr", low)
        return list(self._lows)

    _translations = frozenset({"total_size", "step_ratio", "base_momentums", "max_momentums"})

    def _translated(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        if "total_size" not in state:
            return state
        length, lows = state["total_size"], state.get("base_momentums")
        theirs: dict[str, Any] = {"length": length, "up": length * state["step_ratio"]}
        if lows:
            theirs["momenta"] = [lows, state["max_momentums"]]
        return {**state, **theirs}

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """Where in its cycle the step lies."""
        return base_lr + (self.max_lrs[group] - base_lr) * self._height(steps)

    def _height(self, steps: int) -> float:
        cycle = steps // self.length
        done = steps / self.length - cycle
        share = self.up / self.length
        height = done / share if done <= share else (1 - done) / (1 - share)
        if self.scale_fn is not None:
            return height * self.scale_fn(cycle + 1 if self.scale_mode == "cycle" else steps)
        if self.mode == "triangular2":
            return height / 2**cycle
        return height * self.gamma**steps if self.mode == "exp_range" else height

    def _apply(self) -> None:
        super()._apply()
        if self.cycle_momentum:
            height = self._height(self.last_epoch)
            for k, group in enumerate(self.optimizer.param_groups):
                low, high = _of_group(self.momenta, k)
                _set_momentum(group, high - (high - low) * height)


class OneCycleLR(LRScheduler):
    """Up to ``max_lr``, then down to almost nothing (Smith, Topin 2019).

    Args:
        optimizer: whose rates are set.
        max_lr: the highest rate, one for all groups or one for each.
        total_steps: of the cycle, or None: ``epochs * steps_per_epoch``.
        epochs: see ``total_steps``.
        steps_per_epoch: see ``total_steps``.
        pct_start: share of the steps in which the rate rises, in [0, 1].
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: let the momentum go the other way.
        base_momentum: its lowest value.
        max_momentum: its highest value.
        div_factor: the first rate is ``max_lr / div_factor``.
        final_div_factor: the last one is the first over this.
        three_phase: fall as fast as the rate rose, then on to the last.

    Raises:
        ArgumentError: if a setting is no good, momentum is cycled where there is none, or the
            schedule is stepped beyond its end.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        *,
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        total = total_steps if total_steps is not None else (epochs or 0) * (steps_per_epoch or 0)
        if total < 1 or not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                "OneCycleLR",
                "there are steps, pct_start lies in [0, 1], anneal_strategy is cos or linear",
                total_steps=total,
                pct_start=pct_start,
                anneal_strategy=repr(anneal_strategy),
            )
        if not div_factor > 0 or not final_div_factor > 0:
            raise ArgumentError(
                "OneCycleLR",
                "rates are divided by what is above 0",
                div_factor=div_factor,
                final_div_factor=final_div_factor,
            )
        groups = optimizer.param_groups
        if cycle_momentum:
            _require_momentum("OneCycleLR", groups)
        self.total_steps = total
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.final_div_factor = final_div_factor
        self.max_lrs = for_each_group("OneCycleLR", groups, max_lr)
        rise = pct_start * total - 1
        self.ends = [rise, 2 * pct_start * total - 2] if three_phase else [rise]
        self.ends.append(total - 1)
        low, high = (for_each_group("OneCycleLR", groups, v) for v in (base_momentum, max_momentum))
        self.momenta = [high, low, high, *[high] * three_phase]
        for k, (group, highest) in enumerate(zip(groups, self.max_lrs, strict=True)):
            group["initial_lr"] = highest / div_factor
            group["max_lr"], group["min_lr"] = highest, group["initial_lr"] / final_div_factor
            if cycle_momentum:
                group["max_momentum"], group["base_momentum"] = high[k], low[k]
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """As every scheduler's, with PyTorch's words for the phases."""
        rates = ["initial_lr", "max_lr", "min_lr"]
        momenta = ["max_momentum", "base_momentum", "max_momentum"]
        if len(self.ends) == 3:
            rates, momenta = [*rates[:2], *rates[::2]], [*momenta, "max_momentum"]
        phases = [
            {
                "end_step": end,
                "start_lr": rates[k],
                "end_lr": rates[k + 1],
                "start_momentum": momenta[k],
                "end_momentum": momenta[k + 1],
            }
            for k, end in enumerate(self.ends)
        ]
        theirs = {"_schedule_phases": phases, "_anneal_func_type": self.anneal_strategy}
        return {**super().state_dict(), **theirs, "use_beta1": self._with_beta1()}

    def _with_beta1(self) -> bool:
        return self.cycle_momentum and "betas" in self.optimizer.param_groups[0]

    def _translated(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        if "_schedule_phases" not in state or "ends" in state:
            return state
        # PyTorch keeps the highest and the lowest rate in the optimiser's groups.
        ends = [phase["end_step"] for phase in state["_schedule_phases"]]
        groups = self.optimizer.param_groups
        highest = [
            group.get("max_lr", own) for group, own in zip(groups, self.max_lrs, strict=True)
        ]
        theirs = {"ends": ends, "anneal_strategy": state["_anneal_func_type"], "max_lrs": highest}
        if "min_lr" in groups[0]:
            theirs["final_div_factor"] = state["base_lrs"][0] / groups[0]["min_lr"]
        return {**state, **theirs}

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """Up, then down."""
        last = base_lr / self.final_div_factor
        falls = [last] if len(self.ends) == 2 else [base_lr, last]
        return self._between([base_lr, self.max_lrs[group], *falls], steps)

    def _between(self, values: Sequence[float], steps: int) -> float:
        """On the way from value to value, each reached where its phase ends."""
        if steps > self.total_steps:  # one beyond the end is let pass, as in PyTorch
            counts = {"steps": steps, "total_steps": self.total_steps}
            hint = "Give it total_steps of the whole training"
            raise ArgumentError("OneCycleLR", "it has no more steps", **counts, remedy=hint)
        phase = next(i for i, end in enumerate(self.ends) if steps <= end or end == self.ends[-1])
        begin = self.ends[phase - 1] if phase else 0.0
        done = (steps - begin) / (self.ends[phase] - begin) if self.ends[phase] != begin else 1.0
        a, b = values[phase], values[phase + 1]
        if self.anneal_strategy == "linear":
            return a + (b - a) * done
        return b + (a - b) / 2 * (1 + math.cos(math.pi * done))

    def _apply(self) -> None:
        super()._apply()
        if self.cycle_momentum:
            for k, group in enumerate(self.optimizer.param_groups):
                momenta = _of_group(self.momenta, k)
                _set_momentum(group, self._between(momenta, self.last_epoch))


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by ``factor`` when a metric has stopped to improve.

    Args:
        optimizer: whose rates are set.
        mode: ``"min"`` or ``"max"``: where better lies.
        factor: below 1.
        patience: steps without improvement that are let pass.
        threshold: what counts as an improvement.
        threshold_mode: ``"rel"``: as a share of the best so far; ``"abs"``.
        cooldown: steps after a reduction in which none are counted.
        min_lr: rates do not go below, one for all groups or one for each.
        eps: smaller changes are not made.

    Raises:
        ArgumentError: if a setting is no good.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        modes = mode in ("min", "max") and threshold_mode in ("rel", "abs")
        if factor >= 1 or not modes:
            raise ArgumentError(
                "ReduceLROnPlateau",
                "factor is below 1, mode min or max, threshold_mode rel or abs",
                factor=factor,
                mode=repr(mode),
                threshold_mode=repr(threshold_mode),
            )
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = for_each_group("ReduceLROnPlateau", optimizer.param_groups, min_lr)
        # Groups that are added later get it; where there was one for each, none is known.
        self._default_min_lr = None if isinstance(min_lr, Sequence) else float(min_lr)
        self.eps = eps
        self.last_epoch = 0
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self._last_lr = self._rates()

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Note a metric, a number or a tensor of one element (which waits for the device).

        Args:
            metrics: the metric.
            epoch: count on from there.

        Raises:
            ArgumentError: if a group was added behind lowest rates given for each.
        """
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    @property
    def in_cooldown(self) -> bool:
        """Whether a rate was reduced so lately that no steps are counted."""
        return self.cooldown_counter > 0

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(self.min_lrs) < len(groups) and self._default_min_lr is not None:
            self.min_lrs = [self._default_min_lr] * len(groups)
        least_of_each = for_each_group("ReduceLROnPlateau", groups, self.min_lrs)
        for group, least in zip(groups, least_of_each, strict=True):
            reduced = max(rate_of(group) * self.factor, least)
            if rate_of(group) - reduced > self.eps:
                set_rate(group, reduced)

    def state_dict(self) -> dict[str, Any]:
        """What was seen so far, and the settings, with what PyTorch's has beside."""
        worse = math.inf if self.mode == "min" else -math.inf
        beside = {"default_min_lr": self._default_min_lr, "mode_worse": worse}
        return {**settings_of(self), **beside, "_last_lr": self._rates()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave, or that of PyTorch's.

        Raises:
            CheckpointError: if it is no such state, or has another number of groups.
        """
        name, groups = "ReduceLROnPlateau", len(self.optimizer.param_groups)
        require_state(name, state, _PLATEAU_STATE, PYTORCHS | set(settings_of(self)))
        if len(state.get("min_lrs", range(groups))) != groups:
            law = "the state has other groups"
            raise CheckpointError(name, law, state=len(state["min_lrs"]), groups=groups)
        take_settings(self, state)
        self._default_min_lr = state.get("default_min_lr", self._default_min_lr)

    def _better(self, current: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * current > sign * (self.best * (1 + sign * self.threshold))
        return sign * current > sign * (self.best + sign * self.threshold)


_PLATEAU_STATE = {"last_epoch", "best", "num_bad_epochs", "cooldown_counter"}


def _require_momentum(name: str, groups: Sequence[Group]) -> None:
    if any("betas" not in group and "momentum" not in group for group in groups):
        raise ArgumentError(
            name, "the optimiser has a momentum", remedy="Pass cycle_momentum=False"
        )


def _of_group(momenta: Sequence[Any], group: int) -> list[float]:
    """One group's, of states that have a list for each momentum, or one number for all groups."""
    return [m[group] if isinstance(m, Sequence) else m for m in momenta]


def _set_momentum(group: Group, momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
