"""What looks on at a training: it may measure and write down, and changes nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..device import Recorder
from ..errors import ArgumentError
from ..tensor import Tensor

if TYPE_CHECKING:
    from .trainer import Trainer

_PHASES = ("forward", "backward", "update")


class Callback:
    """The base of what :class:`~clnet.train.Trainer` calls; its methods do nothing."""

    def around_step(
        self, trainer: Trainer, inputs: Tensor, targets: Tensor
    ) -> AbstractContextManager[None]:
        """Entered before a training step on a batch, left when it was enqueued."""
        return nullcontext()

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
    """

    step: int
    forward: float
    backward: float
    update: float

    def __str__(self) -> str:
        return (
            f"step {self.step}: forward {self.forward:.2f} ms, backward {self.backward:.2f} ms, "
            f"update {self.update:.2f} ms"
        )


class StepTimes(Callback):
    """Splits the device's time of training steps into forward, backward and update.

    A step that is measured waits for the device before and after it; its wall time is no measure.
    An epoch's entry gets the means, ``"forward_ms"``, ``"backward_ms"``, ``"update_ms"``.

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
        return {f"{p}_ms": sum(getattr(s, p) for s in steps) / len(steps) for p in _PHASES}

    @contextmanager
    def _measured(self, step: int, inputs: Tensor) -> Iterator[None]:
        recorder = Recorder(inputs.device)
        with inputs.device.queue.observe(recorder):
            yield
            inputs.device.synchronize()
        seconds: dict[str, float] = dict.fromkeys(_PHASES, 0.0)
        for command in recorder.commands():
            seconds[command.phase or "forward"] += command.seconds
        self.steps.append(StepTime(step, *(1e3 * seconds[p] for p in _PHASES)))
        if self.shown:
            print(self.steps[-1], flush=True)
