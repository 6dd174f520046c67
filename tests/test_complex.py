"""Complex numbers through ops of all families, values and gradients; NumPy is the reference.

Gradients are compared with central differences over both parts, which is PyTorch's convention.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import clnet
import clnet.nn.functional as F
from clnet import linalg
from clnet.autograd import gradcheck, gradgradcheck
from clnet.errors import DtypeError
from clnet.ops.machinery.function import PUBLIC_OPS
from tests.ops.test_complex_parts import numbers

pytestmark = pytest.mark.device

Z, W = numbers(3, 4), numbers(3, 4, seed=1)


@pytest.fixture(autouse=True)
def _with_doubles(device):
    if not device.traits.float64:
        pytest.skip("gradients are checked in float64")


def close(found: Any, expected: Any, rtol: float = 2e-6) -> None:
    expected = np.asarray(expected)
    host = found.detach().numpy()
    assert host.shape == expected.shape
    assert host.dtype.kind == expected.dtype.kind
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(host, expected, rtol=rtol * 8, atol=rtol * scale)


UNARY = {
    **{n: getattr(np, n) for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{n: getattr(np, n) for n in ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "square")},
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{n: getattr(np, n) for n in ("abs", "angle", "reciprocal", "isnan", "isfinite")},
    "neg": np.negative,
    "sgn": lambda z: z / abs(z),
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "logical_not": lambda z: z == 0,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    wide = np.concatenate([Z, Z * 1e-3, -Z * 20]).astype(np.complex128)
    function = PUBLIC_OPS[name][0]
    if name in ("tan", "tanh", "sigmoid"):
        wide = wide[:6]
    close(function(clnet.tensor(wide)), UNARY[name](wide), 1e-12)
    if name not in ("isnan", "isfinite", "logical_not"):
        assert gradcheck(function, [clnet.tensor(Z, requires_grad=True)], samples=6)


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "acos"])
def test_slopes_on_the_axes(name):
    at = [(a, b) for a in (-2, 0.5, 3) for b in (0.0, -0.0)]  # along cuts, on either side

    def moved(h):
        return np.array([complex(a + h, b) for a, b in at] + [complex(b, a + h) for a, b in at])

    slope = (UNARY[name](moved(1e-6)) - UNARY[name](moved(-1e-6))) / (moved(1e-6) - moved(-1e-6))
    x = clnet.tensor(moved(0), requires_grad=True)
    (PUBLIC_OPS[name][0](x) * (2 + 1j)).real.sum().backward()
    close(x.grad, ((2 + 1j) * slope).conj(), 1e-7)


@pytest.mark.parametrize("real", [False, True], ids=["complex", "beside real"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_arithmetic(name, real):
    other = W.real if real else W
    function, expected = PUBLIC_OPS[name][0], {"sub": "subtract", "mul": "multiply"}
    reference = getattr(np, {**expected, "div": "divide", "pow": "power"}.get(name, name))
    x, y = clnet.tensor(Z, requires_grad=True), clnet.tensor(other, requires_grad=True)
    close(function(x, y), reference(Z, other))
    assert gradcheck(function, [x, y], samples=5)


def test_gradients_of_gradients():
    x, y = (clnet.tensor(z, requires_grad=True) for z in (Z[:1], W[:1]))
    assert gradgradcheck(lambda a, b: (a * b).exp().abs(), [x, y], samples=3)


def test_broadcast_operands_and_numbers():
    x = clnet.tensor(Z)
    close(x * clnet.tensor(W[0]), Z * W[0])
    close(2j - x, 2j - Z)
    close(x / (1 + 2j), Z / (1 + 2j))
    close(np.complex64(1j) * x, 1j * Z)
    close(clnet.ones(3) * 1j, np.full(3, 1j, np.complex64))
    close(x + W, Z + W)
    close(clnet.tensor([True, False, True])[:, None] * x, Z * [[1], [0], [1]])
    close(clnet.ones(2, dtype=clnet.int64) + 1j, np.full(2, 1 + 1j, np.complex64))
    assert (clnet.ones(2, dtype=clnet.float64) * 1j).dtype is clnet.complex128
    assert (clnet.ones(2) * clnet.tensor(1j)).dtype is clnet.complex64


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, 5, 1.5, 1 + 1j])
def test_powers_of_numbers(exponent):
    x = clnet.tensor(Z, requires_grad=True)
    close(x**exponent, Z**exponent, 4e-6)


def test_zero_and_its_gradients():
    x = clnet.zeros(3, dtype=clnet.complex64, requires_grad=True)
    for function in (clnet.abs, clnet.angle, clnet.sgn):
        (grad,) = clnet.autograd.grad(function(x).real.sum(), x)
        np.testing.assert_array_equal(grad.numpy(), 0)
    close((x**2.5).detach(), np.zeros(3, np.complex64))
    close(x.detach() ** clnet.zeros(3), np.ones(3, np.complex64))
    close(clnet.sqrt(x), np.zeros(3, np.complex64))


def test_division_by_zero():
    x = [1 + 1j, 0j, complex(np.inf, 1), 2 - 3j, complex(np.nan, 1)]
    z, zero = clnet.tensor(x, requires_grad=True), clnet.tensor([0j, 0j, 0j, complex(-0.0, 0), 0j])
    parts = clnet.view_as_real((z / zero).detach()).tolist()
    inf, nan = np.inf, np.nan  # PyTorch's, each part by 0
    np.testing.assert_array_equal(
        parts, [[inf, inf], [nan, nan], [inf, inf], [inf, -inf], [nan, inf]]
    )
    (z / (zero + 2)).real[:2].sum().backward()
    assert z.grad.real.tolist()[:2] == [0.5, 0.5]
    odd = clnet.tensor([complex(np.nan, 0)])
    assert np.isnan(clnet.view_as_real(1 / odd).numpy()).all()


def test_large_numbers_are_divided():
    big = np.array([1e30 + 1e30j, 3e-30j], np.complex64)
    close(clnet.tensor(big) / clnet.tensor(big), np.ones(2, np.complex64))
    close(clnet.tensor(big).abs() * 1e-30, np.abs(big.astype(complex)).astype(np.float32) * 1e-30)


REDUCED = {
    "sum": (lambda x: x.sum(1), lambda z: z.sum(1)),
    "mean": (lambda x: x.mean((0, 1), keepdim=True), lambda z: z.mean(keepdims=True)),
    "prod": (lambda x: x.prod(1), lambda z: z.prod(1)),
    "cumsum": (lambda x: x.cumsum(0), lambda z: z.cumsum(0)),
    "cumprod": (lambda x: x.cumprod(1), lambda z: z.cumprod(1)),
    "var": (lambda x: x.var(0), lambda z: z.var(0, ddof=1)),
    "norm": (linalg.vector_norm, np.linalg.norm),
    "one norm": (lambda x: linalg.vector_norm(x, 1, 0), lambda z: abs(z).sum(0)),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions(name):
    function, reference = REDUCED[name]
    x = clnet.tensor(Z, requires_grad=True)
    close(function(x), reference(Z))
    assert gradcheck(function, [x], samples=5)


def test_truth_and_equality():
    x = clnet.tensor([0j, 1j, 1 + 0j])
    assert x.any().item() is True
    assert x.all().item() is False
    assert (x == 1j).tolist() == [False, True, False]
    assert (x != x).tolist() == [False] * 3
    assert clnet.count_nonzero(x).item() == 2
    assert clnet.zeros(0, dtype=clnet.complex64).prod().item() == 1


PRODUCTS = {
    "matrices": (lambda x, y: x @ y.T, lambda z, w: z @ w.T),
    "vector": (lambda x, y: x @ y[0], lambda z, w: z @ w[0]),
    "bmm": (lambda x, y: clnet.bmm(x[None], y.T[None]), lambda z, w: (z @ w.T)[None]),
    "vdot": (lambda x, y: clnet.vdot(x[0], y[0]), lambda z, w: np.vdot(z[0], w[0])),
    "einsum": (lambda x, y: clnet.einsum("ij,kj->ik", x, y.conj()), lambda z, w: z @ w.conj().T),
    "linear": (lambda x, y: F.linear(x, y, y[:, 0]), lambda z, w: z @ w.T + w[:, 0]),
    "outer": (lambda x, y: clnet.outer(x[0], y[0]), lambda z, w: np.outer(z[0], w[0])),
    "cov": (lambda x, y: clnet.cov(x) + y.sum(), lambda z, w: np.cov(z) + w.sum()),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    function, reference = PRODUCTS[name]
    x, y = clnet.tensor(Z, requires_grad=True), clnet.tensor(W, requires_grad=True)
    close(function(x, y), reference(Z, W))
    assert gradcheck(function, [x, y], samples=3)


INDEX = [0, 2, 0]
MOVED = {
    "slice": (lambda x: x[1:, ::2], lambda z: z[1:, ::2]),
    "cat": (lambda x: clnet.cat([x, x.real], 1), lambda z: np.concatenate([z, z.real], 1)),
    "stack": (lambda x: clnet.stack([x, x]), lambda z: np.stack([z, z])),
    "rows": (lambda x: x[clnet.tensor(INDEX)], lambda z: z[INDEX]),
    "gather": (lambda x: x.gather(1, clnet.tensor([[0, 0]])), lambda z: z[:1, [0, 0]]),
    "flip": (lambda x: x.flip(0), lambda z: z[::-1]),
    "expand": (lambda x: x[:, None].expand(3, 2, 4) * 1, lambda z: np.stack([z, z], 1)),
    "pad": (lambda x: F.pad(x, (1, 2)), lambda z: np.pad(z, ((0, 0), (1, 2)))),
    "where": (lambda x: clnet.where(x.real > 0, x, 1j), lambda z: np.where(z.real > 0, z, 1j)),
    "masked": (lambda x: x.masked_fill(x.real > 0, 2), lambda z: np.where(z.real > 0, 2, z)),
    "diagonal": (lambda x: x.diagonal(), np.diagonal),
    "tril": (lambda x: x.tril(), np.tril),
    "scatter_add": (
        lambda x: clnet.zeros(2, 4, dtype=x.dtype).index_add(0, clnet.tensor([1, 0, 1]), x),
        lambda z: np.stack([z[1], z[0] + z[2]]),
    ),
    "scatter": (
        lambda x: x.scatter(0, clnet.tensor([[2, 1, 0, 1]]), x[:1]),
        lambda z: np.where(np.arange(3)[:, None] == [2, 1, 0, 1], z[:1], z),
    ),
    "put": (
        lambda x: x.index_copy(0, clnet.tensor([2]), x[:1]),
        lambda z: np.concatenate([z[:2], z[:1]]),
    ),
    "roll": (lambda x: x.roll(1, 0), lambda z: np.roll(z, 1, 0)),
}


@pytest.mark.parametrize("dtype", [clnet.complex64, clnet.complex128], ids=lambda d: d.name)
@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements(name, dtype):
    function, reference = MOVED[name]
    z = Z.astype(dtype.numpy)
    np.testing.assert_array_equal(function(clnet.tensor(z)).numpy(), reference(z))
    if dtype is clnet.complex128:
        assert gradcheck(function, [clnet.tensor(z, requires_grad=True)], samples=4)


@pytest.mark.parametrize("dtype", [clnet.complex64, clnet.complex128], ids=lambda d: d.name)
def test_larger_arrays_are_moved(dtype):
    z = numbers(70, 90, dtype=dtype.numpy)
    x = clnet.tensor(z)
    np.testing.assert_array_equal(x.T.contiguous().numpy(), z.T)
    np.testing.assert_array_equal(x[:, 1:-1].contiguous().numpy(), z[:, 1:-1])
    np.testing.assert_array_equal(F.pad(x, (3, 4)).numpy(), np.pad(z, ((0, 0), (3, 4))))
    np.testing.assert_array_equal((x[:, :1].expand(70, 90) + 0).numpy(), z[:, :1].repeat(90, 1))


def test_in_place_and_on_the_tape():
    x = clnet.tensor(Z)
    x.mul_(1j).add_(clnet.tensor(W))
    x[0] = 2
    x[1, 1:3] = 1j
    expected = Z * 1j + W
    expected[0], expected[1, 1:3] = 2, 1j
    close(x, expected)
    x.zero_().fill_(1 - 1j)
    close(x, np.full((3, 4), 1 - 1j, np.complex64))
    clnet.abs(x, out=x)
    close(x, np.full((3, 4), np.sqrt(2), np.complex64))
    leaf = clnet.tensor(Z, requires_grad=True)
    y = leaf * 2
    y.mul_(clnet.tensor(W))
    y.real.sum().backward()
    close(leaf.grad, 2 * W.conj())
    y = leaf.detach().requires_grad_() * 1
    with pytest.raises(DtypeError, match=r"^mul: the result does not fit the dtype"):
        clnet.ones(3, 4).mul_(y.detach())


def test_gradients_add_up_and_optimisers_step():
    p = clnet.nn.Parameter(clnet.tensor(Z))
    for _ in range(2):
        ((p * clnet.tensor(W)).abs() ** 2).sum().backward()
    close(p.grad, 4 * Z * abs(W) ** 2)


def test_compiled_functions_give_the_same():
    x, p = clnet.tensor(W), clnet.tensor(Z, requires_grad=True)

    def step(x: Any) -> Any:
        p.grad = None
        y = F.pad((p @ x.T).exp(), (1, 0)) * 1j
        loss = (y.abs() ** 2).mean() + y.sum().real
        loss.backward()
        with clnet.no_grad():
            p.sub_(p.grad * 1e-3)
        return loss

    eager = [step(x).item() for _ in range(3)]
    final = p.detach().numpy()
    with clnet.no_grad():
        p.copy_(clnet.tensor(Z))
    compiled = clnet.compile(step)
    assert [compiled(x).item() for _ in range(3)] == pytest.approx(eager, rel=1e-5)
    close(p, final)


def test_making_and_reading():
    assert clnet.tensor([1, 2j]).dtype is clnet.complex64
    assert clnet.tensor(np.array([1j])).dtype is clnet.complex128
    assert clnet.tensor([1, 2], dtype=clnet.complex64).tolist() == [1, 2]
    assert clnet.full((2,), 1j).tolist() == [1j, 1j]
    assert clnet.zeros(2, dtype=clnet.cfloat).new_full((1,), 2j).item() == 2j
    close(clnet.eye(2, 3, dtype=clnet.complex64), np.eye(2, 3, dtype=np.complex64))
    assert complex(clnet.tensor(1 + 2j)) == 1 + 2j
    assert float(clnet.tensor(3 + 0j)) == 3
    with pytest.raises(DtypeError, match=r"^float: the number is real; got value=\(1\+2j\)"):
        float(clnet.tensor(1 + 2j))
    with pytest.raises(DtypeError, match=r"^tensor: the dtype holds the data"):
        clnet.tensor([1j], dtype=clnet.float32)
    x = clnet.tensor(Z)
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        np.testing.assert_array_equal(twin.numpy(), Z)
    assert clnet.finfo(clnet.complex64).eps == clnet.finfo(clnet.float32).eps


def test_saved_and_loaded(tmp_path):
    clnet.save({"z": clnet.tensor(Z)}, tmp_path / "z.clnet")
    np.testing.assert_array_equal(clnet.load(tmp_path / "z.clnet")["z"].numpy(), Z)


def test_files_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch", reason="it writes the file")
    torch.save({"z": torch.tensor(Z)}, tmp_path / "z.pt")
    np.testing.assert_array_equal(clnet.load(tmp_path / "z.pt")["z"].numpy(), Z)


def test_random_numbers_have_variance_one():
    clnet.manual_seed(3)
    x = clnet.randn(20000, dtype=clnet.complex64).numpy()
    assert np.abs(x.mean()) < 0.03
    assert (np.abs(x) ** 2).mean() == pytest.approx(1, abs=0.05)
    assert x.imag.std() == pytest.approx(0.5**0.5, abs=0.02)
    u = clnet.rand(1000, dtype=clnet.complex64).numpy()
    assert 0 <= u.real.min() < u.real.max() < 1
    assert not np.array_equal(u.real, u.imag)


def test_text():
    assert repr(clnet.tensor([1 + 2j, 3 - 1j])) == "tensor([1.+2.j, 3.-1.j])"
    assert repr(clnet.tensor([0.5 - 10.25j, -1j])) == "tensor([0.5000-10.2500j, -0.0000-1.0000j])"
    assert repr(clnet.tensor(1j)) == "tensor(0.+1.j)"


@pytest.mark.parametrize(
    "call",
    [
        lambda z: z < z,
        lambda z: clnet.maximum(z, z),
        lambda z: z.max(),
        lambda z: z.floor(),
        lambda z: F.relu(z),
        lambda z: z.sort(),
        lambda z: F.softmax(z, 0),
        lambda z: z % 2,
        lambda z: z & 1,
        lambda z: F.max_pool1d(z[None], 2),
        lambda z: F.dropout(z),
        lambda z: z.erf(),
    ],
)
def test_what_is_of_real_numbers_says_so(call):
    with pytest.raises(DtypeError, match=r"real|floating|bits|dtype"):
        call(clnet.tensor(Z))


_ODD = np.array([0.0, -0.0, 1.0, -2.5, 0.3, np.inf, -np.inf, np.nan])
_NUMPYS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_NUMPYS |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
_ANNEX_G = "exp log log1p sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh".split()


def same(y, expected):
    """Equal as PyTorch's users see it: NaN is NaN, infinities have signs, zeros need none."""
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("name", _ANNEX_G)
def test_corners_of_annex_g(name):
    z = np.empty((len(_ODD), len(_ODD)), np.complex64)
    z.real, z.imag = _ODD[:, None], _ODD
    y = np.array(getattr(clnet, name)(clnet.tensor(z)).numpy())
    with np.errstate(all="ignore"):
        expected = getattr(np, _NUMPYS.get(name, name))(z)
    for found in (y, expected):  # an infinity beside NaN has no sign
        found.real[np.isinf(found.real) & np.isnan(found.imag)] = np.inf
        found.imag[np.isinf(found.imag) & np.isnan(found.real)] = np.inf
    same(y.real, expected.real)
    same(y.imag, expected.imag)


def test_corners_of_expm1():
    """By Annex G; NumPy has NaN for all of infinity."""
    inf, nan = np.inf, np.nan
    given = [
        (inf, 0),
        (-inf, inf),
        (inf, inf),
        (-inf, nan),
        (inf, nan),
        (nan, 0),
        (nan, 1),
        (1, nan),
    ]
    want = [(inf, 0), (-1, 0), (inf, nan), (-1, 0), (inf, nan), (nan, 0), (nan, nan), (nan, nan)]
    y = clnet.expm1(clnet.tensor(np.array([complex(*z) for z in given], np.complex64))).numpy()
    same(y.real, [w for w, _ in want])
    same(y.imag, [w for _, w in want])


def test_gradients_beside_corners_are_those_of_the_formulas():
    x = clnet.tensor([0.0 + 0j, 0.5 + 0j], requires_grad=True)
    for name, slope in (("exp", [1, np.exp(0.5)]), ("asinh", [1, 1.25**-0.5]), ("tanh", None)):
        x.grad = None
        getattr(clnet, name)(x).real.sum().backward()
        wanted = 1 - np.tanh([0, 0.5]) ** 2 if slope is None else slope
        same(x.grad.numpy(), np.array(wanted, np.complex64))


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 4)], ids=str)
def test_the_pseudo_inverse_of_complex_matrices(shape):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    host = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    found = []
    for library in (torch, clnet):
        x = library.tensor(host, requires_grad=True)
        y = library.linalg.pinv(x)
        (y.real.square() + y.imag).sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(found[1][0], np.linalg.pinv(host), atol=1e-10)
    square = host.reshape(-1, *shape[-2:])[0]
    square = square @ square.conj().T
    square[-1] = square[:, -1] = 0  # of a lower rank
    y = clnet.linalg.pinv(clnet.tensor(square), hermitian=True)
    np.testing.assert_allclose(y.numpy(), np.linalg.pinv(square, hermitian=True), atol=1e-8)


_GIVEN = numbers(2, 3, 3, seed=5).astype(np.complex128)
_POSITIVE = _GIVEN @ _GIVEN.conj().swapaxes(-1, -2) + np.eye(3)
_OF_MATRICES = {
    "inv": (linalg.inv, np.linalg.inv, _GIVEN),
    "solve": (lambda z: linalg.solve(z, z @ z), lambda z: z, _GIVEN),
    "det": (linalg.det, np.linalg.det, _GIVEN),
    "slogdet": (lambda z: linalg.slogdet(z).sign, lambda z: np.linalg.slogdet(z)[0], _GIVEN),
    "logdet": (clnet.logdet, lambda z: np.log(np.linalg.det(z)), _GIVEN),
    "power": (
        lambda z: linalg.matrix_power(z, -2),
        lambda z: np.linalg.matrix_power(z, -2),
        _GIVEN,
    ),
    "exp": (linalg.matrix_exp, scipy.linalg.expm, _GIVEN),
    "svdvals": (linalg.svdvals, lambda z: np.linalg.svd(z, compute_uv=False), _GIVEN[:, :2]),
    "rank": (linalg.matrix_rank, np.linalg.matrix_rank, _GIVEN[:, :2]),
    "nuclear": (lambda z: linalg.matrix_norm(z, "nuc"), lambda z: _nuclear(z), _GIVEN),
    "eigvalsh": (linalg.eigvalsh, np.linalg.eigvalsh, _POSITIVE),
    "upper": (lambda z: linalg.eigvalsh(clnet.triu(z), "U"), np.linalg.eigvalsh, _POSITIVE),
    "cholesky": (linalg.cholesky, np.linalg.cholesky, _POSITIVE),
    "cholesky_ex": (
        lambda z: linalg.cholesky_ex(z, upper=True).L.mH,
        np.linalg.cholesky,
        _POSITIVE,
    ),
    "solve_triangular": (
        lambda z: linalg.solve_triangular(z, z @ z, upper=True),
        lambda z: np.linalg.solve(np.triu(z), z @ z),
        _GIVEN,
    ),
    "from the right": (
        lambda z: linalg.solve_triangular(z, z, upper=False, left=False, unitriangular=True),
        lambda z: z @ np.linalg.inv(np.tril(z, -1) + np.eye(3)),
        _GIVEN,
    ),
    "cholesky_solve": (
        lambda z: clnet.cholesky_solve(z, clnet.tril(z)),
        lambda z: np.linalg.solve(np.tril(z) @ _adjoint(np.tril(z)), z),
        _GIVEN,
    ),
    "cholesky_inverse": (
        lambda z: clnet.cholesky_inverse(clnet.triu(z), upper=True),
        lambda z: np.linalg.inv(_adjoint(np.triu(z)) @ np.triu(z)),
        _GIVEN,
    ),
}


def _adjoint(z):
    return z.conj().swapaxes(-1, -2)


def _nuclear(z):
    return np.linalg.svd(z, compute_uv=False).sum(-1)


@pytest.mark.parametrize("name", _OF_MATRICES)
def test_matrices_of_complex_numbers(name):
    ours, numpys, host = _OF_MATRICES[name]
    x = clnet.tensor(host, requires_grad=True)
    y = ours(x)
    np.testing.assert_allclose(y.detach().numpy(), numpys(host), atol=1e-10)
    if y.requires_grad and name != "upper":
        way = numbers(2, 3, 3, seed=6).astype(np.complex128)[:, : host.shape[1]]
        if host is _POSITIVE:  # which moves by what is Hermitian
            way = way + way.conj().swapaxes(-1, -2)
        weights = numbers(*y.shape, seed=7).astype(np.complex128)
        (y * clnet.tensor(weights)).real.sum().backward()
        step = 1e-6
        ahead, behind = ((numpys(host + s * way) * weights).real.sum() for s in (step, -step))
        found = (x.grad.numpy().conj() * way).real.sum()
        assert found == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-7)


def test_complex_triangles_leave_the_other_one_unread():
    host = np.triu(_GIVEN) + np.tril(np.full((3, 3), complex(np.nan, np.inf)), -1)
    x = clnet.tensor(host, requires_grad=True)
    y = linalg.solve_triangular(x, clnet.tensor(_GIVEN), upper=True)
    close(y.detach(), np.linalg.solve(np.triu(_GIVEN), _GIVEN))
    y.real.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
    assert not np.tril(x.grad.numpy(), -1).any()


def test_what_complex_matrices_have_not_is_told():
    with pytest.raises(DtypeError, match="There is no such op for complex numbers"):
        linalg.ldl_factor(clnet.tensor(_GIVEN))


def _numbers(seed):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))).astype(np.complex64)


FURTHER = {
    "lerp": (2, lambda t, a, b: t.lerp(a, b, 0.3)),
    "lerp, from the other end": (2, lambda t, a, b: a.lerp(b, 0.8)),
    "lerp by tensors": (3, lambda t, a, b, c: t.lerp(a, b, c)),
    "addcdiv": (3, lambda t, a, b, c: t.addcdiv(a, b, c, value=2.0)),
    "addcdiv, complex factor": (3, lambda t, a, b, c: t.addcdiv(a, b, c, value=1 + 2j)),
    "addcmul, complex factor": (3, lambda t, a, b, c: a.addcmul(b, c, value=0.5j)),
    "add, complex factor": (2, lambda t, a, b: a.add(b, alpha=2j)),
    "sub, complex factor": (2, lambda t, a, b: t.sub(a, b, alpha=1 - 2j)),
    "logsumexp": (1, lambda t, a: t.logsumexp(a, 1)),
    "logsumexp of large ones": (1, lambda t, a: (a * 100).logsumexp((0, 1), keepdim=True)),
    "float_power": (2, lambda t, a, b: t.float_power(a, b)),
    "float_power of a number": (1, lambda t, a: t.float_power(a, 1.5)),
    "reflected": (1, lambda t, a: t.nn.functional.pad(a[None], (2, 1), "reflect")),
    "replicated": (1, lambda t, a: t.nn.functional.pad(a[None], (2, 1), "replicate")),
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_ops_of_complex_numbers_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    count, call = FURTHER[name]
    found = []
    for library in (clnet, torch):
        xs = [library.tensor(_numbers(k), requires_grad=True) for k in range(count)]
        y = call(library, *xs)
        (y * y.conj() + y).real.sum().backward()
        found.append([y.detach(), *(x.grad for x in xs)])
    for mine, theirs in zip(*found, strict=True):
        assert str(mine.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-4, atol=2e-4)


def test_complex_factors_are_of_complex_operands():
    x = clnet.ones(3)
    calls = (
        lambda: clnet.add(x, x, alpha=1j),
        lambda: clnet.sub(x, x, alpha=1j),
        lambda: x.addcmul(x, x, value=1j),
        lambda: x.addcdiv(x, x, value=1j),
    )
    for call in calls:
        with pytest.raises(DtypeError, match="a complex factor is of complex operands"):
            call()
    with pytest.raises(DtypeError, match="whole numbers"):
        x.addcdiv(x.long(), x.long())
    with pytest.raises(DtypeError, match="one floating dtype"):
        clnet.lerp(x.long(), x.long(), 0.5)


def test_changes_along_a_complex_direction():
    """Gradients are conjugates of slopes: a product with one once gave the conjugate change."""
    x, t = clnet.tensor([1 + 2j, -0.5 + 0.3j]), clnet.tensor([0.3 - 1j, 2 + 0.7j])
    a, b = x.numpy(), t.numpy()
    for function, wanted in (
        (lambda z: z * z, 2 * a * b),
        (lambda z: z.abs(), (a.conj() * b).real / abs(a)),
        (lambda z: z.conj() * 2, 2 * b.conj()),
    ):
        close(clnet.func.jvp(function, (x,), (t,))[1], wanted)
    for jacobian in (
        clnet.func.jacrev,
        lambda f: lambda z: clnet.autograd.functional.jacobian(f, z),
    ):
        with pytest.raises(DtypeError, match="a Jacobian is of real"):
            jacobian(lambda z: z * 2)(x)
