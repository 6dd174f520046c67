"""Indexing, embeddings and gathers."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, BoundsError, DtypeError, GradientError, ShapeError
from tests.opcase import OpCase, dense, every_check, integers, normal

RNG = np.random.default_rng(8)
INDEX = np.array([[3, 0, 3], [1, -4, 2]])


def key_case(label, key, *, shape=(4, 5, 6)):
    """``x[key]``; arrays in the key become index tensors."""

    def convert(part):
        return clnet.tensor(part) if isinstance(part, np.ndarray) else part

    def taken(x):
        return x[tuple(map(convert, key)) if isinstance(key, tuple) else convert(key)]

    return OpCase(
        taken, lambda x: x[key], [normal(*shape)], shapes=[], name="__getitem__", label=label
    )


def embedding_reference(index, weight):
    return weight[index]


CASES = [
    key_case("2", 2),
    key_case("-1, 1:4", (-1, slice(1, 4))),
    key_case("..., ::2", (..., slice(None, None, 2))),
    key_case("None, 1, :, None", (None, 1, slice(None), None)),
    key_case("1:-1, ..., 3", (slice(1, -1), ..., 3)),
    key_case("all", ()),
    key_case("index", INDEX),
    key_case("list", ([0, 2, 2],)),
    key_case(":, index", (slice(None), INDEX)),
    key_case("1:, ..., index", (slice(1, None), ..., INDEX)),
    key_case("index, index", (INDEX, np.array([0, 4, -1]))),
    key_case("index, :, index", (INDEX, slice(None), np.array([0, 5, -1]))),
    key_case("::2, index, index", (slice(None, None, 2), INDEX, INDEX)),
    OpCase(
        ops.embedding,
        embedding_reference,
        [integers(0, 9, (4, 7)), normal(9, 20)],
        shapes=[[(0,), (9, 3)], [(2, 1), (9, 1)]],
        k=8,
    ),
    OpCase(
        lambda x, index: ops.index_select(x, 1, index),
        lambda x, index: x[:, index],
        [normal(3, 5, 4), integers(0, 5, (8,))],
        dtypes=["float16", "bfloat16"],
        shapes=[[(3, 5, 0), (2,)], [(1, 5, 1), (0,)]],
        k=4,
        name="index_select",
    ),
    OpCase(
        lambda x, index: ops.take_along_dim(x, index, 1),
        lambda x, index: np.take_along_axis(x, index, 1),
        [normal(1, 5, 3), integers(0, 5, (4, 7, 1))],
        layouts=[dense],
        shapes=[[(2, 5, 1), (2, 0, 1)], [(1, 5, 1), (1, 1, 1)]],
        k=28,
        name="take_along_dim",
    ),
    OpCase(
        lambda x, index: x.take_along_dim(index),
        lambda x, index: x.ravel()[index.ravel()],
        [normal(4, 5), integers(0, 20, (3, 2))],
        shapes=[],
        k=6,
        name="take_along_dim",
        label="flat",
    ),
    OpCase(
        lambda x, index: ops.gather(x, 1, index),
        lambda x, index: np.take_along_axis(x[: len(index)], index, 1),
        [normal(6, 5), integers(0, 5, (4, 9))],
        dtypes=["float16", "bfloat16"],
        layouts=[dense],
        shapes=[[(2, 5), (2, 0)], [(3, 5), (1, 1)]],
        k=9,
        name="gather",
    ),
]


def assigned(x, value, index):
    y = ops.clone(x)
    y[:, index] = value
    return y


def assigned_reference(x, value, index):
    y = x.copy()
    y[:, index] = value
    return y


CASES += [
    OpCase(
        assigned,
        assigned_reference,
        [normal(3, 5, 2), normal(4, 2), integers(-5, 5, (4,))],
        grad=False,
        layouts=[dense],
        shapes=[[(1, 5, 1), (3, 1), (3,)], [(3, 5, 0), (3, 0), (3,)]],
        name="__setitem__",
    ),
]

# The ops are linear: second derivatives show in a composition.
CASES += [
    OpCase(
        lambda x: (x * x * x)[1:, ::2],
        lambda x: (x**3)[1:, ::2],
        [normal(3, 4)],
        grad2=True,
        shapes=[],
        name="__getitem__",
        label="slice of cubes",
    ),
    OpCase(
        lambda x, index: (x * x * x)[:, index],
        lambda x, index: (x**3)[:, index],
        [normal(3, 4), integers(-4, 4, (7,))],
        grad2=True,
        k=7,
        shapes=[],
        name="__getitem__",
        label="index of cubes",
    ),
    OpCase(
        lambda x, index: ops.gather(x * x * x, 1, index),
        lambda x, index: np.take_along_axis(x**3, index, 1),
        [normal(3, 4), integers(0, 4, (3, 7))],
        grad2=True,
        k=7,
        shapes=[],
        name="gather",
        label="of cubes",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_basic_indexing_is_a_view():
    x = clnet.zeros(3, 4)
    part = x[1:, ::2]
    assert part.array.storage is x.array.storage
    part.fill_(1)
    np.testing.assert_array_equal(x.numpy(), [[0] * 4, [1, 0, 1, 0], [1, 0, 1, 0]])


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (1, (5, 6)),
        ((slice(None), -1), (4, 1)),
        ((..., slice(1, 4, 2)), (4, 5, 2)),
        (np.array([2, 0]), (2, 5, 6)),
        ((slice(None), np.array([[1, 1], [4, -1]])), (2, 6)),
        ((np.array([0, 3]), np.array([1, 1])), (1,)),
        ((slice(None, None, 2), np.array([1, 0])), (1,)),
        ((np.array([0, 3]), slice(1, 3), np.array([5, 0])), (2, 2)),
    ],
    ids=str,
)
def test_assignment_is_numpys(key, shape):
    host = RNG.normal(size=(4, 5, 6)).astype(np.float32)
    value = RNG.normal(size=shape).astype(np.float32)
    x = clnet.tensor(host)
    x[key] = clnet.tensor(value)
    host[key] = value
    np.testing.assert_array_equal(x.numpy(), host)
    x[key] = 7
    host[key] = 7
    np.testing.assert_array_equal(x.numpy(), host)


def test_assignment_through_the_tape_is_refused():
    x = clnet.zeros(3, 4).requires_grad_()
    for key in (0, clnet.tensor([0, 1])):
        with pytest.raises(GradientError, match="not changed in place"):
            x[key] = 1.0
    assert not x.detach().numpy().any()


def test_slices_may_be_empty():
    x = clnet.ones(3, 4)
    assert x[2:1].shape == (0, 4)
    assert x[5:, 1].shape == (0,)
    assert x[clnet.zeros(0).long()].shape == (0, 4)


def test_iteration_gives_the_rows():
    x = clnet.tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]


def test_embedding_gives_no_gradient_to_the_padding():
    weight = clnet.tensor(RNG.normal(size=(5, 3)).astype(np.float32), requires_grad=True)
    index = clnet.tensor([[0, 4, 4], [2, 4, 0]])
    y = ops.embedding(index, weight, padding_idx=-1)
    np.testing.assert_array_equal(y.detach().numpy(), weight.detach().numpy()[index.numpy()])
    (first,) = grad(y * y, weight, clnet.ones(y.shape), create_graph=True)
    expected = 2 * weight.detach().numpy() * np.array([2, 0, 1, 0, 0])[:, None]
    np.testing.assert_allclose(first.detach().numpy(), expected, rtol=1e-6)
    (second,) = grad(first, weight, clnet.ones(first.shape))
    np.testing.assert_allclose(second.numpy(), np.tile([[4], [0], [2], [0], [0]], 3), rtol=1e-6)


def test_index_out_of_range_reads_nan_and_gets_no_gradient():
    weight = clnet.ones(3, 2).requires_grad_()
    y = ops.embedding(clnet.tensor([0, 3, -1]), weight)
    with pytest.raises(IndexError, match=r"embedding: .*rows=3, further=1"):
        clnet.synchronize()
    assert np.isnan(y.detach().numpy()).any(1).tolist() == [False, True, True]
    y.backward(clnet.ones(y.shape))
    np.testing.assert_array_equal(weight.grad.numpy(), [[1, 1], [0, 0], [0, 0]])
    x = clnet.ones(3, 4)
    picked = x[clnet.tensor([0, 0, -4]), clnet.tensor([-4, 4, 0])]
    with pytest.raises(IndexError, match=r"index: .*further=1"):
        clnet.synchronize()
    np.testing.assert_array_equal(picked.numpy(), [1, np.nan, np.nan])


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16], ids=repr)
def test_16_bit_gradients_add_up_in_float32(dtype):
    x = clnet.ones(2, 3, dtype=dtype).requires_grad_()
    y = x[clnet.zeros(3000, dtype=clnet.int64)]
    y.backward(clnet.ones(3000, 3, dtype=dtype))
    assert x.grad.dtype is dtype
    expected = np.array([[3000] * 3, [0] * 3]).astype(dtype.numpy)
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    missing = x.detach()[clnet.tensor([5])].float()
    with pytest.raises(IndexError, match="index=5"):
        clnet.synchronize()
    assert np.isnan(missing.numpy()).all()


def test_gradient_of_a_repeated_index_has_the_same_bits_again():
    host = RNG.normal(size=(3, 40)).astype(np.float32)
    index = clnet.tensor(RNG.integers(0, 3, 5000))
    weight = clnet.tensor(RNG.normal(size=(5000, 40)).astype(np.float32))
    results = []
    for _ in range(3):
        x = clnet.tensor(host, requires_grad=True)
        x[index].backward(weight)
        results.append(x.grad.numpy().tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x: x[3], BoundsError, "inside its axis"),
        (lambda x: x[0, 0, 0], BoundsError, "no more indices than axes"),
        (lambda x: x[..., ...], BoundsError, "one ... at most"),
        (lambda x: x[::0], ArgumentError, "the step of a slice is not 0"),
        (lambda x: x[0.5], ArgumentError, "a key holds"),
        (lambda x: x[(x > 0)[1:]], BoundsError, "a mask has the size of its axes"),
        (lambda x: ops.index_select(x, 0, x[0] > 0), DtypeError, "a mask is not an index"),
        (lambda x: x[clnet.tensor([0]), clnet.tensor([0]), 0], BoundsError, "no more indices"),
        (lambda x: ops.embedding(x, x), DtypeError, "int64 or int32"),
        (lambda x: ops.embedding(clnet.tensor([0]), x[0]), ShapeError, r"\(rows, width\)"),
        (lambda x: ops.embedding(clnet.tensor([0]), x, 3), BoundsError, "padding_idx is a row"),
        (lambda x: ops.index_select(x, 0, clnet.tensor([[0]])), ShapeError, "one axis"),
        (lambda x: ops.gather(x, 0, clnet.tensor([0])), ShapeError, "as many axes"),
        (lambda x: x.take_along_dim(clnet.tensor([0]), 0), ShapeError, "as many axes as x"),
        (lambda x: ops.gather(x, 1, clnet.zeros(4, 1).long()), ShapeError, "none longer"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(3, 4))


@pytest.mark.parametrize("dtype", [clnet.int64, clnet.int32], ids=str)
def test_negative_indices_count_from_the_end_where_pytorch_has_it(dtype):
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = clnet.tensor(host, requires_grad=True)
    places = np.array([[-1, 0, -4], [3, -2, 1], [-3, -3, 2]])
    found = ops.take_along_dim(x, clnet.tensor(places, dtype=dtype), 1)
    np.testing.assert_array_equal(found.detach().numpy(), np.take_along_axis(host, places, 1))
    found.sum().backward()
    counts = np.stack([np.bincount(row % 4, minlength=4) for row in places])
    np.testing.assert_array_equal(x.grad.numpy(), counts)
    wide = ops.take_along_dim(x, clnet.tensor([[-1]], dtype=dtype), 0)
    np.testing.assert_array_equal(wide.detach().numpy(), host[-1:])
    filled = clnet.tensor(host).index_fill(1, clnet.tensor([-1, 0], dtype=dtype), 7)
    host[:, [-1, 0]] = 7
    np.testing.assert_array_equal(filled.numpy(), host)
    np.testing.assert_array_equal(filled.narrow(1, -2, 2).numpy(), host[:, -2:])


@pytest.mark.parametrize("index", [-5, 4])
def test_take_along_dim_tells_of_indices_out_of_range(index):
    found = ops.take_along_dim(clnet.ones(3, 4), clnet.tensor([[index]]), 1)
    with pytest.raises(
        IndexError, match=rf"take_along_dim: .*\[-size, size\); got indices={index},"
    ):
        found.numpy()
