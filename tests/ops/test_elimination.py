"""Systems, inverses, powers and determinants against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import linalg, ops
from clnet.errors import ShapeError
from tests.opcase import Draw, OpCase, every_check, normal

pytestmark = pytest.mark.device


def well(*shape):
    """Matrices far from singular."""
    return Draw(shape, lambda rng, s: rng.standard_normal(s) + 3 * np.eye(s[-1])[:, ::-1])


def case(name, fn, ref, *inputs, label="", **options):
    options = {"k": 16, **options}
    return OpCase(fn, ref, inputs, layouts=(), shapes=(), name=name, label=label, **options)


def gram(x):
    return x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1])


def device_gram(x):
    return x @ x.transpose(-2, -1) + clnet.eye(x.shape[-1])


SQUARE, BATCH = well(5, 5), well(2, 3, 3)

CASES = [
    case(
        "matrix_power",
        lambda x: ops.matrix_power(x, 5),
        lambda x: np.linalg.matrix_power(x, 5),
        normal(4, 4),
        ulps=64,
    ),
    case(
        "matrix_power",
        lambda x: linalg.matrix_power(x, -1),
        np.linalg.inv,
        BATCH,
        label="inverse",
        ulps=64,
    ),
    case("det", ops.det, np.linalg.det, BATCH, ulps=64, grad2=True),
    case(
        "slogdet",
        lambda x: ops.slogdet(x).logabsdet,
        lambda x: np.linalg.slogdet(x)[1],
        BATCH,
        ulps=64,
    ),
    case(
        "logdet",
        lambda x: ops.logdet(device_gram(x)),
        lambda x: np.linalg.slogdet(gram(x))[1],
        SQUARE,
        ulps=64,
    ),
    case("inverse", ops.inverse, np.linalg.inv, BATCH, ulps=64, grad2=True),
    case("linalg.inv", lambda x: linalg.inv(x), np.linalg.inv, SQUARE, ulps=64),
    case(
        "linalg.solve",
        lambda x, b: linalg.solve(x, b),
        np.linalg.solve,
        SQUARE,
        normal(5, 2),
        ulps=64,
    ),
    case(
        "linalg.solve",
        lambda x, b: linalg.solve(x, b, left=False),
        lambda x, b: b @ np.linalg.inv(x),
        SQUARE,
        normal(2, 5),
        label="right",
        ulps=64,
    ),
    case(
        "linalg.solve",
        lambda x, b: linalg.solve(x, b),
        np.linalg.solve,
        BATCH,
        normal(3, 1, BATCH.shape[-1], 2),
        label="broadcast",
        ulps=64,
        grad2=True,
    ),
    case(
        "linalg.solve",
        lambda x, b: linalg.solve(x, b),
        lambda x, b: np.linalg.solve(x, b),
        BATCH,
        normal(BATCH.shape[-1]),
        label="one vector",
        ulps=64,
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_signs_and_singular_matrices():
    swapped = clnet.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert ops.det(swapped).item() == -6
    assert ops.slogdet(swapped).sign.item() == -1
    assert np.isnan(ops.logdet(swapped).item())
    assert ops.det(clnet.ones(2, 2)).item() == 0
    with pytest.raises(linalg.LinAlgError, match=r"inverse: .*pivot=0\.0, position=1"):
        ops.inverse(clnet.ones(2, 2))
    assert ops.det(clnet.zeros(3, 0, 0)).tolist() == [1, 1, 1]
    assert ops.matrix_power(swapped, 0).tolist() == [[1, 0], [0, 1]]
    assert linalg.solve(swapped, clnet.tensor([2.0, 3.0])).tolist() == [1, 1]


@pytest.mark.parametrize("op", [lambda x: ops.matrix_power(x, 0), lambda x: ops.slogdet(x).sign])
def test_what_stays_the_same_has_gradients_of_0(op):
    x = clnet.randn(2, 3, 3).requires_grad_()
    op(x).sum().backward()
    assert not x.grad.any()


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.float64, clnet.complex64])
def test_the_gradient_of_a_determinant_of_0_is_of_cofactors(dtype):
    rows = [[[1, 2, 3], [4, 5, 6], [5, 7, 9]], [[0, 1, 0], [0, 0, 0], [0, 0, 1]], [[0] * 3] * 3]
    x = clnet.tensor(rows, dtype=dtype, requires_grad=True)
    ops.det(x).real.sum().backward()
    wanted = np.zeros((3, 3, 3))
    wanted[0] = [[3, -6, 3], [3, -6, 3], [-3, 6, -3]]
    wanted[1, 1, 0] = -1
    np.testing.assert_allclose(x.grad.numpy(), wanted, atol=1e-4)


def test_a_matrix_that_fails_is_made_better():
    """As Gaussian processes do: something is added to the diagonal until it goes."""
    gram, tried = clnet.ones(3, 3), []
    for jitter in (0.0, -2.0, 1e-3):
        try:
            root = linalg.cholesky(gram + jitter * clnet.eye(3))
        except RuntimeError as error:  # noqa: PERF203 - as programs do
            tried.append(type(error))
        else:
            tried.append((root @ root.mT).diagonal().tolist())
    assert tried == [linalg.LinAlgError, linalg.LinAlgError, pytest.approx([1.001] * 3)]


def test_solve_takes_as_many_vectors_as_matrices():
    x = np.random.default_rng(3).standard_normal((4, 3, 3)).astype(np.float32)
    b = np.random.default_rng(4).standard_normal((4, 3)).astype(np.float32)
    found = linalg.solve(clnet.tensor(x), clnet.tensor(b))
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(x, b[..., None])[..., 0], rtol=1e-3)
    with pytest.raises(ShapeError, match="with left=False b is of matrices"):
        linalg.solve(clnet.tensor(x), clnet.tensor(b), left=False)
    with pytest.raises(ShapeError, match="b has the rows of x"):  # not as vectors, once turned
        linalg.solve(clnet.eye(4).expand(2, 4, 4), clnet.ones(4, 2), left=False)


X = clnet.zeros(2, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.det(X), ShapeError, "matrices are square"),
        (lambda: ops.inverse(X[0]), ShapeError, "x is a matrix or a batch of them"),
        (lambda: linalg.solve(clnet.eye(2), X[:1]), ShapeError, "b has the rows of x"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
