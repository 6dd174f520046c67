"""Attention against NumPy and PyTorch, in both shapes of its kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet.autograd import grad
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.kernels.softmax import attention_tiles
from clnet.kernels.softmax.attention import Scores
from clnet.kernels.softmax.attention_tiles import Tiling
from clnet.nn import functional as F
from clnet.ops.attention import Attention, AttentionBackward
from tests.kernels.launching import cpu_shaped, gpu_shaped
from tests.opcase import NARROW, OpCase, booleans, every_check, normal

pytestmark = pytest.mark.device


def attention_ref(q, k, v, mask=None, *, causal=False, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total > 0, total, 1) @ v


def joined_ref(x, weight, bias, out, out_bias, mask):
    """Two heads of ``(length, n, size)``, with a mask of ``(length, length)``."""
    length, n, size = x.shape
    q, k, v = np.split(x @ weight.T + bias, 3, -1)
    heads = [np.reshape(y, (length, n, 2, size // 2)).transpose(1, 2, 0, 3) for y in (q, k, v)]
    y = attention_ref(*heads, mask=mask).transpose(2, 0, 1, 3).reshape(length, n, size)
    return y @ out.T + out_bias


def joined(x, weight, bias, out, out_bias, mask):
    found, weights = F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, bias, None, None, False, 0.5, out, out_bias,
        training=False, need_weights=False, attn_mask=mask,
    )  # fmt: skip
    assert weights is None
    return found


CASES = [
    OpCase(
        joined,
        joined_ref,
        [normal(5, 3, 4), normal(12, 4), normal(12), normal(4, 4), normal(4), normal(5, 5)],
        k=60,
        name="multi_head_attention_forward",
        shapes=[],
    ),
    OpCase(
        F.scaled_dot_product_attention,
        attention_ref,
        [normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 6)],
        k=40,
        grad2=True,
        shapes=[
            ((2, 3, 1, 4), (2, 3, 1, 4), (2, 3, 1, 6)),
            ((0, 3, 5, 4), (0, 3, 7, 4), (0, 3, 7, 6)),
            ((5, 4), (7, 4), (7, 6)),
        ],
        dtypes=("float64", *NARROW),
    ),
    OpCase(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.7),
        lambda q, k, v: attention_ref(q, k, v, causal=True, scale=0.7),
        [normal(2, 9, 4), normal(2, 9, 4), normal(2, 9, 4)],
        k=40,
        grad2=True,
        name="scaled_dot_product_attention",
        label="causal",
    ),
    OpCase(
        F.scaled_dot_product_attention,
        attention_ref,
        [normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4), booleans(2, 1, 5, 7)],
        k=40,
        grad2=True,
        dtypes=NARROW,
        label="boolean mask",
    ),
    OpCase(
        F.scaled_dot_product_attention,
        attention_ref,
        [normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4), normal(5, 7)],
        k=40,
        grad2=True,
        dtypes=NARROW,
        label="mask with gradient",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_attention(case, check, device):
    check(case, device)


MASKS = ("none", "causal", "add", "keep")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
@pytest.mark.parametrize("rows_keys", [(1, 1), (17, 33), (70, 67)], ids=str)
def test_both_shapes_agree_with_pytorch(rows_keys, shaped, mask, device, monkeypatch):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    target = shaped(device)
    for kind in (Attention, AttentionBackward):
        lower = kind.lower
        monkeypatch.setattr(
            kind, "lower", lambda self, _, outs, ins, lower=lower: lower(self, target, outs, ins)
        )
    rows, keys = rows_keys
    rng = np.random.default_rng(0)
    hosts = [
        rng.standard_normal(s).astype("f4")
        for s in ((2, 2, rows, 8), (2, 2, keys, 8), (2, 2, keys, 8))
    ]
    given = {
        "none": None,
        "causal": None,
        "add": rng.standard_normal((2, 1, rows, keys)).astype("f4"),
        "keep": (rng.random((rows, keys)) < 0.7) | (np.arange(keys) == 0),
    }[mask]
    causal = mask == "causal"
    upstream = rng.standard_normal((2, 2, rows, 8)).astype("f4")
    ours = [clnet.tensor(x, requires_grad=True) for x in hosts]
    theirs = [torch.tensor(x, requires_grad=True) for x in hosts]
    y = F.scaled_dot_product_attention(
        *ours, None if given is None else clnet.tensor(given), is_causal=causal
    )
    z = torch.nn.functional.scaled_dot_product_attention(
        *theirs, None if given is None else torch.tensor(given), is_causal=causal
    )
    y.backward(clnet.tensor(upstream))
    z.backward(torch.tensor(upstream))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), atol=1e-5)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=2e-5)


@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
def test_a_row_of_nan_spoils_what_it_attends_to(shaped, device, monkeypatch):
    """Its weights are NaN, as softmax's are, so the gradients of all keys and values are."""
    target = shaped(device)
    for kind in (Attention, AttentionBackward):
        lower = kind.lower
        monkeypatch.setattr(
            kind, "lower", lambda self, _, outs, ins, lower=lower: lower(self, target, outs, ins)
        )
    q, k, v = (clnet.randn(1, 3, 8) for _ in range(3))
    k[0, 1, 0] = np.nan  # one score of each row
    leaves = [x.requires_grad_() for x in (q, k, v)]
    y = F.scaled_dot_product_attention(*leaves)
    y.sum().backward()
    assert bool(y.isnan().all())
    for x in leaves:
        assert bool(x.grad.isnan().all())


@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
def test_an_infinite_value_of_the_last_key_is_no_nan(shaped, device, monkeypatch):
    """Keys are read four at a time; what stands for those behind the last has no weight."""
    target, lower = shaped(device), Attention.lower
    monkeypatch.setattr(Attention, "lower", lambda self, _, y, x: lower(self, target, y, x))
    for keys in (2, 5, 7):
        q, k, v = (clnet.ones(1, n, 4) for n in (5, keys, keys))
        v[:, -1] = float("inf")
        assert (F.scaled_dot_product_attention(q, k, v) == float("inf")).all()


@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
@pytest.mark.parametrize("rows", [2, 5, 9, 130])
def test_an_infinite_gradient_of_the_last_row_is_no_nan(rows, shaped, device, monkeypatch):
    """As of keys: where keys' gradients are made, rows are what is read some at a time."""
    target = shaped(device)
    for kind in (Attention, AttentionBackward):
        lower = kind.lower
        monkeypatch.setattr(
            kind, "lower", lambda self, _, y, x, lower=lower: lower(self, target, y, x)
        )
    q, k, v = (clnet.ones(1, n, 4).requires_grad_() for n in (rows, 3, 3))
    gy = clnet.ones(1, rows, 4)
    gy[:, -1, 0] = float("inf")
    F.scaled_dot_product_attention(q, k, v).backward(gy)
    found = v.grad.numpy()[0]  # pyrefly: ignore[missing-attribute]
    assert (found[:, 0] == float("inf")).all()
    np.testing.assert_allclose(found[:, 1:], rows / 3, rtol=1e-5)


def test_rows_longer_than_local_memory_are_read_in_place(device):
    target = gpu_shaped(device)
    target = replace(target, traits=replace(target.traits, local_memory_bytes=64))
    q = clnet.randn(1, 1, 5, 12)
    function = Attention(Scores(12**-0.5, causal=False))
    outputs = function.infer(*(q.array,) * 3)
    for output in outputs:
        output.storage.materialize()
    for launch in function.lower(target, outputs, (q.array,) * 3):
        device.queue.launch(launch)
    expected = attention_ref(*(q.numpy().astype(np.float64),) * 3)
    np.testing.assert_allclose(outputs[0].numpy(), expected, atol=1e-5)


def test_grouped_heads_and_dropout(device):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    rng = np.random.default_rng(0)
    q, k = (
        rng.standard_normal((2, 6, 5, 4)).astype("f4"),
        rng.standard_normal((2, 2, 5, 4)).astype("f4"),
    )
    y = F.scaled_dot_product_attention(*map(clnet.tensor, (q, k, k)), enable_gqa=True)
    z = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.tensor, (q, k, k)), enable_gqa=True
    )
    np.testing.assert_allclose(y.numpy(), z.numpy(), atol=1e-5)
    ones = clnet.ones(1, 64, 64)
    dropped = F.scaled_dot_product_attention(ones, ones, ones, dropout_p=0.5).numpy()
    assert 0.05 < dropped.std() < 0.3
    assert abs(dropped.mean() - 1) < 0.05


def test_a_row_without_keys_is_zero(device):
    x = clnet.ones(2, 3, 4).requires_grad_()
    y = F.scaled_dot_product_attention(x, x, x, clnet.tensor([[True], [False], [True]]))
    assert y[:, 1].tolist() == [[0.0] * 4] * 2
    y.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_errors_name_what_is_wrong(device):
    x = clnet.ones(2, 3, 4)
    with pytest.raises(ShapeError, match="share the head"):
        F.scaled_dot_product_attention(x, clnet.ones(2, 3, 5), x)
    with pytest.raises(ShapeError, match="two axes or more"):
        F.scaled_dot_product_attention(clnet.ones(4), x, x)
    with pytest.raises(DtypeError, match="boolean or floating"):
        F.scaled_dot_product_attention(x, x, x, clnet.tensor([[1, 0, 1]]))
    with pytest.raises(ArgumentError, match="exclude each other"):
        F.scaled_dot_product_attention(x, x, x, clnet.ones(3, 3), is_causal=True)
    with pytest.raises(ArgumentError, match="dropout_p"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=2)
    with pytest.raises(ShapeError, match="multiple of the key's"):
        F.scaled_dot_product_attention(x, clnet.ones(3, 3, 4), clnet.ones(3, 3, 4), enable_gqa=True)


def test_parts_of_a_projection_are_read_where_they_lie(monkeypatch):
    """On a GPU queries, keys and values of one product, heads behind rows, are not copied."""
    device = clnet.device()
    small = {kernel: {8: (Tiling(4, 4, 4, 16),)} for kernel in attention_tiles.TILINGS}
    monkeypatch.setattr(attention_tiles, "TILINGS", small)
    monkeypatch.setattr(device, "target", gpu_shaped(device))
    values = np.random.default_rng(0).standard_normal((2, 9, 48), np.float32)

    def attended(x):
        parts = x.reshape(2, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)

    x = clnet.tensor(values, requires_grad=True)
    with clnet.profile() as seen:
        y = attended(x)
    assert [command.name for command in seen.commands] == ["attention_tiles"]
    parts = values.astype(np.float64).reshape(2, 9, 3, 2, 8).transpose(2, 0, 3, 1, 4)
    np.testing.assert_allclose(y.detach().numpy(), attention_ref(*parts, causal=True), atol=2e-6)
    y.backward(clnet.ones_like(y))
    monkeypatch.undo()
    again = clnet.tensor(values.astype(np.float64), requires_grad=True)
    exact = attended(again)
    exact.backward(clnet.ones_like(exact))
    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy(), atol=2e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_results_lie_as_queries_do(compiled, monkeypatch):
    """Between layers whose rows hold all heads nothing is copied, compiled no slice's gradient."""
    device = clnet.device()
    small = {kernel: {8: (Tiling(4, 4, 4, 16),)} for kernel in attention_tiles.TILINGS}
    monkeypatch.setattr(attention_tiles, "TILINGS", small)
    values = np.random.default_rng(0).standard_normal((2, 9, 48), np.float32)
    weights = np.random.default_rng(1).standard_normal((2, 9, 16), np.float32)

    def gradient(x, w):
        parts = (p.view(2, 9, 2, 8).transpose(1, 2) for p in x.split(16, 2))
        y = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2)
        lies = y.is_contiguous()
        (gx,) = grad([(y.reshape(2, 9, 16) * w).sum()], [x])
        return lies, gx

    def run(x, w):
        return clnet.compile(gradient)(x, w) if compiled else gradient(x, w)

    exact = [clnet.tensor(x.astype(np.float64), requires_grad=True) for x in (values, weights)]
    monkeypatch.setattr(device, "target", cpu_shaped(device))
    lies, expected = gradient(*exact)
    assert not lies
    monkeypatch.setattr(device, "target", gpu_shaped(device))
    x, w = (clnet.tensor(x, requires_grad=True) for x in (values, weights))
    with clnet.profile() as seen:
        lies, gx = run(x, w)
    assert lies
    np.testing.assert_allclose(gx.numpy(), expected.numpy(), atol=2e-5)
    names = [command.name for command in seen.commands]
    assert names.count("attention_delta") == 1
    assert sum(name.startswith("copy") for name in names) == (0 if compiled else 3)


@pytest.mark.parametrize("masked", [False, True])
def test_tiles_drop_the_weights_that_are_dropped_elsewhere(masked, monkeypatch):
    """In one launch, of keys that heads share; gradients, also of gradients, are the same."""
    device = clnet.device()
    small = {kernel: {8: (Tiling(4, 4, 4, 16),)} for kernel in attention_tiles.TILINGS}
    rng = np.random.default_rng(0)
    shapes = ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
    values = [rng.standard_normal(s, np.float32) for s in shapes]
    mask = clnet.tensor(rng.random((5, 7)) < 0.8) if masked else None

    def run():
        clnet.manual_seed(3)
        tensors = [clnet.tensor(x, requires_grad=True) for x in values]
        with clnet.profile() as seen:
            y = F.scaled_dot_product_attention(*tensors, mask, 0.4, enable_gqa=True)
        once = grad([(y * y).sum()], tensors, create_graph=True)
        twice = grad([(g * g).sum() for g in once], tensors)
        return {command.name for command in seen.commands}, (y, *once, *twice)

    _, expected = run()
    monkeypatch.setattr(attention_tiles, "TILINGS", small)
    monkeypatch.setattr(device, "target", gpu_shaped(device))
    kernels, found = run()
    assert kernels == {"attention_tiles"}
    for a, b in zip(found, expected, strict=True):
        scale = np.abs(b.detach().numpy()).max()
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=2e-5 * scale)


def test_a_trained_mask_is_added_in_the_kernel_where_nothing_is_recorded():
    q, mask = clnet.randn(2, 5, 4), clnet.randn(5, 5, requires_grad=True)
    recorded = F.scaled_dot_product_attention(q, q, q, mask)
    with clnet.no_grad(), clnet.profile() as seen:
        y = F.scaled_dot_product_attention(q, q, q, mask)
    assert len(seen.commands) == 1
    np.testing.assert_allclose(y.numpy(), recorded.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_the_parameters_of_heads_are_checked():
    x, w, b = clnet.ones(5, 3, 4), clnet.ones(12, 4), clnet.ones(4, 4)
    for changes, error, message in (
        ({"is_causal": True}, ArgumentError, "a hint about attn_mask"),
        ({"static_k": x}, ArgumentError, "keys and values are projected here"),
        ({"use_separate_proj_weight": True}, ArgumentError, "there are weights"),
        ({"embed_dim_to_check": 8}, ShapeError, "queries have embed_dim_to_check"),
        ({"key": x[0]}, ShapeError, "two or three axes"),
    ):
        given = {"key": x, "embed_dim_to_check": 4} | changes
        with pytest.raises(error, match=message):
            F.multi_head_attention_forward(
                x, value=x, num_heads=2, in_proj_weight=w, in_proj_bias=None, bias_k=None,
                bias_v=None, add_zero_attn=False, dropout_p=0.0, out_proj_weight=b,
                out_proj_bias=None, **given,
            )  # fmt: skip
