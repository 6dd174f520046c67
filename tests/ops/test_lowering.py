"""Launches of ops that come again are looked up, with the memory of the arrays at hand."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import clnet
from clnet.device import Scratch, Storage
from clnet.nn import functional as F
from clnet.ops.machinery import lowering
from clnet.ops.reduce import Reduce


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sums(*arrays: np.ndarray) -> list[list[float]]:
    return [clnet.tensor(a).sum(1).tolist() for a in arrays]


def test_what_came_before_is_not_lowered_again(monkeypatch):
    first, second = numbers(5, 7), numbers(5, 7, seed=1)
    before = sums(first, second)
    monkeypatch.setattr(Reduce, "lower", lambda *_: pytest.fail("lowered again"))
    monkeypatch.setattr(Reduce, "infer", lambda *_: pytest.fail("inferred again"))
    assert sums(second, first) == before[::-1]
    np.testing.assert_allclose(before, [first.sum(1), second.sum(1)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: x[1:5],
        lambda x: clnet.nn.functional.pad(x, (0, 1))[:, :6],
        lambda x: x.double(),
    ],
    ids=["strides", "offset", "storage", "dtype"],
)
def test_arrays_that_lie_otherwise_have_launches_of_their_own(other):
    x = clnet.tensor(numbers(6, 6))
    x[1:5].sum(0), x.sum(0)
    y = other(x)
    np.testing.assert_allclose(y.sum(0).numpy(), y.numpy().sum(0), rtol=1e-4, atol=1e-5)


def test_operands_in_one_memory_are_told_from_others():
    a, b = numbers(4, 4), numbers(4, 4, seed=1)
    for x, y in [(a, a), (a, b), (b, b), (b, a)]:
        one = clnet.tensor(x)
        other = one if y is x else clnet.tensor(y)
        np.testing.assert_allclose((one @ other).numpy(), x @ y, rtol=1e-4, atol=1e-5)


def test_kept_launches_hold_no_memory(device):
    x = numbers(300, 5)
    sums(x)
    device.target.launches.clear()
    before = clnet.memory_allocated(device)
    sums(x)
    assert len(device.target.launches) == 1
    assert clnet.memory_allocated(device) == before
    for kept in device.target.launches.values():
        args = [arg for part in kept.launches.parts for arg in part.launch.args]
        assert not any(isinstance(arg, Storage | Scratch) for arg in args)


def test_numbers_are_each_call_s_own():
    x = clnet.tensor(numbers(3, 5))
    for factor in (2.0, -3.5, 0.25):
        np.testing.assert_array_equal((x * factor).numpy(), x.numpy() * np.float32(factor))
        np.testing.assert_array_equal(clnet.full((4,), factor).numpy(), np.full(4, factor, "f"))
        y = x.clone().mul_(factor)
        np.testing.assert_array_equal(y.numpy(), x.numpy() * np.float32(factor))
        y.fill_(factor)
        assert y.tolist() == [[factor] * 5] * 3


def test_kinds_of_numbers_are_told_apart():
    x = clnet.tensor([1, 2, 3])
    for factor, found in ((2, [2, 4, 6]), (2.5, [2.5, 5.0, 7.5]), (3, [3, 6, 9])):
        assert (x * factor).tolist() == found
        assert type((x * factor).tolist()[0]) is type(factor)


def test_a_zero_s_sign_is_part_of_what_is_kept():
    x = clnet.ones(2)
    for _ in range(2):
        for value in (0.0, -0.0):
            padded = F.pad(x, (1, 1), value=value).numpy()
            assert np.signbit(padded[[0, 3]]).tolist() == [np.signbit(value)] * 2


def test_masks_are_drawn_anew_and_are_those_of_the_gradient():
    x = clnet.ones(400, requires_grad=True)
    before = None
    for _ in range(4):
        y = F.dropout(x, 0.5)
        (gradient,) = clnet.autograd.grad(y.sum(), x)
        np.testing.assert_array_equal(gradient.numpy(), y.detach().numpy())
        assert before is None or (y.detach().numpy() != before).any()
        before = y.detach().numpy()


def test_writes_in_place_are_counted_each_time():
    w = clnet.ones(4, requires_grad=True)
    x = clnet.ones(4)
    for write in (lambda x: x.mul_(2.0), lambda x: x.copy_(w.detach()), lambda x: x.zero_()):
        for _ in range(3):
            y = (w * x).sum()
            write(x)
            with pytest.raises(clnet.errors.GradientError, match="changed in place"):
                y.backward()


def test_operands_of_two_devices_are_refused_each_time(device, part_of_device):
    x, y = clnet.ones(3, device=device), clnet.ones(3, device=part_of_device)
    for _ in range(3):
        assert (x + x).tolist() == (y + y).tolist() == [2.0] * 3
        with pytest.raises(clnet.errors.DeviceError, match="different devices"):
            _ = x + y


def test_a_tensor_without_elements_in_memory_is_refused_each_time():
    x = clnet.ones(3, 4)
    for _ in range(3):
        x.sum(1)
    with clnet.abstract():
        nothing = clnet.ones(3, 4)
    with pytest.raises(clnet.errors.DeviceError, match="no elements"):
        nothing.sum(1)


def test_who_looks_on_is_told_who_asked(device):
    layer = clnet.nn.Sequential(clnet.nn.Linear(3, 2)).to(device)
    x = clnet.ones(4, 3, device=device)
    for _ in range(3):
        layer(x)
    with device.queue.observe(told := Told()):
        layer(x)
    assert told.records == [("linear", "Sequential.0", "forward")]


class Told:
    """Who asked for each launch."""

    profiling = False

    def __init__(self) -> None:
        self.records: list[tuple[str, str, str]] = []

    def command(self, record) -> None:
        self.records.append((record.op, record.module_path, record.phase))


def test_scratch_memory_is_each_call_s_own(device):
    x = clnet.tensor(numbers(1 << 19))
    with device.queue.observe(seen := Seen()):
        found = [x.sum().item() for _ in range(3)]
    assert found[0] == found[1] == found[2] == pytest.approx(float(x.numpy().sum()), abs=0.5)
    assert len(seen.scratch) == 3


class Seen:
    """The scratch memories of all launches."""

    profiling = False

    def __init__(self) -> None:
        self.scratch: set[Scratch] = set()

    def command(self, record) -> None:
        self.scratch |= {s for s in (*record.reads, *record.writes) if isinstance(s, Scratch)}


def test_few_are_kept(device, monkeypatch):
    monkeypatch.setattr(lowering, "_MOST_KEPT", 3)
    for size in range(2, 9):
        clnet.ones(size).sum()
    assert 1 <= len(device.target.launches) <= 3


def test_checks_are_reported_from_kept_launches_too(device):
    table = clnet.tensor(numbers(3, 2))
    good, bad = clnet.tensor([0, 2]), clnet.tensor([0, 5])
    F.embedding(good, table)
    clnet.synchronize()
    F.embedding(bad, table)
    with pytest.raises(clnet.errors.BoundsError, match="embedding"):
        clnet.synchronize()
    np.testing.assert_array_equal(F.embedding(good, table).numpy(), table.numpy()[[0, 2]])


def test_threads_get_the_launches_of_their_own_arrays(device):
    device.target.launches.clear()
    arrays = [numbers(64, 9, seed=k) for k in range(4)]
    found: dict[int, list[float]] = {}

    def work(k: int) -> None:
        for _ in range(50):
            found[k] = clnet.tensor(arrays[k]).sum(1).tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[k] for k in range(4)] == sums(*arrays)


def test_what_came_before_runs_in_regions_of_memory_and_in_memory_of_its_own(device):
    """Arguments that begin where their buffer does are put in order at once, others one by one."""
    values = [numbers(6, 50, seed=seed) for seed in range(2)]

    def computed(x, y):
        return [(x * y + 0.5).numpy(), x.sum(1).numpy(), clnet.sum(x).numpy(), (x @ y.t()).numpy()]

    own = [clnet.tensor(v) for v in values]
    expected = [computed(*own) for _ in range(4)][-1]
    arena = clnet.zeros(1000)
    regions = [clnet.empty(6, 50) for _ in values]
    for k, (region, value) in enumerate(zip(regions, values, strict=True)):
        region.array.storage.look_at(arena.array.storage, 4 * (64 + 400 * k))
        region.copy_(clnet.tensor(value))
    for x, y in ((regions[0], own[1]), (own[0], regions[1]), regions, own):
        for found, wanted in zip(computed(x, y), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_walk_that_came_before_runs_with_gradients_in_regions():
    w, given = clnet.tensor(numbers(4, 3)).requires_grad_(), clnet.tensor(numbers(5, 3, seed=2))
    x, arena = clnet.tensor(numbers(5, 4, seed=1)), clnet.zeros(200)
    inside = clnet.empty(5, 3)
    inside.array.storage.look_at(arena.array.storage, 4 * 64)
    inside.copy_(given)
    found = []
    for gradient in (given, given, given, given, inside, given):
        w.grad = None
        clnet.relu(x @ w).backward(gradient)
        found.append(w.grad.numpy())
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
