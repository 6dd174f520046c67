"""Gradients of slices that do not overlap are copied to their places, not added up."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import clnet
from clnet.compile.join_slices import join_slices
from clnet.compile.passes import PASSES, rewrite
from clnet.compile.record import record
from clnet.compile.tracer import Step
from clnet.ops.placed import Placed
from tests.kernels.launching import gpu_shaped

BEFORE = PASSES[: PASSES.index(join_slices)]


def heads(x):
    q, k, v = x.reshape(4, 5, 3, 6).permute(2, 0, 1, 3)
    return (q * k).sum() + (v * v * v).sum()


def halves(x):
    first, second = x.chunk(2, -1)
    return (first * second * second).sum()


def ends(x):
    """What lies between gets no gradient."""
    return (x[:1] * x[3:]).sum()


def overlapping(x):
    return (x[:3] * x[1:]).sum()


def spread(x):
    return (x[:, ::2] * x[:, 1::2]).sum()


def cut_otherwise(x):
    """The boxes lie apart, but count along other axes."""
    return (x[:, 45:] * 3).sum() + (x.reshape(8, 45)[2:4] ** 2).sum()


def of_other_ranks(x):
    return (x[:1] * 3).sum() + (x.reshape(4, 9, 10)[3:] ** 2).sum()


def gradient(function):
    def step(x):
        (g,) = clnet.autograd.grad(function(x), [x])
        return g

    return step


def drawn():
    values = np.random.default_rng(0).standard_normal((4, 90)).astype(np.float32)
    return clnet.tensor(values, requires_grad=True)


def joined(function):
    trace = rewrite(record(gradient(function), (drawn(),), {}, clnet.device()).trace, BEFORE)
    steps = [s for s in join_slices(trace).steps if isinstance(s, Step)]
    return [len(s.inputs) for s in steps if isinstance(s.function, Placed)]


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (heads, [3]),
        (halves, [2]),
        (ends, [2]),
        (overlapping, []),
        (spread, []),
        (cut_otherwise, []),
        (of_other_ranks, []),
    ],
)
def test_gradients_are_as_before_and_in_one_step_where_slices_lie_apart(function, parts):
    assert joined(function) == parts
    x = drawn()
    got = clnet.compile(gradient(function))(x)
    np.testing.assert_array_equal(got.numpy(), gradient(function)(x).numpy())


def test_a_gradient_that_is_read_elsewhere_stays():
    def both(x):
        first = x[:2]
        (part,) = clnet.autograd.grad((first * first).sum(), [x], create_graph=True)
        (rest,) = clnet.autograd.grad((x[2:] * 3).sum(), [x])
        return part + rest, part * 2

    x = drawn()
    trace = rewrite(record(both, (x,), {}, clnet.device()).trace, BEFORE)
    assert not [
        s for s in join_slices(trace).steps if isinstance(s, Step) and type(s.function) is Placed
    ]
    for got, expected in zip(clnet.compile(both)(x), both(x), strict=True):
        np.testing.assert_array_equal(got.detach().numpy(), expected.detach().numpy())


def test_many_slices_are_compared_with_each_other_once():
    """Steps of a sequence are compared as pairs, not all of them again at each sum."""
    steps = 48

    def sequence(x):
        state = x[:, 0]
        for t in range(1, steps):
            state = state * 0.5 + x[:, t] * state
        return state.sum()

    trace = rewrite(record(gradient(sequence), (drawn(),), {}, clnet.device()).trace, BEFORE)
    compared = 0

    def count(frame, event, _):
        nonlocal compared
        name = frame.f_code.co_filename
        compared += event == "call" and name.endswith("join_slices.py")

    sys.setprofile(count)
    try:
        found = join_slices(trace).steps
    finally:
        sys.setprofile(None)
    parts = [len(s.inputs) for s in found if isinstance(s, Step) and type(s.function) is Placed]
    assert max(parts) >= steps
    assert compared < 8 * steps**2


def drawn_wide():
    values = np.random.default_rng(0).standard_normal(540).astype(np.float32)
    return clnet.tensor(values, requires_grad=True)


def projected(x):
    """Attention of parts of one array, of which nobody else reads the gradients."""
    q, k, v = (p.view(2, 6, 3, 5).transpose(1, 2) for p in x.view(2, 6, 45).split(15, 2))
    y = clnet.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return (y.transpose(1, 2).reshape(2, 6, 15) ** 2).sum()


def by_heads(x):
    """Heads before rows, and keys that queries are, too."""
    q, v = x.view(2, 2, 27, 5)
    return (clnet.nn.functional.scaled_dot_product_attention(q, q, v) ** 2).sum()


def rotated(x):
    q, k, v = x.view(3, 2, 18, 5)
    y = clnet.nn.functional.scaled_dot_product_attention(q.flip(0), k * 2, v)
    return (y**2).sum()


@pytest.mark.parametrize(("function", "copies"), [(projected, 0), (by_heads, 1), (rotated, 1)])
def test_attention_puts_its_gradients_in_their_places(function, copies, monkeypatch):
    device = clnet.device()
    wanted = gradient(function)(drawn_wide())
    monkeypatch.setattr(device, "target", gpu_shaped(device))
    compiled = clnet.compile(gradient(function))
    found = compiled(drawn_wide())
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert compiled.explain().count(" slice_backward ") == copies
