"""Ops as older opsets had them, where a newer one of the name computes something else."""

from __future__ import annotations

import numpy as np
import pytest

import clnet

onnx = pytest.importorskip("onnx")
helper = onnx.helper


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
