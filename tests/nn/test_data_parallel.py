"""A module on several devices of one process."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DeviceError


def net() -> nn.Module:
    clnet.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))


def test_losses_and_gradients_are_those_of_one_device(device, part_of_device):
    alone, inner = net().eval(), net().eval()  # given statistics: parts have others of their own
    model = clnet.parallel.DataParallel(inner, device_ids=[device, part_of_device])
    clnet.manual_seed(0)
    x = clnet.randn(5, 3)
    bits, y = [], x
    for _ in range(2):
        alone.zero_grad()
        model.zero_grad()
        (alone(x) ** 2).mean().backward()
        y = model(x)
        (y**2).mean().backward()
        bits.append([p.grad.numpy().tobytes() for p in inner.parameters()])
    assert y.device is device
    np.testing.assert_allclose(y.detach().numpy(), alone(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for p, q in zip(alone.parameters(), inner.parameters(), strict=True):
        assert q.grad.device is device
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert bits[0] == bits[1]


def test_parts_lie_on_their_devices_and_buffers_change_on_the_first(device, part_of_device):
    seen = []

    class Seen(nn.Module):
        def forward(self, x: clnet.Tensor, *, scale: clnet.Tensor) -> dict[str, clnet.Tensor]:
            seen.append((x.device, x.shape[0], scale.device))
            return {"y": x * scale, "total": (x * scale).sum()}

    model = nn.DataParallel(Seen(), [device, part_of_device])
    found = model(clnet.ones(3, 2), scale=clnet.tensor(2.0))
    assert seen == [(device, 2, device), (part_of_device, 1, part_of_device)]
    assert found["y"].tolist() == [[2, 2]] * 3
    assert found["total"].tolist() == [8, 4]
    norm = nn.DataParallel(nn.BatchNorm1d(2), [device, part_of_device])
    norm(clnet.arange(8).reshape(4, 2).float())
    assert norm.module.running_mean.tolist() == pytest.approx([0.1, 0.2])  # of the first two rows


def test_one_row_goes_to_one_device(device, part_of_device):
    model = nn.DataParallel(nn.Linear(2, 1), [device, part_of_device])
    assert model(clnet.ones(1, 2)).shape == (1, 1)


def test_what_cannot_be_spread_says_so(device, part_of_device):
    with pytest.raises(DeviceError, match=r"lies on the first device; got name=weight"):
        nn.DataParallel(nn.Linear(2, 1), [part_of_device, device])(clnet.ones(2, 2))
    with pytest.raises(ArgumentError, match="each device is named once"):
        nn.DataParallel(nn.Linear(2, 1), [device, device])
    compiled = nn.DataParallel(clnet.compile(nn.Linear(2, 1)), [device, part_of_device])
    with pytest.raises(ArgumentError, match="a compiled module is one device's"):
        compiled(clnet.ones(2, 2))


def test_a_processors_halves_work_side_by_side(device):
    """Its parts are devices of their own, and the module lies on one of them."""
    if device.type != "cpu" or device.traits.compute_units < 2:
        pytest.skip("the device is no processor of two cores or more")
    halves = device.split(2)
    assert halves == device.split(2)
    assert {d.traits.compute_units for d in halves} == {device.traits.compute_units // 2}
    assert len({d.name for d in halves}) == 2
    assert pickle.loads(pickle.dumps(halves[1])) is halves[1]
    assert clnet.device(halves[1].name) is halves[1]
    assert clnet.ones(1, device=halves[0].name).device is halves[0]
    layer = nn.Linear(3, 2).to(halves[0])
    x = clnet.ones(4, 3, device=halves[0])
    y = nn.DataParallel(layer, halves)(x)
    assert y.tolist() == layer(x).tolist()
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[4] * 3] * 2
    for parts in (0, 10**6):
        with pytest.raises(ArgumentError, match=r"parts lies in"):
            device.split(parts)
    bare = device.name.partition("[")[0]
    with pytest.raises(ArgumentError, match=r"the part lies in \d+ units"):
        clnet.device(f"{bare}[1:99]")
    with pytest.raises(ArgumentError, match=r"a part of a device is named like"):
        clnet.device(f"{bare}[first]")
