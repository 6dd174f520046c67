"""Optimisers against PyTorch's, and what holds for all of them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile import Compiled
from clnet.errors import ArgumentError, CheckpointError
from tests.optim.steps import SHAPES, STEPS, gradients, make, parameters, run, starts, stepper

pytestmark = pytest.mark.device
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.05}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01, "amsgrad": True}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.9, "weight_decay": 0.05, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.01, "centered": True}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.9}),
    ("Adagrad", {"lr": 0.1}),
    (
        "Adagrad",
        {"lr": 0.5, "lr_decay": 0.01, "weight_decay": 0.05, "initial_accumulator_value": 0.5},
    ),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 5.0, "rho": 0.8, "weight_decay": 0.05}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.2, "decoupled_weight_decay": True}),
    ("NAdam", {"lr": 0.01}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.05, "momentum_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.05, "decoupled_weight_decay": True}),
    ("Adamax", {"lr": 0.01}),
    ("Adamax", {"lr": 0.01, "betas": (0.8, 0.7), "eps": 1e-2, "weight_decay": 0.05}),
    ("RAdam", {"lr": 0.05}),
    ("RAdam", {"lr": 0.05, "betas": (0.8, 0.6), "weight_decay": 0.05}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 5, "weight_decay": 0.05}),
    ("Adafactor", {"lr": 0.05}),
    (
        "Adafactor",
        {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-2, 0.2), "d": 1.5, "weight_decay": 0.1},
    ),
    ("Rprop", {"lr": 0.01}),
    ("Rprop", {"lr": 0.05, "etas": (0.4, 1.5), "step_sizes": (0.03, 0.1)}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05, "maximize": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1, "maximize": True}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "maximize": True}),
]
MAXIMIZING = sorted({name for name, _ in CASES})


def case_id(value):
    return value if isinstance(value, str) else ",".join(f"{k}={v}" for k, v in value.items())


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=case_id)
def test_weights_agree_with_pytorch(name, options, compiled):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    theirs = [torch.tensor(x, requires_grad=True) for x in starts()]
    reference = getattr(torch.optim, name)(theirs, **options)
    for i in range(STEPS):
        for p, g in zip(theirs, gradients(i), strict=True):
            p.grad = torch.tensor(g)
        reference.step()
    params = parameters()
    ours = run(params, make(name, params, options), range(STEPS), compiled=compiled)
    for mine, other, start in zip(ours, theirs, starts(), strict=True):
        expected = other.detach().numpy()
        assert np.abs(expected - start).min() > 1e-3  # every element has moved
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MAXIMIZING)
def test_each_can_maximize(name):
    optimizer = make(name, parameters(), {"maximize": True})
    assert optimizer.param_groups[0]["maximize"] is True
    least = make(name, parameters(), {})
    assert least.param_groups[0]["maximize"] is False
    assert optimizer._clnet_version[1:] != least._clnet_version[1:]  # else a step goes on


def test_a_group_may_be_maximized_while_others_are_not():
    p, q = (clnet.ones(3, requires_grad=True) for _ in range(2))
    groups = [{"params": [p]}, {"params": [q], "maximize": True}]
    optimizer = clnet.optim.SGD(groups, lr=0.5)
    step = clnet.compile(lambda: optimizer.step())
    for _ in range(2):
        p.grad, q.grad = clnet.ones(3), clnet.ones(3)
        step()
    assert p.tolist() == [0.0] * 3
    assert q.tolist() == [2.0] * 3
    optimizer.param_groups[1]["maximize"] = False
    step()
    assert q.tolist() == [1.5] * 3


def test_a_state_from_before_there_was_maximize_is_loaded():
    optimizer = make("SGD", parameters(), {"momentum": 0.9})
    state = optimizer.state_dict()
    del state["param_groups"][0]["maximize"]
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["maximize"] is False


def test_mean_of_the_weights_agrees_with_pytorch():
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    options = {"lr": 0.5, "t0": 5}
    theirs = [torch.tensor(x, requires_grad=True) for x in starts()]
    reference = torch.optim.ASGD(theirs, **options)
    params = parameters()
    optimizer = clnet.optim.ASGD(params, **options)
    for i in range(12):
        for p, q, g in zip(params, theirs, gradients(i), strict=True):
            p.grad, q.grad = clnet.tensor(g), torch.tensor(g)
        optimizer.step()
        reference.step()
        for p, q in zip(params, theirs, strict=True):
            mean = optimizer.state[p]["ax"].numpy()
            np.testing.assert_allclose(mean, reference.state[q]["ax"].numpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(params[0].detach().numpy() - optimizer.state[params[0]]["ax"].numpy()).max() > 0.1


@pytest.mark.parametrize("eta", ["0.5", [], {}, "x", 10**400, clnet.ones(2)], ids=type)
def test_a_state_whose_rate_is_no_number_changes_nothing(eta):
    params = parameters()
    optimizer = clnet.optim.ASGD(params, lr=0.5)
    state = optimizer.state_dict()
    state["param_groups"][0]["lr"] = 7.0
    next(iter(state["state"].values()))["eta"] = eta
    with pytest.raises(CheckpointError, match="eta is a number"):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_averaging_takes_up_a_rate_a_step_later_as_pytorch_does():
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    options = {"lr": 0.5, "lambd": 0.1, "t0": 3}
    theirs = [torch.tensor(x, requires_grad=True) for x in starts()]
    reference = torch.optim.ASGD(theirs, **options)
    theirs_rate = torch.optim.lr_scheduler.StepLR(reference, 2, 0.3)
    params = parameters()
    optimizer = clnet.optim.ASGD(params, **options)
    rate = clnet.optim.lr_scheduler.StepLR(optimizer, 2, 0.3)
    for i in range(8):
        if i in (3, 5):  # behind a change of the rate: from its own state, and from PyTorch's
            state = optimizer.state_dict() if i == 3 else reference.state_dict()
            params = [clnet.tensor(p.detach().numpy(), requires_grad=True) for p in params]
            optimizer = clnet.optim.ASGD(params, lr=7.0)
            optimizer.load_state_dict(state)
            scheduled = rate.state_dict()
            rate = clnet.optim.lr_scheduler.StepLR(optimizer, 2, 0.3)
            rate.load_state_dict(scheduled)
        for p, q, g in zip(params, theirs, gradients(i), strict=True):
            p.grad, q.grad = clnet.tensor(g), torch.tensor(g)
        for part in (optimizer, reference, rate, theirs_rate):
            part.step()
        for p, q in zip(params, theirs, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), CASES, ids=case_id)
def test_restored_state_continues_bit_for_bit(name, options):
    params = parameters()
    optimizer = make(name, params, options)
    run(params, optimizer, range(3))
    others = [clnet.tensor(p.detach().numpy(), requires_grad=True) for p in params]
    restored = make(name, others, {**options, "lr": 7.0})
    restored.load_state_dict(optimizer.state_dict())
    straight = run(params, optimizer, range(3, 6))
    again = run(others, restored, range(3, 6))
    for a, b in zip(straight, again, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "Adafactor"])
def test_a_state_of_pytorchs_optimiser_is_continued(name):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    theirs = [torch.tensor(x, requires_grad=True) for x in (*starts(), np.ones(2, np.float32))]
    reference = getattr(torch.optim, name)(theirs, **options)
    optimizer = None
    params = []
    for i in range(4):
        for p, g in zip(theirs, gradients(i), strict=False):  # the third has no gradient
            p.grad = torch.tensor(g)
        if i == 2:
            params = [clnet.tensor(p.detach().numpy(), requires_grad=True) for p in theirs]
            optimizer = make(name, params, {**options, "lr": 7.0})
            optimizer.load_state_dict(reference.state_dict())
        reference.step()
        for p, g in zip(params, gradients(i), strict=False):
            p.grad = clnet.tensor(g)
        if optimizer is not None:
            optimizer.step()
    for p, q in zip(params, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_state_names_parameters_by_position():
    optimizer = clnet.optim.Adam([{"params": [p]} for p in parameters()])
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert state["state"][1] is state["state"]["1"]
    assert 1 in state["state"]
    assert state["state"].get(2) is None
    with pytest.raises(KeyError):
        state["state"][2]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_changed_learning_rate_counts_without_a_new_trace(compiled):
    params = parameters()
    optimizer = clnet.optim.SGD(params, lr=0.1)
    step = stepper(params, optimizer, compiled=compiled)
    ones = [clnet.ones(*shape) for shape in SHAPES]
    step(*ones)
    before = params[0].detach().numpy()
    optimizer.param_groups[0]["lr"] = 2.0
    step(*ones)
    np.testing.assert_allclose(params[0].detach().numpy(), before - 2.0, rtol=1e-6, atol=1e-6)
    if isinstance(step, Compiled):
        assert step.num_traces == 1


def test_changed_kind_of_update_is_traced_anew():
    params = parameters()
    optimizer = clnet.optim.SGD(params, lr=0.1, momentum=0.9)
    step = stepper(params, optimizer, compiled=True)
    grads = [clnet.ones(*shape) for shape in SHAPES]
    step(*grads)
    optimizer.param_groups[0]["momentum"] = 0.0
    before = params[0].detach().numpy()
    step(*grads)
    assert isinstance(step, Compiled)
    assert step.num_traces == 2
    np.testing.assert_allclose(params[0].detach().numpy(), before - 0.1, rtol=1e-5)


def test_groups_have_settings_of_their_own():
    first, second = parameters()
    groups = [{"params": [first], "lr": 1.0}, {"params": second, "momentum": 0.5}]
    optimizer = clnet.optim.SGD(groups, lr=0.1)
    for _ in range(2):
        first.grad, second.grad = clnet.ones(5, 3), clnet.ones(7)
        optimizer.step()
    np.testing.assert_allclose(first.detach().numpy(), starts()[0] - 2, rtol=1e-5, atol=1e-6)
    # The second step moves by lr * (1 + 0.5), after one by lr.
    np.testing.assert_allclose(second.detach().numpy(), starts()[1] - 0.25, rtol=1e-5, atol=1e-6)


def test_parameter_that_joins_late_has_its_own_bias_correction():
    first, second = parameters()
    optimizer = clnet.optim.Adam([first, second], lr=0.01)
    for _ in range(5):
        first.grad = clnet.ones(5, 3)
        optimizer.step()
    second.grad = clnet.ones(7)
    optimizer.step()
    # The first step of Adam is lr in size, whatever the gradient.
    np.testing.assert_allclose(second.detach().numpy(), starts()[1] - 0.01, rtol=1e-5, atol=1e-6)


def test_parameter_without_gradient_stays():
    params = parameters()
    optimizer = clnet.optim.Adam(params, lr=0.1)
    params[0].grad = clnet.ones(5, 3)
    optimizer.step()
    np.testing.assert_array_equal(params[1].detach().numpy(), starts()[1])
    assert (params[0].detach().numpy() != starts()[0]).all()


def test_step_calls_the_closure_first_and_gives_its_loss():
    x = clnet.ones(3, requires_grad=True)
    optimizer = clnet.optim.SGD([x], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with clnet.no_grad():
        assert float(optimizer.step(closure)) == 3.0
    assert x.tolist() == [0.5] * 3
    assert optimizer.step() is None


def test_zero_grad_forgets_gradients():
    params = parameters()
    optimizer = clnet.optim.SGD(params)
    params[0].grad = clnet.ones(5, 3)
    optimizer.zero_grad()
    assert params[0].grad is None


def test_zero_grad_overwrites_gradients_where_asked():
    layer = nn.Linear(2, 1)
    optimizer = clnet.optim.SGD(layer.parameters())
    layer.weight.grad = kept = clnet.ones(1, 2)
    for owner in (optimizer, layer):
        kept.fill_(3)
        owner.zero_grad(set_to_none=False)
        assert layer.weight.grad.tolist() == kept.tolist() == [[0, 0]]
        assert layer.bias.grad is None

    @clnet.compile
    def step(x):
        optimizer.zero_grad(set_to_none=False)
        layer(x).sum().backward()

    for _ in range(3):
        step(clnet.ones(4, 2))
        assert layer.weight.grad.tolist() == [[4, 4]]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"betas": (0.9, 1.0)}),
        ("AdamW", {"eps": -1e-8}),
        ("RMSprop", {"alpha": 1.5}),
    ],
    ids=case_id,
)
def test_setting_out_of_range_is_refused(name, options):
    with pytest.raises(ArgumentError, match=name):
        make(name, parameters(), options)


def test_groups_are_checked():
    first, second = parameters()
    with pytest.raises(ArgumentError, match="one parameter or more"):
        clnet.optim.SGD([])
    with pytest.raises(ArgumentError, match="given once"):
        clnet.optim.SGD([{"params": first}, {"params": [second, first]}])
    with pytest.warns(UserWarning, match="SGD: of a group's 3 parameters 2 are different"):
        assert len(clnet.optim.SGD([first, second, first]).param_groups[0]["params"]) == 2
    with pytest.raises(ArgumentError, match="is a leaf"):
        clnet.optim.SGD([first * 2])
    with pytest.raises(ArgumentError, match="lr=-1"):
        clnet.optim.SGD([{"params": first, "lr": -1}, {"params": second}])


def test_a_group_may_be_empty():
    p = clnet.nn.Parameter(clnet.ones(2))
    optimizer = clnet.optim.ASGD([{"params": []}, {"params": [p]}], lr=0.5)
    (p * p).sum().backward()
    optimizer.step()
    assert p.tolist() != [1.0, 1.0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("state"),
        lambda state: state["state"].pop(1),
        lambda state: state["state"]["0"].pop("momentum_buffer"),
        lambda state: state["state"]["0"].update(momentum_buffer=np.zeros((2, 2), np.float32)),
        lambda state: state["param_groups"][0].pop("lr"),
        lambda state: state["param_groups"].append({"num_params": 1}),
    ],
)
def test_state_that_does_not_fit_changes_nothing(spoil):
    params = parameters()
    optimizer = clnet.optim.SGD(params, lr=0.1, momentum=0.9)
    run(params, optimizer, range(2))
    other = clnet.optim.SGD(params, lr=0.5, momentum=0.9)
    state = optimizer.state_dict()
    spoil(state)
    with pytest.raises(CheckpointError):
        other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.5
    assert not other.state[params[0]]["momentum_buffer"].numpy().any()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adagrad", {"lr_decay": -1}),
        ("Adadelta", {"rho": 2}),
        ("Adadelta", {"lr": -1}),
        ("NAdam", {"betas": (1.0, 0.9)}),
        ("NAdam", {"momentum_decay": -1}),
        ("Adamax", {"lr": -1}),
        ("Adamax", {"betas": (0.9, 1.0)}),
        ("RAdam", {"eps": -1}),
        ("RAdam", {"betas": (-0.1, 0.9)}),
        ("ASGD", {"lambd": -1}),
        ("Rprop", {"lr": -1}),
        ("Rprop", {"etas": (1.0, 1.2)}),
        ("Lamb", {"betas": (1.0, 0.9)}),
        ("Lamb", {"eps": -1}),
        ("LARS", {"momentum": -1}),
        ("Adafactor", {"d": 0.5}),
        ("Adafactor", {"beta2_decay": 0.5}),
        ("Adafactor", {"eps": (-1.0, 1e-3)}),
    ],
)
def test_settings_of_further_optimisers_are_checked(name, options):
    with pytest.raises(ArgumentError, match=name):
        make(name, parameters(), options)


@pytest.mark.parametrize("optimizer", [clnet.optim.SGD, clnet.optim.Adam])
def test_an_eager_step_updates_many_parameters_in_few_launches(optimizer):
    """With the bits that each gets alone; large ones, narrow ones and those left out as well."""
    rng = np.random.default_rng(5)
    shapes = [(70_000,), (0, 3), (5, 4), *[(n,) for n in range(1, 30)]]
    dtypes = [clnet.bfloat16 if k % 7 == 3 else clnet.float32 for k in range(len(shapes))]
    hosts = [[rng.standard_normal(s).astype(np.float32) for s in shapes] for _ in range(4)]

    def parameters():
        return [
            clnet.tensor(x, dtype=d, requires_grad=True)
            for x, d in zip(hosts[0], dtypes, strict=True)
        ]

    def step(params, made, turn):
        for k, p in enumerate(params):
            late = turn == 0 and k % 5 == 2
            p.grad = None if late else clnet.tensor(hosts[turn + 1][k], dtype=p.dtype)
        for one in made:
            one.step()

    together, apart = parameters(), parameters()
    of_all, of_one = [optimizer(together, lr=0.1)], [optimizer([p], lr=0.1) for p in apart]
    launches = []
    for turn in range(3):
        step(apart, of_one, turn)
        with clnet.profile() as profile:
            step(together, of_all, turn)
        launches.append(sum(c.name.startswith("pointwise") for c in profile.commands))
        for p, q in zip(together, apart, strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    assert max(launches) < 10


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("Adam", {}),
        ("Adam", {"amsgrad": True}),
        *((name, {}) for name in ("Adamax", "RAdam", "NAdam", "Adagrad", "Adadelta", "ASGD")),
        ("RMSprop", {}),
        ("RMSprop", {"momentum": 0.9, "centered": True}),
    ],
    ids=case_id,
)
def test_without_decay_infinite_parameters_stay_infinite(name, settings):
    p = nn.Parameter(clnet.tensor([1.0, np.inf, -np.inf]))
    optimizer = getattr(clnet.optim, name)([p], lr=0.1, **settings)
    for _ in range(2):
        p.grad = clnet.tensor([0.5, 0.25, 0.5])
        optimizer.step()
    first, *others = p.tolist()
    assert first < 1
    assert others == [np.inf, -np.inf]
