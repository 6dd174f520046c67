"""A compiled function sees the attributes of modules that it reads, and no others."""

from __future__ import annotations

import textwrap
from functools import partial
from types import SimpleNamespace

import pytest

import clnet
from clnet import nn

pytestmark = pytest.mark.device


class Scaling(nn.Module):
    """What a loop keeps in its model, beside what the model reads."""

    def __init__(self):
        super().__init__()
        self.scale, self.layer = 1.0, nn.Identity()
        self.batches_until_now, self.best_until_now, self.seen_until_now, self.last_object = (
            0,
            None,
            [],
            {},
        )
        self.functions = [lambda x: x + self.shift]
        self.shift = 0.0

    def forward(self, x):
        return self.functions[0](self.layer(x) * self.scale)


LOOPS = {
    "a count": lambda m, y: setattr(m, "batches_until_now", m.batches_until_now + 1),
    "a result": lambda m, y: setattr(m, "best_until_now", y),
    "a new name": lambda m, y: setattr(m, f"result_until_now_{m.batches_until_now}", y.item()),
    "a list": lambda m, y: m.seen_until_now.append(y.item()),
    "an object": lambda m, y: setattr(m, "last_object", SimpleNamespace(last=y.item())),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["module", "method", "function"])
def test_what_a_loop_keeps_in_its_model_is_no_reason_to_trace(loop, way):
    model, x = Scaling(), clnet.ones(1)
    made = {"module": model, "method": model.forward, "function": lambda x: model(x)}[way]
    f = clnet.compile(made)
    for _ in range(3):
        LOOPS[loop](model, f(x))
    assert f.num_traces == 1
    model.scale = 3.0
    assert f(x).item() == 3
    model.shift = 4.0
    assert f(x).item() == 7


def test_hooks_may_read_what_the_code_does_not_name():
    model, x = Scaling(), clnet.ones(1)
    f = clnet.compile(model)
    assert f(x).item() == 1
    model.gain = 2.0
    model.layer.register_forward_hook(lambda module, args, y: y * model.gain)
    assert f(x).item() == 2
    model.gain = 5.0
    assert f(x).item() == 5


def test_a_hook_of_all_modules_that_was_taken_away_reads_nothing_more():
    class Unhooked(Scaling):
        pass

    nn.modules.module.register_module_forward_hook(lambda module, args, y: None).remove()
    model, x = Unhooked(), clnet.ones(1)
    f = clnet.compile(model)
    for _ in range(3):
        model.batches_until_now += 1
        f(x)
    assert f.num_traces == 1


def test_what_a_later_function_names_counts_from_then_on():
    model, x = Scaling(), clnet.ones(1)
    first = clnet.compile(model)
    first(x)
    model.extra = 2.0
    later = clnet.compile(lambda x: model(x) * model.extra)
    assert later(x).item() == 2
    model.extra = 3.0
    assert (first(x).item(), later(x).item()) == (1, 3)


def test_methods_that_are_decorated_know_their_object():
    class Decorated(nn.Module):
        scale = 1.0

        @clnet.no_grad()
        def forward(self, x):
            return x * self.scale

    model, x = Decorated(), clnet.ones(1)
    f = clnet.compile(model.forward)
    assert f(x).item() == 1
    model.scale = 3.0
    assert f(x).item() == 3


def test_layers_of_ours_are_asked_for_all_they_have():
    class Padded(nn.Conv1d):
        pass

    layer, x = Padded(1, 1, 1, bias=False), clnet.ones(1, 1, 4)
    f = clnet.compile(layer)
    assert f(x).shape == (1, 1, 4)
    layer.stride = (2,)
    assert f(x).shape == (1, 1, 2)


def test_objects_beside_a_large_network_are_looked_at():
    """Its layers are more than the objects that are looked at."""

    class Layer(nn.Module):
        def forward(self, x):
            return x

    class Trainer:
        def __init__(self):
            self.model = nn.Sequential(*[Layer() for _ in range(300)])
            self.settings = SimpleNamespace(scale=1.0)
            self.apply = partial(self.scaled, shift=1.0)

        def scaled(self, x, shift):
            return x * self.settings.scale + shift

        def step(self, x):
            return self.apply(self.model(x))

    trainer, x = Trainer(), clnet.ones(1)
    f = clnet.compile(trainer.step)
    assert f(x).item() == 2
    trainer.settings.scale = 3.0
    assert f(x).item() == 4


def test_classes_of_modules_that_are_not_kept_are_the_programs():
    space = {"__name__": "run_and_not_kept"}
    source = """
    RATE = {"is": 1.0}
    class Scaled:
        def __call__(self, x):
            return x * RATE["is"]
    """
    exec(textwrap.dedent(source), space)
    scaled = space["Scaled"]()
    f = clnet.compile(lambda x: scaled(x))
    assert f(clnet.ones(1)).item() == 1
    space["RATE"]["is"] = 2.0
    assert f(clnet.ones(1)).item() == 2


@pytest.mark.parametrize("where", ["leaf", "argument", "parameter", "module", "backward"])
def test_what_hooks_find_outside_is_seen(where):
    factor, w, layer = [2.0], clnet.ones(2, requires_grad=True), nn.Linear(2, 1, bias=False)
    with clnet.no_grad():
        layer.weight.fill_(1)

    class Scaled:
        def hook(self, g):
            return g * factor[0]

    held = layer.weight if where == "parameter" else w
    if where == "module":
        layer.register_forward_hook(lambda *each: each[2] * factor[0])
    elif where == "backward":
        layer.register_full_backward_hook(lambda _, grads, __: (grads[0] * factor[0],))
    else:
        held.register_hook(Scaled().hook)

    def gradient(x):
        asked = {"argument": x, "parameter": layer.weight}.get(where, w)
        y = x if where == "argument" else x * w
        return clnet.autograd.grad(layer(y[None]).sum(), [asked])[0]

    run = clnet.compile(gradient)
    x = w if where == "argument" else clnet.ones(2)
    found = []
    for value in (2.0, 2.0, 3.0):
        factor[0] = value
        found.append((run(x).tolist(), gradient(x).tolist()))
    assert all(a == b for a, b in found)
    assert found[0] != found[2]
    assert run.num_traces == 2


def count_by_setattr(module, x):
    setattr(module, "calls", getattr(module, "calls", 0) + 1)  # noqa: B010
    return x * module.calls


def count_from_none(module, x):
    if not hasattr(module, "calls"):
        module.calls = 0
    module.calls += 1
    return x * module.calls


def count_in_its_dict(module, x):
    vars(module)["calls"] = vars(module).get("calls", 0) + 1
    return x * vars(module)["calls"]


@pytest.mark.parametrize("count", [count_by_setattr, count_from_none, count_in_its_dict])
@pytest.mark.parametrize("make", [nn.Identity, Scaling, SimpleNamespace])
def test_a_counter_that_the_function_makes(make, count):
    module = make()
    f = clnet.compile(lambda x: count(module, x))
    assert [f(clnet.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert module.calls == 4
    assert f.num_traces == 2


def test_a_forward_that_assigns_what_is_there_is_traced_once():
    """As Swin of transformers clamps its windows: numbers and texts made anew are the same."""

    class Clamped(nn.Module):
        def __init__(self):
            super().__init__()
            self.window, self.shape, self.name, self.rate = 1000, (), "", 0.5

        def forward(self, x):
            self.window = min(self.window, x.shape[-1] * 100)
            self.shape = (x.shape[0] * 500, "rows")
            self.name = f"of {x.shape[-1]}"
            self.rate = float(x.shape[-1]) / 8
            return x * self.window * self.rate

    model, x = Clamped(), clnet.tensor([[1.0, 2.0, 3.0]])
    compiled = clnet.compile(model)
    for _ in range(6):
        assert compiled(x).tolist() == [[112.5, 225.0, 337.5]]
    # The first call finds others than it leaves.
    assert compiled.num_traces <= 2
    model.window, model.rate = 200, 1.0
    assert compiled(x).tolist() == [[75.0, 150.0, 225.0]] == model(x).tolist()
    model.rate = 0.375
    for _ in range(3):
        assert compiled(x).tolist() == [[75.0, 150.0, 225.0]]


@pytest.mark.parametrize(("value", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,))])
def test_what_only_looks_alike_is_another(value, other):
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = value

        def forward(self, x):
            return x + 1 if repr(self.held) == repr(value) else x

    model, x = Kept(), clnet.tensor([1.0])
    compiled = clnet.compile(model)
    assert compiled(x).tolist() == compiled(x).tolist() == [2]
    model.held = other
    assert compiled(x).tolist() == [1]
    assert type(model.held) is type(other)
