"""Functions that are a line or three of others, against PyTorch on the same inputs."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

import clnet
from clnet import func
from clnet.errors import ArgumentError, DtypeError, GradientError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device

CALLS = """
m.aminmax(x)
m.aminmax(x, dim=1, keepdim=True)
m.as_strided(x, (2, 2), (1, 2), 1)
(x * 1).as_strided((2, 2), (1, 1))
m.bartlett_window(7)
m.bartlett_window(7, False)
m.blackman_window(6)
m.kaiser_window(6, periodic=False, beta=3.0)
m.signal.windows.bartlett(7)
m.signal.windows.blackman(6, sym=False)
m.signal.windows.cosine(5, dtype=m.float64)
m.signal.windows.cosine(5, sym=False)
m.signal.windows.exponential(6, tau=2.0)
m.signal.windows.exponential(6, center=1.0, sym=False)
m.signal.windows.gaussian(6, std=1.5)
m.signal.windows.gaussian(1)
m.signal.windows.general_cosine(6, a=[0.5, 0.3, 0.2])
m.signal.windows.general_hamming(6, alpha=0.6, sym=False)
m.signal.windows.hamming(6)
m.signal.windows.hann(6, sym=False)
m.signal.windows.kaiser(6, beta=3.0)
m.signal.windows.kaiser(6, sym=False)
m.signal.windows.nuttall(0)
m.signal.windows.nuttall(6)
m.combinations(v, 2)
m.combinations(v, with_replacement=True)
m.combinations(v, 3)
m.combinations(v, 4, True)
m.cumulative_trapezoid(x, dim=0)
m.cumulative_trapezoid(x, v.cumsum(0).abs())
m.cumulative_trapezoid(x[None], x, dim=1)
m.trapz(x)
m.max(x, other=x * x)
x.min(dim=m.tensor(1)).values
x.max(0, True).indices
m.frombuffer(bytearray(b"01234567"), dtype=m.int16)
m.histogram(x, 4, range=(-1.0, 1.0))
m.histogram(x, 3, weight=x.abs(), density=True)
m.histogram(x, m.tensor([-1.0, 0.0, 0.5, 2.0]))
m.index_reduce(x, 0, m.tensor([1, 1]), x[:2] * 2, "amax", include_self=False)
m.nonzero_static(x > 0, size=20)
m.renorm(x, 2, 0, 0.5)
x.clone().renorm_(1, 1, 0.5)
m.unravel_index(m.tensor([0, 5, 11]), (3, 4))
m.vander(v)
m.vander(v, 3, increasing=True)
m.unsafe_chunk(x, 2, dim=1)
x.narrow_copy(1, 1, 2)
m.conv2d(x[None, None], x[None, None, :2, :2], padding=1)
x.clone().addmm_(x, x[:, :3].repeat(1, 2)[:4, :4].new_ones(4, 4))
x.clone().cumsum_(1)
x.clone().eq_(x[0])
x.clone().lt_(0.0)
x.clone().sinc_()
x.clone().clamp(-0.9, 0.9).erfinv_()
x.clone().arcsinh_()
x.clone().heaviside_(m.tensor(0.5))
(x * 1).true_divide_(2)
(x * 1).deg2rad_()
m.special.entr(x.abs())
m.special.ndtr(x)
m.special.ndtri(m.sigmoid(x))
m.special.xlog1py(x, x.abs())
m.special.expit(x)
m.special.gammaln(x.abs() + 0.5)
m.func.grad(lambda y: (y ** 3).sum())(x)
m.func.grad_and_value(lambda y, z: (y * z).sum(), argnums=(0, 1))(x, x + 1)
m.func.grad(lambda y: (y.sum(), y * 2), has_aux=True)(x)
m.func.vjp(lambda y: y.exp(), x)[1](x)[0]
m.func.jvp(lambda y: y.sin(), (x,), (x,))
m.func.jacrev(lambda y: y.cumsum(0))(v)
m.func.jacfwd(lambda y, z: y * z, argnums=1)(v, v)
m.func.hessian(lambda y: (y ** 3).sum() + y.prod())(v)
m.func.jvp(lambda p, y: {"a": p["w"] * y, "b": m.ones(2)}, ({"w": v}, x), ({"w": v}, x * 2))
m.func.linearize(lambda p, y: p["w"] * y, {"w": v}, x)[1]({"w": v}, x)
m.func.vjp(lambda p: {"a": p["w"].exp(), "b": (p["w"].sum(),)}, {"w": v})[1]({"a": v, "b": (v[0],)})
m.func.jacrev(lambda p, y: m.tanh(p["w"] @ y + p["b"]))({"w": x, "b": v[:3]}, v)
m.func.jacfwd(lambda p, y: p["w"] @ y, argnums=(0, 1))({"w": x}, v)
m.func.jacrev(lambda y: (y.sin(), {"a": y.sum()}))(v)
m.func.hessian(lambda p, y: (p["w"] @ y).tanh().sum(), argnums=(0, 1))({"w": x}, v)
m.vmap(m.func.jacrev(lambda p, y: p["w"] @ y), (None, 0))({"w": x}, x)
m.vmap(lambda y, z: y @ z)(x, x)
m.vmap(lambda y, z: y * z, in_dims=(1, None), out_dims=1)(x, x[:, 0])
m.vmap(lambda p, y: {"a": p["w"] * y, "b": [y]}, ({"w": 1}, 0))({"w": x}, x.mT)
m.vmap(m.func.grad(lambda p, y: (p["w"] * y).sum() ** 2), in_dims=(None, 0))({"w": v}, x)
m.func.grad(lambda y: m.func.grad(lambda z: (z ** 3).sum())(y).sum())(x)
m.func.functional_call(m.nn.Linear(4, 1), {"weight": x[:1], "bias": x[0, :1]}, (x,))
""".strip().splitlines()


def leaf(value):
    """Tensors of a nested result."""
    if isinstance(value, tuple | list | dict):
        parts = value.values() if isinstance(value, dict) else value
        return [t for part in parts for t in leaf(part)]
    return [value]


def evaluated(text, package):
    rng = np.random.default_rng(0)
    x = package.tensor(rng.standard_normal((3, 4)).astype(np.float32))
    v = package.tensor(rng.standard_normal(4).astype(np.float32))
    return [t.detach() for t in leaf(eval(text, {"m": package, "x": x, "v": v}))]


@pytest.mark.parametrize("text", CALLS)
def test_it_gives_what_pytorch_gives(text):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    importlib.import_module("torch.func")
    ours = evaluated(text, clnet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of betas and deprecations
        theirs = evaluated(text, torch)
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).partition(".")[2] == str(b.dtype).partition(".")[2]
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_flow_through_what_is_overwritten():
    x = clnet.arange(1.0, 4.0).requires_grad_()
    y = x * 2
    y.cumsum_(0)
    y.sinc_().sum().backward()
    z = clnet.arange(1.0, 4.0).requires_grad_()
    clnet.sinc((z * 2).cumsum(0)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-6)


def test_gradients_flow_through_a_strided_copy():
    x = clnet.arange(4.0).requires_grad_()
    x.as_strided((2, 3), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]
    with pytest.raises(ShapeError, match="elements lie inside the memory"):
        clnet.ones(3).as_strided((4, 4), (4, 1))


def test_a_tensor_becomes_a_strided_view_of_itself_and_nothing_is_written():
    x = clnet.arange(6.0)
    before = x[:]
    assert x.as_strided_((2, 2), (1, 3), 1) is x
    assert (x.tolist(), before.tolist()) == ([[1, 4], [2, 5]], [0, 1, 2, 3, 4, 5])
    x.zero_()
    assert before.tolist() == [0, 0, 0, 3, 0, 0]
    leaf = clnet.arange(6.0).requires_grad_()
    y = leaf * 1
    (y.as_strided_((3,), (2,)) * clnet.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert leaf.grad.tolist() == [1, 0, 10, 0, 100, 0]
    with pytest.raises(GradientError, match="as_strided_: a leaf"):
        leaf.as_strided_((3,), (2,))


def test_no_elements_lie_anywhere():
    x = clnet.ones(1)
    assert x.as_strided((0,), (1,), 2).tolist() == []
    assert x.as_strided((2, 0), (5, 1), 7).sum().item() == 0
    assert clnet.empty(0).as_strided((0, 3), (3, 1)).shape == (0, 3)
    with pytest.raises(ShapeError, match="elements lie inside the memory"):
        x.as_strided((1,), (1,), 2)


def test_pieces_of_given_sizes_have_their_unsafe_name():
    x = clnet.arange(5.0)
    for found in (x.unsafe_split_with_sizes([2, 3]), clnet.unsafe_split_with_sizes(x, [2, 3])):
        assert [piece.tolist() for piece in found] == [[0, 1], [2, 3, 4]]


def test_numbers_are_drawn_in_place():
    clnet.manual_seed(0)
    x = clnet.empty(4000)
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.05
    assert abs(x.log_normal_(0.0, 0.5).log().std().item() - 0.5) < 0.05
    assert abs(x.geometric_(0.25).mean().item() - 4) < 0.3
    assert abs(x.cauchy_(1.0, 2.0).median().item() - 1) < 0.3
    with pytest.raises(ArgumentError, match="p lies between 0 and 1"):
        x.geometric_(1.5)
    with pytest.raises(ArgumentError, match="log_normal_: std is above 0"):
        x.log_normal_(0.0, 0.0)
    with pytest.raises(ArgumentError, match="renorm: maxnorm is 0 or more"):
        clnet.renorm(clnet.ones(2, 2), 2, 0, -1)


def test_a_module_is_as_before_after_a_functional_call():
    layer = clnet.nn.Linear(2, 1)
    weight = layer.weight
    given = clnet.ones(1, 2).requires_grad_()
    clnet.func.functional_call(layer, {"weight": given}, clnet.ones(1, 2)).sum().backward()
    assert layer.weight is weight
    assert given.grad.tolist() == [[1, 1]]
    with pytest.raises(ArgumentError, match="names are the module's"):
        clnet.func.functional_call(layer, {"nothing": given}, clnet.ones(1, 2))
    with pytest.raises(ArgumentError, match=r"every parameter and buffer is given.*'bias'"):
        clnet.func.functional_call(layer, {"weight": given}, clnet.ones(1, 2), strict=True)


def test_a_functional_call_gives_a_tensor_all_its_names():
    net = clnet.nn.Sequential(clnet.nn.Linear(2, 2, bias=False), clnet.nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    own, x, three = net[0].weight.detach(), clnet.ones(1, 2), clnet.eye(2) * 3
    for given, expected in (
        ({"0.weight": three}, x * 9),
        ({"1.weight": three}, x * 9),
        ({"0.weight": three, "1.weight": three * 2}, x * 18),
    ):
        assert clnet.func.functional_call(net, given, x).tolist() == expected.tolist()
    apart = clnet.func.functional_call(net, {"0.weight": three}, x, tie_weights=False)
    np.testing.assert_allclose(apart.detach().numpy(), ((x * 3) @ own.T).numpy(), rtol=1e-6)
    assert net[0].weight is net[1].weight


def test_windows_out_of_range_are_refused():
    windows = clnet.signal.windows
    for name, settings in (
        ("exponential", {"center": 1.0}),
        ("gaussian", {"std": 0.0}),
        ("general_cosine", {"a": []}),
        ("hann", {"dtype": clnet.int32}),
        ("kaiser", {"beta": -1.0}),
    ):
        with pytest.raises(ArgumentError, match=name):
            getattr(windows, name)(5, **settings)


def test_vmap_wants_a_batch():
    with pytest.raises(ArgumentError, match="one argument has a batch"):
        clnet.vmap(lambda x: x, in_dims=(None,))(clnet.ones(2))
    with pytest.raises(ShapeError, match="batches have one size"):
        clnet.vmap(lambda x, y: x + y)(clnet.ones(2), clnet.ones(3))
    for dims in (({"b": 0},), ((0,),), ([0, 0],)):
        with pytest.raises(ArgumentError, match="an axis for each part"):
            clnet.vmap(lambda x: x["a"], in_dims=dims)({"a": clnet.ones(2)})
    with pytest.raises(DtypeError, match=r"an axis is a whole number.*0\.5"):
        clnet.vmap(lambda x: x, in_dims=(0.5,))(clnet.ones(2))


@pytest.mark.parametrize(
    ("x", "bins", "ends", "law"),
    [
        ([1.0, np.inf], 3, None, "a range is finite and ascends"),
        ([1.0, np.nan], 3, None, "a range is finite and ascends"),
        ([1.0, 2.0], 3, (3.0, 2.0), "a range is finite and ascends"),
        ([1.0, 2.0], 0, None, "there is one interval or more"),
    ],
)
def test_histograms_that_have_no_intervals(x, bins, ends, law):
    with pytest.raises(ArgumentError, match=law):
        clnet.histogram(clnet.tensor(x), bins, range=ends)


def test_a_histogram_of_nothing():
    found = clnet.histogram(clnet.tensor([]), 2)
    assert (found.hist.tolist(), found.bin_edges.tolist()) == ([0, 0], [0, 0.5, 1])


@pytest.mark.parametrize(
    "given",
    [
        {"bins": 3},
        {"bins": [2, 4], "density": True},
        {"bins": [3, 3], "range": [0.0, 0.5, 0.2, 1.0]},
    ],
)
def test_histograms_of_points(given):
    points = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    found = clnet.histogramdd(clnet.tensor(points), **given)
    expected = torch.histogramdd(torch.tensor(points), **given)
    np.testing.assert_allclose(found.hist.numpy(), expected.hist.numpy(), rtol=1e-5)
    for ours, theirs in zip(found.bin_edges, expected.bin_edges, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    with pytest.raises(ArgumentError, match="bins for each axis"):
        clnet.histogramdd(clnet.tensor(points), [3])


def test_diagonals_wrap():
    x = clnet.zeros(7, 2).fill_diagonal_(1, wrap=True)
    assert x[:, 0].tolist() == [1, 0, 0, 1, 0, 0, 1]
    assert x[:, 1].tolist() == [0, 1, 0, 0, 1, 0, 0]


def test_order_of_axes():
    x = clnet.zeros(2, 3, 5).permute(2, 0, 1)
    assert x.dim_order() == (1, 2, 0)
    assert x.dim_order(ambiguity_check=True) == (1, 2, 0)
    with pytest.raises(ArgumentError, match="axes are in one order"):
        clnet.zeros(1, 2).dim_order(ambiguity_check=True)


def test_words_about_the_process():
    assert not clnet.is_inference(clnet.ones(1))
    assert not clnet.is_deterministic_algorithms_warn_only_enabled()
    assert clnet.get_device_module("cuda") is clnet.cuda
    assert clnet.get_device_module("cpu") is clnet.accelerator
    assert not clnet.is_warn_always_enabled()
    with warnings.catch_warnings():
        clnet.set_warn_always(True)
        assert clnet.is_warn_always_enabled()
        clnet.set_warn_always(False)
    with pytest.raises(ArgumentError, match="it takes a bool"):
        clnet.set_warn_always("yes")


def test_shuffled_numbers_may_get_gradients():
    x = clnet.randperm(5, dtype=clnet.float32, requires_grad=True)
    assert x.is_leaf
    assert x.requires_grad
    assert sorted(x.tolist()) == [0, 1, 2, 3, 4]


def test_what_a_function_gives_beside_its_value_is_not_on_the_tape():
    x = clnet.ones(3)
    gradient, (value, other) = func.grad_and_value(lambda y: (y.sum(), y * 2), has_aux=True)(x)
    assert not any(t.requires_grad for t in (gradient, value, other))
    assert not func.jacrev(lambda y: (y * 2, y), has_aux=True)(x)[1].requires_grad


def test_vmap_draws_as_it_is_told():
    def noisy(y):
        return y + clnet.rand(())

    x = clnet.zeros(4)
    with pytest.raises(ArgumentError, match=r"vmap: nothing is drawn.*randomness='different'"):
        func.vmap(noisy)(x)
    assert len(set(func.vmap(noisy, randomness="different")(x).tolist())) == 4
    assert len(set(func.vmap(noisy, randomness="same")(x).tolist())) == 1


def test_nodes_say_what_they_saved():
    x = clnet.tensor([1.0, 2.0], requires_grad=True)
    y = x * clnet.tensor([3.0, 4.0])
    node = y.exp().grad_fn
    assert [name for name in dir(node) if name.startswith("_saved")] == ["_saved_result"]
    np.testing.assert_array_equal(node._saved_result.tolist(), y.exp().tolist())
    assert y.grad_fn._saved_other.tolist() == [3, 4]
    assert x.sin().grad_fn._saved_self is x
    assert not hasattr(node, "_saved_self")
    z = x.sin()
    z.sum().backward()
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        _ = z.grad_fn._saved_self
