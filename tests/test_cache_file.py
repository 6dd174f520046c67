"""A cache exported to a file and imported elsewhere; files that must be refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from clnet.cli import main
from clnet.errors import DataError
from clnet.values.cache import shelf
from clnet.values.cache_file import pack, unpack

OURS, OTHERS, TEXTS = (f"kernels/{'0' * 16}", f"kernels/{'1' * 16}", f"templates/{'2' * 16}")
FOLDERS = {OURS: "our driver", OTHERS: "their driver", TEXTS: "texts"}
PROGRAM = """
import clnet
print((clnet.ones(3) + 1).tolist(), clnet.device().programs.statistics.built)
"""


@pytest.fixture
def filled(tmp_path):
    """A cache with some kept files, and a file that it was exported to."""
    root = tmp_path / "filled"
    for folder in FOLDERS:
        for key in ("a", "b"):
            shelf(root, *folder.split("/")).write(key, f"{folder} {key}".encode() * 100)
    path = tmp_path / "cache.zip"
    assert pack(path, root, FOLDERS).files == 6
    return path


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def refused(path: Path, root: Path, text: str) -> None:
    before = contents(root)
    with pytest.raises(DataError, match=text) as found:
        unpack(path, root, {OURS, TEXTS})
    assert "\n" not in str(found.value)
    assert contents(root) == before


def test_what_is_of_use_is_imported_and_what_is_there_stays(filled, tmp_path):
    root = tmp_path / "new"
    ours = shelf(root, *OURS.split("/"))
    ours.write("a", b"made meanwhile")
    packed = unpack(filled, root, {OURS, TEXTS})
    assert packed[:2] == (3, 1)
    assert ours.read("a") == b"made meanwhile"
    assert ours.read("b") == f"{OURS} b".encode() * 100
    assert shelf(root, *TEXTS.split("/")).read("a") == f"{TEXTS} a".encode() * 100
    assert not (root / OTHERS).exists()
    assert unpack(filled, root, {OURS, TEXTS})[:2] == (0, 4)


def test_a_damaged_file_of_the_cache_is_not_exported_and_is_replaced(filled, tmp_path):
    root = tmp_path / "filled"
    (damaged, _) = sorted((root / OURS).iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert pack(tmp_path / "again.zip", root, FOLDERS).files == 5
    assert unpack(filled, root, {OURS})[:2] == (1, 1)


def test_another_devices_file_is_refused(filled, tmp_path):
    with pytest.raises(DataError, match=r"other devices or drivers.*our driver; their driver"):
        unpack(filled, tmp_path / "new", {f"kernels/{'3' * 16}", TEXTS})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(filled, tmp_path, share):
    whole = filled.read_bytes()
    filled.write_bytes(whole[: int(share * len(whole))])
    refused(filled, tmp_path / "filled", "no whole cache file|no manifest|missing")


def test_no_bit_that_is_changed_passes(filled, tmp_path):
    """Of the archive's own bookkeeping some bits mean nothing; what is imported is as it was."""
    whole, expected = filled.read_bytes(), contents(tmp_path / "filled")
    refusals = 0
    for at in range(0, len(whole), 7):
        filled.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        root = tmp_path / f"new {at}"
        try:
            unpack(filled, root, FOLDERS)
        except DataError:
            refusals += 1
            assert not root.exists()
        else:
            assert contents(root) == expected
    assert refusals > len(whole) // 7 / 2


def test_files_that_others_can_write_or_own_are_refused(filled, tmp_path):
    filled.chmod(0o666)
    refused(filled, tmp_path / "filled", "may be written by everybody")
    filled.chmod(0o600)
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(filled, 12345, -1)
    if os.stat(filled).st_uid != 12345:
        pytest.skip("the file system keeps no owners")
    refused(filled, tmp_path / "filled", "belongs to user 12345")


@pytest.mark.parametrize("name", ["../outside", "/absolute", f"{OURS}/../../x", "kernels/x/y"])
def test_no_path_but_a_kept_files_is_written(filled, tmp_path, name):
    with zipfile.ZipFile(filled, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": 1, "folders": FOLDERS, "files": 1}))
        archive.writestr(name, b"x")
    refused(filled, tmp_path / "filled", "no file of a cache")


def test_what_is_no_cache_file_is_refused(filled, tmp_path):
    refused(tmp_path / "absent.zip", tmp_path / "filled", "cannot be read")
    with zipfile.ZipFile(filled, "w") as archive:
        archive.writestr("readme", b"x")
    refused(filled, tmp_path / "filled", "no manifest")
    with zipfile.ZipFile(filled, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": 2, "folders": {}, "files": 0}))
    refused(filled, tmp_path / "filled", "another version")


def test_nothing_kept_is_told(tmp_path):
    with pytest.raises(DataError, match=r"nothing is kept here yet. Run a program first"):
        pack(tmp_path / "cache.zip", tmp_path / "empty", FOLDERS)
    assert not (tmp_path / "cache.zip").exists()


def test_a_start_with_an_imported_cache_compiles_nothing(tmp_path):
    path = tmp_path / "cache.zip"

    def run(cache: str, *command: str) -> str:
        folders = {
            "CLNET_CACHE_DIR": f"{tmp_path / cache}",
            "POCL_CACHE_DIR": f"{tmp_path / cache}",
        }
        environment = {**os.environ, **folders, "CLNET_POISON": "0"}
        return subprocess.run(
            [sys.executable, *command], env=environment, check=True, capture_output=True, text=True
        ).stdout

    assert run("first", "-c", PROGRAM).split("]")[1].strip() != "0"
    assert "files" in run("first", "-m", "clnet", "cache", "export", str(path))
    run("second", "-m", "clnet", "cache", "import", str(path))
    assert run("second", "-c", PROGRAM) == "[2.0, 2.0, 2.0] 0\n"
    assert "kernels/" in run("second", "-m", "clnet", "cache", "show")


def test_the_command_line_tells_an_error_in_a_line(tmp_path, capsys):
    assert main(["cache", "import", str(tmp_path / "absent.zip")]) == 1
    assert capsys.readouterr().err.startswith("clnet: ")
