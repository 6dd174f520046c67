"""Batch normalisation against NumPy, gradients of gradients, and PyTorch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.tensor import tensor
from tests.opcase import NARROW, OpCase, every_check, normal, positive, sliced, transposed, uniform

EPS = 1e-5


def spread(v, x):
    return v.reshape(1, -1, *(1,) * (x.ndim - 2))


def reference(x, weight=None, bias=None, mean=None, var=None):
    axes = (0, *range(2, x.ndim))
    mean = x.mean(axes) if mean is None else mean
    var = x.var(axes) if var is None else var
    y = (x - spread(mean, x)) / np.sqrt(spread(var, x) + EPS)
    y = y if weight is None else y * spread(weight, x)
    return y if bias is None else y + spread(bias, x)


def trained(x, weight=None, bias=None):
    return ops.batch_norm(x, None, None, weight, bias, training=True, eps=EPS)


CASES = [
    OpCase(
        trained,
        reference,
        [normal(6, 3, 4), positive(3), normal(3)],
        k=24,
        ulps=16,
        grad2=True,
        dtypes=NARROW,
        name="batch_norm",
        label="training",
        layouts=(),
    ),
    OpCase(
        trained,
        reference,
        [normal(9, 5)],
        k=9,
        ulps=16,
        grad2=True,
        name="batch_norm",
        label="training, no affine",
        layouts=(transposed, sliced),
        shapes=[((4, 1),), ((5, 0),)],
    ),
    OpCase(
        lambda x, m, v, w, b: ops.batch_norm(x, m, v, w, b, eps=EPS),
        lambda x, m, v, w, b: reference(x, w, b, m, v),
        [
            normal(4, 3, 5),
            normal(3, grad=False),
            uniform(0.5, 2, (3,), grad=False),
            positive(3),
            normal(3),
        ],
        k=20,
        ulps=16,
        grad2=True,
        dtypes=NARROW,
        name="batch_norm",
        label="evaluation",
        layouts=(),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_batch_norm(case, check, device):
    check(case, device)


@pytest.mark.parametrize("shape", [(8, 6, 5, 5), (32, 7)], ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_agrees_with_pytorch(device, shape, training):
    torch = pytest.importorskip("torch", reason="the oracle is the extra clnet[torch]")
    rng = np.random.default_rng(0)
    x, gy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    weight, bias, mean = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(3))
    var = rng.random(shape[1]).astype(np.float32) + 0.5
    leaves = [tensor(v, requires_grad=True) for v in (x, weight, bias)]
    running = [tensor(mean), tensor(var)]
    y = ops.batch_norm(leaves[0], *running, *leaves[1:], training=training, momentum=0.3)
    slopes = grad([y], leaves, [tensor(gy)])
    oracle = [torch.tensor(v, requires_grad=True) for v in (x, weight, bias)]
    oracle_running = [torch.tensor(mean), torch.tensor(var)]
    z = torch.nn.functional.batch_norm(
        oracle[0], *oracle_running, *oracle[1:], training=training, momentum=0.3
    )
    z.backward(torch.tensor(gy))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), atol=1e-5)
    for mine, theirs in zip(running, oracle_running, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
    for slope, leaf in zip(slopes, oracle, strict=True):
        np.testing.assert_allclose(slope.numpy(), leaf.grad.numpy(), atol=3e-5)


def test_running_statistics_change_in_training_alone(device):
    x = tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    mean, var = tensor(np.zeros(3, np.float32)), tensor(np.ones(3, np.float32))
    ops.batch_norm(x, mean, var)
    np.testing.assert_array_equal(mean.numpy(), 0)
    ops.batch_norm(x, mean, var, training=True, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), [4.5, 5.5, 6.5])
    np.testing.assert_allclose(var.numpy(), [15, 15, 15])


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 2, 2), (2, 3, 0)])
def test_an_empty_batch_leaves_no_trace(device, shape):
    """The last batch of a divided data set: statistics and weights stay numbers."""
    layer = clnet.nn.BatchNorm2d(3) if len(shape) == 4 else clnet.nn.BatchNorm1d(3)
    x = clnet.zeros(shape, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert y.shape == x.grad.shape == shape
    assert layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0, 0, 0]
    assert (layer.running_mean.tolist(), layer.running_var.tolist()) == ([0] * 3, [1] * 3)


@pytest.mark.parametrize("shape", [(6, 3), (600, 20), (2, 3, 5, 5), (4, 3, 64, 64)], ids=str)
def test_statistics_at_the_end_of_the_range(device, shape):
    """Of one large number there is no variance, and one that overflows is infinite; neither NaN."""
    for x, var in [
        (np.full(shape, 1e20), 0),
        (np.full(shape, 12345678), 0),
        (1e25 * np.random.default_rng(0).normal(size=shape), np.inf),
    ]:
        running = clnet.zeros(shape[1]), clnet.ones(shape[1])
        y = ops.batch_norm(tensor(np.float32(x)), *running, training=True, momentum=1.0)
        assert not np.isnan(y.numpy()).any()
        mean = x.mean((0, *range(2, x.ndim)))
        np.testing.assert_allclose(running[0].numpy(), mean, rtol=1e-3, atol=1e-6 * x.max())
        seen = running[1].numpy()
        assert (seen == np.inf).all() if var else ((seen >= 0) & (seen < 1e-9 * x.max() ** 2)).all()


def test_errors_name_what_is_wrong(device):
    x = tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(ShapeError, match=r"weight has one element a channel; got x=\(2, 3\)"):
        ops.batch_norm(x, None, None, tensor([1.0, 2.0]), training=True)
    with pytest.raises(ArgumentError, match="evaluation needs running statistics"):
        ops.batch_norm(x, None, None)
    with pytest.raises(ArgumentError, match="more than one value a channel"):
        ops.batch_norm(tensor(np.zeros((1, 3), np.float32)), None, None, training=True)
    with pytest.raises(ShapeError, match="a batch and a channel axis"):
        ops.batch_norm(tensor([1.0]), None, None, training=True)
    with pytest.raises(DtypeError, match="operands are floating"):
        ops.batch_norm(tensor([[1, 2]]), None, None, training=True)


def _slope(x, gy, mean, invstd, dtype=np.float64):
    """The gradient of ``x`` by its statistics: sums in float64, then each element in a dtype."""
    dims = (0, *range(2, x.ndim))
    product = ((gy * (x - mean)).mean(dims, keepdims=True) * invstd**2).astype(dtype)
    level = gy.mean(dims, keepdims=True).astype(dtype)
    x, gy, mean, invstd = (a.astype(dtype) for a in (x, gy, mean, invstd))
    return (gy - level - (x - mean) * product) * invstd


@pytest.mark.parametrize("count", [2, 4, 8, 32])
@pytest.mark.parametrize(("offset", "most"), [(0, 1.6), (30, 1.2)])
def test_over_few_elements_errors_are_those_of_rounded_statistics(device, count, offset, most):
    """PyTorch's are: it sums in float64 on CPUs, and keeps mean and invstd in float32."""
    if device.traits.dedicated_local_memory:
        most *= 2  # GPUs round quotients and roots to two or three units of the last place
    errors, own = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for shape in ((count, 32), (2, 32, count // 2, 1)):
            place = offset * rng.standard_normal((1, 32) + (1,) * (len(shape) - 2))
            x = (rng.standard_normal(shape) + place).astype(np.float32)
            gy = rng.standard_normal(shape).astype(np.float32)
            wide, dims = x.astype(np.float64), (0, *range(2, x.ndim))
            mean = wide.mean(dims, keepdims=True)
            invstd = 1 / np.sqrt(wide.var(dims, keepdims=True) + 1e-5)
            true = _slope(wide, gy, mean, invstd)
            rounded = (a.astype(np.float32).astype(np.float64) for a in (mean, invstd))
            errors.append(np.abs(_slope(wide, gy, *rounded, np.float32) - true).mean())
            leaf = tensor(x, requires_grad=True)
            ops.batch_norm(leaf, None, None, training=True).backward(tensor(gy))
            own.append(np.abs(leaf.grad.numpy() - true).mean())
    assert sum(own) < most * sum(errors)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_images_of_sixteen_bits_are_read_as_they_are(kind):
    """No conversions, and the bits of those that would be made."""
    drawn = np.random.default_rng(0).standard_normal((2, 4, 3, 70)).astype(np.float32)
    x, gy = (tensor(values).to(getattr(clnet, kind)) for values in drawn)
    found = []
    for operand in (x.float(), x):
        operand.requires_grad_()
        with clnet.profile() as seen:
            y = trained(operand)
            y.backward(gy.to(y.dtype))
        found.append((y.detach(), operand.grad))
        launches = [c.op for c in seen.commands if c.kind == "kernel"]
        assert launches.count("batch_norm") + launches.count("batch_norm_backward") == 4, launches
        assert not any("to" in op.split("_") for op in launches if operand is x), launches
    for wide, narrow in zip(*found, strict=True):
        np.testing.assert_array_equal(wide.to(x.dtype).float().numpy(), narrow.float().numpy())
