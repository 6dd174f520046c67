"""What PyTorch's own tests of pointwise ops, linear algebra and creation found, without PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet.autograd import gradcheck
from clnet.errors import DtypeError, GradientError, ShapeError
from tests.ops.test_complex_parts import numbers

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def _with_doubles(device):
    if not device.traits.float64:
        pytest.skip("references are computed in float64")


Z, W = numbers(3, 7) * 4, numbers(3, 7, seed=1) * 4


def test_logarithms_of_sums_of_complex_exponentials():
    z, w = Z.astype(np.complex128), W.astype(np.complex128)
    x, y = clnet.tensor(z), clnet.tensor(w)
    want = np.exp(z) + np.exp(w)
    np.testing.assert_allclose(clnet.logaddexp(x, y).exp().numpy(), want, rtol=1e-12)
    mixed = clnet.logaddexp(x, y.real)  # a complex and a real operand
    np.testing.assert_allclose(mixed.exp().numpy(), np.exp(z) + np.exp(w.real), rtol=1e-12)
    for dim in (0, 1):
        found = clnet.logcumsumexp(x, dim).exp().numpy()
        np.testing.assert_allclose(found, np.cumsum(np.exp(z), dim), rtol=1e-11)
    big = clnet.logaddexp(clnet.tensor(800 + 1j), clnet.tensor(-800 + 2j))
    assert big.item() == 800 + 1j


def test_logarithms_of_infinite_complex_exponentials():
    inf, nan = math.inf, math.nan

    def found(a: complex, b: complex) -> complex:
        return clnet.logaddexp(clnet.tensor(a), clnet.tensor(b)).item()

    assert found(complex(-inf, 0), complex(-inf, 1)).real == -inf
    assert found(complex(-inf, 0), 1 + 2j) == 1 + 2j
    assert found(complex(inf, 0), 1 + 2j).real == inf
    for pair in ((complex(nan, 0), 1j), (1j, complex(0, nan)), (complex(inf, 0), complex(1, nan))):
        y = found(*pair)
        assert math.isnan(y.real)
        assert math.isnan(y.imag)


def test_gradients_of_logarithms_of_complex_sums():
    x, y = (clnet.tensor(z[:2, :3].astype(np.complex128), requires_grad=True) for z in (Z, W))
    assert gradcheck(clnet.logaddexp, (x, y))
    assert gradcheck(lambda z: clnet.logcumsumexp(z, 1), (x,))


WHOLE = np.random.default_rng(0)


def whole(*shape: int, dtype: type = np.int64) -> np.ndarray:
    return WHOLE.integers(-9, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), ((2, 1), (1, 2), (1, 2))])
def test_convolutions_of_whole_numbers(dtype, stride, padding, dilation):
    x, w, b = (whole(*s, dtype=dtype) for s in ((2, 4, 7, 6), (6, 2, 3, 2), (6,)))
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 2}
    y = F.conv2d(*map(clnet.tensor, (x, w, b)), **settings)
    floats = (clnet.tensor(a.astype(np.float32)) for a in (x, w, b))
    want = F.conv2d(*floats, **settings).numpy().round().astype(np.int64).astype(dtype)
    assert y.numpy().dtype == dtype
    np.testing.assert_array_equal(y.numpy(), want)  # wrapped round as the dtype is


def test_convolutions_of_whole_numbers_are_exact():
    x = clnet.full((1, 1, 3), 2**60 + 1, dtype=clnet.int64)
    assert F.conv1d(x, clnet.tensor([[[1, 0]]])).tolist() == [[[2**60 + 1] * 2]]
    with pytest.raises(DtypeError, match="operands are floating"):
        F.conv1d(x.bool(), x.bool())


@pytest.mark.parametrize(
    ("axes", "settings"),
    [
        (1, {"stride": 2, "padding": 1}),
        (2, {"stride": (2, 3), "padding": (1, 0), "output_padding": 1, "groups": 2}),
        (2, {"stride": 2, "padding": 1, "output_padding": (1, 0), "dilation": 2}),
        (3, {"stride": (2, 1, 2), "padding": 1, "output_padding": (1, 0, 0)}),
    ],
)
def test_transposed_convolutions_of_whole_numbers(axes, settings):
    x, w = whole(2, 4, *(5, 4, 3)[:axes]), whole(4, 3, *(3, 2, 2)[:axes])
    b = whole(3 * settings.get("groups", 1))
    function = getattr(F, f"conv_transpose{axes}d")
    y = function(*map(clnet.tensor, (x, w, b)), **settings)
    want = function(*(clnet.tensor(a).double() for a in (x, w, b)), **settings)
    assert y.dtype is clnet.int64
    np.testing.assert_array_equal(y.numpy(), want.numpy().round())


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_means_over_windows_of_whole_numbers(axes, ceil, include):
    x = 11 * whole(2, 3, *(5, 7, 8)[:axes])
    function = getattr(F, f"avg_pool{axes}d")
    settings = {"ceil_mode": ceil, "count_include_pad": include}
    y = function(clnet.tensor(x), (3, 2, 3)[:axes], 2, 1, **settings)
    want = function(clnet.tensor(x).double(), (3, 2, 3)[:axes], 2, 1, **settings).numpy()
    assert y.dtype is clnet.int64
    np.testing.assert_array_equal(y.numpy(), np.trunc(want + np.sign(want) * 1e-9))
    if axes > 1:
        y = function(clnet.tensor(x), 2, divisor_override=-3)
        want = function(clnet.tensor(x).double(), 2, divisor_override=1).numpy() / -3
        np.testing.assert_array_equal(y.numpy(), np.trunc(want + np.sign(want) * 1e-9))


def test_a_view_through_its_own_dtype_has_no_gradient():
    x = clnet.ones(2, requires_grad=True)
    y = x.view(clnet.float32)
    assert (y.requires_grad, y is x, y.data_ptr() == x.data_ptr()) == (False, False, True)


def test_norms_in_a_complex_dtype_are_real():
    z = clnet.tensor(Z[0])
    for order in (0, 1, 2, 3.5, math.inf):
        for keepdim in (False, True):
            y = clnet.linalg.norm(z, order, keepdim=keepdim, dtype=clnet.complex128)
            assert y.dtype is clnet.float64
            np.testing.assert_allclose(y.item(), np.linalg.norm(Z[0], order), rtol=1e-6)
    assert clnet.norm(z, dtype=clnet.complex128).dtype is clnet.float64


def test_what_inference_mode_makes_says_so():
    x = clnet.ones(2, requires_grad=True)
    with clnet.inference_mode():
        made = [clnet.ones(2), clnet.tensor([1.0]), x + 1, clnet.empty(2), x * x]
        assert not x.view(2).is_inference()
        with clnet.inference_mode(mode=False):
            assert not clnet.ones(2).is_inference()
    assert all(y.is_inference() and y.view(-1).is_inference() for y in made)
    assert all(y.detach().is_inference() for y in made)
    assert not any(y.clone().is_inference() or (y + 1).is_inference() for y in made)
    with clnet.no_grad():
        assert not (x + 1).is_inference()


def test_nodes_of_the_tape_are_called():
    x = clnet.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    g = clnet.tensor([3.0, 5.0])
    assert [z.tolist() for z in y.grad_fn(g)] == [[3, 10]] * 2
    (node, _), _ = y.grad_fn.next_functions
    assert node(g) == node(g) == ()
    assert x.grad.tolist() == [6, 10]
    assert (x.softmax(0)).grad_fn(g).tolist() == pytest.approx([-0.3932, 0.3932], abs=1e-4)
    assert (x * 2).grad_fn(None) is None
    y.sum().backward()
    with pytest.raises(GradientError, match="freed"):
        y.grad_fn(g)
    with pytest.raises(GradientError, match="each output has a gradient, or None"):
        x.sin().grad_fn()


def test_to_asks_the_class_of_what_a_tensor_is_to_be_like():
    class Kind(clnet.Tensor):
        pass

    like = clnet.ones(2, dtype=clnet.float64).as_subclass(Kind)
    y = clnet.ones(2).to(like)
    assert (type(y), y.dtype) == (Kind, clnet.float64)

    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func is clnet.Tensor.to, types, len(args)

    assert clnet.ones(2).to(Other()) == (True, (Other,), 2)


def test_powers_of_matrices_of_whole_numbers():
    x = np.array([[[1, 1], [0, 1]], [[2, 0], [1, -1]]])
    for n in (0, 1, 5):
        y = clnet.linalg.matrix_power(clnet.tensor(x), n)
        assert y.dtype is clnet.int64
        np.testing.assert_array_equal(y.numpy(), np.linalg.matrix_power(x, n))
    with pytest.raises(DtypeError, match="matrix_power: operands are floating"):
        clnet.linalg.matrix_power(clnet.tensor(x), -1)
    with pytest.raises(ShapeError, match="matrix_power: x is a square matrix"):
        clnet.linalg.matrix_power(clnet.ones(2, 3, dtype=clnet.int32), 2)


def test_what_no_tensor_is_made_of():
    itself: list = [0]
    itself.append(itself)
    for made in (clnet.tensor, clnet.as_tensor, clnet.asarray):
        with pytest.raises(TypeError, match="none contains itself"):
            made(itself)
    for name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
        with pytest.raises(DtypeError, match=f"{name}_window: a window is floating|hamming"):
            getattr(clnet, f"{name}_window")(3, dtype=clnet.int64)


def test_an_out_of_another_shape_warns():
    x = clnet.tensor([[2.0, 0.0], [0.0, 3.0]])
    for out in (clnet.empty(2, 2), clnet.empty(0)):
        assert clnet.inverse(x, out=out) is out  # no warning, which would be an error
    with pytest.warns(UserWarning, match=r"kron: out of shape \(3,\) takes that of the result"):
        out = clnet.kron(x, x, out=clnet.empty(3))
    assert out.shape == (4, 4)


def test_eigenvalues_and_vectors_are_written_to_out():
    x = clnet.tensor([[2.0, 1.0], [1.0, 3.0]])
    out = tuple(clnet.empty(0, dtype=clnet.complex64) for _ in range(2))
    clnet.linalg.eig(A=x, out=out)
    values, vectors = clnet.linalg.eig(x)
    np.testing.assert_allclose(out[0].numpy(), values.numpy(), rtol=1e-6)
    np.testing.assert_allclose(out[1].numpy(), vectors.numpy(), rtol=1e-6)
