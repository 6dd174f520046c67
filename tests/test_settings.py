"""What the environment may say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clnet.errors import ArgumentError
from clnet.values.cache import private_folder
from clnet.values.settings import Settings, parse_bytes


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1073741824", 2**30),
        ("512M", 512 * 2**20),
        ("8G", 8 * 2**30),
        ("1.5k", 1536),
        ("2 GiB", 2 * 2**30),
        ("3MB", 3 * 2**20),
        ("1T", 2**40),
        ("0", 0),
    ],
)
def test_bytes_have_units(text, nbytes):
    assert parse_bytes(text, "CLNET_MEMORY_LIMIT") == nbytes


@pytest.mark.parametrize("text", ["", "much", "8X", "G", "-1", "-8G", "inf", "nan", "1e400"])
def test_other_texts_are_refused(text):
    with pytest.raises(ArgumentError) as raised:
        parse_bytes(text, "CLNET_MEMORY_LIMIT")
    assert str(raised.value) == (
        f"CLNET_MEMORY_LIMIT: is a number of bytes; got value={text!r}. Write it as 512M or 8G"
    )


@given(st.integers(0, 2**50))
def test_whole_numbers_of_bytes_are_exact(nbytes):
    assert parse_bytes(str(nbytes), "X") == nbytes


def test_an_empty_environment_gives_defaults():
    settings = Settings.read({})
    assert settings.device is settings.threads is settings.memory_limit is settings.data_dir is None
    assert settings.build_processes is None
    assert settings.cache_dir.name == "clnet"


def test_every_variable_is_read():
    settings = Settings.read(
        {
            "CLNET_DEVICE": "pocl:1",
            "CLNET_THREADS": "2",
            "CLNET_SIMD_WIDTH": "8",
            "CLNET_MEMORY_LIMIT": "1G",
            "CLNET_WORKSPACE_LIMIT": "64M",
            "CLNET_BUILD_PROCESSES": "0",
            "CLNET_CACHE_DIR": "/cache",
            "CLNET_DATA": "/data",
            "CLNET_TUNINGS": "/tunings",
            "CLNET_TUNE": "1",
            "CLNET_POISON": "1",
            "CLNET_DEBUG": "1",
            "POCL_CACHE_DIR": "/pocl",
        }
    )
    folders = (Path("/cache"), Path("/data"), Path("/tunings"))
    asked = {"tune": True, "poison": True, "debug": True, "pocl_cache": Path("/pocl")}
    assert settings == Settings("pocl:1", 2, 8, 2**30, 2**26, 0, *folders, **asked)


def test_nothing_is_tuned_unless_asked():
    assert not Settings.read({}).tune
    assert not Settings.read({"CLNET_TUNE": "0"}).tune
    with pytest.raises(ArgumentError, match="CLNET_TUNE: is 0 or 1; got value='yes'"):
        Settings.read({"CLNET_TUNE": "yes"})


def test_logs_are_known_by_name():
    assert Settings.read({}).log == ()
    assert Settings.read({"CLNET_LOG": "conv, conv"}).log == ("conv", "conv")
    with pytest.raises(ArgumentError, match="CLNET_LOG: is of conv"):
        Settings.read({"CLNET_LOG": "gemm"})


def test_who_adds_up_is_one_of_two():
    assert Settings.read({}).sums is None
    assert Settings.read({"CLNET_SUMS": "device"}).sums == "device"
    with pytest.raises(ArgumentError, match="CLNET_SUMS: is host or device; got value='gpu'"):
        Settings.read({"CLNET_SUMS": "gpu"})


def test_what_launchers_say_is_taken_as_it_comes():
    mine = Settings.read({"MPI_LOCALRANKID": "0", "WORLD_SIZE": "4"})
    assert (mine.rank_here, mine.torchrun_ranks) == (0, 4)
    mine = Settings.read({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "WORLD_SIZE": "many"})
    assert (mine.rank_here, mine.torchrun_ranks) == (3, 1)
    assert Settings.read({}).rank_here is None


def test_debug_mode_is_off_unless_asked():
    assert not Settings.read({}).debug
    with pytest.raises(ArgumentError, match="CLNET_DEBUG: is 0 or 1; got value='on'"):
        Settings.read({"CLNET_DEBUG": "on"})


def test_an_empty_variable_counts_as_absent():
    assert Settings.read({"CLNET_DEVICE": "", "CLNET_THREADS": ""}) == Settings.read({})


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_threads_is_a_whole_number(text):
    with pytest.raises(
        ArgumentError, match=f"^CLNET_THREADS: is a whole number, 1 or more; got value={text!r}$"
    ):
        Settings.read({"CLNET_THREADS": text})


def test_build_processes_is_a_whole_number():
    law = "CLNET_BUILD_PROCESSES: is a whole number, 0 or more"
    with pytest.raises(ArgumentError, match=f"^{law}; got value='-1'$"):
        Settings.read({"CLNET_BUILD_PROCESSES": "-1"})


def test_a_width_is_one_that_vectors_have():
    assert Settings.read({"CLNET_SIMD_WIDTH": "4"}).simd_width == 4
    with pytest.raises(ArgumentError, match="CLNET_SIMD_WIDTH: is 1, 2, 4, 8 or 16; got value='3'"):
        Settings.read({"CLNET_SIMD_WIDTH": "3"})


def test_folders_do_not_change_with_the_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings.read({"CLNET_CACHE_DIR": "here", "CLNET_DATA": "~/data"})
    assert settings.cache_dir == tmp_path / "here"
    assert settings.data_dir == tmp_path / "data"
    with pytest.raises(ArgumentError, match="CLNET_DATA: there is no such home folder"):
        Settings.read({"CLNET_DATA": "~nobody-of-this-name/data"})


def test_a_user_without_a_home_has_a_private_folder(monkeypatch):
    monkeypatch.setattr(
        "clnet.values.settings.user_cache_path", lambda name: Path("~/.cache") / name
    )
    with pytest.warns(RuntimeWarning, match="^CLNET_CACHE_DIR: there is no home folder; .* is us"):
        settings = Settings.read({})
    assert settings.cache_dir == private_folder() / "clnet"
