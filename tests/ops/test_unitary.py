"""Complex matrices factored: by what factors must satisfy, by NumPy, and by PyTorch's gradients."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import linalg
from clnet.errors import DataDomainError

pytestmark = pytest.mark.device

RNG = np.random.default_rng(9)


def numbers(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def adjoint(z):
    return z.conj().swapaxes(-1, -2)


GIVEN = numbers(2, 4, 4)
TALL, WIDE = numbers(2, 5, 3), numbers(3, 5)
SQUARES = {
    "drawn": GIVEN,
    "one": numbers(1, 1),
    "zero": np.zeros((3, 3), complex),
    "ones": np.ones((4, 4), complex),
    "equal values": np.eye(4) * 2j,
    "real": RNG.normal(size=(4, 4)) + 0j,
    "defective": np.eye(4, k=1) + 0j,
    "cycle": np.roll(np.eye(6), 1, 0) * 1j,
    "lower rank": np.repeat(numbers(4, 2), 2, 1),
    "large": numbers(4, 4) * 1e150,
    "small": numbers(4, 4) * 1e-150,
    "none": np.zeros((0, 3, 3), complex),
    "empty": np.zeros((2, 0, 0), complex),
}


def near(found, wanted, size=1.0):
    assert abs(found - wanted).max(initial=0) <= 1e-12 * size


def near_unitary(columns):
    near(adjoint(columns) @ columns, np.eye(columns.shape[-1]))


@pytest.mark.parametrize("x", [TALL, WIDE, *SQUARES.values()], ids=["tall", "wide", *SQUARES])
def test_factors_multiply_to_what_they_are_of(x):
    given, size, k = clnet.tensor(x), max(abs(x).max(initial=0), 1e-300), min(x.shape[-2:])
    q, r = (y.numpy() for y in linalg.qr(given, "complete"))
    near(q @ r, x, size)
    near_unitary(q)
    near(np.tril(r, -1), 0)
    near(np.diagonal(r, axis1=-2, axis2=-1).imag, 0)
    u, s, vh = (y.numpy() for y in linalg.svd(given))
    near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, size)
    near(s, np.linalg.svd(x, compute_uv=False), size)
    near_unitary(u)
    near_unitary(adjoint(vh))
    p, low, high = (y.numpy() for y in linalg.lu(given))
    near(p @ low @ high, x, size)
    # Pivots are chosen by the sum of both parts, so that elements are not above its root's share.
    assert abs(low).max(initial=0) <= 2**0.5


@pytest.mark.parametrize("name", SQUARES)
def test_eigenvalues_and_vectors(name):
    x = SQUARES[name]
    size = max(abs(x).max(initial=0), 1e-300)
    values, vectors = (y.numpy() for y in linalg.eig(clnet.tensor(x)))
    near(x @ vectors, vectors * values[..., None, :], 10 * size)
    near(np.linalg.norm(vectors, axis=-2), 1)
    np.testing.assert_array_equal(linalg.eigvals(clnet.tensor(x)).numpy(), values)
    hermitian = x + adjoint(x)
    for half, other in (("L", np.tril), ("U", np.triu)):
        kept = other(hermitian)  # the other triangle is not read
        values, vectors = (y.numpy() for y in linalg.eigh(clnet.tensor(kept), half))
        near(values, np.linalg.eigvalsh(hermitian), 10 * size)
        near(hermitian @ vectors, vectors * values[..., None, :], 10 * size)
        near_unitary(vectors)


def test_narrow_numbers_and_nan():
    x = GIVEN.astype(np.complex64)
    values, vectors = (y.numpy() for y in linalg.eig(clnet.tensor(x)))
    assert values.dtype == vectors.dtype == np.complex64
    np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=1e-5)
    u, s, vh = (y.numpy() for y in linalg.svd(clnet.tensor(x)))
    assert s.dtype == np.float32
    np.testing.assert_allclose(u * s[:, None] @ vh, x, atol=1e-5)
    x[0, 1, 1] = np.nan
    found = linalg.eigvals(clnet.tensor(x)).numpy()
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_pivots_are_lapacks():
    # By magnitude the first row would be taken, by the sum of both parts the second is.
    found = linalg.lu_factor(clnet.tensor([[1.4 + 0j, 2], [1 + 1j, 3]]))
    assert found.pivots.tolist() == [2, 2]
    found = linalg.lu_factor_ex(clnet.zeros(3, 2, 2, dtype=clnet.complex64))
    assert found.info.tolist() == [1, 1, 1]


@pytest.mark.parametrize("adjoint_too", [False, True])
def test_systems(adjoint_too):
    a, pivots = linalg.lu_factor(clnet.tensor(GIVEN))
    b = numbers(2, 4, 3)
    matrix = adjoint(GIVEN) if adjoint_too else GIVEN
    y = linalg.lu_solve(a, pivots, clnet.tensor(b), adjoint=adjoint_too)
    near(matrix @ y.numpy(), b, 100)
    row = adjoint(b).copy()
    y = linalg.lu_solve(a, pivots, clnet.tensor(row), left=False, adjoint=adjoint_too)
    near(y.numpy() @ matrix, row, 100)


def test_least_squares_reflections_and_conditions():
    a, b = numbers(6, 4), numbers(6, 2)
    found = linalg.lstsq(clnet.tensor(a), clnet.tensor(b), driver="gelsd")
    wanted, residuals, rank, values = np.linalg.lstsq(a, b)
    near(found.solution.numpy(), wanted)
    near(found.residuals.numpy(), residuals, 10)
    near(found.singular_values.numpy(), values, 10)
    assert found.rank.item() == rank
    assert found.residuals.dtype is clnet.float64
    packed, tau = clnet.geqrf(clnet.tensor(a))
    q = linalg.householder_product(packed, tau).numpy()
    whole = clnet.ormqr(packed, tau, clnet.tensor(a), transpose=True).numpy()
    near(adjoint(q) @ a, whole[:4], 10)
    near(
        clnet.ormqr(packed, tau, clnet.tensor(adjoint(a).copy()), left=False).numpy()[:, :4],
        adjoint(whole)[:, :4],
        10,
    )
    taped = [y.detach().requires_grad_() for y in (packed, tau)]
    near(linalg.householder_product(*taped).detach().numpy(), q)
    turned = clnet.ormqr(*taped, clnet.tensor(a), transpose=True)
    near(turned.detach().numpy(), whole, 10)
    for p in (1, "fro", float("inf")):
        near(linalg.cond(clnet.tensor(GIVEN), p).numpy(), np.linalg.cond(GIVEN, p), 1e3)


_WEIGHTS = numbers(2, 5, 5)


def _sum(library, *results):
    """What no angle of a vector changes."""
    weights = library.tensor(_WEIGHTS)
    each = ((y * weights[..., : y.shape[-2], : y.shape[-1]]).real.sum() for y in results)
    return sum(each, start=library.zeros((), dtype=library.float64))


def _eig(library, x):
    values, vectors = library.linalg.eig(x)
    return _sum(library, vectors.abs() ** 3 + values[..., None, :] * (1 + 2j))


def _eigh(library, x):
    values, v = library.linalg.eigh(x)
    return _sum(
        library, v @ library.diag_embed(values.exp() + 0j) @ v.mH, v[..., :2] @ v[..., :2].mH
    )


def _svd(library, x):
    u, s, vh = library.linalg.svd(x, full_matrices=False)
    return _sum(library, u[..., :2] @ vh[..., :2, :], u[..., :1] @ u[..., :1].mH) + s.exp().sum()


def _lstsq(library, x):
    return _sum(library, library.linalg.lstsq(x, library.tensor(TALL)).solution)


GRADIENTS = {
    "qr": (lambda library, x: _sum(library, *library.linalg.qr(x)), GIVEN),
    "qr of tall": (lambda library, x: _sum(library, *library.linalg.qr(x)), TALL),
    "qr of wide": (lambda library, x: _sum(library, *library.linalg.qr(x)), WIDE),
    "lu": (lambda library, x: _sum(library, *library.linalg.lu(x)[1:]), GIVEN),
    "lu of tall": (lambda library, x: _sum(library, *library.linalg.lu(x)[1:]), TALL),
    "lu of wide": (lambda library, x: _sum(library, *library.linalg.lu(x)[1:]), WIDE),
    "inverse": (lambda library, x: _sum(library, library.linalg.inv_ex(x).inverse), GIVEN),
    "svd": (_svd, GIVEN),
    "svd of tall": (_svd, TALL),
    "svd of wide": (_svd, WIDE),
    "eig": (_eig, GIVEN),
    "eigh": (_eigh, GIVEN + adjoint(GIVEN)),
    "lstsq": (_lstsq, TALL + 0.5),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    of, host = GRADIENTS[name]
    found = []
    for library in (torch, clnet):
        x = library.tensor(host, requires_grad=True)
        y = of(library, x)
        y.backward()
        found.append((y.item(), x.grad.numpy()))
    (y, gradient), (own, own_gradient) = found
    assert own == pytest.approx(y, rel=1e-9)
    if name == "eigh":  # which only Hermitian moves have
        gradient, own_gradient = (g + adjoint(g) for g in (gradient, own_gradient))
    np.testing.assert_allclose(own_gradient, gradient, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_what_depends_on_the_angle_of_a_vector_has_no_gradient(name):
    x = clnet.tensor(GIVEN + adjoint(GIVEN), requires_grad=True)
    vectors = linalg.eigh(x)[1] if name == "eigh" else linalg.svd(x)[0]
    (vectors * clnet.tensor(_WEIGHTS[:, :4, :4])).real.sum().backward()
    with pytest.raises(DataDomainError, match=f"{name}: it does not depend on the angles"):
        clnet.synchronize()
