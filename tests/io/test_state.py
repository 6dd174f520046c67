"""Safetensors files: what is saved comes back, and what is damaged is refused."""

from __future__ import annotations

import json
import os
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from safetensors.numpy import load_file, save_file

from clnet.errors import CheckpointError
from clnet.io import load_state, save_state, state

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def example() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "weight": rng.standard_normal((7, 5)).astype(np.float32),
        "half": rng.standard_normal(33).astype(ml_dtypes.bfloat16),
        "steps": np.array(12345678901, np.int64),
        "none": np.zeros((0, 3), np.float32),
    }


def assert_same(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(actual) == set(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].shape == array.shape
        assert actual[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16], ids=str)
def test_each_dtype_returns_bit_for_bit(tmp_path, dtype):
    bits = np.random.default_rng(1).integers(0, 256, (3, 4, 8), np.uint8)
    array = (bits > 127) if dtype == "bool" else bits.view(dtype)
    save_state(tmp_path / "a", {"x": array})
    assert_same(load_state(tmp_path / "a").arrays, {"x": array})


def test_complex_numbers_of_doubles_return(tmp_path):
    """safetensors has no such dtype."""
    saved = {"a": np.array([[1.5 - 2j], [3j]]), "b": np.array(1 + 1j), "c": np.zeros((0, 2), "c16")}
    saved["d"] = np.ones(2, np.float32)
    save_state(tmp_path / "x", saved, metadata={"k": "v"})
    loaded = load_state(tmp_path / "x")
    assert_same(loaded.arrays, saved)
    assert loaded.metadata == {"k": "v"}


def test_metadata_and_several_arrays_return(tmp_path):
    save_state(tmp_path / "a", example(), metadata={"epoch": "3", "näme": "ünïcode \n \0"})
    arrays, metadata = load_state(tmp_path / "a")
    assert_same(arrays, example())
    assert metadata == {"epoch": "3", "näme": "ünïcode \n \0"}


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-2, 1::3],
        lambda x: np.broadcast_to(x[0], (4, *x.shape[1:])),
        lambda x: np.asfortranarray(x),
        lambda x: x.astype(">f4"),
    ],
    ids=["transposed", "strided", "broadcast", "fortran", "big-endian"],
)
def test_layout_on_the_host_does_not_matter(tmp_path, view):
    array = view(np.arange(60, dtype=np.float32).reshape(6, 10))
    save_state(tmp_path / "a", {"x": array})
    loaded = load_state(tmp_path / "a").arrays["x"]
    assert loaded.dtype == np.float32
    np.testing.assert_array_equal(loaded, array)


def test_loaded_arrays_are_writable_and_independent_of_the_file(tmp_path):
    save_state(tmp_path / "a", example())
    arrays = load_state(tmp_path / "a").arrays
    (tmp_path / "a").write_bytes(b"gone")
    assert_same(arrays, example())
    arrays["weight"][:] = 1
    assert (arrays["weight"] == 1).all()


def test_files_are_exchanged_with_safetensors(tmp_path):
    arrays = {name: array for name, array in example().items() if name != "half"}
    save_state(tmp_path / "ours", arrays)
    assert_same(load_file(tmp_path / "ours"), arrays)
    save_file(arrays, tmp_path / "theirs", metadata={"format": "pt"})
    loaded, metadata = load_state(tmp_path / "theirs")
    assert_same(loaded, arrays)
    assert metadata == {"format": "pt"}


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "a"
    save_state(path, example(), metadata={"epoch": "3"})
    whole = path.read_bytes()
    for length in [*range(64), *range(64, len(whole), 13), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="not a whole safetensors file") as caught:
            load_state(path)
        assert str(path) in str(caught.value)
        assert caught.value.values["bytes"] == length


def test_every_flipped_byte_is_refused(tmp_path):
    path = tmp_path / "a"
    save_state(path, {"x": np.arange(50, dtype=np.int16)}, metadata={"epoch": "3"})
    whole = path.read_bytes()
    name = whole.index(b"clnet.crc32")  # without its name the checksum is another's metadata
    for i in set(range(len(whole))) - set(range(name, name + len("clnet.crc32"))):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x11]) + whole[i + 1 :])
        with pytest.raises(CheckpointError):
            load_state(path)


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 a zip file, as torch.save writes",
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 4) + b"[1,]",
        b"\x93NUMPY\x01\x00v\x00",
    ],
    ids=["zip", "huge header", "bad json", "npy"],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        load_state(tmp_path / "a")


def test_dtype_numpy_cannot_hold_is_refused(tmp_path):
    header = {"x": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}}
    text = json.dumps(header).encode()
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(text)) + text + b"\0\0")
    with pytest.raises(CheckpointError, match=r"a: "):
        load_state(tmp_path / "a")


def test_missing_file_and_folder_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_state(tmp_path / "absent")
    with pytest.raises(CheckpointError):
        load_state(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "metadata", "law"),
    [
        ({"x": np.array(["text"])}, {}, "cannot store"),
        ({"x": np.array([object()])}, {}, "cannot store"),
        ({"x": [1.0, 2.0]}, {}, "holds NumPy arrays"),
        ({"__metadata__": np.zeros(2)}, {}, "reserves this name"),
        ({"\ud800": np.zeros(2)}, {}, "cannot store"),
        ({"x": np.zeros(2)}, {"epoch": 3}, "cannot store"),
        ({"x": np.zeros(2)}, {"clnet.crc32": "0"}, "reserved"),
    ],
    ids=["text", "object", "list", "reserved", "surrogate", "number", "checksum"],
)
def test_what_cannot_be_stored_leaves_the_old_file(tmp_path, arrays, metadata, law):
    path = tmp_path / "a"
    save_state(path, example())
    with pytest.raises(CheckpointError, match=law):
        save_state(path, arrays, metadata=metadata)
    assert_same(load_state(path).arrays, example())
    assert os.listdir(tmp_path) == ["a"]


def test_failure_before_the_rename_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    save_state(path, example())

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        save_state(path, {"x": np.zeros(3)})
    assert_same(load_state(path).arrays, example())
    assert os.listdir(tmp_path) == ["a"]


def test_interruption_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    save_state(path, example())

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_state(path, {"x": np.zeros(3)})
    assert_same(load_state(path).arrays, example())
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("place", ["absent/a", "file/a"], ids=["absent folder", "below a file"])
def test_unwritable_folder_is_named(tmp_path, place):
    (tmp_path / "file").write_text("a regular file")
    with pytest.raises(CheckpointError, match="cannot be written") as caught:
        save_state(tmp_path / place, example())
    assert str((tmp_path / place).parent) in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_file_gets_the_usual_permissions(tmp_path):
    save_state(tmp_path / "a", example())
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_damaged_name_does_not_switch_the_checksum_off(tmp_path):
    path = tmp_path / "a.safetensors"
    save_state(path, {"w": np.arange(6.0)}, metadata={"note": "as it was"})
    whole = path.read_bytes()
    start = whole.index(b'"clnet.crc32"')
    for at in range(start + 1, start + len(b"clnet.crc32") + 1):
        for bit in range(8):
            changed = bytes([whole[at] ^ 1 << bit])
            path.write_bytes(whole[:at] + changed + whole[at + 1 :])
            with pytest.raises(CheckpointError):
                load_state(path)


def test_a_checksum_of_earlier_versions_is_compared(tmp_path):
    path = tmp_path / "a.safetensors"
    arrays = {"w": np.arange(6.0)}
    for crc, right in ((state._checksum(arrays, {}), True), ("00000000", False)):
        path.write_bytes(safetensors.numpy.save(arrays, {"clnet.crc32": crc}))
        if right:
            np.testing.assert_array_equal(load_state(path).arrays["w"], arrays["w"])
        else:
            with pytest.raises(CheckpointError, match="the checksum differs"):
                load_state(path)
