"""Programs that read, set back, move and replace an optimiser's state, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import clnet
from tests.answers import torch

KINDS = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Adamax")


def steps(lib: Any, optimizer: Any, params: list[Any], seed: int, count: int = 2) -> None:
    """Some steps, with drawn gradients."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        for p in params:
            p.grad = lib.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32))
        optimizer.step()


def made(lib: Any, kind: str, *, rows: int = 3) -> tuple[Any, list[Any]]:
    """An optimiser of two groups, and its parameters."""
    values = [np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2), np.ones(2, np.float32)]
    params = [lib.nn.Parameter(lib.tensor(v)) for v in values]
    groups = [{"params": [p], "lr": lr} for p, lr in zip(params, (0.1, 0.05), strict=True)]
    more = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    return getattr(lib.optim, kind)(groups, lr=0.1, **more), params


def pruned_and_grown(lib: Any, kind: str) -> list[Any]:
    """Rows go and come between steps, with their state, as of points that are fitted to images."""
    optimizer, params = made(lib, kind)
    steps(lib, optimizer, params, 1)
    (group, _), new = optimizer.param_groups, lib.ones(2, 2)
    for change in (
        lambda x, _: x[lib.tensor([True, False, True])],
        lambda x, filler: lib.cat((x, filler), 0),
    ):
        old = group["params"][0]
        state = optimizer.state.get(old, None)
        for name, value in list(state.items()):
            if name != "step" and value.ndim:
                state[name] = change(value, lib.zeros_like(new))
        del optimizer.state[old]
        group["params"][0] = lib.nn.Parameter(change(old.detach(), new))
        optimizer.state[group["params"][0]] = state
        params[0] = group["params"][0]
    steps(lib, optimizer, params, 2, 3)
    return params


def set_back(lib: Any, kind: str) -> list[Any]:
    """Moments and steps of one parameter begin anew, in place."""
    optimizer, params = made(lib, kind)
    steps(lib, optimizer, params, 1, 3)
    for value in optimizer.state[params[0]].values():
        value.zero_()
    steps(lib, optimizer, params, 2)
    return params


def replaced(lib: Any, kind: str) -> list[Any]:
    """The whole state is a program's own, of plain dicts."""
    optimizer, params = made(lib, kind)
    steps(lib, optimizer, params, 1, 3)
    before = optimizer.state
    optimizer.state = defaultdict(dict)
    optimizer.state[params[1]] = {**before[params[1]]}
    steps(lib, optimizer, params, 2)
    return params


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [pruned_and_grown, set_back, replaced])
def test_as_pytorch_after_a_program_handled_the_state(program, kind):
    if kind in ("NAdam", "Adagrad", "RAdam") and program is set_back:
        pytest.skip("PyTorch's begins anew otherwise: its product is 0, its sums are kept apart")
    for ours, theirs in zip(program(clnet, kind), program(torch, kind), strict=True):
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_steps_stands_among_the_tensors(kind):
    ours, theirs = made(clnet, kind), made(torch, kind)
    for lib, (optimizer, params) in ((clnet, ours), (torch, theirs)):
        steps(lib, optimizer, params, 1, 3)
    own, other = (optimizer.state[params[0]] for optimizer, params in (ours, theirs))
    names = {name for name in other if name not in ("mu_product", "step_size")}
    assert {*own} == {*own.keys()} == {*dict(own)} == {*own.copy()} == names
    assert len(own) == len(names)
    assert ("step" in own) == ("step" in other) == (own.get("step") is not None)
    if "step" not in other:
        with pytest.raises(KeyError):
            own["step"]
        return
    assert (own["step"].item(), own["step"].dtype) == (3, clnet.float32)
    own["step"] += 4
    assert own["step"].item() == 7
    for again in (copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert again["step"].item() == again.count == 7
    assert ours[0].state_dict()["state"][0]["step"].item() == 7


def test_programs_read_the_rate_and_the_mean_of_asgd():
    optimizers = []
    for lib in (clnet, torch):
        p = lib.ones(2, requires_grad=True)
        optimizers.append((lib, p, lib.optim.ASGD([p], lr=0.1, lambd=0.5, t0=1)))
    read = [[], []]
    for _ in range(4):
        for seen, (lib, p, optimizer) in zip(read, optimizers, strict=True):
            steps(lib, optimizer, [p], 1, 1)
            seen += [float(optimizer.state[p][name]) for name in ("step", "eta", "mu")]
    assert read[0] == pytest.approx(read[1], rel=1e-6)
    fresh = clnet.optim.ASGD([clnet.ones(2, requires_grad=True)], lr=0.1, lambd=0.5)
    assert fresh.state_dict()["state"]["0"]["eta"] == 0.1


def test_a_subclass_fills_the_state_before_the_first_step():
    def run(lib: Any) -> Any:
        class Shared(lib.optim.Adam):
            def __init__(self, params: Any) -> None:
                super().__init__(params, lr=0.1)
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        state["step"] = lib.zeros(1)
                        state["exp_avg"] = lib.zeros_like(p.data)
                        state["exp_avg_sq"] = lib.zeros_like(p.data)

        p = lib.nn.Parameter(lib.ones(3))
        optimizer = Shared([p])
        steps(lib, optimizer, [p], 1, 3)
        optimizer.load_state_dict(optimizer.state_dict())
        steps(lib, optimizer, [p], 2, 2)
        return p.tolist(), float(optimizer.state[p]["step"])

    (ours, count), (theirs, other) = run(clnet), run(torch)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    assert count == other == 5


def test_a_compiled_step_sees_what_a_program_did_to_the_state():
    results = []
    for compiled in (False, True):
        optimizer, params = made(clnet, "Adam")

        def run(optimizer: Any = optimizer, params: list[Any] = params) -> None:
            optimizer.zero_grad()
            sum((p * p).sum() for p in params).backward()
            optimizer.step()

        run = clnet.compile(run) if compiled else run
        for _ in range(3):
            run()
        optimizer.state[params[0]]["step"].zero_()
        optimizer.state[params[0]]["exp_avg"] = clnet.ones(3, 2)
        for _ in range(2):
            run()
        optimizer.state[params[1]]["step"].fill_(10)
        run()
        results.append([p.tolist() for p in params])
    eager, replayed = results
    for a, b in zip(eager, replayed, strict=True):
        np.testing.assert_array_equal(a, b)


EXTRA = {
    "tensor": lambda lib: lib.ones(3),
    "number": lambda lib: 5,
    "text": lambda lib: "text",
    "list": lambda lib: [1, 2],
    "dict": lambda lib: {"x": lib.ones(1)},
    "None": lambda lib: None,
}


@pytest.mark.parametrize("kind", EXTRA)
@pytest.mark.parametrize("form", ["clnet", "PyTorch"])
def test_what_a_program_keeps_of_a_parameter_is_in_the_state(kind, form):
    optimizer, params = made(clnet, "Adam")
    steps(clnet, optimizer, params, seed=0)
    kept = EXTRA[kind](clnet)
    optimizer.state[params[0]]["mine"] = kept
    state = optimizer.state_dict()
    if form == "PyTorch":  # whose groups do not say how many parameters they have
        state["param_groups"] = [
            {k: v for k, v in group.items() if k != "num_params"} for group in state["param_groups"]
        ]
    other, others = made(clnet, "Adam")
    other.state[others[1]]["gone"] = clnet.ones(7)
    other.load_state_dict(state)
    found = other.state[others[0]]
    assert list(found) == [
        "step",
        "exp_avg",
        "exp_avg_sq",
        *(["mine"] * (form == "clnet" or kept is not None)),
    ]
    assert "gone" not in other.state[others[1]]
    if kind == "tensor":
        assert found["mine"].tolist() == [1, 1, 1]
        assert found["mine"].data_ptr() != kept.data_ptr()
    elif kind == "dict":
        assert found["mine"]["x"].tolist() == [1]
    else:
        assert found.get("mine") == kept
    with clnet.no_grad():
        for x, y in zip(params, others, strict=True):
            y.copy_(x)
    for each, own in ((optimizer, params), (other, others)):
        steps(clnet, each, own, seed=1)
    for x, y in zip(params, others, strict=True):
        np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())


def test_gradients_that_are_set_to_0_are_the_tensors_they_were():
    p = clnet.ones(2, requires_grad=True)
    optimizer = clnet.optim.SGD([p], lr=0.1)
    (p * 3).sum().backward()
    held = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is held
    assert held.tolist() == [0, 0]
    (p * p).sum().backward(create_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert not p.grad.requires_grad
    assert p.grad.tolist() == [0, 0]
