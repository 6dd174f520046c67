"""Tensors joined along an axis, and an axis cut into pieces, against NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.kernels.pointwise import MOST_ELEMENTS
from tests.kernels.launching import names_launched
from tests.opcase import OpCase, booleans, every_check, integers, normal, sliced, transposed

pytestmark = pytest.mark.device

X = normal(4, 3, 5)
case = partial(OpCase, layouts=(transposed, sliced), shapes=())


def named(name, fn, ref, label="", inputs=(X,), **options):
    return case(fn, ref, list(inputs), name=name, label=label, **options)


def method(name, ref, *args, inputs=(X,), label="", **options):
    """``x.name(*args)`` against ``ref(x, *args)``."""
    label = label or ", ".join(map(str, args))
    return named(
        name,
        lambda x: getattr(x, name)(*args),
        lambda x: ref(x, *args),
        label,
        inputs,
        **options,
    )


ANY = [((0, 3, 5),), ((1, 1, 1),)]

CASES = [
    OpCase(
        lambda x, y: ops.cat([x, y], 1),
        lambda x, y: np.concatenate([x, y], 1),
        [normal(4, 3, 5), normal(4, 6, 5)],
        shapes=[((4, 0, 5), (4, 6, 5)), ((0, 1, 5), (0, 2, 5)), ((1, 1, 1), (1, 1, 1))],
        name="cat",
    ),
    OpCase(
        lambda x, y: ops.cat((x, y), -1),
        lambda x, y: np.concatenate([x, y], -1),
        [integers(0, 9, (2, 3)), integers(0, 9, (2, 4))],
        grad=False,
        name="cat",
        label="integers",
    ),
    OpCase(
        lambda x, y: ops.stack([x, y], 1),
        lambda x, y: np.stack([x, y], 1),
        [normal(7, 33), normal(7, 33)],
        name="stack",
    ),
    OpCase(
        lambda x, y: ops.stack([x, y], -1),
        lambda x, y: np.stack([x, y], -1),
        [booleans(4, 3), booleans(4, 3)],
        grad=False,
        name="stack",
        label="last",
    ),
    named(
        "hstack",
        lambda x, y: ops.hstack([x, y]),
        lambda x, y: np.hstack([x, y]),
        inputs=[normal(3, 4), normal(3, 2)],
        shapes=[((0,), (3,)), ((3, 0), (3, 1))],
    ),
    named(
        "vstack",
        lambda x, y: ops.vstack([x, y]),
        lambda x, y: np.vstack([x, y]),
        inputs=[normal(3, 4), normal(2, 4)],
        shapes=[((4,), (1, 4))],
    ),
    named(
        "dstack",
        lambda x, y: ops.dstack([x, y]),
        lambda x, y: np.dstack([x, y]),
        inputs=[normal(3, 4), normal(3, 4, 2)],
        shapes=[((4,), (1, 4, 1))],
    ),
    method("split", lambda x, *_: np.split(x, [2, 4], 2), 2, 2),
    method("split", lambda x, *_: np.split(x, [1], 1), (1, 2), 1),
    method("split", lambda x, *_: [x], 9, shapes=ANY),
    method("chunk", lambda x, *_: np.split(x, [2, 4], 2), 4, 2, label="fewer than asked"),
    method("tensor_split", np.array_split, 3, 2),
    method("tensor_split", lambda x, *_: np.split(x, [1, 4], 2), (1, -1), 2),
    method("unbind", lambda x, d: list(np.moveaxis(x, d, 0)), 1),
    named(
        "split",
        lambda x: (x * x * x).split(2)[1],
        lambda x: (x**3)[2:],
        "of cubes",
        [normal(4, 4)],
        grad2=True,
        layouts=(),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.split(2)[1],
        lambda x: x.chunk(2)[1],
        lambda x: x.unbind(1)[2],
    ],
)
def test_pieces_share_memory(look):
    x = clnet.zeros(4, 3, 5)
    assert look(x).array.storage is x.array.storage


def test_chunks_of_nothing_are_as_many_as_asked():
    assert [c.shape for c in clnet.zeros(0, 2).chunk(3)] == [(0, 2)] * 3
    assert [c.shape for c in clnet.zeros(0, 2).split(3)] == [(0, 2)]
    assert [p.shape for p in clnet.ones(4, 3).split((1, 0, 2), 1)] == [(4, 1), (4, 0), (4, 2)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: ops.cat([x, x.T]),
            ShapeError,
            "cat: shapes agree but for the axis joined; got shapes=[(2, 3), (3, 2)], dim=0",
        ),
        (lambda x: ops.cat([]), ShapeError, "cat: it joins one tensor or more"),
        (
            lambda x: ops.stack([]),
            ShapeError,
            "stack: it joins one tensor or more, of one shape; got shapes=[]",
        ),
    ],
)
def test_errors_name_the_law(call, error, message):
    with pytest.raises(error) as raised:
        call(clnet.ones(2, 3))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x: x.split((1, 1)), ShapeError, "lengths add up"),
        (lambda x: x.split(0), ArgumentError, "a piece has a length"),
        (lambda x: x.chunk(0), ArgumentError, "one chunk or more"),
        (lambda x: x.tensor_split(0), ArgumentError, "one piece or more"),
        (lambda x: x.tensor_split(clnet.ones(2)), ShapeError, "whole numbers in a row"),
        (lambda x: clnet.zeros(()).unbind(), ShapeError, "unbind: the tensor has an axis"),
        (lambda x: ops.hstack([]), ShapeError, "one tensor or more"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(3, 4))


def test_joined_dtypes_are_promoted():
    whole, real, half = clnet.tensor([1, 2]), clnet.tensor([0.5]), clnet.tensor([1.5]).half()
    assert ops.cat([whole, real, half]).tolist() == [1.0, 2.0, 0.5, 1.5]
    assert ops.cat([whole, half]).dtype is clnet.float16
    assert ops.stack([half, real]).dtype is clnet.float32
    x, y = (clnet.ones(2).to(d).requires_grad_() for d in (clnet.float32, clnet.float16))
    ops.cat([x, y]).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (clnet.float32, clnet.float16)


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "bool", "complex64"])
def test_small_tensors_are_joined_together(dtype, monkeypatch):
    """Dense ones of a row, many in a launch; large, strided and other ones by themselves."""
    rng = np.random.default_rng(0)
    shapes = [(1 + 37 * i % 90,) for i in range(60)]
    host = [(rng.standard_normal(s) * 9).astype(getattr(clnet, dtype).numpy) for s in shapes]
    host[7] = host[7][:0]
    host[11] = np.resize(host[11], MOST_ELEMENTS + 1)
    tensors = [clnet.tensor(x) for x in host]
    tensors[3] = clnet.tensor(np.repeat(host[3], 2))[::2]
    names = names_launched(clnet.device(), monkeypatch)
    joined = ops.cat(tensors)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(host))
    if dtype in ("float32", "int64"):
        assert names.count("pointwise_many") == 3
        assert len(names) == 5
    names.clear()
    inside = ops.cat([x.reshape(1, -1).expand(2, -1) for x in tensors], 1)
    np.testing.assert_array_equal(inside[1].numpy(), np.concatenate(host))
    assert "pointwise_many" not in names


def test_parts_to_be_joined_are_looked_at_each_time():
    x = clnet.ones(2, 3)
    for _ in range(3):
        for given in ([x, x], (x, x)):
            assert clnet.cat(given).shape == (4, 3)
            assert clnet.cat(given, dim=1).shape == (2, 6)
        with pytest.raises(DtypeError, match="arguments do not fit"):
            clnet.cat([x, x], nothing=1)
        with pytest.raises(DtypeError, match="tensors"):
            clnet.cat([x, 1.0])


def test_nothing_but_nothing_is_joined_along_any_axis():
    assert clnet.cat([clnet.zeros(0), clnet.zeros(0)], 1).shape == (0,)


def test_positions_of_pieces_are_a_tensor():
    pieces = clnet.arange(6).tensor_split(clnet.tensor([1, -2]))
    assert [p.tolist() for p in pieces] == [[0], [1, 2, 3], [4, 5]]
    for _ in range(2):  # a tensor has passed the door when the second comes
        pieces = clnet.tensor_split(clnet.arange(5), clnet.tensor(2))
        assert [p.tolist() for p in pieces] == [[0, 1, 2], [3, 4]]
