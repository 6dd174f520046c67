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
