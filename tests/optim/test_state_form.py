"""Checkpoints of optimisers and schedules, written by clnet and read by PyTorch and back."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import clnet
from tests.answers import torch

pytestmark = pytest.mark.device

OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "Adagrad": {"lr_decay": 0.1},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adadelta": {},
    "Rprop": {},
    "ASGD": {"t0": 1},
}
SCHEDULERS = {
    "StepLR": lambda s, o: s.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 5], 0.5),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 9),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda steps: 0.9**steps),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.2, 12),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=0, factor=0.5),
}


def made(package: Any, name: str) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    params = [
        package.nn.Parameter(package.tensor(rng.standard_normal(shape).astype("f4")))
        for shape in ((2, 3), (3,))
    ]
    return params, getattr(package.optim, name)(params, lr=0.1, **OPTIMIZERS[name])


def go(package: Any, params: list[Any], optimizer: Any, steps: range, schedule: Any = None) -> None:
    for step in steps:
        rng = np.random.default_rng(step)
        for p in params:
            p.grad = package.tensor(rng.standard_normal(tuple(p.shape)).astype("f4"))
        optimizer.step()
        if schedule is not None:
            watches = "Plateau" in type(schedule).__name__
            schedule.step(1.0) if watches else schedule.step()


def carried(value: Any, package: Any) -> Any:
    """A state with the tensors of the other package; PyTorch's goes by a file, as it is written."""
    if package is clnet:
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        return clnet.load(file)
    if isinstance(value, clnet.Tensor):
        return torch.tensor(value.numpy())
    if isinstance(value, Mapping):
        return {k: carried(v, package) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(carried(v, package) for v in value)
    return value


def kinds(value: Any) -> Any:
    if isinstance(value, clnet.Tensor | torch.Tensor):
        return (str(value.dtype).rpartition(".")[2], tuple(value.shape))
    return "number" if isinstance(value, int | float) else type(value).__name__


def shifted(source: Any, target: Any, name: str, make: Any = None) -> None:
    """Seven steps of one package, and three and four with a state that changes hands between."""
    params, optimizer = made(source, name)
    schedule = make and make(source.optim.lr_scheduler, optimizer)
    go(source, params, optimizer, range(3), schedule)
    others, again = made(target, name)
    resumed = make and make(target.optim.lr_scheduler, again)
    with target.no_grad():
        for p, q in zip(params, others, strict=True):
            q.copy_(target.tensor(p.detach().numpy()))
    again.load_state_dict(carried(optimizer.state_dict(), target))
    if make:
        resumed.load_state_dict(carried(schedule.state_dict(), target))
    go(source, params, optimizer, range(3, 7), schedule)
    go(target, others, again, range(3, 7), resumed)
    for p, q in zip(params, others, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)
    rates = [o.param_groups[0]["lr"] for o in (optimizer, again)]
    assert rates[0] == pytest.approx(rates[1])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimisers_checkpoint_goes_either_way(name):
    shifted(torch, clnet, name)
    shifted(clnet, torch, name)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedules_checkpoint_goes_either_way(name):
    shifted(torch, clnet, "Adam", SCHEDULERS[name])
    shifted(clnet, torch, "Adam", SCHEDULERS[name])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimisers_state_has_pytorchs_keys_and_kinds(name):
    found = []
    for package in (clnet, torch):
        params, optimizer = made(package, name)
        go(package, params, optimizer, range(2))
        found.append(optimizer.state_dict())
    ours, theirs = found
    for mine, other in zip(ours["param_groups"], theirs["param_groups"], strict=True):
        assert {*mine} - {"num_params"} == {*other}
        assert mine["params"] == other["params"]
    assert [*ours["state"]] == [*theirs["state"]] == [0, 1]
    for i, entry in theirs["state"].items():
        # SGD's steps are counted, too; a number of Python where PyTorch has one in a tensor.
        assert {*ours["state"][i]} - ({"step"} if name == "SGD" else set()) == {*entry}
        for key in {*entry} - {"mu_product", "eta", "mu"}:
            assert kinds(ours["state"][i][key]) == kinds(entry[key])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedules_state_has_pytorchs_keys(name):
    found = []
    for package in (clnet, torch):
        params, optimizer = made(package, "Adam")
        schedule = SCHEDULERS[name](package.optim.lr_scheduler, optimizer)
        go(package, params, optimizer, range(2), schedule)
        assert schedule._last_lr == schedule.get_last_lr()
        found.append(schedule.state_dict())
    ours, theirs = found
    assert {*theirs} <= {*ours}
    for key in {*theirs} - {"_step_count"}:  # which warm restarts do not count there
        if isinstance(theirs[key], int | float | dict) or key == "_last_lr":
            assert ours[key] == pytest.approx(theirs[key])


def test_names_of_parameters_are_kept_as_pytorchs():
    found = []
    for package in (clnet, torch):
        model = package.nn.Linear(3, 2)
        optimizer = package.optim.SGD(model.named_parameters(), lr=0.1)
        other = package.nn.Linear(2, 1)
        optimizer.add_param_group({"params": other.named_parameters(), "lr": 1.0})
        groups = optimizer.state_dict()["param_groups"]
        again = package.optim.SGD([{"params": m.named_parameters()} for m in (model, other)])
        again.load_state_dict(optimizer.state_dict())
        found.append([g["param_names"] for g in (*optimizer.param_groups, *groups)])
        found[-1] += [g["param_names"] for g in again.param_groups]
        plain = package.optim.SGD(model.parameters(), lr=0.1)
        assert "param_names" not in plain.param_groups[0]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SGD", {"momentum": 0.9}),
        ("Adam", {"amsgrad": True}),
        ("RMSprop", {"centered": True, "momentum": 0.5}),
    ],
)
@pytest.mark.parametrize("back", [False, True], ids=["more", "less"])
@pytest.mark.parametrize("package", [clnet, torch], ids=["ours", "theirs"])
def test_a_state_brings_the_settings_of_its_optimiser(name, settings, back, package):
    saved, built = (settings, {})[:: -1 if back else 1]
    params = [package.nn.Parameter(package.ones(2, 3))]
    first = getattr(package.optim, name)(params, lr=0.1, **saved)
    go(package, params, first, range(3))
    ours = [clnet.nn.Parameter(clnet.tensor(p.detach().numpy().copy())) for p in params]
    second = getattr(clnet.optim, name)(ours, lr=0.5, **built)
    second.load_state_dict(
        first.state_dict() if package is clnet else carried(first.state_dict(), clnet)
    )
    go(package, params, first, range(3, 5))
    go(clnet, ours, second, range(3, 5))
    np.testing.assert_allclose(ours[0].detach().numpy(), params[0].detach().numpy(), 1e-6)
    assert set(second.state[ours[0]]) == set(first.state[params[0]])
