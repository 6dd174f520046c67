"""Quantised ops of onnxruntime's domain: what their descriptions there say, in NumPy.

Where onnxruntime is installed, its numbers are compared with the same.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import clnet
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


@pytest.mark.parametrize("op", ["QLinearGlobalAveragePool", "QLinearConv", "NhwcMaxPool"])
def test_channels_that_come_last(op):
    """As onnxruntime lays out quantised images: the same numbers as with channels first."""
    last = np.ascontiguousarray(np.moveaxis(A, 1, -1))
    inputs, settings = quantised("a", A, 0.05, 130), {"channels_last": 1}
    more = target(0.02, 90)
    if op == "QLinearConv":
        w = numbers(4, 6, 1, 1, dtype=np.int8)
        held = [("w", w, True), ("ws", np.array(0.01, F), True), ("wz", np.int8(0), True)]
        sums = np.einsum("ochw,bcij->boij", w.astype(int), A.astype(int) - 130)
        wanted = whole(sums * (0.05 * 0.01), 0.02, np.uint8(90))
        more = [*held, *more]
    elif op == "NhwcMaxPool":
        inputs, more, settings = inputs[:1], [], {"kernel_shape": [5, 4]}
        wanted = A.max((2, 3), keepdims=True)
    else:
        wanted = whole(real(A, 0.05, 130).mean((2, 3), keepdims=True), 0.02, np.uint8(90))
    proto = proto_of(op, [("a", last, False), *inputs[1:], *more], settings)
    require_near(load(proto).numpy(last)[0], np.moveaxis(wanted, 1, -1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_numbers_of_both_domains_are_quantised_alike(dtype):
    """onnxruntime's quantiser writes its own domain for 16 bits, and where it is asked to."""
    x = (RNG.normal(size=(3, 4)) * 60).astype(F)
    scale, zero = np.array([0.02, 0.3, 0.1, 1.5], F), np.array([3, 60, 0, 100], dtype)
    held = [("s", scale, True), ("z", zero, True)]
    found = load(proto_of("QuantizeLinear", [("x", x, False), *held], {"axis": 1})).numpy(x)[0]
    wanted = whole(x / scale.astype(float), 1, np.zeros((), np.int64)) + zero.astype(int)
    info = np.iinfo(dtype)
    np.testing.assert_array_equal(found, np.clip(wanted, info.min, info.max).astype(dtype))
    proto = proto_of("DequantizeLinear", [("q", found, False), *held], {"axis": 1}, floats=True)
    again = load(proto).numpy(found)[0]
    np.testing.assert_allclose(again, real(found, 1, 0) * scale - zero * scale, rtol=1e-5)


FLOATS = RNG.normal(size=(2, 3, 12)).astype(F)


def require_floats(op, x, held, wanted, tolerance=1e-4, **settings):
    """The result of one node, also onnxruntime's."""
    given = [("x", x, False), *((n or "", v, bool(n)) for n, v in held)]
    proto = proto_of(op, given, settings, floats=True)
    found = load(proto).numpy(x)[0]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    if find_spec("onnxruntime") is not None:
        session = import_module("onnxruntime").InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        peer = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(found, peer, rtol=tolerance, atol=tolerance * np.abs(peer).max())


def test_products_of_numbers_give_floats():
    bias, scales = RNG.normal(size=7).astype(F), HELD[1][1]
    weight = WEIGHT.T.astype(float) * scales
    a = numbers(5, 12)
    held = [("w", WEIGHT.T.copy()), ("as", np.array(0.03, F)), ("ws", scales)]
    held += [("az", np.uint8(99)), (None, None), ("b", bias)]
    require_floats("MatMulIntegerToFloat", a, held, real(a, 0.03, 99) @ weight + bias)
    low, high = min(FLOATS.min(), 0), max(FLOATS.max(), 0)
    step = (high - low) / F(255)
    zero = np.rint(-low / step)
    seen = (np.clip(np.rint(FLOATS / step) + zero, 0, 255) - zero) * step
    held = [("w", WEIGHT.T.copy()), ("ws", scales), (None, None), ("b", bias)]
    require_floats("DynamicQuantizeMatMul", FLOATS, held, seen @ weight + bias)


def in_bits(x, bits):
    """Numbers along the last axis packed into bytes, the lowest first."""
    each = 8 // bits
    parts = x.reshape(*x.shape[:-1], -1, each).astype(np.uint8)
    return sum(parts[..., i] << np.uint8(bits * i) for i in range(each)).astype(np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_weights_of_a_few_bits(bits, zeros):
    """In blocks of 16 of which the last is not whole."""
    whole_ = RNG.integers(0, 2**bits, (5, 3, 16))
    scale = (RNG.random((5, 3)) * 0.1).astype(F)
    zero = RNG.integers(0, 2**bits, (5, 4)) if zeros else np.full((5, 4), 2 ** (bits - 1))
    weight = ((whole_ - zero[:, :3, None]) * scale[..., None]).reshape(5, 48)[:, :40]
    x = RNG.normal(size=(2, 40)).astype(F)
    held = [("w", in_bits(whole_, bits)), ("s", scale)]
    if zeros:
        packed = in_bits(zero, bits)
        held.append(("z", packed[:, : -(-3 * bits // 8)].copy()))
    settings = {"K": 40, "N": 5, "bits": bits, "block_size": 16}
    require_floats("MatMulNBits", x, held, x @ weight.T, **settings)


def test_weights_that_are_shares_of_their_block():
    codes = RNG.integers(0, 16, (4, 32))
    table = load(proto_of("MatMulBnb4", [
        ("x", np.eye(32, dtype=F), False),
        ("w", (codes[:, ::2] << 4 | codes[:, 1::2]).astype(np.uint8).reshape(-1), True),
        ("a", np.array([1, 2, 3, 4], F), True),
    ], {"K": 32, "N": 4, "block_size": 32, "quant_type": 1}, floats=True))  # fmt: skip
    found = table.numpy(np.eye(32, dtype=F))[0].T / np.array([[1], [2], [3], [4]])
    kinds = [np.unique(found[codes == i].round(6)) for i in range(16)]
    assert all(len(k) == 1 for k in kinds)  # one value of each code, in order, from -1 to 1
    values = np.concatenate(kinds)
    assert (values[0], values[7], values[15]) == (-1, 0, 1)
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (1, 1)])
def test_slices_of_a_table_of_4_bits(axes):
    gathered, along = axes
    whole_ = RNG.integers(-8, 8, (32, 32))
    shape = [32, 32]
    shape[along] = 2
    scale = RNG.normal(size=shape).astype(F)
    floats = whole_ * np.repeat(scale, 16, along)
    places = np.array([[1, 3], [30, 5]])
    int4 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    inputs = [("t", whole_.astype(int4), True), ("i", places, False), ("s", scale, True)]
    settings = {"gather_axis": gathered, "quantize_axis": along, "block_size": 16}
    proto = proto_of("GatherBlockQuantized", inputs, settings, floats=True, opset=21)
    wanted = np.take(floats, places, gathered)
    np.testing.assert_allclose(load(proto).numpy(places)[0], wanted, rtol=1e-6)


def test_an_lstm_of_8_bits_is_near_one_of_floats():
    x = RNG.normal(size=(3, 2, 5)).astype(F)
    w, r = numbers(1, 5, 16, dtype=np.int8), numbers(1, 4, 16, dtype=np.int8)
    scale, zero = np.array([0.004], F), np.array([0], np.int8)
    turned = [(m.astype(F) * scale).transpose(0, 2, 1) for m in (w, r)]
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
    floats = proto_of("LSTM", [("x", x, False)], {}, floats=True)
    floats.graph.node[0].CopyFrom(node)
    floats.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.ascontiguousarray(m), n)
        for m, n in zip(turned, "wr", strict=True)
    )
    wanted = load(floats).numpy(x)[0]
    held = [("w", w), ("r", r), *[(None, None)] * 5]
    held += [("ws", scale), ("wz", zero), ("rs", scale), ("rz", zero)]
    require_floats("DynamicQuantizeLSTM", x, held, wanted, tolerance=0.02, hidden_size=4)
