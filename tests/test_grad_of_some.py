"""Gradients of some tensors: what does not lead to them is neither computed nor freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.autograd import grad
from clnet.errors import GradientError
from tests.answers import torch

pytestmark = pytest.mark.device


def leaf(*values):
    return clnet.tensor(values, requires_grad=True)


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


def test_edges_of_the_graph_are_inputs_of_a_walk():
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = clnet.autograd.graph.get_gradient_edge(y)
    own = clnet.autograd.graph.get_gradient_edge(x)
    out = (y * y).sum()
    clnet.autograd.backward(out, inputs=edge, retain_graph=True)
    assert (x.grad, y.grad) == (None, None)
    out.backward(inputs=(edge, own))
    assert x.grad.tolist() == [8, 16]


def test_functions_that_give_no_tensors_are_refused_by_kind():
    whole = clnet.autograd.functional
    for call in (whole.jacobian, whole.hessian, whole.vjp):
        with pytest.raises(TypeError, match="the function gives"):
            call(lambda x: (x, "no tensor"), clnet.ones(2))
    with pytest.raises(RuntimeError, match="one number"):
        whole.hessian(lambda x: x, clnet.ones(2))
    with pytest.raises(GradientError, match="complex number needs a gradient"):
        (leaf(1.0) * 0.5j).backward()


def test_a_sparse_gradient_arrives():
    arriving = clnet.sparse_coo_tensor(clnet.tensor([[1, 0]]), clnet.tensor([1.0, 2.0]), (2,))
    x = leaf(1.0, 1.0)
    x.backward(arriving)
    assert x.grad.to_dense().tolist() == [2, 1]
    assert grad(x * 3, x, arriving)[0].to_dense().tolist() == [6, 3]
    clnet.autograd.backward([x * 2], [arriving])
    assert x.grad.to_dense().tolist() == [6, 3]


def test_edges_are_where_a_walk_begins(device):
    edge_of = clnet.autograd.graph.get_gradient_edge
    x = clnet.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    edge, weight = edge_of(y), clnet.tensor([1.0, 10.0])
    total = edge_of(y.sum())
    del y
    (found,) = clnet.autograd.grad(edge, x, weight, retain_graph=True)
    assert found.tolist() == [3.0, 30.0]
    (found,) = clnet.autograd.grad([edge], [edge_of(x)], [weight], retain_graph=True)
    assert found.tolist() == [3.0, 30.0]
    clnet.autograd.backward([edge, total], [weight, None], retain_graph=True)
    assert x.grad.tolist() == [6.0, 33.0]
    by_hand = clnet.autograd.graph.GradientEdge(edge.node, 0)
    assert clnet.autograd.grad(by_hand, x, weight)[0].tolist() == [3.0, 30.0]
    with pytest.raises(GradientError, match="several elements needs a gradient"):
        clnet.autograd.backward(edge)
    with pytest.raises(GradientError, match=r"made by hand has no shape.*Give the gradient"):
        clnet.autograd.grad(by_hand, x)
