"""How limits, distributions, transforms, optimisers and layers print, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import clnet
from clnet.values.words import Named

torch = pytest.importorskip("torch")

LIMITS: list[Callable[[Any], Any]] = [
    lambda t: t.finfo(t.float32),
    lambda t: t.finfo(t.float16),
    lambda t: t.finfo(t.bfloat16),
    lambda t: t.finfo(t.complex128),
    lambda t: t.iinfo(t.int8),
    lambda t: t.iinfo(t.uint8),
    lambda t: t.iinfo(t.int64),
]
RANDOM: list[Callable[[Any], Any]] = [
    lambda t: t.distributions.Categorical(t.tensor([0.2, 0.8])),
    lambda t: t.distributions.Categorical(logits=t.zeros(2, 3)),
    lambda t: t.distributions.Multinomial(2, logits=t.zeros(3)),
    lambda t: t.distributions.Bernoulli(logits=t.zeros(3)),
    lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(logits=t.zeros(2)), t.distributions.Normal(t.zeros(2), 1.0)
    ),
    lambda t: t.distributions.ExpTransform().inv,
    lambda t: t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1),
]
LAYERS: list[Callable[[Any], Any]] = [
    lambda t: t.nn.Embedding(3, 4, padding_idx=0, norm_type=1.0, sparse=True),
    lambda t: t.nn.EmbeddingBag(3, 4, mode="sum", max_norm=1.0, padding_idx=0),
    lambda t: t.nn.MultiheadAttention(4, 2),
    lambda t: t.nn.ParameterList(),
    lambda t: t.nn.ParameterDict(),
    lambda t: t.nn.ParameterDict({"a": t.nn.Parameter(t.zeros(2, 3)), "b": 3}),
    lambda t: t.nn.TransformerEncoderLayer(4, 2, 8, bias=False),
]


@pytest.mark.parametrize("made", [*LIMITS, *RANDOM, *LAYERS])
def test_text_is_pytorchs(made, monkeypatch):
    monkeypatch.setattr(Named, "library", "torch")
    assert repr(made(clnet)) == repr(made(torch))


@pytest.mark.parametrize(
    "name",
    "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD LBFGS".split(),
)
def test_text_of_an_optimiser_is_pytorchs(name):
    def made(library: Any) -> Any:
        p = library.nn.Parameter(library.zeros(2))
        return getattr(library.optim, name)([p], lr=0.1)

    assert repr(made(clnet)) == repr(made(torch))


def test_text_of_an_optimiser_with_groups():
    def made(library: Any) -> Any:
        p, q = (library.nn.Parameter(library.zeros(2)) for _ in range(2))
        return library.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5, "name": "q"}], lr=0.1)

    assert repr(made(clnet)) == repr(made(torch))


class Own(clnet.optim.Optimizer):
    """A program's."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.5})


def test_text_of_a_programs_optimisers():
    p = clnet.nn.Parameter(clnet.zeros(2))
    assert repr(Own([p])) == "Own (\nParameter Group 0\n    lr: 0.5\n)"
    heir = type("Heir", (clnet.optim.Adam,), {})([p])
    assert repr(heir) == repr(clnet.optim.Adam([p])).replace("Adam", "Heir")
