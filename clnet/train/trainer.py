"""The training loop: what happens in which order; what a step computes is in ``steps``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..compile import compile as compiled
from ..data import DataLoader
from ..errors import ArgumentError, CheckpointError, NonFiniteError, refusal
from ..io import load_checkpoint, save_checkpoint
from ..nn import DataParallel, Module
from ..nn.module_mode import in_mode
from ..nn.parallel import DistributedDataParallel
from ..optim import Optimizer
from ..optim.grad_scaler import GradScaler
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..ranks.world import Group
from ..tensor import Tensor, tensor
from ..values import mode
from .callback import Callback, StepFigures
from .history import VALIDATION, History, Means
from .host_state import on_host
from .interrupt import Interrupt
from .metrics import Metric
from .progress import Bar, epoch_line, on_terminal, steps_line
from .steps import Loss, Step, evaluation_step, mixed, training_step

_LAST = "last.safetensors"
_SECONDS_BETWEEN_READS = 0.25
_MOST_UNREAD = 256


class Trainer:
    """Trains a model on batches of a loader, measures it, saves it, and goes on where it stopped.

    Steps are enqueued ahead of the device; what they measured is read a few times a second.

    Args:
        model: what is trained; batches go to the device its parameters are on. In a
            ``DistributedDataParallel`` each rank takes its part of every batch, rank 0 writes the
            checkpoints, and all read them; what is saved is the module inside, so that training
            goes on with any number of ranks.
        loss_fn: ``loss_fn(outputs, targets)``, the mean over the batch.
        optimizer: of the model's parameters.
        scheduler: stepped after every epoch.
        scheduler_per_batch: step it after every batch instead.
        metrics: what is measured beside the loss, by name; see :mod:`clnet.train.metrics`.
        compile: record the step once and replay it (:func:`clnet.compile`), also of a model on
            several devices or in several processes; with ``find_unused_parameters`` only the
            evaluation.
        precision: ``"fp32"``; ``"bf16"`` or ``"fp16"`` for mixed precision
            (:class:`clnet.autocast`), the latter with scaled gradients.
        clip_grad_norm: the most that all gradients together may measure; larger ones are scaled.
        checkpoint: a folder, made if need be, for ``last.safetensors``, written after every epoch
            and on Ctrl-C.
        checkpoint_every: write it after so many steps too.
        progress: show a bar (on a terminal) and a line for each epoch.
        log_every: where there is no terminal, as in a job's file, print a line after so many steps
            too, with means over them; None: none.
        callbacks: what looks on, in the order in which it is called.

    Attributes:
        history: what was measured.
        measures: names of the loss and the metrics.
        num_steps: training steps done so far.

    Example:
        >>> import clnet
        >>> from clnet.data import ArrayDataset, DataLoader
        >>> from clnet.train import Trainer
        >>> x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
        >>> model = clnet.nn.Linear(1, 1)
        >>> optimizer = clnet.optim.SGD(model.parameters(), lr=0.5)
        >>> trainer = Trainer(model, clnet.nn.functional.mse_loss, optimizer, progress=False)
        >>> history = trainer.fit(DataLoader(ArrayDataset(x, 3 * x), 8), epochs=20)
        >>> history.epochs[-1]["loss"] < 1e-3
        True
    """

    def __init__(
        self,
        model: Module,
        loss_fn: Loss,
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        scheduler_per_batch: bool = False,
        metrics: Mapping[str, Metric] | None = None,
        precision: str = "fp32",
        clip_grad_norm: float | None = None,
        compile: bool = True,  # noqa: A002 - the name of what it switches
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        progress: bool = True,
        log_every: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        _check_settings(clip_grad_norm, checkpoint, checkpoint_every, log_every)
        if isinstance(scheduler, ReduceLROnPlateau):
            hint = "Step ReduceLROnPlateau in a callback's end_epoch"
            raise ArgumentError("Trainer", "the scheduler needs no metric", remedy=hint)
        self.model = model
        self._ranks = model.process_group if isinstance(model, DistributedDataParallel) else None
        self._first = self._ranks is None or self._ranks.rank() == 0
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.scheduler_per_batch = scheduler_per_batch
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every = checkpoint_every
        self.progress = progress and self._first
        self.log_every = log_every
        self.callbacks = tuple(callbacks)
        self.history = History()
        chosen = dict(metrics or {})
        self.measures = ("loss", *chosen)
        mixed(precision)
        self._scaler = GradScaler(enabled=precision == "fp16")
        train = training_step(
            model,
            loss_fn,
            optimizer,
            tuple(chosen.values()),
            clip_grad_norm=clip_grad_norm,
            precision=precision,
            scaler=self._scaler,
            ranks=self._ranks,
        )
        evaluate = evaluation_step(
            self._inner, loss_fn, tuple(chosen.values()), precision=precision
        )
        whole = self._ranks is None or not model.find_unused_parameters
        self._train_step: Step = compiled(train) if compile and whole else train
        self._evaluate_step: Step = compiled(evaluate) if compile else evaluate
        self._means = Means(self.measures)
        self._seconds = 0.0
        self.num_steps = 0
        self._loader_state: dict[str, Any] | None = None
        self._resumed = False

    @property
    def last_checkpoint(self) -> Path | None:
        """The file in the checkpoint folder that every epoch writes; None: there is no folder."""
        return None if self.checkpoint is None else self.checkpoint / _LAST

    @property
    def _inner(self) -> Module:
        """The module inside a wrapper for several devices or processes."""
        model = self.model
        wrapped = isinstance(model, DataParallel | DistributedDataParallel)
        return model.module if wrapped else model

    def fit(
        self, train_loader: DataLoader, validation_loader: DataLoader | None = None, *, epochs: int
    ) -> History:
        """Train until ``epochs`` epochs are done in all, those before a resume included.

        On Ctrl-C the step under way is finished, the checkpoint is written, and
        :class:`KeyboardInterrupt` is raised.

        Args:
            train_loader: gives batches ``(inputs, targets)``; a pass is an epoch.
            validation_loader: measured after each epoch.
            epochs: how many.

        Returns:
            The history.

        Raises:
            CheckpointError: if the trainer was resumed with another loader, or cannot write.
            NonFiniteError: if the loss became infinite or NaN; the checkpoint is from before.
        """
        if self._resumed and self._loader_state is not None:
            train_loader.load_state_dict(self._loader_state)
        else:
            self._means, self._seconds = Means(self.measures), 0.0
        self._resumed = False
        with Interrupt() as interrupt:
            while len(self.history.epochs) < epochs:
                label = f"epoch {len(self.history.epochs) + 1}/{epochs}"
                self._train_epoch(train_loader, label, interrupt)
                measured = self._validate(validation_loader, f"{label} validation", interrupt)
                self._end_epoch(train_loader, measured)
                if self.progress:
                    print(epoch_line(self.history.epochs[-1], epochs), flush=True)
                for callback in self.callbacks:
                    callback.end_epoch(self, self.history.epochs[-1])
        return self.history

    def evaluate(self, loader: DataLoader) -> dict[str, float]:
        """Loss and metrics over a loader's examples, with the model in evaluation mode.

        Args:
            loader: gives batches ``(inputs, targets)``.

        Returns:
            Means over the examples by name; each module is back in the mode it was in.
        """
        with Interrupt() as interrupt:
            return self._evaluate(loader, "", "evaluation", interrupt)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state of training to a safetensors file, atomically.

        Args:
            path: the file; its folder is made if need be.

        Raises:
            CheckpointError: if it cannot be written; an old file is then left as it was.
        """
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                str(path), "its folder cannot be made", error=refusal(error)
            ) from error
        save_checkpoint(path, self._state())

    def resume(self, path: str | os.PathLike[str] | None = None) -> None:
        """Continue from a checkpoint: the next :meth:`fit` goes on bit for bit.

        Args:
            path: what :meth:`save` wrote; None: the last one in the checkpoint folder.

        Raises:
            ArgumentError: if there is neither a path nor a folder.
            CheckpointError: if it is missing, damaged, or of another model, optimiser or trainer;
                everything is left as it was.
        """
        if path is None:
            path = self.last_checkpoint
        if path is None:
            raise ArgumentError("resume", "a path is given, or the trainer has a checkpoint folder")
        state = load_checkpoint(path)
        before = self._state()
        if set(state) != set(before):
            raise CheckpointError(
                os.fspath(path),
                "not a trainer's checkpoint",
                keys=sorted(state),
                expected=sorted(before),
            )
        try:
            self._restore(state)
        except BaseException as error:
            self._restore(before)
            if isinstance(error, KeyError | TypeError | AttributeError):
                raise CheckpointError(
                    os.fspath(path),
                    "a part of the checkpoint is not what it should be",
                    error=repr(error),
                ) from error
            if isinstance(error, CheckpointError):
                raise CheckpointError(
                    os.fspath(path),
                    f"the checkpoint does not fit this trainer: {error.law}",
                    remedy="Resume with the model, optimiser and settings that it was written with",
                    **error.values,
                ) from error
            raise
        self._resumed = True

    def _train_epoch(self, loader: DataLoader, label: str, interrupt: Interrupt) -> None:
        """The rest of the loader's epoch."""
        self.model.train()
        done = loader.state_dict()["position"] if self._means.examples else 0
        reader = _Reader(self._means, self.history, self.num_steps)
        logged = self.log_every if self.progress and not on_terminal() else None
        unlogged: list[StepFigures] = []
        with Bar(label, len(loader), done=done, shown=self.progress) as bar:
            begun, start = self._means.examples, time.perf_counter()
            before = self._seconds
            for inputs, targets in self._uploaded(loader, self._ranks):
                self._take_step(inputs, targets, reader)
                self._loader_state = loader.state_dict()
                due = self.checkpoint_every and self.num_steps % self.checkpoint_every == 0
                told = logged and self.num_steps % logged == 0
                if due or told or interrupt.noted or reader.due:
                    steps = self._look(reader)
                    seconds = time.perf_counter() - start
                    self._seconds = before + seconds
                    speed = (self._means.examples - begun) / seconds
                    bar.advance(len(steps), self._means.values(), speed)
                    unlogged += steps if logged else ()
                    if told:
                        print(steps_line(label, unlogged, speed), flush=True)
                        unlogged.clear()
                if due or interrupt.noted:
                    self._write()
                _stop_if(interrupt)
            self._look(reader)
            self._seconds = before + time.perf_counter() - start

    def _take_step(self, inputs: Tensor, targets: Tensor, reader: _Reader) -> None:
        """A step, with the callbacks around it, after which the scheduler may make one, too."""
        with ExitStack() as looking_on:
            for callback in self.callbacks:
                looking_on.enter_context(callback.around_step(self, inputs, targets))
            values = self._train_step(inputs, targets)
        examples = len(inputs) * (1 if self._ranks is None else self._ranks.size())
        reader.add(values, examples, self._rate)
        self.num_steps += 1
        if self.scheduler is not None and self.scheduler_per_batch:
            self.scheduler.step()

    @property
    def _rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def _look(self, reader: _Reader) -> list[StepFigures]:
        """Read what training steps measured, and show it to the callbacks."""
        steps = reader.read()
        if steps:
            for callback in self.callbacks:
                callback.read_steps(self, steps)
        return steps

    def _end_epoch(self, loader: DataLoader, measured: dict[str, float]) -> None:
        """Enter the epoch into the history, step the scheduler, and save."""
        # Of the last step: a scheduler that steps after every batch has left it already.
        lr = self.history.rates[-1] if self.history.rates else self._rate
        speed = self._means.examples / self._seconds if self._seconds else 0.0
        measured = {**self._means.values(), **measured}
        for callback in self.callbacks:
            measured.update(callback.measure(self, measured))
        self.history.epochs.append(
            {
                "epoch": len(self.history.epochs) + 1,
                **measured,
                "lr": lr,
                "seconds": self._seconds,
                "examples_per_second": speed,
            }
        )
        self._means, self._seconds = Means(self.measures), 0.0
        if self.scheduler is not None and not self.scheduler_per_batch:
            self.scheduler.step()
        self._loader_state = loader.state_dict()
        self._write()

    def _validate(
        self, loader: DataLoader | None, label: str, interrupt: Interrupt
    ) -> dict[str, float]:
        if loader is None:
            return {}
        try:
            return self._evaluate(loader, VALIDATION, label, interrupt)
        except KeyboardInterrupt:  # the state is that after the epoch's last step
            self._write()
            raise

    def _evaluate(
        self, loader: DataLoader, prefix: str, label: str, interrupt: Interrupt
    ) -> dict[str, float]:
        means = Means(self.measures)
        reader = _Reader(means)
        with (
            in_mode(self.model, training=False),
            Bar(label, len(loader), shown=self.progress) as bar,
        ):
            start = time.perf_counter()
            for inputs, targets in self._uploaded(loader):
                reader.add(self._evaluate_step(inputs, targets), len(inputs))
                _stop_if(interrupt)
                if reader.due:
                    batches = len(reader.read())
                    speed = means.examples / (time.perf_counter() - start)
                    bar.advance(batches, means.values(), speed)
            reader.read()
        return means.values(prefix)

    def _uploaded(
        self, loader: DataLoader, ranks: Group | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches on the device; of each the part of this rank."""
        device = next(self.model.parameters()).device
        for batch in loader:
            if len(batch) != 2:
                raise ArgumentError("Trainer", "a batch is (inputs, targets)", parts=len(batch))
            if ranks is not None:
                batch = [_share(part, ranks) for part in batch]
            inputs, targets = (tensor(part, device=device) for part in batch)
            yield inputs, targets

    def _write(self) -> None:
        if self.last_checkpoint is not None and self._first:
            self.save(self.last_checkpoint)

    def _state(self) -> dict[str, Any]:
        return {
            "model": on_host(self._inner.state_dict()),
            "optimizer": on_host(self.optimizer.state_dict()),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": self._scaler.state_dict() or None,
            "generator": mode.current().generator.stands(),
            "loader": self._loader_state,
            "num_steps": self.num_steps,
            "seconds": self._seconds,
            "means": self._means.state_dict(),
            "history": self.history.state_dict(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        if (state["scheduler"] is None) != (self.scheduler is None):
            raise CheckpointError(
                "resume",
                "trainer and checkpoint both have a scheduler, or neither",
                trainer=type(self.scheduler).__name__,
                checkpoint=state["scheduler"],
            )
        if tuple(state["means"]["names"]) != self.measures:
            raise CheckpointError(
                "resume",
                "the checkpoint has other metrics",
                trainer=list(self.measures),
                checkpoint=state["means"]["names"],
            )
        self._inner.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        if state.get("scaler"):  # older files have none
            self._scaler.load_state_dict(state["scaler"])
        drawn = dict(state["generator"])
        if self._ranks is not None and "seed" in drawn:  # rank 0's; each has its own
            drawn["seed"] = int(drawn["seed"]) + self._ranks.rank()
        mode.current().generator.set_state(drawn)
        self._loader_state = state["loader"]
        self.num_steps = int(state["num_steps"])
        self._seconds = float(state["seconds"])
        self._means = Means(self.measures)
        self._means.load_state_dict(state["means"])
        self.history.load_state_dict(state["history"])


class _Reader:
    """Reads what steps measured from the device, some steps at a time.

    Args:
        means: where it is summed.
        history: where each step's loss and rate are entered; training has it.
        num_steps: steps done before, for the error.

    Raises:
        NonFiniteError: from :meth:`read`, if a training loss is infinite or NaN.
    """

    def __init__(self, means: Means, history: History | None = None, num_steps: int = 0) -> None:
        self._means = means
        self._history = history
        self._num_steps = num_steps
        self._unread: list[tuple[Tensor, int, float]] = []
        self._last = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether it is time to read."""
        waited = time.perf_counter() - self._last
        return waited >= _SECONDS_BETWEEN_READS or len(self._unread) >= _MOST_UNREAD

    def add(self, values: Tensor, examples: int, lr: float = 0.0) -> None:
        """What a step measured, still on the device, and its learning rate."""
        self._unread.append((values, examples, lr))

    def read(self) -> list[StepFigures]:
        """Wait for the device and sum up; returns the steps that were read."""
        steps: list[StepFigures] = []
        for values, examples, lr in self._unread:
            host = values.numpy()
            self._num_steps += 1
            if self._history is not None:
                if not np.isfinite(host[0]):
                    raise NonFiniteError(
                        "train",
                        "the loss is not finite",
                        loss=host[0],
                        step=self._num_steps,
                        remedy="Lower the learning rate, warm it up, or look for bad examples in "
                        "this batch",
                    )
                self._history.losses.append(float(host[0]))
                self._history.rates.append(lr)
            self._means.add(host, examples)
            named = zip(self._means.names, host.tolist(), strict=True)
            steps.append(StepFigures(self._num_steps, dict(named), lr))
        self._unread.clear()
        self._last = time.perf_counter()
        return steps


def _check_settings(
    clip_grad_norm: float | None,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int | None,
    log_every: int | None,
) -> None:
    if log_every is not None and log_every < 1:
        raise ArgumentError("Trainer", "log_every is 1 or more", log_every=log_every)
    if clip_grad_norm is not None and not clip_grad_norm > 0:
        raise ArgumentError("Trainer", "clip_grad_norm is positive", clip_grad_norm=clip_grad_norm)
    if checkpoint_every is not None and (checkpoint_every < 1 or checkpoint is None):
        raise ArgumentError(
            "Trainer",
            "checkpoint_every is 1 or more, and needs a folder",
            checkpoint_every=checkpoint_every,
            checkpoint=checkpoint,
        )


def _share(part: np.ndarray, ranks: Group) -> np.ndarray:
    """This rank's rows of a batch; where they cannot be equal parts the first come once more."""
    rows = -(-len(part) // ranks.size())
    begin = ranks.rank() * rows
    return part[np.arange(begin, begin + rows) % len(part)]


def _stop_if(interrupt: Interrupt) -> None:
    if interrupt.noted:
        raise KeyboardInterrupt
