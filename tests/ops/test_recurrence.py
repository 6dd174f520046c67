"""Recurrent layers as one op: like its steps, also differentiated twice, in 16 bits, compiled."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.autograd import grad
from clnet.ops.recurrence import Recurrence, both_directions, recurrence
from clnet.ops.rnn import Cell

pytestmark = pytest.mark.device

KINDS = [(cell, backwards) for cell in Cell for backwards in (False, True)]


def operands(cell, *, bias=True, steps=4, n=3, size=5):
    rng = np.random.default_rng(0)
    rows = cell.gates * size
    shapes = [(steps, n, rows), *[(n, size)] * cell.results, (rows, size), *[(rows,)] * bias]
    drawn = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    return [clnet.tensor(d, requires_grad=True) for d in drawn]


def at_once(cell, tensors, backwards):
    x, *rest = tensors
    states, rest = rest[: cell.results], rest[cell.results :]
    weight, bias = rest[0], rest[1] if len(rest) > 1 else None
    return recurrence(cell, x, states, weight, bias, backwards=backwards)


def by_steps(cell, tensors, backwards):
    return Recurrence(cell, backwards).decompose(*tensors)[: cell.results]


def slopes(make, cell, tensors, backwards, *, create_graph=False):
    results = make(cell, tensors, backwards)
    rng = np.random.default_rng(1)
    weights = [clnet.tensor(rng.standard_normal(y.shape).astype(np.float32)) for y in results]
    return results, grad(results, tensors, weights, create_graph=create_graph)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("cell", "backwards"), KINDS)
def test_it_is_its_steps(cell, backwards, bias):
    tensors = operands(cell, bias=bias)
    ours, own = slopes(at_once, cell, tensors, backwards)
    theirs, expected = slopes(by_steps, cell, tensors, backwards)
    for a, b in zip((*ours, *own), (*theirs, *expected), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("cell", "backwards"), [(Cell.LSTM, True), (Cell.GRU, False)])
def test_gradients_of_gradients_are_those_of_its_steps(cell, backwards):
    tensors = operands(cell, steps=2, n=2, size=3)
    found = []
    for make in (at_once, by_steps):
        _, once = slopes(make, cell, tensors, backwards, create_graph=True)
        found.append(grad([(g * g).sum() for g in once], tensors))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)
        assert np.abs(b.numpy()).max() > 1e-3


def test_gradients_of_some_results_to_some_inputs():
    x, h, c, weight, _ = operands(Cell.LSTM)
    _, cells = recurrence(Cell.LSTM, x.detach(), [h, c.detach()], weight, None, backwards=False)
    gh, gweight = grad([cells[-1].sum()], [h, weight])
    tensors = [x.detach(), h, c.detach(), weight]
    expected = grad([by_steps(Cell.LSTM, tensors, False)[1][-1].sum()], [h, weight])
    for a, b in zip((gh, gweight), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_one_step_and_no_example():
    for sizes in ({"steps": 1}, {"n": 0}):
        tensors = operands(Cell.GRU, **sizes)
        ours, own = slopes(at_once, Cell.GRU, tensors, False)
        theirs, expected = slopes(by_steps, Cell.GRU, tensors, False)
        for a, b in zip((*ours, *own), (*theirs, *expected), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", Cell)
def test_both_directions_side_by_side_are_two_sequences(cell, bias):
    """With gradients, and gradients of gradients; on a CPU, which would not choose it by itself."""
    count = cell.results
    drawn = [operands(cell, bias=bias), operands(cell, bias=bias)]
    pairs = [clnet.stack(ways).detach().requires_grad_() for ways in zip(*drawn, strict=True)]

    def joined(pairs):
        x, *rest = pairs
        y, last = both_directions(
            cell, clnet.cat([*x], -1), rest[:count], rest[count], rest[-1] if bias else None
        )
        return (y, *last)

    def apart(pairs):
        ways = [at_once(cell, [p[way] for p in pairs], backwards=way == 1) for way in range(2)]
        ends = [[made[k][0 if way else -1] for way, made in enumerate(ways)] for k in range(count)]
        return (clnet.cat([ways[0][0], ways[1][0]], -1), *map(clnet.stack, ends))

    found = []
    for make in (joined, apart):
        results = make(pairs)
        once = grad([(y * y).sum() for y in results], pairs, create_graph=True)
        found.append((*results, *once, *grad([(g * g).sum() for g in once], pairs)))
    for a, b in zip(*found, strict=True):
        assert np.abs(b.detach().numpy()).max() > 1e-3
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-4)


def test_the_weights_gradient_is_one_product():
    layer, calls = clnet.nn.LSTM(3, 4), []
    for steps in (3, 6):
        with clnet.profile() as seen:
            layer(clnet.randn(steps, 2, 3))[0].sum().backward()
        calls.append(seen.totals(lambda command: command.op)["lstm_sequence_weight"].calls)
    assert calls[0] == calls[1] > 0
