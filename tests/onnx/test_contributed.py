"""Quantised ops of onnxruntime's domain: what their descriptions there say, in NumPy.

Where onnxruntime is installed, its numbers are compared with the same.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

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


def proto_of(op, inputs, settings, dtype=np.uint8, floats=False, opset=17):
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
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
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


NOT_ON_CPUS = {"QLinearReduceMean"}  # of onnxruntime's


def real(value, scale, zero):
    """What numbers stand for."""
    return (value.astype(float) - float(zero)) * float(scale)


def whole(y, scale, zero):
    """Floats as numbers of the zero point's type; what lies between two goes to the even one."""
    info = np.iinfo(zero.dtype)
    found = np.rint(y / float(scale)) + float(zero)
    return np.clip(found, info.min, info.max).astype(zero.dtype)


def softmax(y, axis, opset):
    """Over an axis; before opset 13 over all from there on."""
    of_all = y.reshape(int(np.prod(y.shape[:axis])) if axis % y.ndim else 1, -1)
    powers = np.exp(y - y.max()) if opset >= 13 else np.exp(of_all - of_all.max())
    return (powers / powers.sum(axis if opset >= 13 else 1, keepdims=True)).reshape(y.shape)


def window_means(y, kernel, strides, pads):
    """Means of the elements of windows; what is padded does not count."""
    (kh, kw), (sh, sw), (top, left, bottom, right) = kernel, strides, pads
    wide = np.full((*y.shape[:2], y.shape[2] + top + bottom, y.shape[3] + left + right), np.nan)
    wide[:, :, top : top + y.shape[2], left : left + y.shape[3]] = y
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kh, kw), (2, 3))[:, :, ::sh, ::sw]
    return np.nanmean(windows, (-2, -1))


def dense(a, a_scale, a_zero, w, w_scale, w_zero, bias, *to, alpha=1.0, transA=0, transB=0):  # noqa: N803 - ONNX's
    """``alpha a b + bias``; the bias is in units of the sums, scales of columns are a row."""
    a, w = a.T if transA else a, w.T if transB else w
    sums = (a.astype(int) - int(a_zero)) @ (w.astype(int) - w_zero.astype(int))
    unit = alpha * float(a_scale) * w_scale.astype(float)
    y = unit * sums + (0 if bias is None else unit * bias)
    return whole(y, *to) if to else y


REFERENCES = {
    "QLinearAdd": lambda *v: whole(real(*v[:3]) + real(*v[3:6]), *v[6:]),
    "QLinearMul": lambda *v: whole(real(*v[:3]) * real(*v[3:6]), *v[6:]),
    "QLinearSigmoid": lambda *v: whole(1 / (1 + np.exp(-real(*v[:3]))), *v[3:]),
    "QLinearLeakyRelu": lambda *v, alpha=0.01: whole(
        real(*v[:3]) * np.where(real(*v[:3]) < 0, alpha, 1), *v[3:]
    ),
    "QLinearSoftmax": lambda *v, opset, axis=-1: whole(softmax(real(*v[:3]), axis, opset), *v[3:]),
    "QLinearGlobalAveragePool": lambda *v: whole(real(*v[:3]).mean((2, 3), keepdims=True), *v[3:]),
    "QLinearAveragePool": lambda *v, kernel_shape, strides, pads: whole(
        window_means(real(*v[:3]), kernel_shape, strides, pads), *v[3:]
    ),
    "QLinearReduceMean": lambda *v, axes, keepdims: whole(
        real(*v[:3]).mean(tuple(axes), keepdims=bool(keepdims)), *v[3:]
    ),
    "QLinearConcat": lambda *v, axis: whole(
        np.concatenate([real(*v[i : i + 3]) for i in range(2, len(v), 3)], axis), *v[:2]
    ),
    "QLinearWhere": lambda c, *v: whole(np.where(c, real(*v[:3]), real(*v[3:6])), *v[6:]),
    "QGemm": dense,
}


def require(op, inputs, settings, opset=17):
    """What clnet computes of a node, eagerly and compiled, is what its description says.

    Within one: floats are rounded before they become whole numbers.
    """
    proto = proto_of(op, inputs, settings, opset=opset)
    given = {n: v for n, v, held in inputs if n and not held}
    expected = REFERENCES[op](*(v for _, v, _ in inputs), **settings)
    module = load(proto)
    found = module.numpy(*given.values())[0]
    require_near(found, expected)
    assert len(np.unique(expected)) > 5
    with clnet.no_grad():
        plan = clnet.compile(module)
        again = plan(*(clnet.as_tensor(v) for v in given.values())).numpy()
    np.testing.assert_array_equal(again, found)
    if op not in NOT_ON_CPUS and find_spec("onnxruntime") is not None:
        session = import_module("onnxruntime").InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        require_near(session.run(None, given)[0], expected)


def require_near(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    apart = np.abs(found.astype(int) - expected)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.2


@pytest.mark.parametrize("op", CASES)
def test_numbers_are_as_described(op):
    require(op, *CASES[op])


@pytest.mark.parametrize("opset", [13, 17, 18])
def test_means_over_axes(opset):
    """Which ONNX's own op reads from an input since opset 18."""
    inputs = [*quantised("a", A, 0.05, 130), *target(0.01, 90)]
    require("QLinearReduceMean", inputs, {"axes": [2, 3], "keepdims": 0}, opset)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_is_that_of_the_opset_it_names(axis, opset):
    """Also without an axis, and in a model of another opset."""
    inputs = [*quantised("a", numbers(3, 4, 5), 0.02, 130), *target(0.002, 0)]
    settings = {"opset": opset} | ({} if axis is None else {"axis": axis})
    require("QLinearSoftmax", inputs, settings)


@pytest.mark.parametrize("shape", [None, (), (1,), (1, 7), (5, 7), (5, 1)])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_biases_of_dense_layers_broadcast(shape, alpha):
    bias = ("", None, False)
    if shape is not None:
        bias = ("bias", RNG.integers(-900, 900, shape).astype(np.int32), True)
    inputs = [*quantised("a", ROWS, 0.04, 77), *HELD, bias]
    require("QGemm", [*inputs, *target(0.2, 120)], {"transB": 1, "alpha": alpha})


def test_a_function_of_the_models_own_comes_first():
    """Of the same name as an op of onnxruntime's."""
    inputs, settings = CASES["QLinearSigmoid"]
    proto = proto_of("QLinearSigmoid", inputs, settings)
    names = [n for n, *_ in inputs]
    body = [helper.make_node("Identity", names[:1], ["y"])]
    opsets = [helper.make_opsetid("", 17)]
    own = helper.make_function(MS, "QLinearSigmoid", names, ["y"], body, opsets)
    proto.functions.append(own)
    np.testing.assert_array_equal(load(proto).numpy(A)[0], A)


def test_a_dense_layer_without_a_scale_gives_floats():
    found = load(proto_of("QGemm", GEMM_OF_FLOATS, {}, floats=True)).numpy(ROWS)[0]
    sums = (ROWS.astype(np.int64) - 77) @ WEIGHT.T.astype(np.int64) + BIAS
    np.testing.assert_allclose(found, sums * (0.04 * HELD[1][1].astype(float)), rtol=1e-5)


def test_dense_layers_run_on_integers():
    module = load(proto_of("QGemm", *CASES["QGemm"]))
    assert [s.label.split()[0] for s in module._program.steps] == ["integer"]


def test_what_has_channels_last_is_missing():
    inputs, _ = CASES["QLinearGlobalAveragePool"]
    proto = proto_of("QLinearGlobalAveragePool", inputs, {"channels_last": 1})
    with pytest.raises(OnnxError, match="QLinearGlobalAveragePool"):
        load(proto)
