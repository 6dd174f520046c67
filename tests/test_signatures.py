"""Calls as PyTorch spells them: keywords, places, results written to ``out``; and the script."""

from __future__ import annotations

import importlib
import inspect

import pytest

import clnet
from clnet import nn, optim
from clnet.errors import ArgumentError, DtypeError
from clnet.nn import functional as F
from clnet.values.spelling import Spelling
from tests.answers import pinned_torch

pytestmark = pytest.mark.device


def test_operands_have_pytorchs_names():
    x = clnet.arange(6.0).reshape(2, 3)
    assert clnet.sum(input=x, axis=1).tolist() == [3, 12]
    assert clnet.sum(x, 1, keepdims=True).shape == (2, 1)
    assert clnet.bmm(input=x[None], mat2=x.T[None]).shape == (1, 2, 2)
    assert clnet.det(A=clnet.eye(2)).item() == 1
    assert clnet.swapaxes(x, axis0=0, axis1=1).shape == (3, 2)
    assert nn.init.constant_(tensor=clnet.empty(2), val=3).tolist() == [3, 3]


def test_what_changes_nothing_is_taken():
    x = clnet.ones(2)
    assert clnet.clone(x, memory_format=clnet.preserve_format).tolist() == [1, 1]
    assert clnet.zeros(2, layout=clnet.strided, pin_memory=True).tolist() == [0, 0]
    assert x.float(memory_format=clnet.contiguous_format) is x
    with pytest.raises(ArgumentError, match=r"zeros: layout=.*sparse_coo is not supported"):
        clnet.zeros(2, layout=clnet.sparse_coo)


def test_results_are_written_to_out():
    x, out = clnet.arange(3.0), clnet.empty(0)
    assert clnet.cumsum(x, 0, out=out) is out
    assert out.tolist() == [0, 1, 3]
    values, where = clnet.empty(2), clnet.empty(2, dtype=clnet.int64)
    clnet.topk(x, 2, out=(values, where))
    assert (values.tolist(), where.tolist()) == ([2, 1], [2, 1])
    with pytest.raises(DtypeError, match="does not fit the dtype of out"):
        clnet.cumsum(x, 0, out=clnet.empty(3, dtype=clnet.int64))


def test_losses_take_their_old_arguments():
    x, y = clnet.arange(3.0), clnet.zeros(3)
    assert F.mse_loss(x, y, size_average=False).item() == 5
    assert F.mse_loss(x, y, None, False).tolist() == [0, 1, 4]
    assert nn.MSELoss(reduce=False)(x, y).tolist() == [0, 1, 4]
    with pytest.warns(UserWarning, match="deprecated"):
        assert F.mse_loss(x, y, reduction="elementwise_mean").item() == pytest.approx(5 / 3)
    with pytest.warns(UserWarning, match="deprecated"):
        assert nn.L1Loss(reduction="elementwise_mean")(x, y).item() == 1
    weight = clnet.ones(3)
    scores, classes = clnet.eye(3), clnet.tensor([0, 1, 2])
    plain = F.cross_entropy(scores, classes, weight, ignore_index=2).item()
    assert F.cross_entropy(scores, classes, weight, None, 2).item() == plain
    assert F.mse_loss(x, y, None, None, "sum", weight).item() == 5


def test_optimisers_take_their_arguments_in_order():
    weight = nn.Parameter(clnet.ones(2))
    plain = optim.SGD([weight], 0.1, 0.9, 0, 1e-4, True, foreach=False, fused=None)
    assert plain.param_groups[0]["momentum"] == 0.9
    assert plain.param_groups[0]["nesterov"]
    adam = optim.Adam([weight], 1e-3, (0.8, 0.9), 1e-7, 0.1, capturable=True)
    assert adam.param_groups[0]["betas"] == (0.8, 0.9)
    assert adam.param_groups[0]["eps"] == 1e-7
    with pytest.raises(ArgumentError, match="differentiable=True is not supported"):
        optim.SparseAdam([weight], differentiable=True)


def test_schedules_go_on_from_an_epoch():
    rates = []
    for start in (-1, 3):
        optimiser = optim.SGD([nn.Parameter(clnet.ones(1))], lr=1.0)
        optimiser.param_groups[0]["initial_lr"] = 1.0
        schedule = optim.lr_scheduler.StepLR(optimiser, 2, gamma=0.5, last_epoch=start)
        for _ in range(4 if start < 0 else 0):
            optimiser.step()
            schedule.step()
        rates.append((optimiser.param_groups[0]["lr"], schedule.last_epoch))
    assert rates[0] == rates[1] == (0.25, 4)


@pytest.mark.parametrize(("ndim", "dim"), [(1, 0), (2, 1), (3, 0), (4, 1)])
def test_softmax_chooses_an_axis_as_pytorch_did(ndim, dim):
    x = clnet.arange(2.0**ndim).reshape((2,) * ndim)
    assert nn.Softmax()(x).tolist() == F.softmax(x, dim).tolist() == F.softmax(x).tolist()


def test_a_wrong_call_is_told():
    x = clnet.ones(2)
    with pytest.raises(DtypeError, match=r"exp: the arguments do not fit: .*nope"):
        clnet.exp(x, nope=1)
    with pytest.raises(DtypeError, match="cumsum: the arguments do not fit: too many positional"):
        clnet.cumsum(x, 0, 1, 2, 3)


def test_every_line_fits_its_function():
    """The table names no parameter that a door could not pass on, but those refused by name."""
    doors = [vars(door)["__door__"] for door, _ in clnet.ops.PUBLIC_OPS.values()]
    assert not [(d.op, d.spelling.misplaced()) for d in doors if d.spelling.misplaced()]


def test_a_spelling_renames_and_drops():
    def own(x, other, *, dim=0):
        """As clnet has it."""

    spelling = Spelling("bmm", inspect.signature(own), 0)
    found = spelling.ours("bmm", (1,), {"mat2": 2, "pin_memory": True, "dim": 3})
    assert found == ((1, 2), {"dim": 3}, {})


@pytest.fixture(scope="module")
def script():
    pinned_torch()
    return importlib.import_module("ci.signatures")


def test_the_page_is_up_to_date(script, capsys):
    found = {section.title: script.compare(section) for section in script.SECTIONS}
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.build(found), "run python ci/signatures.py"


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [
        ("(x, dim)", "(input, dim)", ""),
        ("(a, dim)", "(input, dim)", "input is missing; a must be given"),
        ("(x, dim=0)", "(x, dim=1)", "dim is 0, PyTorch's 1"),
        ("(x, *, dim=0)", "(x, dim=0)", "dim is not at place 2"),
        ("(x, keepdim=False, dim=0)", "(x, dim=0, keepdim=False)", "dim is not at place 2"),
        ("(x, **given)", "(x, *, foreach=None)", ""),
    ],
)
def test_differences_are_told(script, ours, theirs, text):
    made = []
    for signature in (ours, theirs):
        space = {}
        exec(f"def f{signature}: ...", space)
        made.append(inspect.signature(space["f"]))
    assert text in "; ".join(script.differences(*made))
    assert bool(text) == bool(script.differences(*made))


def test_a_docstring_is_read(script):
    torch = importlib.import_module("torch")
    found = script.theirs("add", torch.add, method=False)
    assert str(found) == "(input, other, *, alpha=1, out=None)"
