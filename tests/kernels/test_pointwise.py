"""Pointwise kernels in vectors, and past the caches, give the bits of the plain one."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.dtypes import float32
from clnet.expr import Expr, Input, Scalar
from clnet.kernels import pointwise as module
from clnet.kernels import pointwise_vectors
from clnet.kernels.pointwise import pointwise

X, Y, A = Input(0), Input(1), Scalar(0)
EXPRS: tuple[Expr, ...] = (X * A + Y, X - Y * Y)


@pytest.fixture
def thresholds(monkeypatch):
    """Sets from how many elements on vectors are taken, and from how many bytes on they stream."""

    def use(*, dense: int, stream: int) -> None:
        monkeypatch.setattr(pointwise_vectors, "DENSE_ELEMENTS", dense)
        monkeypatch.setattr(pointwise_vectors, "LEAST_RUN", 2)
        monkeypatch.setattr(pointwise_vectors, "STREAM_BYTES", stream)
        module._recipe.cache_clear()

    yield use
    monkeypatch.undo()
    module._recipe.cache_clear()


def run(device, operands):
    """The results of one launch, and the launch."""
    inputs = [Array.from_numpy(v, device) for v in operands]
    outputs = [Array.from_numpy(np.full_like(operands[0], np.nan), device) for _ in EXPRS]
    (launch,) = pointwise(device.target, outputs, inputs, EXPRS, scalars=(0.5,), compute=float32)
    device.queue.launch(launch)
    return [o.numpy() for o in outputs], launch


@pytest.mark.parametrize("n", [32, 256, 3 * 2**10, 2**16 + 16])
def test_vectors_and_streams_give_the_same_bits(device, thresholds, n):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors are for CPU-shaped devices")
    rng = np.random.default_rng(n)
    operands = [rng.standard_normal(n, dtype=np.float32) for _ in range(2)]
    thresholds(dense=2**60, stream=2**60)
    plain, launch = run(device, operands)
    assert launch.kernel.name == "pointwise"
    for stream in (2**60, 0):
        thresholds(dense=0, stream=stream)
        vectors, launch = run(device, operands)
        assert launch.kernel.name == "pointwise_vectors"
        assert ("stream(" in launch.kernel.text()) == (stream == 0)
        for left, right in zip(plain, vectors, strict=True):
            np.testing.assert_array_equal(left, right)


def test_results_that_begin_inside_a_line_are_stored_as_usual(device, thresholds):
    thresholds(dense=0, stream=0)
    x = Array.from_numpy(np.arange(100, dtype=np.float32), device)
    shifted = x.view((64,), (1,), 3)
    (launch,) = pointwise(device.target, [shifted], [shifted], (X * 2,), compute=float32)
    assert "stream(" not in launch.kernel.text()
    device.queue.launch(launch)
    np.testing.assert_array_equal(shifted.numpy(), 2 * np.arange(3, 67, dtype=np.float32))
