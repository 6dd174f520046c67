"""How tensors print: the lines of PyTorch, number for number."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from tests.answers import torch

pytestmark = pytest.mark.device

DRAWN = np.random.default_rng(0).standard_normal((60, 60))
PRINTED = {
    "zeros": lambda m: m.zeros(40),
    "whole numbers": lambda m: m.arange(40),
    "whole floats": lambda m: m.arange(30.0),
    "a line that is just full": lambda m: m.tensor(DRAWN[:2, :9].tolist()),
    "three lines a row": lambda m: m.tensor(DRAWN[:3, :17].tolist()),
    "more than the threshold": lambda m: m.tensor(DRAWN.tolist()),
    "a long line": lambda m: m.tensor(DRAWN.reshape(-1).tolist()),
    "three axes": lambda m: m.tensor(DRAWN.reshape(30, 10, 12).tolist()),
    "infinities": lambda m: m.full((2, 12), float("-inf")),
    "infinities among numbers": lambda m: m.tensor([float("inf"), float("nan"), -1.5] * 4),
    "zeros of both signs": lambda m: m.tensor([0.0, -0.0]),
    "large and small": lambda m: m.tensor([1e-6, 1.0, 12345.0]),
    "booleans": lambda m: m.tensor([True, False] * 8),
    "bytes": lambda m: m.arange(30, dtype=m.uint8),
    "complex": lambda m: m.tensor([complex(a, b) for a, b in DRAWN[:10, :2].tolist()]),
    "a dtype that begins a line": lambda m: m.tensor(DRAWN[0, :8].tolist(), dtype=m.float16),
    "a gradient's name": lambda m: m.ones(24, requires_grad=True) * 2,
    "none": lambda m: m.zeros(2, 0),
    "one": lambda m: m.tensor(2.5),
    "coordinates": lambda m: m.eye(14).to_sparse(),
    "compressed rows": lambda m: m.eye(3).to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("make", PRINTED.values(), ids=PRINTED)
def test_a_tensor_prints_as_pytorch_prints_it(make):
    assert repr(make(clnet)).replace("clnet.", "torch.") == repr(make(torch))


@pytest.mark.parametrize(
    "options",
    [
        {"linewidth": 40},
        {"precision": 2},
        {"threshold": 5, "edgeitems": 2},
        {"sci_mode": True},
        {"profile": "full"},
    ],
    ids=str,
)
def test_options_are_those_of_pytorch(options):
    texts = []
    for m in (clnet, torch):
        m.set_printoptions(**options)
        try:
            texts.append(repr(m.tensor(DRAWN[:20, :5].tolist())))
        finally:
            m.set_printoptions(profile="default")
    assert texts[0] == texts[1]
