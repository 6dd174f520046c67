"""Nodes that run a graph of their own: loops and scans."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.errors import OnnxError
from clnet.onnx import load
from tests.onnx.graphs import FLOAT, helper, made, node, onnx

RNG = np.random.default_rng(0)


def with_body(op, inputs, outputs, body, sizes, weights=(), **settings):
    """A model of one node of control flow; sizes are of the body's outputs."""
    kinds = {"go": onnx.TensorProto.BOOL}
    graph = helper.make_graph(
        body,
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in settings.pop("given")],
        [helper.make_tensor_value_info(n, kinds.get(n, FLOAT), s) for n, s in sizes],
    )
    found = node(op, inputs, outputs, body=graph, **settings)
    return load(made([found], [("x", [2])], outputs.split(), weights))


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_loop_of_no_rounds_gives_empty_stacks(rounds):
    given = [
        ("i", onnx.TensorProto.INT64, []),
        ("go_in", onnx.TensorProto.BOOL, []),
        ("s", FLOAT, [2]),
    ]
    body = [node("Identity", "go_in", "go"), node("Add", "s s", "t"), node("Neg", "s", "row")]
    sizes = [("go", []), ("t", [2]), ("row", [2])]
    weights = {"rounds": np.int64(rounds), "first": np.array(True)}
    module = with_body("Loop", "rounds first x", "y rows", body, sizes, weights, given=given)
    x = np.array([1, 2], np.float32)
    y, rows = module.numpy(x)
    np.testing.assert_array_equal(y, x * 2**rounds)
    wanted = -x * 2 ** np.arange(rounds, dtype=np.float32)[:, None]
    assert (rows.dtype, rows.shape) == (np.float32, (rounds, 2))
    np.testing.assert_array_equal(rows, wanted)


def test_a_scan_of_no_steps_gives_empty_stacks():
    given = [("s", FLOAT, [2]), ("row", FLOAT, [3])]
    body = [node("Identity", "s", "t"), node("Neg", "row", "out")]
    settings = {"num_scan_inputs": 1, "scan_output_axes": [1], "given": given}
    weights = {"none": np.zeros((0, 3), np.float32)}
    module = with_body(
        "Scan", "x none", "y rows", body, [("t", [2]), ("out", [3])], weights, **settings
    )
    y, rows = module.numpy(np.ones(2, np.float32))
    assert y.tolist() == [1, 1]
    assert rows.shape == (3, 0)
    with pytest.raises(OnnxError, match="sizes of a body's outputs are none"):
        with_body(
            "Scan", "x none", "y rows", body, [("t", [2]), ("out", [-3])], weights, **settings
        )


def test_scans_of_opset_8_have_lengths():
    """What lies behind a row's length is not read; results are 0 there."""
    body = helper.make_graph(
        [node("Add", "s x", "sum"), node("Identity", "sum", "row")],
        "body",
        [helper.make_tensor_value_info(n, FLOAT, [2]) for n in "sx"],
        [helper.make_tensor_value_info(n, FLOAT, [2]) for n in ("sum", "row")],
    )
    scan = node("Scan", "n s x", "t y", body=body, num_scan_inputs=1)
    model = made([scan], [("s", [2, 2]), ("x", [2, 3, 2])], ["t", "y"], {"n": np.array([3, 1])}, 8)
    s, x = np.zeros((2, 2), np.float32), RNG.normal(size=(2, 3, 2)).astype(np.float32)
    sums = x.cumsum(1)
    sums[1, 1:] = 0
    last, found = load(model).numpy(s, x)
    np.testing.assert_allclose(found, sums, rtol=1e-6)
    np.testing.assert_allclose(last, [sums[0, 2], sums[1, 0]], rtol=1e-6)
