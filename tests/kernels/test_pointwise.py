"""Pointwise kernels that store past the caches give the bits that those through them give."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.dtypes import float32, float64
from clnet.expr import Expr, Input, Scalar
from clnet.kernels import pointwise as module
from clnet.kernels.pointwise import pointwise

X, Y, A = Input(0), Input(1), Scalar(0)
SIZES = [15, 255, 256, 300, 2**16, 2**16 + 259, 3 * 2**16 + 1]


def run(device, operands, exprs: tuple[Expr, ...], dtype, monkeypatch, *, threshold: int):
    """The results of one launch, and the name of its kernel."""
    monkeypatch.setattr(module, "STREAM_BYTES", threshold)
    module._recipe.cache_clear()
    inputs = [Array.from_numpy(v, device) for v in operands]
    outputs = [
        Array.from_numpy(np.full(operands[0].shape, np.nan, operands[0].dtype), device)
        for _ in exprs
    ]
    (launch,) = pointwise(device.target, outputs, inputs, exprs, scalars=(0.5,), compute=dtype)
    device.queue.launch(launch)
    monkeypatch.undo()
    module._recipe.cache_clear()
    return [o.numpy() for o in outputs], launch.kernel.name


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_streams_give_the_same_bits(device, monkeypatch, n, dtype):
    if dtype is float64 and not device.traits.float64:
        pytest.skip("the device has no float64")
    if device.traits.dedicated_local_memory:
        pytest.skip("stores pass the caches by on CPU-shaped devices only")
    rng = np.random.default_rng(n)
    operands = [rng.standard_normal(n).astype(dtype.numpy) for _ in range(2)]
    exprs = (X * A + Y, X - Y * Y)
    plain, name = run(device, operands, exprs, dtype, monkeypatch, threshold=2**60)
    assert name == "pointwise"
    streamed, name = run(device, operands, exprs, dtype, monkeypatch, threshold=0)
    assert name == "pointwise_stream"
    for left, right in zip(plain, streamed, strict=True):
        np.testing.assert_array_equal(left, right)


def test_outputs_that_begin_inside_a_vector_do_not_stream(device, monkeypatch):
    monkeypatch.setattr(module, "STREAM_BYTES", 0)
    module._recipe.cache_clear()
    x = Array.from_numpy(np.arange(100, dtype=np.float32), device)
    shifted = x.view((90,), (1,), 3)
    (launch,) = pointwise(device.target, [shifted], [shifted], (X * 2,), compute=float32)
    assert launch.kernel.name == "pointwise"
    device.queue.launch(launch)
    monkeypatch.undo()
    module._recipe.cache_clear()
    np.testing.assert_array_equal(shifted.numpy(), 2 * np.arange(3, 93, dtype=np.float32))
