"""Tensors that go from one device to another, and their gradients back."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.device import Recorder, transfer
from clnet.device.transfer import PIECE_BYTES


def test_gradients_go_back_to_the_first_device(device, part_of_device):
    x = clnet.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = clnet.tensor([4.0, 5.0, 6.0], device=part_of_device, requires_grad=True)
    there = (x * x).to(part_of_device)
    assert (there.device, there.requires_grad, there.is_leaf) == (part_of_device, True, False)
    ((there * w).to(device) + x).sum().backward()
    assert x.grad.device is device
    assert x.grad.tolist() == [1 + 2 * 1 * 4, 1 + 2 * 2 * 5, 1 + 2 * 3 * 6]
    assert w.grad.device is part_of_device
    assert w.grad.tolist() == [1, 4, 9]


def test_a_leaf_that_is_moved_stays_the_leaf(part_of_device):
    x = clnet.ones(2, requires_grad=True)
    moved = x.to(part_of_device)
    assert not moved.is_leaf
    (moved * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with clnet.no_grad():
        assert not x.to(part_of_device).requires_grad


def test_gradients_of_gradients_cross_devices(part_of_device):
    x = clnet.tensor([2.0], requires_grad=True)
    y = x.to(part_of_device) ** 3
    (first,) = clnet.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = clnet.autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([12], [12])


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.int64, clnet.bool, clnet.complex64])
def test_views_arrive_whole_and_in_their_order(part_of_device, dtype):
    x = clnet.arange(24).reshape(4, 6).to(dtype)
    for view, dense in ((x[1:3, ::2].T, False), (x[2:], True), (x[:, 3], True), (x[1, 1], True)):
        moved = view.to(part_of_device)
        assert (moved.shape, moved.dtype, moved.array.contiguous) == (view.shape, dtype, dense)
        assert moved.contiguous().array.strides == clnet.empty(view.shape).stride()
        assert moved.tolist() == view.tolist()


def test_a_view_that_was_overwritten_since_moves_as_it_is_now(part_of_device):
    x = clnet.ones(3, requires_grad=True)
    y = x * 2
    view = y[1:]
    y.mul_(5)
    view.to(part_of_device).sum().backward()
    assert x.grad.tolist() == [0, 10, 10]


def test_what_is_copied_into_another_devices_tensor_keeps_its_gradient(part_of_device):
    x = clnet.ones(2, requires_grad=True)
    target = clnet.zeros(2, device=part_of_device)
    target.copy_(x * 2)
    (target * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_a_model_on_two_devices_trains_as_on_one(device, part_of_device):
    clnet.manual_seed(1)
    one = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    first, second = nn.Linear(4, 8), nn.Linear(8, 2).to(part_of_device)
    first.load_state_dict(one[0].state_dict())
    second.load_state_dict(one[2].state_dict())
    x = clnet.randn(5, 4)
    sgd = clnet.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1, momentum=0.9)
    alone = clnet.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        for optimizer, loss in (
            (alone, (one(x) ** 2).mean()),
            (sgd, (second(first(x).tanh().to(part_of_device)) ** 2).mean()),
        ):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for a, b in ((one[0], first), (one[2], second)):
        np.testing.assert_array_equal(a.weight.detach().numpy(), b.weight.detach().numpy())
    assert second.weight.grad.device is part_of_device


def test_gradients_of_two_devices_are_clipped_together(part_of_device):
    x = clnet.zeros(2, requires_grad=True)
    y = clnet.zeros(2, device=part_of_device, requires_grad=True)
    x.grad, y.grad = clnet.tensor([3.0, 0.0]), clnet.tensor([0.0, 4.0], device=part_of_device)
    assert nn.utils.clip_grad_norm_([x, y], 1.0).item() == 5
    np.testing.assert_allclose(x.grad.numpy(), [0.6, 0], rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), [0, 0.8], rtol=1e-5)


def test_two_threads_that_move_either_way_do_not_wait_for_each_other(device, part_of_device):
    x = {d: clnet.ones(1000, device=d, requires_grad=True) for d in (device, part_of_device)}

    def run(here, there):
        for _ in range(20):
            (x[here] * 2).to(there).sum().backward()

    threads = [
        threading.Thread(target=run, args=pair)
        for pair in ((device, part_of_device), (part_of_device, device))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert all((leaf.grad == 40).all() for leaf in x.values())


def test_a_move_where_the_hosts_memory_is_shared_downloads_nothing(device, part_of_device):
    x = clnet.ones(1000)
    seen = Recorder(device)
    with device.queue.observe(seen):
        x.to(part_of_device)
    kinds = [command.kind for command in seen.commands()]
    assert kinds == (["map"] if device.traits.unified_memory else ["download"])


def test_pinned_pieces_bring_all_bytes(device, part_of_device):
    n = 2 * PIECE_BYTES // 4 + 3  # three pieces
    x = clnet.arange(n + 5)
    x = x.to(clnet.int32)
    target = clnet.zeros(n, dtype=clnet.int32, device=part_of_device)
    for _ in range(2):  # the second uses the pieces again
        transfer(target.array.storage, x.array.storage, 4 * n, source_bytes=20, pinned=True)
        assert (target.numpy() == np.arange(5, n + 5)).all()
        target.zero_()


def test_compiled_parts_are_joined_outside(device, part_of_device):
    first = clnet.compile(lambda x: (x * 2).tanh())
    second = clnet.compile(lambda x: (x * x).sum())
    x = clnet.tensor([0.5, -1.0], requires_grad=True)
    second(first(x).to(part_of_device)).backward()
    t = np.tanh(2 * x.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), 4 * t * (1 - t * t), rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False], ids=["mapped", "pinned"])
def test_elements_are_read_and_written_on_the_host(device, monkeypatch, shared):
    """As MPI does: where they lie, or through memory that the device reads by itself."""
    monkeypatch.setattr(device, "traits", replace(device.traits, unified_memory=shared))
    x = clnet.arange(6).float()
    array = x[2:5].array
    version = array.storage.version
    for _ in range(2):  # the second time pinned memory is lent again
        with array.on_host(read=True, write=True) as host:
            host += 10
    assert x.tolist() == [0, 1, 22, 23, 24, 5]
    assert array.storage.version == version + 2
    with array.on_host(read=True, write=False) as host:
        assert host.tolist() == [22, 23, 24]
        assert host.flags.writeable is not shared
    with array.on_host(read=False, write=True) as host:
        host[:] = 7
    assert x.tolist() == [0, 1, 7, 7, 7, 5]
    assert array.storage.version == version + 3


def test_a_device_with_memory_of_its_own_sends_pinned_pieces(device, part_of_device, monkeypatch):
    monkeypatch.setattr(device, "traits", replace(device.traits, unified_memory=False))
    x = clnet.arange(10)
    seen = Recorder(device)
    with device.queue.observe(seen):
        assert x.to(part_of_device).tolist() == list(range(10))
    assert [command.kind for command in seen.commands()] == ["download"]
