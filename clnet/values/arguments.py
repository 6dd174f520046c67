"""Arguments at the door: what a signature says of them is checked once, before anything runs.

A parameter's annotation says what it takes: ``dim: int | None``, ``weight: Tensor``. From it come
the types that pass as they are and, for all others, a conversion (NumPy's numbers and arrays
without axes, a dtype's other spellings) or an error that names the op, the parameter and what came.
What depends on several arguments, or on shapes, is checked by the op.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Set
from typing import Any, TypeVar

from ..errors import DtypeError
from . import mode
from .annotation import (
    NUMBERS,
    TENSORS,
    Convert,
    Kind,
    Tensors,
    Whole,
    are_whole,
    kind_of,
    pass_within,
)
from .dtypes import DType
from .lazy import lazy
from .override import (
    ENTERED,
    SEQUENCES,
    asked_modes,
    call_over,
    is_left_to_python,
    is_unknown,
    takes_over,
    taking_over,
)
from .plain import (
    LEAST,
    MOST,
    NO,
    integer,
    integers,
    is_iterable,
    is_sequence,
    is_tensor,
    made_for,
    named,
    number,
    require_tensors,
    shown,
    written,
)
from .spelling import Spelling

F = TypeVar("F", bound=Callable[..., Any])
_NONE: frozenset[type] = frozenset()


class Door:
    """The kinds of a function's parameters, found at its first call.

    Args:
        op: the name in errors.
        function: what is called.
        skip: how many parameters come before the user's.
        key: the name in ``signatures.txt``, if not the same.

    Attributes:
        later: parameters of PyTorch's that are no parameters here; the class sees to them.
        operator: whether Python's operator calls it, which can ask the second operand's class.
    """

    later: Collection[str] = ()
    operator = False

    def __init__(
        self, op: str, function: Callable[..., Any], *, skip: int = 0, key: str | None = None
    ) -> None:
        self.op = op
        self.function = function
        self.skip = skip
        self.key = key or op

    @lazy
    def signature(self) -> inspect.Signature:
        """The function's."""
        return inspect.signature(self.function)

    @lazy
    def public(self) -> inspect.Signature:
        """The signature that PyTorch's users know."""
        return self.spelling.public

    @lazy
    def spelling(self) -> Spelling:
        """How PyTorch spells calls of it."""
        module = self.function.__module__.rpartition(".")[2]
        key = f"{module}.{self.op}" if module == "init" else self.key
        return Spelling(key, self.signature, self.skip, self.later)

    @lazy
    def limits(self) -> tuple[frozenset[str] | None, int]:
        """The names of all parameters, None for any, and how many have a place."""
        kinds = {name: p.kind for name, p in self.signature.parameters.items()}
        some = set(kinds.values())
        most = MOST if inspect.Parameter.VAR_POSITIONAL in some else len(self.names)
        return (None if inspect.Parameter.VAR_KEYWORD in some else frozenset(kinds)), most

    def is_foreign(self, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Whether a call has a name or a place that the function has not."""
        names, most = self.limits
        return len(args) > most or not (names is None or names.issuperset(given))

    def translated(
        self, args: tuple[Any, ...], given: dict[str, Any], op: str | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
        """A call as PyTorch spells it, in our names, and what is to be seen to beside.

        Raises:
            DtypeError: if PyTorch's signature does not allow it.
        """
        try:
            return self.spelling.ours(op or self.op, args, given)
        except TypeError as error:
            raise DtypeError(op or self.op, f"the arguments do not fit: {error}") from None

    @lazy
    def kinds(self) -> dict[str, Kind | None]:
        """What each parameter takes; None: anything."""
        found: dict[str, Kind | None] = {}
        for k, p in enumerate(self.signature.parameters.values()):
            plain = p.kind is not p.VAR_KEYWORD and k >= self.skip
            text = p.annotation if isinstance(p.annotation, str) else ""
            kind = kind_of(text, self.function) if plain and text else None
            if kind is not None and p.default is not p.empty:
                # A default is right by definition, whatever the annotation says.
                kind = Kind(kind.words, [*kind.alternatives, _the_default(p.default)], {*kind.fits})
            found[p.name] = kind
        return found

    @lazy
    def names(self) -> tuple[str, ...]:
        """The parameters that can be given by position."""
        return tuple(
            p.name
            for p in self.signature.parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        )

    def fitting(self, name: str) -> set[type]:
        """Types that pass for a parameter, as far as known from the start."""
        kind = self.kinds[name]
        if kind is None:
            return set()
        also = {int} if kind.whole else set[type]()
        within = (*((Whole,) if kind.several else ()), *((Tensors,) if kind.tensors else ()))
        return {*kind.fits, *also, *within}

    def learn(
        self, args: tuple[Any, ...], given: dict[str, Any], known: dict[str, set[type]]
    ) -> None:
        """Remember the types of tensors, and of what may be anything, that have passed."""
        for name, value in (*zip(self.names, args, strict=False), *given.items()):
            types = known.get(name)
            if types is None or type(value) in types:
                continue
            if self.operator and isinstance(value, SEQUENCES):  # asked about each time
                continue
            kind = self.kinds.get(name)
            if kind is None or (is_tensor(value) and kind.tensor):
                types.add(type(value))
                if kind is not None:
                    TENSORS.add(type(value))

    @lazy
    def rest(self) -> str | None:
        """The name of ``*args`` whose kind is known."""
        found = [p.name for p in self.signature.parameters.values() if p.kind is p.VAR_POSITIONAL]
        return next((name for name in found if self.kinds[name] is not None), None)

    @lazy
    def required(self) -> frozenset[str]:
        """The parameters that a call has to give."""
        every = self.signature.parameters.values()
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return frozenset(p.name for p in every if p.default is p.empty and p.kind not in several)

    @lazy
    def keywords(self) -> frozenset[str]:
        """The parameters that can be given by name."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return frozenset(p.name for p in self.signature.parameters.values() if p.kind in named)

    def passing(
        self, args: tuple[Any, ...], given: dict[str, Any], known: dict[str, set[type]]
    ) -> tuple[tuple[int, Set[type] | None], ...] | None:
        """Whether arguments of such types pass, and which of them depend on more than the type.

        Args:
            args: by position.
            given: by name.
            known: types that fit, by the parameters' names.

        Returns:
            The places of whole numbers, with None, and of sequences, with the types that fit there;
            None if one is of another type.
        """
        more = len(args) - len(self.names)
        if not known or (more > 0 and self.rest is None and self.limits[1] != MOST):
            return None
        rest = None if self.rest is None else known[self.rest]
        fitting = [known[name] for name in self.names[: len(args)]] + [rest] * max(more, 0)
        fitting += [known.get(name, _NONE) for name in given]
        found: list[tuple[int, Set[type] | None]] = []
        for place, (types, value) in enumerate(zip(fitting, (*args, *given.values()), strict=True)):
            kind = type(value)
            if kind is int and (types is None or int in types):
                found.append((place, None))
            elif types is not None and kind not in types:
                if not pass_within(types, value):
                    return None
                found.append((place, types))
            elif types is None and kind in (list, tuple):  # of ``*operands: Any``
                if self.operator or not pass_within(NUMBERS, value):
                    return None  # who takes over is asked each time
                found.append((place, NUMBERS))
            elif types is None and (takes_over(kind) or (self.operator and is_unknown(value))):
                return None
        return tuple(found)

    def are_bound(self, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Whether arguments are each parameter's own, and none is missing; else it is found out."""
        names = self.names
        if len(args) > len(names):
            return False
        by_place = names[: len(args)]
        return (
            self.keywords.issuperset(given)
            and given.keys().isdisjoint(by_place)
            and self.required <= {*by_place, *given}
        )

    def settle(
        self, args: tuple[Any, ...], given: dict[str, Any], op: str | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to go on with.

        Args:
            args: by position.
            given: by name.
            op: the name in errors, if not the door's.

        Raises:
            ClnetError: if one is not what its parameter takes.
        """
        op = op or self.op
        if self.are_bound(args, given):  # to bind takes as long as some ops
            settled = [self._settled(op, *pair) for pair in zip(self.names, args, strict=False)]
            return tuple(settled), {k: self._settled(op, k, value) for k, value in given.items()}
        try:
            bound = self.signature.bind(*args, **given)
        except TypeError as error:
            raise DtypeError(op, f"the arguments do not fit: {error}") from None
        for name, value in bound.arguments.items():
            if name == self.rest and (kind := self.kinds[name]) is not None:
                bound.arguments[name] = tuple(kind(op, name, v) for v in value)
            else:
                bound.arguments[name] = self._settled(op, name, value)
        return bound.args, bound.kwargs

    def _settled(self, op: str, name: str, value: Any) -> Any:
        """What a parameter goes on with."""
        kind = self.kinds[name]
        if kind is None or type(value) in kind.fits or kind.passes(value):
            return value
        default = self.signature.parameters[name].default
        if value is None and isinstance(default, DType):  # PyTorch's default for it
            return default
        found = kind(op, name, value)
        if is_tensor(value) and kind.tensor:
            kind.fits.add(type(value))
        return found


def _the_default(default: Any) -> Convert:
    return lambda op, name, value: value if value is default else NO


_MOST_PASSED = 64  # combinations of types that pass whatever the values are


def checked(
    function: F,
    name: str | None = None,
    *,
    skip: int = 0,
    key: str | None = None,
    known_as: Callable[..., Any] | None = None,
    operator: bool = False,
) -> F:
    """A function whose arguments, but for the first ``skip``, are checked before it runs.

    An ``operator`` gives ``NotImplemented`` for a second operand that Python is to ask.

    Classes that take over are told ``known_as``, or the checked function itself: what programs find
    under the function's name, and compare it with.

    Types that were found to fit are remembered: a call whose arguments have such types costs a look
    at each, no more; one whose arguments have the types of an earlier call's, one look at all.
    """
    door = Door(name or function.__name__, function, skip=skip, key=key)
    door.operator = operator
    known: dict[str, set[type]] = {}
    passed: dict[Any, tuple[tuple[int, Any], ...]] = {}

    @functools.wraps(function)
    def at_the_door(*args: Any, **given: Any) -> Any:
        if ENTERED:
            answer = asked_modes(known_as or at_the_door, args, given)
            if answer is not NotImplemented:
                return answer
        if given:
            values = (*args, *given.values())
            key = (len(args), *given, *map(type, values))
        else:
            values, key = args, tuple(map(type, args))
        looked_into = passed.get(key)
        if looked_into is None:
            looked_into = door.passing(args, given, known)
            if looked_into is not None and len(passed) < _MOST_PASSED:
                passed[key] = looked_into
        if looked_into is not None:
            for place, types in looked_into:
                if types is None:
                    if not LEAST <= values[place] <= MOST:
                        break
                elif not pass_within(types, values[place]):
                    break
            else:
                try:
                    return function(*args, **given)
                except TypeError:
                    if not door.is_foreign(args, given):
                        raise
        return _looked_at(door, at_the_door, known_as or at_the_door, known, args, given)

    at_the_door.__door__ = door  # pyrefly: ignore[missing-attribute] - for whoever looks at it
    return at_the_door  # pyrefly: ignore[bad-return] - it takes and gives the same


def _looked_at(
    door: Door,
    at_the_door: Callable[..., Any],
    known_as: Callable[..., Any],
    known: dict[str, set[type]],
    args: tuple[Any, ...],
    given: dict[str, Any],
) -> Any:
    """A call whose arguments are not all of types that are known to fit.

    Args:
        door: the function's.
        at_the_door: the checked function.
        known_as: what classes that take over are told was called.
        known: types that fit, by the parameters' names; filled at the first call.
        args: by position.
        given: by name.
    """
    if known and (turned := _with_tuples(door, known, args, given)) is not None:
        return at_the_door(*turned[0], **turned[1])
    for value in (*args, *given.values()):
        called = getattr(type(value), "__clnet_called__", None)
        if called is not None:  # it knows what an op makes of it
            return called(value, door.op, known_as, args, given)
    kinds = taking_over((*args, *given.values()))
    if kinds and mode.current().takes_over:
        return call_over(kinds, known_as, args, given)
    if door.operator and is_left_to_python(door.op, args):
        return NotImplemented
    if door.is_foreign(args, given):
        args, given, beside = door.translated(args, given)
        out = beside.get("out")
        result = at_the_door(*args, **made_for(door.op, out, given))
        return result if out is None else written(door.op, result, out)
    if not known:  # whole at once: other threads look there meanwhile
        known.update({name: door.fitting(name) for name in door.kinds})
    args, given = door.settle(args, given)
    if not kinds:  # else they would pass from now on, unseen
        door.learn(args, given, known)
    return door.function(*args, **given)


def _with_tuples(
    door: Door, known: dict[str, set[type]], args: tuple[Any, ...], given: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """A call with tuples for its lists of whole numbers, which pass by their types; None: as it is.

    Sizes and axes are written as lists more often than not.
    """
    if list not in map(type, (*args, *given.values())):
        return None

    def turned(name: str | None, value: Any) -> Any:
        if type(value) is not list or Whole not in known.get(name or "", _NONE):
            return value
        numbers = tuple(value)
        return numbers if are_whole(numbers) else value

    names = (*door.names, *(door.rest,) * max(len(args) - len(door.names), 0))
    by_place = tuple(map(turned, names, args))
    by_name = {name: turned(name, value) for name, value in given.items()}
    values = (*by_place, *by_name.values())
    if list(map(type, values)) == list(map(type, (*args, *given.values()))):
        return None
    # Who takes over, or converts what else is given, gets the lists.
    return None if door.passing(by_place, by_name, known) is None else (by_place, by_name)


def checked_class(cls: type, later: Collection[str] = ()) -> None:
    """Check what a class's own ``__init__`` and ``forward`` take, under the class's name.

    Args:
        cls: the class.
        later: parameters of PyTorch's that ``__init__`` does not have: what is given for ``name``
            goes to the method ``_take_name`` afterwards.
    """
    forward = vars(cls).get("forward")
    if forward is not None and "Tensor" in forward.__annotations__.values():
        name = cls.__name__.strip("_")
        # Its key is none of the file's: what stands there under the class's name is __init__.
        cls.forward = checked(forward, name, skip=1, key=f"{name}.forward")
    own = vars(cls).get("__init__")
    if own is None:
        return
    door = Door(cls.__name__, own, skip=1)
    door.later = later

    @functools.wraps(own)
    def at_the_door(self: Any, *args: Any, **given: Any) -> None:
        name = type(self).__name__
        args = (self, *args)
        beside: dict[str, Any] = {}
        if door.is_foreign(args, given):
            args, given, beside = door.translated(args, given, name)
        args, given = door.settle(args, given, name)
        own(*args, **given)
        for key, value in beside.items():
            take = f"_take_{key}"
            taken, _ = Door(name, getattr(cls, take), skip=1).settle((self, value), {}, name)
            getattr(self, take)(*taken[1:])

    at_the_door.__door__ = door  # pyrefly: ignore[missing-attribute] - for whoever looks at it
    cls.__init__ = at_the_door


__all__ = [
    "Door",
    "checked",
    "checked_class",
    "integer",
    "integers",
    "is_iterable",
    "is_sequence",
    "is_tensor",
    "named",
    "number",
    "require_tensors",
    "shown",
]
