"""Optimisers that users write: the same class on PyTorch's base and on clnet's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, CheckpointError, GradientError, TraceError

pytestmark = pytest.mark.device

RNG = np.random.default_rng(0)
START = [RNG.standard_normal(s).astype(np.float32) for s in [(3, 4), (4,)]]
X = RNG.standard_normal((5, 3)).astype(np.float32)


def written(library: Any, counter: Any = None) -> Any:
    """An optimiser as users write them; it counts steps in Python unless it makes a counter."""

    class Written(library.optim.Optimizer):
        def __init__(self, params, lr=0.1, beta=0.9):
            self.rates = self.settings = self.settle = self.check = self.version = None
            super().__init__(params, {"lr": lr, "beta": beta})

        @library.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with library.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["step"] = 0 if counter is None else counter()
                        state["mean"] = library.zeros_like(p)
                        state["square"] = library.zeros_like(p.data)
                    state["step"] += 1
                    mean, square, g = state["mean"], state["square"], p.grad.data
                    mean.lerp_(g, 1 - group["beta"])
                    square.mul_(0.99).addcmul_(g, g, value=0.01)
                    scale = 1 - group["beta"] ** state["step"]
                    p.data.addcdiv_(mean, square.sqrt().add_(1e-4), value=-group["lr"])
                    p.data.add_(mean.sign().mul_(scale), alpha=-0.01)
                    p.grad.copy_(g * 0.5)
            return loss

    return Written


def values(tensors) -> list[np.ndarray]:
    return [np.array(t.detach().numpy()) for t in tensors]


def close(got, expected) -> None:
    for a, b in zip(values(got), values(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def trained(library: Any, *, steps: int = 3) -> tuple[Any, Any]:
    """Parameters and optimiser after some steps, the last with a closure and another rate."""
    w, b = (library.nn.Parameter(library.tensor(v)) for v in START)
    optimizer = written(library)([{"params": [w], "lr": 0.05}, {"params": [b]}], lr=0.2)
    x = library.tensor(X)

    def closure():
        optimizer.zero_grad()
        loss = ((x @ w + b) ** 2).mean()
        loss.backward()
        return loss

    for _ in range(steps - 1):
        closure()
        optimizer.step()
    optimizer.param_groups[1]["lr"] = 0.01
    assert optimizer.step(closure).item() > 0
    return (w, b), optimizer


def test_a_users_optimiser_makes_the_steps_that_it_makes_with_pytorch():
    torch = pytest.importorskip("torch")
    (ours, optimizer), (theirs, other) = trained(clnet), trained(torch)
    close(ours, theirs)
    close([p.grad for p in ours], [p.grad for p in theirs])
    for p, q in zip(ours, theirs, strict=True):
        assert optimizer.state[p]["step"] == 3
        close([optimizer.state[p]["mean"]], [other.state[q]["mean"]])
    state, expected = optimizer.state_dict(), other.state_dict()
    assert state["param_groups"] == expected["param_groups"]
    assert {k: sorted(v) for k, v in state["state"].items()} == {
        k: sorted(v) for k, v in expected["state"].items()
    }


def test_pytorchs_state_is_gone_on_from():
    torch = pytest.importorskip("torch")
    (theirs, other) = trained(torch)
    weights = [clnet.nn.Parameter(clnet.tensor(p)) for p in theirs]
    optimizer = written(clnet)([{"params": [weights[0]]}, {"params": [weights[1]]}])
    optimizer.load_state_dict(other.state_dict())
    assert optimizer.param_groups[1]["lr"] == 0.01
    for p, q in zip(weights, theirs, strict=True):
        p.grad = clnet.ones_like(p)
        q.grad = torch.ones_like(q)
    optimizer.step()
    other.step()
    close(weights, theirs)
    again = written(clnet)([{"params": [weights[0]]}, {"params": [weights[1]]}])
    again.load_state_dict(optimizer.state_dict())
    assert again.state[weights[0]]["step"] == 4
    assert again.state[weights[0]]["mean"] is not optimizer.state[weights[0]]["mean"]
    with pytest.raises(CheckpointError, match=r"state=\[1, 1\], optimiser=\[2\]"):
        written(clnet)(weights).load_state_dict(optimizer.state_dict())
    with pytest.raises(CheckpointError, match=r"not an optimiser's state.*Pass what state_dict"):
        again.load_state_dict({})


@pytest.mark.parametrize("kind", [written(clnet), clnet.optim.SGD, clnet.optim.LBFGS])
def test_hooks_are_called_around_a_step(kind):
    p = clnet.nn.Parameter(clnet.ones(2))
    optimizer = kind([p], lr=0.1)
    said: list[str] = []

    def before(optimizer, args, kwargs):
        said.append("before")
        assert args == (optimizer,)
        return (optimizer, lambda: (p * p).sum().backward() or p.sum()), kwargs

    handle = optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda *_: said.append("after"))
    optimizer.step()
    assert said == ["before", "after"]
    assert p.tolist() != [1, 1]
    handle.remove()
    optimizer.step(lambda: p.sum())
    assert said == ["before", "after", "after"]
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(GradientError, match="a hook before a step gives"):
        optimizer.step()


def test_groups_are_added_and_shown():
    p, q = (clnet.nn.Parameter(clnet.ones(2)) for _ in range(2))
    optimizer = written(clnet)(iter([("p", p)]), lr=0.3)
    optimizer.add_param_group({"params": q, "lr": 0.1})
    assert [g["lr"] for g in optimizer.param_groups] == [0.3, 0.1]
    assert repr(optimizer).splitlines()[1:4] == [
        "Parameter Group 0",
        "    beta: 0.9",
        "    lr: 0.3",
    ]
    with pytest.raises(ArgumentError, match="a parameter is given once"):
        optimizer.add_param_group({"params": [q]})
    abstract = clnet.optim.Optimizer([p], {})
    with pytest.raises(NotImplementedError, match=r"Optimizer\.step"):
        abstract.step()


def steps(kind: Any, *, compiled: bool, count: int = 4) -> tuple[list[np.ndarray], int]:
    w, b = (clnet.nn.Parameter(clnet.tensor(v)) for v in START)
    optimizer = kind([w, b])

    def step(x):
        optimizer.zero_grad()
        loss = ((x @ w + b) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = clnet.tensor(X)
    step(x)
    run = clnet.compile(step) if compiled else step
    for k in range(count):
        if k == count - 1:
            optimizer.param_groups[0]["lr"] = 0.02
        run(x)
    return values([w, b]), run.num_traces if compiled else 0  # pyrefly: ignore[missing-attribute]


@pytest.mark.parametrize("first", [lambda: clnet.zeros(()), lambda: 0])
def test_a_users_step_is_compiled_once(first):
    """Whether it counts in tensors or in Python, and whatever its rate is."""
    kind = written(clnet, first)
    (got, traces), (expected, _) = steps(kind, compiled=True), steps(kind, compiled=False)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert traces == 1


@pytest.mark.parametrize("looks", [False, True])
def test_a_step_that_counts_is_traced_once(looks):
    """As LAMB's; so may the function that has it look at what was counted."""

    class Counts(clnet.optim.Optimizer):
        total = 0

        @clnet.no_grad()
        def step(self):
            self.total += 2
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=clnet.zeros_like(p))
                state["step"] = state["step"] + 1
                state["mean"].mul_(0.9).add_(p.grad)
                p.sub_(state["mean"], alpha=0.1)

    w = clnet.nn.Parameter(clnet.tensor(START[1]))
    optimizer = Counts([w], {})

    def train(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()
        return x * 1

    def look(x):
        return train(x) * (1 + optimizer.state[w]["step"] % 2)

    step = clnet.compile(look if looks else train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factors = [int(step(clnet.ones(())).item()) for _ in range(6)]
    assert factors == ([2, 1] * 3 if looks else [1] * 6)
    assert (optimizer.state[w]["step"], optimizer.total) == (6, 12)
    assert step.num_traces == 2  # the first made the state


class Turns(clnet.optim.Optimizer):
    """Makes its state in its first step; tensors are made anew, and two take turns."""

    def __init__(self, params):
        super().__init__(params, {})

    @clnet.no_grad()
    def step(self):
        self.total = getattr(self, "total", 0) + self.param_groups[0]["params"][0].grad.sum()
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state.update(mean=clnet.zeros_like(p), a=p.grad.clone(), b=clnet.ones_like(p))
            state["mean"] = state["mean"] * 0.9 + p.grad
            state["a"], state["b"] = state["b"], state["a"] - p.grad
            p.sub_(state["mean"] * 0.1 + state["a"] * 0.01 + self.total * 0.01)


def test_state_that_a_traced_step_makes_is_that_of_eager():
    def trained(*, compiled):
        w = clnet.nn.Parameter(clnet.tensor(START[0]))
        optimizer, kept = Turns([w]), []

        def step(x):
            optimizer.zero_grad()
            (x @ w).square().mean().backward()
            optimizer.step()

        run = clnet.compile(step) if compiled else step
        for k in range(7):
            run(clnet.tensor(X))
            kept += values([w, *optimizer.state[w].values(), optimizer.total])
            if k == 3:
                optimizer.state.clear()
        return kept, run.num_traces if compiled else 0  # pyrefly: ignore[missing-attribute]

    (got, traces), (expected, _) = trained(compiled=True), trained(compiled=False)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert traces == 4  # those that make it, and those that find it


def test_state_is_as_it_was_when_a_traced_step_fails():
    w = clnet.nn.Parameter(clnet.ones(3))
    optimizer = Turns([w])

    def step(x):
        (w * x).sum().backward()
        optimizer.step()
        if x.sum().item():
            w.grad = None

    with pytest.raises(TraceError, match="read on the host"):
        clnet.compile(step)(clnet.ones(3))
    assert not optimizer.state
    assert "total" not in vars(optimizer)

    class Listed(Turns):
        def step(self):
            self.state["seen"] = tuple(p.grad * 2 for p in self.param_groups[0]["params"])

    optimizer = Listed([w])
    with pytest.raises(TraceError, match=r"keeps tensors in tuples.*name='seen'"):
        clnet.compile(step)(clnet.ones(3))
    assert not optimizer.state


def test_settings_of_a_written_optimiser_are_its_own():
    class Ahead(clnet.optim.Optimizer):
        def step(self):
            return self.param_groups[0]["betas"]

    settings = {"lr": -1.0, "betas": (0.9, 1.0)}
    assert Ahead([clnet.nn.Parameter(clnet.ones(1))], settings).step() == (0.9, 1.0)


@pytest.mark.parametrize("name", ["SGD", "LBFGS", "ASGD", "Adam"])
def test_hooks_are_called_around_the_state(name):
    """As PyTorch calls them, and with the whole state of optimisers that add to it."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    said: dict[str, list[str]] = {}
    for lib in (clnet, torch):
        optimizer = getattr(lib.optim, name)([lib.nn.Parameter(lib.ones(2))], lr=0.5)
        told = said[lib.__name__] = []

        def saved(_, state, told=told):
            told.append(f"after {sorted(state)}")
            return state | {"more": 1}

        def loading(_, state, told=told):
            told.append(f"loading {sorted(state)}")
            state["param_groups"][0]["lr"] = 0.25
            del state["more"]

        optimizer.register_state_dict_post_hook(saved)
        optimizer.register_state_dict_pre_hook(lambda _, told=told: told.append("second"))
        first = optimizer.register_state_dict_pre_hook(
            lambda _, told=told: told.append("first"), prepend=True
        )
        optimizer.register_load_state_dict_pre_hook(loading)
        optimizer.register_load_state_dict_post_hook(
            lambda o, told=told: told.append(f"loaded {o.param_groups[0]['lr']}")
        )
        state = optimizer.state_dict()
        first.remove()
        optimizer.load_state_dict(state)
        assert "more" in state
        optimizer.state_dict()
    assert said["clnet"] == said["torch"]
    assert "loaded 0.25" in said["clnet"]


class Counting(clnet.optim.Optimizer):
    """One that keeps a number beside what it keeps of parameters."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.5})

    def step(self, closure=None):
        self.state["steps"] = self.state.get("steps", 0) + 1


@pytest.mark.parametrize("make", [Counting, clnet.optim.Adam, clnet.optim.SGD])
def test_what_is_of_no_parameter_is_saved_with_the_state(make):
    p = clnet.ones(2, requires_grad=True)
    optimizer = make([p])
    optimizer.state["steps"] = 2
    p.grad = clnet.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    other = make([p])
    other.load_state_dict(state)
    wanted = 3 if make is Counting else 2
    assert state["state"]["steps"] == other.state["steps"] == wanted
    assert 0 in state["state"] or make is Counting


@pytest.mark.parametrize("where", ["group", "attribute"])
def test_a_wrapper_that_counts_in_python_is_traced_anew(where):
    """Lookahead as users write it: without ``super().__init__()``, around another optimiser."""

    class Ahead(clnet.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer, self.param_groups = optimizer, optimizer.param_groups
            self.count, self.state = 0, {}
            for p in self.param_groups[0]["params"]:
                self.state[p] = {"slow": p.detach().clone()}

        def step(self):
            self.optimizer.step()
            kept = self.param_groups[0] if where == "group" else vars(self)
            kept["count"] = (kept.get("count", 0) + 1) % 2
            if kept["count"] == 0:
                for p, state in self.state.items():
                    p.data.copy_(state["slow"].lerp_(p.data, 0.5))

    def trained(compiled):
        w = clnet.nn.Parameter(clnet.tensor(START[0]))
        optimizer = Ahead(clnet.optim.SGD([w], lr=0.1, momentum=0.9))

        def step():
            w.grad = w.detach() * 2
            optimizer.step()

        run = clnet.compile(step) if compiled else step
        for _ in range(6):
            run()
        return w.detach().numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(trained(True), trained(False), rtol=1e-5)


def test_hooks_of_all_optimisers_stand_around_the_own_ones():
    optimiser = clnet.optim.optimizer
    p, said = clnet.nn.Parameter(clnet.ones(2)), []
    optimizer = clnet.optim.SGD([p], lr=0.5)
    handles = [
        register(lambda *_, name=name: said.append(name))
        for name, register in {
            "before": optimizer.register_step_pre_hook,
            "after": optimizer.register_step_post_hook,
            "all before": optimiser.register_optimizer_step_pre_hook,
            "all after": optimiser.register_optimizer_step_post_hook,
        }.items()
    ]
    optimizer.step()
    assert said == ["all before", "before", "after", "all after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(said) == 4


def test_a_state_with_more_in_it_is_loaded():
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.ones(2))], lr=0.5)
    groups = [{**group, "lr": 0.25} for group in optimizer.state_dict()["param_groups"]]
    optimizer.load_state_dict({**optimizer.state_dict(), "param_groups": groups, "epoch": 3})
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert "epoch" not in optimizer.state_dict()


@pytest.mark.parametrize("kind", ["written", "Adam"])
def test_a_class_completes_what_is_loaded(kind):
    base = clnet.optim.Optimizer if kind == "written" else getattr(clnet.optim, kind)

    class Completing(base):
        def __init__(self, params: Any) -> None:
            own = {"defaults": {"lr": 0.1}} if kind == "written" else {"lr": 0.1}
            super().__init__(params, **own)

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("added", 3)
            for own in self.state.values():
                if "half" in own:
                    own["half"] = own["half"].to(clnet.bfloat16)

    p = clnet.nn.Parameter(clnet.ones(2))
    first, second = Completing([p]), Completing([p])
    if kind == "written":
        first.state[p]["half"] = clnet.ones(2, dtype=clnet.bfloat16)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["added"] == 3
    assert "added" not in first.param_groups[0]
    if kind == "written":  # floats get the parameter's dtype, but for what the class says
        assert second.state[p]["half"].dtype == clnet.bfloat16


def test_what_a_program_keeps_beside_is_loaded():
    first, second = (clnet.nn.Parameter(clnet.ones(2)) for _ in range(2))
    saved, loaded = clnet.optim.AdamW([first]), clnet.optim.AdamW([second])
    first.grad = clnet.ones(2)
    saved.step()
    saved.state[first]["slow"] = clnet.full((2,), 3.0)
    saved.state[first]["seen"] = 5
    loaded.load_state_dict(saved.state_dict())
    saved.state[first]["slow"].fill_(4.0)
    assert loaded.state[second]["slow"].tolist() == [3.0, 3.0]
    assert loaded.state[second]["seen"] == 5
    second.grad = clnet.ones(2)
    loaded.step()
    assert int(loaded.state[second]["step"]) == 2
    short = saved.state_dict()
    del short["state"][0]["exp_avg"]
    with pytest.raises(CheckpointError, match="does not fit"):
        loaded.load_state_dict(short)
