"""Applications of ops: data, equal where their settings are."""

from __future__ import annotations

from dataclasses import replace

import pytest

import clnet
from clnet.autodiff.recompute import Recomputed
from clnet.ops.machinery.function import Function
from clnet.ops.pool import AdaptiveAvgPool, AdaptiveAvgPoolBackward
from clnet.ops.shape import CopyInto, Expand, Permute, Reshape
from clnet.values.arguments import Door


def test_functions_are_equal_where_class_and_settings_are():
    assert Permute((1, 0)) == Permute((1, 0)) == Permute(dims=(1, 0))
    assert Permute((1, 0)) != Permute((0, 1))
    assert Reshape((2, 3)) != Expand((2, 3))
    assert CopyInto() == CopyInto()
    assert len({Permute((1, 0)), Permute((1, 0)), Permute((0, 1)), Reshape((1, 0))}) == 3
    assert AdaptiveAvgPool((2, 2)) != AdaptiveAvgPoolBackward((2, 2))


def test_a_function_says_what_it_is():
    assert repr(Permute((1, 0))) == "Permute(dims=(1, 0))"
    assert repr(CopyInto()) == "CopyInto(op_name='copy_')"


def test_settings_are_replaced_in_a_copy():
    one = Permute((1, 0))
    assert replace(one, dims=(0, 1)) == Permute((0, 1))
    assert one == Permute((1, 0))


def test_a_setting_that_is_left_out_is_an_error():
    with pytest.raises(TypeError, match="dims"):
        Permute()


def test_a_function_of_what_cannot_be_compared_equals_itself_alone():
    one = Recomputed(None, 1)
    assert one == one
    assert one != Recomputed(None, 1)
    assert len({one, Recomputed(None, 1)}) == 2


def test_a_function_becomes_a_dataclass_with_its_first_object():
    class Scaled(Function):
        factor: float
        offset: float = 1.0

    assert "__init__" not in vars(Scaled)
    first = Scaled(2.0)
    assert "__init__" in vars(Scaled)
    assert first == Scaled(factor=2.0, offset=1.0) != Scaled(2.0, 3.0)
    assert repr(first) == "Scaled(factor=2.0, offset=1.0)"
    with pytest.raises(TypeError, match="missing 1 required"):
        Scaled()


def test_objects_can_be_compared_as_soon_as_they_can_be_made():
    """Another thread may make one while the class becomes a dataclass."""
    order: list[str] = []

    class Observed(type):
        def __setattr__(cls, name, value):
            order.append(name)
            super().__setattr__(name, value)

    class Scaled(Function, metaclass=Observed):
        factor: float

    assert Scaled(2.0) != Scaled(3.0)
    assert order.index("__match_args__") < order.index("__init__")


@pytest.mark.parametrize("number", [1.5, 2, True])
def test_a_call_with_a_number_is_bound_to_the_signature_once(monkeypatch, number):
    """Binding takes 10 us, which every ``x + 1.0`` paid."""
    x = clnet.arange(3.0)
    first = x + number
    monkeypatch.setattr(Door, "settle", lambda *_: pytest.fail("bound again"))
    assert (x + number).tolist() == first.tolist() == [number, 1 + number, 2 + number]


def test_calls_of_one_form_share_the_op():
    x, y = clnet.ones(3), clnet.ones(2, 1)
    x.requires_grad_()
    assert op_of(x * y) is op_of(y * x)
    assert op_of(x * y) is not op_of(x * y.double())
    assert op_of(x * 2.0) == op_of(x * 2.0) != op_of(x * 3.0)


def op_of(y: clnet.Tensor) -> Function:
    assert y.node is not None
    return y.node.function
