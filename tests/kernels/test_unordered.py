"""Elements that meet at places by atomics: exact, whatever their order, on GPU-shaped targets."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.device import device
from clnet.kernels.index import extremes_along, gather_along_gradient
from clnet.ops import scatter_reduce
from tests.answers import torch
from tests.kernels.launching import gpu_shaped

pytestmark = pytest.mark.device
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38]


def made(shape, dtype, rng):
    if dtype is np.float32:
        x = rng.standard_normal(shape).astype(np.float32)
        x.reshape(-1)[: len(SPECIAL)] = SPECIAL[: x.size]
        return x
    bounds = np.iinfo(dtype)
    x = rng.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    x.reshape(-1)[:2] = [bounds.min, bounds.max][: x.size]
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint8], ids=str)
@pytest.mark.parametrize("shape", [(3, 40, 2), (1, 7, 1), (90,)], ids=str)
def test_extremes(shape, dtype, largest):
    rng, dim = np.random.default_rng(len(shape)), min(1, len(shape) - 1)
    x = made(shape, dtype, rng)
    index = rng.integers(0, 5, shape)
    index.reshape(-1)[-1] = 9  # out of range
    out = (*shape[:dim], 6, *shape[dim + 1 :])
    ends = (-np.inf, np.inf)
    if dtype is not np.float32:
        ends = (np.iinfo(dtype).min, np.iinfo(dtype).max)
    expected = np.full(out, ends[0] if largest else ends[1], dtype)
    better = np.maximum if largest else np.minimum
    for place in np.ndindex(*shape):
        at = list(place)
        at[dim] = index[place]
        if index[place] < 6:
            expected[tuple(at)] = better(expected[tuple(at)], x[place])
    y = Array.from_numpy(np.ones(out, dtype), device())
    arrays = (Array.from_numpy(a, device()) for a in (x, index))
    target = gpu_shaped(device())
    launches = extremes_along(target, y, *arrays, dim=dim, largest=largest)
    assert [launch.kernel.name for launch in launches][-1] == "met"
    for launch in launches:
        device().queue.launch(launch)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_whole_numbers_are_added_up_without_a_sort():
    rng = np.random.default_rng(0)
    x, index = rng.integers(-9, 9, (2, 5000), np.int32), rng.integers(0, 7, (2, 5000))
    y = Array.from_numpy(np.ones((2, 7), np.int32), device())
    arrays = (Array.from_numpy(a, device()) for a in (x, index))
    launches = gather_along_gradient(gpu_shaped(device()), y, *arrays, dim=1)
    assert len(launches) == 2
    for launch in launches:
        device().queue.launch(launch)
    expected = np.zeros((2, 7), np.int32)
    for row in range(2):
        np.add.at(expected[row], index[row], x[row])
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("kind", ["amax", "amin", "mean", "sum"])
@pytest.mark.parametrize("own", [True, False])
def test_reductions_of_a_gpu_agree_with_pytorch(kind, own, monkeypatch):
    monkeypatch.setattr(device(), "target", gpu_shaped(device()))
    rng = np.random.default_rng(1)
    x, src = rng.standard_normal((6, 3)), rng.standard_normal((200, 3))
    x, src = x.astype(np.float32), src.round(1).astype(np.float32)
    index = rng.integers(0, 5, (200, 3))
    found = []
    for library in (clnet, torch):
        a, b = (library.tensor(v, requires_grad=True) for v in (x, src))
        how = library.tensor(index), b, kind
        reduce = scatter_reduce if library is clnet else torch.scatter_reduce
        y = reduce(a, 0, *how, include_self=own)
        (y * y).sum().backward()
        found.append([t.detach().numpy() for t in (y, a.grad, b.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
