"""Results of compiled functions stay on the tape: backward through them is compiled, too."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import GradientError, TraceError
from clnet.nn import functional as F
from tests.threads import hasty, in_threads


def network() -> nn.Module:
    clnet.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.GELU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64, 5),
    )


def batch(seed: int) -> tuple[clnet.Tensor, clnet.Tensor]:
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((6, 3, 4, 4)).astype(np.float32)
    return clnet.tensor(images), clnet.tensor(rng.integers(0, 5, 6))


def near(found, expected) -> None:
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def train(net: nn.Module, model: nn.Module, steps: int) -> list[float]:
    """A loop as it is written for eager execution."""
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = batch(step)
        clnet.manual_seed(10 + step)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_compiled_module_trains_as_it_does_eagerly():
    eager, module = network(), network()
    compiled = clnet.compile(module)
    np.testing.assert_allclose(
        train(compiled, module, 4), train(eager, eager, 4), rtol=1e-5, atol=1e-6
    )
    assert compiled.num_traces == 1
    for name, parameter in eager.state_dict().items():
        near(module.state_dict()[name], parameter)


def test_calls_of_one_plan_keep_what_each_saved():
    """Two calls before the first backward: activations, and the random numbers of dropout."""
    eager, module = network(), network()
    grads = []
    for net in (eager, clnet.compile(module)):
        clnet.manual_seed(3)
        first, second = net(batch(0)[0]), net(batch(1)[0])
        (first.sum() - 2 * (second * second).sum()).backward()
        grads.append([p.grad for p in net.parameters()])
    for found, expected in zip(*grads, strict=True):
        near(found, expected)


def test_arguments_results_of_all_kinds_and_gradients_by_grad():
    @clnet.compile
    def function(x, y):
        product = x @ y
        return {"product": product, "top": [product.argmax(1), (x.detach() + 1)], "flag": 3}

    x = clnet.randn(3, 4, requires_grad=True)
    y = clnet.randn(4, 5).T.contiguous().T.requires_grad_()  # not dense
    for scale in (1.0, 2.0):
        found = function(x * scale, y)
        assert found["flag"] == 3
        top, apart = found["top"]
        assert not top.requires_grad
        assert not apart.requires_grad
        (gx, gy) = clnet.autograd.grad((found["product"] ** 2).sum(), (x, y))
        wx, wy = clnet.autograd.grad((((x * scale) @ y) ** 2).sum(), (x, y))
        near(gx, wx)
        near(gy, wy)
    assert function.num_traces == 1


def test_parts_of_a_value_are_saved_with_all_of_it():
    module = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)

    def first(x):
        return module(x)[:, 0] @ module.linear1.weight.T

    x = clnet.randn(3, 5, 8, requires_grad=True)
    (found,) = clnet.autograd.grad(clnet.compile(first)(x).square().sum(), x)
    (expected,) = clnet.autograd.grad(first(x).square().sum(), x)
    near(found, expected)


def test_gradients_accumulate_and_a_graph_may_be_kept():
    layer = nn.Linear(3, 2)
    compiled = clnet.compile(layer)
    loss = compiled(clnet.ones(4, 3)).square().sum()
    loss.backward(retain_graph=True)
    once = layer.weight.grad.clone()
    loss.backward()
    near(layer.weight.grad, 2 * once)
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        loss.backward()


def test_hooks_of_parameters_are_called_once():
    layer = nn.Linear(3, 2)
    layer.weight.register_hook(lambda grad: grad + 1)
    clnet.compile(layer)(clnet.ones(4, 3)).sum().backward()
    assert layer.weight.grad.tolist() == [[5.0] * 3] * 2


def test_a_parameter_that_is_frozen_or_thawed_makes_another_plan():
    layer = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    compiled = clnet.compile(layer)
    layer[0].requires_grad_(False)
    compiled(clnet.ones(4, 3)).sum().backward()
    assert layer[0].weight.grad is None
    layer[0].requires_grad_(True)
    compiled(clnet.ones(4, 3)).sum().backward()
    assert layer[0].weight.grad is not None
    assert compiled.num_traces == 2


def test_without_gradients_nothing_is_saved():
    compiled = clnet.compile(network())
    with clnet.no_grad():
        assert not compiled(batch(0)[0]).requires_grad
    assert len(compiled.plans) == 1


def test_a_parameter_that_changed_before_backward_is_told():
    layer = nn.Linear(3, 2)
    x = clnet.ones(4, 3, requires_grad=True)
    y = clnet.compile(layer)(x)
    with clnet.no_grad():
        layer.weight.add_(1)
    with pytest.raises(GradientError, match="changed in place"):
        y.sum().backward()


def test_what_cannot_be_walked_back_is_told_to_who_does():
    layer = nn.Linear(3, 3)

    def filled(x):
        y = clnet.zeros_like(x)
        for i in range(2):  # the layer keeps what is overwritten
            y[:, i] = x[:, i] + layer(y)[:, i]
        return y

    x = clnet.randn(4, 3, requires_grad=True)
    y = clnet.compile(filled)(x)
    near(y.detach(), filled(x).detach())
    assert y.requires_grad
    for _ in range(2):
        with pytest.raises(GradientError, match="linear: a tensor it saved was changed in place"):
            y.sum().backward(retain_graph=True)


def test_a_second_derivative_is_refused():
    x = clnet.ones(3, requires_grad=True)
    y = clnet.compile(lambda x: x**3)(x)
    with pytest.raises(GradientError, match=r"once more.* Compile a function"):
        clnet.autograd.grad(y.sum(), x, create_graph=True)


def test_a_tensor_outside_with_a_graph_is_refused():
    outside = clnet.ones(3, requires_grad=True) * 2
    with pytest.raises(TraceError, match=r"from outside that has a graph.*Pass it as an argument"):
        clnet.compile(lambda x: x * outside)(clnet.ones(3, requires_grad=True))


def test_backward_inside_another_trace_is_refused():
    x = clnet.ones(3, requires_grad=True)
    y = clnet.compile(lambda x: x * 2)(x)
    with pytest.raises(TraceError, match="Call the function inside as well"):
        clnet.compile(lambda: clnet.autograd.grad(y.sum(), x))()


def test_threads_share_a_compiled_module():
    module = network().eval()
    compiled = clnet.compile(module)

    def work(number: int) -> list[np.ndarray]:
        x = batch(number)[0].requires_grad_()
        return [clnet.autograd.grad(compiled(x).square().sum(), x)[0].numpy() for _ in range(5)]

    expected = [work(number)[0] for number in range(4)]
    with hasty():
        found = in_threads(work, 4)
    for grads, grad in zip(found, expected, strict=True):
        for each in grads:
            np.testing.assert_array_equal(each, grad)


def test_named_tuples_and_arguments_given_back_keep_their_kind_and_gradients():
    weight = clnet.ones(2).requires_grad_()
    x = clnet.tensor([[1.0, 3.0], [2.0, 0.0]], requires_grad=True)
    found, same, own = clnet.compile(lambda a: (a.max(1), a, weight))(x)
    assert found.values.tolist() == [3, 2]
    assert found.indices.tolist() == [1, 0]
    (found.values.sum() + 2 * same.sum() + 3 * own.sum()).backward()
    assert x.grad.tolist() == [[2, 3], [3, 2]]
    assert weight.grad.tolist() == [3, 3]


def test_losses_over_no_rows():
    x, none = clnet.zeros(0, 4).requires_grad_(), clnet.zeros(0, dtype=clnet.int64)
    loss = clnet.compile(lambda a, t: F.cross_entropy(a, t, reduction="sum"))(x, none)
    loss.backward()
    assert (loss.item(), x.grad.shape) == (0, (0, 4))


def test_backward_reads_what_was_made_of_weights_once_as_it_was():
    # In bfloat16 the copy of a weight is made once, and each call's backward looks at it.
    layer = nn.Linear(8, 4, bias=False).requires_grad_(requires_grad=False)
    weights = clnet.arange(32.0).reshape(4, 8) / 32
    layer.weight.copy_(weights)

    @clnet.compile
    def f(x):
        with clnet.autocast("cpu", dtype=clnet.bfloat16):
            return layer(x).float().sum()

    x = clnet.ones(2, 8, requires_grad=True)
    for _ in range(3):
        first = f(x)
    with clnet.profile() as told:
        second = f(x)
    assert not [c.name for c in told.commands if c.name == "copy"]
    layer.weight.mul_(2)  # between the calls and their backward
    third = f(x)
    for result, factor in ((first, 1), (second, 1), (third, 2), (f(x), 2)):
        x.grad = None
        result.backward()
        np.testing.assert_array_equal(x.grad.numpy(), factor * weights.sum(dim=0).expand(2, 8))
