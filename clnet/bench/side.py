"""The two sides of a contest: a workload's step on clnet, and on PyTorch from the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from ..autodiff.tape import no_grad
from ..compile import compile as compiled
from ..compile.kept_plans import AnyPlan
from ..compile.passes import PASSES, Pass
from ..device import Device
from ..errors import ArgumentError
from ..nn import functional as F
from ..nn.parameters import clip_grad_norm_
from ..optim import SGD
from ..tensor import Tensor, tensor
from ..values import mode
from . import torch_networks
from .peer import Peer
from .workload import Workload

TORCH_MODES = ("default", "channels_last", "compile", "reduce-overhead")
_COMPILED = ("compile", "reduce-overhead")


def torch_modes(text: str) -> list[str]:
    """The modes that ``--torch-mode`` names: some with commas, or all.

    Raises:
        ArgumentError: if there is no such mode.
    """
    wanted = TORCH_MODES if text == "all" else text.split(",")
    for torch_mode in wanted:
        if torch_mode not in TORCH_MODES:
            have = ", ".join(TORCH_MODES)
            law = "there is no such mode"
            raise ArgumentError("--torch-mode", law, found=repr(torch_mode), have=have)
    return list(wanted)


class Side(Protocol):
    """Something that takes steps on one batch."""

    def step(self) -> None:
        """Enqueue one step."""
        ...

    def result(self) -> np.ndarray:
        """The loss of the last step, or what the network answered; waits for it."""
        ...

    def gradients(self) -> list[np.ndarray]:
        """Copies of the parameters' gradients, after a step of training."""
        ...

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        ...


class Ours:
    """A workload on clnet, compiled unless asked otherwise; its batch lies on the device.

    Args:
        workload: what it does.
        where: the device.
        compile: record the step once and replay it.
        recompute: as for :func:`clnet.compile`.
        passes: the same.

    Attributes:
        model: the network.
    """

    def __init__(
        self,
        workload: Workload,
        where: Device,
        *,
        compile: bool = True,  # noqa: A002 - what it switches
        recompute: bool | None = None,
        passes: Sequence[Pass] = PASSES,
    ) -> None:
        self.workload = workload
        self.where = where
        with ThreadPoolExecutor(1) as drawing:  # NumPy lets Python go on
            batch = drawing.submit(workload.batch)
            with mode.using(device=where):
                self.model = workload.make()
            x, y = batch.result()
        self._batch = [tensor(part, device=where) for part in (*_several(x), y)]
        if workload.words and isinstance(x, np.ndarray):
            zeros = np.zeros((2, x.shape[1], 256), np.float32)
            self._batch += [tensor(zeros, device=where), tensor(zeros, device=where)]
        self._last: Any = None
        if workload.training:
            options: dict[str, Any] = dict(workload.sgd)
            self._optimizer = SGD(self.model.parameters(), **options)
            run = self._train_words if workload.words else self._train
        else:
            self.model.eval()
            run = self._ask
            self._batch = self._batch[:-1]
        self._run: Any = run
        if compile:
            self._run = compiled(run, recompute=recompute, passes=passes)

    @property
    def plan(self) -> AnyPlan:
        """The plan of the step that was taken last, compiled."""
        return self._run.plans[-1]

    @property
    def traces(self) -> int:
        """How often the step was traced."""
        return getattr(self._run, "num_traces", 0)

    @property
    def parameters(self) -> int:
        """How many numbers the network learns."""
        return sum(p.numel() for p in self.model.parameters())

    def weights(self) -> list[np.ndarray]:
        """Copies of the parameters."""
        return [p.detach().numpy() for p in self.model.parameters()]

    def step(self) -> None:
        """Enqueue one step."""
        # (Around all of it: products of gradients, too, and what a plan looks up when it is made.)
        with mode.using(float32_precision=self.workload.precision.float32):
            results = self._run(*self._batch)
        if self.workload.words:
            self._last, *self._batch[2:] = results
        else:
            self._last = results

    def result(self) -> np.ndarray:
        """The loss of the last step, or what the network answered; waits for it."""
        return self._last.float().numpy()

    def gradients(self) -> list[np.ndarray]:
        """Copies of the parameters' gradients, after a step of training."""
        return [p.grad.numpy() for p in self.model.parameters() if p.grad is not None]

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        self.where.synchronize()

    def refuse_dead_parameters(self) -> None:
        """See that each parameter has got a gradient in the steps so far.

        Raises:
            ArgumentError: if one has none: the graph timed would not be the network's.
        """
        dead = [n for n, p in self.model.named_parameters() if p.grad is None]
        if self.workload.training and dead:
            raise ArgumentError(
                f"bench {self.workload.name}",
                "a parameter gets no gradient, so this is not the time of the whole network",
                parameters=", ".join(dead),
            )

    def _train(self, *batch: Tensor) -> Tensor:
        *x, y = batch
        self._optimizer.zero_grad()
        with self.workload.precision.ours():
            loss = self.workload.loss(F, self.model(*x), y)
        self._learn(loss)
        return loss.detach()

    def _train_words(self, x: Tensor, y: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        self._optimizer.zero_grad()
        with self.workload.precision.ours():
            scores, (h, c) = self.model(x, (h, c))
            loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        self._learn(loss)
        return loss.detach(), h.detach(), c.detach()

    def _learn(self, loss: Tensor) -> None:
        loss.backward()
        if self.workload.clip is not None:
            clip_grad_norm_(self.model.parameters(), self.workload.clip)
        self._optimizer.step()

    def _ask(self, *x: Tensor) -> Tensor:
        with no_grad(), self.workload.precision.ours():
            return _first(self.model(*x))


def _several(x: np.ndarray | tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return x if isinstance(x, tuple) else (x,)


def _first(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple) else answer


class Theirs:
    """The same on PyTorch.

    Args:
        workload: what it does.
        peer: PyTorch on the same device.
        weights: the parameters to start from.
        torch_mode: ``"default"``, ``"channels_last"``, ``"compile"``, or ``"reduce-overhead"``:
            compiled, and replayed as a CUDA graph.

    Raises:
        ArgumentError: if the networks differ in their parameters.
    """

    def __init__(
        self, workload: Workload, peer: Peer, weights: list[np.ndarray], torch_mode: str
    ) -> None:
        torch = peer.torch
        self.workload, self._peer, self._torch = workload, peer, torch
        workload.precision.set_peer(torch)
        twin = workload.twin
        model = torch_networks.build(torch, workload.name) if twin is None else twin(torch)
        shapes = [tuple(p.shape) for p in model.parameters()]
        if shapes != [w.shape for w in weights]:
            raise ArgumentError(
                f"bench {workload.name}",
                "the twin's parameters have the same shapes",
                ours=[w.shape for w in weights],
                twin=shapes,
            )
        with torch.no_grad():
            for theirs, ours in zip(model.parameters(), weights, strict=True):
                theirs.copy_(torch.from_numpy(ours))
        model.to(peer.device)
        x, y = workload.batch()
        self._x, self._y = [peer.tensor(part) for part in _several(x)], peer.tensor(y)
        if torch_mode == "channels_last":
            model = model.to(memory_format=torch.channels_last)
            self._x = [
                part.to(memory_format=torch.channels_last) if part.ndim == 4 else part
                for part in self._x
            ]
        self._graph = torch_mode == "reduce-overhead"
        self._model = model
        if torch_mode in _COMPILED:
            self._model = torch.compile(model, mode=torch_mode if self._graph else "default")
        self._last: Any = None
        self._state: Any = None
        if workload.words and isinstance(x, np.ndarray):
            zeros = np.zeros((2, x.shape[1], 256), np.float32)
            self._state = (peer.tensor(zeros), peer.tensor(zeros))
        if workload.training:
            self._optimizer = torch.optim.SGD(model.parameters(), **workload.sgd)
        else:
            model.eval()

    @staticmethod
    def suits(workload: Workload, peer: Peer, torch_mode: str) -> bool:
        """Whether a mode makes a difference: there are images, or graphs can be replayed."""
        if torch_mode == "reduce-overhead":
            return peer.device == "cuda"
        return torch_mode != "channels_last" or len(workload.input_shape) == 4

    def step(self) -> None:
        """Enqueue one step."""
        if self._graph:
            self._torch.compiler.cudagraph_mark_step_begin()
        if not self.workload.training:
            with self._torch.inference_mode(), self._precise():
                self._last = _first(self._model(*self._x))
            return
        self._optimizer.zero_grad()
        with self._precise():
            loss = self._loss()
        loss.backward()
        if self.workload.clip is not None:
            self._torch.nn.utils.clip_grad_norm_(self._model.parameters(), self.workload.clip)
        self._optimizer.step()
        self._last = loss.detach()

    def _precise(self) -> Any:
        return self.workload.precision.theirs(self._torch, self._peer.device)

    def _loss(self) -> Any:
        if self.workload.words:
            scores, state = self._model(*self._x, self._state)
            # The next replay of a graph overwrites what this one gave.
            self._state = tuple(s.detach().clone() if self._graph else s.detach() for s in state)
            scores, y = scores.reshape(-1, scores.shape[-1]), self._y.reshape(-1)
        else:
            scores, y = self._model(*self._x), self._y
        return self.workload.loss(self._torch.nn.functional, scores, y)

    def result(self) -> np.ndarray:
        """The loss of the last step, or what the network answered; waits for it."""
        return self._last.float().cpu().numpy()

    def peak_bytes(self) -> int:
        """The most device memory in use within a step; 0 where PyTorch does not count it."""
        return 0 if self._graph else self._peer.peak_bytes(self.step)  # a graph's pool is its own

    def gradients(self) -> list[np.ndarray]:
        """Copies of the parameters' gradients, after a step of training."""
        return [p.grad.cpu().numpy().copy() for p in self._model.parameters() if p.grad is not None]

    def synchronize(self) -> None:
        """Wait until all steps are done."""
        self._peer.synchronize()
