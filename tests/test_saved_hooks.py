"""``autograd.graph``: what is kept for backward passes through a program's hands."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext

import numpy as np
import pytest

import clnet
from clnet.compat.autograd_graph import save_on_cpu, saved_tensors_hooks
from clnet.errors import DtypeError, GradientError

pytestmark = pytest.mark.device

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


def loss(x, w):
    return (x @ w).tanh().mul(x.exp()).sum()


def gradients(hooks):
    x, w = (clnet.tensor(a, requires_grad=True) for a in (X, X.T @ X))
    with hooks:
        y = loss(x, w)
    y.backward()
    return np.stack([x.grad.sum().item(), w.grad.sum().item()])


def test_hooks_see_what_is_saved_and_backward_what_they_give():
    seen, given = [], []

    def pack(x):
        assert not clnet.is_grad_enabled()
        assert not x.requires_grad
        seen.append(x.shape)
        return x.numpy().copy()

    def unpack(kept):
        given.append(kept.shape)
        return clnet.tensor(kept)

    np.testing.assert_array_equal(
        gradients(saved_tensors_hooks(pack, unpack)), gradients(nullcontext())
    )
    assert seen
    assert sorted(given) == sorted(seen)


def test_what_a_hook_gives_back_counts():
    x = clnet.tensor(X, requires_grad=True)
    with saved_tensors_hooks(lambda x: x, lambda x: x * 2):
        y = (x * x).sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)


def test_the_tensor_itself_is_let_go():
    x = clnet.tensor(X, requires_grad=True)
    with saved_tensors_hooks(lambda x: x.numpy().copy(), clnet.tensor):
        hidden = x.exp()
        storage = weakref.ref(hidden.array.storage)
        y = hidden.square().sum()
    del hidden
    gc.collect()
    assert storage() is None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * X), rtol=1e-6)


def test_gradients_of_gradients_go_through_what_was_packed():
    found = []
    for hooks in (saved_tensors_hooks(lambda x: x.clone(), lambda x: x), nullcontext()):
        x = clnet.tensor(X, requires_grad=True)
        with hooks:
            y = (x.sin() * x * x).sum()
        (g,) = clnet.autograd.grad(y, x, create_graph=True)
        g.square().sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_array_equal(*found)


def test_hooks_within_hooks_functions_of_users_and_checkpoints():
    seen = []

    def logged(name):
        return saved_tensors_hooks(lambda x: (seen.append(name), x)[1], lambda x: x)

    class Cube(clnet.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * x)
            return x**3

        @staticmethod
        def backward(ctx, *grads):
            _, square = ctx.saved_tensors
            return 3 * square * grads[0]

    x = clnet.tensor(X, requires_grad=True)
    with logged("outer"):
        with logged("inner"):
            y = x.exp()
        z = Cube.apply(x)
        again = clnet.checkpoint(lambda v: v.exp().sin(), x)
    (y + z + again).sum().backward()
    assert seen == ["inner", "outer", "outer"]
    expected = np.exp(X) + 3 * X**2 + np.exp(X) * np.cos(np.exp(X))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_hook_that_gives_no_tensor_is_told():
    x = clnet.tensor(X, requires_grad=True)
    with saved_tensors_hooks(lambda x: x, lambda x: 3):
        y = x.exp().sum()
    with pytest.raises(DtypeError, match="unpack_hook gives a tensor"):
        y.backward()


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.bfloat16], ids=str)
def test_what_is_saved_lies_in_the_hosts_memory(dtype):
    found = []
    for hooks in (save_on_cpu(pin_memory=True), nullcontext()):
        x = clnet.tensor(X, dtype=dtype, requires_grad=True)
        with hooks:
            y = (x * x.exp()).sum()
        y.backward()
        found.append(x.grad.float().numpy())
    np.testing.assert_array_equal(*found)


def test_hooks_are_refused_where_a_program_says_so():
    disabled = clnet.autograd.graph.disable_saved_tensors_hooks
    caught = pytest.raises(GradientError, match="offloading breaks this")
    with disabled("offloading breaks this"), caught, save_on_cpu():
        pass
    with save_on_cpu(), pytest.raises(GradientError, match="no hooks"):
        disabled("no hooks").__enter__()
    with save_on_cpu():
        pass
