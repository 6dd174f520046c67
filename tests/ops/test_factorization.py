"""Factorizations, and what is made of them, against NumPy; arbitrary signs are not looked at."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import linalg, ops
from clnet.errors import ArgumentError, DtypeError, GradientError, ShapeError
from tests.opcase import Draw, OpCase, every_check, normal

pytestmark = pytest.mark.device


def case(name, fn, ref, *inputs, label="", **options):
    options = {"k": 16, "ulps": 64, **options}
    return OpCase(fn, ref, inputs, layouts=(), shapes=(), name=name, label=label, **options)


def well(*shape):
    """Matrices far from singular."""
    return Draw(shape, lambda rng, s: rng.standard_normal(s) + 3 * np.eye(*s[-2:])[:, ::-1])


def triangle(*shape):
    return Draw(shape, lambda rng, s: np.tril(0.5 * rng.standard_normal(s)) + 2 * np.eye(s[-1]))


def turned(x):
    return np.swapaxes(x, -1, -2)


def gram(x):
    return x @ turned(x) + np.eye(x.shape[-1])


def device_gram(x):
    return x @ x.mT + clnet.eye(x.shape[-1])


def lower(x):
    return np.tril(x)


def spread(x):
    """Symmetric, with eigenvalues apart."""
    return (x + turned(x)) / 2 + np.diag(np.arange(x.shape[-1]) * 4.0)


def device_spread(x):
    return (x + x.mT) / 2 + clnet.diag(clnet.arange(x.shape[-1]).to(x.dtype) * 4)


def reference_lu(x):
    """L and U without exchanges: the rows of the cases are in order."""
    m = x.copy()
    for k in range(min(m.shape[-2:])):
        m[..., k + 1 :, k] /= m[..., k : k + 1, k]
        m[..., k + 1 :, k + 1 :] -= m[..., k + 1 :, k : k + 1] * m[..., k : k + 1, k + 1 :]
    return m


def dominant(*shape):
    """The largest element of each column is on the diagonal, whatever was taken off."""
    return Draw(shape, lambda rng, s: 0.3 * rng.standard_normal(s) + 4 * np.eye(*s[-2:]))


def exp_of(x):
    values, vectors = np.linalg.eig(x)
    return np.real(vectors * np.exp(values)[..., None, :] @ np.linalg.inv(vectors))


def reflected(a, tau):
    m, n = a.shape[-2:]
    q = np.eye(m)
    for k in range(n):
        v = np.r_[np.zeros(k), 1, a[k + 1 :, k]]
        q = q @ (np.eye(m) - tau[k] * np.outer(v, v))
    return q


def projector(q):
    return q @ q.mT


def of_factors(x):
    found = linalg.lu_factor(x)
    return found.LU


CASES = [
    case(
        "linalg.solve_triangular",
        lambda a, b: linalg.solve_triangular(a, b, upper=False),
        lambda a, b: np.linalg.solve(lower(a), b),
        triangle(2, 3, 3),
        normal(3, 2),
        grad2=True,
    ),
    case(
        "linalg.solve_triangular",
        lambda a, b: linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
        lambda a, b: b @ np.linalg.inv(np.triu(turned(a), 1) * 0 + np.triu(a, 1) + np.eye(4)),
        normal(4, 4),
        normal(2, 4),
        label="right",
    ),
    case(
        "triangular_solve",
        lambda a, b: ops.triangular_solve(b, a, upper=False, transpose=True).solution,
        lambda a, b: np.linalg.solve(turned(lower(a)), b),
        triangle(4, 4),
        normal(4, 2),
    ),
    case(
        "cholesky",
        lambda x: ops.cholesky(device_gram(x)),
        lambda x: np.linalg.cholesky(gram(x)),
        well(2, 3, 3),
    ),
    case(
        "cholesky",
        lambda x: linalg.cholesky(device_gram(x), upper=True),
        lambda x: np.linalg.cholesky(gram(x)).T,
        well(5, 5),
        label="upper",
    ),
    case(
        "linalg.cholesky_ex",
        lambda x: linalg.cholesky_ex(device_gram(x), upper=True).L,
        lambda x: turned(np.linalg.cholesky(gram(x))),
        normal(2, 4, 4),
        grad2=True,
    ),
    case(
        "cholesky_solve",
        lambda b, a: ops.cholesky_solve(b, a),
        lambda b, a: np.linalg.solve(a @ turned(a), b),
        normal(3, 2),
        triangle(3, 3),
        grad=False,
    ),
    case(
        "cholesky_inverse",
        lambda a: ops.cholesky_inverse(a.mT, upper=True),
        lambda a: np.linalg.inv(a @ turned(a)),
        triangle(2, 3, 3),
        grad=False,
    ),
    case("linalg.lu_factor", of_factors, reference_lu, dominant(2, 4, 4), grad2=True),
    case(
        "linalg.lu_factor_ex",
        lambda x: linalg.lu_factor_ex(x).LU,
        reference_lu,
        dominant(3, 5),
        label="wide",
    ),
    case("lu", lambda x: ops.lu(x)[0], reference_lu, dominant(5, 3), label="tall"),
    case(
        "linalg.lu",
        lambda x: linalg.lu(x)[2],
        lambda x: np.triu(reference_lu(x)),
        dominant(4, 4),
    ),
    case(
        "linalg.lu_solve",
        lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, left=False, adjoint=True),
        lambda a, b: b @ np.linalg.inv(turned(a)),
        well(4, 4),
        normal(2, 4),
    ),
    case(
        "lu_solve",
        lambda a, b: ops.lu_solve(b, *linalg.lu_factor(a)),
        np.linalg.solve,
        well(2, 3, 3),
        normal(2, 3, 2),
    ),
    case("linalg.inv_ex", lambda a: linalg.inv_ex(a).inverse, np.linalg.inv, well(2, 4, 4)),
    case(
        "linalg.solve_ex",
        lambda a, b: linalg.solve_ex(a, b).result,
        lambda a, b: np.linalg.solve(a, b[..., None])[..., 0],
        well(2, 4, 4),
        normal(2, 4),
    ),
    case(
        "linalg.qr",
        lambda x: [projector(linalg.qr(x).Q), abs(linalg.qr(x).R)],
        lambda x: [x @ np.linalg.pinv(x), abs(np.linalg.qr(x)[1])],
        normal(5, 3),
        grad2=True,
    ),
    case(
        "qr",
        lambda x: abs(ops.qr(x, some=False).R),
        lambda x: abs(np.linalg.qr(x)[1]),
        well(2, 3, 5),
        label="wide",
    ),
    case(
        "linalg.householder_product",
        lambda a, tau: linalg.householder_product(a, tau),
        lambda a, tau: reflected(a, tau)[:, :3],
        normal(5, 3, scale=0.5),
        normal(3),
    ),
    case(
        "ormqr",
        lambda a, tau, c: ops.ormqr(a, tau, c, left=False, transpose=True),
        lambda a, tau, c: c @ turned(reflected(a, tau)),
        normal(4, 4, scale=0.5),
        normal(4),
        normal(2, 4),
    ),
    case(
        "linalg.eigh",
        lambda x: [
            linalg.eigh(device_spread(x)).eigenvalues,
            abs(linalg.eigh(device_spread(x)).eigenvectors),
        ],
        lambda x: [
            np.linalg.eigh(spread(x)).eigenvalues,
            abs(np.linalg.eigh(spread(x)).eigenvectors),
        ],
        normal(2, 4, 4, scale=0.5),
    ),
    case(
        "linalg.eigvalsh",
        lambda x: linalg.eigvalsh(device_spread(x), "U"),
        lambda x: np.linalg.eigvalsh(spread(x)),
        normal(4, 4, scale=0.5),
        grad2=True,
    ),
    case(
        "linalg.svd",
        lambda x: [abs(y) for y in linalg.svd(x, full_matrices=False)],
        lambda x: [abs(y) for y in np.linalg.svd(x, full_matrices=False)],
        normal(2, 3, 5),
        k=256,
    ),
    case(
        "linalg.svdvals",
        lambda x: linalg.svdvals(x),
        lambda x: np.linalg.svd(x, compute_uv=False),
        normal(5, 3),
    ),
    case(
        "linalg.pinv",
        lambda x: linalg.pinv(x),
        np.linalg.pinv,
        well(5, 3),
        grad2=True,
    ),
    case("pinverse", ops.pinverse, np.linalg.pinv, well(2, 3, 4)),
    case(
        "linalg.pinv",
        lambda x: linalg.pinv(device_spread(x), hermitian=True, atol=0.01),
        lambda x: np.linalg.pinv(spread(x)),
        normal(4, 4, scale=0.2),
        label="symmetric",
        k=256,
    ),
    case("linalg.cond", lambda x: linalg.cond(x), np.linalg.cond, well(3, 4, 3)),
    case("linalg.cond", lambda x: linalg.cond(x, 1), lambda x: np.linalg.cond(x, 1), well(4, 4)),
    case(
        "linalg.matrix_norm",
        lambda x: [linalg.matrix_norm(x, p) for p in ("nuc", 2, -2)],
        lambda x: [np.linalg.norm(x, p, axis=(-2, -1)) for p in ("nuc", 2, -2)],
        normal(2, 4, 3),
        label="singular",
    ),
    case(
        "linalg.lstsq",
        lambda a, b: linalg.lstsq(a, b, driver="gels").solution,
        lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
        well(6, 3),
        normal(6, 2),
    ),
    case("matrix_exp", lambda x: ops.matrix_exp(x), exp_of, well(2, 3, 3), k=256),
    case("linalg.diagonal", lambda x: linalg.diagonal(x, offset=1), lambda x: np.diagonal(
        x, 1, -2, -1), normal(2, 3, 4)),
    case(
        "linalg.vander",
        lambda x: linalg.vander(x, N=4),
        lambda x: x[..., None] ** np.arange(4),
        normal(2, 3),
    ),
    case(
        "linalg.tensorinv",
        lambda x: linalg.tensorinv(x, ind=1),
        lambda x: np.linalg.inv(x.reshape(4, 4)).reshape(2, 2, 4),
        Draw((4, 2, 2), lambda rng, s: (rng.standard_normal((4, 4)) + 4 * np.eye(4)).reshape(s)),
    ),
    case(
        "linalg.tensorsolve",
        lambda x, b: linalg.tensorsolve(x, b),
        lambda x, b: np.linalg.tensorsolve(x, b),
        Draw((2, 2, 4), lambda rng, s: (rng.standard_normal((4, 4)) + 4 * np.eye(4)).reshape(s)),
        normal(2, 2),
    ),
]  # fmt: skip
OTHERWISE_TESTED = {
    "lu_unpack": "test_products_give_back_what_was_factored",
    "svd": "test_products_give_back_what_was_factored",
    "geqrf": "test_reflections_are_those_of_lapack",
    "orgqr": "test_reflections_are_those_of_lapack",
    "linalg.ldl_factor": "test_indefinite_systems",
    "linalg.ldl_factor_ex": "test_indefinite_systems",
    "linalg.ldl_solve": "test_indefinite_systems",
    "linalg.matrix_rank": "test_ranks",
    "svd_lowrank": "test_few_values_of_large_matrices",
    "pca_lowrank": "test_few_values_of_large_matrices",
    "lobpcg": "test_few_values_of_large_matrices",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def reals(device):
    return (np.float32, np.float64) if device.traits.float64 else (np.float32,)


def close(actual, expected, dtype, *, times=8.0):
    """Within some roundings of the largest element, and of the root of its terms."""
    size = max(np.abs(expected).max(initial=0), 1) * np.sqrt(max(expected.shape[-1:] or (1,)) + 1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=times * size * np.finfo(dtype).eps)


def orthonormal(q, dtype):
    close(turned(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), turned(q).shape[:-1] + q.shape[-1:]),
          dtype)  # fmt: skip


@pytest.mark.parametrize(
    "shape", [(0, 0), (1, 1), (3, 0), (2, 0, 3, 3), (33, 33), (2, 7, 3), (3, 7)]
)
def test_products_give_back_what_was_factored(shape, device):
    for dtype in reals(device):
        host = np.random.default_rng(4).standard_normal(shape).astype(dtype)
        x = clnet.tensor(host)
        for mode in ("reduced", "complete"):
            q, r = (y.numpy() for y in linalg.qr(x, mode))
            close(q @ r, host, dtype)
            orthonormal(q, dtype)
            assert np.array_equal(np.triu(r), r)
        for full in (False, True):
            u, s, vh = (y.numpy() for y in linalg.svd(x, full))
            count = s.shape[-1]
            close((u[..., :count] * s[..., None, :]) @ vh[..., :count, :], host, dtype)
            orthonormal(u, dtype)
            orthonormal(turned(vh), dtype)
            assert (np.diff(s) <= 0).all()
        close(s, np.linalg.svd(host.astype(float), compute_uv=False), dtype)
        u, s, v = (y.numpy() for y in clnet.svd(x))
        close((u * s[..., None, :]) @ turned(v), host, dtype)
        p, low, high = (y.numpy() for y in clnet.lu_unpack(*linalg.lu_factor_ex(x)[:2]))
        close(p @ low @ high, host, dtype)
        assert np.abs(low).max(initial=0) <= 1
        if shape[-1] == shape[-2]:
            even = host + turned(host)
            w, v = (y.numpy() for y in linalg.eigh(clnet.tensor(even)))
            close((v * w[..., None, :]) @ turned(v), even, dtype)
            orthonormal(v, dtype)
            close(w, np.linalg.eigvalsh(even.astype(float)), dtype)


@pytest.mark.parametrize("shape", [(70, 70), (2, 40, 90), (90, 40), (3, 33, 65), (64, 64)])
def test_triangles_of_large_matrices(shape, device):
    """They are made in panels, of which products are taken off."""
    rng = np.random.default_rng(6)
    for dtype in reals(device):
        host = rng.standard_normal(shape).astype(dtype)
        found = linalg.lu_factor_ex(clnet.tensor(host))
        assert not found.info.numpy().any()
        p, low, high = (y.numpy() for y in clnet.lu_unpack(*found[:2]))
        close(p @ low @ high, host, dtype)
        assert np.abs(low).max() <= 1
        square = host @ turned(host) + np.eye(shape[-2], dtype=dtype)
        factor = linalg.cholesky(clnet.tensor(square)).numpy()
        close(factor @ turned(factor), square, dtype)
        assert np.array_equal(np.tril(factor), factor)
        for upper in (False, True):
            for unit in (False, True):
                kept = np.triu(square) if upper else np.tril(square)
                kept = kept / (8 * np.abs(square).max()) + np.eye(shape[-2], dtype=dtype)
                kept[..., np.arange(shape[-2]), np.arange(shape[-2])] = 1 if unit else 2
                y = linalg.solve_triangular(
                    clnet.tensor(kept), clnet.tensor(host), upper=upper, unitriangular=unit
                )
                close(kept @ y.numpy(), host, dtype)


def test_systems_of_large_matrices(device):
    rng = np.random.default_rng(7)
    for dtype in reals(device):
        a = (rng.standard_normal((2, 75, 75)) + 12 * np.eye(75)).astype(dtype)
        b = rng.standard_normal((2, 75, 5)).astype(dtype)
        x, y = (clnet.tensor(v, requires_grad=True) for v in (a, b))
        wide = a.astype(float)
        solved = linalg.solve(x, y)
        close(solved.detach().numpy(), np.linalg.solve(wide, b), dtype)
        close(linalg.inv(x).detach().numpy(), np.linalg.inv(wide), dtype)
        sign, size = linalg.slogdet(x)
        assert np.array_equal(sign.detach().numpy(), np.linalg.slogdet(wide)[0])
        close(size.detach().numpy(), np.linalg.slogdet(wide)[1], dtype)
        g = rng.standard_normal(b.shape).astype(dtype)
        solved.backward(clnet.tensor(g))
        back = np.linalg.solve(turned(wide), g)
        close(y.grad.numpy(), back, dtype)
        close(x.grad.numpy(), -back @ turned(np.linalg.solve(wide, b)), dtype)
        linear = clnet.autograd.grad((linalg.inv(x) * size[:, None, None]).sum(), x)[0]
        inverse, total = np.linalg.inv(wide), np.linalg.inv(wide).sum((1, 2), keepdims=True)
        sizes = np.linalg.slogdet(wide)[1][:, None, None]
        wanted = total * turned(inverse) - sizes * (
            turned(inverse).sum(-1, keepdims=True) * turned(inverse).sum(-2, keepdims=True)
        )
        close(linear.numpy(), wanted, dtype)
    none = np.eye(80, dtype=np.float32)
    none[50, 50] = 0
    assert linalg.lu_factor_ex(clnet.tensor(none)).info.item() == 51
    none[50, 50], none[70, 70] = -1, 0
    assert linalg.cholesky_ex(clnet.tensor(none)).info.item() == 51


def test_clustered_values_and_low_ranks(device):
    rng = np.random.default_rng(5)
    for dtype in reals(device):
        low = (rng.standard_normal((33, 4)) @ rng.standard_normal((4, 33))).astype(dtype)
        u, s, vh = (y.numpy() for y in linalg.svd(clnet.tensor(low)))
        close((u * s) @ vh, low, dtype)
        orthonormal(u, dtype)
        orthonormal(vh.T, dtype)
        assert s[4] < 100 * s[0] * np.finfo(dtype).eps
        turn = np.linalg.qr(rng.standard_normal((33, 33)))[0]
        values = np.r_[np.ones(20), 1 + 1e-6 * np.arange(13)]
        near = ((turn * values) @ turn.T).astype(dtype)
        w, v = (y.numpy() for y in linalg.eigh(clnet.tensor((near + near.T) / 2)))
        close((v * w) @ v.T, (near + near.T) / 2, dtype)
        orthonormal(v, dtype)
    assert linalg.svd(clnet.zeros(3, 3)).S.tolist() == [0, 0, 0]
    orthonormal(linalg.svd(clnet.zeros(3, 3)).U.numpy(), np.float32)
    assert np.isnan(linalg.eigvalsh(clnet.full((2, 2), float("nan"))).numpy()).all()
    huge = clnet.tensor([[3e30, 0], [0, -4e30]])
    np.testing.assert_allclose(linalg.svdvals(huge).numpy(), [4e30, 3e30], rtol=1e-6)
    np.testing.assert_allclose(linalg.eigvalsh(huge).numpy(), [-4e30, 3e30], rtol=1e-6)


def test_reflections_are_those_of_lapack():
    host = np.random.default_rng(6).standard_normal((5, 3)).astype(np.float32)
    a, tau = clnet.geqrf(clnet.tensor(host))
    h, wanted = np.linalg.qr(host.astype(float), mode="raw")
    close(a.numpy(), h.T, np.float32)
    close(tau.numpy(), wanted, np.float32)
    q = clnet.orgqr(a, tau)
    close(q.numpy(), np.linalg.qr(host.astype(float)).Q, np.float32)
    whole = clnet.ormqr(a, tau, clnet.eye(5), transpose=True).numpy()
    close(whole @ host, np.r_[np.triu(a.numpy())[:3], np.zeros((2, 3))], np.float32)


def test_indefinite_systems(device):
    rng = np.random.default_rng(7)
    for dtype in reals(device):
        for n in (0, 1, 3, 9):
            host = rng.standard_normal((2, n, n)).astype(dtype)
            host = host + turned(host)
            host[..., np.arange(n), np.arange(n)] *= 0.01
            b = rng.standard_normal((2, n, 2)).astype(dtype)
            found = linalg.ldl_factor(clnet.tensor(host))
            y = linalg.ldl_solve(*found, clnet.tensor(b)).numpy()
            close(host @ y, b, dtype, times=200)
    factors, pivots, info = linalg.ldl_factor_ex(clnet.tensor([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]]))
    assert pivots.tolist() == [-3, -3, 3]
    np.testing.assert_allclose(factors.numpy(), [[0, 0, 0], [2, 0, 0], [1.5, 0.5, -3]], atol=1e-6)
    assert info.item() == 0
    assert linalg.ldl_factor_ex(clnet.zeros(2, 2)).info.item() == 1


def test_ranks():
    assert linalg.matrix_rank(clnet.ones(2, 3, 4)).tolist() == [1, 1]
    some = clnet.diag(clnet.tensor([4.0, 1e-3, 1e-9]))
    assert linalg.matrix_rank(some).item() == 2
    assert linalg.matrix_rank(some, atol=0.01).item() == 1
    assert linalg.matrix_rank(some, rtol=clnet.tensor(0.5)).item() == 1
    assert linalg.matrix_rank(-some, 1e-6, hermitian=True).item() == 2
    assert linalg.matrix_rank(clnet.zeros(0, 3)).item() == 0


def test_few_values_of_large_matrices():
    clnet.manual_seed(3)
    rng = np.random.default_rng(8)
    low = (rng.standard_normal((30, 4)) @ rng.standard_normal((4, 20))).astype(np.float32)
    u, s, v = (y.numpy() for y in clnet.svd_lowrank(clnet.tensor(low), q=5))
    close((u * s) @ v.T, low, np.float32, times=20)
    _, s, v = (y.numpy() for y in clnet.pca_lowrank(clnet.tensor(low.T), q=4))
    close(s, np.linalg.svd(low.T - low.T.mean(0), compute_uv=False)[:4], np.float32, times=20)
    assert v.shape == (30, 4)
    big = rng.standard_normal((24, 24)).astype(np.float32)
    big = big @ big.T + np.eye(24, dtype=np.float32)
    for largest, wanted in ((True, [-1, -2]), (False, [0, 1])):
        w, v = (y.numpy() for y in clnet.lobpcg(clnet.tensor(big), k=2, largest=largest))
        np.testing.assert_allclose(w, np.linalg.eigvalsh(big.astype(float))[wanted], rtol=1e-3)
        np.testing.assert_allclose(big @ v, v * w, atol=0.2)


def test_what_is_singular_or_indefinite_is_told():
    info = linalg.cholesky_ex(clnet.tensor([[1.0, 0, 0], [0, -1, 0], [0, 0, 1]])).info
    assert info.item() == 2
    assert linalg.lu_factor_ex(clnet.ones(2, 3, 3)).info.tolist() == [2, 2]
    assert linalg.inv_ex(clnet.zeros(2, 2)).info.item() == 1
    assert linalg.cond(clnet.ones(2, 2), "fro").item() == float("inf")
    for call in (
        lambda: linalg.lu_factor(clnet.zeros(2, 2)),
        lambda: linalg.cholesky_ex(-clnet.eye(2), check_errors=True),
        lambda: linalg.ldl_factor(clnet.zeros(2, 2)),
    ):
        with pytest.raises(linalg.LinAlgError):
            call()


def test_further_arguments():
    x = clnet.tensor(np.random.default_rng(9).standard_normal((2, 3)).astype(np.float32))
    u, s, v = clnet.svd(x, compute_uv=False)
    assert (u.shape, s.shape, v.shape) == ((2, 2), (2,), (3, 3))
    assert linalg.qr(x, "r").Q.shape == (0,)
    p, low, high = clnet.lu_unpack(*linalg.lu_factor(x), unpack_data=False)
    assert (p.shape, low.shape, high.shape) == ((2, 2), (0,), (0,))
    assert len(clnet.lu(x, get_infos=True)) == 3
    found = linalg.lstsq(x, clnet.ones(2), driver="gelsd")
    assert (found.rank.item(), found.singular_values.shape) == (2, (2,))
    rest = linalg.lstsq(x.T, clnet.ones(3, 1), driver="gels").residuals
    wanted = np.linalg.lstsq(x.T.numpy(), np.ones((3, 1), np.float32), rcond=None)[1]
    np.testing.assert_allclose(rest.numpy(), wanted, rtol=1e-4)
    with clnet.no_grad():
        assert not clnet.compile(lambda y: linalg.svdvals(y))(x).requires_grad
    same = clnet.compile(lambda y: linalg.eigh(y @ y.mT).eigenvalues)(x)
    close(same.numpy(), linalg.svdvals(x).numpy()[::-1] ** 2, np.float32)


def test_columns_that_are_arbitrary_have_no_gradient():
    x = clnet.ones(3, 2).requires_grad_()
    with pytest.raises(GradientError, match="columns beyond those of x"):
        linalg.qr(x, "complete").Q.sum().backward()


X = clnet.zeros(2, 4)
E = clnet.eye(2)
TALL = clnet.ones(1, 1).expand(2**26, 33)
TALL_COMPLEX = clnet.ones(1, 1, dtype=clnet.complex64).expand(2**26, 33)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: linalg.solve_triangular(X, X, upper=True), ShapeError, "matrices are square"),
        (lambda: linalg.solve_triangular(E, X.T, upper=True), ShapeError, "b has the rows of x"),
        (lambda: linalg.solve_triangular(E, X[0], upper=True), ShapeError, "a batch of them"),
        (lambda: ops.cholesky_solve(X.T, E), ShapeError, "b has the rows of x"),
        (lambda: linalg.lu(X, pivot=False), ArgumentError, "elimination exchanges rows"),
        (lambda: ops.lu_unpack(X, clnet.ones(3).int()), ShapeError, "pivots are those of x"),
        (lambda: linalg.lu_solve(E, clnet.ones(2).int(), X.T), ShapeError, "b has the rows of x"),
        (lambda: ops.cholesky(clnet.tensor([[1]])), DtypeError, "operands are floating"),
        (lambda: linalg.qr(X, "half"), ArgumentError, "mode is"),
        (lambda: linalg.eigh(E, "M"), ArgumentError, "UPLO is"),
        (lambda: linalg.eigh(clnet.tensor([[1]])), DtypeError, "operands are floating"),
        (lambda: ops.orgqr(X, clnet.ones(2)), ShapeError, "no more columns than rows"),
        (lambda: ops.orgqr(E, clnet.ones(3)), ShapeError, "tau has the batch of x"),
        (lambda: ops.ormqr(E, clnet.ones(2), X.T), ShapeError, "the batch and the rows of x"),
        (lambda: linalg.ldl_solve(E, clnet.ones(1).int(), E), ShapeError, "b has the rows of x"),
        (lambda: linalg.cond(E, 3), ArgumentError, "ord is"),
        (lambda: linalg.lstsq(X, E, driver="gel"), ArgumentError, "driver is one of"),
        (lambda: linalg.lstsq(X, X.T), ShapeError, "b has the rows and axes of x"),
        (lambda: linalg.lstsq(clnet.ones(2, 4, 3), clnet.ones(4, 2)), ShapeError, "axes of x"),
        (lambda: linalg.lstsq(clnet.ones(2, 4, 3), clnet.ones(3, 4, 2)), ShapeError, "batches are"),
        (lambda: linalg.vander(X, N=1), ArgumentError, "N is 2 or more"),
        (lambda: linalg.vander(X.sum()), ArgumentError, "N is 2 or more"),
        (lambda: linalg.tensorinv(X, ind=0), ArgumentError, "ind is 1 or more"),
        (lambda: linalg.tensorinv(X), ShapeError, "both groups of axes"),
        (lambda: linalg.tensorsolve(X, X), ShapeError, "x is square by the axes of b"),
        (lambda: ops.svd_lowrank(X, q=3), ArgumentError, "q lies in"),
        (lambda: ops.svd_lowrank(X, q=1, niter=-1), ArgumentError, "niter is 0 or more"),
        (lambda: ops.lobpcg(E), ShapeError, "three times as many rows"),
        (lambda: linalg.qr(TALL), ShapeError, "fewer than 2\\^31"),
        (lambda: ops.geqrf(TALL_COMPLEX), ShapeError, "fewer than 2\\^31"),
        (lambda: ops.orgqr(TALL, clnet.ones(33)), ShapeError, "fewer than 2\\^31"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
