"""Axes moved, elements in another order, and repetitions, against NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, BoundsError, ShapeError
from tests.opcase import OpCase, every_check, integers, normal, sliced, transposed

pytestmark = pytest.mark.device

X = normal(4, 3, 5)
SQUARE = normal(2, 6, 6)
case = partial(OpCase, layouts=(transposed, sliced), shapes=())


def named(name, fn, ref, label="", inputs=(X,), **options):
    return case(fn, ref, list(inputs), name=name, label=label, **options)


def method(name, ref, *args, inputs=(X,), label="", **options):
    """``x.name(*args)`` against ``ref(x, *args)``."""
    label = label or ", ".join(map(str, args))
    return named(
        name,
        lambda x: getattr(x, name)(*args),
        lambda x: ref(x, *args),
        label,
        inputs,
        **options,
    )


def embedded(x, offset, dim1, dim2):
    """``diag_embed`` written out."""
    side = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], side, side))
    i = np.arange(x.shape[-1])
    y[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(y, (-2, -1), (dim1, dim2))


HALVES = ["float16", "bfloat16"]
ANY = [((0, 3, 5),), ((1, 1, 1),)]

CASES = [
    named(
        "Tensor.unfold",
        lambda x: x.unfold(2, 3, 2),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2],
    ),
    named("Tensor.unfold", lambda x: x.unfold(0, 4, 1), lambda x: x[None].transpose(0, 2, 3, 1)),
    method("movedim", np.moveaxis, 0, -1),
    method("movedim", np.moveaxis, (0, 1), (2, 0), label="several"),
    method("unflatten", lambda x, *_: x.reshape(4, 3, 5, 1), -1, (5, -1)),
    method("select", lambda x, d, i: np.take(x, i, d), 1, -1),
    method("diagonal", lambda x, *a: np.diagonal(x, *a), shapes=ANY),
    method("diagonal", lambda x, *a: np.diagonal(x, *a), 2, 1, 2),
    method("diagonal", lambda x, *a: np.diagonal(x, *a), -1, -1, 0),
    method("diag_embed", lambda x: embedded(x, 0, -2, -1), shapes=ANY),
    method("diag_embed", embedded, -2, 0, -1, dtypes=HALVES),
    method("diag", np.diag, 1, inputs=[normal(5, 7)]),
    method("diag", np.diag, -2, inputs=[normal(6)], label="vector"),
    method("tril", np.tril, inputs=[SQUARE], shapes=ANY),
    method("tril", np.tril, -2, dtypes=HALVES),
    method("tril", np.tril, 1, inputs=[integers(-9, 9, (3, 4))], grad=False, label="integers"),
    method("triu", np.triu, inputs=[SQUARE], shapes=ANY),
    method("triu", np.triu, 2),
    method("repeat", lambda x, *n: np.tile(x, n), 2, 1, 3, 2, k=12),
    method("tile", lambda x, *n: np.tile(x, n), 2, 3, k=6),
    method("flip", lambda x, *d: np.flip(x, d), 0, -1, shapes=ANY, dtypes=HALVES),
    method("flip", lambda x, d: np.flip(x, d), (1,), inputs=[integers(0, 9, (3, 4))], grad=False),
    method("fliplr", np.fliplr),
    method("flipud", np.flipud),
    method("roll", np.roll, 7, shapes=ANY, dtypes=HALVES),
    method("roll", np.roll, (-2, 4), (1, 2), shapes=ANY),
    method("rot90", np.rot90),
    method("rot90", np.rot90, -1, (2, 0)),
    method("rot90", np.rot90, 2, (1, 2)),
]

CASES += [  # the ops are linear: second derivatives show in a composition
    named(
        name,
        lambda x, fn=fn: fn(x * x * x),
        lambda x, ref=ref: ref(x**3),
        "of cubes",
        [normal(4, 4)],
        grad2=True,
        layouts=(),
    )
    for name, fn, ref in [
        ("flip", lambda x: x.flip(0), lambda x: np.flip(x, 0)),
        ("diagonal", lambda x: x.diagonal(1), lambda x: np.diagonal(x, 1)),
        ("diag_embed", ops.diag_embed, lambda x: embedded(x, 0, -2, -1)),
        ("tril", ops.tril, np.tril),
        ("repeat", lambda x: x.repeat(2, 1), lambda x: np.tile(x, (2, 1))),
        ("roll", lambda x: x.roll(1, 0), lambda x: np.roll(x, 1, 0)),
    ]
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.movedim(0, 1),
        lambda x: x.unflatten(-1, (5, 1)),
        lambda x: x.select(0, 1),
        lambda x: x.diagonal(),
        lambda x: clnet.meshgrid(x[0, 0], x[1, 1])[0],
    ],
)
def test_views_share_memory(look):
    x = clnet.zeros(4, 3, 5)
    assert look(x).array.storage is x.array.storage


def test_dims_may_be_given_by_name():
    x = clnet.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert x.permute(dims=(1, 0)).shape == x.reshape(shape=(3, -1)).shape == (3, 2)
    assert ops.flip(x, dims=(0,)).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x.tile(dims=(2,)).shape == (2, 6)


def test_results_may_be_empty():
    x = clnet.ones(4, 3)
    assert x.diagonal(3).shape == x.diagonal(9).shape == (0,)
    assert x.diagonal(-4).numpy().shape == (0,)
    assert x.repeat(2, 0, 1).numpy().shape == (2, 0, 3)


def test_rolling_by_whole_turns_changes_nothing():
    x = clnet.ones(3, 4)
    assert x.roll(8, 1).tolist() == x.tolist()
    assert x.rot90(4).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x: x.movedim((0, 1), 0), ShapeError, "source and destination are as many"),
        (lambda x: x.movedim(3, 0), BoundsError, "dim lies in"),
        (lambda x: x.unflatten(1, (3, 2)), ShapeError, "unflatten: it has 6 elements, not 4"),
        (lambda x: x.select(1, 4), BoundsError, "the index lies inside the axis"),
        (lambda x: x.diagonal(0, 1, -1), ShapeError, "diagonal: it has two axes"),
        (lambda x: clnet.zeros(()).diag_embed(), ShapeError, "makes two axes of one"),
        (lambda x: clnet.zeros(2, 2, 2).diag(), ShapeError, "a vector or a matrix"),
        (lambda x: x[0].tril(), ShapeError, "tril: x has two axes or more"),
        (lambda x: x[0].triu(), ShapeError, "triu: x has two axes or more"),
        (lambda x: x.repeat(2), ShapeError, "for every axis"),
        (lambda x: x.repeat(2, -1), ShapeError, "for every axis"),
        (lambda x: x.flip(0, -2), ShapeError, "named once"),
        (lambda x: x.roll((1, 2)), ShapeError, "there is one shift"),
        (lambda x: x.roll((1, 2), 0), ShapeError, "a shift for each axis"),
        (lambda x: x.rot90(1, (0, 0)), ShapeError, "dims are two axes"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(3, 4))


def test_a_number_unfolds_as_an_axis_of_one():
    x = clnet.tensor(3.0, requires_grad=True)
    for size in (0, 1):
        assert x.unfold(0, size, 2).tolist() == [3.0] * size
    x.unfold(-1, 1, 1).sum().backward()
    assert x.grad.item() == 1
    with pytest.raises(ArgumentError, match=r"^unfold: a window fits the axis"):
        x.unfold(0, 2, 1)


def test_windows_that_do_not_fit_are_refused():
    for size, step in ((6, 1), (2, 0)):
        with pytest.raises(ArgumentError, match=r"^unfold: a window fits the axis"):
            clnet.zeros(5).unfold(0, size, step)


@pytest.mark.parametrize(
    ("size", "step"), [(2, 2), (3, 4), (1, 4), (4, 4), (1, 1), (3, 2), (5, 1), (8, 1), (0, 3)]
)
def test_windows_are_a_view(size, step):
    torch = pytest.importorskip("torch")
    found = []
    for m in (clnet, torch):
        x = m.arange(24.0).reshape(3, 8).requires_grad_()
        y = x.t() * 1.0
        windows = y.unfold(0, size, step)
        windows[1:2].mul_(3)
        y.as_strided((7, 2, 3), (1, 1, 8))[4].mul_(windows.sum())
        (grad,) = m.autograd.grad((y * y).sum(), x)
        z = m.arange(24.0).reshape(3, 8)
        z.unfold(1, size, step).zero_()
        found.append([*(v.tolist() for v in (y, grad, z)), z.unfold(1, size, step).stride()])
    assert found[0] == found[1]


def test_a_triangle_is_one_launch_and_keeps_what_is_no_number():
    x = clnet.tensor([[1.0, float("nan")], [float("inf"), -0.0]] * 8)
    with clnet.profile() as seen:
        y, z = x.tril(), x.triu(1)
    names = [command.op for command in seen.commands]
    assert (names.count("tril"), names.count("triu"), names.count("where")) == (1, 1, 0)
    np.testing.assert_array_equal(y.numpy(), np.tril(x.numpy()))
    np.testing.assert_array_equal(z.numpy(), np.triu(x.numpy(), 1))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: m.flip(m.zeros(3)), TypeError),
        (lambda m: m.fliplr(m.zeros(3)), RuntimeError),
        (lambda m: m.flipud(m.tensor(1.0)), RuntimeError),
        (lambda m: m.unravel_index(m.tensor([1.0]), (2, 2)), TypeError),
        (
            lambda m: m.take_along_dim(m.zeros(2, 3), m.zeros(2, 3, dtype=m.bool)),
            RuntimeError,
        ),
        (lambda m: m.arange(5).true_divide_(m.arange(1, 6)), RuntimeError),
    ],
)
def test_what_is_turned_or_placed_is_asked_as_pytorch_does(call, error):
    for m in (clnet, pytest.importorskip("torch")):
        with pytest.raises(error):
            call(m)


ORDERS = {
    "flip": lambda x: x.flip(0, 2),
    "sort": lambda x: x.sort(1)[0],
    "argsort": lambda x: x.argsort(0),
    "diff": lambda x: x.diff(dim=2),
    "tril": lambda x: x.tril(),
    "product": lambda x: clnet.einsum("ijk,lk->lij", x, x[0]),
    "rows and columns": lambda x: clnet.einsum("ij,jk->ki", x[0], x[1].T),
}


@pytest.mark.parametrize("name", ORDERS)
def test_results_lie_as_pytorchs(name):
    """So that what may be viewed there may be viewed here."""
    mine = ORDERS[name](clnet.rand(3, 4, 5).permute(1, 2, 0))
    steps = {"flip": (5, 1, 20), "sort": (5, 1, 20), "argsort": (5, 1, 20), "diff": (5, 1, 20)}
    dense = {"tril": (15, 3, 1), "product": (20, 5, 1), "rows and columns": (5, 1)}
    assert mine.stride() == (steps | dense)[name]
