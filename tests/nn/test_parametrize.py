"""Parameters that are computed when they are read, beside PyTorch's."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError
from clnet.nn import parametrize
from tests.nn.normed import compare_two_steps, take_state

pytestmark = pytest.mark.device


def kinds(package):
    """Parametrizations in one of the packages."""
    base = package.nn.Module

    class Symmetric(base):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, x):
            return x.triu()

    class Scaled(base):
        def __init__(self):
            super().__init__()
            self.factor = package.nn.Parameter(package.tensor([2.0]))

        def forward(self, x):
            return x * self.factor

    class Polar(base):
        def forward(self, length, direction):
            return length * direction / (direction * direction).sum(1, keepdim=True).sqrt()

        def right_inverse(self, x):
            return (x * x).sum(1, keepdim=True).sqrt(), x

    return Symmetric, Scaled, Polar


def trained(package, names):
    """State, weight and gradients of a layer with these parametrizations, after a step."""
    torch_like = package.nn.utils.parametrize
    table = dict(zip(("Symmetric", "Scaled", "Polar"), kinds(package), strict=True))
    layer = package.nn.Linear(3, 3)
    with package.no_grad():
        layer.weight.copy_(package.arange(9.0).reshape(3, 3) - 3.5)
        layer.bias.zero_()
    for name in names:
        torch_like.register_parametrization(layer, "weight", table[name]())
    (layer(package.ones(2, 3)) ** 2).sum().backward()
    grads = [p.grad.tolist() for p in layer.parameters()]
    package.optim.SGD(layer.parameters(), lr=0.01).step()
    state = {k: v.tolist() for k, v in layer.state_dict().items()}
    return state, grads, layer.weight.detach().numpy(), layer


@pytest.mark.parametrize(
    "names", [["Symmetric"], ["Scaled", "Symmetric"], ["Polar"], ["Polar", "Scaled"]]
)
def test_values_gradients_and_state_are_pytorchs(names):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    ours, theirs = trained(clnet, names), trained(torch, names)
    assert list(ours[0]) == list(theirs[0])
    for key in ours[0]:
        np.testing.assert_allclose(ours[0][key], theirs[0][key], rtol=1e-5, atol=1e-6)
    for mine, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-5, atol=1e-6)
    left = [
        package.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        for package, layer in ((clnet, ours[3]), (torch, theirs[3]))
    ]
    assert sorted(left[0].state_dict()) == sorted(left[1].state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(left[0].weight.detach().numpy(), ours[2], rtol=1e-6)


def test_the_original_is_the_parameter_there_was():
    symmetric, _, _ = kinds(clnet)
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", symmetric())
    assert layer.parametrizations.weight.original is weight
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    kept = weight.detach().numpy()
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is weight
    assert not parametrize.is_parametrized(layer)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), kept)


def test_assignment_goes_through_the_inverse():
    _, scaled, polar = kinds(clnet)
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", polar())
    values = np.arange(9, dtype=np.float32).reshape(3, 3) + 1
    layer.weight = clnet.tensor(values)
    np.testing.assert_allclose(layer.weight.detach().numpy(), values, rtol=1e-6)
    np.testing.assert_array_equal(layer.parametrizations.weight.original1.detach().numpy(), values)
    parametrize.register_parametrization(layer, "bias", scaled())
    with pytest.raises(ArgumentError, match="through right_inverse"):
        layer.bias = clnet.ones(3)


def test_a_buffer_stays_one():
    _, scaled, _ = kinds(clnet)
    module = nn.Module()
    module.register_buffer("scale", clnet.ones(2))
    parametrize.register_parametrization(module, "scale", scaled())
    assert module.scale.tolist() == [2, 2]
    assert [name for name, _ in module.named_parameters()] == ["parametrizations.scale.0.factor"]
    parametrize.remove_parametrizations(module, "scale")
    assert [name for name, _ in module.named_buffers()] == ["scale"]
    assert module.scale.tolist() == [2, 2]


def test_a_compiled_step_and_a_copy_have_it():
    symmetric, _, _ = kinds(clnet)
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", symmetric())
    optimizer = clnet.optim.SGD(layer.parameters(), lr=0.02)

    @clnet.compile
    def step(x):
        optimizer.zero_grad()
        loss = (layer(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = clnet.ones(2, 3)
    losses = [float(step(x)) for _ in range(5)]
    assert losses[-1] < losses[0]
    weight = layer.weight.detach().numpy()
    np.testing.assert_array_equal(weight, weight.T)
    copied = copy.deepcopy(layer)
    copied.weight = clnet.eye(3)
    assert copied.weight.tolist() == np.eye(3).tolist()
    np.testing.assert_array_equal(layer.weight.detach().numpy(), weight)


def test_a_shape_may_change_where_that_is_allowed():
    class Padded(nn.Module):
        def forward(self, x):
            return clnet.cat([x, x])

    layer = nn.Linear(3, 2, bias=False)
    with pytest.raises(ArgumentError, match="unsafe=True"):
        parametrize.register_parametrization(layer, "weight", Padded())
    assert not parametrize.is_parametrized(layer)
    parametrize.register_parametrization(layer, "weight", Padded(), unsafe=True)
    assert layer(clnet.ones(1, 3)).shape == (1, 4)
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.shape == (4, 3)


class Given(nn.Module):
    """Gives what it is told to, and so does its inverse."""

    def __init__(self, forward=lambda x: x, inverse=lambda x: x):
        super().__init__()
        self.given, self.inverse = forward, inverse

    def forward(self, *parts):
        return self.given(*parts)

    def right_inverse(self, x):
        return self.inverse(x)


@pytest.mark.parametrize(
    ("given", "law"),
    [
        (Given(lambda x: (x, x)), "forward gives a tensor"),
        (Given(lambda x: None), "forward gives a tensor"),
        (Given(inverse=lambda x: None), "right_inverse gives a tensor, or several"),
        (Given(lambda x, y: y, lambda x: (None, x)), "right_inverse gives a tensor, or several"),
    ],
)
def test_what_gives_no_tensor_is_refused_and_leaves_the_layer(given, law):
    layer = nn.Linear(3, 3, bias=False)
    with pytest.raises(ArgumentError, match=f"register_parametrization: {law}; .*(NoneType|tuple)"):
        parametrize.register_parametrization(layer, "weight", given)
    assert not parametrize.is_parametrized(layer)
    parametrize.register_parametrization(layer, "weight", Given())
    with pytest.raises(ArgumentError, match="right_inverse gives a tensor; "):  # one, behind others
        parametrize.register_parametrization(layer, "weight", Given(inverse=lambda x: (x, x)))
    assert len(layer.parametrizations.weight) == 1


def test_errors_name_what_is_wrong():
    _, scaled, polar = kinds(clnet)
    layer = nn.Linear(3, 3, bias=False)
    for name in ("in_features", "bias", "nothing"):
        with pytest.raises(ArgumentError, match="register_parametrization"):
            parametrize.register_parametrization(layer, name, scaled())
    with pytest.raises(ArgumentError, match="is parametrized"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrize.register_parametrization(layer, "weight", polar())
    with pytest.raises(ArgumentError, match="one original is left"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = layer.nothing


class Counted(nn.Module):
    """Doubles, and counts how often."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.__dict__["count"] += 1
        return x * 2


def counted():
    rule = Counted()
    layer = parametrize.register_parametrization(nn.Linear(3, 3, bias=False), "weight", rule)
    rule.__dict__["count"] = 0
    return layer, rule


def test_what_is_cached_is_computed_once():
    layer, rule = counted()
    x = clnet.ones(2, 3)
    layer(layer(x)).sum().backward()
    expected, rule.__dict__["count"] = layer.parametrizations.weight.original.grad.numpy(), 0
    layer.zero_grad()
    with parametrize.cached():
        with parametrize.cached():
            y = layer(x)
        layer(y).sum().backward()
    assert rule.count == 1
    found = layer.parametrizations.weight.original.grad.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    layer(x)
    assert rule.count == 2


def test_what_was_cached_without_a_gradient_has_one_later():
    layer, rule = counted()
    with parametrize.cached():
        with clnet.no_grad():
            layer(clnet.ones(1, 3))
        layer(clnet.ones(1, 3)).sum().backward()
    assert rule.count == 2
    assert layer.parametrizations.weight.original.grad.tolist() == [[2.0] * 3] * 3


def test_what_is_assigned_is_seen_while_others_are_cached():
    symmetric, _, _ = kinds(clnet)
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", symmetric())
    with parametrize.cached():
        before = layer.weight
        layer.weight = clnet.eye(2)
        assert layer.weight.tolist() == [[1, 0], [0, 1]] != before.tolist()


def test_a_plan_made_while_cached_computes_anew():
    layer, _ = counted()
    run = clnet.compile(lambda x: layer(layer(x)))
    x = clnet.eye(3)
    with clnet.no_grad(), parametrize.cached():
        kept = layer.weight.numpy()  # known before the plan is made
        run(x)
        layer.parametrizations.weight.original.fill_(1)
        np.testing.assert_array_equal(run(x).numpy(), np.full((3, 3), 12, np.float32))
        np.testing.assert_array_equal(layer.weight.numpy(), kept)


def test_a_checkpoint_computes_anew():
    layer, rule = counted()
    with parametrize.cached():
        x = clnet.ones(1, 3, requires_grad=True)
        y = clnet.checkpoint(layer, x) + clnet.checkpoint(layer, x)
        y.sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[4.0] * 3] * 3
    assert rule.count >= 3


NORMED = {
    "linear": (lambda m: m.Linear(4, 3), (5, 4)),
    "conv": (lambda m: m.Conv2d(4, 3, 3, bias=False), (2, 4, 5, 5)),
    "transposed": (lambda m: m.ConvTranspose1d(4, 3, 3), (2, 4, 5)),
}
NORMS = [
    ("weight_norm", {}),
    ("weight_norm", {"dim": None}),
    ("weight_norm", {"dim": 1}),
    ("spectral_norm", {}),
    ("spectral_norm", {"n_power_iterations": 3, "dim": 1}),
]


@pytest.mark.parametrize("layer", NORMED)
@pytest.mark.parametrize(("norm", "given"), NORMS, ids=str)
def test_norms_values_gradients_and_state_are_pytorchs(layer, norm, given):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    make, shape = NORMED[layer]
    theirs = getattr(torch.nn.utils.parametrizations, norm)(make(torch.nn), **given)
    ours = getattr(nn.utils.parametrizations, norm)(make(nn), **given)
    take_state(ours, theirs)
    compare_two_steps(ours, theirs, shape, tolerance=5e-5)


def test_spectral_norm_starts_near_the_largest_singular_value():
    clnet.manual_seed(0)
    layer = nn.Linear(6, 5)
    nn.init.normal_(layer.weight)
    nn.utils.parametrizations.spectral_norm(layer)
    original, weight = layer.parametrizations.weight.original, layer.eval().weight
    before, after = (
        np.linalg.svd(x.detach().numpy(), compute_uv=False)[0] for x in (original, weight)
    )
    assert before > 2
    assert 0.98 < after < 1.02


def test_a_normed_vector_has_length_1():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), "bias")
    assert float((layer.bias * layer.bias).sum()) == pytest.approx(1)


def test_norms_of_what_is_not_there_are_refused():
    norms = nn.utils.parametrizations
    with pytest.raises(ArgumentError, match="spectral_norm: the module has the parameter"):
        norms.spectral_norm(nn.ReLU())
    with pytest.raises(ArgumentError, match="n_power_iterations is 1 or more"):
        norms.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ArgumentError, match="it is a parameter or buffer"):
        norms.weight_norm(nn.Linear(2, 2), "nothing")


def test_a_norm_takes_a_state_with_its_older_names():
    older = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 2)))
    with clnet.no_grad():
        older[0].weight_g.mul_(2)
    layer = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)))
    state = older.state_dict()
    layer.load_state_dict(state)
    assert sorted(state) == ["0.bias", "0.weight_g", "0.weight_v"]
    x = clnet.ones(1, 3)
    np.testing.assert_allclose(layer(x).tolist(), older(x).tolist(), 1e-6)
    nn.utils.parametrize.remove_parametrizations(layer[0], "weight")
    with pytest.raises(clnet.errors.CheckpointError, match=r"unexpected=\['0.weight_g'"):
        layer.load_state_dict(state)


def test_a_parametrized_module_says_that_it_is_one():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    text = repr(layer)
    assert text.startswith("ParametrizedLinear(\n")
    assert "(weight): ParametrizationList(" in text
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert repr(layer) == "Linear(in_features=2, out_features=2, bias=True)"


def test_what_computes_a_tensor_trains_as_its_module_does():
    layer = nn.Linear(2, 2).eval()
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    assert not layer.parametrizations.weight[0].training
    parametrize.register_parametrization(layer.train(), "weight", nn.Identity().eval())
    assert layer.parametrizations.weight[1].training
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
