"""LAMB and LARS, whose rates follow from each tensor's size, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from tests.optim.steps import STEPS, gradients, make, parameters, run, starts

pytestmark = pytest.mark.device


def lamb_step(p, state, g, step):
    m, v = state
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    d = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-6) + 0.1 * p
    return p - 0.02 * np.linalg.norm(p) / np.linalg.norm(d) * d, (m, v)


def lars_step(p, state, g, step):
    size, length = np.linalg.norm(p), np.linalg.norm(g)
    ratio = 0.05 * size / (length + 0.1 * size + 1e-8)
    v = 0.9 * state[0] + 0.5 * ratio * (g + 0.1 * p)
    return p - v, (v,)


LAYERWISE = [
    ("Lamb", {"lr": 0.02, "weight_decay": 0.1}, lamb_step, 2),
    ("LARS", {"lr": 0.5, "weight_decay": 0.1, "trust_coefficient": 0.05}, lars_step, 1),
]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("name", "options", "reference", "states"), LAYERWISE)
def test_layerwise_weights_agree_with_numpy(name, options, reference, states, compiled):
    expected = [x.astype(np.float64) for x in starts()]
    kept = [(0.0,) * states for _ in expected]
    for i in range(STEPS):
        for k, g in enumerate(gradients(i)):
            expected[k], kept[k] = reference(expected[k], kept[k], g.astype(np.float64), i + 1)
    params = parameters()
    actual = run(params, make(name, params, options), range(STEPS), compiled=compiled)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Lamb", "LARS"])
def test_a_tensor_of_zeros_takes_a_step(name):
    p = clnet.zeros(3, requires_grad=True)
    optimizer = make(name, [p], {"lr": 0.1})
    p.grad = clnet.ones(3)
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), -0.1, rtol=1e-4)
