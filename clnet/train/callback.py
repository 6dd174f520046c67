"""What looks on at a training: it may measure and write down, and changes nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..device import PHASES, Recorder
from ..errors import ArgumentError
from ..profiling.exchanges import hidden_seconds
from ..tensor import Tensor
from ..values.exchanges import observed_exchanges

if TYPE_CHECKING:
    from .trainer import Trainer


@dataclass(frozen=True)
class StepFigures:
    """What a training step measured.

    Attributes:
        step: its number, the first is 1.
        values: loss and metrics of its batch.
        lr: the learning rate of the optimiser's first group.
    """

    step: int
    values: Mapping[str, float]
    lr: float


class Callback:
    """The base of what :class:`~clnet.train.Trainer` calls; its methods do nothing."""

    def around_step(
        self, trainer: Trainer, inputs: Tensor, targets: Tensor
    ) -> AbstractContextManager[None]:
        """Entered before a training step on a batch, left when it was enqueued."""
        return nullcontext()

    def read_steps(self, trainer: Trainer, steps: Sequence[StepFigures]) -> None:
        """Called a few times a second with the steps whose figures were read from the device.

        Args:
            trainer: whose steps they are.
            steps: in order; each comes once.
        """

    def measure(self, trainer: Trainer, measured: Mapping[str, float]) -> Mapping[str, float]:
        """Further figures of the epoch that ends, for its entry of the history.

        Args:
            trainer: whose epoch it is.
            measured: what was measured so far: losses and metrics.
        """
        return {}

    def end_epoch(self, trainer: Trainer, epoch: Mapping[str, float]) -> None:
        """Called with the entry of an epoch that has ended."""


@dataclass(frozen=True)
class StepTime:
    """Device milliseconds of one training step, by phase.

    Attributes:
        step: its number, the first is 1.
        forward, backward, update: milliseconds of kernels and copies.
        exchange: milliseconds of exchanges with other ranks.
        hidden: of them those in which the device computed.
    """

    step: int
    forward: float
    backward: float
    update: float
    exchange: float = 0.0
    hidden: float = 0.0

    @property
    def exchange_share(self) -> float:
        """Of the step's time: exchanges during which the device does not compute."""
        alone = self.exchange - self.hidden
        return alone / ((self.forward + self.backward + self.update + alone) or 1.0)

    def __str__(self) -> str:
        told = (
            f"step {self.step}: forward {self.forward:.2f} ms, backward {self.backward:.2f} ms, "
            f"update {self.update:.2f} ms"
        )
        if self.exchange:
            told += (
                f", exchange {self.exchange:.2f} ms ({self.hidden:.2f} beside kernels; "
                f"{self.exchange_share:.0%} of the step)"
            )
        return told


class StepTimes(Callback):
    """Splits the device's time of training steps into forward, backward and update.

    A step that is measured waits for the device before and after it; its wall time is no measure.
    An epoch's entry gets the means, ``"forward_ms"``, ``"backward_ms"``, ``"update_ms"``; in
    several processes ``"exchange_ms"`` and ``"hidden_ms"``, too.

    Args:
        every: measure one step out of so many; the first step of a training, in which kernels
            are built, only if it is 1.
        shown: print a line for each.

    Attributes:
        steps: what was measured.

    Raises:
        ArgumentError: if ``every`` is below 1.
    """

    def __init__(self, every: int = 1, *, shown: bool = False) -> None:
        if every < 1:
            raise ArgumentError("StepTimes", "every is 1 or more", every=every)
        self.every = every
        self.shown = shown
        self.steps: list[StepTime] = []
        self._begun = 0  # how many were measured before this epoch

    def around_step(
        self, trainer: Trainer, inputs: Tensor, targets: Tensor
    ) -> AbstractContextManager[None]:
        """Record the step, if its turn has come."""
        due = (trainer.num_steps + 1) % self.every == 0
        return self._measured(trainer.num_steps + 1, inputs) if due else nullcontext()

    def measure(self, trainer: Trainer, measured: Mapping[str, float]) -> dict[str, float]:
        """The means over the epoch's steps that were measured, if any was."""
        steps, self._begun = self.steps[self._begun :], len(self.steps)
        if not steps:
            return {}
        told = (*PHASES, *(("exchange", "hidden") if any(s.exchange for s in steps) else ()))
        return {f"{p}_ms": sum(getattr(s, p) for s in steps) / len(steps) for p in told}

    @contextmanager
    def _measured(self, step: int, inputs: Tensor) -> Iterator[None]:
        recorder = Recorder(inputs.device)
        with inputs.device.queue.observe(recorder), observed_exchanges() as exchanges:
            yield
            inputs.device.synchronize()
        seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        commands = recorder.commands()
        for command in commands:
            seconds[command.counted_in] += command.seconds
        exchanged = sum(e.seconds for e in exchanges), hidden_seconds(exchanges, commands)
        parts = *(seconds[p] for p in PHASES), *exchanged
        self.steps.append(StepTime(step, *(1e3 * part for part in parts)))
        if self.shown:
            print(self.steps[-1], flush=True)
