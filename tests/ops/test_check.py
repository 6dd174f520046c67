"""Data that an op is not defined for is found on the device, and told at the next wait."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.errors import ClnetError, DataBoundsError, DataDomainError
from clnet.linalg import LinAlgError

NAN, INF = float("nan"), float("inf")


@dataclass
class Case:
    """A call with bad data.

    Attributes:
        call: of ``x`` and of what is to be checked.
        x: a tensor, or None: there is only the other.
        bad: values with which it raises, each with what the error shows.
        good: values with which it does not.
        error: what is raised.
        names: what the error shows beside: op and argument.
    """

    name: str
    call: Callable
    x: object
    bad: list
    good: list
    error: type
    shown: str


X = np.arange(12, dtype=np.float32).reshape(3, 4)
SQUARE = np.eye(3, dtype=np.float32)
LOG = np.log(np.full((5, 2, 4), 0.25, np.float32))


def _set(x, i):
    y = x * 1
    y[i] = 0.0
    return y


def _set_on_tape(x, i):
    y = x * 1
    y.requires_grad_()
    y = y * 1
    y[i] = y[0]
    return y.detach()


def f32(*values):
    return np.array(values, np.float32)


def case(name, call, x, bad, good, error=DataBoundsError, shown=None):
    return Case(name, call, x, bad, good, error, shown or name)


INDICES = [
    case("gather", lambda x, i: x.gather(1, i), X, [[[4]], [[-1]], [[2**40]]], [[[3, 0]]]),
    case("gather_rows", lambda x, i: x.gather(0, i), X, [[[3] * 4]], [[[2] * 4]], shown="gather"),
    case("index_select", lambda x, i: x.index_select(0, i), X, [[3], [0, -1]], [[2, 0]]),
    case("index_select_columns", lambda x, i: x.index_select(1, i), X, [[4]], [[3]],
         shown="index_select"),
    case("getitem", lambda x, i: x[i], X, [[3], [-4], [0, 99]], [[2, -3]], shown="index"),
    case("getitem_folded", lambda x, i: x[i, i], X, [[3], [-4]], [[2, -3]], shown="index"),
    case("getitem_columns", lambda x, i: x[:, i], X, [[4]], [[-4, 3]], shown="index"),
    case("setitem", _set, X, [[3], [-4]], [[2, -3]], shown="index"),
    case("setitem_on_the_tape", _set_on_tape, X, [[3], [-4]], [[2, -3]], shown="index"),
    case("index_put", lambda x, i: x.index_put((i,), x[0, 0]), X, [[3]], [[-1]], shown="index"),
    case("index_put_added", lambda x, i: x.index_put((i,), x[0, 0], accumulate=True), X,
         [[3], [-4]], [[-1]], shown="index"),
    case("take", lambda x, i: x.take(i), X, [[12], [-13]], [[11, -12]], shown="index"),
    case("put", lambda x, i: x.put(i, x[0, :1]), X, [[12]], [[-12]], shown="index"),
    case("scatter", lambda x, i: x.scatter(1, i, 1.0), X, [[[4]], [[-1]]], [[[3]]]),
    case("scatter_long", lambda x, i: x.reshape(12).scatter(0, i, 1.0), X,
         [[12, *[0] * 70]], [[11, *[0] * 70]], shown="scatter"),
    case("scatter_add", lambda x, i: x.scatter_add(1, i, x), X,
         [[[0, 1, 2, 4]] * 3], [[[0, 1, 2, 3]] * 3]),
    case("scatter_reduce", lambda x, i: x.scatter_reduce(1, i, x, "amax"), X,
         [[[0, 1, 2, 4]] * 3], [[[0, 1, 2, 3]] * 3]),
    case("index_add", lambda x, i: x.index_add(0, i, x[:1]), X, [[3], [-1]], [[2]]),
    case("index_copy", lambda x, i: x.index_copy(0, i, x[:1]), X, [[3], [-1]], [[2]]),
    case("index_fill", lambda x, i: x.index_fill(0, i, 1.0), X, [[3], [-4]], [[2], [-3]]),
    case("one_hot", lambda x, i: F.one_hot(i, 3), X, [[3], [-1]], [[2, 0]]),
    case("embedding", lambda x, i: F.embedding(i, x), X, [[3], [-1]], [[[2, 0]]]),
    case("embedding_wide", lambda x, i: F.embedding(i, x.repeat(1, 8)), X, [[3]], [[2]],
         shown="embedding"),
    case("embedding_bag", lambda x, i: F.embedding_bag(i, x), X, [[[3]], [[-1]]], [[[2, 1]]],
         shown="embedding"),
    case("cross_entropy", lambda x, i: F.cross_entropy(x, i), X, [[0, 1, 4], [0, -1, 2]],
         [[0, 1, 3], [0, -100, 3]]),
    case("cross_entropy_smooth",
         lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1, weight=x[0], reduction="sum"), X,
         [[0, 1, 4]], [[0, -100, 3]], shown="cross_entropy"),
    case("cross_entropy_planes", lambda x, i: F.cross_entropy(x.reshape(1, 3, 2, 2), i), X,
         [[[[0, 1], [2, 3]]]], [[[[0, 1], [2, -100]]]], shown="cross_entropy"),
    case("nll_loss", lambda x, i: F.nll_loss(x, i, ignore_index=7), X, [[0, 1, 4], [0, 1, -100]],
         [[0, 1, 7]]),
    case("multi_margin_loss", lambda x, i: F.multi_margin_loss(x, i), X, [[0, 1, 4]], [[0, 1, 3]]),
    case("multilabel_margin_loss", lambda x, i: F.multilabel_margin_loss(x, i), X,
         [[[0, 4, -1, 0]] * 3, [[0, -2, -1, 0]] * 3], [[[0, 3, -1, 0]] * 3]),
    case("max_unpool1d", lambda x, i: F.max_unpool1d(x.reshape(1, 1, 12)[..., :2], i, 2), X,
         [[[[0, 4]]], [[[-1, 0]]]], [[[[0, 3]]]]),
    case("searchsorted", lambda x, i: clnet.searchsorted(x[0], x[0], sorter=i), X,
         [[0, 1, 2, 4]], [[3, 2, 1, 0]]),
]  # fmt: skip
DOMAINS = [
    case("binary_cross_entropy", lambda x, p: F.binary_cross_entropy(p, x[0] * 0 + 1), X,
         [f32(0, 1, 0.5, 1.5), f32(-0.5, 1, 0, 0), f32(0, NAN, 0, 0)], [f32(0, 1, 0.5, 1)]),
    case("bce_of_each", lambda x, p: F.binary_cross_entropy(p, x[0] * 0 + 1, reduction="none"), X,
         [f32(0, 1, 0.5, 1.5)], [f32(0, 1, 0.5, 1)], shown="binary_cross_entropy"),
    case("bce_target", lambda x, p: F.binary_cross_entropy(x[0] * 0 + 0.5, p), X,
         [f32(0, 1, 0.5, 1.5), f32(-1, 0, 0, 0)], [f32(0, 1, 0.5, 1)],
         shown="binary_cross_entropy"),
    case("gaussian_nll_loss", lambda x, v: F.gaussian_nll_loss(x[0], x[1], v), X,
         [f32(1, 2, -3, 4)], [f32(0, 1, 2, NAN)]),
    case("bernoulli", lambda x, p: clnet.bernoulli(p), X, [f32(1.5), f32(-1), f32(NAN)],
         [f32(0, 1, 0.5)]),
    case("multinomial", lambda x, p: clnet.multinomial(p, 1), X,
         [f32(-1, 2), f32(NAN, 2), f32(INF, 2), f32(0, 0)], [f32(0, 1), f32(3, 2)]),
    case("normal", lambda x, s: clnet.normal(0.0, s), X, [f32(1, -1)], [f32(0, 1)]),
    case("quantile", lambda x, q: clnet.quantile(x, q), X, [f32(0.5, 1.5)], [f32(0, 1)]),
    case("embedding_bag", lambda x, o: F.embedding_bag(o * 0, x, o), X,
         [[0, 9], [1, 2], [0, -1], [0, 3, 2]], [[0, 2, 2], [0]]),
    case("ctc_loss", lambda x, n: F.ctc_loss(x, n.reshape(2, 1) * 0 + 1, n, n * 0 + 1), LOG,
         [[5, 6], [-1, 5]], [[5, 1]]),
    case("ctc_targets", lambda x, n: F.ctc_loss(x, n.reshape(2, 1) * 0 + 1, n * 0 + 5, n), LOG,
         [[1, 2], [-1, 1]], [[1, 0]], shown="ctc_loss"),
    case("repeat_interleave", lambda x, n: x.repeat_interleave(n, 0, output_size=3), X,
         [[1, -1, 3]], [[1, 0, 2]]),
]  # fmt: skip
DOMAINS = [Case(*(*vars(c).values(),)[:5], DataDomainError, c.shown) for c in DOMAINS]
MATRICES = [
    case("inverse", lambda x, m: clnet.inverse(m), X, [SQUARE * 0, np.ones((2, 2), np.float32)],
         [SQUARE, SQUARE * NAN], LinAlgError),
    case("solve", lambda x, m: clnet.linalg.solve(m, m[:, :1]), X, [SQUARE * 0],
         [SQUARE], LinAlgError),
    case("cholesky", lambda x, m: clnet.linalg.cholesky(m), X, [SQUARE * 0, -SQUARE, SQUARE * NAN],
         [SQUARE], LinAlgError),
]  # fmt: skip
CHECKS = [*INDICES, *DOMAINS, *MATRICES]
CALLS = [pytest.param(c, v, id=f"{c.name}-{i}") for c in CHECKS for i, v in enumerate(c.bad)]


def tensors(c, value):
    return clnet.tensor(c.x), clnet.tensor(np.asarray(value))


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves nothing to be told to the next one."""
    yield
    clnet.synchronize()


@pytest.mark.parametrize(("c", "value"), CALLS)
def test_bad_data_is_told_at_the_next_synchronisation(c, value):
    x, bad = tensors(c, value)
    if c.error is not LinAlgError:
        c.call(x, bad)  # nothing yet
    with pytest.raises(c.error, match=rf"^{re.escape(c.shown)}: .*position=") as caught:
        c.call(x, bad) if c.error is LinAlgError else clnet.synchronize()
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, IndexError) == (c.error is DataBoundsError)
    clnet.synchronize()  # once
    assert (x + 1).numpy()[0].tolist() == (np.asarray(c.x) + 1)[0].tolist()


@pytest.mark.parametrize(("c", "value"), CALLS)
def test_bad_data_of_a_compiled_function_is_told_with_the_traced_line(c, value):
    x, bad = tensors(c, value)
    _, good = tensors(c, c.good[0])
    step = clnet.compile(lambda x, v: c.call(x, v))
    for _ in range(3):  # the first run, the one that binds, a replay
        step(x, bad)
        with pytest.raises(c.error, match=rf"^{re.escape(c.shown)}: .*line=.*test_check.py:\d+"):
            clnet.synchronize()
    if good.shape == bad.shape:
        step(x, good)
        clnet.synchronize()
        assert step.num_traces == 1


@pytest.mark.parametrize("c", CHECKS, ids=lambda c: c.name)
def test_good_data_raises_nothing(c):
    step = clnet.compile(lambda x, v: c.call(x, v))
    for value in c.good:
        x, good = tensors(c, value)
        for call in (c.call, step, step, step):
            call(x, good)
            clnet.synchronize()


@pytest.mark.parametrize(("c", "value"), CALLS)
def test_debug_mode_raises_at_once(c, value):
    x, bad = tensors(c, value)
    with clnet.debug(), pytest.raises(c.error) as caught:
        c.call(x, bad)
    assert "test_check.py:" in str(caught.value)


def line_of(error: BaseException) -> str:
    """The line of this file that an error's text names."""
    found = re.search(r"line=(.*test_check\.py):(\d+)", str(error))
    assert found, str(error)
    return linecache.getline(found[1], int(found[2])).strip()


def test_debug_mode_names_the_users_line():
    x, index = clnet.ones(3), clnet.tensor([7])
    with clnet.debug(), pytest.raises(IndexError) as caught:
        x[index]  # the line
    assert line_of(caught.value) == "x[index]  # the line"
    with clnet.debug(enabled=False):
        x[index]
    with pytest.raises(IndexError, match=r"CLNET_DEBUG=1"):
        clnet.synchronize()


def test_a_compiled_function_raises_at_once_in_debug_mode():
    def double(x, index):
        picked = x[index]  # the traced line
        return picked * 2

    step = clnet.compile(double)
    x, good, bad = clnet.ones(3), clnet.tensor([1]), clnet.tensor([7])
    for _ in range(3):
        assert step(x, good).tolist() == [2.0]
    with clnet.debug(), pytest.raises(IndexError) as caught:
        step(x, bad)
    assert line_of(caught.value) == "picked = x[index]  # the traced line"
    assert step(x, good).tolist() == [2.0]


@pytest.mark.parametrize(
    "wait",
    [
        lambda y: y.sum().item(),
        lambda y: y.numpy(),
        lambda y: y.tolist(),
        lambda y: np.asarray(y),
        lambda y: y.map().__enter__(),
        lambda y: clnet.synchronize(),
        repr,
    ],
    ids=["item", "numpy", "tolist", "asarray", "map", "synchronize", "repr"],
)
def test_every_wait_tells(wait):
    y = clnet.ones(3)[clnet.tensor([5])]
    with pytest.raises(IndexError, match="index=5, position=0, size=3"):
        wait(y)
    assert np.isnan(y.numpy()).all()


def test_the_end_of_a_profile_tells():
    with pytest.raises(IndexError, match="index=5"), clnet.profile() as p:
        clnet.ones(3)[clnet.tensor([5])]
    assert p.totals(lambda c: c.op)["gather_rows"].calls == 1


def test_an_error_inside_a_profile_is_not_replaced():
    def interrupted():
        with clnet.profile():
            clnet.ones(3)[clnet.tensor([5])]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    with pytest.raises(IndexError, match="index=5"):
        clnet.synchronize()


def test_of_several_the_first_is_told_and_the_others_are_counted():
    x = clnet.ones(3)
    x[clnet.tensor([5])]
    F.cross_entropy(clnet.ones(2, 3), clnet.tensor([8, 9]))
    with pytest.raises(IndexError, match=r"^index: .*index=5, position=0, size=3, further=2"):
        clnet.synchronize()
    F.cross_entropy(clnet.ones(2, 3), clnet.tensor([0, 9]))
    with pytest.raises(IndexError, match=r"^cross_entropy: .*target=9, position=1, classes=3\."):
        clnet.synchronize()


def test_the_module_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(4, 2)

        def forward(self, x):
            return self.table(x)

    model, bad = Model(), clnet.tensor([4])
    for call in (model, clnet.compile(model)):
        with clnet.no_grad():
            call(bad)
        with pytest.raises(IndexError, match=r"rows=4.*\(in Model.table\)"):
            clnet.synchronize()


def test_backward_raises_nothing_of_its_own():
    x = clnet.randn(3, 4).requires_grad_()
    F.embedding(clnet.tensor([[0, 1]]), x, padding_idx=1).sum().backward()
    x[clnet.tensor([0, -1])].sum().backward()
    F.cross_entropy(x, clnet.tensor([0, -100, 3])).backward()
    x.index_add(0, clnet.tensor([1]), x[:1]).sum().backward()
    clnet.synchronize()


def test_launches_without_checks_read_nothing_more():
    faults = clnet.device().queue.faults
    clnet.synchronize()
    (clnet.ones(3) + 1).numpy()
    assert not faults.expected
    clnet.ones(3)[clnet.tensor([0])]
    assert faults.expected
    clnet.synchronize()
    assert not faults.expected


def test_an_absent_device_checks_nothing():
    with clnet.abstract():
        clnet.ones(3)[clnet.zeros(2, dtype=clnet.int64)]
    clnet.synchronize()


def test_lengths_that_the_host_has_are_checked_at_once():
    log_probs, targets = clnet.tensor(LOG), clnet.ones(2, 1, dtype=clnet.int64)
    with pytest.raises(DataDomainError, match=r"ctc_loss: input_lengths: it lies in"):
        F.ctc_loss(log_probs, targets, [5, 6], [1, 1])
    with pytest.raises(ValueError, match="target_lengths"):
        F.ctc_loss(log_probs, targets, [5, 5], [1, -1])
    with pytest.raises(ValueError, match="variances are 0 or more"):
        F.gaussian_nll_loss(targets * 1.0, targets * 1.0, -1.0)


def test_the_errors_are_those_that_users_catch():
    assert issubclass(DataBoundsError, IndexError | RuntimeError)
    assert issubclass(DataDomainError, ValueError | RuntimeError)
    assert issubclass(LinAlgError, RuntimeError)
    assert issubclass(LinAlgError, ClnetError)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("size", [1, 5, 1023, 1024, 1025, 4097])
def test_the_position_is_that_of_the_bad_element(size, dtype):
    for at in {0, size // 2, size - 1}:
        index = np.zeros(size, dtype)
        index[at] = 3
        F.one_hot(clnet.tensor(index), 3)
        with pytest.raises(IndexError, match=rf"tensor=3, position={at}\."):
            clnet.synchronize()
        clnet.ones(3)[clnet.tensor(index)]
        with pytest.raises(IndexError, match=rf"index=3, position={at}, size=3\."):
            clnet.synchronize()


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.float64, clnet.float16, clnet.bfloat16])
def test_the_value_is_shown(dtype):
    if dtype is clnet.float64 and not clnet.device().traits.float64:
        pytest.skip("the device has no double precision")
    p = clnet.tensor([0.5, 1.5]).to(dtype)
    clnet.bernoulli(p)
    with pytest.raises(ValueError, match=r"p=1\.5, position=1"):
        clnet.synchronize()


def test_numbers_of_checks_do_not_grow():
    faults = clnet.device().queue.faults
    clnet.ones(3)[clnet.tensor([0])]
    before = len(faults._sites)
    for n in range(3, 20):
        clnet.ones(n)[clnet.tensor([0])]
    assert len(faults._sites) == before


def test_python_shows_the_users_line_in_debug_mode():
    try:
        with clnet.debug():
            F.one_hot(clnet.tensor([3]), 3)
    except IndexError:
        trace = sys.exc_info()[2]
        assert trace is not None
        assert trace.tb_frame.f_code.co_name == "test_python_shows_the_users_line_in_debug_mode"
