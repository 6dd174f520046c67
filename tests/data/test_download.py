"""Downloads, from a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from clnet.data import MNIST, mnist
from clnet.data.source import Remote, download
from clnet.errors import DataError

pytest.importorskip("pooch", reason="downloads need pooch, of the extra 'data'")


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path: Path):
    """A folder and the address it is served at."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def mnist_server(served, monkeypatch):
    """MNIST's addresses point to a small copy on this machine; gives its folder."""
    folder, url = served
    images = struct.pack(">HBB3I", 0, 8, 3, 5, 2, 2) + bytes(20)
    labels = struct.pack(">HBBI", 0, 8, 1, 5) + bytes(range(5))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    for path in folder.iterdir():
        remote = Remote(f"{url}/{path.name}", hashlib.md5(path.read_bytes()).hexdigest())
        monkeypatch.setitem(mnist.REMOTES, path.stem, remote)
    return folder


def test_absent_files_are_downloaded_into_the_cache_once(cache, mnist_server):
    data = MNIST(download=True)
    np.testing.assert_array_equal(data.arrays[1], range(5))
    assert len(list((cache / "data" / "mnist").iterdir())) == 2
    for path in mnist_server.iterdir():
        path.unlink()
    assert len(MNIST(download=True)) == len(MNIST()) == 5


def test_given_folder_receives_the_download(tmp_path, cache, mnist_server):
    assert len(MNIST(tmp_path / "mine", download=True)) == 5
    assert len(list((tmp_path / "mine").iterdir())) == 2
    assert not cache.exists()


def test_other_checksum_is_refused_and_leaves_nothing(cache, mnist_server):
    path = mnist_server / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(b"something else"))
    with pytest.raises(DataError, match="the download failed") as caught:
        MNIST(download=True)
    assert "hash" in str(caught.value)
    assert path.name in str(caught.value)
    assert [p for p in (cache / "data").rglob("*") if p.is_file()] == []


def test_file_the_server_lacks_is_named(cache, served):
    remote = Remote(f"{served[1]}/absent.gz", "0" * 32)
    with pytest.raises(DataError, match=r"the download failed; got url=.*absent\.gz.*404"):
        download("MNIST", remote, cache)


def test_server_that_does_not_answer_is_an_error(cache):
    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        port = server.server_port
    with pytest.raises(DataError, match="check the network"):
        download("MNIST", Remote(f"http://127.0.0.1:{port}/a.gz", "0" * 32), cache)


def test_unwritable_cache_is_named(cache, mnist_server):
    cache.write_text("a regular file where the folder should be")
    with pytest.raises(DataError, match="CLNET_CACHE_DIR") as caught:
        MNIST(download=True)
    assert str(cache / "data" / "mnist") in str(caught.value)


def test_missing_pooch_names_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"pip install 'clnet\[data\]'"):
        MNIST(download=True)
