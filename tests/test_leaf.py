"""What a walk back leaves at the leaves: in how many launches, how it lies, and in whose turn."""

from __future__ import annotations

import numpy as np
import pytest

import clnet

pytestmark = pytest.mark.device


class Launched:
    """The ops of all launches."""

    profiling = False

    def __init__(self) -> None:
        self.ops: list[str] = []

    def command(self, record) -> None:
        self.ops.append(record.op)


def test_gradients_that_are_there_are_added_to_in_one_launch(device):
    leaves = [clnet.rand(*shape, device=device).requires_grad_() for shape in ((5,), (3, 2), (7,))]
    late = clnet.rand(4, device=device).requires_grad_()
    sum((x * x).sum() for x in leaves).backward()
    before = [x.grad.numpy() for x in leaves]
    with device.queue.observe(launched := Launched()):
        sum((x * x).sum() for x in (*leaves, late)).backward()
    assert launched.ops.count("accumulate") == 1
    for x, once in zip(leaves, before, strict=True):
        np.testing.assert_array_equal(x.grad.numpy(), once + once)
    np.testing.assert_array_equal(late.grad.numpy(), 2 * late.detach().numpy())


def test_gradients_lie_as_their_leaves():
    x, w = clnet.rand(2, 3, 4).requires_grad_(), clnet.rand(4, 3).t().requires_grad_()
    (x.transpose(1, 2) * w.t()).backward(given := clnet.rand(2, 4, 3))
    assert (*x.grad.stride(), *w.grad.stride()) == (12, 4, 1, 1, 3)
    assert x.grad.equal(w * given.transpose(1, 2))


def test_leaves_that_share_a_gradient_add_to_it_in_turn():
    a, b, c = (clnet.ones(6, requires_grad=True) for _ in range(3))
    a.grad = b.grad = clnet.zeros(6)
    c.grad = clnet.ones(6)
    (a + 2 * b + 3 * c).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [3.0] * 6
    assert c.grad.tolist() == [4.0] * 6
