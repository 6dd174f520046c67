"""Losses against NumPy, gradients of gradients, and PyTorch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.tensor import tensor
from tests.opcase import NARROW, OpCase, every_check, integers, normal, positive, uniform


def classes_ref(
    x, target, weight=None, *, ignore=-100, smoothing=0.0, reduction="mean", scores=True
):
    """The definition, class axis last."""
    log_p = np.moveaxis(log_softmax(x, 1) if scores else x, 1, -1)
    n = log_p.shape[-1]
    w = np.ones(n) if weight is None else weight
    valid = target != ignore
    hot = np.eye(n)[np.where(valid, target, 0)]
    losses = -(((1 - smoothing) * hot + smoothing / n) * w * log_p).sum(-1) * valid
    if reduction == "mean":
        return losses.sum() / ((hot * w).sum(-1) * valid).sum()
    return losses if reduction == "none" else losses.sum()


def weighted(**options):
    def fn(x, target, weight):
        return ops.cross_entropy(x, target, weight=weight, **options)

    return fn


CASES = [
    *(
        OpCase(
            lambda x, t: ops.cross_entropy(x, t, reduction="none"),
            lambda x, t: classes_ref(x, t, reduction="none"),
            [normal(*x, scale=2), integers(0, x[1], t)],
            k=x[1],
            grad2=True,
            dtypes=NARROW,
            name="cross_entropy",
            label=str(x),
            shapes=[(tuple(1 if i != 1 else n for i, n in enumerate(x)), (1,) * len(t))],
        )
        for x, t in [((6, 5), (6,)), ((3, 4, 7), (3, 7))]
    ),
    *(
        OpCase(
            lambda x, t, s, r=reduction: ops.cross_entropy(x, t, reduction=r) * s,
            lambda x, t, s, r=reduction: classes_ref(x, t, reduction=r) * s,
            [normal(6, 5), integers(0, 5, (6,)), normal(9, grad=False)],
            k=30,
            grad2=True,
            name="cross_entropy",
            label=reduction,
        )
        for reduction in ("sum", "mean")
    ),
    OpCase(
        weighted(label_smoothing=0.2, reduction="none", ignore_index=1),
        lambda x, t, w: classes_ref(x, t, w, smoothing=0.2, reduction="none", ignore=1),
        [normal(7, 4), integers(0, 4, (7,)), uniform(0.5, 2, (4,), grad=False)],
        k=4,
        grad2=True,
        dtypes=NARROW,
        name="cross_entropy",
        label="weighted, smooth, ignoring",
    ),
    OpCase(
        lambda x, t: ops.nll_loss(x, t, reduction="none"),
        lambda x, t: classes_ref(x, t, scores=False, reduction="none"),
        [normal(6, 5), integers(0, 5, (6,))],
        dtypes=NARROW,
        name="nll_loss",
    ),
    OpCase(
        lambda x, p: ops.cross_entropy(x, p, reduction="none"),
        lambda x, p: -(p * log_softmax(x, 1)).sum(1),
        [normal(6, 5), positive(6, 5)],
        k=5,
        grad2=True,
        name="cross_entropy",
        label="probabilities",
    ),
    *(
        OpCase(
            lambda x, t, fn=fn: fn(x, t, reduction="none"),
            ref,
            [normal(5, 7, scale=2), normal(5, 7)],
            ulps=16,
            name=fn.__name__,
        )
        for fn, ref in [
            (ops.mse_loss, lambda x, t: (x - t) ** 2),
            (ops.l1_loss, lambda x, t: np.abs(x - t)),
            (
                ops.smooth_l1_loss,
                lambda x, t: np.where(abs(x - t) < 1, (x - t) ** 2 / 2, abs(x - t) - 0.5),
            ),
            (
                ops.huber_loss,
                lambda x, t: np.where(abs(x - t) < 1, (x - t) ** 2 / 2, abs(x - t) - 0.5),
            ),
        ]
    ),
    OpCase(
        lambda x, t: ops.binary_cross_entropy(x, t, reduction="none"),
        lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)),
        [uniform(0.1, 0.9, (5, 7)), uniform(0, 1, (5, 7))],
        ulps=16,
        name="binary_cross_entropy",
    ),
    OpCase(
        lambda x, t, p: ops.binary_cross_entropy_with_logits(x, t, pos_weight=p, reduction="none"),
        lambda x, t, p: (1 - t) * x + (1 + (p - 1) * t) * np.logaddexp(0, -x),
        [
            normal(5, 7, scale=3, dodge=(0,)),
            uniform(0, 1, (5, 7)),
            uniform(0.5, 2, (7,), grad=False),
        ],
        ulps=16,
        name="binary_cross_entropy_with_logits",
        layouts=(),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_losses(case, check, device):
    check(case, device)


def loss_and_slope(fn, x, *rest):
    leaf = tensor(x, requires_grad=True)
    loss = fn(leaf, *map(tensor, rest))
    return loss.item(), grad([loss], [leaf])[0].numpy()


@pytest.mark.parametrize("shape", [(64, 10), (4, 21, 9, 9)], ids=str)
def test_mean_cross_entropy_agrees_with_pytorch(device, shape):
    torch = pytest.importorskip("torch", reason="the oracle is the extra clnet[torch]")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    target.flat[:3] = -100
    weight = rng.random(shape[1]).astype(np.float32) + 0.5
    got, slope = loss_and_slope(
        lambda s, t, w: ops.cross_entropy(s, t, weight=w, label_smoothing=0.1), x, target, weight
    )
    leaf = torch.tensor(x, requires_grad=True)
    oracle = torch.nn.functional.cross_entropy(
        leaf, torch.tensor(target), torch.tensor(weight), label_smoothing=0.1
    )
    oracle.backward()
    np.testing.assert_allclose(got, oracle.item(), rtol=1e-6)
    np.testing.assert_allclose(slope, leaf.grad.numpy(), atol=1e-8, rtol=1e-4)


def test_one_example_without_a_batch(device):
    got, slope = loss_and_slope(ops.cross_entropy, np.array([0.0, 0.0], np.float32), np.array(1))
    np.testing.assert_allclose(got, np.log(2), rtol=1e-6)
    np.testing.assert_allclose(slope, [0.5, -0.5], rtol=1e-6)


def test_binary_cross_entropy_is_bounded(device):
    x, t = tensor([0.0, 1.0]), tensor([1.0, 0.0])
    np.testing.assert_array_equal(ops.binary_cross_entropy(x, t, reduction="none").numpy(), 100)


def test_reductions_agree(device):
    x, t = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    losses = ops.mse_loss(tensor(x), tensor(t), reduction="none").numpy()
    assert ops.mse_loss(tensor(x), tensor(t), reduction="sum").item() == losses.sum()
    np.testing.assert_allclose(ops.mse_loss(tensor(x), tensor(t)).item(), losses.mean(), rtol=1e-6)


def test_errors_name_what_is_wrong(device):
    x = tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(ShapeError, match="cross_entropy: the target has x's shape without"):
        ops.cross_entropy(x, tensor([1, 2, 0]))
    with pytest.raises(DtypeError, match="targets are classes, int64"):
        ops.cross_entropy(x, tensor([True, False]))
    with pytest.raises(ArgumentError, match="reduction is none, sum or mean; got reduction='avg'"):
        ops.mse_loss(x, x, reduction="avg")
    with pytest.raises(ArgumentError, match="label_smoothing lies in"):
        ops.cross_entropy(x, tensor([1, 2]), label_smoothing=2)
    with pytest.raises(ShapeError, match="binary_cross_entropy: x and target have one shape"):
        ops.binary_cross_entropy(x, tensor([1.0]))
    with pytest.raises(ShapeError, match="broadcast"):
        ops.mse_loss(x, tensor([1.0, 2.0]))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_distances_broadcast_and_warn(name, device):
    x = tensor(np.arange(4.0, dtype=np.float32).reshape(4, 1), requires_grad=True)
    target = tensor(np.float32([0, 1, 3]), requires_grad=True)
    with pytest.warns(UserWarning, match=r"x \(4, 1\) and target \(3,\) differ in shape") as seen:
        loss = getattr(ops, name)(x, target)
    assert seen[0].filename == __file__
    loss.backward()
    grads = x.grad.numpy(), target.grad.numpy()
    x.grad = target.grad = None
    getattr(ops, name)(x.expand(4, 3), target.expand(4, 3)).backward()
    np.testing.assert_allclose(grads[0], x.grad.numpy(), rtol=1e-6)
    np.testing.assert_allclose(grads[1], target.grad.numpy(), rtol=1e-6)


def test_cross_entropy_with_probabilities_of_no_examples_is_nan():
    nothing = np.zeros((0, 3), np.float32)
    x = tensor(nothing, requires_grad=True)
    loss = ops.cross_entropy(x, tensor(nothing))
    loss.backward()
    assert np.isnan(loss.item())
    assert x.grad is not None
    assert x.grad.shape == (0, 3)
    assert ops.cross_entropy(x, tensor(nothing), reduction="sum").item() == 0


def test_cross_entropy_of_images_in_double_precision():
    x = np.random.default_rng(1).normal(size=(2, 3, 3, 3))
    classes = np.arange(18).reshape(2, 3, 3) % 3
    scores = tensor(x, requires_grad=True)
    ops.cross_entropy(scores, tensor(classes)).backward()
    share = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    wanted = (share - np.moveaxis(np.eye(3)[classes], -1, 1)) / classes.size
    np.testing.assert_allclose(scores.grad.numpy(), wanted, rtol=1e-12, atol=1e-15)
