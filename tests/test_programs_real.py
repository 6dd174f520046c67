"""What programs and packages of others asked for that was missing, beside PyTorch's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.distributions import Distribution, Normal, constraints, parameter
from clnet.errors import ArgumentError, ShapeError
from clnet.nn.parallel.scatter_gather import scatter_kwargs
from tests.answers import torch

MATRICES = np.array([[[2.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.8]], [[1.0, 2.0], [2.0, 1.0]]])


@pytest.mark.parametrize(
    "name",
    ["square", "symmetric", "lower_triangular", "corr_cholesky", "positive_semidefinite"],
)
def test_constraints_of_matrices(name):
    ours, theirs = getattr(constraints, name), getattr(torch.distributions.constraints, name)
    assert (repr(ours), ours.event_dim) == (repr(theirs), theirs.event_dim)
    symmetric = np.array([[[2.0, 1.0], [1.0, 2.0]], [[1.0, -3.0], [-3.0, 1.0]]])
    for values in (MATRICES, symmetric):
        got = ours.check(clnet.tensor(values))
        assert got.tolist() == theirs.check(torch.tensor(values)).tolist()


def test_a_programs_own_constraint():
    class _Odd(constraints.Constraint):
        event_dim = 1

        def check(self, value: Any) -> Any:
            return (value % 2 == 1).all(-1)

    odd = _Odd()
    assert (repr(odd), odd.event_dim, odd.is_discrete) == ("Odd()", 1, False)
    assert odd.check(clnet.tensor([[1, 3], [1, 2]])).tolist() == [True, False]
    with pytest.raises(NotImplementedError, match="Constraint"):
        constraints.Constraint().check(clnet.ones(1))


@pytest.mark.parametrize("diagonal", [-1, 0, 1])
def test_triangles_as_vectors(diagonal):
    utils = torch.distributions.utils
    x = np.random.default_rng(1).standard_normal((2, 4, 4))
    vector = parameter.tril_matrix_to_vec(clnet.tensor(x), diagonal)
    expected = utils.tril_matrix_to_vec(torch.tensor(x), diagonal)
    np.testing.assert_array_equal(vector.numpy(), expected.numpy())
    back = parameter.vec_to_tril_matrix(vector, diagonal)
    np.testing.assert_array_equal(back.numpy(), np.tril(x, diagonal))
    with pytest.raises(ArgumentError, match="the diagonal lies in the matrix"):
        parameter.tril_matrix_to_vec(clnet.tensor(x), 4)
    with pytest.raises(ShapeError, match="as many elements as the triangle"):
        parameter.vec_to_tril_matrix(clnet.ones(5))


def test_helpers_of_distributions():
    assert parameter._sum_rightmost(clnet.ones(2, 3, 4), 2).tolist() == [12, 12]
    assert parameter._standard_normal((2, 3), clnet.float64, None).dtype is clnet.float64

    class Own(Normal):
        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Own, _instance)
            new.told = "here"
            return super().expand(batch_shape, _instance=new)

    wide = Own(clnet.tensor(1.0), clnet.tensor(2.0)).expand((3,))
    assert (type(wide), wide.told, wide.mean.tolist()) == (Own, "here", [1, 1, 1])
    with pytest.raises(NotImplementedError, match="__init__ of its own has an expand"):
        Own(clnet.tensor(1.0), clnet.tensor(2.0))._get_checked_instance(Distribution)


def test_gradients_of_functions_are_summed_to_their_arguments():
    def found(lib: Any) -> list[Any]:
        class Scale(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, factor: Any) -> Any:
                ctx.save_for_backward(x, factor)
                return x * factor

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                x, factor = ctx.saved_tensors
                return g * factor, g * x

        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        grads = []
        for shape in ((), (2,), (2, 1), (1, 1)):
            factor = lib.full(shape, 1.5, requires_grad=True)
            Scale.apply(x, factor).sum().backward()
            grads.append(factor.grad.tolist())
        return grads

    assert found(clnet) == found(torch)


def test_old_names_of_sparse_tensors():
    made = clnet.sparse.FloatTensor(
        clnet.tensor([[0, 1], [1, 0]]), clnet.tensor([1.0, 2.0]), (2, 2)
    )
    assert made.to_dense().tolist() == [[0, 1], [2, 0]]
    assert isinstance(made, clnet.sparse.FloatTensor)
    assert not isinstance(made, clnet.sparse.LongTensor)
    assert clnet.sparse.LongTensor([[0]], [3]).dtype is clnet.int64


def test_arguments_for_several_devices():
    inputs, named = scatter_kwargs((clnet.arange(4.0),), {"k": 3}, ["cpu", "cpu"])
    assert [x.tolist() for (x,) in inputs] == [[0, 1], [2, 3]]
    assert named == ({"k": 3}, {"k": 3})
    (part, other), empty = scatter_kwargs((clnet.arange(4.0),), None, ["cpu", "cpu"])
    assert (part[0].tolist(), other[0].tolist(), empty) == ([0, 1], [2, 3], ({}, {}))


def test_modules_of_programs():
    class Bounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = nn.Parameter(clnet.ones(1))

        @property
        def k(self) -> Any:
            return -self.late

    assert [name for name, _ in Bounded().named_parameters()] == ["k"]

    class Collection(nn.ModuleDict):
        def __init__(self) -> None:
            super().__init__()
            self.ready = True

        def update(self, *values: Any) -> None:
            assert self.ready

    Collection().update(1)
    layer, seen = nn.Linear(2, 3), []
    layer.register_backward_hook(lambda module, gin, gout: seen.append(gout[0].shape))
    layer(clnet.ones(4, 2, requires_grad=True)).sum().backward()
    assert seen == [(4, 3)]


def test_a_tensor_with_more_to_know():
    class Located(clnet.Tensor):
        __torch_function__ = clnet._C._disabled_torch_function_impl

        def __new__(cls, data: Any, **given: Any) -> Any:
            made = clnet.Tensor._make_subclass(cls, data)
            made.where = given["where"]
            return made

    x = Located(clnet.ones(2), where="here")
    assert (x.where, x.tolist()) == ("here", [1, 1])


def test_what_only_acts_as_a_tensor_is_none():
    class Acting:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise NotImplementedError(func)

    assert not clnet.is_tensor(Acting())
    assert clnet.is_tensor(clnet.ones(1))
    assert clnet.Future is clnet.futures.Future
