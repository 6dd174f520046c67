"""Every layer beside PyTorch's: text, state, values, gradients and running averages.

One factory makes both: it is called with ``clnet.nn`` and with ``torch.nn``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from tests.answers import torch

RELATIVE = 1e-4


@dataclass(frozen=True)
class Layer:
    """A layer, by a factory of the library's ``nn`` and its function that makes a tensor of a list.

    Attributes:
        make: ``make(nn, tensor)``.
        shapes: of its floating inputs.
        classes: shapes and bounds of its whole-number inputs, which come last.
        positive: whether the floating inputs are probabilities.
    """

    make: Any
    shapes: tuple[tuple[int, ...], ...]
    classes: tuple[tuple[tuple[int, ...], int], ...] = ()
    positive: bool = False


IMAGES = (3, 4, 9, 8)
PLANE = (5, 6)

LAYERS = {
    "Linear": Layer(lambda n, t: n.Linear(7, 5), ((3, 7),)),
    "Linear no bias, 3 axes": Layer(lambda n, t: n.Linear(7, 5, bias=False), ((2, 3, 7),)),
    "Identity": Layer(lambda n, t: n.Identity(), (PLANE,)),
    "Flatten": Layer(lambda n, t: n.Flatten(), (IMAGES,)),
    "Flatten middle": Layer(lambda n, t: n.Flatten(1, 2), (IMAGES,)),
    "Conv2d": Layer(lambda n, t: n.Conv2d(4, 6, 3, padding=1), (IMAGES,)),
    "Conv2d strided": Layer(lambda n, t: n.Conv2d(4, 6, (3, 2), (2, 1), (1, 0)), (IMAGES,)),
    "Conv2d groups": Layer(lambda n, t: n.Conv2d(4, 8, 3, groups=2, bias=False), (IMAGES,)),
    "Conv2d dilated": Layer(lambda n, t: n.Conv2d(4, 5, 3, padding=2, dilation=2), (IMAGES,)),
    "Conv2d same": Layer(lambda n, t: n.Conv2d(4, 5, 3, padding="same"), (IMAGES,)),
    "Conv2d valid": Layer(lambda n, t: n.Conv2d(4, 5, 3, padding="valid"), (IMAGES,)),
    "BatchNorm1d": Layer(lambda n, t: n.BatchNorm1d(6), (PLANE,)),
    "BatchNorm1d rows": Layer(lambda n, t: n.BatchNorm1d(4, momentum=0.3), ((3, 4, 7),)),
    "BatchNorm2d": Layer(lambda n, t: n.BatchNorm2d(4, eps=1e-3), (IMAGES,)),
    "BatchNorm2d not affine": Layer(lambda n, t: n.BatchNorm2d(4, affine=False), (IMAGES,)),
    "BatchNorm2d no bias": Layer(lambda n, t: n.BatchNorm2d(4, bias=False), (IMAGES,)),
    "BatchNorm2d cumulative": Layer(lambda n, t: n.BatchNorm2d(4, momentum=None), (IMAGES,)),
    "BatchNorm2d not tracked": Layer(
        lambda n, t: n.BatchNorm2d(4, track_running_stats=False), (IMAGES,)
    ),
    "MaxPool2d": Layer(lambda n, t: n.MaxPool2d(2), (IMAGES,)),
    "MaxPool2d overlapping": Layer(lambda n, t: n.MaxPool2d(3, stride=2, padding=1), (IMAGES,)),
    "MaxPool2d ceil": Layer(lambda n, t: n.MaxPool2d(3, 2, ceil_mode=True), (IMAGES,)),
    "AvgPool2d": Layer(lambda n, t: n.AvgPool2d(2), (IMAGES,)),
    "AvgPool2d padded": Layer(lambda n, t: n.AvgPool2d(3, 2, 1), (IMAGES,)),
    "AvgPool2d not counted": Layer(
        lambda n, t: n.AvgPool2d(3, 2, 1, count_include_pad=False), (IMAGES,)
    ),
    "AvgPool2d divisor": Layer(lambda n, t: n.AvgPool2d(2, divisor_override=3), (IMAGES,)),
    "AdaptiveAvgPool2d": Layer(lambda n, t: n.AdaptiveAvgPool2d((4, 3)), (IMAGES,)),
    "AdaptiveAvgPool2d to 1": Layer(lambda n, t: n.AdaptiveAvgPool2d(1), (IMAGES,)),
    "AdaptiveAvgPool2d one axis": Layer(lambda n, t: n.AdaptiveAvgPool2d((2, None)), (IMAGES,)),
    "ReLU": Layer(lambda n, t: n.ReLU(), (PLANE,)),
    "Tanh": Layer(lambda n, t: n.Tanh(), (PLANE,)),
    "Sigmoid": Layer(lambda n, t: n.Sigmoid(), (PLANE,)),
    "GELU": Layer(lambda n, t: n.GELU(), (PLANE,)),
    "GELU tanh": Layer(lambda n, t: n.GELU("tanh"), (PLANE,)),
    "SiLU": Layer(lambda n, t: n.SiLU(), (PLANE,)),
    "ELU": Layer(lambda n, t: n.ELU(0.7), (PLANE,)),
    "LeakyReLU": Layer(lambda n, t: n.LeakyReLU(0.2), (PLANE,)),
    "Softplus": Layer(lambda n, t: n.Softplus(), (PLANE,)),
    "Softplus beta": Layer(lambda n, t: n.Softplus(beta=2.0), (PLANE,)),
    "Softmax": Layer(lambda n, t: n.Softmax(dim=1), (PLANE,)),
    "Softmax channels": Layer(lambda n, t: n.Softmax(1), (IMAGES,)),
    "LogSoftmax": Layer(lambda n, t: n.LogSoftmax(dim=-1), (PLANE,)),
    "Dropout of nothing": Layer(lambda n, t: n.Dropout(0.0), (PLANE,)),
    "Embedding": Layer(lambda n, t: n.Embedding(9, 4), (), (((3, 5), 9),)),
    "Embedding padded": Layer(lambda n, t: n.Embedding(4, 3, padding_idx=-2), (), (((3, 7), 4),)),
    "EmbeddingBag": Layer(lambda n, t: n.EmbeddingBag(9, 4), (), (((3, 5), 9),)),
    "CrossEntropyLoss": Layer(lambda n, t: n.CrossEntropyLoss(), (PLANE,), (((5,), 6),)),
    "CrossEntropyLoss sum": Layer(
        lambda n, t: n.CrossEntropyLoss(reduction="sum"), (IMAGES,), (((3, 9, 8), 4),)
    ),
    "CrossEntropyLoss none": Layer(
        lambda n, t: n.CrossEntropyLoss(reduction="none"), (PLANE,), (((5,), 6),)
    ),
    "CrossEntropyLoss ignored": Layer(
        lambda n, t: n.CrossEntropyLoss(ignore_index=1), ((12, 3),), (((12,), 3),)
    ),
    "CrossEntropyLoss weighted": Layer(
        lambda n, t: n.CrossEntropyLoss(weight=t([0.5, 1.0, 2.0])), ((7, 3),), (((7,), 3),)
    ),
    "CrossEntropyLoss smoothed": Layer(
        lambda n, t: n.CrossEntropyLoss(label_smoothing=0.1), (PLANE,), (((5,), 6),)
    ),
    "NLLLoss": Layer(lambda n, t: n.NLLLoss(), (PLANE,), (((5,), 6),)),
    "NLLLoss weighted": Layer(
        lambda n, t: n.NLLLoss(weight=t([0.5, 1.0, 2.0])), ((7, 3),), (((7,), 3),)
    ),
    "MSELoss": Layer(lambda n, t: n.MSELoss(), (PLANE, PLANE)),
    "MSELoss none": Layer(lambda n, t: n.MSELoss(reduction="none"), (PLANE, PLANE)),
    "L1Loss": Layer(lambda n, t: n.L1Loss(), (PLANE, PLANE)),
    "L1Loss sum": Layer(lambda n, t: n.L1Loss(reduction="sum"), (PLANE, PLANE)),
    "SmoothL1Loss": Layer(lambda n, t: n.SmoothL1Loss(beta=0.7), (PLANE, PLANE)),
    "HuberLoss": Layer(lambda n, t: n.HuberLoss(delta=0.7), (PLANE, PLANE)),
    "BCELoss": Layer(lambda n, t: n.BCELoss(), (PLANE, PLANE), positive=True),
    "BCEWithLogitsLoss": Layer(lambda n, t: n.BCEWithLogitsLoss(), (PLANE, PLANE), positive=True),
    "BCEWithLogitsLoss weighted": Layer(
        lambda n, t: n.BCEWithLogitsLoss(pos_weight=t([1.0, 2.0, 3.0, 0.5, 1.0, 2.0])),
        (PLANE, PLANE),
        positive=True,
    ),
    "a network": Layer(
        lambda n, t: n.Sequential(
            n.Conv2d(4, 8, 3, padding=1, bias=False),
            n.BatchNorm2d(8),
            n.ReLU(),
            n.MaxPool2d(2),
            n.Flatten(),
            n.Linear(8 * 4 * 4, 5),
        ),
        (IMAGES,),
    ),
}

EVERY_LAYER = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())


def drawn(layer: Layer, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    floating = [
        (rng.uniform(0.05, 0.95, s) if layer.positive else rng.standard_normal(s)).astype("float32")
        for s in layer.shapes
    ]
    return floating, [rng.integers(0, bound, shape) for shape, bound in layer.classes]


def both(layer: Layer) -> tuple[nn.Module, Any]:
    """clnet's and PyTorch's layer with the same values, running averages moved off 0 and 1."""
    torch.manual_seed(0)
    theirs = layer.make(torch.nn, torch.tensor)
    for name, buffer in theirs.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer += torch.rand_like(buffer)
    ours = layer.make(nn, clnet.tensor)
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return ours, theirs


def agree(ours: Any, theirs: Any, what: str) -> None:
    x, y = np.asarray(ours.detach(), np.float64), theirs.detach().numpy().astype(np.float64)
    assert x.shape == y.shape, what
    assert np.abs(x - y).max(initial=0) <= RELATIVE * np.abs(y).max(initial=1e-6), what


def step(ours: nn.Module, theirs: Any, layer: Layer, seed: int) -> None:
    """Forward and backward on the same inputs; outputs and gradients agree."""
    floating, whole = drawn(layer, seed)
    ours_in = [clnet.tensor(x, requires_grad=True) for x in floating]
    theirs_in = [torch.tensor(x, requires_grad=True) for x in floating]
    y = ours(*ours_in, *map(clnet.tensor, whole))
    z = theirs(*theirs_in, *map(torch.tensor, whole))
    agree(y, z, "output")
    weights = np.random.default_rng(seed + 100).standard_normal(y.shape).astype("float32")
    ours.zero_grad()
    theirs.zero_grad()
    y.backward(clnet.tensor(weights))
    z.backward(torch.tensor(weights))
    for i, (a, b) in enumerate(zip(ours_in, theirs_in, strict=True)):
        agree(a.grad, b.grad, f"gradient of input {i}")
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        agree(parameter.grad, expected[name].grad, f"gradient of {name}")


@EVERY_LAYER
def test_text_and_state_are_pytorchs(layer):
    ours, theirs = both(layer)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]


@EVERY_LAYER
def test_training_agrees_with_pytorch(layer):
    ours, theirs = both(layer)
    for seed in range(2):  # the second batch meets the running averages of the first
        step(ours, theirs, layer, seed)
    for name, value in theirs.state_dict().items():
        agree(ours.state_dict()[name], value, name)


@EVERY_LAYER
def test_evaluation_agrees_with_pytorch(layer):
    ours, theirs = both(layer)
    before = {name: np.asarray(value) for name, value in ours.state_dict().items()}
    step(ours.eval(), theirs.eval(), layer, seed=0)
    for name, value in ours.state_dict().items():
        assert np.array_equal(np.asarray(value), before[name]), name


def test_maxima_and_their_places_agree_with_pytorch():
    x = np.random.default_rng(0).standard_normal(IMAGES).astype("float32")
    y, index = nn.MaxPool2d(2, return_indices=True)(clnet.tensor(x))
    z, expected = torch.nn.MaxPool2d(2, return_indices=True)(torch.tensor(x))
    agree(y, z, "maxima")
    assert np.array_equal(np.asarray(index), expected.numpy())


def test_a_comparison_that_should_fail_does():
    ours, theirs = both(LAYERS["Linear"])
    theirs.weight.data[0, 0] += 0.01
    with pytest.raises(AssertionError, match="output"):
        step(ours, theirs, LAYERS["Linear"], seed=0)
