"""Tensors and models on PyTorch's device ``meta``: shapes and dtypes, and no elements."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import DeviceError

pytestmark = pytest.mark.device


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(2))


def test_tensors_have_shapes_alone():
    x = clnet.empty(2, 10**6, 10**6, device="meta")
    assert x.is_meta
    assert x.device == clnet.device("meta")
    assert (x.device.type, x.device.index, str(x.device)) == ("meta", None, "meta")
    y = (x.transpose(1, 2) @ x[0, :, :5]).softmax(-1)
    assert y.is_meta
    assert y.shape == (2, 10**6, 5)
    shown = repr(clnet.ones(2, 3, device="meta").double())
    assert shown == "tensor(..., device='meta', size=(2, 3), dtype=clnet.float64)"
    assert clnet.tensor([1, 2], device="meta").dtype is clnet.int64
    assert clnet.ones(3).to("meta").shape == (3,)
    assert not clnet.ones(3).is_meta
    with pytest.raises(DeviceError, match="tensors on it have shapes, but no elements"):
        y.sum().item()
    with pytest.raises(DeviceError, match="tensors on it have shapes, but no elements"):
        clnet.ones(2, device="meta").to(clnet.device())


def test_gradients_have_shapes():
    w = clnet.ones(4, 3, device="meta", requires_grad=True)
    (clnet.ones(2, 4, device="meta") @ w).sum().backward()
    assert w.grad.is_meta
    assert w.grad.shape == (4, 3)


def test_a_model_is_made_there_and_gets_memory_later():
    here = network()
    x = clnet.randn(2, 3, 5, 5)
    here(x)
    with clnet.device("meta"):
        model = network()
        assert model(clnet.empty(2, 3, 5, 5)).shape == (2, 2)
        large = nn.Linear(10**6, 10**6)
    assert all(p.is_meta for p in model.parameters())
    assert sum(p.numel() for p in large.parameters()) == 10**12 + 10**6
    weight = model[0].weight
    assert model.to_empty(device=clnet.device()) is model
    assert model[0].weight is weight
    assert not any(t.is_meta for t in [*model.parameters(), *model.buffers()])
    here.eval()
    wanted = here(x)
    model.load_state_dict(here.state_dict())
    np.testing.assert_array_equal(model.eval()(x).tolist(), wanted.tolist())


def test_a_state_is_assigned_to_a_model_that_is_there():
    here = nn.Linear(3, 2)
    model = nn.Linear(3, 2, device="meta")
    model.load_state_dict(here.state_dict(), assign=True)
    x = clnet.randn(4, 3)
    np.testing.assert_array_equal(model(x).tolist(), here(x).tolist())
    kept = nn.Sequential(nn.Linear(2, 2))
    before = kept[0].weight.tolist()
    assert kept.to_empty(device=clnet.device())[0].weight.tolist() == before
    kept.to_empty(device="meta", recurse=False)
    assert not kept[0].weight.is_meta
    assert kept.to("meta")[0].weight.is_meta
