"""The small CNN on Fashion-MNIST beside PyTorch: accuracy, seconds an epoch, and their ratio.

Both start from the same weights and see the same batches, in turns: a block of steps of one, then
the same block of the other, so that a busy machine slows both. Losses are compared first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autodiff.tape import no_grad
from ..compile import compile as compiled
from ..data import DataLoader, FashionMNIST, Normalize
from ..device import Device, device
from ..models import CNN
from ..nn import functional as F
from ..optim import SGD
from ..tensor import Tensor, tensor
from . import torch_networks
from .peer import Peer, peer_on
from .timing import settle
from .workload import check_counts

_BATCH = 64
_BLOCK = 20
_LR, _MOMENTUM = 0.05, 0.9
_AGREE_STEPS, _AGREE = 20, 1e-3


class Ours:
    """The network on clnet, its step compiled or eager."""

    def __init__(self, where: Device, *, compile: bool) -> None:  # noqa: A002 - the option's name
        self.where = where
        self.model = CNN((1, 28, 28), 10, dropout=0.0).to(where)
        self._optimizer = SGD(self.model.parameters(), lr=_LR, momentum=_MOMENTUM)
        self._step = compiled(self._train) if compile else self._train

    def _train(self, x: Tensor, y: Tensor) -> Tensor:
        self._optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def steps(self, batches: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float]:
        """Train on batches; the losses, read at the end."""
        losses = [
            self._step(tensor(x, device=self.where), tensor(y, device=self.where))
            for x, y in batches
        ]
        return [loss.item() for loss in losses]

    def correct(self, x: np.ndarray, y: np.ndarray) -> int:
        """How many images are classified right."""
        with no_grad():
            scores = self.model(tensor(x, device=self.where))
        return int((scores.numpy().argmax(1) == y).sum())


class Theirs:
    """The same network on PyTorch, from the same weights."""

    def __init__(self, peer: Peer, ours: Ours) -> None:
        torch = peer.torch
        self._peer = peer
        self._torch = torch
        self._model = torch_networks.build(torch, "fashion-cnn")
        with torch.no_grad():
            pairs = zip(self._model.parameters(), ours.model.parameters(), strict=True)
            for theirs, mine in pairs:
                theirs.copy_(torch.from_numpy(mine.detach().numpy()))
        self._model.to(peer.device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=_LR, momentum=_MOMENTUM)

    def steps(self, batches: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float]:
        """Train on batches; the losses."""
        losses = []
        for x, y in batches:
            self._optimizer.zero_grad()
            scores = self._model(self._peer.tensor(x))
            loss = self._torch.nn.functional.cross_entropy(scores, self._peer.tensor(y))
            loss.backward()
            self._optimizer.step()
            losses.append(loss.detach())
        return [loss.item() for loss in losses]


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line an epoch; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench cnn", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="of an epoch, when not all")
    parser.add_argument("--data", help="folder of the Fashion-MNIST files")
    parser.add_argument("--download", action="store_true", help="download them if absent")
    parser.add_argument("--no-compile", action="store_true", help="run clnet eagerly")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--json", action="store_true", help="one JSON line an epoch")
    options = parser.parse_args(argv)
    check_counts("bench cnn", options, "epochs", "steps", "threads")
    where = device(options.device)
    train, test = (
        FashionMNIST(options.data, train=t, download=options.download) for t in (True, False)
    )
    normalize = Normalize.of(train.arrays[0])
    loader = DataLoader(train, _BATCH, shuffle=True, drop_last=True, transform=normalize)
    ours = Ours(where, compile=not options.no_compile)
    peer = None if options.alone else peer_on(where, options.threads)
    theirs = None if peer is None else Theirs(peer, ours)
    for epoch in range(options.epochs):
        batches = [(np.ascontiguousarray(x), y) for x, y in loader][: options.steps]
        own, other = _epoch(ours, theirs, batches, check=epoch == 0)
        accuracy = _accuracy(ours, normalize, test)
        fields: dict[str, Any] = {"epoch": epoch + 1, "steps": len(batches), "seconds": own}
        fields |= {"test_accuracy": accuracy, "peer_seconds": other or None}
        if options.json:
            print(json.dumps({"bench": "cnn", "device": where.identity.key, **fields}), flush=True)
            continue
        beside = f", PyTorch {other:.2f} s, ratio {other / own:.2f}" if theirs else ""
        print(f"epoch {epoch + 1}: {own:.2f} s{beside}, test accuracy {accuracy:.4f}", flush=True)


def _epoch(
    ours: Ours, theirs: Theirs | None, batches: Sequence[Any], *, check: bool
) -> tuple[float, float]:
    """Seconds of both, in turns; the first block of several, which warms up, is not counted."""
    own = peer = 0.0
    counted = 0
    for start in range(0, len(batches), _BLOCK):
        block = batches[start : start + _BLOCK]
        settle()
        begin = time.perf_counter()
        losses = ours.steps(block)
        middle = time.perf_counter()
        settle()
        resume = time.perf_counter()
        peer_losses = losses if theirs is None else theirs.steps(block)
        end = time.perf_counter()
        if start == 0 and check:
            _compare(losses[:_AGREE_STEPS], peer_losses[:_AGREE_STEPS])
            if len(batches) > _BLOCK:
                continue
        own, peer, counted = own + middle - begin, peer + end - resume, counted + len(block)
    scale = len(batches) / counted
    return own * scale, 0.0 if theirs is None else peer * scale


def _compare(losses: Sequence[float], peer: Sequence[float]) -> None:
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, peer, strict=True))
    if not worst < _AGREE:
        raise ArithmeticError(f"losses differ from PyTorch's; got relative difference={worst:.1e}")


def _accuracy(ours: Ours, normalize: Normalize, test: Any) -> float:
    correct = 0
    for x, y in DataLoader(test, 1000, transform=normalize):
        correct += ours.correct(x, y)
    return correct / len(test)


if __name__ == "__main__":
    main()
