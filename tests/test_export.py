"""``torch.export``: programs without their module's Python."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError


class Net(nn.Module):
    """Layers, a parameter, a buffer, and an argument that decides what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.scale = nn.Parameter(clnet.ones(4) * 2)
        self.register_buffer("shift", clnet.ones(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Any, y: Any = None, *, twice: bool = False) -> Any:
        """Two results."""
        z = self.norm(self.layer(x)) * self.scale + self.shift
        if y is not None:
            z = z + y
        return {"all": (z * 2 if twice else z).relu(), "sum": z.sum()}


def same(a: Any, b: Any) -> bool:
    return a["all"].equal(b["all"]) and a["sum"].equal(b["sum"])


def test_a_program_computes_what_the_module_does():
    net, x, y = Net().eval(), clnet.randn(2, 3), clnet.randn(2, 4)
    program = clnet.export.export(net, (x,))
    assert same(program.module()(x), net(x))
    wider = clnet.randn(5, 3)
    assert same(program.module()(wider), net(wider))
    with_more = clnet.export.export(net, (x, y), {"twice": True})
    assert same(with_more.module()(x, y, twice=True), net(x, y, twice=True))
    assert same(with_more.module()(x, y), net(x, y, twice=True))
    signature = with_more.graph_signature
    assert signature.user_inputs == ["x", "y", "twice"]
    assert len(signature.user_outputs) == 2
    assert set(signature.parameters) == set(dict(net.named_parameters()))
    assert {"shift", "norm.running_mean"} <= set(signature.buffers)
    assert set(program.state_dict) == set(net.state_dict())
    assert "def forward(self, x" in str(program)
    net.scale.data.zero_()
    assert program.module()(x)["all"].tolist() == net(x)["all"].tolist() == [[1.0] * 4] * 2
    kept = pickle.loads(pickle.dumps(program.module()))
    assert same(kept(x), net(x))


def test_a_program_refuses_other_values_than_it_was_made_with():
    net, x, y = Net().eval(), clnet.randn(2, 3), clnet.randn(2, 4)
    program = clnet.export.export(net, (x,))
    with pytest.raises(ArgumentError, match="of which the program was made"):
        program.module()(x, twice=True)
    with pytest.raises(ArgumentError, match="of which the program was made"):
        program.module()(x, y)
    with pytest.raises(ArgumentError, match="Unable to call ExportedProgram directly"):
        program(x)


class Branches(nn.Module):
    """What is read in Python."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        """A branch by a value, by a size, or a loop."""
        if self.kind == "value":
            return x if x.sum() > 0 else -x
        if self.kind == "size":
            return x * 2 if x.shape[0] > 1 else x
        return sum(row for row in x)


@pytest.mark.parametrize("kind", ["value", "size", "loop"])
def test_what_python_reads_is_refused(kind):
    with pytest.raises(ArgumentError, match=r"^export: forward reads neither values nor sizes"):
        clnet.export.export(Branches(kind), (clnet.ones(2, 2),))


def test_calls_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match=r"^export: forward takes the arguments"):
        clnet.export.export(Net(), ())
    with pytest.raises(ArgumentError, match=r"^export: it takes a module; got mod=function"):
        clnet.export.export(lambda x: x, (clnet.ones(1),))
    with pytest.raises(ArgumentError, match=r"^export.load: only export\(\)"):
        clnet.export.load("file")
