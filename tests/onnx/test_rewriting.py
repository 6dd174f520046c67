"""Attention found in the nodes that it is exported as."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.onnx import load
from clnet.onnx.rewriting import attention

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)
helper = onnx.helper

pytestmark = pytest.mark.device
RNG = np.random.default_rng(0)
SHAPE = (2, 3, 5, 4)


def drawn(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def model(lines, outputs="y", shape=SHAPE, held=None):
    """A model of q, k, v and a mask m, of nodes such as ``y = MatMul w v``.

    It may hold the mask itself.
    """
    nodes = []
    for line in lines:
        made, op, *rest = line.replace("= ", "").split()
        settings = {"perm": [0, 1, 3, 2]} if op == "Transpose" else {}
        nodes.append(helper.make_node(op, rest, [made], **settings))
    given = [helper.make_tensor_value_info(n, 1, shape) for n in "qkv"]
    if held is None:
        given.append(helper.make_tensor_value_info("m", 1, None))
    numbers = {"s": 0.7, "d": 3} | ({} if held is None else {"m": held})
    graph = helper.make_graph(
        nodes,
        "g",
        given,
        [helper.make_tensor_value_info(n, 1, None) for n in outputs.split()],
        [onnx.numpy_helper.from_array(np.float32(a), n) for n, a in numbers.items()],
    )
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def labels(module):
    return [step.label.split()[0] for step in module._program.steps]


def wanted(q, k, v, m, scale):
    scores = scale * q @ k.swapaxes(-1, -2) + m
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


PLAIN = ["t = Transpose k", "p = MatMul q t", "w = Softmax p", "y = MatMul w v"]
OF_PYTORCH = [
    *("a = Mul q s", "t = Transpose k", "b = Mul t s", "p = MatMul a b"),
    *("z = Add p m", "w = Softmax z", "y = MatMul w v"),
]
DIVIDED = [
    *("t = Transpose k", "p = MatMul q t", "r = Div p d", "z = Add m r"),
    *("w = Softmax z", "y = MatMul w v"),
]


@pytest.mark.parametrize(
    ("lines", "scale", "masked"),
    [(PLAIN, 1, False), (OF_PYTORCH, 0.49, True), (DIVIDED, 1 / 3, True)],
    ids=["plain", "of PyTorch", "divided"],
)
def test_attention_is_one_step(lines, scale, masked):
    q, k, v = (drawn(*SHAPE) for _ in range(3))
    mask = drawn(2, 1, 5, 5)
    module = model(lines)
    assert labels(module) == ["Transpose", "attention"]
    found = module.numpy(q, k, v, mask)[0]
    np.testing.assert_allclose(
        found, wanted(q, k, v, mask if masked else 0, scale), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("least", [-np.inf, np.finfo(np.float32).min])
def test_a_mask_that_a_model_holds_is_no_parameter(least):
    q, k, v = (drawn(*SHAPE) for _ in range(3))
    mask = np.where(np.tri(5, dtype=bool), np.float32(0), least)
    module = model(OF_PYTORCH, held=mask)
    assert not [*module.parameters()]
    inputs = [clnet.tensor(x, requires_grad=True) for x in (q, k, v)]
    module(*inputs).sum().backward()  # and it can be trained beneath
    assert all(np.isfinite(x.grad.numpy()).all() for x in inputs)
    for run in (module, clnet.compile(module)):
        y = run(*map(clnet.tensor, (q, k, v))).numpy()
        np.testing.assert_allclose(y, wanted(q, k, v, mask, 0.49), rtol=1e-5, atol=1e-6)


def test_what_others_read_stays():
    q, k, v = (drawn(*SHAPE) for _ in range(3))
    module = model(PLAIN, "y w")
    assert "attention" not in labels(module)
    y, w = module.numpy(q, k, v, v)
    np.testing.assert_allclose(w @ v, y, rtol=1e-5, atol=1e-6)
    module = model(OF_PYTORCH, "y b")
    assert labels(module) == ["Transpose", "Mul", "attention"]
    found, b = module.numpy(q, k, v, np.zeros((5, 5), np.float32))
    np.testing.assert_allclose(b, np.float32(0.7) * k.swapaxes(-1, -2), rtol=1e-6)
    np.testing.assert_allclose(found, wanted(q, k, v, 0, 0.49), rtol=1e-5, atol=1e-6)


def test_a_divisor_that_is_computed_is_none_of_the_scale():
    lines = [line.replace("Div p d", "Div p m").replace("Add m r", "Neg r") for line in DIVIDED]
    assert "attention" not in labels(model(lines))


@pytest.mark.parametrize(
    ("shapes", "mask"),
    [
        ([(5, 4), (6, 4), (6, 3)], (5, 6)),
        ([(2, 5, 4), (6, 4), (6, 3)], (6,)),
        ([(2, 5, 4), (2, 6, 4), (2, 6, 3)], (1, 2, 5, 6)),
        ([(1, 1, 4), (1, 6, 4), (1, 6, 3)], (2, 5, 6)),
    ],
    ids=["matrices", "one for all", "a mask of more axes", "a mask that repeats scores"],
)
def test_other_shapes_are_computed_step_by_step(shapes, mask):
    q, k, v = (drawn(*shape) for shape in shapes)
    m = drawn(*mask)
    given = (clnet.tensor(a) for a in (q, k.swapaxes(-1, -2).copy(), v, m))
    found = attention(*given, scale=0.5).numpy()
    np.testing.assert_allclose(found, wanted(q, k, v, m, 0.5), rtol=1e-5, atol=1e-6)


def test_an_encoder_that_is_exported_attends_in_one_step():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = clnet.tensor(drawn(2, 5, 8))
    module = load(clnet.onnx.export(layer, x))
    assert labels(module).count("attention") == 1
    weight = clnet.tensor(drawn(2, 5, 8))
    (layer(x) * weight).sum().backward()
    (module(x) * weight).sum().backward()
    grads = {module.initialiser_names[n]: p.grad for n, p in module.named_parameters()}
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(
            grads[name].numpy(), parameter.grad.numpy(), rtol=1e-4, atol=1e-5
        )
