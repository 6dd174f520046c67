"""Softmax and log-softmax along any axis, with gradients of gradients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import clnet
from clnet import ops
from clnet.errors import BoundsError, DtypeError
from clnet.nn import functional as F
from clnet.tensor import tensor
from tests.opcase import NARROW, OpCase, every_check, normal

CASES = [
    OpCase(
        lambda x, dim=dim, fn=fn: fn(x, dim),
        lambda x, dim=dim, ref=ref: ref(x, dim),
        [normal(4, 6, 5, scale=2)],
        k=6,
        grad2=True,
        name=fn.__name__,
        label=f"dim={dim}",
        dtypes=("float64", *NARROW),
        shapes=[((3, 1, 2),), ((0, 2, 3),), ((1, 40, 17),)],
    )
    for fn, ref in [(ops.softmax, softmax), (ops.log_softmax, log_softmax)]
    for dim in (-1, 1)
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_softmax(case, check, device):
    check(case, device)


def test_a_number_has_all_the_probability(device):
    assert ops.softmax(tensor(3.0), 0).item() == 1


def test_errors_name_what_is_wrong(device):
    with pytest.raises(DtypeError, match="softmax: operands are floating"):
        ops.softmax(tensor([1, 2]), 0)
    with pytest.raises(BoundsError, match="log_softmax: dim lies in"):
        ops.log_softmax(tensor([1.0, 2.0]), 1)


OFFSETS = [0, 1e4, 1e7, -1e8, 1e30]


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("shape", [(3, 20), (2, 5, 7)], ids=["rows", "columns"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_offset_of_the_scores_costs_no_digit(shape, offset, compiled):
    """The largest score is taken off before the logarithm of the sum is, not with it."""
    # Multiples of 64: near 1e8 float32 holds no others.
    scale = 2.0**80 if offset == 1e30 else 64 if abs(offset) > 1e7 else 1
    rng = np.random.default_rng(0)
    host = (rng.integers(-3, 4, shape) * scale + np.float32(offset)).astype(np.float32)
    shifted = host.astype(np.float64) - host.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    targets = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    hot = np.moveaxis(np.eye(shape[1])[targets], -1, 1)
    share = 0.9 * hot + 0.1 / shape[1]
    weights = rng.standard_normal(shape)

    def called(x, target, weight):
        log_p = F.log_softmax(x, 1)
        smooth = F.cross_entropy(x, target, label_smoothing=0.1, reduction="none")
        plain = F.cross_entropy(x, target, reduction="sum")
        (gx,) = clnet.autograd.grad([(log_p * weight).sum()], [x])
        (slope,) = clnet.autograd.grad([smooth.sum() + plain], [x])
        return log_p, smooth, plain, gx, slope

    x = clnet.tensor(host, requires_grad=True)
    run = clnet.compile(called) if compiled else called
    found = run(x, clnet.tensor(targets), clnet.tensor(weights.astype(np.float32)))
    p = np.exp(logs)
    expected = (
        logs,
        -(share * logs).sum(1),
        -(hot * logs).sum(),
        weights - p * weights.sum(1, keepdims=True),
        2 * p - share - hot,
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=2e-6, atol=2e-5)


def test_the_graph_of_a_gradient_keeps_the_digits():
    host = (np.float32(1e7) + np.arange(4)).astype(np.float32)[None]
    x = clnet.tensor(host, requires_grad=True)
    loss = F.cross_entropy(x, clnet.tensor([1]))
    (gx,) = clnet.autograd.grad([loss], [x], create_graph=True)
    assert gx is not None
    (again,) = clnet.autograd.grad([gx[0, 0]], [x])
    assert again is not None
    p = np.exp(np.arange(4) - 3.0)
    p /= p.sum()
    np.testing.assert_allclose(gx.detach().numpy()[0], p - np.eye(4)[1], rtol=1e-5)
    np.testing.assert_allclose(again.numpy()[0], p[0] * (np.eye(4)[0] - p), rtol=1e-5)


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.float16], ids=str)
def test_logsumexp_beside_infinity(dtype):
    # 100 is so large that its exponential is infinite; infinity over infinity would be NaN
    x = clnet.tensor([100, np.inf], dtype=dtype, requires_grad=True)
    y = ops.logsumexp(x, 0)
    y.backward()
    assert y.item() == np.inf
    np.testing.assert_array_equal(x.grad.numpy(), [0, np.nan])
    assert ops.logsumexp(x.new_full((2,), -np.inf), 0).item() == -np.inf


@pytest.mark.parametrize("shape", [(0,), (3, 0)], ids=str)
def test_gradients_of_gradients_along_no_elements(shape):
    for f in (ops.softmax, ops.log_softmax):
        x = clnet.zeros(*shape, requires_grad=True)
        (gx,) = clnet.autograd.grad([f(x, -1).sum()], [x], create_graph=True)
        (again,) = clnet.autograd.grad([gx.sum()], [x])
        assert gx.shape == again.shape == shape


def test_gradients_of_gradients_of_attention_to_no_keys():
    query, key = clnet.ones(1, 1, 3, 4, requires_grad=True), clnet.ones(1, 1, 0, 4)
    y = F.scaled_dot_product_attention(query, key, key)
    (gx,) = clnet.autograd.grad([y.sum()], [query], create_graph=True)
    assert (y.sum().item(), gx.sum().item()) == (0, 0)
