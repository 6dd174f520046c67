"""Programs written by hand beside PyTorch: what they did otherwise once, as PyTorch does it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import clnet
from clnet import nn, optim
from clnet.errors import ArgumentError, DtypeError, GradientError

pytestmark = pytest.mark.device


def start(*shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "lbfgs": lambda p: optim.LBFGS(p, lr=0.1, max_iter=3),
    "rprop": lambda p: optim.Rprop(p),
    "asgd": lambda p: optim.ASGD(p),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copied_optimisers_go_on_alone(name, again):
    def step(weights, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = sum((w**2).sum() for w in weights)
            loss.backward()
            return loss

        optimizer.step(closure)

    weights = [nn.Parameter(start(3)), nn.Parameter(start(2, 2))]
    optimizer = OPTIMISERS[name](weights)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    step(weights, optimizer)
    step(weights[:1], optimizer)
    before = [w.tolist() for w in weights]
    weights_too, optimizer_too, scheduler_too = again((weights, optimizer, scheduler))
    assert scheduler_too.optimizer is optimizer_too
    step(weights_too, optimizer_too)
    scheduler_too.step()
    step(weights_too, optimizer_too)
    assert [w.tolist() for w in weights] == before
    assert optimizer.param_groups[0]["lr"] == 2 * optimizer_too.param_groups[0]["lr"]
    step(weights, optimizer)
    scheduler.step()
    step(weights, optimizer)
    assert [w.tolist() for w in weights] == [w.tolist() for w in weights_too]


def test_copied_optimisers_that_a_program_wrote():
    class Mine(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5})

        def __setstate__(self, state):
            super().__setstate__(state)
            self.param_groups[0].setdefault("more", 3)

        def step(self, closure=None):
            with clnet.no_grad():
                for p in self.param_groups[0]["params"]:
                    self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
                    p.sub_(p, alpha=0.5)

    weight = nn.Parameter(clnet.ones(2))
    optimizer = Mine([weight])
    optimizer.step()
    twin = copy.deepcopy(optimizer)
    twin.step()
    (copied,) = twin.param_groups[0]["params"]
    assert (weight.tolist(), copied.tolist()) == ([0.5, 0.5], [0.25, 0.25])
    assert (optimizer.state[weight]["steps"], twin.state[copied]["steps"]) == (1, 2)
    assert twin.param_groups[0]["more"] == 3


def test_deep_copies_of_parameters_have_no_gradients_and_of_views_one_memory():
    layer = nn.Linear(2, 2)
    layer(clnet.ones(1, 2)).sum().backward()
    layer.row = nn.Parameter(layer.weight.detach()[0])
    copied = copy.deepcopy(layer)
    assert copied.weight.grad is copied.bias.grad is None
    with clnet.no_grad():
        copied.row.zero_()
    np.testing.assert_array_equal(copied.weight.numpy(force=True), layer.weight.numpy(force=True))
    x = start(3, 4)
    whole, part, turned = copy.deepcopy((x, x[1:, ::2], x.T))
    assert (part.stride(), turned.stride()) == ((4, 2), (1, 4))
    part.zero_()
    assert whole[1:, ::2].abs().sum().item() == turned[::2, 1:].abs().sum().item() == 0
    np.testing.assert_array_equal(whole[0].numpy(), x[0].numpy())
    assert x[1:, ::2].abs().sum().item() > 0


def test_what_is_assigned_to_grad_is_like_its_tensor():
    x = clnet.ones(3, requires_grad=True)
    for value in (clnet.ones(2), clnet.ones(3, dtype=clnet.float64), clnet.ones(3, 1), x):
        with pytest.raises(GradientError, match="grad: a"):
            x.grad = value
    with pytest.raises(DtypeError, match="grad"):
        x.grad = 3.0
    x.grad = clnet.ones(3)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


@pytest.mark.parametrize("retained", [False, True])
def test_backward_to_inner_tensors(retained):
    x, other = (clnet.ones(3, requires_grad=True) for _ in range(2))
    y = x * 2
    if retained:
        y.retain_grad()
    (y * y * other).sum().backward(inputs=[y], retain_graph=True)
    assert (y.grad.tolist(), x.grad, other.grad) == ([4, 4, 4], None, None)
    clnet.autograd.backward((y * 3).sum(), inputs=(y, x))
    assert (y.grad.tolist(), x.grad.tolist()) == ([7, 7, 7], [6, 6, 6])
    with pytest.raises(ArgumentError, match="inputs are one tensor or more"):
        y.sum().backward(inputs=())
    with pytest.raises(GradientError, match=r"inputs require gradients.*Leave these out"):
        y.sum().backward(inputs=clnet.ones(3))


@pytest.mark.parametrize("name", ["cholesky", "cholesky_ex"])
def test_the_upper_factor_is_that_of_the_upper_triangle(name):
    x = clnet.tensor([[4.0, 2.0], [float("nan"), 5.0]])
    for matrix, upper in ((x, True), (x.T, False)):
        found = getattr(clnet.linalg, name)(matrix, upper=upper)
        factor = found if name == "cholesky" else found.L
        assert (factor if upper else factor.T).tolist() == [[2, 1], [0, 2]]
    y = clnet.tensor([[4.0, 2.0], [7.0, 5.0]], requires_grad=True)
    clnet.linalg.cholesky(y, upper=True)[0, 1].backward()
    np.testing.assert_allclose(y.grad.numpy(), [[-0.125, 0.25], [0.25, 0]], atol=1e-6)


@pytest.mark.parametrize("offset", [0, 1, -2])
def test_diagonals_are_changed_in_place_on_the_tape(offset):
    x = start(3, 4).requires_grad_()
    weight = start(3, 4) + 2
    y = x * 1
    y.diagonal(offset).mul_(y.diagonal(offset))
    on = np.eye(3, 4, offset)
    host, by = x.detach().numpy(), weight.numpy()
    np.testing.assert_allclose(y.detach().numpy(), np.where(on, host**2, host), rtol=1e-6)
    (g,) = clnet.autograd.grad((y * weight).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), np.where(on, 2 * host * by, by), rtol=1e-6)
    g.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.where(on, 2 * by, 0), rtol=1e-6)
    rows = start(2).requires_grad_()
    z = clnet.zeros(2, 2)
    z.diagonal().copy_(rows)
    (z * 3).sum().backward()
    assert rows.grad.tolist() == [3, 3]
    with pytest.raises(GradientError, match="a leaf that requires gradients"):
        x.diagonal().add_(1)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_loss_of_one_sequence_alone(reduction):
    steps = nn.functional.log_softmax(start(5, 1, 4), 2)
    labels = clnet.tensor([1, 2])
    wanted = nn.functional.ctc_loss(steps, labels[None], (5,), (2,), reduction=reduction)
    for lengths in ((clnet.tensor(5), clnet.tensor(2)), ((5,), (2,)), (clnet.tensor([5]), (2,))):
        found = nn.functional.ctc_loss(steps[:, 0], labels, *lengths, reduction=reduction)
        assert (found.shape, found.item()) == ((), wanted.item())


def test_packed_sequences_are_moved_and_unpacked():
    rows = [start(3, 2).requires_grad_(), start(1, 2), start(4, 2)]
    packed = nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    assert (packed.half().data.dtype, packed.is_cuda) == (clnet.float16, packed.data.is_cuda)
    apart = nn.utils.rnn.unpack_sequence(packed.to(clnet.float64))
    assert [row.dtype for row in apart] == [clnet.float64] * 3
    assert [row.tolist() for row in apart] == [row.tolist() for row in rows]
    (apart[0] * 2).sum().backward()
    assert rows[0].grad.tolist() == [[2, 2]] * 3


def test_the_gradient_of_an_inverse_whose_tolerances_have_a_batch():
    x = clnet.tensor([[2.0, 0.0], [0.0, 0.5]], requires_grad=True)
    y = clnet.linalg.pinv(x, atol=clnet.tensor([0.1, 1.0, 3.0]))
    assert y.tolist() == [[[0.5, 0], [0, 2]], [[0.5, 0], [0, 0]], [[0, 0], [0, 0]]]
    y[:, 0, 0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[-0.5, 0], [0, 0]], atol=1e-6)  # twice -1/4
