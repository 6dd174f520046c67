"""Models of ONNX on the command line: planned, profiled, timed; inputs that are drawn."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.bench.onnx_model import _difference
from clnet.bench.onnx_peers import PEERS
from clnet.cli import main
from clnet.errors import ArgumentError
from clnet.onnx.inputs import InputSpec, drawn, read_sizes

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)

FLOAT = np.dtype(np.float32)


@pytest.fixture
def path(tmp_path):
    """A perceptron of batches of any size."""
    file = tmp_path / "m.onnx"
    layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
    clnet.onnx.export(layers, clnet.zeros(2, 64), file, dynamic_axes={"input": {0: "batch"}})
    return file


@pytest.fixture
def pair(tmp_path):
    """A model of two inputs with a free axis in the middle, whole numbers the second."""
    file = tmp_path / "pair.onnx"
    axes = {"x": {1: "length"}, "i": {0: "length"}}
    args = clnet.zeros(2, 3, 4), clnet.zeros(3, dtype=clnet.int64)
    clnet.onnx.export(lambda x, i: x + i.float()[:, None], args, file, dynamic_axes=axes)
    return file


def test_a_model_is_planned(path, capsys):
    assert main(["plan", str(path), "--batch-size", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == 4 * (64 * 32 + 32 + 32 * 3 + 3)
    assert {*found["needs"]} == {"eager", "compiled"}
    assert main(["plan", str(path), "--memory", "10K"]) == 3
    capsys.readouterr()
    assert main(["plan", str(path), "--optimizer", "sgd", "--json"]) == 0
    assert "compiled, recompute" in json.loads(capsys.readouterr().out)["needs"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["resnet14", "--size", "n=3"], "--size is of a model of ONNX"),
        (["{path}", "--input", "3x4"], "--input is of a network"),
        (["{path}", "--size", "3"], "--size is given as NAME=N"),
        (["{pair}"], "Give --size length=N"),
        (["{pair}", "--size", "length=2", "--size", "lenght=3"], "unknown=['lenght']"),
        (["{pair}", "--size", "length=2", "--size", "x:2=5"], "leaves open; got axis=x:2"),
        (["{path}", "--batch-size", "-3"], "plan: --batch-size is 1 or more; got --batch-size=-3"),
    ],
)
def test_plans_that_make_no_sense(options, complaint, path, pair, capsys):
    arguments = [text.format(path=path, pair=pair) for text in options]
    assert main(["plan", *arguments]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.device
def test_what_no_file_gives_is_drawn(path, pair, capsys):
    assert main(["run", str(path), "--draw"]) == 0
    eager = capsys.readouterr().out
    assert main(["run", str(path), "--draw", "--compile", "--repeat", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == eager.splitlines()[0]
    assert main(["run", str(pair), "--draw", "--size", "length=5"]) == 0
    assert "float32 (2, 5, 4)" in capsys.readouterr().out
    assert main(["run", str(path), "--draw", "--repeat", "0"]) == 1
    assert main(["run", str(path), "--draw", "--top", "0"]) == 1


@pytest.mark.device
def test_more_than_the_host_holds_is_one_line(pair, capsys):
    assert main(["run", str(pair), "--draw", "--size", f"length={10**14}"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("clnet: the host's memory does not suffice: Unable to allocate")
    assert said.count("\n") == 1


@pytest.mark.device
def test_a_model_is_timed_and_profiled(path, capsys):
    assert main(["bench", "onnx", str(path), "--seconds", "0.01", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["launches"] >= 2
    assert found["clnet, ms"] > 0
    assert found["host, us a call"] > 0
    assert main(["profile", "run", str(path), "--draw", "--compile"]) == 0
    assert "ImportedModule" in capsys.readouterr().out


@pytest.mark.device
@pytest.mark.parametrize("peer", PEERS)
def test_a_model_is_timed_beside_what_else_runs_it(path, peer, capsys, monkeypatch):
    options = ["bench", "onnx", str(path), "--seconds", "0.01", "--json", "--against", peer]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, peer, None)
        assert main(options) == 1
        assert f"{peer} is not installed" in capsys.readouterr().err
    pytest.importorskip(peer, reason=f"{peer} is not installed")
    assert main(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["difference"] < 1e-5
    ratio = found[f"{peer}, ms"] / found["clnet, ms"]
    assert found[f"clnet over {peer}"] == pytest.approx(ratio)


def test_what_is_beside_a_model_is_known_by_name(path, capsys):
    assert main(["bench", "onnx", str(path), "--against", "onnxruntime,nobody"]) == 1
    assert "it names onnxruntime, openvino or nothing" in capsys.readouterr().err


@pytest.mark.device
def test_a_model_in_8_bits_is_timed_beside_float32(path, capsys):
    assert main(["bench", "onnx", str(path), "--int8", "--seconds", "0.01", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["difference of 8 bits"] < 0.05
    assert found["8 bits over float32"] == pytest.approx(found["clnet, ms"] / found["8 bits, ms"])


def test_what_a_model_says_of_its_inputs(pair):
    model = clnet.onnx.load(pair)
    assert model.input_specs == (
        InputSpec("x", FLOAT, (2, "length", 4)),
        InputSpec("i", np.dtype(np.int64), ("length",)),
    )
    found = drawn(model, {"length": 7})
    assert {n: (a.dtype, a.shape) for n, a in found.items()} == {
        "x": (FLOAT, (2, 7, 4)),
        "i": (np.dtype(np.int64), (7,)),
    }
    assert {*found["i"].tolist()} <= {0, 1}


def test_sizes_of_inputs():
    spec = InputSpec("x", FLOAT, (None, "t", None))
    assert spec.shape({"t": 3, "x:2": 4}, batch=5) == (5, 3, 4)
    assert spec.shape({"t": 3, "x:2": 4, "x:0": 6}) == (6, 3, 4)
    with pytest.raises(ArgumentError, match="--size x:2=N"):
        spec.shape({"t": 3})
    with pytest.raises(ArgumentError, match="tells the axes"):
        InputSpec("x", FLOAT, None).shape({})
    assert read_sizes(["a=3", "x:0=4"]) == {"a": 3, "x:0": 4}
    with pytest.raises(ArgumentError, match="NAME=N"):
        read_sizes(["a=0"])


def test_the_command_imports_what_it_runs_alone():
    """And handlers of ONNX not even where all commands are listed."""
    code = """
import sys
from clnet.cli import main
def loaded(*names):
    return [m for m in sys.modules if m.startswith(tuple(f"clnet.{n}." for n in names))]
main(["devices"])
print("<", loaded("bench", "doctor", "onnx", "train"), ">")
try:
    main(["--help"])
except SystemExit:
    print("<", loaded("bench.gemm", "bench.zoo", "onnx"), ">", "clnet.cli.run" in sys.modules)
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.count("< [] >") == 2, made.stdout
    assert made.stdout.endswith("True\n")


@pytest.mark.device
def test_inputs_and_outputs_have_any_name(tmp_path, capsys):
    file, example, out = tmp_path / "named.onnx", tmp_path / "x.npy", tmp_path / "y.npz"
    x = np.ones((2, 3), np.float32)
    np.save(example, x)
    names = {"input_names": ["self"], "output_names": ["file"]}
    layer = clnet.nn.ReLU()
    clnet.onnx.export(layer, (clnet.tensor(x),), str(file), **names)
    for how in ([], ["--compile"]):
        assert main(["run", str(file), str(example), "--output", str(out), *how]) == 0
        assert (np.load(out)["file"] == x).all()


def test_outputs_differ_where_one_alone_is_nan():
    nan, inf = float("nan"), float("inf")
    cases = [([1, 2], [1, 2], 0), ([1, nan], [1, 2], inf), ([nan, 1], [nan, 2], 0.5)]
    cases.append(([1], [1, 1], inf))
    cases += [([1, inf], [2, inf], 0.5), ([1, inf], [1, 2], inf), ([1, 2], [1, -inf], inf)]
    cases += [([1, inf], [1, -inf], inf), ([nan], [nan], 0)]
    for found, wanted, expected in cases:
        assert _difference(np.array(found), np.array(wanted)) == expected
