"""Stores that processes share."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from clnet import distributed as dist
from clnet.errors import DistributedError


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def stores(request, tmp_path):
    """Two ways to one store."""
    if request.param == "file":
        return [dist.FileStore(str(tmp_path / "store"), 2) for _ in range(2)]
    if request.param == "tcp":
        first = dist.TCPStore("127.0.0.1", 0, is_master=True)
        return [first, dist.TCPStore("127.0.0.1", first.port, timeout=timedelta(seconds=5))]
    one = dist.HashStore()
    return [one, one] if request.param == "hash" else [dist.PrefixStore("a", one)] * 2


def test_what_one_process_says_another_finds(stores):
    one, other = stores
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(other.get, "name")  # until there is one
        one.set("name", "value")
        assert waits.result() == b"value"
    assert [one.add("count", 2), other.add("count", 3)] == [2, 5]
    assert other.get("count") == b"5"
    assert one.compare_set("name", "other", "new") == b"value"
    assert other.compare_set("name", "value", b"\xff\n") == one.get("name") == b"\xff\n"
    one.append("name", "more")
    assert other.get("name") == b"\xff\nmore"
    assert one.check(["name", "count"])
    assert not one.check(["name", "none"])
    assert other.num_keys() == 2
    assert one.delete_key("count")
    assert not other.delete_key("count")
    one.multi_set(["x", "y"], ["1", "2"])
    assert other.multi_get(["x", "y"]) == [b"1", b"2"]
    with pytest.raises(DistributedError, match=r"added to is a number; got key=\S*x, value=1a"):
        other.add(other.append("x", "a") or "x", 1)
    assert other.get("x") == b"1a"
    with pytest.raises(DistributedError, match="names have values in time"):
        other.wait(["none"], timedelta(seconds=0.05))


def test_nobody_waits_for_ever():
    short = timedelta(seconds=0.2)
    with pytest.raises(DistributedError, match="all processes come in time; got came=1"):
        dist.TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=short)
    first = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(DistributedError, match="the port is free"):
        dist.TCPStore("127.0.0.1", first.port, is_master=True)
    with pytest.raises(DistributedError, match="a process answers in time"):
        dist.TCPStore("127.0.0.1", 1, timeout=short)


KILLED = """
import os, signal, sys
from clnet import distributed as dist
store, written = dist.FileStore(sys.argv[1]), int(sys.argv[2])
store.set("before", "x")
def torn(fd, *given):
    file = opened(fd, *given)
    class Torn:
        def __getattr__(self, name):
            return getattr(file, name)
        def __enter__(self):
            return self
        def __exit__(self, *given):
            file.close()
        def write(self, raw):
            file.write(raw[:written])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    return Torn()
opened, os.fdopen = os.fdopen, torn
store.set("torn", "y" * 100)
"""


@pytest.mark.parametrize("written", [0, 3, 11, 40])
def test_a_file_is_whole_when_a_process_is_killed_while_it_writes(tmp_path, written):
    path = str(tmp_path / "store")
    other = dist.FileStore(path)
    done = subprocess.run([sys.executable, "-c", KILLED, path, str(written)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert other.check(["before"])
    assert not other.check(["torn"])
    assert [other.add("count", 2), dist.FileStore(path).add("count", 3)] == [2, 5]
    assert dist.FileStore(path).num_keys() == other.num_keys() == 2


def test_a_file_of_others_is_left_alone(tmp_path):
    path = tmp_path / "notes"
    path.write_text('{"before": "x"}')
    with pytest.raises(DistributedError, match="the file is empty, absent, or a store's"):
        dist.FileStore(str(path)).set("name", "value")
    assert path.read_text() == '{"before": "x"}'
    path.unlink()
    store = dist.FileStore(str(path))
    store.set("name", "value")
    path.unlink()  # a store of another job
    assert not store.check(["name"])
