"""Keys of every kind, against PyTorch: what they pick, its gradient, and assignment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import clnet
from clnet.errors import ArgumentError, BoundsError, GradientError, ShapeError, SubscriptError
from tests.answers import torch
from tests.opcase import OpCase, every_check, normal

pytestmark = pytest.mark.device

RNG = np.random.default_rng(12)
SHAPE = (4, 3, 5)
I = np.array([[3, 0, 3], [1, -4, 2]])  # noqa: E741 - an index
J = np.array([0, 2, -1])
MASK = RNG.random(SHAPE) < 0.4
ROWS = np.array([True, False, True, True])
THREE = np.array([True, False, True])
ALL = slice(None)

KEYS = {
    "mask": MASK,
    "mask of two axes": MASK[..., 0],
    "mask of rows": ROWS,
    "list of booleans": [True, False, False, True],
    "list of lists": [[0, 1], [1, 0]],
    "list of one list": [[0, 2]],
    "list of a list of lists": [[[0, 1], [1, 0]]],
    "list with a slice": [[0, 1], slice(None), 0],
    "list with None and ...": [None, ..., 0],
    "list of tuples and arrays": [(0, 1), np.array([1, 0])],
    "list of 40 numbers": [0, 1] * 20,
    "nothing": np.zeros(SHAPE, bool),
    ":, mask": (ALL, MASK[0]),
    "..., mask": (..., RNG.random(5) < 0.5),
    "mask, int": (ROWS, 1),
    "mask, index": (ROWS, J),
    "mask, :, index": (ROWS, ALL, J),
    "index, mask": (J[:2], THREE),
    "mask, None, slice": (ROWS, None, slice(0, 2)),
    "1:, mask": (slice(1, None), THREE),
    "True": True,
    "False": False,
    "True, index": (True, J),
    "None, index": (None, J),
    "index, None, index": (J, None, J),
    "int, index": (1, J),
    "int, :, index": (1, ALL, J),
    "index, int": (I, 1),
    "index, index, index": (I, J, 4),
    ":, index, None": (ALL, J, None),
    "..., index, index": (..., J, J),
    "index, ..., index": (I, ..., J),
    "slice, index, slice": (slice(0, 4, 2), J, slice(1, 3)),
    "empty index": np.zeros(0, np.int64),
    "empty index of two axes": (np.zeros((2, 0), np.int64), 1),
    "lists": ([0, 1], [2, 0]),
    "one-element index": (np.array([2]), J),
    "scalar index": np.array(-1),
    "int32": I.astype(np.int32),
}
FOR_ONE = ["mask", ":, mask", "True", "mask, :, index", "index, None, index", "1:, mask"]


def of(module, key):
    """A key for clnet's or PyTorch's tensors."""
    if isinstance(key, tuple):
        return tuple(of(module, part) for part in key)
    if isinstance(key, np.ndarray):
        return clnet.tensor(key) if module is clnet else torch.from_numpy(key)
    return key


def taken(key):
    return lambda x: (x * x * x)[of(clnet, key)]


CASES = [
    OpCase(
        taken(KEYS[name]),
        lambda x, key=KEYS[name]: (torch.from_numpy(x) ** 3)[of(torch, key)].numpy(),
        [normal(*SHAPE)],
        grad2=True,
        k=9,
        shapes=[],
        name="__getitem__",
        label=name,
    )
    for name in FOR_ONE
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", KEYS)
def test_what_a_key_picks_is_pytorchs(name):
    host = RNG.normal(size=SHAPE).astype(np.float32)
    x, y = clnet.tensor(host, requires_grad=True), torch.tensor(host, requires_grad=True)
    actual, expected = x[of(clnet, KEYS[name])], y[of(torch, KEYS[name])]
    np.testing.assert_array_equal(actual.detach().numpy(), expected.detach().numpy())
    (actual * actual).sum().backward()
    (expected * expected).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", KEYS)
def test_assignment_is_pytorchs(name):
    host = RNG.normal(size=SHAPE).astype(np.float32)
    x, y = clnet.tensor(host), torch.tensor(host)
    a, b = of(clnet, KEYS[name]), of(torch, KEYS[name])
    x[a], y[b] = 7, 7
    np.testing.assert_array_equal(x.numpy(), y.numpy())
    places = torch.arange(y.numel()).reshape(SHAPE)[b]
    if places.unique().numel() == places.numel():  # else PyTorch does not say which one stays
        value = RNG.normal(size=y[b].shape).astype(np.float32)
        x[a], y[b] = clnet.tensor(value), torch.tensor(value)
        np.testing.assert_array_equal(x.numpy(), y.numpy())


@st.composite
def keyed(draw):
    """A shape, and a key with parts of every kind for it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    common = draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    dots = draw(st.integers(0, len(shape)))
    parts, axis = [], 0
    while axis < len(shape):
        if axis == dots:
            parts.append(...)
            axis += draw(st.integers(0, len(shape) - axis))
            dots = -1
            continue
        size = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "none", "index", "mask"]))
        if kind == "none":
            parts.append(None)
            if len(parts) > 6:
                break
            continue
        axis += 1
        if kind == "int":
            parts.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bounds = st.none() | st.integers(-size - 1, size + 1)
            parts.append(slice(draw(bounds), draw(bounds), draw(st.integers(1, 2))))
        elif kind == "index":
            flat = draw(st.lists(st.integers(-size, size - 1), min_size=6, max_size=6))
            parts.append(np.resize(np.array(flat), common))
        else:  # as many true elements as the other indices have, or one
            mask = np.zeros(size, bool)
            mask[draw(st.integers(0, size - 1))] = True
            parts.append(mask)
    ndims = sum(isinstance(part, np.ndarray) and part.ndim == 0 for part in parts)
    assume(not ndims)  # PyTorch takes an index without axes for an int
    return shape, tuple(parts)


@settings(max_examples=150)
@given(keyed())
def test_drawn_keys_pick_and_assign_as_pytorchs(case):
    shape, key = case
    host = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x, y = clnet.tensor(host), torch.tensor(host)
    expected = y[of(torch, key)]
    np.testing.assert_array_equal(x[of(clnet, key)].numpy(), expected.numpy())
    x[of(clnet, key)] = -1
    y[of(torch, key)] = -1
    np.testing.assert_array_equal(x.numpy(), y.numpy())


@pytest.mark.parametrize("key", [(), ROWS, (ALL, J), (..., 0)], ids=str)
def test_assignment_to_a_view_reaches_the_base(key):
    host = RNG.normal(size=(5, 4, 3)).astype(np.float32)
    x, y = clnet.tensor(host), torch.tensor(host)
    x.permute(1, 2, 0)[:, :, ::2][of(clnet, key)] = 1.5
    y.permute(1, 2, 0)[:, :, ::2][of(torch, key)] = 1.5
    np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_values_lose_axes_of_size_1_in_front():
    x = clnet.zeros(2, 3)
    x[0] = clnet.ones(1, 1, 3)
    x[clnet.tensor([1]), 0] = clnet.ones(1, 1) * 5
    assert x.tolist() == [[1, 1, 1], [5, 0, 0]]


def test_one_value_goes_to_a_mask_without_a_wait():
    @clnet.compile
    def step(x):
        y = x * 2
        y[y > 2] = 0.0
        return y

    for values in ([1.0, 2.0], [3.0, 0.5]):
        x = clnet.tensor(values)
        assert step(x).tolist() == [2 * v if v <= 1 else 0 for v in values]


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x: x[clnet.tensor([True, False])], BoundsError, "a mask has the size of its axes"),
        (lambda x: x[clnet.zeros(3, 4, 1).bool()], BoundsError, "no more indices than axes"),
        (lambda x: x["a"], SubscriptError, "a key holds"),
        (lambda x: x[1.5], IndexError, "a key holds"),
        (lambda x: x[[[[0], [0, 1]]]], IndexError, "rows of equal length"),
        (lambda x: x[clnet.tensor([0.5])], SubscriptError, "an index is int64 or int32"),
        (
            lambda x: x[clnet.tensor([0, 1]), clnet.tensor([0, 1, 2])],
            IndexError,
            "shapes that broad",
        ),
        (lambda x: x.__setitem__(x > 0, clnet.ones(5)), ShapeError, "expand"),
        (lambda x: x.requires_grad_().__setitem__(x > 0, 0), GradientError, "in place"),
        (lambda x: x.__setitem__(x[0] > 0, 1), BoundsError, "a mask has the size"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(3, 4))


BACKWARDS = {
    "all": np.s_[::-1],
    "by two": np.s_[:, ::-2],
    "with an int": np.s_[1, 2:0:-1, ::-1],
    "from beyond": np.s_[:, 5:0:-1],
    "none": np.s_[:, 0:2:-1],
    "a new axis": np.s_[None, ::-1, 0],
    "dots": np.s_[..., ::-3],
}


@pytest.mark.parametrize("key", BACKWARDS.values(), ids=list(BACKWARDS))
def test_steps_below_0_go_backwards(key):
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = clnet.tensor(host, requires_grad=True)
    np.testing.assert_array_equal(x[key].detach().numpy(), host[key])
    weight = np.arange(host[key].size, dtype=np.float32).reshape(host[key].shape)
    (x[key] * clnet.tensor(weight)).sum().backward()
    expected = np.zeros_like(host)
    expected[key] = weight
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    for value in (7.0, weight, weight[..., :1]):
        y, written = clnet.tensor(host), host.copy()
        y[key], written[key] = clnet.tensor(value), value
        np.testing.assert_array_equal(y.numpy(), written)


def test_steps_below_0_beside_indices():
    x = clnet.arange(6).reshape(2, 3)
    assert x[[1, 0], ::-1].tolist() == [[5, 4, 3], [2, 1, 0]]
    with pytest.raises(ArgumentError, match="do not come beside index tensors"):
        x[[1, 0], ::-1] = 1
    with pytest.raises(ArgumentError, match="step of a slice is not 0"):
        x[::0]


def test_numbers_in_tensors_are_views_and_take_their_axes_away():
    found = []
    for m in (clnet, torch):
        x, at, several = m.arange(24.0).reshape(2, 3, 4), m.tensor(1), m.tensor([0, 3])
        x[at][m.tensor(-1, dtype=m.int16)].zero_()
        x[0, at, at].fill_(7)
        x[at, :, several] = m.arange(6.0).reshape(3, 2)
        w = m.ones(3, 2, requires_grad=True)
        (w[at] * w[at, at]).sum().backward()
        picked = [x[at, :, several], x[several - several, :, at], x[None, at, ..., several]]
        found.append([v.tolist() for v in (x, w.grad, *picked)])
    assert found[0] == found[1]
    x, at, several = (clnet.arange(24.0).reshape(2, 3, 4), clnet.tensor(1), clnet.tensor([0, 3]))
    pick = clnet.compile(lambda x, at, several: x[at, :, several])
    for _ in range(3):
        assert pick(x, at, several).tolist() == x[at, :, several].tolist()
    batch = clnet.func.vmap(lambda at: x[at, :, several])(clnet.tensor([1, 0]))
    assert batch.tolist() == [x[1, :, several].tolist(), x[0, :, several].tolist()]


def test_old_masks_of_bytes_are_masks_of_index_put():
    x = clnet.zeros(3, 2)
    x.index_put_((clnet.tensor([1, 0, 1], dtype=clnet.uint8),), clnet.tensor(2.0), accumulate=True)
    assert x.tolist() == [[2, 2], [0, 0], [2, 2]]
