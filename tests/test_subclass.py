"""Subclasses of Tensor, and other classes that take over what is called with them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.compat import inner, overrides
from clnet.errors import ClnetError

pytestmark = pytest.mark.device


class Marked(clnet.Tensor):
    pass


def marked(*shape):
    return clnet.ones(*shape).as_subclass(Marked)


RESULTS = {
    "operator": lambda x: x + 1,
    "operator on the right": lambda x: 1 - x,
    "beside a tensor": lambda x: clnet.ones(2, 3) * x,
    "comparison": lambda x: x > 0,
    "key": lambda x: x[0],
    "reduction": lambda x: x.sum(),
    "pair": lambda x: x.max(1).values,
    "tuple": lambda x: x.split(1)[1],
    "sequence": lambda x: clnet.cat([clnet.ones(1, 3), x]),
    "function": lambda x: F.relu(x),
    "layer": lambda x: nn.Linear(3, 2)(x),
    "dtype": lambda x: x.to(clnet.float64),
    "detached": lambda x: x.detach(),
    "by name": lambda x: clnet.sum(input=x),
    "called twice": lambda x: (x.exp(), x.exp())[1],
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_of_the_class(name):
    plain = clnet.ones(2, 3)
    RESULTS[name](plain)  # its door has seen tensors
    assert type(RESULTS[name](marked(2, 3))) is Marked
    assert type(RESULTS[name](plain)) is clnet.Tensor


@pytest.mark.parametrize("call", [clnet.mean, clnet.flip, clnet.reshape])
def test_who_takes_over_gets_lists_of_numbers_as_they_were_given(call):
    told = []

    class Told(clnet.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append(args[1])
            return super().__torch_function__(func, types, args, kwargs)

    plain = clnet.ones(0, 1)
    for x in (plain, plain, plain.as_subclass(Told), plain):  # by then such lists pass the door
        call(x, [1, 0])
    assert told == [[1, 0]]


def test_gradients_flow_through_them():
    x = marked(3).requires_grad_()
    y = (x * x + clnet.ones(3)).sum()
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]
    z = clnet.zeros(3, requires_grad=True)
    written = (z * 2).as_subclass(Marked)
    written[0] = 5
    written.sum().backward()
    assert z.grad.tolist() == [0, 2, 2]


def test_a_class_sees_what_is_called():
    seen = []

    class Watching(clnet.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, types))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = clnet.ones(2).as_subclass(Watching)
    assert type(clnet.add(x, 1).exp()) is Watching
    assert seen == [("add", (Watching,)), ("exp", (Watching,))]
    with inner.DisableTorchFunctionSubclass():
        assert type(x + 1) is clnet.Tensor
    assert len(seen) == 2
    assert type(x + 1) is Watching


def test_subclasses_come_before_their_bases():
    class Further(Marked):
        pass

    x, y = marked(2), clnet.ones(2).as_subclass(Further)
    assert type(x + y) is type(y + x) is Further


def test_other_classes_take_over():
    class Diagonal:
        def __init__(self, n, value):
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is not clnet.mean:
                return NotImplemented
            return args[0].value / args[0].n

    d = Diagonal(2, 3.0)
    assert clnet.mean(d) == 1.5
    with pytest.raises(TypeError, match=r"add: not implemented by the classes .* Diagonal"):
        clnet.add(clnet.ones(2), d)


def test_parameters_take_over_nothing():
    class Own(nn.Parameter):
        pass

    p = Own(clnet.ones(2))
    assert type(p * 2) is type(nn.Parameter(clnet.ones(2)) + 1) is clnet.Tensor


def test_classes_make_their_tensors_themselves():
    class Box(clnet.Tensor):
        def __new__(cls, data, tag=None):
            return clnet.Tensor._make_subclass(cls, clnet.as_tensor(data))  # pyrefly: ignore[missing-attribute]

        def __init__(self, data, tag=None):
            super().__init__()
            self.tag = tag

    class Tagged(clnet.Tensor):
        def __new__(cls, data, **given):  # pyrefly: ignore[implicit-any-parameter]
            made = clnet.as_tensor(data).as_subclass(cls)
            made.given = given
            return made

    class Counted(clnet.Tensor):
        def __init__(self, data):
            self.count = len(data)

    box = Box([1.0, 2.0], tag="a")
    assert (box.tag, box.tolist(), type(box * 2)) == ("a", [1, 2], Box)
    tagged = Tagged(np.ones(2, np.float32), k=3)
    assert (tagged.given, tagged.tolist()) == ({"k": 3}, [1, 1])
    counted = Counted([1.0, 2.0])
    assert (counted.count, counted.tolist()) == (2, [1, 2])


def test_functions_of_programs_are_taken_over():
    class Named(Marked):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x, plain = clnet.ones(1).as_subclass(Named), clnet.ones(1)

    @overrides.wrap_torch_function(lambda a, b: (a, b))
    def mixed(a, b):
        return "called"

    assert overrides.has_torch_function((plain, x))
    assert overrides.has_torch_function_unary(x)
    assert overrides.has_torch_function_variadic(plain, x)
    assert not overrides.has_torch_function((plain,))
    assert mixed(plain, plain) == "called"
    assert mixed(plain, x) == "mixed"
    assert overrides.handle_torch_function(clnet.add, (x,), x, 1) == "add"


def test_who_takes_over_is_asked_behind_calls_of_the_same_types_that_passed():
    class Asked(clnet.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            Asked.calls += 1
            return "asked"

    plain, own = clnet.ones(2), clnet.ones(2).as_subclass(Asked)
    for _ in range(3):
        assert clnet.cat([plain, plain]).shape == (4,)
        assert clnet.cat([plain, plain], dim=0).shape == (4,)
        assert clnet.cat([plain, own]) == "asked"
        assert clnet.cat([plain, own], dim=0) == "asked"
        assert clnet.add(plain, plain).shape == (2,)
        assert clnet.add(plain, own) == "asked"
    assert Asked.calls == 9


def test_values_are_looked_at_behind_calls_of_the_same_types_that_passed():
    x = clnet.ones(2, 3)
    for _ in range(3):
        assert x.sum(1).shape == (2,)
        assert x.sum(dim=(0, 1)).shape == ()
        assert clnet.cat([x, x], dim=1).shape == (2, 6)
    for wrong in (lambda: x.sum(2**70), lambda: x.sum(dim=(0, "1")), lambda: clnet.cat([x, 1], 1)):
        with pytest.raises(ClnetError):
            wrong()


def test_classes_are_told_functions_by_the_names_that_tensors_have():
    """Programs compare them: torchvision keeps its boxes by ``to`` and ``detach``."""
    told = []

    class Told(clnet.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = clnet.ones(2).as_subclass(Told)
    names = ("to", "detach", "clone", "requires_grad_", "cpu", "float", "view", "contiguous")
    for name in names:
        told.clear()
        found = getattr(x, name)(*{"to": (clnet.float64,), "view": (1, 2)}.get(name, ()))
        assert told[0] is getattr(clnet.Tensor, name), name
        assert type(found) is Told
