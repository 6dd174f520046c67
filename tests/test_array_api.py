"""The array API standard: names and numbers beside NumPy's, promotion, and who speaks it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clnet
from clnet import array_api as xp
from clnet.errors import ArgumentError, DtypeError, ShapeError

pytestmark = pytest.mark.device

HOST = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
CALLS = """
xp.arange(3, 1)
xp.argsort(x, axis=0)
xp.clip(x, min=-0.5, max=x[0, :])
xp.concat([x, x], axis=None)
xp.cumulative_sum(x, axis=1, include_initial=True)
xp.expand_dims(x, axis=1)
xp.eye(3, 4, k=1)
xp.flip(x, axis=None)
xp.linspace(0.0, 1.0, 4, endpoint=False)
xp.max(x, axis=(0, 1), keepdims=True)
xp.meshgrid(x[0, :], x[:, 0])[1]
xp.moveaxis(x, 0, 1)
xp.permute_dims(x, (1, 0))
xp.prod(x, axis=(0, 1))
xp.repeat(x, 2, axis=1)
xp.roll(x, 3, axis=None)
xp.searchsorted(xp.sort(x[0, :]), x[1, :], side="right")
xp.std(x, axis=0, correction=1.0)
xp.sum(x, axis=())
xp.take(x, xp.asarray([2, 0]), axis=1)
xp.tile(x, (2, 1, 2))
xp.tril(x, k=1)
xp.unique_counts(xp.round(x)).counts
xp.unstack(x, axis=1)[3]
xp.var(x)
xp.any(x > 2, axis=0)
xp.nonzero(x > 0)[1]
xp.vecdot(x, x, axis=0)
xp.linalg.matrix_norm(x, ord=1)
xp.linalg.outer(x[0, :], x[1, :])
xp.linalg.pinv(x)
xp.linalg.trace(x, offset=1)
xp.linalg.vector_norm(x, axis=None, ord=1)
xp.matmul(x, xp.matrix_transpose(x))
xp.tensordot(x, x, axes=([0], [0]))
xp.fft.rfft(x, axis=0)
xp.fft.ifftn(x, axes=(0, 1))
xp.fft.fftshift(x, axes=1)
""".strip().splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_what_numpy_gives(call):
    expected = eval(call, {"xp": np, "x": HOST})
    found = eval(call, {"xp": xp, "x": clnet.tensor(HOST)})
    assert found.shape == expected.shape
    assert found.dtype.kind in ("i" if expected.dtype.kind == "u" else expected.dtype.kind)
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-6, atol=2e-6)


def test_arrays_know_their_namespace():
    x = clnet.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ArgumentError, match="the version is one of"):
        x.__array_namespace__(api_version="2099.12")
    assert (+x).tolist() == [1, 1]


def test_promotion_is_that_of_dtypes():
    narrow, number = xp.asarray([1, 2], dtype=xp.int8), xp.asarray(3, dtype=xp.int64)
    assert xp.add(narrow, number).dtype is xp.int64  # in PyTorch a number's dtype gives way
    assert (narrow + number).dtype is xp.int8
    assert xp.add(narrow, 1).dtype is xp.int8
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.result_type(xp.int8, 1.5) is xp.float32
    assert xp.result_type(xp.float64, 1j) is xp.complex128
    assert xp.can_cast(xp.float32, xp.float64)
    assert not xp.can_cast(xp.float64, xp.float32)
    assert xp.isdtype(xp.uint8, ("bool", "unsigned integer"))
    assert not xp.isdtype(xp.uint8, xp.int8)
    assert xp.iinfo(narrow).max == 127
    assert xp.finfo(xp.complex128).dtype is xp.float64


def test_order_and_signs():
    x = xp.asarray([2.0, float("nan"), -3.0, 0.0])
    assert str(xp.sign(x).tolist()) == "[1.0, nan, -1.0, 0.0]"
    assert xp.sign(xp.asarray([0j, 3 + 4j]))[1].item() == pytest.approx(0.6 + 0.8j)
    assert xp.argsort(xp.asarray([1, 3, 2, 3]), descending=True).tolist() == [1, 3, 2, 0]
    found = xp.unique_all(xp.asarray([5, 3, 5, 3, 4]))
    assert [part.tolist() for part in found] == [[3, 4, 5], [1, 4, 0], [2, 0, 2, 0, 1], [2, 1, 2]]
    assert (
        xp.vecdot(xp.asarray([1, 2], dtype=xp.uint8), xp.asarray([3], dtype=xp.uint8)[[0, 0]]).dtype
        is xp.uint8
    )


def test_gradients_flow_through_the_namespace():
    x = clnet.tensor(HOST, requires_grad=True)
    xp.sum(xp.square(xp.concat([x, x], axis=0))).backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * HOST, rtol=1e-6)


def test_what_the_library_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.default_device() is clnet.ones(1).device
    assert info.default_dtypes()["integral"] is xp.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.capabilities()["boolean indexing"]
    assert info.default_device() in info.devices()


def test_what_the_standard_forbids_is_refused():
    x = xp.ones((2, 1))
    with pytest.raises(ArgumentError, match="the axes have size 1"):
        xp.squeeze(x, 0)
    with pytest.raises(ArgumentError, match="data are copied"):
        xp.asarray([1.0], copy=False)
    with pytest.raises(ArgumentError, match="elements stay where they are"):
        xp.reshape(xp.ones((2, 3)).T, (6,), copy=False)
    with pytest.raises(ShapeError, match="the axis has one size"):
        xp.vecdot(x, xp.ones((2, 3)))
    with pytest.raises(DtypeError, match="complex numbers are not cut"):
        xp.astype(xp.ones(2, dtype=xp.complex64), xp.float32)
    with pytest.raises(ArgumentError, match="kind is one of"):
        xp.isdtype(xp.int8, "whole")
    for call in (lambda: xp.cumulative_sum(x), lambda: xp.take(x, xp.asarray([0]))):
        with pytest.raises(ArgumentError, match="an axis is named"):
            call()


def test_scipy_and_scikit_learn_compute_on_tensors():
    pytest.importorskip("sklearn")
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.array_api_programs"],
        cwd=root,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "23 agree"


def test_no_numbers_have_the_dtype_of_some():
    assert xp.arange(-1.0, step=2).dtype is xp.float32
    assert (xp.arange(3, 1).dtype, xp.arange(3, 1).shape) == (xp.int64, (0,))
