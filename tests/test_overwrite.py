"""Writes in place on the tape: PyTorch's values and gradients, and what is refused."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import DtypeError, GradientError, ShapeError, TraceError
from clnet.ops.machinery.boundary import boundary
from clnet.ops.machinery.update import update
from tests.answers import torch

pytestmark = pytest.mark.device


def chained(m, x, y):
    h = x * 2
    h.add_(y, alpha=3)
    h.mul_(y)
    h -= x
    h /= 1 + y * y
    return h.clamp_(-2, 2)


def twice(m, x, y):
    h = x + y
    h.relu_()
    g = h + 1
    g.sqrt_()
    return g * y


def by_number(m, x, y):
    h = x * 1
    h *= 3
    h += 1
    h **= 2
    return h


def broadcast(m, x, y):
    h = x * y
    h.mul_(y[0])
    h.sub_(y[:, :1])
    return h


def into_a_constant(m, x, y):
    h = m.zeros(3, 4)
    h.add_(x)
    h.addcmul_(x, y, value=0.5)
    return h.lerp_(y, 0.3)


def copied(m, x, y):
    h = x * y
    h.copy_(y[0])
    g = m.zeros(3, 4)
    g.copy_(x)
    return h * g


def filled(m, x, y):
    h = x * y
    h[1].zero_()
    h[:, 2].fill_(3)
    g = x * 2
    g.fill_(0.5)
    return (h + g) * y


def rows_assigned(m, x, y):
    h = m.zeros(3, 4)
    for i in range(3):
        h[i] = x[i] * y[i] + (h[i - 1] if i else 0)
    return h


def slices_assigned(m, x, y):
    h = x * 2
    h[:, 1:3] = y[:, :1] * x[:, 2:]
    h[::2, -1] = 5.0
    h[1, ...] = h[2] * 2
    return h


def indices_assigned(m, x, y):
    h = x * 2
    h[m.tensor([0, 2])] = y[1]
    h[1:, m.tensor([3, 0])] = x[:2, :2]
    h[m.tensor([0, 1]), m.tensor([1, 1])] = x[0, :2] * 3
    h[m.tensor([1]), :, None] = y[0, :, None]
    return h


def masks_assigned(m, x, y):
    h = x * y
    h[h > 0.5] = 0.0
    h[y < 0] = x[0, 0]
    mask = m.tensor([True, False, True])
    h[mask] = y[1:]
    h[mask, 1] += 2
    return h


def augmented_items(m, x, y):
    h = x * 2
    h[0] += y[1]
    h[:, 2] *= x[:, 1]
    h[m.tensor([1])] += y[0]
    return h


def views_written(m, x, y):
    h = x * y
    h.view(12)[3:5] *= x[0, 0]
    h.T[1].add_(y[:, 0])
    h[1:, 1:].transpose(0, 1)[0].copy_(x[1, :2])
    h[0].mul_(x[2])
    first, second = h.narrow(1, 0, 2), h[:, 2:]
    first += second
    m.nn.functional.relu(h[2], inplace=True)
    return h * second.sum()


def other_methods(m, x, y):
    h = x * y
    index = m.tensor([[0, 1, 2, 0]])
    h.masked_fill_(y > 0.3, 2.0)
    h.scatter_(0, index, x[:1])
    h.scatter_add_(0, index, y[:1])
    h.index_add_(0, m.tensor([1]), x[:1])
    h.index_put_((m.tensor([2]),), y[:1])
    return h.tril_(1)


PROGRAMS = [
    *(chained, twice, by_number, broadcast, into_a_constant, copied, filled, rows_assigned),
    *(slices_assigned, indices_assigned, masks_assigned, augmented_items, views_written),
    other_methods,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients_are_pytorchs(program):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    rng = np.random.default_rng(3)
    hosts = [rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3)]
    ends = []
    for m in (clnet, torch):
        x, y = (m.tensor(h, requires_grad=True) for h in hosts[:2])
        z = program(m, x, y)
        (z * m.tensor(hosts[2])).sum().backward()
        ends.append([np.asarray(t.detach()) for t in (z, x.grad, y.grad) if t is not None])
    for ours, theirs in zip(*ends, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def leaf(*values):
    return clnet.tensor(values, requires_grad=True)


def test_gradients_of_gradients_flow_through_writes():
    x = leaf(0.5, 2.0)
    h = x * 1
    h.mul_(x).mul_(x)
    (g,) = clnet.autograd.grad(h.sum(), x, create_graph=True)
    (gg,) = clnet.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(gg.numpy(), 6 * x.detach().numpy(), rtol=1e-6)


def test_operands_in_the_same_memory_are_read_as_they_were():
    x = leaf(2.0, 3.0)
    h = x * 1
    h.mul_(h)
    h.mul_(h.detach())
    h.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() ** 3, rtol=1e-6)


def test_the_result_stays_in_its_memory_and_is_released():
    gc.disable()
    try:
        x = leaf(*map(float, range(1000)))
        before = clnet.memory_allocated()
        h = x * 1
        storage = h.array.storage
        h.relu_().mul_(2)
        h[3] = 5.0
        assert h.array.storage is storage
        del h, storage
        assert clnet.memory_allocated() == before
    finally:
        gc.enable()


def test_what_was_saved_before_a_write_is_found():
    x = leaf(1.0, 2.0)
    h = x * 2
    y = ops.exp(h)
    y.add_(1)
    with pytest.raises(GradientError, match=r"^backward of exp: a tensor it saved was changed"):
        y.sum().backward()


def test_without_gradients_nothing_is_recorded():
    x = leaf(1.0, 2.0)
    h = x * 2
    with clnet.no_grad():
        h.add_(1)
    h.sum().backward()
    assert h.tolist() == [3, 5]
    assert x.grad.tolist() == [2, 2]
    buffer = clnet.zeros(2)
    buffer += 1
    assert buffer.is_leaf
    buffer += x
    assert not buffer.is_leaf
    assert buffer.detach_().is_leaf
    assert (buffer * 1).tolist() == [2, 3]


def test_a_tensor_written_over_a_result_gets_the_gradient_of_all_elements():
    v = leaf(3.0)
    for write, slope in ((lambda h: h.fill_(v[0]), 4), (lambda h: h[:1].fill_(v[0]), 2)):
        h = clnet.zeros(2, 2) * 1
        write(h)
        assert clnet.autograd.grad(h.sum(), v)[0].tolist() == [slope]
        assert h.sum().item() == 3 * slope
    assert clnet.zeros(2, dtype=clnet.int32).fill_(clnet.tensor(2.7)).tolist() == [2, 2]
    with pytest.raises(ShapeError, match="value has no axes"):
        clnet.zeros(2).fill_(v)


@pytest.mark.parametrize(
    "write",
    [
        lambda h, w: h.zero_(),
        lambda h, w: h.copy_(w),
        lambda h, w: h.view(2, 1).fill_(3.0),
        lambda h, w: h.view(2, 1).copy_((w * w).view(2, 1)),
        lambda h, w: h.__setitem__(slice(None), 3.0),
    ],
    ids=["constant", "tensor", "by a view", "tensor by a view", "item"],
)
def test_what_was_written_over_has_a_gradient_of_zeros(write):
    """Which an optimiser counts, as PyTorch's does, where it skips what has none."""
    x, w = leaf(1.0, 2.0), leaf(5.0, 6.0)
    h = x * 2
    write(h, w)
    (h * h).sum().backward()
    assert x.grad.tolist() == [0, 0]
    if w.grad is not None:
        assert w.grad[0].item() in {10, 500}


def test_a_copy_into_whole_numbers_has_no_history():
    whole = clnet.zeros(2, dtype=clnet.int64)
    whole.copy_(leaf(1.0, 2.0))
    assert not whole.requires_grad
    assert whole.tolist() == [1, 2]


def test_leaves_and_views_of_them_are_refused():
    x = leaf(1.0, 2.0)
    message = r"a leaf that requires gradients is not changed .* Do it under clnet.no_grad\(\)"
    for write in (
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x[:1].mul_(2),
        lambda: x.view(2, 1)[0].fill_(1),
        lambda: x.detach().mul_(x),
        lambda: x.__setitem__(0, 5.0),
        lambda: x.__iadd__(1),
        lambda: clnet.nn.functional.relu(x, inplace=True),
    ):
        with pytest.raises(GradientError, match=message):
            write()
    assert x.tolist() == [1, 2]
    with clnet.no_grad():
        x += 1
    x.data[0] = 7.0
    assert x.tolist() == [7, 3]
    x.data = clnet.zeros(2)
    assert x.tolist() == [0, 0]
    assert x.requires_grad


def test_views_taken_before_a_write_see_it_and_its_gradient():
    x = leaf(1.0, 2.0)
    h = x * 2
    view = h.view(2, 1)[:1]
    detached = h.detach()
    h.mul_(x)
    (view.sum() + detached.sum()).backward()
    assert (view.tolist(), x.grad.tolist()) == ([[2]], [4, 0])
    base, part = clnet.zeros(2), leaf(3.0)
    before = base[1:]
    base[:1].copy_(part)
    before.mul_(5)
    (base * 2 + before).sum().backward()
    assert part.grad.tolist() == [2]


def test_a_view_that_repeats_elements_is_refused():
    h = leaf(1.0) * 2
    for view in (h.expand(3), h.expand(2, 1)[0]):
        with pytest.raises(
            GradientError, match=r"only slices, diagonals and other shapes .* view=expand"
        ):
            view.add_(1)


def test_a_relative_that_no_one_knows_is_refused():
    x = leaf(1.0, 2.0)
    ahead, behind = boundary([x * 1, x * 2], lambda grads: grads)
    h = clnet.checkpoint(lambda v: (v * 2).view(2), x)
    assert h.source is None
    with pytest.raises(GradientError, match=r"view=boundary"):
        ahead.add_(behind)
    outside = clnet.Tensor(h.array, h.node, 0)
    h.add_(1)
    with pytest.raises(
        GradientError, match=r"^mul: an operand shares memory .* Take the view again"
    ):
        outside * 2


def test_other_writes_and_results_that_do_not_fit_are_refused():
    x = leaf(1.0, 2.0)
    message = "a tensor on the tape is not changed in place"
    with pytest.raises(GradientError, match=f"^mul: {message}"):
        clnet.mul(x, 2, out=clnet.zeros(2))
    with pytest.raises(GradientError, match=f"^doubled: {message}"):
        update(doubled, [clnet.ones(2), x])
    with pytest.raises(ShapeError, match=r"^add: what is overwritten has the result's shape"):
        clnet.zeros(1).add_(x)
    with pytest.raises(ShapeError, match=r"^copy_: sizes differ at axis -1"):
        clnet.zeros(3).copy_(x)
    with pytest.raises(DtypeError, match=r"^add: what is overwritten on the tape is floating"):
        clnet.tensor([1, 2]).add_(x)


def doubled(a, b):
    return (a + b,)


def test_a_compiled_step_writes_on_the_tape():
    rng = np.random.default_rng(0)
    host = rng.standard_normal((4, 3)).astype(np.float32)
    eager, compiled = (clnet.nn.Linear(3, 3) for _ in range(2))
    compiled.load_state_dict(eager.state_dict())

    def step(model, x):
        h = model(x)
        h = clnet.nn.functional.relu(h, inplace=True) * 2
        h[0] = h[1] * 2
        h += x
        h.sum().backward()
        return h

    run = clnet.compile(lambda x: step(compiled, x))
    for _ in range(2):
        expected = step(eager, clnet.tensor(host)).detach().numpy()
        np.testing.assert_allclose(run(clnet.tensor(host)).numpy(), expected, rtol=1e-6)
    for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)


def test_a_compiled_function_keeps_its_tape_to_itself():
    outside, weight = clnet.zeros(2), leaf(1.0, 2.0)
    with pytest.raises(TraceError, match="a tensor from outside the traced function is given"):
        clnet.compile(lambda x: outside.copy_(weight * x))(clnet.ones(2))


@pytest.mark.parametrize(
    "turn",
    [
        lambda y: y.unsqueeze_(0),
        lambda y: y.t_(),
        lambda y: y.transpose_(0, 1).unsqueeze_(-1).squeeze_(-1),
    ],
)
def test_what_turned_in_place_is_written_in_place(turn):
    """Views that were taken before are of what it was: the loop over them once had no end."""
    w = leaf(*map(float, range(1, 7)))
    y = (w * 1).view(2, 3)
    taken = y[:, 1:]
    turn(y)
    y.mul_(2)
    taken.pow_(2)
    y.mul_(3)
    # (2 w)^2 * 3 where the view was, 6 w elsewhere.
    assert sorted(y.flatten().tolist()) == sorted([6, 48, 108, 24, 300, 432])
    (y.sum() + taken.sum()).backward()
    assert w.grad.tolist() == [6, 96, 144, 6, 240, 288]


@pytest.mark.parametrize("way", [clnet.no_grad, clnet.inference_mode, clnet.enable_grad])
@pytest.mark.parametrize("turn", [lambda y: y.unsqueeze_(0), lambda y: y.t_()])
def test_what_turns_where_nothing_is_recorded_stays_on_the_tape(turn, way):
    w = leaf(1.0, 2.0, 3.0)
    y = (w * 2).view(3, 1)
    with way():
        turn(y)
    (y * y).sum().backward()
    assert w.grad.tolist() == [8, 16, 24]
    with way():
        assert not turn(clnet.ones(3, 1)).requires_grad


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:],
        lambda x: x[...],
        lambda x: x.reshape(2, 3),
        lambda x: x.squeeze(),
        lambda x: x.expand(2, 3),
        lambda x: x.broadcast_to((2, 3)),
        lambda x: x.unflatten(0, (2,)),
    ],
)
def test_a_view_of_all_elements_is_another_tensor(view):
    x = clnet.arange(6.0).view(2, 3)
    y = view(x)
    y.t_()
    y.requires_grad_()
    assert (x.shape, x.requires_grad) == ((2, 3), False)
    y.detach().fill_(1)
    assert x.tolist() == [[1] * 3] * 2
    weight = clnet.nn.Parameter(x)
    seen = []
    part = view(weight)
    assert not part.is_leaf
    assert type(part) is clnet.Tensor
    part.register_hook(seen.append)
    (weight * 2).sum().backward()
    assert not seen, "the gradient to the tensor itself does not flow through its view"


def view_of_written(x):
    h = x * 2
    view = h[1:]
    h.mul_(3)
    return view


def test_a_view_of_what_was_written_since_is_where_a_walk_starts():
    x = leaf(1.0, 2.0, 3.0)
    view_of_written(x).backward(clnet.ones(2))
    assert x.grad.tolist() == [0, 6, 6]
    (found,) = clnet.autograd.grad(view_of_written(x), x, clnet.ones(2))
    assert found.tolist() == [0, 6, 6]
    (found,) = clnet.autograd.grad(clnet.compile(view_of_written)(x).sum(), x)
    assert found.tolist() == [0, 6, 6]


def test_a_view_of_what_was_written_since_says_what_it_is_and_keeps_its_gradient():
    buffer = clnet.zeros(3)
    view = buffer[1:]
    buffer += leaf(1.0, 2.0, 3.0)
    assert (view.requires_grad, view.is_leaf) == (True, False)
    for retain_first in (True, False):
        h = leaf(1.0, 2.0, 3.0) * 2
        view, seen = h[1:], []
        if retain_first:
            view.retain_grad()
        h.mul_(3)
        view.retain_grad()
        view.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        (view * view).sum().backward()
        assert (view.grad.tolist(), seen) == ([24, 36], [[24, 36]])


STRIDED = {
    "rows": lambda e, w: e.as_strided((2, 3), (4, 1)).copy_(w),
    "between": lambda e, w: e.as_strided((2, 3), (3, 1), 1).add_(w),
    "twice": lambda e, w: e.as_strided((2, 3), (4, 1)).mul_(2).add_(w),
    "of a view": lambda e, w: e[:, 1:].as_strided((2, 3), (4, 1), 1).mul_(w),
    "of axes turned": lambda e, w: e.T.as_strided((2, 3), (4, 1)).copy_(w * w),
}


@pytest.mark.parametrize("name", [*STRIDED])
@pytest.mark.parametrize("made", ["of nothing", "on the tape"])
def test_strides_are_views_that_the_tape_knows(name, made):
    """As fairseq makes band matrices of a convolution's filters."""
    found = []
    for lib in (clnet, torch):
        w = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        e = lib.ones(2, 4)
        if made == "on the tape":
            e = e * w.sum()
        early = e[0]
        STRIDED[name](e, w)
        late = e.as_strided((5,), (1,), 2)
        seen = (e * e).sum() + (early * 3).sum() + (late * lib.arange(5.0)).sum()
        (slope,) = lib.autograd.grad(seen, w, create_graph=True)
        (again,) = lib.autograd.grad((slope * slope).sum(), w)
        found.append([x.detach().numpy() for x in (e, slope, again)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_strides_in_compiled_functions():
    w = clnet.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)

    @clnet.compile
    def band(w):
        e = w.new_zeros(2, 4)
        e.as_strided((2, 3), (4, 1)).copy_(w * w)
        return (e.narrow(1, 1, 3) * clnet.arange(6.0).view(2, 3)).sum()

    for _ in range(2):
        (slope,) = clnet.autograd.grad(band(w), w)
        assert slope.tolist() == [[0.0, 0.0, 6.0], [0.0, 30.0, 48.0]]


def _written_parts(lib, e, w):
    e.real.mul_(w)
    e.imag[1:].copy_(w[1:] * w[1:])
    lib.view_as_real(e)[:, 0].add_(w)
    return e


def _written_pairs(lib, e, w):
    pairs = lib.view_as_real(e * 1)
    lib.view_as_complex(pairs).mul_(w + 2j * w)
    return lib.view_as_complex(pairs)


@pytest.mark.parametrize("write", [_written_parts, _written_pairs])
@pytest.mark.parametrize("made", ["of nothing", "on the tape"])
def test_parts_of_complex_numbers_are_written_on_the_tape(write, made):
    found = []
    for lib in (clnet, torch):
        w = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        e = lib.tensor([1 + 2j, 2 - 1j, 0.5j])
        if made == "on the tape":
            e = e * w
        e = write(lib, e, w)
        (slope,) = lib.autograd.grad((e * e).abs().sum(), w)
        found.append([e.detach().numpy(), slope.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
