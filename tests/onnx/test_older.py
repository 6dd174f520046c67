"""Ops as older opsets had them, where a newer one of the name computes something else."""

from __future__ import annotations

import numpy as np
import pytest

import clnet

onnx = pytest.importorskip("onnx")
evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
helper = onnx.helper
X = np.random.default_rng(0).normal(size=(2, 4, 6, 6)).astype(np.float32)
VECTORS = np.random.default_rng(1).uniform(0.5, 2, (4, 4)).astype(np.float32)


def model_of(op, opset, inputs, outputs=1, **attributes):
    """A model of one node: its first input is given, the others are constants, None left out."""
    names = [f"x{i}" for i in range(len(inputs))]
    used = [n if x is not None else "" for n, x in zip(names, inputs, strict=True)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, used, results, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    given = [helper.make_tensor_value_info(names[0], kind, inputs[0].shape)]
    constants = [
        onnx.numpy_helper.from_array(np.asarray(x), n)
        for n, x in zip(names[1:], inputs[1:], strict=True)
        if x is not None
    ]
    made = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], "g", given, made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)


def ours(model, x):
    return clnet.onnx.load(model.SerializeToString()).numpy(x)


def same(found, wanted):
    for y, want in zip(found, wanted, strict=True):
        assert (np.asarray(y).dtype, np.shape(y)) == (want.dtype, want.shape)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def integers(*values):
    return np.array(values, np.int64)


OLDER = [
    ("ReduceSum", 12, [X], {"axes": [1, -1], "keepdims": 0}),
    ("ReduceLogSumExp", 17, [X], {"axes": [2]}),
    ("ReduceMean", 11, [X], {}),
    ("Clip", 6, [X], {"max": 0.5}),
    ("Clip", 11, [X, None, np.float32(0.5)], {}),
    ("Pad", 10, [X], {"pads": [0, 0, 1, 1, 0, 0, 2, 1], "value": 1.5}),
    ("Pad", 13, [X, integers(0, 0, 1, 1, 0, 0, 2, 1)], {"mode": "reflect"}),
    ("Slice", 9, [X], {"starts": [1, 0], "ends": [3, -1], "axes": [1, 2]}),
    ("Slice", 11, [X, *map(integers, (-1, -100, -1, -2))], {}),
    ("Split", 11, [X], {"axis": 1, "split": [1, 3], "outputs": 2}),
    ("Split", 13, [X], {"axis": -3, "outputs": 2}),
    ("Squeeze", 11, [X[:1]], {"axes": [0]}),
    ("Unsqueeze", 11, [X], {"axes": [0, -1]}),
    ("Dropout", 10, [X], {"ratio": 0.3, "outputs": 2}),
    ("Dropout", 12, [X, np.float32(0.4)], {}),
    ("TopK", 9, [X], {"k": 3, "axis": 1, "outputs": 2}),
    ("Gemm", 7, [X[0, 0], X[0, 1], X[0, 2, 0]], {"alpha": 0.5, "transB": 1}),
    ("Upsample", 9, [X, np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}),
    ("Resize", 11, [X, *[np.zeros(0, np.float32)] * 2, integers(2, 4, 9, 5)], {"mode": "cubic"}),
    ("BatchNormalization", 15, [X, *VECTORS], {}),
    ("OneHot", 9, [integers(0, 2, 1), np.float32(3), np.array([0, 1], np.float32)], {}),
    ("GridSample", 16, [X, np.tanh(X[:, :1, :, :2]).transpose(0, 2, 1, 3)], {}),
]


@pytest.mark.device
@pytest.mark.parametrize(
    ("op", "opset", "inputs", "settings"), OLDER, ids=[f"{c[0]}-{c[1]}" for c in OLDER]
)
def test_older_forms_are_what_onnx_itself_computes(op, opset, inputs, settings):
    model = model_of(op, opset, inputs, **settings)
    same(ours(model, inputs[0]), evaluator(model).run(None, {"x0": inputs[0]}))


@pytest.mark.device
@pytest.mark.parametrize("outputs", [3, 5])
def test_a_batch_norm_with_further_outputs_trains(outputs):
    old = model_of("BatchNormalization", 9, [X, *VECTORS], outputs, momentum=0.8)
    new = model_of("BatchNormalization", 15, [X, *VECTORS], 3, momentum=0.8, training_mode=1)
    wanted = evaluator(new).run(None, {"x0": X})
    of_batch = X.mean((0, 2, 3)), X.var((0, 2, 3))
    same(ours(old, X), [*wanted, *of_batch][:outputs])


@pytest.mark.device
def test_a_batch_norm_whose_further_outputs_have_no_name_does_not():
    model = model_of("BatchNormalization", 9, [X, *VECTORS])
    wanted = ours(model, X)
    model.graph.node[0].output.extend(["", ""])
    same(ours(model, X), wanted)


@pytest.mark.device
def test_a_batch_norm_of_each_element_of_a_plane():
    vectors = np.random.default_rng(1).uniform(0.5, 2, (4, *X.shape[1:])).astype(np.float32)
    scale, bias, mean, var = vectors
    model = model_of("BatchNormalization", 7, [X, *vectors], spatial=0, epsilon=0.5)
    same(ours(model, X), [(X - mean) / np.sqrt(var + np.float32(0.5)) * scale + bias])


@pytest.mark.device
def test_the_nearest_element_as_tensorflow_finds_it():
    sizes = [np.zeros(0, np.float32), np.array([1, 1, 1, 1.5], np.float32)]
    how = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    model = model_of("Resize", 11, [X, *sizes], mode="nearest", **how)
    same(ours(model, X), [X[..., [0, 1, 1, 2, 3, 3, 4, 5, 5]]])


def resized(op, opset, scale, mode, axes=4):
    x = np.arange(5, dtype=np.float32).reshape((1,) * (axes - 1) + (5,))
    scales = np.array([1] * (axes - 1) + [scale], np.float32)
    settings = {"scales": scales.tolist()} if opset < 9 else {}
    node = helper.make_node(op, ["x", "s"][: 1 if settings else 2], ["y"], mode=mode, **settings)
    given = [helper.make_tensor_value_info("x", 1, x.shape)]
    weights = [] if settings else [onnx.numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return clnet.onnx.load(model.SerializeToString()).numpy(x)[0].reshape(-1)


@pytest.mark.device
@pytest.mark.parametrize(("op", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize("axes", [2, 3, 4, 5])
def test_pictures_grow_from_the_corner(op, opset, axes):
    between = np.minimum(np.arange(8) / 1.7, 4)  # onnxruntime's
    np.testing.assert_allclose(resized(op, opset, 1.7, "linear", axes), between, rtol=1e-5)
    assert resized(op, opset, 1.7, "nearest", axes).tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    assert resized(op, opset, 2, "nearest", axes).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.device
def test_pictures_that_shrink_have_the_element_above():
    assert resized("Resize", 10, 0.6, "nearest").tolist() == [0, 2, 4]
