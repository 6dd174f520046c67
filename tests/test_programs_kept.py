"""What programs of others write into tensors that the tape keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import GradientError
from tests.answers import torch

pytestmark = pytest.mark.device


def halves(lib: Any, x: Any) -> Any:
    """Attention's softmax in two halves, in place, as diffusions write it."""
    scores = x * 2
    half = len(scores) // 2
    scores[half:] = scores[half:].softmax(-1)
    scores[:half] = scores[:half].softmax(-1)
    return scores


def softened(lib: Any, x: Any) -> Any:
    h = x * 2
    y = h.log_softmax(-1)
    h.add_(1)
    return y + h.detach()


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("function", [halves, softened])
def test_what_backward_does_not_read_may_be_written(function: Any, rows: int):
    values = np.random.default_rng(0).standard_normal((rows, 5))
    factors = np.random.default_rng(1).standard_normal((rows, 5))
    found = []
    for lib in (torch, clnet):
        x = lib.tensor(values, requires_grad=True)
        y = function(lib, x)
        (y * lib.tensor(factors)).sum().backward()
        found.append((y.tolist(), x.grad.tolist()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-10, atol=1e-14)


def test_gradients_of_gradients_need_what_was_written():
    x = clnet.ones(2, 3, requires_grad=True)
    y = softened(clnet, x)
    with pytest.raises(GradientError, match="changed in place since"):
        clnet.autograd.grad(y.sum(), x, create_graph=True)


def test_numbers_leave_the_tape_where_nothing_is_recorded():
    x = clnet.ones(2, requires_grad=True)
    with clnet.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(GradientError, match="leaves the tape"):
        x.numpy()


def test_a_class_s_property_does_not_hide_what_ops_read():
    with pytest.warns(UserWarning, match=r"Labelled\.array: the name is every tensor's own"):

        class Labelled(clnet.Tensor):
            @property
            def array(self) -> Any:
                return None

            @property
            def label(self) -> str:
                return "mine"

    y = clnet.ones(2).as_subclass(Labelled) * 2
    assert (type(y), y.label, y.tolist()) == (Labelled, "mine", [2.0, 2.0])


def test_a_module_may_be_called_as_a_method_is():
    def counted(lib: Any) -> list[Any]:
        class Net(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.parameters = []
                self.parameters = lib.nn.ParameterList([lib.nn.Parameter(lib.ones(2))])

        net = Net()
        return [n for n, _ in net.named_parameters()] + [len(list(net.parameters()))]

    assert counted(clnet) == counted(torch)
