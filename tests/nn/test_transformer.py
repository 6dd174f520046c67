"""Attention with heads and transformers beside PyTorch's: text, state, results, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, ShapeError
from tests.answers import torch

pytestmark = [
    pytest.mark.device,
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
]
rng = np.random.default_rng(0)
PADDING = np.zeros((2, 6), bool)
PADDING[1, 4:] = True
CAUSAL = np.triu(np.ones((5, 5), bool), 1)


def normal(*shape):
    return rng.standard_normal(shape).astype("f4")


def both(make):
    torch.manual_seed(0)
    theirs, ours = make(torch.nn), make(nn)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs


def agree(a, b, what=""):
    np.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-5, err_msg=what
    )


def compare(ours, theirs, inputs, masks=None):
    """Results, weights, and gradients of a weighted sum of the result."""
    masks = masks or {}
    own_in = [clnet.tensor(a, requires_grad=True) for a in inputs]
    their_in = [torch.tensor(a, requires_grad=True) for a in inputs]
    own = ours(
        *own_in,
        **{k: clnet.tensor(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()},
    )
    their = theirs(
        *their_in,
        **{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()},
    )
    if isinstance(own, tuple):
        assert (own[1] is None) == (their[1] is None)
        if own[1] is not None:
            agree(own[1], their[1])
        own, their = own[0], their[0]
    agree(own, their)
    weights = np.random.default_rng(1).standard_normal(own.shape).astype("f4")
    own.backward(clnet.tensor(weights))
    their.backward(torch.tensor(weights))
    for a, b in zip(own_in, their_in, strict=True):
        agree(a.grad, b.grad)
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        agree(parameter.grad, expected[name].grad, name)


HEADS = {
    "plain": ({}, {}),
    "without weights": ({}, {"need_weights": False}),
    "weights of heads": ({}, {"average_attn_weights": False}),
    "no bias": ({"bias": False}, {}),
    "batch first": ({"batch_first": True}, {"need_weights": False}),
    "added keys": ({"add_bias_kv": True, "add_zero_attn": True}, {}),
    "other features": ({"kdim": 6, "vdim": 4}, {}),
    "mask": ({}, {"attn_mask": rng.random((5, 6)) < 0.3}),
    "added mask": ({}, {"attn_mask": normal(5, 6), "need_weights": False}),
    "mask of heads": ({}, {"attn_mask": normal(4, 5, 6)}),
    "padding": ({}, {"key_padding_mask": PADDING, "need_weights": False}),
    "padding and added keys": ({"add_zero_attn": True}, {"key_padding_mask": PADDING}),
}


@pytest.mark.parametrize("name", HEADS)
def test_heads_agree_with_pytorch(name):
    options, given = HEADS[name]
    ours, theirs = both(lambda n: n.MultiheadAttention(8, 2, **options))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    shapes = [(5, 2, 8), (6, 2, options.get("kdim", 8)), (6, 2, options.get("vdim", 8))]
    if options.get("batch_first"):
        shapes = [(n, length, f) for length, n, f in shapes]
    compare(ours, theirs, [normal(*s) for s in shapes], given)


def test_heads_of_one_sequence():
    ours, theirs = both(lambda n: n.MultiheadAttention(8, 2))
    compare(
        ours, theirs, [normal(5, 8), normal(6, 8), normal(6, 8)], {"key_padding_mask": PADDING[1]}
    )


@pytest.mark.parametrize("name", HEADS)
def test_heads_of_parameters_that_are_given(name):
    """As CLIP's pooling calls them."""
    options, given = HEADS[name]
    layer = nn.MultiheadAttention(8, 2, **options | {"batch_first": False})
    shapes = [(5, 2, 8), (6, 2, options.get("kdim", 8)), (6, 2, options.get("vdim", 8))]
    operands = [clnet.tensor(normal(*s)) for s in shapes]
    given = {k: clnet.tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    apart = layer.in_proj_weight is None
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    found = nn.functional.multi_head_attention_forward(
        *operands, 8, 2, layer.in_proj_weight, layer.in_proj_bias, layer.bias_k, layer.bias_v,
        layer.add_zero_attn, 0.0, layer.out_proj.weight, layer.out_proj.bias,
        use_separate_proj_weight=apart, **{n: getattr(layer, n) for n in names}, **given,
    )  # fmt: skip
    for a, b in zip(found, layer(*operands, **given), strict=True):
        assert (a is None and b is None) or a.tolist() == b.tolist()


LAYERS = {
    "encoder": (lambda n: n.TransformerEncoderLayer(8, 2, 12, 0.0), 1, {}),
    "encoder norm first": (
        lambda n: n.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", norm_first=True, bias=False),
        1,
        {"src_mask": CAUSAL},
    ),
    "decoder": (lambda n: n.TransformerDecoderLayer(8, 2, 12, 0.0), 2, {}),
    "decoder norm first": (
        lambda n: n.TransformerDecoderLayer(8, 2, 12, 0.0, norm_first=True),
        2,
        {"tgt_mask": CAUSAL, "memory_key_padding_mask": PADDING},
    ),
    "encoders": (
        lambda n: n.TransformerEncoder(
            n.TransformerEncoderLayer(8, 2, 12, 0.0), 2, n.LayerNorm(8)
        ),
        1,
        {"mask": CAUSAL},
    ),
    "decoders": (
        lambda n: n.TransformerDecoder(n.TransformerDecoderLayer(8, 2, 12, 0.0), 2), 2, {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_pytorch(name):
    make, count, masks = LAYERS[name]
    ours, theirs = both(make)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    compare(ours, theirs, [normal(5, 2, 8), normal(6, 2, 8)][:count], masks)
    ours.eval(), theirs.eval()


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_transformer_agrees_with_pytorch(batch_first):
    ours, theirs = both(lambda n: n.Transformer(8, 2, 1, 2, 12, 0.0, batch_first=batch_first))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    shapes = [(6, 2, 8), (5, 2, 8)]
    shapes = [(n, t, f) for t, n, f in shapes] if batch_first else shapes
    masks = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(5).numpy(),
        "src_key_padding_mask": PADDING,
        "memory_key_padding_mask": PADDING,
    }
    assert np.array_equal(
        masks["tgt_mask"], torch.nn.Transformer.generate_square_subsequent_mask(5).numpy()
    )
    compare(ours, theirs, [normal(*s) for s in shapes], masks)


def test_first_values_are_drawn_and_copies_do_not_share_them():
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2)
    first, second = net.layers
    assert np.array_equal(
        first.linear1.weight.detach().numpy(), second.linear1.weight.detach().numpy()
    )
    assert first.linear1.weight is not second.linear1.weight
    assert len(list(net.parameters())) == 2 * len(list(first.parameters()))
    heads = nn.MultiheadAttention(8, 2, add_bias_kv=True)
    assert heads.in_proj_weight.detach().numpy().std() > 0.1
    assert not heads.in_proj_bias.detach().numpy().any()


def test_dropout_works_in_training_alone():
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.5)
    x = clnet.randn(5, 2, 8)
    assert not np.array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())
    layer.eval()
    assert np.array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())


def test_errors_name_what_is_wrong():
    with pytest.raises(ArgumentError, match="num_heads divides embed_dim"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(ArgumentError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="sin")
    x = clnet.ones(5, 2, 8)
    with pytest.raises(ArgumentError, match="hint about attn_mask"):
        nn.MultiheadAttention(8, 2)(x, x, x, is_causal=True)
    with pytest.raises(ShapeError, match="all as many"):
        nn.MultiheadAttention(8, 2)(x, x[0], x[0])
    for mask in (clnet.ones(5, 2), clnet.ones(2, 1), clnet.ones(2, 5, 1)):
        with pytest.raises(ShapeError, match=r"key_padding_mask is \(n, keys\); got .*keys=5"):
            nn.MultiheadAttention(8, 2)(x, x, x, key_padding_mask=mask)
    for mask in (clnet.ones(5, 1), clnet.ones(2, 5, 5), clnet.ones(5)):
        with pytest.raises(ShapeError, match=r"attn_mask is \(length, keys\) or .*heads=2"):
            nn.MultiheadAttention(8, 2)(x, x, x, attn_mask=mask)


PADDED = {
    "at the end": ({}, {}, False, True),
    "with a norm": ({}, {"norm": True}, False, True),
    "gelu": ({"activation": "gelu"}, {}, False, True),
    "at the front": ({}, {}, True, False),
    "norms first": ({"norm_first": True}, {}, False, False),
    "one head": ({"nhead": 1}, {}, False, False),
    "another function": ({"activation": clnet.tanh}, {}, False, False),
    "not asked for": ({}, {"enable_nested_tensor": False}, False, False),
}


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.filterwarnings(
    "ignore:enable_nested_tensor is True", "ignore:The PyTorch API of nested"
)
def test_padded_places_are_0_where_they_are_in_pytorch(name):
    given, over, front, is_zero = PADDED[name]
    host = np.random.default_rng(3).normal(size=(3, 5, 4)).astype(np.float32)
    padded = np.arange(5) >= np.array([[5], [3], [2]])
    padded = padded[:, ::-1].copy() if front else padded
    found, state = [], None
    for library in (clnet, torch):
        nn, more = library.nn, dict(over)
        if more.pop("norm", False):
            more["norm"] = nn.LayerNorm(4)
        held = dict(given)
        if held.get("activation") is clnet.tanh:
            held["activation"] = library.tanh
        layer = nn.TransformerEncoderLayer(
            4, held.pop("nhead", 2), 8, 0.1, batch_first=True, **held
        )
        model = nn.TransformerEncoder(layer, 2, **more).eval()
        state = state or {k: v.numpy() for k, v in model.state_dict().items()}
        model.load_state_dict({k: library.tensor(v) for k, v in state.items()})
        x, mask = library.tensor(host), library.tensor(padded)
        with library.no_grad():
            found.append(model(x, src_key_padding_mask=mask).numpy())
    np.testing.assert_allclose(*found, rtol=2e-4, atol=2e-5)
    assert (found[0][padded] == 0).all() == is_zero
