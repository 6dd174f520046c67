"""Reductions read 16-bit floats where they are: the same bits from half the bytes."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet.compile.narrow_sums import narrow_sums
from clnet.compile.passes import KEEPING_BITS
from clnet.ops.reduce import Reduce
from tests.compile.test_layout import traced
from tests.kernels.launching import cpu_shaped, gpu_shaped

pytestmark = pytest.mark.device


def drawn(*shape):
    return clnet.tensor(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


def reads(trace):
    """The dtypes that reductions read."""
    return [s.inputs[0].dtype for _, s in trace.ops if isinstance(s.function, Reduce)]


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
def test_sums_of_16_bits_keep_their_bits(device, monkeypatch, dtype, shaped):
    monkeypatch.setattr(device, "target", shaped(device))
    x = drawn(19, 37, 21).to(dtype)

    def function(x):
        y = F.relu(x)
        seen = y.sum(0), y[1:, ::2].mean((0, 2)), y.sum(-1), y.permute(2, 0, 1).sum(2), y.amax(1)
        return *seen, clnet.linalg.vector_norm(x.float(), dim=1), y.sum(), (y * 1.5).prod(0)

    assert reads(narrow_sums(traced(function, x))) == [dtype] * 8
    compiled = clnet.compile(function, passes=KEEPING_BITS)
    for found, expected in zip(compiled(x), function(x), strict=True):
        assert found.dtype is expected.dtype
        assert found.float().numpy().tobytes() == expected.float().numpy().tobytes()


def test_what_changes_in_between_is_read_before():
    def function(x, y):
        wide = x.float()
        x += y
        return wide.sum(0), x

    x, y = drawn(8, 8).half(), drawn(8, 8).half()
    wanted = x.float().sum(0).numpy()
    found, _ = clnet.compile(function)(x.clone(), y)
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_other_conversions_are_left():
    x, (half, single, double) = drawn(8, 8), (clnet.float16, clnet.float32, clnet.float64)
    for function, dtype in (
        (lambda x: x.half().float().sum(0), half),
        (lambda x: (x.half() * 2.0).double().sum(0), double),
        (lambda x: (x.half().float() * 2).sum(0), single),
    ):
        assert reads(narrow_sums(traced(function, x))) == [dtype]
