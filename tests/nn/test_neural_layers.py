"""Layers of activations, windows, norms and sizes beside PyTorch's: text, state, both passes."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, ShapeError
from tests.answers import torch
from tests.nn.test_against_torch import Layer, agree, both, step

PLANE, ROWS, IMAGES, VOLUMES = (5, 6), (3, 4, 9), (3, 4, 9, 8), (2, 4, 5, 6, 7)
OF = {1: ROWS, 2: IMAGES, 3: VOLUMES}


def plain(name: str, *args, shape=PLANE, **settings) -> tuple[str, Layer]:
    """A layer by name and settings."""
    words = ", ".join([*map(str, args), *(f"{k}={v}" for k, v in settings.items())])
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    layer = Layer(lambda n, t: getattr(n, name)(*args, **settings), shapes)
    return f"{name}({words})", layer


LAYERS = dict(
    [
        *(plain(n) for n in ("ReLU6", "SELU", "Mish", "Softsign", "Tanhshrink", "LogSigmoid")),
        *(plain(n) for n in ("Hardtanh", "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink")),
        plain("CELU", 0.7),
        plain("Hardtanh", -0.5, 2.0),
        plain("Hardshrink", 0.3),
        plain("Threshold", 0.1, 20.0),
        plain("Softplus", 2.0, 1.0),
        plain("GLU"),
        plain("GLU", 1, shape=(3, 4, 5)),
        plain("PReLU"),
        plain("PReLU", 4, shape=IMAGES),
        plain("Softmin", 1),
        plain("Softmax2d", shape=IMAGES),
        plain("Conv1d", 4, 6, 3, shape=ROWS),
        plain("Conv1d", 4, 6, 3, 2, 1, groups=2, bias=False, shape=ROWS),
        plain("Conv3d", 4, 6, (3, 2, 3), padding=1, shape=VOLUMES),
        plain("ConvTranspose1d", 4, 6, 3, 2, 1, 1, shape=ROWS),
        plain("ConvTranspose2d", 4, 6, 3, 2, 1, 1, groups=2, shape=IMAGES),
        plain("ConvTranspose3d", 4, 6, (3, 2, 3), 2, bias=False, dilation=1, shape=VOLUMES),
        *(
            plain(f"Conv{n}d", 4, 3, 3, padding=2, padding_mode=mode, shape=OF[n])
            for n in OF
            for mode in ("reflect", "replicate", "circular")
        ),
        plain("Conv2d", 4, 3, (3, 2), padding="same", padding_mode="reflect", shape=IMAGES),
        *(plain(f"MaxPool{n}d", 2, shape=OF[n]) for n in (1, 3)),
        *(plain(f"MaxPool{n}d", 3, 2, 1, ceil_mode=True, shape=OF[n]) for n in (1, 3)),
        *(plain(f"AvgPool{n}d", 2, shape=OF[n]) for n in (1, 3)),
        *(plain(f"AvgPool{n}d", 3, 2, 1, False, False, shape=OF[n]) for n in (1, 3)),
        *(plain(f"AdaptiveAvgPool{n}d", 3, shape=OF[n]) for n in (1, 3)),
        *(plain(f"AdaptiveMaxPool{n}d", 3, shape=OF[n]) for n in OF),
        *(plain(f"LPPool{n}d", 2, 3, shape=OF[n]) for n in OF),
        plain("LayerNorm", 6),
        plain("LayerNorm", (9, 8), eps=1e-3, shape=IMAGES),
        plain("LayerNorm", 6, bias=False),
        plain("LayerNorm", 6, elementwise_affine=False),
        plain("GroupNorm", 2, 4, shape=IMAGES),
        plain("GroupNorm", 2, 4, affine=False, shape=ROWS),
        *(plain(f"InstanceNorm{n}d", 4, shape=OF[n]) for n in OF),
        *(
            plain(f"InstanceNorm{n}d", 4, affine=True, track_running_stats=True, shape=OF[n])
            for n in OF
        ),
        plain("InstanceNorm2d", 4, affine=True, shape=IMAGES[1:]),
        plain("BatchNorm3d", 4, shape=VOLUMES),
        plain("RMSNorm", 6),
        plain("RMSNorm", (6,), 1e-3, False),
        plain("LocalResponseNorm", 3, 0.5, shape=IMAGES),
        *(
            plain(f"{kind}Pad{n}d", size, shape=OF[n])
            for kind in ("Reflection", "Replication", "Circular", "Zero")
            for n in OF
            for size in (2, (1, 2, 3, 4, 5, 0)[: 2 * n])
            if kind != "Reflection" or size == 2
        ),
        *(plain(f"ConstantPad{n}d", 1, 3.5, shape=OF[n]) for n in OF),
        plain("Upsample", scale_factor=2, shape=IMAGES),
        plain("Upsample", size=(5, 4), mode="bilinear", align_corners=True, shape=IMAGES),
        plain("Upsample", scale_factor=(1.5, 2.0, 1.0), mode="trilinear", shape=VOLUMES),
        plain("Upsample", 5, mode="linear", shape=ROWS),
        plain("UpsamplingNearest2d", scale_factor=3, shape=IMAGES),
        plain("UpsamplingBilinear2d", (5, 7), shape=IMAGES),
        plain("PixelShuffle", 2, shape=IMAGES),
        plain("PixelUnshuffle", 3, shape=(2, 4, 9, 6)),
        plain("ChannelShuffle", 2, shape=IMAGES),
        plain("Unfold", (3, 2), 1, 1, 2, shape=IMAGES),
        plain("Fold", (4, 5), 2, shape=(3, 8, 12)),
        plain("CosineSimilarity", shape=(PLANE, PLANE)),
        plain("PairwiseDistance", 2.0, keepdim=True, shape=(PLANE, PLANE)),
        plain("Bilinear", 6, 4, 3, shape=(PLANE, (5, 4))),
        plain("Bilinear", 6, 4, 3, False, shape=(PLANE, (5, 4))),
        *(plain(f"Dropout{n}d", 0.0, shape=OF[n]) for n in OF),
        plain("AlphaDropout", 0.0),
        plain("FeatureAlphaDropout", 0.0),
    ]
)
EVERY_LAYER = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())


@EVERY_LAYER
def test_text_and_state_are_pytorchs(layer):
    ours, theirs = both(layer)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert tuple(ours.state_dict()[name].shape) == tuple(value.shape)


@EVERY_LAYER
def test_training_and_evaluation_agree_with_pytorch(layer):
    ours, theirs = both(layer)
    step(ours, theirs, layer, seed=0)
    for name, value in theirs.state_dict().items():
        agree(ours.state_dict()[name], value, name)
    step(ours.eval(), theirs.eval(), layer, seed=1)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((n, ()) for n in ("ReLU6", "SELU", "Mish", "Hardsigmoid", "Hardswish", "RReLU", "CELU")),
        ("Hardtanh", (-0.5, 2.0)),
        ("Threshold", (0.1, 20)),
    ],
)
def test_layers_show_inplace_and_overwrite_their_input(name, settings):
    ours, theirs = (getattr(m, name)(*settings, inplace=True).eval() for m in (nn, torch.nn))
    assert repr(ours) == repr(theirs)
    x, z = (m.tensor([-3.0, 0.2, 5.0]) for m in (clnet, torch))
    assert ours(x) is x
    np.testing.assert_allclose(x.numpy(), theirs(z).numpy(), rtol=1e-5)


@pytest.mark.parametrize("axes", OF)
def test_maxima_go_back_where_they_were(axes):
    x = np.random.default_rng(0).standard_normal(OF[axes]).astype("float32")
    pool, unpool = f"MaxPool{axes}d", f"MaxUnpool{axes}d"
    y, index = getattr(nn, pool)(2, return_indices=True)(clnet.tensor(x))
    z, places = getattr(torch.nn, pool)(2, return_indices=True)(torch.tensor(x))
    ours, theirs = getattr(nn, unpool)(2), getattr(torch.nn, unpool)(2)
    assert repr(ours) == repr(theirs)
    agree(ours(y, index, OF[axes]), theirs(z, places, OF[axes]), "with a size")


def test_transposed_convolution_to_a_size():
    ours, theirs = both(Layer(lambda n, t: n.ConvTranspose2d(4, 3, 3, 2, 1), (IMAGES,)))
    x = np.random.default_rng(0).standard_normal(IMAGES).astype("float32")
    agree(ours(clnet.tensor(x), (18, 15)), theirs(torch.tensor(x), (18, 15)), "output")
    with pytest.raises(ShapeError, match=r"^ConvTranspose2d: output_size is \(17, 15\) or less"):
        ours(clnet.tensor(x), (19, 15))


def test_rrelu_layer_draws_in_training_only():
    layer = nn.RReLU(0.1, 0.3)
    assert repr(layer) == repr(torch.nn.RReLU(0.1, 0.3))
    x = -clnet.ones(100)
    assert len(np.unique(layer(x).numpy())) > 50
    np.testing.assert_allclose(layer.eval()(x).numpy(), -0.2, rtol=1e-6)


@pytest.mark.parametrize("name", ["Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"])
def test_channel_dropout_layers(name):
    layer = getattr(nn, name)(0.5)
    shape = {"Dropout1d": ROWS, "Dropout3d": VOLUMES}.get(name, IMAGES)
    assert repr(layer) == repr(getattr(torch.nn, name)(0.5))
    y = layer(clnet.ones(*shape)).numpy().reshape(shape[0], shape[1], -1)
    assert (y == y[..., :1]).all()
    assert len(np.unique(y)) == 2
    x = clnet.ones(*shape)
    assert layer.eval()(x) is x


def test_prelu_starts_anew():
    layer = nn.PReLU(3, 0.5)
    layer.weight.detach().fill_(2.0)
    layer.reset_parameters()
    np.testing.assert_array_equal(layer.weight.detach().numpy(), [0.5] * 3)


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_a_convolution_with_other_weights(mode):
    layers = [n.Conv2d(3, 4, 3, (2, 1), (1, 0), padding_mode=mode) for n in (nn, torch.nn)]
    ours, other = layers
    assert ours._reversed_padding_repeated_twice == list(other._reversed_padding_repeated_twice)
    x, w = np.random.default_rng(1).standard_normal((2, 4, 3, 3, 3)).astype(np.float32)
    got = ours._conv_forward(clnet.tensor(x), clnet.tensor(w), None)
    expected = other._conv_forward(torch.tensor(x), torch.tensor(w), None)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_errors_say_what_is_wrong():
    with pytest.raises(ArgumentError, match=r"^Conv1d: groups divides the channels"):
        nn.Conv1d(3, 4, 3, groups=2)
    with pytest.raises(ArgumentError, match=r"^Conv3d: padding_mode is one of zeros, reflect, "):
        nn.Conv3d(3, 4, 3, padding_mode="mirror")
    with pytest.raises(ArgumentError, match=r"^ConvTranspose2d: padding_mode is 'zeros'"):
        nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect")
    with pytest.raises(ArgumentError, match=r"^Conv1d: padding 'same' needs stride 1"):
        nn.Conv1d(3, 4, 3, 2, "same")
    with pytest.raises(ArgumentError, match=r"^GroupNorm: num_groups divides the channels"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ArgumentError, match=r"^Dropout2d: p lies in \[0, 1\]"):
        nn.Dropout2d(2.0)
    with pytest.raises(ShapeError, match=r"^InstanceNorm1d: x has 2 or 3 axes, and 4 channels"):
        nn.InstanceNorm1d(4, affine=True)(clnet.ones(2, 3, 5))
    with pytest.raises(ShapeError, match=r"^ReflectionPad1d: x has 2 or 3 axes"):
        nn.ReflectionPad1d(1)(clnet.ones(2))
    with pytest.raises(ShapeError, match=r"^ReflectionPad1d: padding is an int or 2 ints"):
        nn.ReflectionPad1d((1, 2, 3))
    with pytest.raises(ShapeError, match=r"^Softmax2d: x is "):
        nn.Softmax2d()(clnet.ones(2))


def test_instance_norm_without_parameters_takes_any_channels():
    x = clnet.tensor(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    with pytest.warns(UserWarning, match="x has 2 channels, not the 5 of the layer"):
        y = nn.InstanceNorm1d(5)(x)
    np.testing.assert_allclose(y.mean(-1).numpy(), 0, atol=1e-6)
    with pytest.warns(UserWarning, match="x has 2 channels"):
        assert nn.InstanceNorm1d(5)(x[0]).shape == (2, 3)
    for given in ({"affine": True}, {"track_running_stats": True}):
        with pytest.raises(ShapeError, match="5 channels"):
            nn.InstanceNorm1d(5, **given)(x)
