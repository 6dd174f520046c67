"""Writes in place whose operands lie in the same memory: what is read is what was there before."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.errors import ShapeError

pytestmark = pytest.mark.device

N = 130


# Each writes into its first argument what it reads from its second, which lies in the same memory.
WRITES = {
    "rows down": lambda x, old: x.__setitem__(slice(1, None), old[:-1]),
    "rows up": lambda x, old: x.__setitem__(slice(None, -1), old[1:]),
    "columns": lambda x, old: x.__setitem__((slice(None), slice(1, None)), old[:, :-1]),
    "transposed": lambda x, old: x.__setitem__(slice(None), old.T),
    "a row over all": lambda x, old: x.__setitem__(slice(None), old[5]),
    "another dtype": lambda x, old: x.__setitem__(slice(2, None), old[:-2] > 0.5),
    "rows by an index": lambda x, old: x.__setitem__(([3, 2, 1],), old[[2, 1, 0]]),
    "a slice by an index": lambda x, old: x.__setitem__(([9, 8, 7, 6],), old[5:9]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_reads_what_was_there(write, compiled):
    host = np.random.default_rng(0).uniform(size=(N, N)).astype(np.float32)
    x = clnet.tensor(host)

    def both(x):
        write(x, x)
        return x + 0

    result = (clnet.compile(both) if compiled else both)(x)
    write(host, host.copy())
    np.testing.assert_array_equal(x.numpy(), host)
    np.testing.assert_array_equal(result.numpy(), host)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("copy_", lambda x: (x[:-1],)),
        ("add_", lambda x: (x[:-1],)),
        ("mul_", lambda x: (x[3],)),
        ("div_", lambda x: (x[7, 7],)),
        ("lerp_", lambda x: (x[:-1], 0.5)),
        ("addcmul_", lambda x: (x[:-1], x[1:])),
    ],
)
def test_methods_in_place_read_what_was_there(name, operands):
    x = clnet.tensor(np.random.default_rng(0).uniform(1, 2, size=(N, N)).astype(np.float32))
    expected = x.clone()
    getattr(expected[1:], name)(*operands(x.clone()))
    getattr(x[1:], name)(*operands(x))
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


def test_gradients_go_through_a_write_from_the_same_memory():
    x = clnet.tensor(np.arange(6.0, dtype=np.float32), requires_grad=True)
    h = x * 1
    h[1:] = h[:-1]
    (h * clnet.arange(6)).sum().backward()
    assert h.tolist() == [0, 0, 1, 2, 3, 4]
    assert x.grad.tolist() == [1, 2, 3, 4, 5, 0]


REPEATED = {
    "copy_": lambda x: x.copy_(clnet.ones(3, 4)),
    "index": lambda x: x.__setitem__(slice(0, 2), clnet.ones(2, 4)),
    "add": lambda x: x.add_(1),
    "uniform_": lambda x: x.uniform_(),
    "scatter_": lambda x: x.scatter_(0, clnet.tensor([[0, 0, 0, 0]]), value=1.0),
    "index_add_": lambda x: x.index_add_(0, clnet.tensor([0]), clnet.ones(1, 4)),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 2.0),
    "fill_diagonal_": lambda x: x.fill_diagonal_(1.0),
}


@pytest.mark.parametrize("name", REPEATED)
def test_elements_that_stand_for_several_are_not_overwritten(name):
    base = clnet.zeros(1, 4)
    with pytest.raises(ShapeError, match=rf"^{name}: .*"):
        REPEATED[name](base.expand(3, 4))
    assert base.tolist() == [[0, 0, 0, 0]]


def test_one_number_may_overwrite_elements_that_stand_for_several():
    base = clnet.zeros(1, 4)
    base.expand(3, 4).fill_(2)
    base.expand(3, 4)[:, 1] = 5.0
    assert base.tolist() == [[2, 5, 2, 2]]


def test_arrays_that_cannot_meet_are_not_copied():
    x = clnet.zeros(4, 6).array
    first, second = x.view((2, 6), (6, 1)), x.view((2, 6), (6, 1), 12)
    assert not first.disturbs(second)
    assert not first.disturbs(x.view((2, 6), (6, 1)))
    assert not first.disturbs(clnet.zeros(2, 6).array)
    assert not first.disturbs(x.view((0, 6), (6, 1), 3))
    assert first.disturbs(x.view((2, 6), (6, 1), 6))
    assert first.disturbs(x.view((2, 6), (6, 1), 11))
    assert first.disturbs(x.view((6,), (1,)))
    halves = Array(x.storage, (4,), (1,), 24, clnet.float16)
    assert first.disturbs(Array(x.storage, (4,), (1,), 20, clnet.float16))
    assert not first.disturbs(halves)
