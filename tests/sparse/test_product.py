"""Products, sums and softmax of sparse tensors, against dense ones and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import sparse
from clnet.autograd import gradcheck
from clnet.errors import ArgumentError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device

RNG = np.random.default_rng(3)
ROWS, COLUMNS, COUNT = 37, 23, 150
PLACES = np.stack([RNG.integers(0, ROWS, COUNT), RNG.integers(0, COLUMNS, COUNT)])
VALUES = RNG.standard_normal(COUNT)
DENSE = np.zeros((ROWS, COLUMNS))
np.add.at(DENSE, tuple(PLACES), VALUES)
RIGHT = RNG.standard_normal((COLUMNS, 5))


def close(found, expected, atol=1e-12):
    host = found.to_dense().detach().numpy()
    np.testing.assert_allclose(host, expected, rtol=0, atol=atol)


def matrix(layout="coo", **given):
    x = clnet.sparse_coo_tensor(PLACES, VALUES, (ROWS, COLUMNS), dtype=clnet.float64, **given)
    return getattr(x, f"to_sparse_{layout}")()


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_products_with_dense_matrices(layout):
    x, right = matrix(layout), clnet.tensor(RIGHT)
    for product in (sparse.mm, clnet.mm, clnet.matmul, clnet.spmm):
        close(product(x, right), DENSE @ RIGHT)
    close(x @ right[:, 0], DENSE @ RIGHT[:, 0])
    close(x.mv(right[:, 0]), DENSE @ RIGHT[:, 0])
    close(right.T @ x.t(), RIGHT.T @ DENSE.T)
    bias = clnet.ones(5, dtype=clnet.float64)
    close(sparse.addmm(bias, x, right, beta=2, alpha=0.5), 2 + 0.5 * DENSE @ RIGHT)
    close(sparse.addmm(bias * float("nan"), x, right, beta=0), DENSE @ RIGHT)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_products_of_sparse_matrices(layout):
    found = matrix(layout) @ matrix("coo").t()
    assert found.layout is matrix(layout).layout
    close(found, DENSE @ DENSE.T)


def test_gradients_of_products():
    places = clnet.tensor(PLACES[:, :9] % 4)

    def product(values, right):
        x = clnet.sparse_coo_tensor(places, values, (4, 4))
        return sparse.mm(x, right), sparse.softmax(x, 1).values()

    values = clnet.tensor(VALUES[:9], requires_grad=True)
    right = clnet.tensor(RIGHT[:4, :2], requires_grad=True)
    assert gradcheck(product, (values, right))


def test_a_convolution_on_a_graph_learns_what_the_dense_one_learns():
    edges = clnet.tensor(PLACES[:, :40] % 11)
    x, weight = clnet.randn(11, 6), clnet.randn(6, 3)
    gradients = []
    for dense in (False, True):
        w = weight.clone().requires_grad_()
        graph = clnet.sparse_coo_tensor(edges, clnet.ones(40), (11, 11))
        graph = graph.to_dense() if dense else graph
        ((graph @ (x @ w)).relu() @ w.T).square().mean().backward()
        gradients.append(w.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=2e-5, atol=2e-5)


def test_products_in_compiled_functions():
    x, right = matrix("csr"), clnet.tensor(RIGHT)
    step = clnet.compile(lambda dense: sparse.mm(x, dense).tanh())
    assert clnet.equal(step(right), sparse.mm(x, right).tanh())


def test_the_same_bits_every_time():
    x, right = matrix().float(), clnet.tensor(RIGHT).float()
    first = (x @ right).numpy()
    assert all((first == (x @ right).numpy()).all() for _ in range(3))


def test_sums_and_differences():
    x, y = matrix(), matrix("csr") * 2
    close(x + x, 2 * DENSE)
    close(y - x, DENSE)
    assert (y - x).layout is clnet.sparse_csr
    close(x + clnet.tensor(DENSE), 2 * DENSE)
    close(clnet.add(x, y, alpha=3), 7 * DENSE)
    close(clnet.sub(y, x, alpha=3), -DENSE)
    close(1 - x.to_dense(), 1 - DENSE)
    close(clnet.tensor(DENSE) - x, 0 * DENSE)
    close(sparse.sum(x, 0), DENSE.sum(0))
    close(x.sum(dim=-1), DENSE.sum(1))
    close(sparse.sum(x, (0, 1), dtype=clnet.float32), DENSE.sum(), atol=1e-4)
    with pytest.raises(ShapeError, match="add: sparse tensors have one shape"):
        x + matrix().t()


def test_elementwise():
    x = matrix()
    close(x * 3, DENSE * 3)
    close(2 * x / 4, DENSE / 2)
    close(-x, -DENSE)
    close(abs(x), np.abs(DENSE))
    close(x.relu().sqrt(), np.sqrt(np.maximum(DENSE, 0)))
    close(x * clnet.arange(float(COLUMNS)), DENSE * np.arange(COLUMNS), atol=1e-5)
    kept = clnet.tensor(DENSE * (DENSE > 0)).to_sparse()
    close(x * kept, DENSE * DENSE * (DENSE > 0))
    close(clnet.mul(x, kept), DENSE * DENSE * (DENSE > 0))
    with pytest.raises(ArgumentError, match="divided by a number"):
        x / x
    with pytest.raises(ArgumentError, match="div: it takes dense tensors"):
        clnet.div(x, clnet.tensor(2.0), rounding_mode="floor")


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_what_has_indices(dim):
    theirs = torch.sparse_coo_tensor(PLACES, VALUES, (ROWS, COLUMNS), check_invariants=True)
    close(sparse.softmax(matrix(), dim), torch.sparse.softmax(theirs, dim).to_dense().numpy())
    expected = torch.sparse.log_softmax(theirs, dim).to_dense().numpy()
    close(sparse.log_softmax(matrix(), dim), expected)
    hybrid = clnet.ones(2, 3, 2).to_sparse(2)
    close(sparse.softmax(hybrid, 2), np.full((2, 3, 2), 0.5))


def test_samples_of_a_product():
    left = RNG.standard_normal((ROWS, 4))
    right = RNG.standard_normal((4, COLUMNS))
    x = matrix("csr")
    found = sparse.sampled_addmm(x, clnet.tensor(left), clnet.tensor(right), beta=0.5, alpha=2)
    close(found, (0.5 * DENSE + 2 * left @ right) * (DENSE != 0))
    with pytest.raises(ShapeError, match="input has the product's shape"):
        sparse.sampled_addmm(x, clnet.tensor(left), clnet.tensor(right.T))


def test_diagonals():
    diagonals, offsets = clnet.arange(9.0).reshape(3, 3), clnet.tensor([0, -1, 2])
    expected = torch.sparse.spdiags(
        torch.arange(9.0).reshape(3, 3), torch.tensor([0, -1, 2]), (4, 4)
    )
    close(sparse.spdiags(diagonals, offsets, (4, 4)), expected.to_dense().numpy())
    with pytest.raises(ArgumentError, match="named once"):
        sparse.spdiags(diagonals, clnet.tensor([0, 0, 1]), (4, 4))


def test_shapes_of_products_are_compared():
    with pytest.raises(ShapeError, match=r"sparse.mm: .* inner sizes agree"):
        matrix() @ clnet.ones(2, 2, dtype=clnet.float64)
    rows = clnet.sparse_coo_tensor([[0, 2]], clnet.ones(2, 4), (3, 4))
    with pytest.raises(ShapeError, match=r"sparse.mm: .* in both axes; got sparse_dim=1"):
        rows @ clnet.ones(4, 2)


class Product(clnet.autograd.Function):
    """A sparse matrix times a dense one, as graph networks write it."""

    @staticmethod
    def forward(ctx, indices, values, size, b):
        a = clnet.sparse_coo_tensor(indices, values, size)
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        rows, columns = a.indices() if a.is_coalesced() else a._indices()
        grads = (grad @ b.t())[rows, columns]
        return None, grads, None, a.t() @ grad


def test_functions_by_users_save_sparse_tensors():
    places = clnet.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])
    values = clnet.tensor([1.0, 2, 3, 4], dtype=clnet.float64, requires_grad=True)
    b = clnet.tensor(RIGHT[:3], requires_grad=True)
    found = Product.apply(places, values, (3, 3), b)
    (found * found).sum().backward()
    grads, values.grad, grad_b, b.grad = values.grad, None, b.grad, None
    plain = clnet.sparse_coo_tensor(places, values, (3, 3)).to_dense() @ b
    (plain * plain).sum().backward()
    close(grads, values.grad.numpy())
    close(grad_b, b.grad.numpy())
