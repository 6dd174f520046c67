"""Elements picked by truth values, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, GradientError, ShapeError, TraceError
from tests.opcase import OpCase, booleans, every_check, integers, normal

pytestmark = pytest.mark.device

RNG = np.random.default_rng(10)
PAIR = [((0, 3), (0, 3)), ((1, 1), (1, 1))]


CASES = [
    OpCase(
        ops.nonzero,
        lambda x: np.argwhere(x),
        [integers(-1, 2, (4, 3, 5))],
        grad=False,
        shapes=[((0, 3),), ((7,),), ((1, 1),)],
    ),
    OpCase(
        lambda x: x.nonzero(as_tuple=True),
        np.nonzero,
        [booleans(40, 30)],
        grad=False,
        name="nonzero",
        label="as_tuple",
    ),
    OpCase(ops.argwhere, lambda x: np.argwhere(x), [booleans(4, 5)], grad=False),
    OpCase(
        lambda x, mask: x.masked_select(mask),
        lambda x, mask: x[mask],
        [normal(7, 33), booleans(7, 33)],
        shapes=PAIR,
        name="masked_select",
    ),
    OpCase(
        lambda x, mask: ops.masked_select(x * x * x, mask),
        lambda x, mask: np.broadcast_to(x**3, (3, 4))[np.broadcast_to(mask, (3, 4))],
        [normal(3, 1), booleans(4)],
        grad2=True,
        k=4,
        shapes=(),
        name="masked_select",
        label="broadcast",
    ),
    OpCase(
        lambda x, mask: x.masked_fill(mask, -2.5),
        lambda x, mask: np.where(mask, -2.5, x),
        [normal(7, 33), booleans(7, 33)],
        shapes=PAIR,
        dtypes=["float16", "bfloat16", "float64"],
        name="masked_fill",
    ),
    OpCase(
        lambda x, mask, value: ops.masked_fill(x * x * x, mask, value * value),
        lambda x, mask, value: np.where(mask, value**2, x**3),
        [normal(5, 4), booleans(3, 1, 4), normal()],
        grad2=True,
        k=20,
        shapes=(),
        layouts=(),
        name="masked_fill",
        label="broadcast",
    ),
    OpCase(
        lambda x, mask: x.masked_fill(mask, 7),
        lambda x, mask: np.where(mask, 7, x),
        [integers(-9, 9, (4, 5)), booleans(4, 5)],
        grad=False,
        name="masked_fill",
        label="integers",
    ),
]
OTHERWISE_TESTED = {
    "masked_fill_": "test_filling_in_place",
    "fill": "test_one_value_everywhere_has_the_gradient_of_the_value",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("n", [0, 1, 5000])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_nonzero_of_any_number(n, share):
    host = (RNG.random(n) < share).astype(np.float32)
    host[host == 1] = RNG.choice([np.nan, np.inf, -1, 1e-40], int(host.sum()))
    np.testing.assert_array_equal(clnet.tensor(host).nonzero().numpy()[:, 0], np.flatnonzero(host))


def test_nonzero_of_a_number():
    assert clnet.tensor(3.0).nonzero().shape == (1, 0)
    assert clnet.tensor(0).nonzero().shape == (0, 0)
    assert [i.tolist() for i in clnet.tensor(2).nonzero(as_tuple=True)] == [[0]]


def test_where_of_a_condition_alone_is_where_it_is_true():
    mask = clnet.tensor([[True, False], [True, True]])
    assert [i.tolist() for i in clnet.where(mask)] == [[0, 1, 1], [0, 0, 1]]
    x = clnet.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.where(mask, 0).tolist() == clnet.where(mask, x, 0).tolist() == [[1, 0], [3, 4]]


def test_filling_in_place():
    x = clnet.zeros(2, 3)
    mask = clnet.tensor([True, False, True])
    assert x.masked_fill_(mask, 4) is x
    assert x.tolist() == [[4, 0, 4]] * 2


def test_counting_cannot_be_traced():
    @clnet.compile
    def step(x):
        return x.nonzero()

    with pytest.raises(TraceError, match="a value is read on the host"):
        step(clnet.ones(3))


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x, m: x.masked_select(x), DtypeError, "masked_select: a mask is bool"),
        (lambda x, m: x.masked_fill(x, 0), DtypeError, "masked_fill: a mask is bool"),
        (lambda x, m: x.masked_fill(m, x), ShapeError, "the value has no axes"),
        (lambda x, m: x.long().masked_fill(m, 1e30), DtypeError, "x holds the value"),
        (lambda x, m: x.requires_grad_().masked_fill_(m, 0), GradientError, "changed in place"),
        (lambda x, m: x[0].masked_fill_(m, 0), ShapeError, "does not broadcast"),
        (lambda x, m: clnet.where(m, x), ArgumentError, "both values are given, or none"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    x = clnet.ones(3, 4)
    with pytest.raises(error, match=law):
        call(x, x > 0)


def test_whole_numbers_are_filled_with_what_is_whole_of_a_float():
    x, mask = clnet.tensor([1, 2, 3]), clnet.tensor([True, False, True])
    assert x.masked_fill(mask, -100.0).tolist() == [-100, 2, -100]
    assert x.masked_fill_(mask, 2.5).tolist() == [2, 2, 2]


def test_truth_is_filled_with_that_of_a_number():
    x, mask = clnet.tensor([True, False]), clnet.tensor([False, True])
    assert x.masked_fill(mask, 0.5).tolist() == [True, True]
    assert x.masked_fill_(~mask, 0).tolist() == [False, False]


def test_one_value_everywhere_has_the_gradient_of_the_value():
    x, value = clnet.ones(2, 3, requires_grad=True), clnet.tensor(2.5, requires_grad=True)
    y = clnet.fill(x * float("nan"), value)
    assert y.tolist() == [[2.5] * 3] * 2
    y.sum().backward()
    assert (value.grad.item(), x.grad.isnan().any().item()) == (6.0, True)  # 0 times NaN
    assert clnet.fill(clnet.arange(3), 7).tolist() == [7] * 3
    assert clnet.fill(clnet.arange(3), 7).dtype is clnet.int64
