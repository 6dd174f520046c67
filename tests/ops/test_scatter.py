"""Elements and slices put, or added up, where an index says; against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DataBoundsError, DtypeError, GradientError, ShapeError
from clnet.nn import functional as F
from tests.answers import torch
from tests.opcase import OpCase, booleans, dense, every_check, integers, normal

pytestmark = pytest.mark.device

RNG = np.random.default_rng(11)


def permuted(n, *shape):
    """Indices without equal ones: where a gradient is unique."""

    def sample(rng, s):
        return np.argsort(rng.random((*s[:-1], n)), -1)[..., : s[-1]]

    draw = integers(0, n, shape)
    return type(draw)(shape, sample)


def put(x, index, src, *, add=False):
    """NumPy's way to put, or add, along the last axis."""
    y = x.copy()
    for place in np.ndindex(*index.shape):
        to = (*place[:-1], index[place])
        y[to] = src[place] + (y[to] if add else 0)
    return y


def sliced_along(function, dim):
    """A reference that changes slices of a copy, with the axis in front."""

    def reference(x, index, source):
        y = np.moveaxis(x.copy(), dim, 0)
        function(y, index, np.moveaxis(source, dim, 0))
        return np.moveaxis(y, 0, dim)

    return reference


def put_slices(y, index, source):
    y[index] = source


CASES = [
    OpCase(
        lambda x, index, src: x.scatter(1, index, src),
        put,
        [normal(6, 9), permuted(9, 4, 5), normal(5, 8)],
        layouts=[dense],
        shapes=[[(2, 9), (2, 0), (2, 3)], [(1, 9), (1, 1), (1, 1)]],
        dtypes=["float16", "bfloat16"],
        name="scatter",
    ),
    OpCase(
        lambda x, index, src: ops.scatter(x * x, -1, index, src * src * src),
        lambda x, index, src: put(x * x, index, src**3),
        [normal(3, 9), permuted(9, 3, 5), normal(3, 5)],
        grad2=True,
        shapes=[],
        layouts=[],
        name="scatter",
        label="of powers",
    ),
    OpCase(
        lambda x, index: x.scatter(1, index, 2.5),
        lambda x, index: put(x, index, np.full(index.shape, 2.5)),
        [normal(2, 90), integers(0, 90, (2, 70))],
        shapes=[],
        name="scatter",
        label="a number",
    ),
    OpCase(
        lambda x, index, src: x.scatter_add(1, index, src),
        lambda x, index, src: put(x, index, src, add=True),
        [normal(6, 4), integers(0, 4, (5, 9)), normal(5, 9)],
        layouts=[dense],
        shapes=[[(2, 5), (2, 0), (2, 3)], [(1, 1), (1, 1), (1, 1)]],
        dtypes=["float16", "bfloat16"],
        k=9,
        name="scatter_add",
    ),
    OpCase(
        lambda x, index, src: ops.scatter_add(x * x, 0, index, src * src * src),
        lambda x, index, src: put(x * x, index, src**3, add=True),
        [normal(9), integers(0, 9, (100,)), normal(120)],
        grad2=True,
        k=20,
        shapes=[],
        layouts=[],
        name="scatter_add",
        label="of powers",
    ),
    OpCase(
        lambda x, index, source: x.index_add(1, index, source, alpha=3),
        sliced_along(lambda y, index, source: np.add.at(y, index, 3 * source), 1),
        [normal(3, 5, 2), integers(0, 5, (9,)), normal(3, 9, 2)],
        shapes=[[(3, 5, 0), (2,), (3, 2, 0)], [(1, 5), (0,), (1, 0)]],
        layouts=[dense],
        k=9,
        name="index_add",
    ),
    OpCase(
        lambda x, index, source: x.index_add(0, index, source),
        sliced_along(np.add.at, 0),
        [integers(-9, 9, (5, 2)), integers(0, 5, (9,)), integers(-9, 9, (9, 2))],
        shapes=[],
        layouts=[dense],
        grad=False,
        name="index_add",
        label="integers",
    ),
    OpCase(
        lambda x, index, source: x.index_copy(1, index, source),
        sliced_along(put_slices, 1),
        [normal(3, 9, 2), permuted(9, 5), normal(3, 5, 2)],
        shapes=[[(3, 5, 0), (2,), (3, 2, 0)], [(1, 5), (0,), (1, 0)]],
        layouts=[dense],
        name="index_copy",
    ),
    OpCase(
        lambda x, index, source: ops.index_copy(x * x, 0, index, source * source * source),
        lambda x, index, source: sliced_along(put_slices, 0)(x * x, index, source**3),
        [normal(6, 2), permuted(6, 3), normal(3, 2)],
        grad2=True,
        shapes=[],
        layouts=[],
        name="index_copy",
        label="of powers",
    ),
    OpCase(
        lambda x, index: x.index_fill(-1, index, 1.5),
        lambda x, index: put(x, np.tile(index, (len(x), 1)), np.full((len(x), len(index)), 1.5)),
        [normal(3, 9), permuted(9, 4)],
        shapes=[],
        name="index_fill",
    ),
    OpCase(
        lambda x, i, values: ops.index_put(x, (i, i), values),
        lambda x, i, values: put_at(x, (i, i), values),
        [normal(6, 6, 2), permuted(6, 4), normal(4, 2)],
        shapes=[],
        layouts=[dense],
        dtypes=["float16", "bfloat16"],
        name="index_put",
    ),
    OpCase(
        lambda x, i, values: x.index_put((None, i), values * values, True),
        lambda x, i, values: put_at(x, (slice(None), i), values**2, add=True),
        [normal(3, 5, 2), integers(-5, 5, (9,)), normal(9, 1)],
        grad2=True,
        k=27,
        shapes=[],
        layouts=[dense],
        name="index_put",
        label="accumulate",
    ),
    OpCase(
        lambda x, i, values: x.index_put((i, None, i), values * values * values),
        lambda x, i, values: put_at(x, (i, slice(None), i), values**3),
        [normal(6, 2, 6), permuted(6, 4), normal(4, 2)],
        grad2=True,
        shapes=[],
        layouts=[dense],
        name="index_put",
        label="apart",
    ),
    OpCase(
        lambda x, mask, values: x.index_put((mask,), values),
        lambda x, mask, values: put_at(x, (mask,), values),
        [normal(6, 3), booleans(6), normal(3)],
        k=6,
        shapes=[],
        layouts=[dense],
        name="index_put",
        label="mask",
    ),
    OpCase(
        lambda x: F.one_hot(x, 5),
        lambda x: np.eye(5, dtype=np.int64)[x],
        [integers(0, 5, (4, 3))],
        grad=False,
        name="one_hot",
    ),
    OpCase(
        lambda x: F.one_hot(x),
        lambda x: np.eye(x.max() + 1, dtype=np.int64)[x],
        [integers(0, 5, (7,))],
        grad=False,
        shapes=[],
        name="one_hot",
        label="counted",
    ),
]


def put_at(x, key, values, *, add=False):
    y = x.copy()
    if add:
        np.add.at(y, key, values)
    else:
        y[key] = values
    return y


OTHERWISE_TESTED = dict.fromkeys(
    ["scatter_", "scatter_add_", "index_add_", "index_copy_", "index_fill_", "index_put_"],
    "test_in_place_is_the_same_op",
)


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


ROWS = clnet.tensor([2, 0])
GRID = clnet.tensor([[2, 0], [1, 1], [0, 3]])
IN_PLACE = {
    "scatter_": (1, GRID, 2.5),
    "scatter_add_": (1, GRID, clnet.ones(3, 2)),
    "index_add_": (0, ROWS, clnet.ones(2, 4)),
    "index_copy_": (0, ROWS, clnet.ones(2, 4)),
    "index_fill_": (1, ROWS, 7),
    "index_put_": ((None, ROWS), clnet.ones(2), True),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_is_the_same_op(name):
    args = IN_PLACE[name]
    x = clnet.tensor(RNG.normal(size=(3, 4)).astype(np.float32))
    expected = getattr(ops, name[:-1])(x, *args).numpy()
    assert (expected != x.numpy()).any()
    assert getattr(x, name)(*args) is x
    np.testing.assert_array_equal(x.numpy(), expected)
    with pytest.raises(GradientError, match="not changed in place"):
        getattr(x.requires_grad_(), name)(*args)


@pytest.mark.parametrize("length", [5, 3000])
def test_sums_have_the_same_bits_again(length):
    index = clnet.tensor(RNG.integers(0, 3, length))
    src = clnet.tensor(RNG.normal(size=length).astype(np.float32))
    results = {ops.scatter_add(clnet.zeros(3), 0, index, src).numpy().tobytes() for _ in range(3)}
    assert len(results) == 1


@pytest.mark.parametrize("shape", [(40, 70), (2, 500)])
def test_of_equal_indices_the_last_stays(shape):
    index = RNG.integers(0, 9, shape)
    src = RNG.normal(size=shape).astype(np.float32)
    y = clnet.zeros(shape[0], 9).scatter(1, clnet.tensor(index), clnet.tensor(src))
    np.testing.assert_array_equal(y.numpy(), put(np.zeros((shape[0], 9)), index, src))


def test_indices_out_of_range_write_nothing():
    index = clnet.tensor([[0, 4, -1]])
    put = clnet.zeros(1, 4).scatter(1, index, 1.0)
    added = clnet.zeros(1, 4).scatter_add(1, index, clnet.ones(1, 3))
    with pytest.raises(IndexError, match=r"scatter: .*further=3"):
        clnet.synchronize()
    assert put.tolist() == added.tolist() == [[1, 0, 0, 0]]


def test_of_numbers():
    x, index = clnet.tensor(2.0), clnet.tensor(0)
    assert x.scatter(0, index, clnet.tensor(5.0)).item() == 5
    assert x.scatter_add(0, index, clnet.tensor(5.0)).item() == 7


def test_gradients_are_pytorchs():
    host, source = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 2))
    index = np.array([[2, 0], [1, 1], [0, 3]])
    found = []
    for module in (clnet, torch):
        x = module.tensor(host.astype(np.float32), requires_grad=True)
        src = module.tensor(source.astype(np.float32), requires_grad=True)
        i = module.tensor(index)
        y = x.scatter(1, i, src) * x.scatter_add(1, i, src)
        y.index_put((module.tensor([0, 0]),), src[0, 0], accumulate=True).sum().backward()
        found.append((x.grad.numpy(), src.grad.numpy()))
    # PyTorch too gives every equal index the gradient, whichever stayed.
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0][1][[0, 2]], found[1][1][[0, 2]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x, i: x.scatter(1, i, x[:1]), ShapeError, "none longer but x's for dim"),
        (lambda x, i: x.scatter(1, i[0], x), ShapeError, "as many axes"),
        (lambda x, i: x.scatter_add(1, x, x), DtypeError, "int64 or int32"),
        (lambda x, i: x.scatter_add(1, i, i), DtypeError, "one dtype"),
        (lambda x, i: x.index_add(0, i, x), ShapeError, "index_add: the index has one axis"),
        (lambda x, i: x.index_copy(0, i[0], x), ShapeError, "as many slices"),
        (lambda x, i: x.index_put((None,), x), ArgumentError, "an index tensor or more"),
        (lambda x, i: x.index_put((i[0],), x), ShapeError, "expand"),
        (lambda x, i: x.index_put((i[0],), i), DtypeError, "one dtype"),
        (lambda x, i: F.one_hot(x), DtypeError, "int64 or int32"),
        (lambda x, i: F.one_hot(i[:0]), ShapeError, "no elements tell the number of classes"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(3, 4), clnet.tensor([[0, 1], [1, 2], [2, 2]]))


def test_scatter_adds_if_asked_to():
    x, index = clnet.ones(3), clnet.tensor([1, 1])
    assert x.scatter(0, index, clnet.tensor([2.0, 3.0]), reduce="add").tolist() == [1, 6, 1]
    assert x.scatter(0, index, 2.5, reduce="add").tolist() == [1, 6, 1]
    with pytest.raises(
        ArgumentError, match=r"^scatter: reduce is None, 'add' or 'multiply'; got reduce='mean'"
    ):
        x.scatter(0, index, 2.5, reduce="mean")


def test_an_index_without_axes_names_one_slice():
    """As ``squeeze()`` leaves it of one index, which programs do not look at."""
    x, one = clnet.zeros(3, 4), clnet.tensor(1)
    assert x.index_fill(0, one, 2).tolist() == [[0] * 4, [2] * 4, [0] * 4]
    assert x.index_add(0, one, clnet.ones(1, 4)).tolist() == [[0] * 4, [1] * 4, [0] * 4]
    assert x.index_copy(0, one, clnet.ones(1, 4)).tolist() == [[0] * 4, [1] * 4, [0] * 4]
    line = clnet.zeros(3)
    assert line.index_copy(0, one, clnet.tensor(5.0)).tolist() == [0, 5, 0]
    assert line.scatter(0, one, 7.0).tolist() == [0, 7, 0]
    assert line.scatter_add(0, one, clnet.tensor(7.0)).tolist() == [0, 7, 0]


def test_minus_zero_stays_where_nothing_is_added():
    x = clnet.tensor([-0.0, -0.0, -0.0, 1.0], requires_grad=True)
    index, source = clnet.tensor([1, 3, 3]), clnet.tensor([-0.0, -1.0, 0.0], requires_grad=True)
    for y in (x.scatter_add(0, index, source), x.index_add(0, index, source)):
        assert np.signbit(y.detach().numpy()).tolist() == [True, True, True, False]
        x.grad = source.grad = None
        y.sum().backward()
        assert (x.grad.tolist(), source.grad.tolist()) == ([1.0] * 4, [1.0] * 3)


@pytest.mark.parametrize(
    ("shape", "dim", "count"), [((5, 7), 0, 9), ((7, 5), 1, 9), ((2, 5, 3), 1, 40), ((5, 1), 0, 4)]
)
def test_one_number_for_a_slice_is_as_one_for_each_element(shape, dim, count):
    """The same bits, and gradients, whether an index is expanded or whole."""
    sizes = tuple(count if d == dim else n for d, n in enumerate(shape))
    numbers = RNG.integers(0, shape[dim], count)
    along = clnet.tensor(numbers).reshape(
        tuple(count if d == dim else 1 for d in range(len(shape)))
    )
    index = along.expand(sizes)
    found = []
    for each in (index, index.contiguous()):
        x, src = (
            clnet.tensor(
                np.random.default_rng(3).normal(size=size).astype(np.float32)
            ).requires_grad_()
            for size in (shape, sizes)
        )
        y = x.scatter_add(dim, each, src)
        (y * y).sum().backward()
        found.append([a.detach().numpy() for a in (y, x.grad, src.grad)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_slice_out_of_range_is_reported():
    index = clnet.tensor([0, 5])[:, None].expand(2, 3)
    clnet.zeros(4, 3).scatter_add(0, index, clnet.ones(2, 3))
    with pytest.raises(DataBoundsError, match="scatter_add"):
        clnet.synchronize()


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize(("shape", "dim"), [((5, 9), 0), ((2, 4, 3), 1), ((4, 1), 0)], ids=str)
def test_an_expanded_index_reduces_as_a_dense_one(reduce, shape, dim):
    """What slices share is counted once for a slice: the same values and gradients."""
    random = np.random.default_rng(5)
    at = (*shape[:dim], 13, *shape[dim + 1 :])
    x, src = (random.integers(-3, 4, s).astype(np.float32) for s in (shape, at))
    ends = (1,) * (len(shape) - dim - 1)
    vector = clnet.tensor(random.integers(0, shape[dim] - 1, 13)).reshape(13, *ends)
    dense = clnet.tensor(np.broadcast_to(vector.numpy(), at).copy())
    for include_self in (True, False):
        found = []
        for index in (vector.expand(at), dense):
            a, b = (clnet.tensor(v, requires_grad=True) for v in (x, src))
            y = a.scatter_reduce(dim, index, b, reduce, include_self=include_self)
            (y * y).sum().backward()
            found.append([v.numpy() for v in (y.detach(), a.grad, b.grad)])
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_extremes_of_slices_are_found_where_they_belong(device):
    """Without an index of all elements, and without counting who is named."""
    if device.traits.dedicated_local_memory:
        pytest.skip("GPUs have an index of all elements")
    x, source = clnet.randn(6, 50, device=device), clnet.randn(4, 50, device=device)
    index = clnet.tensor([3, 0, 3, 5], device=device)
    with clnet.profile(device) as p:
        x.index_reduce(0, index, source, "amax")
    assert len(p.commands) == 2
    assert "add_rows" in p.commands[1].name


def test_numbers_are_put_where_they_belong_without_a_copy(device):
    x = clnet.zeros(6, 50, device=device)
    index = clnet.tensor([[3], [0], [49], [7], [7], [1]], device=device)
    rows = clnet.tensor([1, 5], device=device)
    launched = set[str]()
    for _ in range(2):
        with clnet.profile(device) as p:
            assert x.scatter_(1, index, 2.0) is x
            assert x.index_fill_(1, rows, 3.0) is x
            assert x.index_copy_(0, rows, clnet.ones(2, 50, device=device)) is x
        launched = {command.name.split("_")[0] for command in p.commands}
    assert "copy" not in launched
    expected = np.zeros((6, 50), np.float32)
    for _ in range(2):
        np.put_along_axis(expected, index.numpy(), 2, axis=1)
        expected[:, [1, 5]] = 3
        expected[[1, 5]] = 1
    np.testing.assert_array_equal(x.numpy(), expected)


def test_views_and_operands_of_the_same_memory_are_put_in_place(device):
    x = clnet.arange(12, device=device).reshape(3, 4)
    host = x.numpy().copy()
    x.scatter_(1, x % 4, x)  # each to its own place
    x[1].index_fill_(0, clnet.tensor([-1], device=device), 9)
    x[:, 2].scatter_(0, clnet.tensor([2], device=device), 8)
    host[1, 3], host[2, 2] = 9, 8
    np.testing.assert_array_equal(x.numpy(), host)


def test_what_the_tape_kept_is_known_to_have_changed(device):
    w = clnet.ones(4, device=device, requires_grad=True)
    factor, at = clnet.full((4,), 2.0, device=device), clnet.tensor([1], device=device)
    for change in ("scatter_", "index_fill_"):
        y = (w * factor).sum()
        getattr(factor, change)(0, at, 5.0)
        with pytest.raises(GradientError):
            y.backward()
    z = w * factor
    z.scatter_(0, at, 3.0)
    z.index_fill_(0, at + 1, 3.0)
    z.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 0, 0, 2])


def test_one_line_is_added_up_without_a_sort_on_cpus(device):
    """Degrees of a graph's nodes were ten launches."""
    if device.traits.dedicated_local_memory:
        pytest.skip("GPUs sort, or add unordered")
    index = clnet.tensor([3, 1, 3, 0] * 300)
    with clnet.profile() as seen:
        y = clnet.zeros(5).scatter_add(0, index, clnet.ones(1200))
    assert y.tolist() == [300, 300, 0, 600, 0]
    assert len([c for c in seen.commands if c.kind == "kernel"]) <= 5


@pytest.mark.parametrize("outer", [7, 8, 19])
def test_elements_of_many_lines_are_added_up_and_picked(outer, device):
    rng = np.random.default_rng(2)
    x, source = rng.standard_normal((outer, 9)), rng.standard_normal((outer, 40))
    index = rng.integers(0, 9, 40)
    expected = x.copy()
    np.add.at(expected, (slice(None), index), source)
    mine, places = (clnet.tensor(v, device=device) for v in (x, index))
    found = ops.index_add(mine, 1, places, clnet.tensor(source, device=device))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    picked = ops.index_select(mine, 1, places)
    np.testing.assert_array_equal(picked.numpy(), x[:, index])


def test_an_index_that_names_nothing_fits_every_shape(device):
    none = clnet.tensor([], dtype=clnet.int64, device=device)
    for shape in ((2, 3), (4,), ()):
        x = clnet.ones(shape, device=device, requires_grad=True)
        for y in (
            ops.scatter(x, 0, none, 5.0),
            ops.scatter_add(x, 0, none, x.detach()),
            ops.scatter_reduce(x, 0, none, x.detach(), "amax"),
        ):
            np.testing.assert_array_equal(y.detach().numpy(), np.ones(shape))
    picked = ops.gather(x := clnet.ones(2, 3, requires_grad=True), 1, none)
    assert picked.shape == (0,)
    picked.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 3)))


def test_a_number_takes_the_slices_of_numbers_alone():
    x, index = clnet.ones(()), clnet.tensor([0])
    assert x.index_add(0, index, clnet.tensor(2.0)).item() == 3
    for source in (clnet.ones(1), clnet.ones(1, 1, 1)):
        with pytest.raises(ShapeError, match="axes of x"):
            x.index_add(0, index, source)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("how", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("op", ["scatter_reduce", "index_reduce"])
def test_an_extreme_that_is_nan_has_pytorchs_gradient(op, include_self, how):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (clnet, torch):
        x = lib.tensor([1.0, np.nan, 3.0, np.nan], requires_grad=True)
        src = lib.tensor([np.nan, 5.0, 7.0, np.nan, 7.0], requires_grad=True)
        index = lib.tensor([0, 0, 2, 0, 2])
        y = getattr(x, op)(0, index, src, how, include_self=include_self)
        y.backward(lib.tensor([6.0, 4.0, 2.0, 1.0]))
        found.append([np.asarray(v.numpy()) for v in (y.detach(), x.grad, src.grad)])
    for own, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(own, theirs)
