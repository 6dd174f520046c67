"""Sparse tensors: how they are made, what they say, and how they become each other."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, GradientError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device

PLACES, VALUES = [[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0]
DENSE = [[0.0, 0.0, 4.0], [4.0, 0.0, 5.0]]


def example(**given) -> clnet.sparse.SparseTensor:
    return clnet.sparse_coo_tensor(PLACES, VALUES, (2, 3), **given)


def test_what_a_sparse_tensor_says():
    x = example()
    assert isinstance(x, clnet.Tensor)
    assert (x.shape, x.ndim, x.dim(), x.numel(), x.size(1)) == ((2, 3), 2, 2, 6, 3)
    assert (x.dtype, x.device, x.layout) == (clnet.float32, clnet.ones(1).device, clnet.sparse_coo)
    assert x.is_sparse
    assert not x.is_sparse_csr
    assert (x.sparse_dim(), x.dense_dim(), x._nnz(), x.is_coalesced()) == (2, 0, 4, False)
    assert x.to_dense().tolist() == DENSE
    assert len(x) == 2
    assert (clnet.ones(2).sparse_dim(), clnet.ones(2, 3).dense_dim()) == (0, 2)
    assert clnet.ones(2).to_dense(clnet.int64).dtype is clnet.int64


def test_equal_places_are_added_up():
    x = example().coalesce()
    assert x.is_coalesced()
    assert x.coalesce() is x
    assert x.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert x.values().tolist() == [4, 4, 5]
    with pytest.raises(ArgumentError, match=r"values: the tensor is coalesced. Use x.coalesce"):
        example().values()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_dense_tensors_become_sparse_and_back(axes):
    dense = clnet.tensor(np.arange(12.0).reshape(2, 2, 3) * [[[1, 0, 0]], [[0, 1, 1]]])
    x = dense.to_sparse(axes)
    assert (x.sparse_dim(), x.dense_dim(), x.shape) == (axes, 3 - axes, (2, 2, 3))
    assert clnet.equal(x.to_dense(), dense)
    assert dense.to_sparse(dense_dim=3 - axes)._nnz() == x._nnz()
    assert clnet.equal(x.sum(0).to_dense(), dense.sum(0))
    assert x.sum().item() == dense.sum().item()


def test_compressed_layouts():
    rows = clnet.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [4.0, 4.0, 5.0], (2, 3))
    columns = clnet.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 4.0, 5.0])
    for x in (rows, columns, example().to_sparse_csr(), clnet.tensor(DENSE).to_sparse_csc()):
        assert x.to_dense().tolist() == DENSE
        assert x.to_sparse_csr().crow_indices().tolist() == [0, 1, 3]
        assert x.to_sparse_csr().col_indices().tolist() == [2, 0, 2]
        assert x.to_sparse(layout=clnet.sparse_csc).ccol_indices().tolist() == [0, 1, 1, 3]
        assert x.to_sparse_csc().row_indices().tolist() == [1, 0, 1]
        assert x.to_sparse_coo().coalesce().values().tolist() == [4, 4, 5]
    assert rows.t().layout is clnet.sparse_csc
    assert rows.t().to_dense().tolist() == clnet.tensor(DENSE).T.tolist()
    with pytest.raises(ArgumentError, match="crow_indices: the tensor's layout is"):
        columns.crow_indices()


def test_empty_ones():
    x = clnet.sparse_coo_tensor((2, 3))
    assert x.to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert x.coalesce().to_sparse_csr().crow_indices().tolist() == [0, 0, 0]
    assert clnet.zeros(2, 3).to_sparse()._nnz() == 0
    assert clnet.sparse.mm(x, clnet.ones(3, 2)).tolist() == [[0, 0], [0, 0]]


def test_gradients_flow_to_values():
    values = clnet.tensor(VALUES, requires_grad=True)
    x = clnet.sparse_coo_tensor(PLACES, values, (2, 3))
    weight = clnet.arange(6.0).reshape(2, 3)
    (x.to_dense() * weight).sum().backward()
    assert values.grad.tolist() == [2, 3, 5, 2]
    leaf = example(requires_grad=True)
    assert leaf.is_leaf
    (leaf.coalesce().values() * clnet.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert leaf.grad.to_dense().tolist() == [[0, 0, 2], [2, 0, 3]]
    dense = clnet.tensor(DENSE, requires_grad=True)
    dense.to_sparse().values().square().sum().backward()
    assert dense.grad.tolist() == [[0, 0, 8], [8, 0, 10]]
    with pytest.raises(GradientError, match="the gradient of a sparse tensor is sparse"):
        leaf.grad = clnet.ones(2, 3)


def test_copies_keep_the_layout():
    x = example().to_sparse_csr()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone(), x.double(), x.cpu()):
        assert y.layout is clnet.sparse_csr
        assert y.to_dense().tolist() == DENSE
        assert y.crow_indices().tolist() == [0, 1, 3]
    assert x.double().dtype is clnet.float64
    assert x.to("cpu").device.type == "cpu"


def test_masks_and_chosen_slices():
    dense = clnet.arange(6.0).reshape(2, 3)
    assert dense.sparse_mask(example().coalesce()).to_dense().tolist() == [[0, 0, 2], [3, 0, 5]]
    chosen = example().index_select(1, clnet.tensor([2, 1]))
    assert chosen.to_dense().tolist() == [[4, 0], [5, 0]]
    with pytest.raises(ArgumentError, match="each slice is named once"):
        example().index_select(1, clnet.tensor([2, 2]))
    with pytest.raises(ShapeError, match="sparse_mask: both have one shape"):
        clnet.ones(2).sparse_mask(example())


@pytest.mark.filterwarnings("ignore:Sparse")
def test_text_is_pytorchs():
    theirs = torch.sparse_coo_tensor(PLACES, VALUES, (2, 3), check_invariants=True)
    assert repr(example()) == repr(theirs)
    assert repr(example().coalesce()) == repr(theirs.coalesce())
    rows = repr(theirs.to_sparse_csr())
    assert repr(example().to_sparse_csr()) == rows


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match=r"indices are \(axes, n\), and values"):
        clnet.sparse_coo_tensor([[0, 1]], [1.0])
    with pytest.raises(ShapeError, match="size is that of the sparse axes"):
        clnet.sparse_coo_tensor(PLACES, VALUES, (2,))
    with pytest.raises(ArgumentError, match="indices lie in the shape"):
        clnet.sparse_coo_tensor(PLACES, VALUES, (2, 2), check_invariants=True)
    with pytest.raises(ArgumentError, match="pointers ascend"):
        clnet.sparse_csr_tensor([0, 2, 1], [0], [1.0], (2, 1), check_invariants=True)
    with pytest.raises(ShapeError, match="a pointer for each line"):
        clnet.sparse_csr_tensor([0, 1], [0], [1.0], (2, 1))
    with pytest.raises(ArgumentError, match="the layout is"):
        clnet.sparse_compressed_tensor([0, 1], [0], [1.0])
    with pytest.raises(ArgumentError, match=r"cos: it takes dense tensors.*to_dense"):
        clnet.cos(example())
    with pytest.raises(ArgumentError, match=r"indices: the tensor is sparse.*to_sparse"):
        clnet.ones(2).indices()
    with pytest.raises(ArgumentError, match="sparse_dim lies in"):
        clnet.ones(2).to_sparse(2)


def test_an_index_outside_is_found():
    x = clnet.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (2,))
    with pytest.raises(IndexError, match="index_add"):
        x.to_dense().tolist()


def test_optimisers_of_others_read_what_is_not_coalesced():
    """By PyTorch's names without a check: a gradient of an embedding's rows."""
    layer = clnet.nn.Embedding(4, 2, sparse=True)
    layer(clnet.tensor([1, 2, 1])).sum().backward()
    grad = layer.weight.grad
    assert grad._indices().tolist() == [[1, 2, 1]]
    assert grad._values().tolist() == [[1, 1]] * 3
    assert grad.data.to_dense().tolist() == grad.to_dense().tolist()
