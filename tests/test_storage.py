"""What programs ask of the memory below a tensor, and tensors as subclasses."""

from __future__ import annotations

import pytest

import clnet
from clnet.errors import ArgumentError

pytestmark = pytest.mark.device


def test_views_share_a_storage():
    x = clnet.arange(6, dtype=clnet.float32).reshape(2, 3)
    part = x[1]
    assert part.untyped_storage() == x.untyped_storage()
    assert clnet.is_storage(x.untyped_storage())
    assert clnet.is_storage(x.storage())
    assert not clnet.is_storage(x)
    assert part.untyped_storage().data_ptr() == x.storage().data_ptr() == x.data_ptr()
    assert x.clone().untyped_storage() != x.untyped_storage()
    assert len({x.storage(), part.storage()}) == 1
    assert part.storage().nbytes() == x.untyped_storage().nbytes()
    assert (part.storage().element_size(), part.untyped_storage().element_size()) == (4, 1)
    assert part.storage().tolist()[:6] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert part.storage().dtype is clnet.float32
    assert len(part.storage()) * 4 == len(part.storage().untyped())
    assert isinstance(x.storage(), clnet.TypedStorage)


class Named(clnet.Tensor):
    """A subclass with a word of its own."""

    def named(self):
        return "mine"


def test_as_a_subclass_it_stays_on_the_tape():
    x = clnet.ones(3, requires_grad=True)
    y = (x * 2).as_subclass(Named)
    assert y.named() == "mine"
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    assert x.as_subclass(Named).requires_grad
    with pytest.raises(ArgumentError, match="class of tensors"):
        x.as_subclass(int)


def test_writes_in_place_are_counted():
    x = clnet.ones(3)
    assert x._version == 0
    x.add_(1)
    x[0] = 2
    part = x[1:]
    part.mul_(2)
    assert x._version == part._version == 3
