"""The softmax in clusters beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DataBoundsError, DtypeError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device
X = np.random.default_rng(0).standard_normal((7, 8)).astype("f4")


@pytest.mark.parametrize("targets", [[0, 5, 19, 3, 10, 11, 4], [0, 1, 2, 3, 0, 1, 2], [12] * 7])
@pytest.mark.parametrize("bias", [False, True])
def test_clusters_agree_with_pytorch(targets, bias):
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=bias)
    ours = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=bias)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    own, their = (m.tensor(X, requires_grad=True) for m in (clnet, torch))
    found, expected = ours(own, clnet.tensor(targets)), theirs(their, torch.tensor(targets))
    assert found._fields == expected._fields
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)
    (found.loss + found.output.square().sum()).backward()
    (expected.loss + expected.output.square().sum()).backward()
    np.testing.assert_allclose(own.grad.numpy(), their.grad.numpy(), rtol=1e-4, atol=1e-5)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)
    whole = ours.log_prob(own.detach())
    np.testing.assert_allclose(
        whole.detach().numpy(), theirs.log_prob(their).detach().numpy(), rtol=1e-4
    )
    np.testing.assert_allclose(whole.exp().sum(1).detach().numpy(), 1, rtol=1e-5)
    assert ours.predict(own).tolist() == theirs.predict(their).tolist()


def test_one_row():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10])
    one, several = (layer(clnet.tensor(x), clnet.tensor(y)) for x, y in ((X[0], 12), (X[:1], [12])))
    assert (one.output.shape, one.loss.item()) == ((), several.loss.item())


def test_errors_name_what_is_wrong():
    for cutoffs in ([], [0, 4], [5, 4], [4, 20]):
        with pytest.raises(ArgumentError, match="cutoffs ascend"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)
    layer, x = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4]), clnet.tensor(X)
    with pytest.raises(DataBoundsError, match=r"targets lie in .* here 20; got least=-1, most=20"):
        layer(x, clnet.tensor([0, 1, 2, 3, 4, -1, 20]))
    with pytest.raises(ShapeError, match="a target for each row"):
        layer(x, clnet.tensor([0]))
    with pytest.raises(DtypeError, match="whole numbers"):
        layer(x, clnet.ones(7))
