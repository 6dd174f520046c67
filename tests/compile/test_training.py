"""Networks in training: the losses of a compiled step are eager's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.bench.step import CASES, Job, agreement, losses
from clnet.compile.epilogue import epilogue
from clnet.compile.fold_batch_norm import fold
from clnet.compile.fuse import fuse
from clnet.compile.merge_updates import merge_updates
from clnet.compile.simplify import simplify, with_constants

pytestmark = pytest.mark.device


@pytest.mark.parametrize("name", ["cnn", "lstm", "gpt"])
def test_losses_are_those_of_eager(name):
    eager, compiled = losses(CASES[name], clnet.device(), 6, 4)
    assert len(set(eager)) == 6
    assert agreement(CASES[name], eager, compiled) < 1e-4
    if CASES[name].exact:
        assert eager == compiled


def test_convolutions_in_eagers_layout_keep_every_bit():
    passes = (simplify, fold, epilogue, fuse, merge_updates, with_constants)
    eager, compiled = losses(CASES["resnet20"], clnet.device(), 3, 2, passes)
    assert len(set(eager)) == 3
    assert eager == compiled


class ResNet20(Job):
    """The benchmark's ResNet-20 in training, with other numbers and another activation.

    Args:
        compiled: whether its step is compiled.
        dtype: of its parameters.
        activation: in the place of each ReLU.
    """

    def __init__(self, *, compiled, dtype="float32", activation=nn.ReLU):
        super().__init__(CASES["resnet20"], clnet.device(), compile=compiled)
        for module in self._model.modules():
            if isinstance(getattr(module, "relu", None), nn.ReLU):
                module.relu = activation()
        self._model.to(dtype=getattr(clnet, dtype))
        self._optimizer = CASES["resnet20"].optimizer(self._model.parameters())
        self.dtype = dtype

    def train(self, x, target):
        """One step: the loss, and all gradients in a row."""
        loss = self(clnet.tensor(x.astype(self.dtype)), clnet.tensor(target)).item()
        grads = [p.grad.numpy().astype(np.float64).ravel() for p in self._model.parameters()]
        return loss, np.concatenate(grads)

    def follow(self, other):
        """Take over all that training changes."""
        state = other._optimizer.state_dict()["state"]
        for own, values in zip(self._optimizer.state.values(), state.values(), strict=True):
            for name, tensor in own.items():
                tensor.copy_(clnet.tensor(values[name].numpy().astype(self.dtype)))
        mine = [*self._model.parameters(), *self._model.buffers()]
        for own, value in zip(
            mine, [*other._model.parameters(), *other._model.buffers()], strict=True
        ):
            own.copy_(clnet.tensor(value.detach().numpy().astype(own.dtype.numpy)))


def steps_from_the_same_state(activation, count):
    """Of eager, compiled and float64 steps, each begun where eager was: losses and gradients."""
    eager = ResNet20(compiled=False, activation=activation)
    others = [
        ResNet20(compiled=True, activation=activation),
        ResNet20(compiled=False, activation=activation, dtype="float64"),
    ]
    for seed in range(count):
        with clnet.no_grad():
            for other in others:
                other.follow(eager)
        batch = CASES["resnet20"].batch(np.random.default_rng(seed), 8)
        yield [job.train(*batch) for job in (eager, *others)]


@pytest.mark.slow
def test_resnet20_departs_from_eager_by_rounding_alone():
    """Runs part as rounding decides on which side of ReLU's kink an activation falls.

    Where nothing decides, each step's gradients are as near to those in float64 as eager's, but for
    the larger rounding of Winograd's transforms; with ReLU that holds for its loss.
    """
    for (_, eager), (_, compiled), (_, exact) in steps_from_the_same_state(nn.SiLU, 3):
        norm = np.linalg.norm(exact)
        own = np.linalg.norm(eager - exact) / norm
        assert 0 < own < 1e-5
        assert np.linalg.norm(compiled - exact) / norm < 8 * own
    for (eager, _), (compiled, _), (exact, _) in steps_from_the_same_state(nn.ReLU, 6):
        assert abs(eager / exact - 1) < 1e-6
        assert abs(compiled / exact - 1) < 1e-6


@pytest.mark.slow
def test_resnet20_in_float64_keeps_every_bit():
    jobs = [ResNet20(compiled=flag, dtype="float64") for flag in (False, True)]
    for seed in range(3):
        batch = CASES["resnet20"].batch(np.random.default_rng(seed), 4)
        (eager, expected), (compiled, found) = (job.train(*batch) for job in jobs)
        assert eager == compiled
        assert np.array_equal(expected, found)


@pytest.mark.slow
@pytest.mark.perf
@pytest.mark.parametrize("name", ["cnn", "lstm", "gpt", "resnet20"])
def test_losses_of_200_steps_are_those_of_eager(name):
    eager, compiled = losses(CASES[name], clnet.device(), 200, 8)
    agreement(CASES[name], eager, compiled)
    assert sum(eager[-20:]) < sum(eager[:20])
