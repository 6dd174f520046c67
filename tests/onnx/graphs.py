"""Models of a few nodes, for tests."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)
helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT = onnx.TensorProto.FLOAT


def made(nodes, inputs, outputs, weights=(), opset=20, functions=(), domains=()):
    """A model; inputs and outputs are names with shapes, weights arrays by name."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in dict(weights).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def node(op, inputs, outputs, **settings):
    return helper.make_node(op, inputs.split(), outputs.split(), **settings)


def perceptron():
    """A dense layer and a ReLU, and its weights."""
    draw = np.random.default_rng(0)
    weights = {
        "fc.weight": draw.normal(size=(3, 5)).astype(np.float32),
        "fc.bias": draw.normal(size=3).astype(np.float32),
    }
    nodes = [node("Gemm", "x fc.weight fc.bias", "h", transB=1), node("Relu", "h", "y")]
    return made(nodes, [("x", ["n", 5])], ["y"], weights), weights
