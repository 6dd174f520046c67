"""Memory that nobody has written holds NaN and large integers, wherever an op may find it."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.device import Scratch, Storage
from clnet.kernels.moving.copy import copy, fill
from clnet.ops.machinery.function import Function, apply
from clnet.values.dtypes import float32
from clnet.values.settings import SETTINGS, Settings

pytestmark = pytest.mark.device


class Forgetful(Function):
    """Twos, but for the last element of each row, which it does not write."""

    def infer(self, x):
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(self, target, outputs, inputs):
        (y,) = outputs
        rows, columns = y.shape
        return fill(target, y.view((rows, columns - 1), (columns, 1)), 2)


class ForgetfulOfScratch(Forgetful):
    """The same by way of scratch memory."""

    def lower(self, target, outputs, inputs):
        (y,) = outputs
        between = Array.scratch(Scratch(y.device), y.shape, y.dtype)
        launches = super().lower(target, (between,), inputs)
        return [*launches, *copy(target, y, between)]


@pytest.fixture(autouse=True)
def _poisoned(device, monkeypatch):
    """Poison, whatever ``CLNET_POISON`` says."""
    monkeypatch.setattr(device, "poison", device.queue.poison)
    monkeypatch.setattr(device.pool, "_poison", device.queue.poison)


def found(y: clnet.Tensor) -> None:
    """Check that what the planted op left out, and that alone, is NaN."""
    values = y.numpy()
    assert np.isnan(values[:, -1]).all()
    assert (values[:, :-1] == 2).all()


def test_this_suite_runs_poisoned():
    asked = SETTINGS.poison
    assert asked or __import__("os").environ["CLNET_POISON"] == "0"


@pytest.mark.parametrize("op", [Forgetful, ForgetfulOfScratch])
def test_an_element_left_out_is_found(op):
    x = clnet.ones(6, 70)
    for _ in range(3):
        (x + 1).numpy()  # a block with harmless values comes back
        found(apply(op(), x))


@pytest.mark.parametrize("op", [Forgetful, ForgetfulOfScratch])
def test_an_element_left_out_is_found_in_a_plan(op):
    @clnet.compile
    def step(x):
        y = apply(op(), x * 3)
        return y + 0

    for _ in range(4):  # traced and run, run and bound, replayed
        found(step(clnet.ones(6, 70)))


def test_no_value_of_the_last_replay_is_left_for_the_next(device, monkeypatch):
    """Without poison the planted op finds its own memory as it was."""

    @clnet.compile
    def step(x):
        y = apply(Forgetful(), x)
        return y + 0, y.add(1).mul(x).sum()

    x = clnet.ones(6, 70)
    for _ in range(3):
        assert np.isnan(step(x)[1].numpy())
    monkeypatch.setattr(device, "poison", None)
    assert step(x)[0].isnan().any()  # of the replay before


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, clnet.bfloat16.numpy, np.int16, np.int32, np.int64]
)
def test_what_is_found_is_no_number_or_a_large_one(device, kind):
    storage = Storage(device, 240)
    storage.materialize()
    host = np.zeros(240 // np.dtype(kind).itemsize, kind)
    device.queue.download(host, storage)
    if np.dtype(kind).kind == "i":
        assert (np.abs(host.astype(np.float64)) > np.iinfo(kind).max * 0.99).all()
    else:
        assert np.isnan(host.astype(np.float64)).all()


def test_a_block_is_poisoned_when_it_comes_back(device):
    """What reads a value after it was given back finds nothing."""
    x = clnet.ones(64)
    buffer = x.array.storage.buffer
    del x  # it is put down, and taken in by who asks the pool next
    device.pool.statistics()
    after = Storage(device, 256)
    after.buffer = buffer
    host = np.zeros(64, np.float32)
    device.queue.download(host, after)
    assert np.isnan(host).all()


def test_launches_of_one_op_share_their_scratch_memory(device):
    """What the first leaves there the second reads; the next op does not."""
    scratch = Scratch(device)
    between = Array.scratch(scratch, (100,), float32)
    y = Array.abstract((100,), float32, device)
    y.storage.materialize()
    for launch in fill(device.target, between, 5) + copy(device.target, y, between):
        device.queue.launch(launch)
    assert (y.numpy() == 5).all()
    between = Array.scratch(Scratch(device), (100,), float32)
    for launch in copy(device.target, y, between):
        device.queue.launch(launch)
    assert np.isnan(y.numpy()).all()


def test_nothing_is_poisoned_unless_asked(device, monkeypatch):
    monkeypatch.setattr(device, "poison", None)
    monkeypatch.setattr(device.pool, "_poison", None)
    first = clnet.ones(6, 70)
    first.numpy()
    del first
    assert (apply(Forgetful(), clnet.zeros(6, 70)).numpy()[:, :-1] == 2).all()
    assert not Settings.read({}).poison
    assert not Settings.read({"CLNET_POISON": "0"}).poison
    assert Settings.read({"CLNET_POISON": "1"}).poison


def test_blocks_that_are_free_are_poisoned_when_it_begins(device, monkeypatch):
    monkeypatch.setattr(device, "poison", None)
    monkeypatch.setattr(device.pool, "_poison", None)
    first = clnet.ones(6, 70)
    del first
    device.pool.statistics()  # takes it in
    with device.poisoned():
        assert clnet.empty(6, 70).isnan().all()
