"""Quantised nodes on the integer kernels: bit for bit what NumPy makes of ONNX's definitions."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ClnetError
from clnet.onnx import load, reading

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)
helper = onnx.helper

pytestmark = pytest.mark.device
RNG = np.random.default_rng(7)
F = np.float32


def model(nodes, inputs, outputs, constants):
    """A module of nodes ``(op, inputs, output, settings)``, of inputs by name and type."""
    made = [helper.make_node(op, i.split(), o.split(), **s) for op, i, o, s in nodes]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info(n, t, None) for n, t in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def lowered(module):
    """Ops of the steps, in order; those of the integer kernels with a star."""
    labels = [step.label.split() for step in module._program.steps]
    return ["*" + parts[1] if parts[0] == "integer" else parts[0] for parts in labels]


def sums_of(x, w, *, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1):
    """A convolution of integers, (n, oc, oh, ow) int64; ``x`` without its zero point."""
    top, left, bottom, right = pads
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, _, height, width = x.shape
    oc, icg, kh, kw = w.shape
    (sh, sw), (dh, dw) = strides, dilations
    oh, ow = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    y = np.zeros((n, oc, oh, ow), np.int64)
    for o in range(oc):
        first = o // (oc // group) * icg
        for r in range(kh):
            for s in range(kw):
                seen = x[:, first : first + icg, r * dh :: sh, s * dw :: sw][:, :, :oh, :ow]
                y[:, o] += np.einsum("nchw,c->nhw", seen, w[o, :, r, s].astype(np.int64))
    return y


def stored(y, zero, dtype):
    """Floats in units of the scale, rounded, with the zero point, within the type's range."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(y) + int(zero), info.min, info.max).astype(dtype)


def spread(v, axes=3):
    return np.asarray(v).reshape(-1, *[1] * (axes - 1))


CASES = {
    "pointwise": ((2, 7, 5, 6), (9, 7, 1, 1), {}),
    "windows": ((1, 5, 7, 9), (17, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "uneven": ((2, 8, 9, 7), (6, 8, 3, 2), {"pads": [0, 1, 2, 0], "strides": [2, 1]}),
    "dilated": ((1, 4, 9, 9), (4, 4, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "groups": ((1, 10, 6, 5), (8, 5, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    "depthwise": ((2, 21, 8, 11), (21, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 21}),
    "uneven depthwise": (
        (2, 12, 9, 23),
        (12, 1, 5, 4),
        {"pads": [1, 2, 3, 0], "strides": [2, 3], "dilations": [1, 2], "group": 12},
    ),
}


def drawn(case, dtype=np.uint8, filters=np.int8):
    """Numbers of a case: x, its zero point, filters, scales, bias."""
    shape, of_w, settings = CASES[case]
    info, of_filters = np.iinfo(dtype), np.iinfo(filters)
    x = RNG.integers(info.min, info.max + 1, shape).astype(dtype)
    w = RNG.integers(of_filters.min, of_filters.max + 1, of_w).astype(filters)
    scales = (RNG.random(len(w)) * 0.01 + 0.001).astype(F)
    bias = RNG.integers(-3000, 3000, len(w)).astype(np.int32)
    return x, dtype(info.min + 117), w, scales, bias, settings


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("case", CASES)
def test_qlinear_conv(case, dtype):
    """Scales of each channel; with and without a bias; alone and as one call of a plan."""
    x, zero, w, scales, bias, settings = drawn(case, dtype)
    x_scale, y_scale, y_zero = F(0.031), F(0.1), dtype(np.iinfo(dtype).min + 101)
    for with_bias in (False, True):
        names = "x xs xz w ws wz ys yz" + (" b" if with_bias else "")
        constants = {"xs": x_scale, "xz": zero, "w": w, "ws": scales, "ys": y_scale, "yz": y_zero}
        constants |= {"wz": np.zeros(len(w), np.int8), "b": bias}
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        module = model([("QLinearConv", names, "y", settings)], {"x": kind}, {"y": kind}, constants)
        assert lowered(module) == ["*QLinearConv"]
        sums = sums_of(x.astype(np.int64) - int(zero), w, **settings)
        sums = (sums + spread(bias) * with_bias).astype(np.int32)
        factor = spread(x_scale * scales / y_scale)
        expected = stored(sums.astype(F) * factor, y_zero, dtype)
        assert len(np.unique(expected)) > 50
        np.testing.assert_array_equal(module.numpy(x)[0], expected)
        with clnet.no_grad():
            plan = clnet.compile(module)
            np.testing.assert_array_equal(plan(clnet.as_tensor(x)).numpy(), expected)


def test_unlowered_qlinear_conv_gives_the_same(monkeypatch):
    """The handler that other filters come to rounds as the kernels do."""
    x, zero, w, scales, bias, settings = drawn("windows")
    constants = {"xs": F(0.03), "xz": zero, "w": w, "ws": scales, "wz": np.int8(0), "b": bias}
    constants |= {"ys": F(1.3), "yz": np.uint8(77)}
    nodes = [("QLinearConv", "x xs xz w ws wz ys yz b", "y", settings)]
    made = model(nodes, {"x": 2}, {"y": 2}, constants).numpy(x)[0]
    monkeypatch.setattr(reading, "lower_integers", lambda program: None)
    plain = model(nodes, {"x": 2}, {"y": 2}, constants)
    assert lowered(plain) == ["QLinearConv"]
    np.testing.assert_array_equal(plain.numpy(x)[0], made)


def test_filters_of_uint8_around_128_are_lowered_and_others_computed():
    x, zero, w, scales, _, settings = drawn("windows", filters=np.uint8)
    constants = {"xs": F(0.03), "xz": zero, "w": w, "ws": scales, "ys": F(2), "yz": np.uint8(9)}
    for point, label in ((128, "*QLinearConv"), (120, "QLinearConv")):
        constants["wz"] = np.full(len(w), point, np.uint8)
        nodes = [("QLinearConv", "x xs xz w ws wz ys yz", "y", settings)]
        module = model(nodes, {"x": 2}, {"y": 2}, constants)
        assert lowered(module) == [label]
        sums = sums_of(x.astype(np.int64) - int(zero), w.astype(np.int64) - point, **settings)
        expected = stored(sums.astype(F) * spread(F(0.03) * scales / F(2)), 9, np.uint8)
        np.testing.assert_array_equal(module.numpy(x)[0], expected)


def test_zero_points_of_filters_that_are_given_at_a_call_count():
    """int8 filters whose zero point no constant says are not taken for filters around 0."""
    x, zero, w, scales, bias, settings = drawn("windows")
    point = np.full(len(w), 3, np.int8)
    constants = {"xs": F(0.03), "xz": zero, "w": w, "ws": scales, "b": bias}
    constants |= {"ys": F(2), "yz": np.uint8(77)}
    nodes = [("QLinearConv", "x xs xz w ws wz ys yz b", "y", settings)]
    module = model(nodes, {"x": 2, "wz": 3}, {"y": 2}, constants)
    sums = sums_of(x.astype(np.int64) - int(zero), w.astype(np.int64) - 3, **settings)
    factor = spread(F(0.03) * scales / F(2))
    expected = stored((sums + spread(bias)).astype(F) * factor, 77, np.uint8)
    np.testing.assert_array_equal(module.numpy(x, point)[0], expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("case", CASES)
def test_conv_integer(case, dtype):
    x, zero, w, _, _, settings = drawn(case, dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [("ConvInteger", "x w xz", "y", settings)]
    module = model(nodes, {"x": kind}, {"y": 6}, {"w": w, "xz": zero})
    assert lowered(module) == ["*ConvInteger"]
    expected = sums_of(x.astype(np.int64) - int(zero), w, **settings)
    np.testing.assert_array_equal(module.numpy(x)[0], expected.astype(np.int32))


@pytest.mark.parametrize("shape", [(5, 19), (2, 3, 8), (1, 2, 3, 21)])
def test_products_of_integers(shape):
    """MatMulInteger and QLinearMatMul, of scales of each column."""
    k, n = shape[-1], 13
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    w = RNG.integers(-128, 128, (k, n)).astype(np.int8)
    sums = (x.astype(np.int64) - 31) @ w.astype(np.int64)
    module = model(
        [("MatMulInteger", "x w xz", "y", {})], {"x": 2}, {"y": 6}, {"w": w, "xz": np.uint8(31)}
    )
    assert lowered(module) == ["*MatMulInteger"]
    np.testing.assert_array_equal(module.numpy(x)[0], sums)
    scales = (RNG.random(n) * 0.01).astype(F)
    constants = {"xs": F(0.5), "xz": np.uint8(31), "w": w, "ws": scales, "ys": F(0.9)}
    constants |= {"wz": np.zeros(n, np.int8), "yz": np.uint8(120)}
    nodes = [("QLinearMatMul", "x xs xz w ws wz ys yz", "y", {})]
    module = model(nodes, {"x": 2}, {"y": 2}, constants)
    assert lowered(module) == ["*QLinearMatMul"]
    expected = stored(sums.astype(F) * (F(0.5) * scales / F(0.9)), 120, np.uint8)
    np.testing.assert_array_equal(module.numpy(x)[0], expected)


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger", "depthwise"])
def test_zero_points_that_are_computed_stay_on_the_device(op):
    """Dynamic quantisation; what is padded is the zero point, too."""
    settings = {}
    if op == "MatMulInteger":
        x, w = RNG.normal(size=(4, 9)), RNG.integers(-128, 128, (9, 5))
    else:
        groups = 6 if op == "depthwise" else 1
        x, w = RNG.normal(size=(2, 6, 7, 5)), RNG.integers(-128, 128, (6, 6 // groups, 3, 3))
        settings = {"pads": [1, 1, 1, 1], "strides": [2, 1], "group": groups}
        op = "ConvInteger"
    x, w = (x - 0.7).astype(F), w.astype(np.int8)
    nodes = [("DynamicQuantizeLinear", "x", "q s z", {}), (op, "q w z", "y", settings)]
    module = model(nodes, {"x": 1}, {"y": 6, "q": 2, "s": 1, "z": 2}, {"w": w})
    assert lowered(module) == ["DynamicQuantizeLinear", f"*{op}"]
    y, q, s, z = module.numpy(x)
    low, high = min(x.min(), 0), max(x.max(), 0)
    assert s == F(high - low) / F(255)
    assert z == np.rint(-low / s)
    assert 0 < z < 255
    np.testing.assert_array_equal(q, stored(x / s, z, np.uint8))
    seen = q.astype(np.int64) - int(z)
    made = sums_of(seen, w, **settings) if settings else seen @ w.astype(np.int64)
    np.testing.assert_array_equal(y, made)
    with clnet.no_grad():
        plan = clnet.compile(module)
        np.testing.assert_array_equal(plan(clnet.as_tensor(x))[0].numpy(), made)


def test_the_range_of_no_elements_is_that_of_0():
    nodes = [("DynamicQuantizeLinear", "x", "q s z", {}), ("MatMulInteger", "q w z", "y", {})]
    w = np.ones((9, 5), np.int8)
    module = model(nodes, {"x": 1}, {"y": 6, "s": 1, "z": 2}, {"w": w})
    y, s, z = module.numpy(np.zeros((0, 9), F))
    assert y.shape == (0, 5)
    assert [s, z] == module.numpy(np.zeros((1, 9), F))[1:]


# Between QuantizeLinear and DequantizeLinear.


def around(name, *, dtype=np.uint8, scale, zero):
    """Nodes and constants that quantise a tensor, which is then ``name_f``."""
    numbers = {f"{name}_s": F(scale), f"{name}_z": dtype(zero)}
    return [
        ("QuantizeLinear", f"{name} {name}_s {name}_z", f"{name}_q", {}),
        ("DequantizeLinear", f"{name}_q {name}_s {name}_z", f"{name}_f", {}),
    ], numbers


def filters_of(name, w, scales, bias=None, *, given=None, axis=0):
    """Nodes and constants of filters as floats, and of a bias in units of the sums."""
    zeros = np.zeros(len(scales), np.int8)
    constants = {f"{name}_w": w, f"{name}_ws": scales, f"{name}_wz": zeros}
    nodes = [("DequantizeLinear", f"{name}_w {name}_ws {name}_wz", f"{name}_wf", {"axis": axis})]
    if bias is not None:
        constants |= {f"{name}_b": bias, f"{name}_bs": F(given) * scales}
        nodes += [("DequantizeLinear", f"{name}_b {name}_bs", f"{name}_bf", {"axis": 0})]
    return nodes, constants


@pytest.mark.parametrize("bounds", ["none", "Relu", "Clip"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("case", CASES)
def test_a_convolution_between_numbers(case, dtype, bounds):
    """As QLinearConv, with a ReLU or ReLU6 before what is stored."""
    x, zero, w, scales, bias, settings = drawn(case, dtype)
    low = np.iinfo(dtype).min
    before, some = around("x", dtype=dtype, scale=0.03, zero=zero)
    held, more = filters_of("l", w, scales, bias, given=0.03)
    after, rest = around("y", dtype=dtype, scale=0.5, zero=low + 60)
    nodes = [*before, *held, ("Conv", "x_f l_wf l_bf", "c", settings)]
    constants = {**some, **more, **rest, "low": F(0), "high": F(6)}
    middle = {"none": ("Identity", "c"), "Relu": ("Relu", "c"), "Clip": ("Clip", "c low high")}
    if bounds == "none":
        nodes[-1] = ("Conv", "x_f l_wf l_bf", "y", settings)
    else:
        nodes.append((*middle[bounds], "y", {}))
    module = model([*nodes, *after], {"x": 1}, {"y_f": 1}, constants)
    assert lowered(module) == ["*QuantizeLinear", "*Conv", "*DequantizeLinear"]
    floats = (x.astype(F) - int(zero)) * F(0.03)
    sums = (sums_of(x.astype(np.int64) - int(zero), w, **settings) + spread(bias)).astype(np.int32)
    numbers = stored(sums.astype(F) * spread(F(0.03) * scales / F(0.5)), low + 60, dtype)
    least = {"none": low}.get(bounds, low + 60)
    most = low + 72 if bounds == "Clip" else np.iinfo(dtype).max
    expected = (np.clip(numbers, least, most).astype(F) - (low + 60)) * F(0.5)
    np.testing.assert_array_equal(module.numpy(floats)[0], expected)


@pytest.mark.parametrize("quantised", [False, True])
def test_a_sum_behind_a_convolution_is_computed_with_it(quantised):
    """What is added is numbers, or floats of another convolution."""
    x, zero, w, scales, bias, settings = drawn("windows")
    w2 = RNG.integers(-128, 128, w.shape).astype(np.int8)
    before, some = around("x", scale=0.03, zero=zero)
    parts = [filters_of("l", w, scales, bias, given=0.03), filters_of("m", w2, scales)]
    after, rest = around("y", scale=0.5, zero=10)
    nodes = [*before, *parts[0][0], *parts[1][0]]
    nodes += [("Conv", "x_f m_wf", "m", settings), ("Conv", "x_f l_wf l_bf", "c", settings)]
    constants = {**some, **parts[0][1], **parts[1][1], **rest}
    other = "m"
    if quantised:
        between, numbers = around("m", scale=0.7, zero=99)
        nodes, constants, other = [*nodes, *between], {**constants, **numbers}, "m_f"
    nodes += [("Add", f"{other} c", "a", {}), ("Relu", "a", "y", {}), *after]
    module = model(nodes, {"x": 1}, {"y_q": 2}, constants)
    assert lowered(module) == ["*QuantizeLinear", "*Conv", "*Conv"]
    plain = x.astype(np.int64) - int(zero)
    first = (sums_of(plain, w, **settings) + spread(bias)).astype(np.int32)
    second = sums_of(plain, w2, **settings).astype(np.int32)
    if quantised:
        numbers = stored(second.astype(F) * spread(F(0.03) * scales / F(0.7)), 99, np.uint8)
        added = (numbers.astype(F) - 99) * (F(0.7) / F(0.5))
        value = first.astype(F) * spread(F(0.03) * scales / F(0.5)) + added
    else:  # the first of the two convolutions adds the other's floats
        floats = first.astype(F) * spread(F(0.03) * scales)
        value = second.astype(F) * spread(F(0.03) * scales / F(0.5)) + floats / F(0.5)
    expected = np.maximum(stored(value, 10, np.uint8), 10)
    # (A factor of 2 is exact, so that the product with it is the quotient.)
    found = module.numpy((plain * F(0.03)).astype(F))[0]
    np.testing.assert_array_equal(found, expected)


def test_what_is_added_may_have_another_shape():
    """As a bias, an excitation of channels, an image for all of a batch."""
    x, zero, w, scales, _, settings = drawn("pointwise")
    before, some = around("x", scale=0.03, zero=zero)
    shift, numbers = around("m", scale=0.1, zero=128)
    held, more = filters_of("l", w, scales)
    after, rest = around("y", scale=0.5, zero=100)
    nodes = [*before, *shift, *held, ("Conv", "x_f l_wf", "c", settings)]
    nodes += [("Add", "c m_f", "y", {}), *after]
    module = model(nodes, {"x": 1, "m": 1}, {"y_q": 2}, {**some, **numbers, **more, **rest})
    m = RNG.normal(size=(1, len(w), 1, 1)).astype(F)
    plain = x.astype(np.int64) - int(zero)
    sums = sums_of(plain, w, **settings).astype(np.int32).astype(F) * spread(F(0.03) * scales)
    shifted = (stored(m / F(0.1), 128, np.uint8).astype(F) - 128) * F(0.1)
    expected = stored((sums + shifted) / F(0.5), 100, np.uint8)
    np.testing.assert_array_equal(module.numpy((plain * F(0.03)).astype(F), m)[0], expected)


def test_maxima_and_sums_of_numbers():
    """MaxPool between numbers of one kind, and a sum of two images with a ReLU."""
    x, zero, w, scales, _, settings = drawn("windows")
    before, some = around("x", scale=0.03, zero=zero)
    held, more = filters_of("l", w, scales)
    after, rest = around("c", scale=0.5, zero=100)
    pooled, same = around("p", scale=0.5, zero=100)
    again, last = around("y", scale=0.8, zero=90)
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [*before, *held, ("Conv", "x_f l_wf", "c", settings), *after]
    nodes += [("MaxPool", "c_f", "p", pool), *pooled]
    nodes += [("Add", "p_f p_f", "a", {}), ("Relu", "a", "y", {}), *again]
    constants = {**some, **more, **rest, **same, **last}
    module = model(nodes, {"x": 1}, {"y_q": 2}, constants)
    assert lowered(module) == ["*QuantizeLinear", "*Conv", "*MaxPool", "*Add"]
    plain = x.astype(np.int64) - int(zero)
    sums = sums_of(plain, w, **settings).astype(np.int32).astype(F)
    numbers = stored(sums * spread(F(0.03) * scales / F(0.5)), 100, np.uint8)
    padded = np.pad(numbers, ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, w_ = ((n - 1) // 2 + 1 for n in numbers.shape[2:])
    seen = [padded[:, :, r::2, s::2][:, :, :h, :w_] for r in range(3) for s in range(3)]
    floats = (np.max(seen, axis=0).astype(F) - 100) * F(0.5)
    expected = stored(np.maximum(floats + floats, 0) / F(0.8), 90, np.uint8)
    np.testing.assert_array_equal(module.numpy((plain * F(0.03)).astype(F))[0], expected)


def test_sums_of_numbers_may_be_spread():
    """An image, and one pixel for all of it."""
    x, zero, w, scales, _, settings = drawn("windows")
    whole = RNG.integers(-128, 128, (len(w), *x.shape[1:])).astype(np.int8)
    before, some = around("x", scale=0.03, zero=zero)
    parts = [filters_of("l", w, scales), filters_of("m", whole, scales)]
    ends = [around("c", scale=0.5, zero=100), around("d", scale=2.0, zero=120)]
    again, last = around("y", scale=0.8, zero=90)
    nodes = [*before, *parts[0][0], *parts[1][0], ("Conv", "x_f l_wf", "c", settings), *ends[0][0]]
    nodes += [("Conv", "x_f m_wf", "d", {}), *ends[1][0], ("Add", "c_f d_f", "a", {})]
    nodes += [("Relu", "a", "y", {}), *again]
    constants = {**some, **parts[0][1], **parts[1][1], **ends[0][1], **ends[1][1], **last}
    module = model(nodes, {"x": 1}, {"y_q": 2}, constants)
    assert lowered(module) == ["*QuantizeLinear", "*Conv", "*Conv", "*Add"]
    plain, floats = x.astype(np.int64) - int(zero), []
    for filters, how, scale, point in ((w, settings, 0.5, 100), (whole, {}, 2.0, 120)):
        sums = sums_of(plain, filters, **how).astype(np.int32).astype(F)
        numbers = stored(sums * spread(F(0.03) * scales / F(scale)), point, np.uint8)
        floats.append((numbers.astype(F) - point) * F(scale))
    expected = stored(np.maximum(floats[0] + floats[1], 0) / F(0.8), 90, np.uint8)
    np.testing.assert_array_equal(module.numpy((plain * F(0.03)).astype(F))[0], expected)


@pytest.mark.parametrize("op", ["Gemm", "turned Gemm", "MatMul"])
def test_a_product_between_numbers(op):
    x = RNG.integers(0, 256, (5, 18)).astype(np.uint8)
    w = RNG.integers(-128, 128, (18, 21)).astype(np.int8)
    scales = (RNG.random(21) * 0.01).astype(F)
    bias = RNG.integers(-999, 999, 21).astype(np.int32) * (op != "MatMul")
    before, some = around("x", scale=0.25, zero=40)
    turned = op == "turned Gemm"
    held, more = filters_of(
        "l", w.T.copy() if turned else w, scales, bias, given=0.25, axis=0 if turned else 1
    )
    after, rest = around("y", scale=0.5, zero=128)
    inputs = "x_f l_wf" if op == "MatMul" else "x_f l_wf l_bf"
    nodes = [*before, *held, (op.split()[-1], inputs, "y", {"transB": 1} if turned else {})]
    module = model([*nodes, *after], {"x": 1}, {"y_q": 2}, {**some, **more, **rest})
    assert lowered(module) == ["*QuantizeLinear", f"*{op.split()[-1]}"]
    sums = ((x.astype(np.int64) - 40) @ w.astype(np.int64) + bias).astype(np.int32)
    expected = stored(sums.astype(F) * (F(0.25) * scales / F(0.5)), 128, np.uint8)
    found = module.numpy((x.astype(F) - 40) * F(0.25))[0]
    np.testing.assert_array_equal(found, expected)


def test_floats_that_something_else_reads_are_kept():
    """A convolution's floats are a result, too: nothing behind it is computed with it."""
    x, zero, w, scales, _, settings = drawn("windows")
    before, some = around("x", scale=0.03, zero=zero)
    held, more = filters_of("l", w, scales)
    after, rest = around("r", scale=0.5, zero=0)
    nodes = [*before, *held, ("Conv", "x_f l_wf", "c", settings), ("Relu", "c", "r", {}), *after]
    module = model(nodes, {"x": 1}, {"c": 1, "r_q": 2}, {**some, **more, **rest})
    assert lowered(module) == ["*QuantizeLinear", "*Conv", "Relu", "QuantizeLinear"]
    plain = x.astype(np.int64) - int(zero)
    sums = sums_of(plain, w, **settings).astype(np.int32)
    floats, numbers = module.numpy((plain * F(0.03)).astype(F))
    np.testing.assert_array_equal(floats, sums.astype(F) * spread(F(0.03) * scales))
    expected = stored(np.maximum(floats, 0) / F(0.5), 0, np.uint8)
    np.testing.assert_array_equal(numbers, expected)


def test_filters_of_a_channel_each_but_several_for_one_are_computed_as_floats():
    x = RNG.integers(0, 256, (1, 6, 5, 5)).astype(np.uint8)
    w = RNG.integers(-128, 128, (12, 1, 3, 3)).astype(np.int8)
    scales = (RNG.random(12) * 0.01).astype(F)
    before, some = around("x", scale=0.03, zero=0)
    held, more = filters_of("l", w, scales)
    nodes = [*before, *held, ("Conv", "x_f l_wf", "y", {"group": 6})]
    module = model(nodes, {"x": 1}, {"y": 1}, {**some, **more})
    assert "Conv" in lowered(module)
    expected = sums_of(x, w, group=6) * spread(F(0.03) * scales).astype(np.float64)
    np.testing.assert_allclose(module.numpy(x * F(0.03))[0], expected, rtol=1e-5, atol=1e-4)


def test_maxima_that_are_quantised_are_those_of_numbers():
    """The convolution before them stores numbers."""
    x, zero, w, scales, _, settings = drawn("windows")
    before, some = around("x", scale=0.03, zero=zero)
    held, more = filters_of("l", w, scales)
    after, rest = around("p", scale=0.5, zero=100)
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [*before, *held, ("Conv", "x_f l_wf", "c", settings), ("Relu", "c", "r", {})]
    nodes += [("MaxPool", "r", "p", pool), *after]
    module = model(nodes, {"x": 1}, {"p_q": 2}, {**some, **more, **rest})
    assert lowered(module) == ["*QuantizeLinear", "*Conv", "*MaxPool"]
    plain = x.astype(np.int64) - int(zero)
    floats = np.maximum(sums_of(plain, w, **settings).astype(F) * spread(F(0.03) * scales), 0)
    padded = np.pad(floats, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    h, w_ = ((n - 1) // 2 + 1 for n in floats.shape[2:])
    seen = [padded[:, :, r::2, s::2][:, :, :h, :w_] for r in range(3) for s in range(3)]
    expected = np.rint(np.max(seen, axis=0) / F(0.5)) + 100
    found = module.numpy((plain * F(0.03)).astype(F))[0]
    assert np.abs(found - np.clip(expected, 0, 255)).max() <= 1  # halves: products round apart
    assert (found != np.clip(expected, 0, 255)).mean() < 0.01


@pytest.mark.parametrize(
    ("shape", "settings", "text"),
    [
        ((1, 5, 7, 9), {"pads": [1, 1, 1, 1]}, "of the channels that there are"),
        ((1, 6, 7, 9), {"strides": [0, 1]}, "ZeroDivisionError|division|by zero"),
        ((1, 6, 7, 9), {"strides": [-1, 1]}, "windows fit into the image and move on"),
        ((1, 6, 2, 9), {}, "windows fit into the image and move on"),
        ((1, 6, 7, 9), {"pads": [1, 1]}, "fails"),
    ],
)
def test_what_does_not_fit_is_one_error(shape, settings, text):
    w = np.ones((4, 6, 3, 3), np.int8)
    constants = {"xs": F(1), "xz": np.uint8(0), "w": w, "ws": F(1), "wz": np.int8(0)}
    constants |= {"ys": F(1), "yz": np.uint8(0)}
    nodes = [("QLinearConv", "x xs xz w ws wz ys yz", "y", settings)]
    module = model(nodes, {"x": 2}, {"y": 2}, constants)
    with pytest.raises(ClnetError, match=text):
        module(np.zeros(shape, np.uint8))
