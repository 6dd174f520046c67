"""Losses of likelihoods, pairs, triplets and margins against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.errors import ArgumentError, ShapeError
from tests.opcase import Draw, OpCase, every_check, integers, normal, positive

SIGNS = Draw((4, 3), lambda rng, s: np.where(rng.random(s) < 0.5, -1.0, 1.0), grad=False)
SIGN = Draw((5,), lambda rng, s: np.where(rng.random(s) < 0.5, -1.0, 1.0), grad=False)
LABELS = Draw((2, 4), lambda rng, s: np.broadcast_to([2, 0, -1, 1][: s[-1]], s).astype(np.int64))


def none(name, **options):
    return lambda *a: getattr(ops, name)(*a, reduction="none", **options)


def hinge(z):
    return np.maximum(z, 0)


def cosine_ref(a, b, y):
    cos = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return np.where(y == 1, 1 - cos, hinge(cos - 0.2))


def distance(a, b):
    return np.sqrt(((a - b + 1e-6) ** 2).sum(-1))


def multi_margin_ref(x, t, w, p=1):
    right = np.take_along_axis(x, t[:, None], 1)
    losses = hinge(1 - right + x) ** p * w[t][:, None]
    np.put_along_axis(losses, t[:, None], 0, 1)
    return losses.mean(-1)


def label_margin_ref(x, t):
    """The labels of every row are 2 and 0."""
    kept = [i for i in range(x.shape[-1]) if i not in (2, 0)]
    return hinge(1 - x[:, [2, 0]][:, :, None] + x[:, None, kept]).sum((1, 2)) / x.shape[-1]


def classes_of_linear(x, w, t, b):
    scores = x @ w.T + b
    scores = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return -np.take_along_axis(scores, t[:, None], 1)[:, 0]


CASES = [
    OpCase(
        lambda x, w, t, b: ops.linear_cross_entropy(x, w, t, linear_bias=b, reduction="none"),
        classes_of_linear,
        [normal(6, 4), normal(5, 4), integers(0, 5, (6,)), normal(5)],
        k=20,
        name="linear_cross_entropy",
        shapes=[],
    ),
    OpCase(
        none("kl_div"), lambda x, t: t * (np.log(t) - x), [normal(4, 3), positive(4, 3)],
        grad2=True, name="kl_div",
    ),
    OpCase(
        none("kl_div", log_target=True), lambda x, t: np.exp(t) * (t - x),
        [normal(4, 3), normal(4, 3)], name="kl_div", label="log_target",
    ),
    OpCase(
        none("poisson_nll_loss"), lambda x, t: np.exp(x) - t * x, [normal(4, 3), positive(4, 3)],
        grad2=True, name="poisson_nll_loss",
    ),
    OpCase(
        none("poisson_nll_loss", log_input=False, full=True),
        lambda x, t: x - t * np.log(x + 1e-8)
        + np.where(t > 1, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t), 0),
        [positive(4, 3), Draw((4, 3), lambda rng, s: rng.integers(0, 5, s) + 0.5, grad=False)],
        name="poisson_nll_loss", label="rates",
    ),
    OpCase(
        none("gaussian_nll_loss"), lambda x, t, v: 0.5 * (np.log(v) + (x - t) ** 2 / v),
        [normal(4, 3), normal(4, 3), positive(4, 3)], grad2=True, name="gaussian_nll_loss",
    ),
    OpCase(
        none("hinge_embedding_loss"), lambda x, y: np.where(y == 1, x, hinge(1 - x)),
        [normal(4, 3, dodge=(1,)), SIGNS], name="hinge_embedding_loss",
    ),
    OpCase(
        none("margin_ranking_loss", margin=8.0), lambda a, b, y: hinge(8 - y * (a - b)),
        [normal(4, 3), normal(4, 3), SIGNS], name="margin_ranking_loss",
    ),
    OpCase(
        none("soft_margin_loss"), lambda x, y: np.log1p(np.exp(-y * x)), [normal(4, 3), SIGNS],
        grad2=True, name="soft_margin_loss",
    ),
    OpCase(
        none("cosine_embedding_loss", margin=0.2), cosine_ref, [normal(5, 4), normal(5, 4), SIGN],
        name="cosine_embedding_loss", k=4,
    ),
    OpCase(
        none("triplet_margin_loss", margin=9.0),
        lambda a, p, n: hinge(distance(a, p) - distance(a, n) + 9),
        [normal(4, 5), normal(4, 5), normal(4, 5)], name="triplet_margin_loss", k=5,
        layouts=(), shapes=(),
    ),
    OpCase(
        none("triplet_margin_with_distance_loss", margin=9.0,
             distance_function=lambda a, b: (a - b).abs().sum(-1)),
        lambda a, p, n: hinge(np.abs(a - p).sum(-1) - np.abs(a - n).sum(-1) + 9),
        [normal(4, 5), normal(4, 5), normal(4, 5)], name="triplet_margin_with_distance_loss", k=5,
        layouts=(), shapes=(),
    ),
    OpCase(
        lambda x, t, w: ops.multi_margin_loss(x, t, weight=w, reduction="none"), multi_margin_ref,
        [normal(6, 4, scale=0.2), integers(0, 4, (6,)), positive(4, grad=False)],
        name="multi_margin_loss", k=4,
    ),
    OpCase(
        none("multilabel_margin_loss"), label_margin_ref, [normal(2, 4, scale=0.2), LABELS],
        name="multilabel_margin_loss", k=6, shapes=(), layouts=(),
    ),
    OpCase(
        none("multilabel_soft_margin_loss"),
        lambda x, t: (np.logaddexp(0, x) - t * x).mean(-1), [normal(4, 3), positive(4, 3)],
        name="multilabel_soft_margin_loss", k=3,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_margin_loss(case, check, device):
    check(case, device)


rng = np.random.default_rng(0)
F4 = [rng.standard_normal((4, 3)).astype("f4") for _ in range(3)]
PROBABILITIES = rng.uniform(0, 1, (4, 3)).astype("f4")
PROBABILITIES[0, 0] = 0
PLUS_MINUS = np.sign(F4[2])
ROW = np.array([1.0, -1.0, 1.0, -1.0], "f4")
CLASSES, SETS = np.array([0, 2, 1, 1]), np.array([[0, 2, -1], [1, -1, 0], [-1, 0, 1], [2, 1, 0]])
MODULES = [
    ("KLDivLoss", {"reduction": "batchmean"}, (F4[0], PROBABILITIES)),
    ("KLDivLoss", {"log_target": True, "reduction": "sum"}, (F4[0], F4[1])),
    ("PoissonNLLLoss", {"full": True}, (F4[0], 3 * PROBABILITIES)),
    ("PoissonNLLLoss", {"log_input": False, "eps": 1e-3}, (1 + PROBABILITIES, 3 * PROBABILITIES)),
    ("GaussianNLLLoss", {"full": True}, (F4[0], F4[1], 1 + PROBABILITIES)),
    ("GaussianNLLLoss", {"eps": 0.3}, (F4[0], F4[1], PROBABILITIES[:, :1].copy())),
    ("HingeEmbeddingLoss", {"margin": 0.5}, (F4[0], PLUS_MINUS)),
    ("MarginRankingLoss", {"margin": 0.5}, (F4[0], F4[1], PLUS_MINUS)),
    ("SoftMarginLoss", {"reduction": "sum"}, (F4[0], PLUS_MINUS)),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (F4[0], F4[1], ROW)),
    ("TripletMarginLoss", {"swap": True}, tuple(F4)),
    ("TripletMarginLoss", {"p": 1.0, "margin": 2.0}, tuple(F4)),
    ("TripletMarginWithDistanceLoss", {}, tuple(F4)),
    ("MultiMarginLoss", {"p": 2}, (F4[0], CLASSES)),
    ("MultiMarginLoss", {"margin": 0.5, "reduction": "none"}, (F4[0], CLASSES)),
    ("MultiLabelMarginLoss", {}, (F4[0], SETS)),
    ("MultiLabelSoftMarginLoss", {}, (F4[0], PROBABILITIES)),
]


@pytest.mark.parametrize(
    ("name", "options", "inputs"), MODULES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_modules_agree_with_pytorch(name, options, inputs, device):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    x, *rest = inputs
    own, their = clnet.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y = getattr(nn, name)(**options)(own, *map(clnet.tensor, rest))
    z = getattr(torch.nn, name)(**options)(their, *map(torch.tensor, rest))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-5, atol=1e-6)
    y.sum().backward()
    z.sum().backward()
    np.testing.assert_allclose(own.grad.numpy(), their.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_the_log_of_zero_costs_nothing(device):
    assert ops.kl_div(clnet.ones(2), clnet.zeros(2)).item() == 0
    t = clnet.zeros(2, requires_grad=True)
    ops.kl_div(clnet.ones(2), t).backward()
    assert np.isfinite(t.grad.numpy()).all()


def test_errors_name_what_is_wrong(device):
    x = clnet.ones(2, 3)
    with pytest.raises(ArgumentError, match="eps is above 0"):
        ops.gaussian_nll_loss(x, x, x, eps=0)
    with pytest.raises(ShapeError, match="a variance for each"):
        ops.gaussian_nll_loss(x, x, clnet.ones(3))
    with pytest.raises(ShapeError, match="one axis more"):
        ops.cosine_embedding_loss(x, x, x)
    with pytest.raises(ArgumentError, match="margin is above 0"):
        ops.triplet_margin_loss(x, x, x, 0)
    with pytest.raises(ArgumentError, match="p is 1 or 2"):
        ops.multi_margin_loss(x, clnet.tensor([0, 1]), p=3)
    with pytest.raises(ShapeError, match="without the classes"):
        ops.multi_margin_loss(x, clnet.tensor([0]))
    with pytest.raises(ShapeError, match="and the target its shape"):
        ops.multilabel_margin_loss(x, clnet.tensor([0]))
    with pytest.raises(ShapeError, match="one shape"):
        ops.multilabel_soft_margin_loss(x, clnet.ones(3))
    with pytest.raises(ArgumentError, match="reduction"):
        ops.soft_margin_loss(x, x, reduction="some")
    with pytest.raises(ArgumentError, match="reduction"):
        nn.SoftMarginLoss(reduction="some")


def test_a_linear_loss_of_places_is_cross_entropy_of_its_scores(device):
    x, w, b = clnet.ones(2, 3), clnet.ones(4, 5, 3), clnet.ones(4, 5)
    classes = clnet.zeros(2, 5, dtype=clnet.int64)
    loss = ops.linear_cross_entropy(x, w, classes, linear_bias=b)
    np.testing.assert_allclose(loss.item(), np.log(4), rtol=1e-6)
    with pytest.raises(ArgumentError, match="probabilities ignore no class"):
        ops.linear_cross_entropy(x, w, clnet.ones(2, 4, 5), ignore_index=1)
    with pytest.raises(ShapeError, match="x is"):
        ops.linear_cross_entropy(x[0], w, classes[0])
    with pytest.raises(ShapeError, match="weights are"):
        ops.linear_cross_entropy(x, w, classes, linear_bias=b[0])


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_margins_of_one_row_whose_class_has_an_axis_and_of_one_class(reduction):
    x, one = clnet.tensor([0.5, 2.0, -1.0]), clnet.tensor(1)
    whole = ops.multi_margin_loss(x, one, margin=2.0, reduction=reduction)
    found = ops.multi_margin_loss(x, one.reshape(1), margin=2.0, reduction=reduction)
    np.testing.assert_allclose(whole.item(), 0.5 / 3, rtol=1e-6)  # of the first class alone
    assert found.shape == ((1,) if reduction == "none" else ())
    assert found.item() == whole.item()
    score, only = clnet.tensor(3.0, requires_grad=True), clnet.tensor(0)
    for loss in (ops.multi_margin_loss, ops.multilabel_margin_loss):
        y = loss(score, only, reduction=reduction)
        assert (y.shape, y.item()) == ((), 0)
        assert clnet.autograd.grad(y, score)[0].item() == 0
