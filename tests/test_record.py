"""Named tuples of clnet against those of ``typing``."""

from __future__ import annotations

import collections
import copy
import inspect
import pickle
import runpy
import typing
from collections.abc import Callable
from typing import Any

import pytest

import clnet
from clnet.values import record


class Ours(record.NamedTuple):
    """A point."""

    x: int
    y: str = "a"

    @property
    def twice(self) -> int:
        """Two of it."""
        return self.x * 2


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: str = "a"

    @property
    def twice(self) -> int:
        """Two of it."""
        return self.x * 2


class Below(Ours):
    def __new__(cls, given: int) -> Any:
        return super().__new__(cls, given + 1, "b")


def told(call: Callable[[Any], Any], kind: type) -> str:
    found = call(kind)
    return f"{type(found)} {found!r}".replace(kind.__qualname__, "Kind")


@pytest.mark.parametrize(
    "call",
    [
        lambda kind: kind(1),
        lambda kind: kind(1, "b"),
        lambda kind: kind(y=1, x=2),
        lambda kind: kind(1).y,
        lambda kind: kind(3).twice,
        lambda kind: kind(1) == (1, "a"),
        lambda kind: hash(kind(1)),
        lambda kind: [*kind(1)],
        lambda kind: kind(1)._replace(y="c"),
        lambda kind: kind._make([1, 2]),
        lambda kind: kind(1)._asdict(),
        lambda kind: kind._fields,
        lambda kind: kind._field_defaults,
        lambda kind: kind.__match_args__,
        lambda kind: kind.__doc__,
        lambda kind: [(p.name, p.default) for p in inspect.signature(kind).parameters.values()],
        lambda kind: typing.get_type_hints(kind),
        lambda kind: copy.deepcopy(kind([])),
        lambda kind: pickle.loads(pickle.dumps(kind(1))),
    ],
)
def test_it_does_what_those_of_typing_do(call):
    assert told(call, Ours) == told(call, Theirs)


@pytest.mark.parametrize("call", [lambda k: k(), lambda k: k(1, 2, 3), lambda k: k(z=1)])
def test_wrong_arguments_are_refused_in_the_same_words(call):
    def words(kind: Any) -> str:
        with pytest.raises(TypeError) as caught:
            call(kind)
        return str(caught.value).replace(kind.__name__, "Kind")

    assert words(Ours) == words(Theirs)


def test_a_name_that_is_no_field_is_not_replaced():
    with pytest.raises(ValueError, match="unexpected field names"):
        Ours(1)._replace(z=1)


def test_no_other_attribute_can_be_set():
    with pytest.raises(AttributeError):
        Ours(1).z = 2


def test_a_class_below_has_its_own_constructor():
    assert Below(1) == (2, "b")
    assert type(Below(1)) is Below


def test_the_constructor_is_made_with_the_first_object():
    class Other(record.NamedTuple):
        x: int

    assert "__new__" not in vars(Other)
    assert Other(1) == (1,)
    made = vars(Other)["__new__"]
    assert Other(2) == (2,)
    assert vars(Other)["__new__"] is made


def test_one_tuple_is_made_for_all_that_read_an_element(monkeypatch):
    made, named_tuple = [], collections.namedtuple
    monkeypatch.setattr(
        collections, "namedtuple", lambda *given: made.append(given) or named_tuple(*given)
    )
    assert record.__file__ is not None
    runpy.run_path(record.__file__)
    assert [name for name, *_ in made].count("_Elements") == 1


def test_what_functions_give_prints_as_their_own():
    x = clnet.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    found = x.max(1)
    shown = "clnet.return_types.max(\nvalues=tensor([3., 5.]),\nindices=tensor([0, 1]))"
    assert repr(found) == str(found) == shown
    kinds = {"min": x.min(1), "sort": x.sort(), "topk": x.topk(2), "median": x.median(1)}
    kinds |= {"nanmedian": x.nanmedian(1), "mode": x.mode(1), "kthvalue": x.kthvalue(1)}
    kinds |= {"cummax": x.cummax(1), "cummin": x.cummin(0), "aminmax": x.aminmax()}
    kinds |= {"linalg_qr": clnet.linalg.qr(x), "qr": x.qr(), "lu_unpack": _unpacked(x)}
    kinds |= {"linalg_svd": clnet.linalg.svd(x), "svd": x.svd(), "linalg_lu": clnet.linalg.lu(x)}
    for name, given in kinds.items():
        assert type(given) is getattr(clnet.return_types, name)
        assert repr(given).startswith(f"clnet.return_types.{name}(\n")
    number = clnet.tensor(3.0)
    for given in (number.sort(), number.topk(1), number.kthvalue(1), number.median(0)):
        assert repr(given).split("\n", 1)[1] == "values=tensor(3.),\nindices=tensor(0))"


def _unpacked(x: clnet.Tensor) -> Any:
    return clnet.lu_unpack(*clnet.linalg.lu_factor(x))


def test_what_functions_give_is_made_and_kept():
    found = clnet.tensor([[3.0, 1.0], [0.0, 5.0]]).sort(descending=True)
    values, indices = found
    assert found.values is values
    assert found[1] is indices
    assert type(found[:]) is tuple
    for made in (
        type(found)((values, indices)),
        type(found)(values, indices),
        type(found)(values, indices=indices),
    ):
        assert type(made) is type(found)
        assert made.values is values
        assert made.indices is indices
    with pytest.raises(TypeError, match=r"sort\(\) takes a 2-sequence \(3-sequence given\)"):
        type(found)((1, 2, 3))
    for kept in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(kept) is type(found)
        assert kept.values.tolist() == values.tolist() == [[3.0, 1.0], [5.0, 0.0]]
    place = (clnet.empty(2, 2), clnet.empty(2, 2, dtype=clnet.int64))
    into = clnet.sort(values, out=place)
    assert type(into) is type(found)
    assert into.values is place[0]
    f = clnet.compile(lambda x: x.sort())
    for _ in range(3):
        assert type(f(values)) is type(found)
