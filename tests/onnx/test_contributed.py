"""Quantised ops of onnxruntime's domain: what onnxruntime computes of them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import OnnxError
from clnet.onnx import load

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)
helper = onnx.helper

pytestmark = pytest.mark.device
RNG = np.random.default_rng(11)
F, U = np.float32, np.uint8
MS = "com.microsoft"


def numbers(*shape, dtype=np.uint8):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def proto_of(op, inputs, settings, dtype=np.uint8, floats=False):
    """A model of one node; of its inputs ``(name, value, constant)`` some are the model's."""
    kind = helper.np_dtype_to_tensor_dtype
    node = helper.make_node(op, [n for n, *_ in inputs], ["y"], domain=MS, **settings)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(n, kind(v.dtype), v.shape)
            for n, v, held in inputs
            if n and not held
        ],
        [helper.make_tensor_value_info("y", 1 if floats else kind(np.dtype(dtype)), None)],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v, held in inputs if held],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def quantised(name, value, scale, zero, dtype=np.uint8):
    """A number with its scale and zero point."""
    return [
        (name, value, False),
        (f"{name}s", np.array(scale, F), True),
        (f"{name}z", np.array(zero, dtype), True),
    ]


def target(scale, zero, dtype=np.uint8):
    return [("ys", np.array(scale, F), True), ("yz", np.array(zero, dtype), True)]


A, B = numbers(2, 6, 5, 4), numbers(2, 6, 5, 4)
ROWS = numbers(5, 12)
WEIGHT, BIAS = numbers(7, 12, dtype=np.int8), RNG.integers(-900, 900, 7).astype(np.int32)
HELD = [
    ("w", WEIGHT, True),
    ("ws", (RNG.random(7) * 0.01 + 0.001).astype(F), True),
    ("wz", np.zeros(7, np.int8), True),
]
TURNED = [("w", np.ascontiguousarray(WEIGHT.T), True), *HELD[1:]]
CASES = {
    "QLinearAdd": (
        [*quantised("a", A, 0.03, 9), *quantised("b", B, 0.05, 101), *target(0.07, 50)],
        {},
    ),
    "QLinearMul": (
        [*quantised("a", A, 0.03, 9), *quantised("b", numbers(2, 6, 1, 1), 0.05, 101),
         *target(0.2, 50)],
        {},
    ),
    "QLinearSigmoid": ([*quantised("a", A, 0.05, 130), *target(0.004, 0)], {}),
    "QLinearLeakyRelu": ([*quantised("a", A, 0.05, 130), *target(0.03, 90)], {"alpha": 0.2}),
    "QLinearSoftmax": (
        [*quantised("a", ROWS, 0.05, 130), *target(0.004, 0)],
        {"axis": -1, "opset": 13},
    ),
    "QLinearGlobalAveragePool": ([*quantised("a", A, 0.05, 130), *target(0.01, 90)], {}),
    "QLinearAveragePool": (
        [*quantised("a", A, 0.05, 130), *target(0.04, 90)],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]},
    ),
    "QLinearConcat": (
        [*target(0.05, 60), *quantised("a", A, 0.03, 9), *quantised("b", B, 0.05, 101)],
        {"axis": 1},
    ),
    "QLinearWhere": (
        [("c", RNG.random((2, 6, 5, 4)) < 0.5, False), *quantised("a", A, 0.03, 9),
         *quantised("b", B, 0.05, 101), *target(0.05, 60)],
        {},
    ),
    "QGemm": (
        [*quantised("a", ROWS, 0.04, 77), *HELD, ("bias", BIAS, True), *target(0.2, 120)],
        {"transB": 1},
    ),
}  # fmt: skip
GEMM_OF_FLOATS = [*quantised("a", ROWS, 0.04, 77), *TURNED, ("bias", BIAS, True)]


@pytest.mark.parametrize("op", CASES)
def test_numbers_are_onnxruntimes(op):
    """Within one: it sums some in another order, and multiplies by reciprocals."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    inputs, settings = CASES[op]
    proto = proto_of(op, inputs, settings)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {n: v for n, v, held in inputs if not held}
    (expected,) = session.run(None, given)
    module = load(proto)
    found = module.numpy(*given.values())[0]
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    apart = np.abs(found.astype(int) - expected)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.2
    assert len(np.unique(expected)) > 9
    with clnet.no_grad():
        plan = clnet.compile(module)
        again = plan(*(clnet.as_tensor(v) for v in given.values())).numpy()
    np.testing.assert_array_equal(again, found)


def test_a_dense_layer_without_a_scale_gives_floats():
    found = load(proto_of("QGemm", GEMM_OF_FLOATS, {}, floats=True)).numpy(ROWS)[0]
    sums = (ROWS.astype(np.int64) - 77) @ WEIGHT.T.astype(np.int64) + BIAS
    np.testing.assert_allclose(found, sums * (0.04 * HELD[1][1].astype(float)), rtol=1e-5)


def test_dense_layers_run_on_integers():
    module = load(proto_of("QGemm", *CASES["QGemm"]))
    assert [s.label.split()[0] for s in module._program.steps] == ["integer"]


def test_means_over_axes():
    """Of what onnxruntime's processor has no kernel for."""
    inputs = [*quantised("a", A, 0.05, 130), *target(0.01, 90)]
    module = load(proto_of("QLinearReduceMean", inputs, {"axes": [2, 3], "keepdims": 0}))
    found = module.numpy(A)[0]
    means = (0.05 * (A.astype(float) - 130)).mean((2, 3))
    expected = np.clip(np.round(means / 0.01) + 90, 0, 255)
    assert found.dtype == np.uint8
    assert found.shape == (2, 6)
    assert np.abs(found - expected).max() <= 1
    assert len(np.unique(expected)) > 5


def test_what_has_channels_last_is_missing():
    inputs, _ = CASES["QLinearGlobalAveragePool"]
    proto = proto_of("QLinearGlobalAveragePool", inputs, {"channels_last": 1})
    with pytest.raises(OnnxError, match="QLinearGlobalAveragePool"):
        load(proto)
