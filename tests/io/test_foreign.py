"""Weights of llama.cpp, MXNet and Caffe: files written by the formats' letter, read again."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import clnet
from clnet.errors import CheckpointError, MissingFileError
from clnet.io import load_caffe, load_gguf, load_mxnet

from .foreign_files import caffemodel, field, gguf, mxnet_params, q8_0

RNG = np.random.default_rng(0)
ARRAYS = {
    "arg:fc.weight": RNG.standard_normal((3, 4)).astype(np.float32),
    "aux:bn.mean": RNG.standard_normal(4),
    "half": np.ones((2, 1), np.float16),
    "bytes": np.arange(5, dtype=np.uint8),
    "whole": np.arange(6, dtype=np.int64).reshape(2, 3),
}


def written(folder, content, name="a"):
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("version", [2, 3])
def test_gguf(version, tmp_path):
    meant = {}
    found = load_gguf(written(tmp_path, gguf(RNG, meant, version)))
    assert list(found.arrays) == list(meant)
    for name, array in meant.items():
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].flags.writeable
        np.testing.assert_array_equal(found.arrays[name].astype(array.dtype), array)
    assert found.arrays["bf16"].dtype == clnet.bfloat16.numpy
    assert found.metadata == {
        "general.architecture": "llama",
        "general.alignment": 64,
        "llama.block_count": 2,
        "llama.eps": 0.5,
        "flag": True,
        "tokens": ["a", "é", ""],
        "scores": [-1, 2, 3],
        "nested": [[1, 2], []],
    }


def test_gguf_of_empty_tensors_ends_where_they_are_listed(tmp_path):
    def listed(*tensors):
        content = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
        for name, sizes in tensors:
            content += struct.pack("<Q", len(name)) + name.encode()
            content += struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, 0)
        return written(tmp_path, content)

    found = load_gguf(listed(("a", (0,)), ("b", (3, 0))))
    assert {name: array.shape for name, array in found.arrays.items()} == {"a": (0,), "b": (0, 3)}
    with pytest.raises(CheckpointError, match="the file ends before what it announces"):
        load_gguf(listed(("a", (0,)), ("b", (3,))))


def test_blocks_are_near_what_was_written():
    values = RNG.standard_normal((2, 64)).astype(np.float32)
    np.testing.assert_allclose(q8_0(values)[1], values, atol=0.03)  # the writer, not the reader


@pytest.mark.parametrize("magic", [0, 0xF993FAC8, 0xF993FAC9, 0xF993FACA])
def test_mxnet(magic, tmp_path):
    found = load_mxnet(written(tmp_path, mxnet_params(ARRAYS, magic)))
    wanted = {name.split(":")[-1]: array for name, array in ARRAYS.items()}
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_mxnet_without_names_and_without_arrays(tmp_path):
    found = load_mxnet(written(tmp_path, mxnet_params({"": np.array(3.0)}, named=False)))
    assert found["0"].shape == (0,)  # no axes were no array before version 3
    one = {"": np.array(True)}
    found = load_mxnet(written(tmp_path, mxnet_params(one, 0xF993FACA, named=False)))
    assert found["0"].shape == ()
    assert found["0"].dtype == bool


def test_mxnet_refuses_sparse_arrays(tmp_path):
    content = bytearray(mxnet_params(ARRAYS))
    content[28] = 1
    with pytest.raises(CheckpointError, match=r"sparse arrays are not read.*storage=1"):
        load_mxnet(written(tmp_path, bytes(content)))


@pytest.mark.parametrize("old", [False, True])
def test_caffe(old, tmp_path):
    weight = RNG.standard_normal((2, 3, 1, 5)).astype(np.float32)
    bias = RNG.standard_normal(2)
    layers = {
        "conv1": ("Convolution", [weight, bias]),
        "relu": ("ReLU", []),
        "scale": ("Scale", [weight[:, 0, 0, 0]]),
    }
    found = load_caffe(written(tmp_path, caffemodel(layers, old=old)))
    assert sorted(found) == ["conv1.bias", "conv1.weight", "scale.weight"]
    np.testing.assert_array_equal(found["conv1.weight"], weight)
    np.testing.assert_array_equal(found["conv1.bias"].reshape(-1), bias)
    assert found["conv1.bias"].shape == ((1, 1, 1, 2) if old else (2,))


def test_caffe_divides_statistics_by_their_factor(tmp_path):
    mean, variance = np.float32([1, 2]), np.float32([4, 6])
    layers = {"bn": ("BatchNorm", [mean, variance, np.float32([2])])}
    found = load_caffe(written(tmp_path, caffemodel(layers)))
    np.testing.assert_array_equal(found["bn.running_mean"], mean / 2)
    np.testing.assert_array_equal(found["bn.running_var"], variance / 2)


def test_caffe_reads_numbers_one_by_one(tmp_path):
    one = struct.pack("<Bf", 5 << 3 | 5, 1.5)  # as writers do that do not pack
    blob = field(7, field(1, 2)) + one + one
    layer = field(1, b"a") + field(7, blob)
    found = load_caffe(written(tmp_path, field(100, layer)))
    np.testing.assert_array_equal(found["a.weight"], [1.5, 1.5])


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        ("model.gguf", gguf(np.random.default_rng(1)), "f32"),
        ("model.params", mxnet_params(ARRAYS), "fc.weight"),
        ("net.caffemodel", caffemodel({"fc": ("InnerProduct", [np.eye(2)])}), "fc.weight"),
    ],
)
def test_load_gives_tensors_by_name(name, content, key, tmp_path):
    found = clnet.load(written(tmp_path, content, name))
    assert isinstance(found[key], clnet.Tensor)


def test_weights_go_into_a_model_by_name(tmp_path):
    layer = clnet.nn.Linear(4, 3)
    state = {"arg:weight": ARRAYS["arg:fc.weight"], "arg:bias": np.float32([1, 2, 3])}
    layer.load_state_dict(clnet.load(written(tmp_path, mxnet_params(state))))
    np.testing.assert_array_equal(layer.weight.detach().numpy(), ARRAYS["arg:fc.weight"])


@pytest.mark.parametrize("read", [load_gguf, load_mxnet, load_caffe])
def test_what_is_no_such_file(read, tmp_path):
    with pytest.raises(MissingFileError):
        read(tmp_path / "nowhere")
    for content in (b"", b"G", b"\x00" * 40, b"GGUF\x00\x00\x00\x03" + bytes(16)):
        with pytest.raises(CheckpointError):
            read(written(tmp_path, content))
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError):
        read(tmp_path / "folder")


@pytest.mark.parametrize("read", [load_gguf, load_mxnet, load_caffe])
def test_sizes_beside_a_zero_that_no_array_has(read, tmp_path):
    sizes = (0, 2**40, 2**40)
    content = {
        load_gguf: b"GGUF"
        + struct.pack("<IQQQ1sI3QIQ", 3, 1, 0, 1, b"w", 3, *sizes, 0, 0)
        + bytes(64),
        load_mxnet: struct.pack("<QQQIiI3qiii", 0x112, 0, 1, 0xF993FAC9, 0, 3, *sizes, 1, 0, 0)
        + bytes(8),
        load_caffe: field(
            100, field(7, field(7, b"".join(field(1, n) for n in sizes)) + field(5, b""))
        ),
    }[read]
    with pytest.raises(CheckpointError, match="no array has these sizes"):
        read(written(tmp_path, content))


def test_tensors_that_lie_in_one_another_are_refused(tmp_path):
    head = b"GGUF" + struct.pack("<IQQ", 3, 8, 0)
    infos = b"".join(struct.pack("<Q1sIQIQ", 1, bytes([97 + i]), 1, 100, 0, 0) for i in range(8))
    content = head + infos
    content += bytes(-len(content) % 32 + 400)
    with pytest.raises(CheckpointError, match="lie in one another"):
        load_gguf(written(tmp_path, content))


def test_a_type_that_is_not_read_is_named(tmp_path):
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    content += struct.pack("<Q1sIQIQ", 1, b"w", 1, 256, 12, 0) + bytes(400)
    with pytest.raises(CheckpointError, match=r"not this tensor's type.*'w'.*type=12"):
        load_gguf(written(tmp_path, content))


@pytest.mark.filterwarnings("error")
def test_scales_may_be_any_numbers(tmp_path):
    two = np.array([0, 2], np.float32)
    tiny = np.array([1e-45], np.float32)
    network = caffemodel({"bn": ("BatchNorm", [two, two, tiny])})
    found = load_caffe(written(tmp_path, network))
    assert found["bn.running_mean"].tolist() == [0, np.inf]
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    head += struct.pack("<Q1sIQIQ", 1, b"a", 1, 32, 8, 0)  # 32 numbers of Q8_0
    block = np.array([np.inf], np.float16).tobytes() + bytes([0, 1] * 16)
    found = load_gguf(written(tmp_path, head + bytes(-len(head) % 32) + block)).arrays["a"]
    assert np.isnan(found[0])
    assert found[1] == np.inf
