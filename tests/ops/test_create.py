"""Tensors from nothing but a shape, and from data."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, GradientError, ShapeError
from clnet.values import dtypes
from tests.opcase import OpCase, every_check, integers, normal

pytestmark = pytest.mark.device

SHAPE = (7, 33)
# A constant has no spread: what differs between a case and its shapes is beside the constant.
like = partial(OpCase, inputs=[normal(*SHAPE)], grad=False, layouts=())

CASES = [
    like(lambda x: ops.full_like(x, 2.5) * x, lambda x: 2.5 * x, name="full_like"),
    like(lambda x: ops.zeros_like(x) + x, lambda x: x, name="zeros_like"),
    like(lambda x: ops.ones_like(x) + x, lambda x: 1 + x, name="ones_like"),
    OpCase(
        lambda x: ops.full_like(x, -3),
        lambda x: np.full_like(x, -3),
        [integers(0, 9, SHAPE)],
        grad=False,
        layouts=(),
        name="full_like",
        label="integers",
    ),
    like(lambda x: x.new_full((len(x), 1), 2.5) * x, lambda x: 2.5 * x, name="new_full"),
    like(lambda x: x.new_zeros(x.shape[-1]) + x, lambda x: x, name="new_zeros"),
    like(lambda x: x.new_ones((x.shape[-1],)) + x, lambda x: 1 + x, name="new_ones"),
    OpCase(
        lambda x, y: ops.meshgrid(x, y),
        lambda x, y: np.meshgrid(x, y, indexing="ij"),
        [normal(7), normal(5)],
        shapes=[((0,), (5,)), ((1,), (1,))],
        layouts=(),
        k=7,
        name="meshgrid",
    ),
    OpCase(
        lambda x, y, z: ops.meshgrid([x, y, z], indexing="xy"),
        lambda x, y, z: np.meshgrid(x, y, z),
        [normal(7), normal(5), normal(2)],
        shapes=[],
        layouts=(),
        k=14,
        name="meshgrid",
        label="xy",
    ),
]
OTHERWISE_TESTED = {
    "new_tensor": "test_new_tensors_copy_data",
    "empty_like": "test_empty_ones_have_shape_and_dtype",
    "new_empty": "test_empty_ones_have_shape_and_dtype",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d is not clnet.float64], ids=repr)
def test_filled_tensors_have_their_value(dtype):
    assert clnet.zeros(2, 3, dtype=dtype).numpy().tobytes() == bytes(6 * dtype.itemsize)
    ones = clnet.ones((2, 3), dtype=dtype)
    assert ones.dtype is dtype
    np.testing.assert_array_equal(ones.numpy(), np.ones((2, 3), dtype.numpy))


def test_full_takes_the_dtype_of_its_value():
    assert clnet.full((2,), 1.5).dtype is clnet.float32
    assert clnet.full((2,), 7).dtype is clnet.int64
    assert clnet.full((2,), True).dtype is clnet.bool
    assert clnet.full(2, 7).tolist() == [7, 7]
    assert clnet.full((), 7).item() == 7


def test_whole_values_are_exact():
    assert clnet.full((1,), 2**53 + 1).item() == 2**53 + 1


def test_likes_take_shape_and_device_and_the_dtype_asked_for():
    x = clnet.ones(2, 3).T
    y = ops.zeros_like(x, dtype=clnet.int32)
    assert (y.shape, y.dtype, y.device) == ((3, 2), clnet.int32, x.device)
    assert y.stride() == x.stride() == (1, 3)
    with pytest.raises(DtypeError, match="zeros_like: memory_format is a MemoryFormat or None"):
        ops.zeros_like(x, memory_format=1)


def test_numbers_beyond_a_dtype_of_whole_numbers_are_refused():
    for dtype, least, most in ((clnet.uint8, -255, 255), (clnet.int16, -(2**15), 2**15 - 1)):
        for make in (
            lambda v, d: clnet.tensor(v, dtype=d),
            lambda v, d: clnet.asarray([v, 0], dtype=d)[0],
            lambda v, d: clnet.tensor(np.float64(v), dtype=d),
            lambda v, d: clnet.ones(1).new_tensor([v], dtype=d)[0],
            lambda v, d: clnet.full((), v, dtype=d),
        ):
            assert make(most, dtype).item() == most
            for value in (most + 1, float("inf"), float("nan"), most + 0.5, -1e300, least - 1):
                with pytest.raises((DtypeError, ArgumentError), match=r"hold"):
                    make(value, dtype)
        assert clnet.tensor([least], dtype=dtype).item() == (1 if least == -255 else least)
        with pytest.raises((DtypeError, ArgumentError), match=r"hold"):
            clnet.tensor(least - 0.5, dtype=dtype)
    assert clnet.tensor(np.array([300, -1.5]), dtype=clnet.int8).tolist() == [44, -1], "arrays wrap"
    assert clnet.tensor([2**70, 1], dtype=clnet.bfloat16).tolist() == [2.0**70, 1]
    with pytest.raises(ArgumentError, match="new_tensor: data are numbers"):
        clnet.ones(1).new_tensor(1j)


def test_empty_ones_have_shape_and_dtype():
    x = clnet.zeros(2, 3, dtype=clnet.int16)
    y = ops.empty_like(x.T)
    assert (y.shape, y.dtype, y.device) == ((3, 2), clnet.int16, x.device)
    y = ops.empty_like(x, dtype=clnet.float32, requires_grad=True)
    assert y.requires_grad
    y = x.new_empty(4, 0)
    assert (y.shape, y.dtype) == ((4, 0), clnet.int16)
    assert x.new_empty((4,), dtype=clnet.float32).dtype is clnet.float32


def test_new_ones_of_a_parameter_are_tensors():
    weight = clnet.nn.Parameter(clnet.ones(2))
    for y in (weight.new_zeros(3), weight.new_empty(3), ops.zeros_like(weight)):
        assert type(y) is clnet.Tensor
        assert not y.requires_grad


def test_empty_has_its_shape():
    x = clnet.empty(2, 0, 3)
    assert x.shape == (2, 0, 3)
    assert clnet.empty((4, 5), dtype=clnet.int8).numpy().shape == (4, 5)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        (2, "int64"),
        (True, "bool"),
        ([1.0, 2.0], "float32"),
        ([[1, 2], [3, 4]], "int64"),
        ([True, False], "bool"),
        (np.arange(3, dtype=np.int16), "int16"),
        (np.arange(3, dtype=np.float64), "float64"),
        (np.float64(2.5), "float64"),
        ([], "float32"),
    ],
    ids=repr,
)
def test_tensor_keeps_the_dtype_of_its_data(data, dtype, device):
    if dtype == "float64" and not device.traits.float64:
        pytest.skip("the device has no double precision")
    x = clnet.tensor(data)
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(x.numpy(), np.asarray(data, dtype))


def test_tensor_copies():
    host = np.ones(3, np.float32)
    x = clnet.tensor(host)
    y = clnet.tensor(x)
    host[:] = 2
    x.fill_(3)
    assert x.tolist() == [3, 3, 3]
    assert y.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: clnet.zeros(2, -1), ShapeError, "full: sizes are 0 or more; got size=(2, -1)"),
        (lambda: clnet.empty(2, -1), ShapeError, "empty: sizes are 0 or more; got size=(2, -1)"),
        (
            lambda: clnet.tensor([1, 2], requires_grad=True),
            GradientError,
            "requires_grad_: only floating and complex tensors have gradients;"
            " got dtype=clnet.int64. Convert it with .float() before",
        ),
    ],
)
def test_errors_name_the_law(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


def test_ragged_sequences_are_refused():
    with pytest.raises(
        ShapeError, match=r"^tensor: nested sequences have equal lengths; got error="
    ):
        clnet.tensor([[1, 2], [3]])


@pytest.mark.parametrize("data", ["text", np.array(["text"]), np.zeros(2, np.uint32), object()])
def test_data_without_a_dtype_is_refused(data):
    with pytest.raises(
        DtypeError, match=r"^dtype: NumPy's dtype has no counterpart; got dtype=.* convert it"
    ):
        clnet.tensor(data)


def test_new_tensors_copy_data():
    x = clnet.ones(2, dtype=clnet.float64)
    assert x.new_tensor([1, 2]).dtype is clnet.float64
    assert x.new_tensor([1.7], dtype=clnet.int64).tolist() == [1]
