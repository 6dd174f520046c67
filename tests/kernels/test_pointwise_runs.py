"""Pointwise expressions in runs of four: the bits of the general kernel, and where they fit."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.device import device
from clnet.expr import Input, Scalar, exp, where
from clnet.kernels.pointwise import pointwise_runs
from clnet.kernels.pointwise.pointwise import pointwise
from clnet.values.dtypes import bfloat16, float16, float32
from tests.kernels.launching import cpu_shaped, gpu_shaped, on_device, poisoned, run

EXPRS = (
    where(Input(0) > 0, Input(0) * Input(1) + Input(2), exp(Input(0))) * Scalar(0),
    Input(0) - Input(2),
)


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(pointwise_runs, "ELEMENTS_PER_UNIT", 0)


def results(target, shape, inputs, outputs=None):
    """Both outputs, and the kernels that made them."""
    outputs = outputs or [poisoned(shape) for _ in EXPRS]
    launches = pointwise(target, outputs, inputs, EXPRS, scalars=(0.5,), compute=float32)
    run(launches)
    return [out.numpy() for out in outputs], [launch.kernel.name for launch in launches]


def spread(values: Array, ndim: int) -> Array:
    """A value for each channel, axis 1."""
    ones = (1,) * (ndim - 2)
    return values.view((1, values.size, *ones), (0, 1, *ones))


@pytest.mark.parametrize("shape", [(4,), (2, 3, 8), (2, 5, 2, 6), (3, 70, 4, 5), (1, 1, 4096)])
def test_runs_give_the_bits_of_any_strides(shape):
    opened, rng = device(), np.random.default_rng(0)
    x = on_device(rng.standard_normal(shape).astype(np.float32))
    others = [on_device(rng.standard_normal(shape).astype(np.float32)) for _ in range(2)]
    if len(shape) > 2:
        others[0] = on_device(rng.standard_normal(shape[1]).astype(np.float32))
        others[0] = spread(others[0], len(shape))
    plain, _ = results(cpu_shaped(opened), shape, [x, *others])
    fast, kernels = results(gpu_shaped(opened), shape, [x, *others])
    assert kernels == ["pointwise_runs"]
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("rows", [9, 12])
def test_items_take_several_rows_of_channels(rows, monkeypatch):
    """Values for each channel are read once for them; in place, too, at the end of the rows."""
    monkeypatch.setattr(pointwise_runs, "_MANY_ELEMENTS", 0)
    opened, rng, shape = device(), np.random.default_rng(0), (rows, 24)
    x, y = (on_device(rng.standard_normal(shape).astype(np.float32)) for _ in range(2))
    scale = on_device(rng.standard_normal(24).astype(np.float32)).view((1, 24), (0, 1))
    plain, _ = results(cpu_shaped(opened), shape, [x, scale, y])
    outputs = [poisoned(shape), y]
    fast, kernels = results(gpu_shaped(opened), shape, [x, scale, y], outputs)
    assert kernels == ["pointwise_runs"]
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_runs_of_16_bits_give_the_bits_of_any_strides(dtype):
    """Rounding, infinities and NaN included, beside operands of float32."""
    opened, shape = device(), (3, 2, 64)
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    values[0, 0, :6] = [np.nan, np.inf, -np.inf, 65519.9, 3.4e38, 1e-7]
    x = clnet.tensor(values).to(dtype).array
    y = spread(clnet.tensor([0.3, -2.0]).to(dtype).array, 3)
    z = on_device(values)
    found = []
    for target in (cpu_shaped(opened), gpu_shaped(opened)):
        outputs = [clnet.zeros(shape, dtype=dtype), clnet.zeros(shape)]
        arrays = [out.array for out in outputs]
        launches = pointwise(target, arrays, [x, y, z], EXPRS, scalars=(0.5,), compute=float32)
        run(launches)
        found.append([outputs[0].view(clnet.int16).numpy(), outputs[1].numpy()])
    assert [launch.kernel.name for launch in launches] == ["pointwise_runs"]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_output_may_be_an_input():
    target, shape = gpu_shaped(device()), (3, 8)
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x, y, z = (on_device(values) for _ in range(3))
    expected, _ = results(cpu_shaped(device()), shape, [x, y, z])
    (first, second), kernels = results(target, shape, [x, y, z], [x, z])
    assert kernels == ["pointwise_runs"]
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(second, expected[1])


@pytest.mark.parametrize("case", ["length", "offset", "step", "dtype"])
def test_what_is_no_aligned_run_takes_the_other_kernel(case):
    shape = (3, 6) if case == "length" else (3, 8)
    values = np.random.default_rng(0).standard_normal((5, 12)).astype(np.float32)
    room = on_device(values)
    offset = 1 if case == "offset" else 0
    x = room.view(shape, (13 if case == "step" else 12, 1), offset)
    if case == "dtype":
        x = on_device(values[:3, :8].astype(np.int32))
    y = on_device(np.ascontiguousarray(values[: shape[0], : shape[1]]))
    _, kernels = results(gpu_shaped(device()), shape, [x, y, y])
    assert kernels == ["pointwise_small"]


def test_few_elements_take_an_item_each(monkeypatch):
    monkeypatch.setattr(pointwise_runs, "ELEMENTS_PER_UNIT", 12)
    units = device().traits.compute_units
    for shape, in_runs in {(units, 12): True, (units, 8): False}.items():
        x = on_device(np.ones(shape, np.float32))
        _, kernels = results(gpu_shaped(device()), shape, [x, x, x])
        assert (kernels == ["pointwise_runs"]) == in_runs
