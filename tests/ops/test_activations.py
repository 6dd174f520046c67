"""Activation functions beside PyTorch's: values, gradients, second gradients, kinks, errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, BoundsError, ShapeError
from clnet.nn import functional as F
from tests.opcase import Draw, every_check, normal, sliced
from tests.torchcase import torch_case

pytestmark = pytest.mark.device

X = normal(7, 33, scale=3)
smooth = partial(torch_case, layouts=(sliced,), shapes=(), grad2=True)
bent = partial(torch_case, layouts=(sliced,), shapes=())


def away(*kinks: float) -> Draw:
    return normal(7, 33, scale=3, dodge=kinks)


CASES = [
    bent("relu6", [away(0, 6)]),
    bent("hardtanh", [away(-1, 1)]),
    bent("hardtanh", [away(-0.5, 2)], -0.5, 2.0),
    bent("hardsigmoid", [away(-3, 3)]),
    smooth("hardswish", [away(-3, 3)]),
    smooth("selu", [away(0)]),
    smooth("celu", [away(0)], 1.7),
    smooth("mish", [X]),
    smooth("tanhshrink", [X]),
    smooth("logsigmoid", [X]),
    bent("hardshrink", [away(-0.5, 0.5)]),
    bent("softshrink", [away(-0.7, 0.7)], 0.7),
    bent("threshold", [away(0.2)], 0.2, -7.0),
    bent("softplus", [away(0.5)], 2.0, 1.0, label="beta=2, threshold=1"),
    smooth("glu", [normal(5, 8)]),
    smooth("glu", [normal(4, 6, 3)], 1),
    smooth("prelu", [away(0), normal(33)], label="one a channel"),
    bent("prelu", [normal(7, 3, 5, dodge=(0,)), normal(1)], label="one"),
    smooth("softmin", [normal(4, 9)], 1),
    bent("rrelu", [away(0)], label="evaluation"),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


CORNERS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e4, -1e4, 6.0, 3.0, -3.0, 0.5]
KINKS = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 200.0, -200.0]
NAMES = (
    "relu6 hardtanh hardsigmoid hardswish selu celu mish softsign tanhshrink logsigmoid "
    "hardshrink softshrink softplus"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_values_at_corners_and_gradients_at_kinks_are_pytorchs(name):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    skip_nan = {"hardsigmoid", "hardswish", "relu6", "hardtanh", "mish", "selu", "celu"}
    values = [c for c in CORNERS if name not in skip_nan or np.isfinite(c)]
    ours = getattr(F, name)(clnet.tensor(values)).numpy()
    theirs = getattr(torch.nn.functional, name)(torch.tensor(values)).numpy()
    finite = np.isfinite(theirs)
    np.testing.assert_allclose(ours[finite], theirs[finite], rtol=3e-6, atol=1e-6)
    x, z = clnet.tensor(KINKS, requires_grad=True), torch.tensor(KINKS, requires_grad=True)
    getattr(F, name)(x).sum().backward()
    getattr(torch.nn.functional, name)(z).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=3e-5, atol=2e-6)


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "elu", "leaky_relu", "silu", "mish", "hardswish"]
)
def test_inplace_overwrites(name):
    x = clnet.tensor([-1.0, 2.0])
    expected = getattr(F, name)(x).numpy()
    assert x.tolist() == [-1, 2]
    assert getattr(F, name)(x, inplace=True) is x
    np.testing.assert_array_equal(x.numpy(), expected)


def test_rrelu_draws_slopes_within_its_bounds_in_training():
    x = -clnet.ones(2000)
    slopes = -F.rrelu(x, 0.2, 0.4, training=True).numpy()
    assert 0.2 <= slopes.min() < 0.21
    assert 0.39 < slopes.max() <= 0.4
    assert len(np.unique(slopes)) > 1000


def test_errors_say_what_is_wrong():
    with pytest.raises(ArgumentError, match=r"^rrelu: lower is at most upper.*got lower=0\.5, "):
        F.rrelu(clnet.ones(2), 0.5, 0.1)
    with pytest.raises(ShapeError, match=r"^glu: the axis halved has an even size; got x=\(3,\)"):
        F.glu(clnet.ones(3))
    with pytest.raises(BoundsError, match=r"^glu: "):
        F.glu(clnet.ones(2), 1)
    with pytest.raises(ShapeError, match=r"^prelu: weight has one slope, or one a channel; got"):
        F.prelu(clnet.ones(2, 3), clnet.ones(2))
