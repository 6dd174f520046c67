"""All steps of a recurrent layer in one launch, as GPUs take them, beside a launch for each."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.device import device
from clnet.kernels.recurrent import Steps
from clnet.ops.recurrence import Recurrence, RecurrenceBackward
from clnet.ops.rnn import Cell
from tests.kernels.launching import cpu_shaped, gpu_shaped, normal, offset, poisoned, run

STEPS, N, SIZE = 3, 5, 8


def lowered(function, target, inputs):
    outputs = tuple(poisoned(a.shape) for a in function.infer(*inputs))
    launches = function.lower(target, outputs, inputs)
    run(launches)
    return len(launches), [a.numpy() for a in outputs]


def drawn(cell, lead, *, bias):
    rows = cell.gates * SIZE
    shapes = [(STEPS, *lead, N, rows), *[(*lead, N, SIZE)] * cell.results, (*lead, rows, SIZE)]
    shapes += [(*lead, rows)] * bias
    return tuple(offset(normal(*shape, seed=k)) for k, shape in enumerate(shapes))


@pytest.mark.parametrize(
    ("cell", "lead", "backwards", "bias", "arrived"),
    [
        (Cell.LSTM, (), False, True, (True, False)),
        (Cell.LSTM, (2,), True, True, (True, False)),
        (Cell.GRU, (2,), False, False, (True,)),
        (Cell.GRU, (), True, False, (True,)),
    ],
)
def test_one_launch_is_all_steps(cell, lead, backwards, bias, arrived):
    many, one = cpu_shaped(device()), gpu_shaped(device())
    inputs = drawn(cell, lead, bias=bias)
    forward = Recurrence(cell, backwards)
    expected, found = lowered(forward, many, inputs), lowered(forward, one, inputs)
    assert found[0] <= 2 < expected[0]
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)

    grads = [normal(*expected[1][k].shape, seed=9 + k) for k, given in enumerate(arrived) if given]
    saved = (*inputs[: 2 + cell.results], *map(offset, expected[1]), *map(offset, grads))
    backward = RecurrenceBackward(cell, backwards, arrived)
    expected, found = lowered(backward, many, saved), lowered(backward, one, saved)
    assert found[0] == 1 < expected[0]
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        assert np.abs(b).max() > 0.1


def test_where_all_steps_go_together():
    target = gpu_shaped(device())
    x, *states, weight = drawn(Cell.LSTM, (), bias=False)
    steps = Steps.of(target, x, weight, 2, states)
    assert steps is not None
    assert steps.rows * -(-N // steps.rows) >= N
    assert Steps.of(cpu_shaped(device()), x, weight, 2, states) is None
    odd = offset(normal(4 * 6, 6))
    assert Steps.of(target, offset(normal(STEPS, N, 4 * 6)), odd, 2, []) is None
    large = offset(normal(4 * 264, 264))  # which no group would find in its caches
    assert Steps.of(target, offset(normal(STEPS, N, 4 * 264)), large, 2, []) is None
    turned = weight.view(weight.shape, (1, weight.shape[0]))
    assert Steps.of(target, x, turned, 2, states) is None
