"""``x.data``: writes that the tape does not watch, and other memory for a tensor, as PyTorch's."""

from __future__ import annotations

import pytest

import clnet
from clnet.errors import DtypeError, GradientError, TraceError

pytestmark = pytest.mark.device


def leaf():
    return clnet.arange(4, dtype=clnet.float32).requires_grad_()


def test_backward_reads_what_was_written_through_data():
    p, q = leaf(), leaf()
    y = (p * p).sum()
    p.data[1:].mul_(2)
    y.backward()
    assert p.grad.tolist() == [0, 4, 8, 12]
    y = (q * q).sum()
    q.detach().mul_(2)
    with pytest.raises(GradientError, match="changed in place"):
        y.backward()


def test_a_compiled_function_writes_through_data():
    p = leaf()

    @clnet.compile
    def step():
        y = (p * p).sum()
        p.data.mul_(2)
        (g,) = clnet.autograd.grad(y, p)
        return g

    assert step().tolist() == [0, 4, 8, 12]
    assert step().tolist() == [0, 8, 16, 24]


@pytest.mark.parametrize("compiled", [False, True])
def test_weights_are_exchanged_and_come_back(compiled):
    """As moving averages of weights are tested: what was kept is not overwritten."""
    p, x = leaf(), clnet.ones(4)
    f = (lambda x: (p * x).sum()) if not compiled else clnet.compile(lambda x: (p * x).sum())
    assert f(x).item() == 6
    average = clnet.full((4,), 2.0)
    for _ in range(2):
        kept = p.data
        p.data = average
        assert f(x).item() == 8
        p.data = kept
        assert f(x).item() == 6
        p.data.add_(1)
        p.data.sub_(1)
    assert p.requires_grad
    assert average.tolist() == [2] * 4


def test_memory_is_shared_with_what_was_assigned():
    p, flat = leaf(), clnet.zeros(6)
    f = clnet.compile(lambda x: (p * x).sum())
    assert f(clnet.ones(4)).item() == 6
    p.data = flat[1:5]
    flat.add_(3)
    assert f(clnet.ones(4)).item() == 12
    p.data += 1
    assert flat.tolist() == [3, 4, 4, 4, 4, 3]


def test_a_step_is_not_traced_anew_for_what_is_assigned_behind_it():
    p = leaf()
    f = clnet.compile(lambda x: (p * x).sum())
    for _ in range(3):
        f(clnet.ones(4))
        p.data = p.data.clamp(0, 1)
    assert f.num_traces == 1
    assert f(clnet.ones(4)).item() == 3


def test_another_form():
    p = leaf()
    f = clnet.compile(lambda: p.sum())
    f()
    p.data = clnet.ones(2, 3, dtype=clnet.float64)
    assert (p.shape, p.dtype, p.requires_grad) == ((2, 3), clnet.float64, True)
    assert f().item() == 6
    with pytest.raises(DtypeError, match="holds floating numbers"):
        p.data = clnet.arange(3)
    with pytest.raises(DtypeError, match="what is assigned is a tensor"):
        p.data = [1.0]

    @clnet.compile
    def longer(x):
        p.data = x

    with pytest.raises(TraceError, match="becomes what has its form"):
        longer(clnet.ones(5))
