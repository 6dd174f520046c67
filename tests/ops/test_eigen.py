"""Eigenvalues of matrices that need not be symmetric, by what they must satisfy and by PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import linalg
from clnet.errors import DataDomainError, DtypeError, ShapeError

pytestmark = pytest.mark.device

RNG = np.random.default_rng(5)
MATRICES = {
    "drawn": RNG.normal(size=(2, 6, 6)),
    "one": RNG.normal(size=(1, 1)),
    "turn": np.array([[0.0, 1], [-1, 0]]),
    "zero": np.zeros((4, 4)),
    "cycle": np.roll(np.eye(6), 1, 0),
    "triangle": np.triu(RNG.normal(size=(5, 5))),
    "rank one": np.ones((4, 4)),
    "defective": np.array([[1.0, 1], [0, 1]]),
    "small": RNG.normal(size=(5, 5)) * 1e-30,
    "large": RNG.normal(size=(30, 30)),
    "none": np.zeros((0, 3, 3)),
}
OTHERWISE_TESTED = {
    "linalg.eig": "test_values_and_vectors",
    "linalg.eigvals": "test_values_and_vectors",
}


def paired(found, wanted):
    """The largest distance of a value to the nearest of others, both ways."""
    apart = abs(found[..., :, None] - wanted[..., None, :])
    return max(apart.min(-1).max(initial=0), apart.min(-2).max(initial=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_vectors(dtype):
    for name, matrix in MATRICES.items():
        a = matrix.astype(dtype)
        values, vectors = (y.numpy() for y in linalg.eig(clnet.tensor(a)))
        size = max(abs(a).max(initial=0), 1e-37)
        near = 200 * np.finfo(dtype).eps * a.shape[-1] * size
        assert values.dtype == vectors.dtype == np.result_type(dtype, np.complex64), name
        assert abs(a @ vectors - vectors * values[..., None, :]).max(initial=0) <= near, name
        assert np.allclose(np.linalg.norm(vectors, axis=-2), 1), name
        root = np.sqrt(np.finfo(dtype).eps) if name in ("defective", "rank one") else 0
        assert paired(values, np.linalg.eigvals(a)) <= max(near, root * size), name
        np.testing.assert_array_equal(linalg.eigvals(clnet.tensor(a)).numpy(), values)


def test_pairs_are_exactly_conjugate():
    values, vectors = (y.numpy()[0] for y in linalg.eig(clnet.tensor(MATRICES["drawn"])))
    first = np.flatnonzero(values.imag > 0)
    assert first.size
    np.testing.assert_array_equal(values[first + 1], values[first].conj())
    np.testing.assert_array_equal(vectors[:, first + 1], vectors[:, first].conj())
    largest = abs(vectors).argmax(0)
    assert np.allclose(vectors[largest, range(6)].imag, 0)


def test_nan_gives_nan():
    x = MATRICES["drawn"].copy()
    x[0, 1, 1] = np.nan
    found = linalg.eigvals(clnet.tensor(x)).numpy()
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def _of(library, x):
    values, vectors = library.linalg.eig(x)
    alone = library.linalg.eigvals(x)
    return (
        (values.real**2 * values.imag.exp()).sum() + (vectors.abs() ** 3).sum() + alone.abs().sum()
    )


def test_gradients():
    """By differences; what eigenvectors' angles give is not asked."""
    a = MATRICES["drawn"][:1]
    x = clnet.tensor(a, requires_grad=True)
    _of(clnet, x).backward()
    step, wanted = 1e-6, np.empty_like(a)
    for place in np.ndindex(a.shape):
        ends = []
        for sign in (1, -1):
            moved = a.copy()
            moved[place] += sign * step
            ends.append(_of(clnet, clnet.tensor(moved)).item())
        wanted[place] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    x = clnet.tensor(MATRICES["drawn"], requires_grad=True)
    y = torch.tensor(MATRICES["drawn"], requires_grad=True)
    _of(clnet, x).backward()
    _of(torch, y).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9, atol=1e-10)


def test_errors():
    with pytest.raises(ShapeError, match="matrices are square"):
        linalg.eig(clnet.ones(2, 3))
    with pytest.raises(DtypeError, match="matrices are float32 or float64"):
        linalg.eigvals(clnet.ones(2, 2, dtype=clnet.float16))


def test_equal_values_have_gradients_where_no_vector_is_asked_for():
    x = clnet.eye(3).requires_grad_()
    clnet.linalg.eigvals(x).real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-6)


def test_what_depends_on_the_angle_of_an_eigenvector_has_no_gradient():
    x = clnet.tensor([[0.0, -2.0], [1.0, 0.0]], requires_grad=True)
    clnet.linalg.eig(x).eigenvectors.abs().sum().backward()
    clnet.synchronize()
    assert np.isfinite(x.grad.numpy()).all()
    loss = (clnet.linalg.eig(x).eigenvectors * clnet.tensor([1 + 2j, 3j])).real.sum()
    with pytest.raises(DataDomainError, match="eig: it does not depend on the angles"):
        loss.backward()


@pytest.mark.parametrize("name", ["svdvals", "eigvalsh"])
def test_values_of_complex_matrices_have_second_derivatives(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    drawn = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    found = []
    for m in (clnet, torch):
        x = m.tensor(drawn + drawn.conj().T if name == "eigvalsh" else drawn, requires_grad=True)
        values = getattr(m.linalg, name)(x)
        (slope,) = m.autograd.grad((values**2).sum() + values[0], x, create_graph=True)
        (bend,) = m.autograd.grad((slope.real * m.arange(9).reshape(3, 3)).sum(), x)
        found.append((bend + bend.mH if name == "eigvalsh" else bend).numpy())
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9)


def test_the_exponential_of_a_matrix_is_as_exact_as_float32(device):
    """Each squaring doubles what was rounded: so a matrix is scaled little."""
    rng = np.random.default_rng(0)
    worst = []
    for _ in range(6):
        x = (rng.normal(size=(5, 30, 30)) * 2 / 30**0.5).astype("float32")
        want = clnet.linalg.matrix_exp(clnet.tensor(x.astype("float64"))).numpy()
        apart = abs(clnet.linalg.matrix_exp(clnet.tensor(x)).numpy() - want)
        worst.append(apart.max() / abs(want).max())
    assert np.median(worst) < 1.5e-6  # 2.6e-6 where it is scaled to a norm of 1, 1.1e-6 PyTorch's


def test_the_condition_of_nothing_is_real(device):
    x = clnet.zeros(2, 0, 0, dtype=clnet.complex64)
    for p in (None, "fro"):
        assert linalg.cond(x, p).dtype is clnet.float32


def test_reflections_of_tiny_elements_are_orthogonal(device):
    """What is left of equal columns is rounding of rounding, down to the smallest numbers."""
    for shape in ((17, 9), (9, 17)):
        x = clnet.ones(*shape, device=device)
        u, _, vh = clnet.linalg.svd(x)
        for y in (clnet.linalg.qr(x).Q, u, vh.mT):
            found = y.numpy().astype(float)
            np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-5)
    w, v = (y.numpy() for y in clnet.linalg.eigh(clnet.ones(17, 17, device=device)))
    np.testing.assert_allclose(w, np.r_[np.zeros(16), 17], atol=1e-5)
    np.testing.assert_allclose(v.T @ v, np.eye(17), atol=1e-5)


def test_one_triangle_of_symmetric_matrices_is_taken_and_scaled_in_one_launch(device):
    x = clnet.randn(3, 16, 16, device=device)
    with clnet.profile(device) as p:
        clnet.linalg.eigh(x, UPLO="U")
    assert len(p.commands) == 1
