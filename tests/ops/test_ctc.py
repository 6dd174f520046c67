"""Connectionist temporal classification: all alignments counted out, and PyTorch's."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

import clnet
from clnet import nn, ops
from clnet.errors import ArgumentError, DataBoundsError, ShapeError
from tests.opcase import OpCase, every_check, normal

TARGETS = np.array([[1, 2], [2, 2], [1, 0]])
LENGTHS = np.array([4, 4, 3]), np.array([2, 2, 1])


def ctc_ref(x):
    """Every path of classes is a path of some target: sum over those of the right one."""
    log_p = log_softmax(x, -1)
    losses = []
    for i, (steps, length) in enumerate(zip(*LENGTHS, strict=True)):
        wanted = list(TARGETS[i, :length])
        paths = [
            sum(log_p[t, i, c] for t, c in enumerate(path))
            for path in product(range(x.shape[2]), repeat=int(steps))
            if [c for c, _ in groupby(path) if c] == wanted
        ]
        losses.append(-logsumexp(paths))
    return np.array(losses)


def ctc(x, **options):
    lengths = map(clnet.tensor, LENGTHS)
    return ops.ctc_loss(ops.log_softmax(x, -1), clnet.tensor(TARGETS), *lengths, **options)


CASES = [
    OpCase(
        lambda x: ctc(x, reduction="none"), ctc_ref, [normal(4, 3, 3)], k=20, name="ctc_loss",
        dtypes=["bfloat16"],        shapes=(),
    )
]  # fmt: skip


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_ctc(case, check, device):
    check(case, device)


@pytest.mark.parametrize("options", [{}, {"reduction": "sum", "blank": 4}, {"zero_infinity": True}])
def test_it_agrees_with_pytorch(options, device):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 4, 6)).astype("f4")
    targets = rng.integers(1, 4, (4, 5))
    steps = np.array([7, 6, 7, 2 if options.get("zero_infinity") else 7])
    lengths = np.array([3, 0, 2, 5 if options.get("zero_infinity") else 1])
    own, their = clnet.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y = ops.ctc_loss(
        ops.log_softmax(own, -1), *map(clnet.tensor, (targets, steps, lengths)), **options
    )
    z = torch.nn.functional.ctc_loss(
        torch.log_softmax(their, -1), *map(torch.tensor, (targets, steps, lengths)), **options
    )
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-5)
    y.backward()
    z.backward()
    np.testing.assert_allclose(own.grad.numpy(), their.grad.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("steps", "labels"), [(60, 20), (90, 44), (3, 0), (1, 1)])
def test_long_sequences_agree_with_pytorch(steps, labels, device):
    """Likely alignments far below the smallest number, with lengths drawn."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    rng = np.random.default_rng(1)
    x = rng.standard_normal((steps, 3, 7)) * 3
    targets = rng.integers(1, 7, (3, labels))
    lengths = rng.integers(steps // 2 + 1, steps + 1, 3), rng.integers(0, labels + 1, 3)
    own, their = clnet.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    options = {"reduction": "sum", "zero_infinity": True}
    y = ops.ctc_loss(own.log_softmax(2), *map(clnet.tensor, (targets, *lengths)), **options)
    z = torch.nn.functional.ctc_loss(
        their.log_softmax(2), *map(torch.tensor, (targets, *lengths)), **options
    )
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-9)
    y.backward()
    z.backward()
    np.testing.assert_allclose(own.grad.numpy(), their.grad.numpy(), rtol=1e-7, atol=1e-9)


def test_it_is_differentiated_twice_compiled_and_mapped(device):
    targets, steps, lengths = map(clnet.tensor, (TARGETS, *LENGTHS))

    def loss(x):
        return ops.ctc_loss(x.log_softmax(2), targets, steps, lengths)

    x = clnet.tensor(np.random.default_rng(2).standard_normal((4, 3, 3)), requires_grad=True)
    assert clnet.autograd.gradgradcheck(loss, (x,))
    assert clnet.compile(loss)(x).item() == pytest.approx(loss(x).item(), rel=1e-12)
    several = clnet.stack([x.detach(), x.detach() * 2])
    found = clnet.func.vmap(loss)(several)
    assert found.tolist() == pytest.approx([loss(y).item() for y in several], rel=1e-12)


def test_a_target_that_does_not_fit_costs_infinity(device):
    loss = ops.ctc_loss(
        clnet.full((1, 1, 3), -1.0), clnet.tensor([[1, 2]]), clnet.tensor([1]), clnet.tensor([2])
    )
    assert loss.item() == float("inf")
    module = nn.CTCLoss(zero_infinity=True)
    arguments = clnet.tensor([[1, 2]]), clnet.tensor([1]), clnet.tensor([2])
    assert module(clnet.full((1, 1, 3), -1.0), *arguments).item() == 0
    assert module(clnet.full((1, 1, 3), -1.0), arguments[0], (1,), [2]).item() == 0


def test_errors_name_what_is_wrong(device):
    x, t, n = clnet.zeros(3, 1, 4), clnet.tensor([[1]]), clnet.tensor([1])
    with pytest.raises(ArgumentError, match="a class blank"):
        ops.ctc_loss(x, t, n, n, blank=4)
    with pytest.raises(ShapeError, match="steps, n, classes"):
        ops.ctc_loss(x[0, 0], t, n, n)
    with pytest.raises(ShapeError, match="one sequence has one target"):
        ops.ctc_loss(x[:, 0], t.expand(2, 1), n, n)


def test_targets_one_after_another_and_lengths_of_the_host():
    x = clnet.tensor(np.random.default_rng(0).standard_normal((6, 3, 4)).astype(np.float32))
    x = ops.log_softmax(x, -1)
    rows, joined = clnet.tensor([[1, 2], [3, 0], [2, 2]]), clnet.tensor([1, 2, 3, 2, 2])
    lengths = [6, 5, 6], [2, 1, 2]
    expected = ops.ctc_loss(x, rows, *map(clnet.tensor, lengths)).item()
    assert ops.ctc_loss(x, joined, *lengths).item() == expected
    assert ops.ctc_loss(x, joined, *map(clnet.tensor, lengths)).item() == expected
    with pytest.raises(ShapeError, match=r"targets hold as many classes as the lengths say; got"):
        ops.ctc_loss(x, joined, [6, 5, 6], [2, 2, 2])


def test_what_lies_behind_a_target_is_no_class():
    x, lengths = clnet.randn(4, 2, 3), clnet.tensor([2, 1])
    of = [ops.ctc_loss(x, clnet.tensor([[1, 2], [1, n]]), [4, 4], lengths) for n in (0, -7, 9)]
    assert of[0].item() == of[1].item() == of[2].item()
    ops.ctc_loss(x, clnet.tensor([[1, 3], [1, 0]]), [4, 4], lengths)
    with pytest.raises(
        DataBoundsError, match=r"ctc_loss: it lies in \[0, classes\); got targets=3"
    ):
        clnet.synchronize()


def test_a_batch_of_none_has_no_losses():
    none = clnet.zeros(0, dtype=clnet.int64)
    log_p = clnet.zeros(4, 0, 3, requires_grad=True)
    for targets in (none, none.reshape(0, 1)):
        losses = ops.ctc_loss(log_p, targets, none, none, reduction="none")
        assert losses.shape == (0,)
        losses.sum().backward()
        assert log_p.grad.shape == (4, 0, 3)
