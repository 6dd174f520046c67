"""What a network of ``ci/unseen.py`` is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Case:
    """A network, what it is trained on, and its loss.

    Attributes:
        model: the module.
        inputs: arrays, which become tensors of the library.
        loss: of the model and those tensors; None: ``train`` knows.
        answer: what inference computes of them; None: the network cannot be asked.
        optimizer: of the parameters.
        train: a whole step of the model, an optimiser and the tensors, where a loss will not do.
    """

    model: Any
    inputs: list[np.ndarray]
    loss: Callable[..., Any] | None
    answer: Callable[..., Any] | None
    optimizer: Callable[[Any, Any], Any]
    train: Callable[..., Any] | None = None


def adam(library: Any, parameters: Any) -> Any:
    """The optimiser that most programs take."""
    return library.optim.Adam(parameters, lr=1e-3)


def sgd(library: Any, parameters: Any) -> Any:
    """With momentum, for losses that Adam's first steps would throw about."""
    return library.optim.SGD(parameters, lr=0.01, momentum=0.9)


def drawn(seed: int = 0) -> np.random.Generator:
    """A generator of a case's inputs."""
    return np.random.default_rng(seed)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32 numbers."""
    return drawn(seed).standard_normal(shape, np.float32)


def whole(below: int, *shape: int, seed: int = 1) -> np.ndarray:
    """Whole numbers from 0."""
    return drawn(seed).integers(0, below, shape)


def labels(library: Any) -> Callable[..., Any]:
    """The loss of a network that names classes: of the model, its inputs, and the labels last."""
    return lambda model, *x: library.nn.functional.cross_entropy(model(*x[:-1]), x[-1])


def square(model: Any, *x: Any) -> Any:
    """The mean square of what a network is off; what is wanted comes last."""
    return ((model(*x[:-1]) - x[-1]) ** 2).mean()


def asked(model: Any, *x: Any) -> Any:
    """The answer of a network to all but what is wanted of it."""
    return model(*x[:-1])


def rms_norm(library: Any, d: int) -> Any:
    """T5's norm, as programs write it: rows over their root mean square, with weights."""

    class Norm(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = library.nn.Parameter(library.ones(d))

        def forward(self, x: Any) -> Any:
            return self.weight * x * library.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    return Norm()
