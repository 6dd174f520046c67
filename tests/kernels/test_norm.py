"""Batch normalisation and its gradients against NumPy in float64, in both shapes of kernel."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.device import device
from clnet.errors import ArgumentError
from clnet.kernels.norm import Running
from clnet.kernels.norm.norm import batch_norm, batch_norm_grad, batch_norm_statistics
from clnet.ops.norm import BatchNorm, BatchNormBackward
from clnet.values.dtypes import bfloat16, float16
from tests.kernels.launching import (
    cpu_shaped,
    gpu_shaped,
    normal,
    offset,
    on_device,
    poisoned,
    run,
)

SHAPES = [(4, 3, 5, 5), (2, 1, 16), (3, 5, 17), (7, 6), (40, 33), (1, 2, 1, 9), (2, 2, 70, 71)]
LARGE = [(700, 3, 5, 5), (3000, 17), (3000, 20), (41, 12), (1, 2, 20_000)]
EPS = 1e-5


def channel_axes(x):
    return tuple(i for i in range(x.ndim) if i != 1)


def spread(values, x):
    return np.asarray(values, np.float64).reshape(1, -1, *(1,) * (x.ndim - 2))


def reference(x, weight, bias):
    """y, the normalised x, the mean and the (biased) variance."""
    x = x.astype(np.float64)
    mean, var = x.mean(axis=channel_axes(x)), x.var(axis=channel_axes(x))
    hat = (x - spread(mean, x)) / np.sqrt(spread(var, x) + EPS)
    return hat * spread(weight, x) + spread(bias, x), hat, mean, var


def reference_grad(gy, x, weight):
    _, hat, _, var = reference(x, weight, 0 * weight)
    gy, axes = gy.astype(np.float64), channel_axes(x)
    gbias, gweight = gy.sum(axis=axes), (gy * hat).sum(axis=axes)
    count = x.size // x.shape[1]
    slope = gy - spread(gbias, x) / count - hat * spread(gweight, x) / count
    return slope * spread(weight / np.sqrt(var + EPS), x), gweight, gbias


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
def test_forward_and_statistics(dev, target, shape):
    x, c = 2 * normal(*shape) + 5, shape[1]
    weight, bias = normal(c, seed=1), normal(c, seed=2)
    y, found = poisoned(shape), [poisoned((c,)) for _ in range(3)]
    xd, wd, bd = map(on_device, (x, weight, bias))
    run(batch_norm(target, y, tuple(found), xd, wd, bd, eps=EPS))
    expected, _, mean, var = reference(x, weight, bias)
    count = x.size // c
    np.testing.assert_allclose(found[0].numpy(), mean, rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), 1 / np.sqrt(var + EPS), rtol=1e-5)
    np.testing.assert_allclose(found[2].numpy(), var * count / (count - 1), rtol=1e-5)
    np.testing.assert_allclose(y.numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize(
    ("momentum", "batches"), [(0.25, None), (0.25, 7), (None, 4)], ids=["blend", "count", "average"]
)
def test_running_statistics_move_as_updates_move_them(dev, target, shape, momentum, batches):
    """To the bit, from statistics that the same kernels stored."""
    x, c = on_device(2 * normal(*shape) + 5), shape[1]
    mean, invstd, var = found = [poisoned((c,)) for _ in range(3)]
    run(batch_norm_statistics(target, tuple(found), x, eps=EPS))
    before = normal(c, seed=3), normal(c, seed=4) ** 2
    count = None if batches is None else offset(np.array(batches, np.int64))
    running = Running(*map(offset, before), momentum, count)
    again = [poisoned((c,)) for _ in range(2)]
    run(batch_norm_statistics(target, (*again, running), x, eps=EPS))
    for stored, same in zip((mean, invstd), again, strict=True):
        np.testing.assert_array_equal(same.numpy(), stored.numpy())
    for old, moved, own in zip(before, running[:2], (mean, var), strict=True):
        step = own.numpy() - old
        step = step / np.float32(batches) if momentum is None else np.float32(momentum) * step
        np.testing.assert_array_equal(moved.numpy(), old + step)
    if count is not None:
        assert count.numpy() == batches + (momentum is not None)


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "plain"])
def test_gradients(dev, target, shape, weighted):
    x, gy, c = 2 * normal(*shape) + 5, normal(*shape, seed=5), shape[1]
    weight = normal(c, seed=1) if weighted else np.ones(c, np.float32)
    _, _, mean, var = reference(x, weight, 0 * weight)
    stats = map(on_device, (mean.astype(np.float32), (1 / np.sqrt(var + EPS)).astype(np.float32)))
    gyd, xd, wd = map(on_device, (gy, x, weight))
    gx, gweight, gbias = poisoned(shape), poisoned((c,)), poisoned((c,))
    wd = wd if weighted else None
    run(batch_norm_grad(target, gx, gweight, gbias, gyd, xd, *stats, wd))
    slope, true_gweight, true_gbias = reference_grad(gy, x, weight)
    scale = np.sqrt(x.size / c)
    np.testing.assert_allclose(gbias.numpy(), true_gbias, atol=4e-6 * scale)
    np.testing.assert_allclose(gweight.numpy(), true_gweight, atol=4e-6 * scale)
    np.testing.assert_allclose(gx.numpy(), slope, atol=2e-5)


@pytest.mark.parametrize("shape", [(8, 3, 30, 30), (900, 3)], ids=str)
def test_variance_beside_a_large_mean_and_an_outlier(dev, target, shape):
    x = normal(*shape) + 10_000
    x[0, 0] = 0  # what a shift by the first element would stumble over
    found, y = [poisoned((3,)) for _ in range(3)], poisoned(shape)
    xd = on_device(x)
    run(batch_norm(target, y, tuple(found), xd, None, None, eps=EPS))
    _, _, mean, var = reference(x, np.ones(3), np.zeros(3))
    np.testing.assert_allclose(found[0].numpy(), mean, rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), 1 / np.sqrt(var + EPS), rtol=1e-3)


def test_gradients_of_an_empty_batch(dev, target):
    x, c = on_device(normal(0, 4, 3)), on_device(normal(4))
    gx, gweight, gbias = poisoned((0, 4, 3)), poisoned((4,)), poisoned((4,))
    run(batch_norm_grad(target, gx, gweight, gbias, x, x, c, c, None))
    np.testing.assert_array_equal(gweight.numpy(), 0)
    np.testing.assert_array_equal(gbias.numpy(), 0)


def test_strided_arrays_are_refused(dev, target):
    x = on_device(normal(4, 4)).view((4, 4), (1, 4))
    with pytest.raises(ArgumentError, match="arrays are dense"):
        batch_norm(target, x, (x, x, x), x, None, None, eps=EPS)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5, 8), (2, 3, 7, 3), (70, 40)], ids=str)
def test_groups_take_16_bits_as_they_take_the_same_floats(shape, dtype):
    """The statistics have the same bits; what is stored is rounded once."""
    target, c = gpu_shaped(device()), shape[1]
    x, gy, weight, bias = (
        clnet.tensor(normal(*size, seed=seed))
        for seed, size in enumerate((shape, shape, (c,), (c,)))
    )
    found = []
    for kind in (dtype, clnet.float32):
        x_, gy_ = x.to(dtype).to(kind), gy.to(dtype).to(kind)
        y, gx = clnet.full_like(x_, np.nan), clnet.full_like(x_, np.nan)
        vectors = [clnet.full((c,), np.nan) for _ in range(5)]
        mean, invstd, var, gweight, gbias = (v.array for v in vectors)
        affine = weight.array, bias.array
        run(batch_norm(target, y.array, (mean, invstd, var), x_.array, *affine, eps=EPS))
        grads = gx.array, gweight, gbias
        run(batch_norm_grad(target, *grads, gy_.array, x_.array, mean, invstd, weight.array))
        found.append([t.to(dtype).float().numpy() for t in (y, gx)] + [v.numpy() for v in vectors])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_processors_take_no_16_bits_of_channels_side_by_side():
    x, flat = (clnet.ones(*size, dtype=bfloat16).array for size in ((2, 3, 4), (2, 3)))
    gpu, cpu = gpu_shaped(device()), cpu_shaped(device())
    for function, inputs in (
        (BatchNorm(False, False, EPS), (x,)),
        (BatchNormBackward(False, True), (x, x)),
    ):
        assert function.narrow_on(gpu, inputs)
        assert function.narrow_on(cpu, inputs)
        rows = (flat,) * len(inputs)
        assert function.narrow_on(gpu, rows)
        assert not function.narrow_on(cpu, rows)
    wide = clnet.ones(2, 3, 4).array
    assert not BatchNormBackward(False, True).narrow_on(gpu, (wide, x))
