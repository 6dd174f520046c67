"""A module on several devices of one process."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.passes import KEEPING_BITS
from clnet.errors import ArgumentError, DeviceError
from clnet.nn.parallel.bucket import buckets_of
from clnet.nn.parallel.data_parallel import _sizes


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


def test_small_parameters_go_in_one_message(device, part_of_device):
    """There and, as gradients, back; of other dtypes in others, large ones alone."""

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.small = nn.Sequential(*(nn.Linear(3, 3) for _ in range(5)))
            self.large = nn.Linear(3, 30_000)
            self.narrow = nn.Parameter(clnet.ones(3, dtype=clnet.float16))
            self.unused = nn.Parameter(clnet.ones(2))

        def forward(self, x):
            return self.large(self.small(x)).sum() + (self.narrow * 2).sum().float()

    clnet.manual_seed(0)
    model = nn.DataParallel(Layers(), [device, part_of_device])
    alone = model.module
    x = clnet.randn(4, 3)

    @clnet.compile(passes=KEEPING_BITS)
    def step(x):
        model.zero_grad()
        (model(x) ** 2).sum().backward()

    step(x)
    # Three messages of parameters and three of gradients; a bias of 30,000 numbers is small. The
    # inputs; results and their gradient.
    assert step.plans[0].num_moves == 6 + 1 + 2
    compiled = {n: p.grad.numpy() for n, p in alone.named_parameters() if p.grad is not None}
    model.zero_grad()
    (model(x) ** 2).sum().backward()
    eager = {n: p.grad.numpy() for n, p in alone.named_parameters() if p.grad is not None}
    assert alone.unused.grad is None
    assert compiled.keys() == eager.keys() == {n for n, _ in alone.named_parameters()} - {"unused"}
    assert all((compiled[n] == eager[n]).all() for n in eager)
    alone.zero_grad()
    (alone(x[:2]) ** 2 + alone(x[2:]) ** 2).backward()
    for name, p in alone.named_parameters():
        if name != "unused":
            np.testing.assert_allclose(eager[name], p.grad.numpy(), rtol=1e-4)


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


def test_unequal_devices_get_unequal_parts(device, part_of_device):
    seen = []

    class Seen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 1)

        def forward(self, x: clnet.Tensor) -> clnet.Tensor:
            seen.append((x.device, x.shape[0]))
            return self.inner(x)

    model = nn.DataParallel(Seen(), [device, part_of_device])
    model.shares = [3, 1]
    x = clnet.randn(9, 2)
    bits = [model(x).detach().numpy().tobytes() for _ in range(2)]
    assert seen == [(device, 7), (part_of_device, 2)] * 2
    assert bits[0] == bits[1]
    whole = model.module.inner(x).detach().numpy()
    np.testing.assert_allclose(model(x).detach().numpy(), whole, rtol=1e-5, atol=1e-6)
    step = clnet.compile(lambda x: model(x), passes=KEEPING_BITS)
    assert step(x).detach().numpy().tobytes() == bits[0]
    del seen[:]
    model.shares = [1e308, 1e308]
    step(x)
    assert [rows for _, rows in seen] == [5, 4]  # a step that was compiled is traced anew
    for wrong in ([1], [1, 0], [1, float("nan")], [1, "many"], 3, [1, float("inf")]):
        model.shares = wrong
        with pytest.raises(ArgumentError, match="shares are numbers above 0"):
            model(x)


@pytest.mark.parametrize(
    ("n", "shares", "sizes"),
    [
        (9, [3, 1], [7, 2]),
        (4, [1, 1, 1], [2, 1, 1]),
        (10, [1000, 1, 1], [8, 1, 1]),
        (2, [1, 5, 1], [1, 1]),
        (1, [1, 5], [1]),
        (0, [1, 5], [0]),
    ],
)
def test_rows_are_shared_out(n, shares, sizes):
    assert _sizes(n, shares) == sizes


def test_shares_are_measured_and_nothing_is_changed(device, part_of_device, monkeypatch):
    class Sleeping(nn.Module):
        """Takes three times as long elsewhere."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: clnet.Tensor) -> clnet.Tensor:
            time.sleep(0.03 if x.device is device else 0.09)
            return self.norm(nn.functional.dropout(x, 0.5))

    model = nn.DataParallel(Sleeping(), [device, part_of_device])
    before = {name: x.numpy() for name, x in model.state_dict().items()}
    clnet.manual_seed(4)
    expected = clnet.rand(2).tolist()
    clnet.manual_seed(4)
    shares = model.measure(clnet.randn(4, 3))
    assert shares == model.shares
    assert sum(shares) == pytest.approx(1)
    assert shares[0] > 1.5 * shares[1]
    assert all((before[name] == x.numpy()).all() for name, x in model.state_dict().items())
    assert model(clnet.randn(8, 3)).shape == (8, 3)
    clnet.manual_seed(4)
    model.measure(clnet.ones(4, 3))
    assert clnet.rand(2).tolist() == expected
    alone = nn.DataParallel(nn.Linear(2, 2))
    assert alone.measure(clnet.ones(1, 2)) == [1.0]


def test_a_bias_goes_with_the_weight_behind_it(device):
    dense = [nn.Linear(512, 1024, device=device), nn.Linear(1024, 300, device=device)]
    parameters = [p for layer in dense for p in layer.parameters()]
    sizes = [[p.numel() for p in b.parameters] for b in buckets_of(parameters, 2**20)]
    # The last layer's first: its bias of 1.2 KB with its weight of 1.2 MB, more than a bucket; the
    # first layer's bias of 4 KB alike.
    assert sizes == [[300, 300 * 1024], [1024, 1024 * 512]]
    # What is not small beside the next is not held back: 40 KB and 120 KB, of 100.
    rows = [clnet.zeros(30_000, device=device), clnet.zeros(10_000, device=device)]
    assert [len(b.parameters) for b in buckets_of(rows, 100_000)] == [1, 1]
