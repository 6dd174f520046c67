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


def test_what_is_read_is_there_whatever_wrote_it_last(device, seen):
    """By a long kernel, an upload, a copy, and a plan's replay; as numbers of every kind."""
    x = fresh(3_333_333)
    y = (x.sin().cos() * 0 + x)[3_333_330:].clone()
    assert y.tolist() == [3_333_330, 3_333_331, 3_333_332]
    y.array.write(np.array([7, 8, 9], np.float32))
    assert y.tolist() == [7, 8, 9]
    z = clnet.empty(3)
    device.queue.copy(z.array.storage, y.array.storage, 12)
    assert z.tolist() == [7, 8, 9]
    step = clnet.compile(lambda x: (x.sin().cos() * 0 + x + 1, x.sum()))
    for _ in range(3):
        found, _ = step(x)
        assert found[-1].item() == 3_333_333
    for dtype in (clnet.bool, clnet.uint8, clnet.int64, clnet.bfloat16, clnet.float64):
        assert z.to(dtype).tolist() == ([True] * 3 if dtype is clnet.bool else [7, 8, 9])
    assert z.reshape(3, 1).expand(3, 2).numpy().tolist() == [[7, 7], [8, 8], [9, 9]]


def test_who_reads_once_maps_and_then_only_looks(device, seen, monkeypatch):
    x = fresh(444_444)
    assert clnet.ones(1).item() == 1  # the driver is tried
    maps, begin = [], device.queue.map

    def counted(*args, **kwargs):
        maps.append(args)
        return begin(*args, **kwargs)

    monkeypatch.setattr(device.queue, "map", counted)
    for turn in range(3):
        assert x.numpy()[-1] == 444_443 + turn
        x += 1
    assert len(maps) == 1
    watch = Watch()
    with device.queue.observe(watch):
        assert x.numpy()[0] == 3
    assert [record.kind for record in watch.records] == ["download"]


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
