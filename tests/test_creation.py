"""Ranges, the identity, tensors from the host, and copies of tensors and modules."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DtypeError, GradientError, ShapeError
from clnet.values import dtypes
from tests.answers import torch

pytestmark = pytest.mark.device


@pytest.mark.parametrize(
    "args",
    [
        (5,),
        (0,),
        (2, 7),
        (7, 2, -2),
        (0, 1, 0.1),
        (1, 2.5, 0.5),
        (2.5,),
        (3, -1, -0.75),
        (-4, 4, 3),
    ],
)
def test_arange_is_pytorchs(args):
    expected = torch.arange(*args).numpy()
    x = clnet.arange(*args)
    np.testing.assert_allclose(x.numpy(), expected, rtol=2e-7)
    assert (x.shape, x.numpy().dtype) == (expected.shape, expected.dtype)


def test_a_step_beyond_the_dtype_leaves_the_first_number():
    assert clnet.arange(7, 9, 1e300).tolist() == [7.0]


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "bfloat16", "float32"])
def test_arange_in_other_dtypes(dtype):
    x = clnet.arange(3, 9, 2, dtype=getattr(clnet, dtype))
    assert x.dtype.name == dtype
    assert x.tolist() == [3, 5, 7]


@pytest.mark.parametrize(
    "args", [(0, 1, 11), (-3, 3, 8), (5, 5, 3), (2, 7, 1), (2, 7, 0), (1, 0, 2)]
)
def test_linspace_is_pytorchs(args):
    x = clnet.linspace(*args)
    np.testing.assert_allclose(x.numpy(), torch.linspace(*args).numpy(), rtol=2e-7, atol=1e-7)


def test_linspace_ends_exactly():
    x = clnet.linspace(0.1, 0.7, 1001).numpy()
    assert (x[0], x[-1]) == (np.float32(0.1), np.float32(0.7))
    assert (np.diff(x) > 0).all()


def test_logspace_is_pytorchs():
    x = clnet.logspace(-2, 3, 6)
    np.testing.assert_allclose(x.numpy(), torch.logspace(-2, 3, 6).numpy(), rtol=3e-6)
    x = clnet.logspace(0, 4, 5, base=2, requires_grad=True)
    np.testing.assert_allclose(x.detach().numpy(), [1, 2, 4, 8, 16], rtol=1e-6)
    assert x.is_leaf


@pytest.mark.parametrize("shape", [(3,), (3, 5), (5, 3), (0,), (1, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_eye_is_numpys(shape, dtype):
    x = clnet.eye(*shape, dtype=getattr(clnet, dtype))
    np.testing.assert_array_equal(x.numpy().astype(np.float32), np.eye(*shape, dtype=np.float32))
    assert x.dtype.name == dtype


def test_made_tensors_may_require_a_gradient():
    assert clnet.arange(3.0, requires_grad=True).requires_grad
    assert clnet.linspace(0, 1, 3, requires_grad=True).is_leaf
    assert clnet.eye(2, requires_grad=True).requires_grad


def test_default_dtype_may_be_asked_for_by_none():
    for make in (clnet.zeros, clnet.ones, clnet.empty):
        assert make(2, dtype=None).dtype is clnet.float32


def test_sizes_may_be_given_by_name():
    for make in (clnet.zeros, clnet.ones, clnet.empty, clnet.rand, clnet.randn):
        assert make(size=(2, 0)).shape == (2, 0)


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_the_dtype_are_infinite_without_a_warning_of_numpys():
    assert clnet.tensor([1e40, -1e40]).tolist() == [np.inf, -np.inf]
    assert clnet.tensor(np.array([7e4]), dtype=clnet.float16).item() == np.inf
    x = clnet.ones(2)
    x[0] = 1e40
    assert x.tolist() == [np.inf, 1]


def test_as_tensor_copies_only_what_it_must():
    x = clnet.ones(3)
    assert clnet.as_tensor(x) is x
    assert clnet.as_tensor(x, dtype=clnet.int32).dtype is clnet.int32
    assert clnet.as_tensor([1, 2]).tolist() == [1, 2]
    host = np.arange(3, dtype=np.int16)
    y = clnet.from_numpy(host)
    host[:] = 9
    assert (y.dtype, y.tolist()) == (clnet.int16, [0, 1, 2])


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda: clnet.arange(0, 5, 0), ArgumentError, "the step leads from start to end"),
        (lambda: clnet.arange(0, 5, -1), ArgumentError, "start=0, end=5, step=-1"),
        (lambda: clnet.linspace(0, 1, -1), ArgumentError, "steps is 0 or more"),
        (lambda: clnet.eye(2, -1), ShapeError, "eye: sizes are 0 or more; got n=2, m=-1"),
        (lambda: clnet.from_numpy([1]), ArgumentError, "takes a NumPy array"),
    ],
)
def test_what_cannot_be_made_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call()


# Copies.


def model() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    net.eval()
    return net


def test_deep_copies_of_tensors_share_nothing():
    x = clnet.ones(2, 3).requires_grad_()
    x.sum().backward()
    y = copy.deepcopy(x)
    assert (y.requires_grad, y.is_leaf, y.dtype) == (True, True, x.dtype)
    with clnet.no_grad():
        x.fill_(7)
        x.grad.fill_(5)
    assert y.tolist() == [[1, 1, 1]] * 2
    assert y.grad.tolist() == [[1, 1, 1]] * 2


def test_deep_copies_keep_what_is_one_object():
    x = clnet.ones(2)
    a, b = copy.deepcopy([x, x])
    assert a is b


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copied_modules_work_alone(again):
    net = model()
    x = clnet.randn(5, 3)
    before = net(x).detach().numpy()
    other = again(net)
    assert not other.training
    assert [type(p) for p in other.parameters()] == [nn.Parameter] * 6
    with clnet.no_grad():
        for p in net.parameters():
            p.zero_()
    np.testing.assert_array_equal(other(x).detach().numpy(), before)
    assert other.state_dict().keys() == net.state_dict().keys()


def test_shared_weights_stay_shared_in_a_copy():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    other = copy.deepcopy(net)
    assert other[0].weight is other[1].weight
    assert other[0].weight is not net[0].weight


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d is not clnet.float64], ids=repr)
def test_pickles_keep_elements_and_dtype(dtype):
    x = clnet.tensor(np.array([[0, 1, 1], [1, 0, 3]]).T, dtype=dtype)
    y = pickle.loads(pickle.dumps(x.T))
    assert (y.dtype, y.shape, y.is_contiguous()) == (dtype, (2, 3), True)
    np.testing.assert_array_equal(y.numpy(), x.T.numpy())


def test_a_shallow_copy_is_a_leaf_in_the_same_memory():
    x = clnet.nn.Parameter(clnet.ones(2))
    x.grad, x.note = clnet.ones(2), "kept"
    y = copy.copy(x)
    assert (type(y), y.requires_grad, y.grad, y.note) == (type(x), True, None, "kept")
    with clnet.no_grad():
        y[0] = 5
    assert x.tolist() == [5.0, 1.0]
    z = copy.copy(x * 2)
    assert z.is_leaf
    assert z.requires_grad


def test_only_leaves_are_copied_and_leaves_are_read():
    x = clnet.ones(2).requires_grad_() * 2
    with pytest.raises(GradientError, match="deepcopy: only leaves are copied deeply"):
        copy.deepcopy(x)
    y = pickle.loads(pickle.dumps(x))
    assert (y.is_leaf, y.requires_grad, y.tolist()) == (True, True, [2, 2])


def test_further_ways_to_make_tensors():
    x = clnet.ones(2)
    assert clnet.asarray(x) is x
    assert clnet.asarray(x, copy=True) is not x
    assert clnet.asarray([1.5], requires_grad=True).requires_grad
    assert clnet.asarray(x, requires_grad=True).requires_grad
    assert not x.requires_grad
    w = clnet.ones(2, requires_grad=True)
    clnet.asarray(w, copy=True).sum().backward()
    assert w.grad.tolist() == [1, 1]
    assert not clnet.asarray(w, requires_grad=False).requires_grad
    assert w.requires_grad
    assert clnet.scalar_tensor(2).dtype is clnet.float32
    assert x.new_tensor([1, 2]).dtype is clnet.float32
    np.testing.assert_array_equal(clnet.tril_indices(3, 4, 1).numpy(), np.tril_indices(3, 1, 4))
    np.testing.assert_array_equal(clnet.triu_indices(4, 3).numpy(), np.triu_indices(4, 0, 3))
    for function in (clnet.tril_indices, clnet.triu_indices):
        with pytest.raises(ShapeError, match="sizes are 0 or more; got row=-1, col=2"):
            function(-1, 2)
    np.testing.assert_allclose(
        clnet.hann_window(6, periodic=False).numpy(), np.hanning(6), atol=1e-6
    )
    np.testing.assert_allclose(clnet.hann_window(5).numpy(), np.hanning(6)[:5], atol=1e-6)
    np.testing.assert_allclose(clnet.hamming_window(6, False).numpy(), np.hamming(6), atol=1e-6)
    assert clnet.hann_window(1).tolist() == [1]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([np.float64(1), 2], "float64"),
        ([[1.0], [np.float64(1)]], "float64"),
        ([np.ones(2), np.ones(2)], "float64"),
        ([clnet.ones(()).double()], "float64"),
        ([np.float64(1), 1j], "complex128"),
        ([np.float32(1), 2.5], "float32"),
        ([np.int32(1), 2.5], "float32"),
        ([1.0, 2], "float32"),
    ],
    ids=repr,
)
def test_numbers_of_numpys_in_sequences_keep_their_width(data, dtype):
    """As in PyTorch."""
    assert clnet.tensor(data).dtype.name == dtype


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.tensor([t.tensor([1.0]), t.tensor([2.0])]),
        lambda t: t.tensor([t.tensor(1.0), t.tensor([[3.0]]), 2]),
        lambda t: t.tensor([[2.0], t.tensor([1.0])]),
        lambda t: t.tensor((t.tensor([1], dtype=t.int32), t.tensor([2], dtype=t.int32))),
        lambda t: t.tensor([t.tensor(1.0, dtype=t.bfloat16), t.tensor(2.0, dtype=t.bfloat16)]),
        lambda t: t.tensor([t.ones(1), np.float64(2)]),
        lambda t: t.tensor([t.ones(2), t.ones(2)]),
        lambda t: t.tensor([t.ones(0), t.ones(0)]),
        lambda t: t.tensor([t.arange(3), t.arange(3)]),
    ],
)
def test_tensors_in_sequences_are_numbers(make):
    def made(lib):
        try:
            x = make(lib)
        except (TypeError, ValueError) as error:
            return TypeError if isinstance(error, TypeError) else ValueError
        return str(x.dtype).split(".")[-1], x.tolist(), x.requires_grad

    assert made(clnet) == made(pytest.importorskip("torch", reason="the oracle is PyTorch"))


def test_a_row_of_numbers_fills_out_in_its_shape():
    x = clnet.zeros(2, 3)
    clnet.arange(4, out=x[:, 1:])
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    assert clnet.linspace(0, 5, 6, out=x).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert clnet.range(5, 0, -1, out=x) is x
    assert x.tolist() == [[5, 4, 3], [2, 1, 0]]
    with pytest.warns(UserWarning, match="arange: out of shape"):
        assert clnet.arange(4, out=x).shape == (4,)


def test_what_is_made_alike_is_of_the_dtype_of_out():
    whole = clnet.zeros(2, 2, dtype=clnet.uint8)
    assert clnet.eye(2, out=whole).tolist() == [[1, 0], [0, 1]]
    assert clnet.full((2,), 2.7, out=clnet.zeros(2, dtype=clnet.int32)).tolist() == [2, 2]
    assert clnet.full((1,), 0.1, out=clnet.zeros(1, dtype=clnet.float64)).tolist() == [0.1]
    whole = clnet.zeros(3, dtype=clnet.int16)
    assert clnet.arange(0.0, 3, out=whole).tolist() == clnet.linspace(0, 2, 3, out=whole).tolist()
    assert clnet.logspace(0, 2, 3, out=whole).tolist() == [1, 10, 100]


def test_whole_numbers_are_cut_once():
    found = clnet.logspace(0, 3, 7, base=3, dtype=clnet.int64)
    assert found.tolist() == [int(3 ** (k / 2) + 1e-9) for k in range(7)]
    assert clnet.logspace(0, 9, 10, dtype=clnet.int64).tolist() == [10**k for k in range(10)]
    assert clnet.linspace(0, 123456789, 2, dtype=clnet.int64).tolist() == [0, 123456789]


def test_another_dtype_than_that_of_out_is_refused():
    with pytest.raises(DtypeError, match="dtype is that of out"):
        clnet.zeros(2, dtype=clnet.int64, out=clnet.zeros(2))


def test_ends_of_whole_numbers_are_whole():
    found = clnet.linspace(0, 4.9, 4, dtype=clnet.int64)
    assert found.tolist() == [0, 1, 2, 4]
    assert clnet.linspace(-1.5, 1.5, 3, dtype=clnet.int16).tolist() == [-1, 0, 1]
    assert clnet.logspace(4.3, 0, 4, base=5, dtype=clnet.int64).tolist() == [625, 73, 8, 1]
    for make in (clnet.linspace, clnet.logspace):
        with pytest.raises(ArgumentError, match=rf"^{make.__name__}: .*int8 holds the value"):
            make(0, 300, 3, dtype=clnet.int8)
