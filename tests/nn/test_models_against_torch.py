"""Known architectures, each written once and built with clnet's and with PyTorch's ``nn``.

The same ``state_dict`` gives the same results and the same gradients of the parameters.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.nn import functional as F
from tests.answers import torch

pytestmark = pytest.mark.device

RELATIVE = 1e-4
OURS = SimpleNamespace(lib=clnet, nn=nn, F=F)


def pytorchs() -> SimpleNamespace:
    return SimpleNamespace(lib=torch, nn=torch.nn, F=torch.nn.functional)


def conv(n: Any, a: int, b: int, size: int = 3, **options: Any) -> Any:
    return n.Conv2d(a, b, size, padding=size // 2, bias=False, **options)


def resnet18(m):
    class Block(m.nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.conv1, self.bn1 = conv(m.nn, a, b, stride=stride), m.nn.BatchNorm2d(b)
            self.conv2, self.bn2 = conv(m.nn, b, b), m.nn.BatchNorm2d(b)
            self.relu = m.nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or a != b:
                self.downsample = m.nn.Sequential(
                    conv(m.nn, a, b, 1, stride=stride), m.nn.BatchNorm2d(b)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet(m.nn.Module):
        def __init__(self):
            super().__init__()
            widths = (8, 8, 16, 24, 32)
            self.conv1 = m.nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False)
            self.bn1 = m.nn.BatchNorm2d(widths[0])
            self.relu = m.nn.ReLU(inplace=True)
            self.maxpool = m.nn.MaxPool2d(3, stride=2, padding=1)
            for i in range(4):
                a, b, stride = widths[i], widths[i + 1], 1 if i == 0 else 2
                setattr(self, f"layer{i + 1}", m.nn.Sequential(Block(a, b, stride), Block(b, b, 1)))
            self.avgpool = m.nn.AdaptiveAvgPool2d((1, 1))
            self.fc = m.nn.Linear(widths[-1], 10)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(m.lib.flatten(self.avgpool(x), 1))

    return ResNet()


def vgg(m):
    class VGG(m.nn.Module):
        def __init__(self):
            super().__init__()
            layers, a = [], 3
            for b in (8, "M", 16, "M", 16, 16, "M"):
                if b == "M":
                    layers.append(m.nn.MaxPool2d(2, 2))
                else:
                    layers += [m.nn.Conv2d(a, b, 3, padding=1), m.nn.ReLU(True)]
                    a = b
            self.features = m.nn.Sequential(*layers)
            self.avgpool = m.nn.AdaptiveAvgPool2d((2, 2))
            self.classifier = m.nn.Sequential(
                m.nn.Linear(64, 32), m.nn.ReLU(True), m.nn.Dropout(0.0), m.nn.Linear(32, 10)
            )

        def forward(self, x):
            return self.classifier(m.lib.flatten(self.avgpool(self.features(x)), 1))

    return VGG()


def mobilenet(m):
    def unit(a, b, size=3, stride=1, groups=1):
        return [
            conv(m.nn, a, b, size, stride=stride, groups=groups),
            m.nn.BatchNorm2d(b),
            m.nn.ReLU6(inplace=True),
        ]

    class InvertedResidual(m.nn.Module):
        def __init__(self, a, b, stride, expand):
            super().__init__()
            inner = a * expand
            layers = [] if expand == 1 else [m.nn.Sequential(*unit(a, inner, 1))]
            layers.append(m.nn.Sequential(*unit(inner, inner, stride=stride, groups=inner)))
            layers += [conv(m.nn, inner, b, 1), m.nn.BatchNorm2d(b)]
            self.conv = m.nn.Sequential(*layers)
            self.residual = stride == 1 and a == b

        def forward(self, x):
            return x + self.conv(x) if self.residual else self.conv(x)

    return m.nn.Sequential(
        m.nn.Sequential(*unit(3, 8, stride=2)),
        InvertedResidual(8, 8, 1, 1),
        InvertedResidual(8, 12, 2, 4),
        InvertedResidual(12, 12, 1, 4),
        m.nn.AdaptiveAvgPool2d(1),
        m.nn.Flatten(),
        m.nn.Linear(12, 10),
    )


def densenet(m):
    class DenseLayer(m.nn.Module):
        def __init__(self, a, growth):
            super().__init__()
            self.norm1, self.relu1 = m.nn.BatchNorm2d(a), m.nn.ReLU(inplace=True)
            self.conv1 = m.nn.Conv2d(a, 4 * growth, 1, bias=False)
            self.norm2, self.relu2 = m.nn.BatchNorm2d(4 * growth), m.nn.ReLU(inplace=True)
            self.conv2 = conv(m.nn, 4 * growth, growth)

        def forward(self, features):
            y = self.conv1(self.relu1(self.norm1(m.lib.cat(features, 1))))
            return self.conv2(self.relu2(self.norm2(y)))

    class DenseBlock(m.nn.ModuleDict):
        def __init__(self):
            super().__init__()
            for i in range(3):
                self.add_module(f"denselayer{i + 1}", DenseLayer(6 + 4 * i, 4))

        def forward(self, x):
            features = [x]
            for layer in self.values():
                features.append(layer(features))
            return m.lib.cat(features, 1)

    return m.nn.Sequential(
        conv(m.nn, 3, 6), DenseBlock(), m.nn.BatchNorm2d(18), m.nn.ReLU(), m.nn.Conv2d(18, 9, 1),
        m.nn.AvgPool2d(2),
    )  # fmt: skip


def unet(m):
    def double(a, b):
        layers = []
        for c in (a, b):
            layers += [conv(m.nn, c, b), m.nn.BatchNorm2d(b), m.nn.ReLU(inplace=True)]
        return m.nn.Sequential(*layers)

    class UNet(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.inc, self.down1, self.down2 = double(3, 6), double(6, 12), double(12, 24)
            self.pool = m.nn.MaxPool2d(2)
            self.up1 = m.nn.ConvTranspose2d(24, 12, 2, stride=2)
            self.conv1 = double(24, 12)
            self.up2 = m.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv2 = double(18, 6)
            self.outc = m.nn.Conv2d(6, 2, 1)

        def forward(self, x):
            a = self.inc(x)
            b = self.down1(self.pool(a))
            c = self.down2(self.pool(b))
            y = self.conv1(m.lib.cat([b, self.up1(c)], 1))
            return self.outc(self.conv2(m.lib.cat([a, self.up2(y)], 1)))

    return UNet()


def gpt(m):
    width, heads, length, words = 16, 2, 12, 23

    class CausalSelfAttention(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn = m.nn.Linear(width, 3 * width)
            self.c_proj = m.nn.Linear(width, width)

        def forward(self, x):
            n, t, c = x.shape
            q, k, v = (
                part.view(n, t, heads, c // heads).transpose(1, 2)
                for part in self.c_attn(x).split(c, 2)
            )
            y = m.F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(n, t, c))

    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn = m.nn.LayerNorm(width), CausalSelfAttention()
            self.ln_2 = m.nn.LayerNorm(width)
            self.mlp = m.nn.Sequential(
                m.nn.Linear(width, 4 * width), m.nn.GELU("tanh"), m.nn.Linear(4 * width, width)
            )

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = m.nn.Embedding(words, width), m.nn.Embedding(length, width)
            self.h = m.nn.ModuleList([Block() for _ in range(2)])
            self.ln_f = m.nn.LayerNorm(width)
            self.lm_head = m.nn.Linear(width, words, bias=False)
            self.wte.weight = self.lm_head.weight  # one tensor under two names

        def forward(self, idx):
            place = m.lib.arange(idx.shape[1])
            x = self.wte(idx) + self.wpe(place)
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    return GPT()


def language_model(m):
    class LanguageModel(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = m.nn.Embedding(23, 12)
            self.rnn = m.nn.LSTM(12, 16, num_layers=2, batch_first=True)
            self.decoder = m.nn.Linear(16, 23)

        def forward(self, idx):
            return self.decoder(self.rnn(self.encoder(idx))[0])

    return LanguageModel()


MODELS = {
    "ResNet-18": (resnet18, "images"),
    "VGG": (vgg, "images"),
    "MobileNetV2": (mobilenet, "images"),
    "DenseNet": (densenet, "images"),
    "U-Net": (unet, "images"),
    "GPT": (gpt, "words"),
    "LSTM language model": (language_model, "words"),
}


def keep_signals(model: Any) -> None:
    """Weights that let signals neither fade nor grow, as PyTorch's own do where no norm helps."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.kaiming_normal_(parameter, nonlinearity="relu")


def relative(a: Any, b: Any) -> float:
    x, y = a.detach().numpy().astype(np.float64), b.detach().numpy().astype(np.float64)
    assert x.shape == y.shape
    return float(np.linalg.norm(x - y) / max(np.linalg.norm(y), 1e-12))


def is_as_near(own: Any, their: Any, exact: Any) -> bool:
    """Whether the rounding errors are small, or, where a network enlarges them, PyTorch's."""
    return relative(own, exact) < max(RELATIVE, 3 * relative(their, exact))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", MODELS)
def test_models_agree_with_pytorch(name, training):
    # A unit within rounding of its kink may fall on the other side: with one input, not with three.
    complaints = [differences(name, training=training, seed=0)]
    while complaints[-1] and len(complaints) < 3:
        complaints.append(differences(name, training=training, seed=len(complaints)))
    assert not complaints[-1], complaints


def differences(name: str, *, training: bool, seed: int) -> list[str]:
    """What is not as near to the exact result and gradients as PyTorch's."""
    make, kind = MODELS[name]
    torch.manual_seed(0)
    theirs, ours = make(pytorchs()).train(training), make(OURS).train(training)
    if name == "VGG":
        keep_signals(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    exact = copy.deepcopy(theirs).double()
    rng = np.random.default_rng(seed)
    x = (
        rng.standard_normal((2, 3, 64, 64)).astype("f4")
        if kind == "images"
        else rng.integers(0, 23, (3, 10))
    )
    given = torch.tensor(x)
    y, z = ours(clnet.tensor(x)), theirs(given)
    true = exact(given.double() if kind == "images" else given)
    bad = [] if is_as_near(y, z, true) else ["the result"]
    weights = rng.standard_normal(tuple(y.shape)).astype("f4")
    y.backward(clnet.tensor(weights))
    z.backward(torch.tensor(weights))
    true.backward(torch.tensor(weights).double())
    expected, reference = dict(theirs.named_parameters()), dict(exact.named_parameters())
    assert [n for n, _ in ours.named_parameters()] == list(expected)
    norms = {n: float(p.grad.norm()) for n, p in expected.items()}
    largest = max(norms.values())
    assert name != "VGG" or min(norms.values()) > 1e-2 * largest, "every gradient is compared"
    for parameter_name, parameter in ours.named_parameters():
        own, their = parameter.grad, expected[parameter_name].grad
        if norms[parameter_name] > 1e-5 * largest:  # a bias before a norm has only rounding for one
            best = reference[parameter_name].grad
            if not is_as_near(own, their, best):
                own_error, their_error = relative(own, best), relative(their, best)
                bad.append(f"{parameter_name}: {own_error:.1e}, PyTorch {their_error:.1e}")
    return bad


def test_a_difference_is_seen():
    torch.manual_seed(0)
    theirs, ours = vgg(pytorchs()), vgg(OURS)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    theirs.features[0].weight.data *= 1.02
    x = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype("f4")
    assert relative(ours(clnet.tensor(x)), theirs(torch.tensor(x))) > RELATIVE
