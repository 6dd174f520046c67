"""``clnet run``: inputs from files, outputs to a file or to the screen."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.cli import main

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)

A = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
B = np.array([[1, 1, 1]], np.float32)


@pytest.fixture
def folder(tmp_path):
    """A model of two inputs, and files for them."""
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"]), helper.make_node("Shape", ["y"], ["s"])],
        "g",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "ab"],
        [helper.make_tensor_value_info(n, t, None) for n, t in (("y", 1), ("s", 7))],
    )
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "b.npy", B)
    np.savez(tmp_path / "both.npz", a=A, b=B)
    (tmp_path / "labels.txt").write_text("cat\ndog\nfrog\n")
    return tmp_path


@pytest.mark.device
def test_the_best_scores_are_printed_with_labels(folder, capsys):
    inputs = [str(folder / "a.npy"), str(folder / "b.npy")]
    labels = ["--labels", str(folder / "labels.txt"), "--top", "2"]
    assert main(["run", str(folder / "m.onnx"), *inputs, *labels]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "y: float32 (2, 3)"
    assert [line.split() for line in lines[1:5]] == [
        ["0", "4.00000", "cat"],
        ["0", "3.00000", "frog"],
        ["1", "6.00000", "dog"],
        ["1", "5.00000", "frog"],
    ]
    assert lines[5:] == ["s: int64 (2,)", "  2, 3"]


@pytest.mark.device
@pytest.mark.parametrize("way", ["npz", "named"])
def test_outputs_are_written(folder, way):
    named = [f"b={folder / 'b.npy'}", f"a={folder / 'a.npy'}"]
    inputs = [str(folder / "both.npz")] if way == "npz" else named
    assert main(["run", str(folder / "m.onnx"), *inputs, "--output", str(folder / "y.npz")]) == 0
    with np.load(folder / "y.npz") as made:
        assert np.array_equal(made["y"], A + B)
        assert np.array_equal(made["s"], [2, 3])


@pytest.mark.device
@pytest.mark.parametrize(
    ("inputs", "law"),
    [
        (["a.npy"], "a model takes each of its inputs once"),
        (["a.npy", "b.npy", "a.npy"], "the model has no input left"),
        (["labels.txt", "b.npy"], "an input is an array in a file"),
        (["absent.npy"], "an input is an array in a file"),
        (["a=a.npy", "a=b.npy"], "an input is given once; got twice=a"),
        (["b.npy", "both.npz"], "an input is given once; got twice=a"),
        (["both.npz", "--labels", "absent.txt"], "labels are a file of text"),
        (["both.npz", "--output", "absent/y.npz"], "the file can be written"),
        (["both.npz", "--output", "y.npy"], "written to an .npz file, by name; got --output=y.npy"),
    ],
)
def test_what_does_not_fit_is_one_line(folder, monkeypatch, capsys, inputs, law):
    monkeypatch.chdir(folder)
    assert main(["run", "m.onnx", *inputs]) == 1
    captured = capsys.readouterr()
    assert law in captured.err
    assert captured.err.count("\n") == 1
