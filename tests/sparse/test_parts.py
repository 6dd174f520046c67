"""Places of sparse tensors, and several one after another, beside dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, BoundsError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device

PLACES = [[0, 0, 2, 0], [1, 2, 0, 1]]


def made(library, dense=(), dtype="float32", wanted=False):
    """Three rows of four, one place twice; with further dense axes."""
    values = np.arange(1, 1 + 4 * int(np.prod(dense))).reshape(4, *dense)
    values = library.tensor(values.tolist(), dtype=getattr(library, dtype))
    if wanted:
        values.requires_grad_()
    return values, library.sparse_coo_tensor(library.tensor(PLACES), values, (3, 4, *dense))


KEYS = [0, -1, 1, (0, 1), (slice(None), 2), (2, 0), None, (None, 1), (slice(None), None, 1), (1, 3)]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("dense", [(), (2,)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places_are_those_of_the_dense_tensor(key, dense, dtype):
    _, x = made(clnet, dense, dtype)
    found, want = x[key], x.to_dense()[key]
    assert found.dtype is want.dtype
    assert found.shape == want.shape
    assert found.to_dense().tolist() == want.tolist()


@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("dense", [(), (2,)], ids=str)
def test_layouts_are_pytorchs(dense):
    _, ours = made(clnet, dense)
    _, theirs = made(torch, dense)

    def told(x):
        layout = str(x.layout).rpartition(".")[2]
        return layout, tuple(x.shape), x.to_dense().tolist()

    for key in (0, (0, 1), (slice(None), 0), None, 1):
        assert told(ours[key]) == told(theirs[key])
    for name, given in (("unbind", (1,)), ("unbind", ())):
        mine, peer = getattr(ours, name)(*given), getattr(theirs, name)(*given)
        assert [told(x) for x in mine] == [told(x) for x in peer]
    for dim in range(-3 - len(dense), 3 + len(dense)):
        mine, peer = ours.unsqueeze(dim), theirs.unsqueeze(dim)
        assert (told(mine), mine.sparse_dim()) == (told(peer), peer.sparse_dim())
    for dim in range(-2 - len(dense), 2 + len(dense)):
        mine, peer = clnet.cat([ours, ours, ours], dim), torch.cat([theirs, theirs, theirs], dim)
        assert (told(mine), mine.sparse_dim()) == (told(peer), peer.sparse_dim())
        assert not mine.is_coalesced()
        mine, peer = clnet.stack([ours, ours], dim), torch.stack([theirs, theirs], dim)
        assert (told(mine), mine.sparse_dim()) == (told(peer), peer.sparse_dim())


def test_rows_one_after_another():
    _, x = made(clnet)
    assert [row.to_dense().tolist() for row in x] == x.to_dense().tolist()
    assert clnet.vstack([x, x]).to_dense().tolist() == x.to_dense().tolist() * 2
    assert [row.tolist() for row in x[0]] == [0, 5, 2, 0]
    rows = x.coalesce().to_sparse_csr()
    assert rows[0].to_dense().tolist() == [0, 5, 2, 0]
    assert x[clnet.tensor(2)].to_dense().tolist() == [3, 0, 0, 0]


def test_gradients_go_to_the_values():
    values, x = made(clnet, wanted=True)
    (x[0].to_dense() * clnet.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert values.grad.tolist() == [2, 3, 0, 2]
    values, x = made(clnet, wanted=True)
    joined = clnet.cat([x, x], 1).to_dense()
    (joined * clnet.arange(24.0).reshape(3, 8)).sum().backward()
    assert values.grad.tolist() == [1 + 5, 2 + 6, 16 + 20, 1 + 5]


def test_what_no_place_is_is_refused():
    _, x = made(clnet)
    for key in (slice(0, 2), [0, 1], clnet.tensor([0]), True, ..., 1.0, "a"):
        with pytest.raises(ArgumentError, match="whole numbers"):
            x[key]
    for key in (3, -4, (0, 4)):
        with pytest.raises(BoundsError, match="inside the axis"):
            x[key]
    with pytest.raises(ArgumentError, match="sparse tensors of coordinates"):
        clnet.cat([x, x.to_dense()])
    with pytest.raises(ArgumentError, match="sparse tensors of coordinates"):
        clnet.cat([x.coalesce().to_sparse_csr()] * 2)
    with pytest.raises(ShapeError, match="agree but for one axis"):
        clnet.cat([x, x.t()])
