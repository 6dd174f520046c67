"""Parameters, gradients and steps that are the same for every optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np

import clnet

SHAPES = ((5, 3), (7,))
STEPS = 20


def starts(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]


def gradients(step):
    # Means differ from zero, so that a forgotten bias correction or mean shows.
    rng = np.random.default_rng(1000 + step)
    return [(0.5 + rng.standard_normal(shape)).astype(np.float32) for shape in SHAPES]


def parameters():
    return [clnet.tensor(x, requires_grad=True) for x in starts()]


def stepper(params, optimizer, *, compiled) -> Any:
    def step(*grads):
        for p, grad in zip(params, grads, strict=True):
            p.grad = grad
        optimizer.step()

    return clnet.compile(step) if compiled else step


def run(params, optimizer, steps, *, compiled=False):
    step = stepper(params, optimizer, compiled=compiled)
    for i in steps:
        step(*[clnet.tensor(g) for g in gradients(i)])
    return [p.detach().numpy() for p in params]


def make(name, params, options):
    return getattr(clnet.optim, name)(params, **options)
