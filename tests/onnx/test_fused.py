"""Ops that onnxruntime's optimisers write: what their descriptions say, in NumPy.

Where onnxruntime is installed, its numbers are compared with the same.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from math import erf, inf

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError
from clnet.onnx import load

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)
helper = onnx.helper

pytestmark = pytest.mark.device
F = np.float32
MS = "com.microsoft"


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


def model_of(op, given, held, outputs, domain=MS, **settings):
    """A model of one node; inputs are in order, None where one is left out."""
    kind = helper.np_dtype_to_tensor_dtype
    values = {**given, **held}
    names = [n if values[n] is not None else "" for n in values]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, domain=domain, **settings)],
        "g",
        [helper.make_tensor_value_info(n, kind(v.dtype), v.shape) for n, v in given.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs if n],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in held.items() if v is not None],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def require(op, given, held, expected, *, tolerance=2e-5, peer=True, outputs=None, **settings):
    """The outputs are as expected, and as onnxruntime's; the first ones, if it has more."""
    names = outputs or [f"y{i}" for i in range(len(expected))]
    proto = model_of(op, given, held, names, **settings)
    found = load(proto).numpy(*given.values())
    wanted = [expected]
    if peer and find_spec("onnxruntime") is not None:
        session = import_module("onnxruntime").InferenceSession(
            proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        wanted.append(session.run(None, given))
    for answers in wanted:
        for y, answer in zip(found, answers[: len(expected)], strict=False):
            assert y.shape == answer.shape
            np.testing.assert_allclose(y, answer, rtol=tolerance, atol=tolerance)


X, BIAS = normal(2, 5, 8), normal(8)


def gelu(x):
    return x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2


def tanh_gelu(x):
    return x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def standard(x, epsilon):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)


@pytest.mark.parametrize(
    ("op", "held", "wanted"),
    [
        ("Gelu", {}, gelu(X)),
        ("BiasGelu", {"b": BIAS}, gelu(X + BIAS)),
        ("FastGelu", {"b": BIAS}, tanh_gelu(X + BIAS)),
        ("QuickGelu", {}, X / (1 + np.exp(-1.702 * X))),
    ],
)
def test_activations(op, held, wanted):
    require(op, {"x": X}, held, [wanted])


@pytest.mark.parametrize("batch", [0, 1])
def test_operands_of_products_are_turned(batch):
    a, b = normal(3, 2, 4), normal(3, 5, 4)
    whole = np.moveaxis(a, 0, -2) if batch else a  # (2, 3, 4) or (3, 2, 4)
    wanted = 0.5 * whole @ b[: len(whole)].transpose(0, 2, 1)
    given = {"a": a, "b": b[: len(whole)]}
    require("FusedMatMul", given, {}, [wanted], alpha=0.5, transB=1, transBatchA=batch)


@pytest.mark.parametrize(
    ("name", "numbers", "function"),
    [
        ("LeakyRelu", [0.2], lambda y: np.where(y < 0, 0.2 * y, y)),
        ("HardSigmoid", [0.3, 0.4], lambda y: np.clip(0.3 * y + 0.4, 0, 1)),
        ("Tanh", [], np.tanh),
    ],
)
def test_an_activation_behind_a_layer(name, numbers, function):
    x, w, more = normal(1, 3, 2, 2), normal(4, 3, 1, 1), normal(1, 4, 2, 2)
    wanted = np.einsum("ochw,bcij->boij", w, x) + more
    settings = {"activation_params": numbers} if numbers else {}
    held = {"w": w, "b": None, "z": more}
    require("FusedConv", {"x": x}, held, [function(wanted)], activation=name, **settings)
    keys = ("activation_alpha", "activation_beta")
    rows, w = normal(2, 3), normal(3, 4)
    require(
        *("FusedGemm", {"x": rows}, {"w": w}, [function(rows @ w)]),
        activation=name,
        **dict(zip(keys, numbers, strict=False)),
    )


def test_norms_of_sums():
    skip, gamma, beta, bias = normal(5, 8), normal(8), normal(8) + 1, normal(8) * 2
    total = X + skip + bias
    held = {"skip": skip, "g": gamma, "b": beta, "bias": bias}
    wanted = standard(total, 1e-5) * gamma + beta
    outputs = ["y", "", "", "sum"]
    require(
        "SkipLayerNormalization", {"x": X}, held, [wanted, total], outputs=outputs, epsilon=1e-5
    )
    root = np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5)
    given = {"x": X, "skip": np.ascontiguousarray(np.broadcast_to(skip, X.shape))}
    held = {"g": gamma, "bias": bias}
    wanted = [total / root * gamma, total]
    require("SkipSimplifiedLayerNormalization", given, held, wanted, outputs=outputs, epsilon=1e-5)
    root = np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5)
    require("SimplifiedLayerNormalization", {"x": X}, {"g": gamma}, [X / root * gamma], domain="")


def test_embeddings_of_words_places_and_segments():
    words = np.array([[1, 4, 2], [0, 0, 3]], np.int32)
    given = {"words": words, "segments": np.array([[0, 0, 1], [1, 1, 1]], np.int32)}
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = {"w": normal(5, 8), "p": normal(4, 8), "s": normal(2, 8)}
    held = {**tables, "g": BIAS, "b": BIAS + 1, "mask": mask}
    total = tables["w"][words] + tables["p"][:3] + tables["s"][given["segments"]]
    wanted = [standard(total, 1e-5) * BIAS + BIAS + 1, np.array([2, 3], np.int32), total]
    require("EmbedLayerNormalization", given, held, wanted, epsilon=1e-5)


def attended(q, k, v, added=0, scale=None):
    """Of heads ``(n, heads, t, d)``, packed."""
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5) + added
    y = softmax(scores) @ v
    return y.swapaxes(1, 2).reshape(len(q), q.shape[2], -1)


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


MASKS = {
    "lengths": (np.array([3, 5], np.int32), [[1, 1, 1, 0, 0], [1] * 5]),
    "ends and starts": (np.array([4, 5, 1, 0], np.int32), [[0, 1, 1, 1, 0], [1] * 5]),
    "of each": (np.array([[1, 0, 1, 1, 0], [1] * 5], np.int32), [[1, 0, 1, 1, 0], [1] * 5]),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_one_projection(mask, causal):
    given, seen = MASKS[mask]
    w, b = normal(8, 24), normal(24)
    q, k, v = (heads(t, 2) for t in np.split(X @ w + b, 3, -1))
    added = np.where(seen, 0, -10000.0).reshape(2, 1, 1, 5)
    added = added + (np.where(np.tri(5), 0, -inf) if causal else 0)
    wanted = [attended(q, k, v, added), np.stack([k, v])]
    held = {"w": w, "b": b, "m": given}
    require("Attention", {"x": X}, held, wanted, num_heads=2, unidirectional=causal)


def test_attention_of_heads_with_a_past():
    given = {n: normal(2, 5, 8) * s for n, s in (("q", 1), ("k", -1), ("v", 2))}
    bias, past = normal(24), (normal(2, 2, 3, 4), normal(2, 2, 3, 4) + 1)
    q, k, v = (heads(t + b, 2) for t, b in zip(given.values(), np.split(bias, 3), strict=True))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    held = {"b": bias, "m": None, "a": None, "pk": past[0], "pv": past[1]}
    require("MultiHeadAttention", given, held, [attended(q, k, v), k, v], num_heads=2)
    crossed = {"q": given["q"], "k": past[0], "v": past[1]}
    wanted = [attended(heads(given["q"], 2), *past)]
    require("MultiHeadAttention", crossed, {}, wanted, num_heads=2)


def turned(x, angles):
    a, b = np.split(x, 2, -1)
    c, s = np.cos(angles), np.sin(angles)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def test_positions_are_turned_from_an_offset_on():
    angles = normal(12, 2)
    held = {"p": np.array([3]), "c": np.cos(angles), "s": np.sin(angles)}
    wanted = turned(heads(X, 2), angles[3:8]).swapaxes(1, 2).reshape(X.shape)
    require("RotaryEmbedding", {"x": X}, held, [wanted])


@pytest.mark.parametrize("window", [-1, 2])
@pytest.mark.parametrize("sink", [False, True])
def test_queries_share_keys_of_a_cache(window, sink):
    """Of rows of different lengths, whose new keys are written behind what is there."""
    lengths, held, size = [4, 3], 5, 16
    q, k, v = normal(2, 1, 64), normal(2, 1, 32), normal(2, 1, 32) + 1
    past = normal(2, 2, held, size), normal(2, 2, held, size) + 1
    angles, sinks = normal(12, 8), normal(4) if sink else None
    caches, rows = [past[0].copy(), past[1].copy()], []
    for b, n in enumerate(lengths):
        caches[0][b, :, n - 1] = turned(heads(k, 2)[b, :, 0], angles[n - 1])
        caches[1][b, :, n - 1] = heads(v, 2)[b, :, 0]
        first = max(0, n - window) if window > 0 else 0
        keys, values = (np.repeat(c[b, :, first:n], 2, 0) for c in caches)
        query = turned(heads(q, 4)[b], angles[n - 1])
        scores = query @ keys.swapaxes(-1, -2) / 4
        if sink:
            scores = np.concatenate([scores, sinks.reshape(-1, 1, 1)], -1)
        rows.append((softmax(scores)[..., : n - first] @ values).reshape(1, -1))
    given = {"q": q, "k": k, "v": v, "pk": past[0], "pv": past[1]}
    given |= {"l": np.array(lengths, np.int32) - 1, "t": np.array(4, np.int32)}
    constants = {"c": np.cos(angles), "s": np.sin(angles), "p": None, "a": None, "sink": sinks}
    require(
        *("GroupQueryAttention", given, constants, [np.stack(rows)]),
        outputs=["y", "a", "b"],
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        local_window_size=window,
    )


def test_ways_to_keep_a_cache_that_clnet_has_not_are_named():
    given = {"x": X}
    proto = model_of("Attention", given, {"w": normal(8, 24)}, ["y"], num_heads=2, do_rotary=1)
    with pytest.raises(ArgumentError, match="Attention has none of these settings"):
        load(proto)(clnet.as_tensor(X))


def test_distances_of_rows():
    a, b = normal(3, 4), normal(2, 4)
    wanted = np.linalg.norm(a[:, None] - b, axis=-1)
    require("CDist", {"a": a, "b": b}, {}, [wanted], metric="euclidean", tolerance=1e-4)


def test_group_norms_have_channels_last():
    """onnxruntime has none on processors."""
    x, skip = normal(1, 2, 2, 4), normal(1, 4)
    total = x + skip.reshape(1, 1, 1, 4)
    parts = total.reshape(4, 2, 2)
    spread = np.sqrt(parts.var((0, 2), keepdims=True) + 1e-5)
    y = ((parts - parts.mean((0, 2), keepdims=True)) / spread).reshape(x.shape)
    wanted = [y / (1 + np.exp(-y)), total]
    held = {"g": np.ones(4, F), "b": np.zeros(4, F), "skip": skip}
    require("SkipGroupNorm", {"x": x}, held, wanted, activation=1, groups=2, peer=False)
