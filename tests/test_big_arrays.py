"""Arrays beyond 2^31 elements and 4 GiB, of which little is touched; devices with small buffers.

PoCL's memory costs nothing until it is written, so these run on small machines; without poison,
which would write it all. Where PoCL, which halves and rounds what the machine has, gives no such
buffers, a child that is told of more memory runs them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.device import Device, oversize
from clnet.device.discovery import discover, select
from clnet.device.oversize import keeps_numbers
from clnet.errors import ArgumentError, OutOfDeviceMemory
from clnet.kernels.index import gather_rows_gradient
from clnet.kernels.moving import copy, fill
from clnet.values.settings import SETTINGS
from tests.kernels.launching import run

pytestmark = pytest.mark.device
BEYOND = 2**31 + 2**20  # elements
LEAST_BUFFER = 6 * 2**30


def lazy(device) -> bool:
    """Whether memory that nobody touched is nobody's."""
    return device.traits.unified_memory and device.identity.platform.startswith("Portable")


@pytest.fixture
def room(device, monkeypatch):
    """Buffers of more than 4 GiB that cost nothing."""
    if not lazy(device):
        pytest.skip("the device has no such buffers, or they cost memory")
    if device.traits.max_allocation_bytes < LEAST_BUFFER:
        pytest.skip("run by test_a_small_machine_has_large_arrays")
    device.pool.empty_cache()
    monkeypatch.setattr(device, "poison", None)
    monkeypatch.setattr(device.pool, "_poison", None)
    yield
    device.pool.empty_cache()


@pytest.fixture
def many(room):
    """More elements than an int counts."""
    return clnet.empty(BEYOND, dtype=clnet.int8)


@pytest.mark.slow
def test_a_small_machine_has_large_arrays(device):
    """What others here ask of large buffers, where PoCL thinks that the machine has 64 GB."""
    if not lazy(device) or device.traits.max_allocation_bytes >= LEAST_BUFFER:
        pytest.skip("the device has large buffers, or they cost memory")
    told = f"node:1(memory=64GB) core:{device.traits.compute_units} pu:1"
    chosen = ("-k", "beyond_4_gib or the_last_int")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            __file__,
            *chosen,
        ],
        env=os.environ | {"HWLOC_SYNTHETIC": told, "HWLOC_THISSYSTEM": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout, run.stdout
    assert "skipped" not in run.stdout, run.stdout


def test_elements_behind_the_last_int_are_reduced(many):
    """Nothing here depends on what elements hold that nobody wrote."""
    many[-7], many[12_345] = 127, -128
    assert many.max().item() == 127
    assert many.min().item() == -128
    first = int(many.argmax())
    assert many[first].item() == 127
    assert many[:first].max().item() < 127
    assert int(many.argmin()) <= 12_345
    assert many.view(2, BEYOND // 2)[:, -7:].amax(0)[0].item() == 127
    halves = many[: 2**30].sum(), many[2**30 :].sum()
    assert many.sum().item() == halves[0].item() + halves[1].item()


def test_products_of_sizes_beyond_the_last_int_say_so():
    one = clnet.ones(1, 1)
    with pytest.raises(
        ArgumentError, match=r"sizes are whole numbers below 2\^31; got .*2147483648"
    ):
        one.expand(1, 2**31) @ one.expand(2**31, 1)


@pytest.mark.parametrize("what", ["random_", "cumsum"])
def test_what_cannot_have_so_many_elements_behind_the_last_int_says_so(many, what):
    calls = {
        "random_": many.random_,
        "cumsum": lambda: many.cumsum(0, dtype=clnet.int8),
    }
    with pytest.raises(ArgumentError, match=rf"^{what}: .*got .*2148532224"):
        calls[what]()


def test_elements_behind_the_last_int_are_read_and_written(many):
    view = many[:: 2**27]
    view.fill_(3)
    assert ((view + 4).numpy() == 7).all()
    many[-5:] = clnet.tensor([1, 2, 3, 4, 5], dtype=clnet.int8)
    assert (many[-5:] * 2).tolist() == [2, 4, 6, 8, 10]


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "lines"])
def test_what_lies_further_apart_than_an_int_counts_is_copied_in_parts(many, device, turned):
    """By copies that do not ask whether an int is enough, as a flip's, which is backwards."""
    view = many.as_strided((3, 5), (2**30, 2**17 + 3) if not turned else (2**29 + 7, 2**28 + 1))
    view.copy_(clnet.arange(15, dtype=clnet.int8).reshape(3, 5))
    assert view.flip(0).tolist() == view.tolist()[::-1]
    assert view.T.flip(0, 1).tolist() == [line[::-1] for line in view.T.tolist()[::-1]]
    kept = clnet.empty(3, 5, dtype=clnet.int8)
    run(copy(device.target, kept.array, view.array))
    assert kept.tolist() == view.tolist()
    run(fill(device.target, view[1:].array, 7))
    assert view.tolist() == [kept[0].tolist(), [7] * 5, [7] * 5]


@pytest.mark.parametrize("columns", [2**15, 2**15 + 1], ids=["even", "odd"])
@pytest.mark.parametrize("wide", [True, False], ids=["rows", "elements"])
def test_rows_behind_the_last_int_are_picked(many, columns, wide, device, monkeypatch):
    if not wide:  # as GPUs do
        monkeypatch.setattr("clnet.kernels.index.gather._CPU_LEAST_ROW", 2**31)
    rows = BEYOND // columns
    table = many[: rows * columns].view(rows, columns)
    for row, value in ((0, 1), (rows // 2, 5), (rows - 1, 7)):
        table[row] = value
    picked = table.index_select(0, clnet.tensor([rows - 1, 0, rows // 2, rows - 1]))
    assert picked.sum(1).tolist() == [value * columns for value in (7, 1, 5, 7)]


def test_rows_behind_the_last_int_are_put_and_added_up(many, device):
    rows, columns = BEYOND // 2**15, 2**15
    table = many[: rows * columns].view(rows, columns)
    index = clnet.tensor([rows - 1, 0, rows - 1, rows // 2])
    values = clnet.tensor([[3], [1], [7], [5]], dtype=clnet.int8).expand(4, columns).contiguous()
    table[index] = values
    assert table[index].sum(1).tolist() == [value * columns for value in (7, 1, 7, 5)]
    sums = clnet.empty(1, rows, columns, dtype=clnet.int8)
    given = values.unsqueeze(0).array
    run(gather_rows_gradient(device.target, sums.array, given, index.array))
    assert sums[0, index].sum(1).tolist() == [value * columns for value in (10, 1, 10, 5)]


def test_what_lies_between_elements_is_not_read(room):
    view = clnet.empty(2**30, dtype=clnet.int8)[:: 2**27]
    view.fill_(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert view.tolist() == view.numpy().tolist() == [3] * 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 10_000  # of 500,000


def test_elements_behind_the_last_int_are_gathered_and_scattered(many):
    table = many[: BEYOND // 2**15 * 2**15].view(BEYOND // 2**15, 2**15)[:: 2**13]
    index = clnet.full((len(table), 2), 6, dtype=clnet.int64)
    table[:, 5:8] = 4
    assert (clnet.gather(table, 1, index).numpy() == 4).all()
    table.scatter_(1, index[:, :1], clnet.full((len(table), 1), 2, dtype=clnet.int8))
    assert table[:, 5:8].tolist() == [[4, 2, 4]] * len(table)


def test_floats_beyond_4_gib_are_computed_with(room):
    x = clnet.empty(2**30 + 2**28)
    view = x[:: 2**26]
    view.fill_(1.5)
    x[-3:] = 2.0
    assert (view + x[-3]).tolist() == [3.5] * 20
    table = x.view(5 * 2**14, 2**14)
    last = table[-3:, :8]
    last.fill_(2.0)
    assert (last @ clnet.ones(8, 2)).tolist() == [[16.0, 16.0]] * 3
    assert float(table[:: 2**12, -40:].fill_(2.0).contiguous().sum()) == 2.0 * 20 * 40


def test_what_is_larger_than_any_buffer_is_refused_with_figures(device):
    elements = device.traits.max_allocation_bytes // 4 + 2**20
    law = f"one buffer may have {device.traits.max_allocation_bytes:,} bytes"
    with pytest.raises(OutOfDeviceMemory, match=law):
        clnet.empty(elements)


@pytest.fixture
def little() -> Device:
    """The default device once more, which says that a buffer may have 64 KiB."""

    def small(handle):
        return replace(found(handle), max_allocation_bytes=2**16)

    from clnet.device import device as module  # noqa: PLC0415 - the function hides the module

    found = module.__globals__["traits_of"]
    with patch.dict(module.__globals__, {"traits_of": small}):
        opened = Device(select(SETTINGS.device, discover()), SETTINGS.threads)
    assert opened.traits.max_allocation_bytes == 2**16
    return opened


def test_buffers_beyond_what_the_driver_says_are_used_where_they_hold_their_numbers(little):
    x = clnet.arange(300_000.0, device=little)
    np.testing.assert_array_equal(x.numpy(), np.arange(300_000))
    assert (x + x)[-2:].tolist() == [599_996.0, 599_998.0]
    assert keeps_numbers(little.queue._context, x.array.storage.buffer, 2**20)


def test_buffers_that_lose_the_upper_bits_of_places_are_refused(little, monkeypatch):
    monkeypatch.setattr(oversize, "_TEXT", oversize._TEXT.replace("x[PLACE", "x[0xffff & PLACE"))
    law = "one buffer may have 65,536 bytes; got need=8,388,608 bytes"
    with pytest.raises(OutOfDeviceMemory, match=law):
        clnet.empty(2**21, device=little)
    reserved = little.pool.statistics().reserved
    assert clnet.empty(2**14, device=little).shape == (2**14,)
    assert little.pool.statistics().reserved == reserved + 2**16


def test_a_model_larger_than_a_buffer_trains_to_the_same_bits(little):
    """A plan's memory is spread over several buffers where one may not be as large."""

    def losses(where, *, compiled: bool) -> list[float]:
        with where:
            clnet.manual_seed(4)
            layers = [layer for _ in range(6) for layer in (nn.Linear(100, 100), nn.Tanh())]
            net = nn.Sequential(*layers)
            optimizer = clnet.optim.SGD(net.parameters(), lr=0.1)
            x = clnet.tensor(np.random.default_rng(1).standard_normal((120, 100)).astype("f4"))

            def step(x):
                optimizer.zero_grad()
                loss = (net(x) ** 2).mean()
                loss.backward()
                optimizer.step()
                return loss

            run = clnet.compile(step) if compiled else step
            return [run(x).item() for _ in range(3)]

    for compiled in (False, True):
        expected = losses(clnet.device(), compiled=compiled)
        assert losses(little, compiled=compiled) == expected
    assert little.pool.statistics().peak_allocated > 8 * 2**16
