"""Arrays: views over storages, and NumPy in and out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import clnet
from clnet.array import Array
from clnet.errors import DtypeError
from clnet.values.dtypes import ALL, float32, float64

pytestmark = pytest.mark.device


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_numpy_arrays_return_bit_for_bit(dtype, device):
    if dtype is float64 and not device.traits.float64:
        pytest.skip("the device has no double precision")
    values = np.random.default_rng(0).integers(0, 200, (3, 5)).astype(dtype.numpy)
    array = Array.from_numpy(values, device)
    assert (array.dtype, array.shape, array.nbytes) == (dtype, (3, 5), values.nbytes)
    assert array.numpy().dtype == values.dtype
    assert array.numpy().tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-2, 1::3],
        lambda x: np.broadcast_to(x[0], (4, 12)),
        lambda x: x.astype(">f4"),
        lambda x: x[:0],
        lambda x: x[0, 0],
    ],
    ids=["transposed", "stepped", "broadcast", "big-endian", "empty", "scalar"],
)
def test_any_numpy_view_comes_in(view, device):
    host = view(np.arange(60, dtype=np.float32).reshape(5, 12))
    array = Array.from_numpy(np.asarray(host), device)
    assert array.contiguous
    np.testing.assert_array_equal(array.numpy(), host)


@given(array_shapes(max_dims=4, max_side=4), st.data())
def test_views_read_what_numpys_do(shape, data):
    host = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    order = data.draw(st.permutations(range(host.ndim)))
    starts = [data.draw(st.integers(0, n - 1)) for n in shape]
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    expected = host[tuple(slice(a, None, s) for a, s in zip(starts, steps, strict=True))].transpose(
        order
    )
    array = Array.from_numpy(host, clnet.device())
    offset = sum(a * s for a, s in zip(starts, array.strides, strict=True))
    strides = tuple(s // host.itemsize for s in expected.strides)
    found = array.view(expected.shape, strides, offset)
    np.testing.assert_array_equal(found.numpy(), expected)
    with found.map() as mapped:
        np.testing.assert_array_equal(mapped, expected)
    assert found.contiguous == expected.flags.c_contiguous


def test_copies_out_are_the_callers(device):
    array = Array.from_numpy(np.zeros((2, 3), np.float32), device)
    for view in (array, array.view((3, 2), (1, 3))):
        host = view.numpy()
        host[:] = 5
        assert not view.numpy().any()


def test_write_overwrites_and_counts(device):
    array = Array.from_numpy(np.zeros(6, np.float32), device)
    version = array.storage.version
    array.view((2,), (1,), 3).write(np.array([1, 2], np.float32))
    assert array.numpy().tolist() == [0, 0, 0, 1, 2, 0]
    assert array.storage.version == version + 1


def test_abstract_arrays_have_a_shape_and_no_memory(device):
    before = device.pool.statistics().allocated
    array = Array.abstract((1000, 1000), float32, device)
    assert (array.shape, array.strides, array.nbytes) == ((1000, 1000), (1000, 1), 4_000_000)
    assert array.storage.buffer is None
    assert device.pool.statistics().allocated == before
    assert repr(array) == f"Array((1000, 1000), float32, abstract {device.name})"


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3)])
def test_small_shapes_work(shape, device):
    values = np.ones(shape, np.float32)
    array = Array.from_numpy(values, device)
    assert array.ndim == len(shape)
    assert array.numpy().shape == shape
    with array.map() as mapped:
        np.testing.assert_array_equal(mapped, values)


def test_a_dtype_clnet_lacks_is_refused(device):
    with pytest.raises(
        DtypeError, match=r"^dtype: NumPy's dtype has no counterpart; got dtype=uint32"
    ):
        Array.from_numpy(np.zeros(2, np.uint32), device)
    with pytest.raises(DtypeError, match="got dtype=float8_e5m2"):
        Array.from_numpy(np.zeros(2, ml_dtypes.float8_e5m2), device)
