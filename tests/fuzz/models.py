"""A small model with everything that a reader must mistrust, for the fuzzer of files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from clnet.onnx import load


def make_onnx(folder: Path, rng: random.Random) -> None:
    """Write a model with external data, a loop, a function of its own, and shapes it computes."""
    import onnx  # noqa: PLC0415 - optional
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    draw = np.random.default_rng(rng.randrange(2**32))
    node, info = helper.make_node, helper.make_tensor_value_info
    scale = helper.make_function(
        "own", "Scale", ["v"], ["w"], [node("Constant", [], ["c"], value_float=0.5),
        node("Mul", ["v", "c"], ["w"])], [helper.make_opsetid("", 20)],
    )  # fmt: skip
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["h", "h"], ["more"])],
        "body",
        [info("i", 7, []), info("go", 9, []), info("h", 1, None)],
        [info("on", 9, []), info("more", 1, None)],
    )
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Shape", ["c"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "minus"], ["shape"], axis=0),
        node("Reshape", ["c", "shape"], ["flat"]),
        node("MatMul", ["flat", "m"], ["p"]),
        node("Scale", ["p"], ["q"], domain="own"),
        node("Loop", ["three", "", "q"], ["r"], body=body),
        node("Softmax", ["r"], ["y"], axis=1),
    ]
    weights: dict[str, Any] = {
        "w": draw.standard_normal((2, 1, 3, 3)).astype(np.float32),
        "m": draw.standard_normal((32, 3)).astype(np.float32),
        "zero": np.array([0]),
        "minus": np.array([-1]),
        "three": np.array(3),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, ["n", 1, 4, 4])],
        [info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[scale])
    onnx.save_model(
        model, folder / "a", save_as_external_data=True, location="b", size_threshold=100
    )


def read_onnx(folder: Path) -> dict[str, Any]:
    """The parameters of a model by name; what it computes is not asked for."""
    module = load(folder / "a")
    return {name: p.detach().numpy() for name, p in module.named_parameters()}
