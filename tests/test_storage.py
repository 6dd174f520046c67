"""What programs ask of the memory below a tensor, and tensors as subclasses."""

from __future__ import annotations

import sys

import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError

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


def test_a_storage_of_its_own_and_one_that_is_written():
    assert clnet.UntypedStorage(3).nbytes() == 3
    assert clnet.TypedStorage(3, dtype=clnet.int32).nbytes() == 12
    made = clnet.FloatStorage([1, 2, 3])
    assert (made.type(), made[1], made.long().tolist()) == ("torch.FloatStorage", 2.0, [1, 2, 3])
    assert clnet.UntypedStorage([0, 0, 128, 63])[3] == 63
    wrapped = clnet.TypedStorage(wrap_storage=clnet.UntypedStorage([0, 0, 128, 63]))
    assert wrapped.tolist() == [1.0]
    x = clnet.arange(4.0).reshape(2, 2)
    kept = x.storage().clone()
    x.storage()[2] = 9
    assert x.tolist() == [[0, 1], [9, 3]]
    x.untyped_storage().fill_(0)
    assert x.tolist() == [[0, 0], [0, 0]]
    assert x.storage().copy_(kept).tolist() == [0, 1, 2, 3]
    part = clnet.FloatTensor(x.storage())
    part[3] = 7
    assert x.tolist() == [[0, 1], [2, 7]]
    with pytest.raises(DtypeError, match="length is a whole number"):
        clnet.UntypedStorage("many")


def test_a_tensor_is_set_to_a_storage():
    x, y = clnet.arange(6.0), clnet.tensor([])
    y.set_(x.storage(), 1, (2, 2))
    assert y.tolist() == [[1, 2], [3, 4]]
    y.set_(source=x.untyped_storage(), storage_offset=0, size=(3, 2), stride=(1, 3))
    y[0, 1] = 8
    assert x.tolist() == [0, 1, 2, 8, 4, 5]
    assert y.set_(x.storage()).shape == (6,)
    assert clnet.tensor([]).set_(x, 2, (2,)).tolist() == [2, 8]
    with pytest.raises(DtypeError, match="keeps its dtype"):
        y.set_(clnet.IntStorage(2))
    with pytest.raises(ShapeError):
        y.set_(x.storage(), 4, (3,))


def test_a_tensor_of_a_storage():
    x = clnet.tensor([1.0, 2.0])
    assert clnet.tensor(x.storage()).tolist() == [1, 2]
    assert clnet.tensor(x.untyped_storage(), dtype=clnet.float32).tolist() == [1, 2]
    assert clnet.tensor(x.untyped_storage(), dtype=clnet.uint8).shape == (8,)
    assert clnet.tensor(x.storage()).untyped_storage() != x.untyped_storage()
    with pytest.raises(DtypeError, match="dtype that is asked for"):
        clnet.tensor(x.storage(), dtype=clnet.float64)
    assert x.untyped_storage().to(device=x.device) == x.untyped_storage()


@pytest.mark.parametrize(
    "make", [clnet.FloatTensor, lambda y: y.new(y), lambda y: y.new(y.storage())]
)
def test_old_constructors_share_the_memory_that_they_are_given(make):
    x = clnet.ones(3)
    y = make(x)
    y[0] = 5
    assert x.tolist() == [5, 1, 1]
    assert y is not x


def test_an_old_constructor_stays_on_the_tape():
    x = clnet.ones(2, requires_grad=True)
    (clnet.FloatTensor(x) * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert clnet.LongTensor(x).tolist() == [1, 1]


def test_without_elements_it_lies_nowhere():
    assert clnet.ones(2, 2)[2:].data_ptr() == clnet.empty(0).data_ptr() == 0


def test_bytes_of_a_storage_have_no_sign():
    x = clnet.tensor([-38, 3], dtype=clnet.int8)
    assert (x.untyped_storage().tolist(), x.storage().tolist()) == ([218, 3], [-38, 3])
    assert clnet.tensor([True, False]).untyped_storage().tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["tensor", "on the tape", "of a plan"])
def test_no_python_runs_where_memory_goes(kind):
    """It would hear Ctrl-C there, and what a finalizer raises is dropped."""
    double = clnet.compile(lambda x: x * 2)
    held = [clnet.ones(300)]
    if kind == "on the tape":
        held[0].requires_grad_()
        held += [held[0] * 2, held[0].sin()]
    elif kind == "of a plan":
        held += [double(held[0]), double(held[0])]
    pool, called = clnet.device().pool, []
    before = pool.statistics().allocated
    sys.setprofile(lambda frame, event, arg: called.append((event, frame.f_code.co_name)))
    try:
        held.clear()
    finally:
        sys.setprofile(None)
    assert [name for event, name in called if event == "call"] == []
    assert pool.statistics().allocated <= before - 1024
