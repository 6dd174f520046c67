"""Layers whose weight is computed before every call, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

import clnet
from tests.answers import torch


def take_state(ours: Any, theirs: Any) -> None:
    """Give our layer PyTorch's state, which has the same names."""
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({k: clnet.tensor(v.numpy()) for k, v in state.items()})


def compare_two_steps(ours: Any, theirs: Any, shape: tuple[int, ...], *, tolerance: float) -> None:
    """Results, the gradients of both steps together, and what the state is then.

    Args:
        ours: a layer, of one state with ``theirs``.
        theirs: PyTorch's.
        shape: of the input.
        tolerance: of gradients, in units of the largest of a parameter.
    """
    host = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for _ in range(2):
        a, b = ours(clnet.tensor(host)), theirs(torch.tensor(host))
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
        (a * a).sum().backward()
        (b * b).sum().backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        atol = tolerance * np.abs(q.grad.numpy()).max()
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=atol, err_msg=name)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), atol=1e-5)
