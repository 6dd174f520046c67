"""Models whose tensors lie in files beside them."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.errors import OnnxError
from clnet.onnx import load
from tests.onnx.graphs import onnx


@pytest.fixture
def outside(tmp_path, perceptron):
    """A model in a folder with its data beside it; and a file that it must not read."""
    folder = tmp_path / "model"
    folder.mkdir()
    model = onnx.ModelProto()
    model.CopyFrom(perceptron[0])  # saving moves the data out of the model
    onnx.save_model(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (tmp_path / "secret.bin").write_bytes(b"\1" * 4096)
    return folder


def moved(folder, location):
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    onnx.save(model, folder / "model.onnx")


def test_external_data_is_read_from_the_folder(outside, perceptron):
    x = np.ones((1, 5), np.float32)
    found = load(outside / "model.onnx").numpy(x)[0]
    assert np.array_equal(found, load(perceptron[0]).numpy(x)[0])


@pytest.mark.parametrize("kind", ["up", "absolute", "link", "empty", "folder"])
def test_external_data_outside_the_folder_is_refused(outside, kind):
    (outside / "link.bin").symlink_to(outside.parent / "secret.bin")
    location = {
        "up": "../secret.bin",
        "absolute": str(outside.parent / "secret.bin"),
        "link": "link.bin",
        "empty": "",
        "folder": ".",
    }[kind]
    moved(outside, location)
    with pytest.raises(OnnxError, match="lies in the model's folder"):
        load(outside / "model.onnx")


def test_external_data_that_is_absent_or_short_is_refused(outside):
    data = outside / "weights.bin"
    data.write_bytes(data.read_bytes()[:10])
    with pytest.raises(OnnxError, match="lies in its file"):
        load(outside / "model.onnx")
    data.unlink()
    with pytest.raises(OnnxError, match="external data is a file"):
        load(outside / "model.onnx")


@pytest.mark.parametrize("length", [{}, {"length": "0"}])
def test_external_data_without_a_length_is_as_long_as_its_tensor(perceptron, tmp_path, length):
    model, weights = perceptron
    (tmp_path / "data").write_bytes(b"1234" + weights["fc.bias"].tobytes() + b"and more")
    bias = model.graph.initializer[1]
    bias.ClearField("raw_data")
    bias.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "data", "offset": "4", **length}.items():
        bias.external_data.add(key=key, value=value)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = load(tmp_path / "m.onnx").fc_bias.detach().numpy()
    np.testing.assert_array_equal(found, weights["fc.bias"])
