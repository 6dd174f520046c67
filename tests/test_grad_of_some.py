"""Gradients of some tensors: what does not lead to them is neither computed nor freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from tests.answers import torch

pytestmark = pytest.mark.device


def updated_thrice(lib: Any) -> list[float]:
    """Parameters that are results, as functional optimisers make them, and their gradients."""
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    found = []
    for _ in range(3):
        loss = ((w * w).sin() + w).sum()
        (g,) = lib.autograd.grad(loss, w)
        w = w - 0.1 * g
        found.append(loss.item())
    return found


def test_graphs_behind_a_target_are_not_freed():
    np.testing.assert_allclose(updated_thrice(clnet), updated_thrice(torch), rtol=1e-6)


def inner_and_outer(lib: Any) -> list[Any]:
    x = lib.tensor([0.5, 1.5], requires_grad=True)
    y = x.exp()
    z = (y * y).sum() + (x * 3).sum()
    return [g.tolist() for g in lib.autograd.grad(z, (x, y), retain_graph=True)]


def test_targets_behind_targets():
    np.testing.assert_allclose(inner_and_outer(clnet), inner_and_outer(torch), rtol=1e-6)


def needs_seen(lib: Any) -> list[tuple[bool, ...]]:
    seen: list[tuple[bool, ...]] = []

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            seen.append(tuple(ctx.needs_input_grad))
            return g * b, g * a

    a, b = (lib.ones(2, requires_grad=True) for _ in range(2))
    y = Product.apply(a, b)
    lib.autograd.grad(y.sum(), b, retain_graph=True)
    y.sum().backward()
    return seen


def test_functions_of_users_are_told_what_is_wanted():
    assert needs_seen(clnet) == needs_seen(torch)


def test_weights_have_no_gradient_where_the_input_s_is_asked_for():
    net = clnet.nn.Linear(3, 4)
    x = clnet.ones(2, 3, requires_grad=True)
    loss = net(x).sum()
    with clnet.profile() as alone:
        clnet.autograd.grad(loss, x)
    loss = net(x).sum()
    with clnet.profile() as whole:
        loss.backward()
    assert len(alone.commands) < len(whole.commands)


def test_hooks_beside_the_way_are_not_called():
    def called(lib: Any) -> list[str]:
        seen: list[str] = []
        a, b = (lib.ones(2, requires_grad=True) for _ in range(2))
        c, d = a * 2, b * 3
        c.register_hook(lambda g: seen.append("c"))
        d.register_hook(lambda g: seen.append("d"))
        lib.autograd.grad((c * d).sum(), a)
        return seen

    assert called(clnet) == called(torch)
