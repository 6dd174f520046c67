"""Buffers that the host looks at where they lie."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.device import in_place
from tests.device.test_queue import Watch

pytestmark = pytest.mark.device


@pytest.fixture
def seen(device, monkeypatch):
    """Maps of the device's queue, counted; it has not tried yet where buffers lie."""
    look = in_place.InPlace(device.queue._device, device.queue._watch)
    if look._believed is False:
        pytest.skip("this driver shares no memory of fine grain")
    monkeypatch.setattr(device.queue, "in_place", look)
    found, begin_map = [], device.queue.begin_map

    def counted(*args, **kwargs):
        found.append(args)
        return begin_map(*args, **kwargs)

    monkeypatch.setattr(device.queue, "begin_map", counted)
    return found


def fresh(n: int) -> clnet.Tensor:
    """In a buffer that nobody has looked at: of a size of its own."""
    clnet.empty_cache()
    return clnet.arange(n).float()


@pytest.mark.parametrize("stands", [True, False])
def test_a_buffer_is_mapped_once_and_then_looked_at_where_it_lies(device, seen, stands):
    x = fresh(777_777)
    for turn in range(4):
        part = x[turn : turn + 1000].array
        visit = part.visit(read=True, write=True, stands=stands)
        host = visit.wait()
        assert host[0] == turn
        host += 5
        visit.end()
        x -= 5  # of a kernel behind it, and before the next
    wanted = np.arange(777_777) - 20
    for turn in range(4):
        wanted[turn : turn + 1000] += 5
    assert (x.numpy() == wanted).all()
    assert len(seen) == 1


def test_who_observes_sees_a_map(device, seen):
    x = fresh(888_888)
    for _ in range(2):
        with x.array.on_host(read=True, write=False) as host:
            assert host[-1] == 888_887
    watch = Watch()
    with device.queue.observe(watch), x.array.on_host(read=True, write=True) as host:
        host[0] = 3
    assert [record.kind for record in watch.records] == ["map"]
    assert x[0].item() == 3


def test_a_driver_that_copies_is_mapped_each_time(device, seen, monkeypatch):
    """As one that shows the host a copy: what commands write is not there by itself."""
    place = np.zeros(in_place._TRIED_BYTES, np.uint8)
    monkeypatch.setattr(in_place, "_bytes_at", lambda _, nbytes: place[:nbytes])
    x = fresh(999_999)
    for turn in range(3):
        visit = x.array.visit(read=True, write=True, stands=True)
        visit.wait()[:] += 1
        visit.end()
        assert x[0].item() == turn + 1
    assert len(seen) == 3
