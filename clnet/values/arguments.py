"""Arguments at the door: what a signature says of them is checked once, before anything runs.

A parameter's annotation says what it takes: ``dim: int | None``, ``weight: Tensor``. From it come
the types that pass as they are and, for all others, a conversion (NumPy's numbers and arrays
without axes, a dtype's other spellings) or an error that names the op, the parameter and what came.
What depends on several arguments, or on shapes, is checked by the op.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from ..errors import ArgumentError, DtypeError
from .dtypes import DType, as_dtype
from .generator import Generator
from .lazy import lazy

F = TypeVar("F", bound=Callable[..., Any])
Convert = Callable[[str, str, Any], Any]
"""``convert(op, name, value)`` gives the value to go on with, or raises."""

LEAST, MOST = -(2**63), 2**63 - 1
_LONGEST = 80
_NUMBERS = frozenset({bool, int, float})
_NONE: frozenset[type] = frozenset()
_NO = object()
"""What an alternative gives for a value that it does not take."""


def shown(value: object) -> str:
    """A value as errors print it: its type where it is long, or waits for a device."""
    if isinstance(value, (bool, int, float, str, bytes, type(None), np.generic)):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a huge int"
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if is_tensor(value):
        return f"a tensor of shape {value.shape}"  # pyright: ignore[reportAttributeAccessIssue] - it is one
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple | list) and len(value) <= 8:
        inside = ", ".join(map(shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return f"{type(value).__name__}"


def is_tensor(value: object) -> bool:
    """Whether ops apply to it."""
    return hasattr(type(value), "__apply_function__")


def require_tensors(op: str, **values: Any) -> None:
    """Check that arguments are tensors.

    Raises:
        DtypeError: if one is not.
    """
    for name, value in values.items():
        if not is_tensor(value):
            hint = "Make one with clnet.tensor(...)"
            raise DtypeError(op, f"{name} is a tensor", **{name: shown(value)}, remedy=hint)


def integer(op: str, name: str, value: Any) -> int:
    """A whole number of at most 64 bits, whoever's type it is.

    Raises:
        DtypeError: if it is none.
        ArgumentError: if it has more bits.
    """
    found = _integer(value)
    if found is _NO:
        raise DtypeError(op, f"{name} is a whole number", **{name: shown(value)})
    if not LEAST <= found <= MOST:
        raise ArgumentError(op, f"{name} has at most 64 bits", **{name: shown(found)})
    return found


def number(op: str, name: str, value: Any) -> bool | int | float:
    """A number of Python, NumPy or a tensor without axes, as Python's.

    Raises:
        DtypeError: if it is none.
        ArgumentError: if it is whole and has more than 64 bits.
    """
    found = _number(value)
    if found is _NO:
        raise DtypeError(op, f"{name} is a number", **{name: shown(value)})
    if type(found) is int and not LEAST <= found <= MOST:
        raise ArgumentError(
            op, f"{name} has at most 64 bits", **{name: shown(found)}, remedy="Give it as a float"
        )
    return found


def integers(op: str, name: str, values: Any) -> tuple[int, ...]:
    """Several whole numbers.

    Raises:
        DtypeError: if it is not a sequence of them.
    """
    if isinstance(values, tuple) and all(type(v) is int and LEAST <= v <= MOST for v in values):
        return values
    if not _is_sequence(values):
        raise DtypeError(op, f"{name} is a sequence of whole numbers", **{name: shown(values)})
    return tuple(integer(op, name, v) for v in values)


def _integer(value: Any) -> Any:
    if isinstance(value, Integral):
        return _NO if isinstance(value, bool) else int(value)
    kind = getattr(value, "dtype", None)
    if kind is not None and getattr(value, "shape", None) == ():
        whole = kind.kind in "iub" if isinstance(kind, np.dtype) else not kind.is_floating_point
        return int(value) if whole else _NO
    return _NO


def _number(value: Any) -> Any:
    kind = type(value)
    if kind in _NUMBERS:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if is_tensor(value):
        return value.item() if value.shape == () else _NO
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "fiub":
        return value.item()
    return _NO


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


# Alternatives: each gives the value to go on with, or _NO. Errors of range they raise themselves.


def _as_int(op: str, name: str, value: Any) -> Any:
    return _NO if _integer(value) is _NO else integer(op, name, value)


def _as_float(op: str, name: str, value: Any) -> Any:
    return _NO if _number(value) is _NO else number(op, name, value)


def _as_bool(op: str, name: str, value: Any) -> Any:
    return bool(value) if isinstance(value, bool | np.bool_) else _NO


def _as_dtype(op: str, name: str, value: Any) -> Any:
    try:
        return as_dtype(value)
    except DtypeError:
        return _NO


def _exactly(kind: type) -> Convert:
    return lambda op, name, value: value if isinstance(value, kind) else _NO


def _as_operand(op: str, name: str, value: Any) -> Any:
    return value if is_tensor(value) or hasattr(value, "value") else _as_float(op, name, value)


def _sequence_of(element: Convert, made: type = tuple) -> Convert:
    def convert(op: str, name: str, value: Any) -> Any:
        if not _is_sequence(value):
            return _NO
        found = [element(op, name, v) for v in value]
        return _NO if any(v is _NO for v in found) else made(found)

    return convert


def _iterable(op: str, name: str, value: Any) -> Any:
    refused = isinstance(value, str | bytes | Mapping) or is_tensor(value)
    refused = refused or getattr(value, "shape", None) == ()  # NumPy's, which calls itself iterable
    return value if isinstance(value, Iterable) and not refused else _NO


def _iterable_of(element: Convert) -> Convert:
    """Elements are looked at where that takes none away: those of an iterator are not."""

    def convert(op: str, name: str, value: Any) -> Any:
        if _iterable(op, name, value) is _NO or isinstance(value, Iterator):
            return _iterable(op, name, value)
        return _NO if any(element(op, name, v) is _NO for v in value) else value

    return convert


_ATOMS: dict[str, tuple[str, Convert]] = {
    "Tensor": ("a tensor", lambda op, name, value: value if is_tensor(value) else _NO),
    "Parameter": ("a tensor", lambda op, name, value: value if is_tensor(value) else _NO),
    "int": ("a whole number", _as_int),
    "float": ("a number", _as_float),
    "bool": ("a bool", _as_bool),
    "str": ("a string", _exactly(str)),
    "None": ("None", lambda op, name, value: None if value is None else _NO),
    "DType": ("a dtype", _as_dtype),
    "Generator": ("a clnet.Generator", _exactly(Generator)),
    "HostScalar": ("a cell", lambda op, name, value: value if hasattr(value, "value") else _NO),
    "Operand": ("a tensor or a number", _as_operand),
    "Callable": ("a function", lambda op, name, value: value if callable(value) else _NO),
    "Number": ("a number", _as_float),
    "Iterable": ("a sequence", _iterable),
}
_SEQUENCES = {"Sequence", "tuple", "list", "Tuple", "List"}


class Kind:
    """What a parameter takes.

    Attributes:
        what: in words.
        fits: types whose values pass as they are.
        alternatives: conversions for the others, in order.
    """

    def __init__(self, words: list[str], alternatives: list[Convert], fits: set[type]) -> None:
        self.words = words
        self.what = " or ".join(dict.fromkeys(words))
        self.alternatives = alternatives
        self.fits = fits
        self.tensor = any(word.startswith("a tensor") for word in words)
        self.whole = "a whole number" in words or "a number" in words
        self.several = any(word.startswith("a sequence of whole numbers") for word in words)

    def passes(self, value: Any) -> bool:
        """Whether whole numbers are such, of few enough bits."""
        if type(value) is int:
            return self.whole and LEAST <= value <= MOST
        if self.several and isinstance(value, tuple):
            return all(type(v) is int and LEAST <= v <= MOST for v in value)
        return False

    def __call__(self, op: str, name: str, value: Any) -> Any:
        """The value to go on with.

        Raises:
            DtypeError: if it is of another kind.
        """
        for convert in self.alternatives:
            found = convert(op, name, value)
            if found is not _NO:
                return found
        hint = "Make one with clnet.tensor(...)" if self.what.startswith("a tensor") else None
        raise DtypeError(op, f"{name} is {self.what}", **{name: shown(value)}, remedy=hint)


_FITS: dict[str, tuple[type, ...]] = {
    "float": (float, bool),
    "bool": (bool,),
    "str": (str,),
    "None": (type(None),),
    "DType": (DType,),
    "Generator": (Generator,),
}
"""Types that pass for an annotation; an ``int`` is looked at, because it may have too many bits."""


def _parse(
    node: ast.expr, names: Mapping[str, Any]
) -> tuple[list[str], list[Convert], set[type]] | None:
    """Words, conversions and fitting types of an annotation; None: anything goes."""
    if isinstance(node, ast.BinOp):
        sides = _parse(node.left, names), _parse(node.right, names)
        if sides[0] is None or sides[1] is None:
            return None
        return tuple(a + b if isinstance(a, list) else a | b for a, b in zip(*sides, strict=True))  # pyright: ignore
    if isinstance(node, ast.Constant) and node.value is None:
        return _atom("None")
    if isinstance(node, ast.Subscript):
        return _subscript(node, names)
    word = ast.unparse(node).split(".")[-1]
    if word in _ATOMS:
        return _atom(word)
    alias = names.get(word)
    if alias is None or alias is Any:
        return None
    if inspect.isclass(alias):
        return [f"a {word}"], [_exactly(alias)], {alias}
    text = (
        str(alias)
        .replace("typing.", "")
        .replace("collections.abc.", "")
        .replace("NoneType", "None")
    )
    try:
        return _parse(ast.parse(text, mode="eval").body, {})
    except SyntaxError:
        return None


def _atom(word: str) -> tuple[list[str], list[Convert], set[type]]:
    what, convert = _ATOMS[word]
    return [what], [convert], set(_FITS.get(word, ()))


def _subscript(
    node: ast.Subscript, names: Mapping[str, Any]
) -> tuple[list[str], list[Convert], set[type]] | None:
    word = ast.unparse(node.value).split(".")[-1]
    if word == "Callable":
        return _atom("Callable")
    if word not in {*_SEQUENCES, "Iterable"}:
        return None
    inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    found = _parse(inner, names)
    if found is None and word == "Iterable":
        return _atom("Iterable")
    if found is None:
        return (
            ["a sequence"],
            [lambda op, name, value: value if _is_sequence(value) else _NO],
            set(),
        )
    words, alternatives, _ = found
    plural = {"None": "None", "a bool": "bools"}
    what = " or ".join(plural.get(w, w.removeprefix("a ") + "s") for w in words)
    either = alternatives[0] if len(alternatives) == 1 else _first(alternatives)
    made = _iterable_of if word == "Iterable" else _sequence_of
    return [f"a sequence of {what}"], [made(either)], set()


def _first(alternatives: list[Convert]) -> Convert:
    def convert(op: str, name: str, value: Any) -> Any:
        tried = (a(op, name, value) for a in alternatives)
        return next((v for v in tried if v is not _NO), _NO)

    return convert


@functools.cache
def _kind(annotation: str, function: Callable[..., Any]) -> Kind | None:
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        found = _parse(ast.parse(annotation, mode="eval").body, names)
    except SyntaxError:
        return None
    return None if found is None else Kind(*found)


class Door:
    """The kinds of a function's parameters, found at its first call.

    Args:
        op: the name in errors.
        function: what is called.
        skip: how many parameters come before the user's.
    """

    def __init__(self, op: str, function: Callable[..., Any], *, skip: int = 0) -> None:
        self.op = op
        self.function = function
        self.skip = skip

    @lazy
    def signature(self) -> inspect.Signature:
        """The function's."""
        return inspect.signature(self.function)

    @lazy
    def kinds(self) -> dict[str, Kind | None]:
        """What each parameter takes; None: anything."""
        found: dict[str, Kind | None] = {}
        for k, p in enumerate(self.signature.parameters.values()):
            plain = p.kind is not p.VAR_KEYWORD and k >= self.skip
            text = p.annotation if isinstance(p.annotation, str) else ""
            kind = _kind(text, self.function) if plain and text else None
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
        return set() if kind is None else {*kind.fits, int} if kind.whole else {*kind.fits}

    def learn(
        self, args: tuple[Any, ...], given: dict[str, Any], known: dict[str, set[type]]
    ) -> None:
        """Remember the types of tensors, and of what may be anything, that have passed."""
        for name, value in (*zip(self.names, args, strict=False), *given.items()):
            kind = self.kinds.get(name)
            if name in known and (kind is None or (is_tensor(value) and kind.tensor)):
                known[name].add(type(value))

    @lazy
    def positional(self) -> tuple[Kind | None, ...]:
        """What each parameter that can be given by position takes."""
        return tuple(self.kinds[name] for name in self.names)

    @lazy
    def rest(self) -> str | None:
        """The name of ``*args`` whose kind is known."""
        found = [p.name for p in self.signature.parameters.values() if p.kind is p.VAR_POSITIONAL]
        return next((name for name in found if self.kinds[name] is not None), None)

    def passes(self, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Whether all arguments are as they should be; what costs time at every call."""
        for value, kind in zip(args, self.positional, strict=False):
            if kind is not None and type(value) not in kind.fits and not kind.passes(value):
                return False
        if self.rest is not None and len(args) > len(self.positional):
            return False
        kinds = self.kinds
        for name, value in given.items():
            if name not in kinds:
                return False
            kind = kinds[name]
            if kind is not None and type(value) not in kind.fits and not kind.passes(value):
                return False
        return True

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
        try:
            bound = self.signature.bind(*args, **given)
        except TypeError as error:
            raise DtypeError(op or self.op, f"it is called otherwise: {error}") from None
        for name, value in bound.arguments.items():
            kind = self.kinds[name]
            if kind is not None and name == self.rest:
                bound.arguments[name] = tuple(kind(op or self.op, name, v) for v in value)
                continue
            if kind is None or type(value) in kind.fits or kind.passes(value):
                continue
            bound.arguments[name] = kind(op or self.op, name, value)
            if is_tensor(value) and kind.tensor:
                kind.fits.add(type(value))
        return bound.args, bound.kwargs


def _the_default(default: Any) -> Convert:
    return lambda op, name, value: value if value is default else _NO


def checked(function: F, name: str | None = None, *, skip: int = 0) -> F:
    """A function whose arguments, but for the first ``skip``, are checked before it runs.

    Types that were found to fit are remembered: a call whose arguments have such types costs a look
    at each, no more.
    """
    door = Door(name or function.__name__, function, skip=skip)
    known: list[set[type]] = []
    by_name: dict[str, set[type]] = {}

    def look() -> None:
        """Find out what fits, at the first call."""
        by_name.update((name, door.fitting(name)) for name in door.kinds)
        known[:] = [by_name[name] for name in door.names]

    @functools.wraps(function)
    def at_the_door(*args: Any, **given: Any) -> Any:
        for value, types in zip(args, known, strict=False):
            kind = type(value)
            if kind not in types or (kind is int and not LEAST <= value <= MOST):
                break
        else:
            if by_name:
                for key, value in given.items():
                    kind = type(value)
                    if kind not in by_name.get(key, _NONE) or kind is int:
                        break
                else:
                    return function(*args, **given)
        if not by_name and door.rest is None:
            look()
        if not door.passes(args, given):
            args, given = door.settle(args, given)
        door.learn(args, given, by_name)
        return function(*args, **given)

    at_the_door.__door__ = door  # pyright: ignore[reportAttributeAccessIssue] - for who looks at it
    return at_the_door  # pyright: ignore[reportReturnType] - it takes and gives the same


def checked_class(cls: type) -> None:
    """Check what a class's own ``__init__`` and ``forward`` take, under the class's name."""
    forward = vars(cls).get("forward")
    if forward is not None and "Tensor" in forward.__annotations__.values():
        cls.forward = checked(forward, cls.__name__.strip("_"), skip=1)  # pyright: ignore[reportAttributeAccessIssue] - it has one
    own = vars(cls).get("__init__")
    if own is None:
        return
    door = Door(cls.__name__, own, skip=1)

    @functools.wraps(own)
    def at_the_door(self: Any, *args: Any, **given: Any) -> None:
        args, given = door.settle((self, *args), given, type(self).__name__)
        own(*args, **given)

    cls.__init__ = at_the_door


__all__ = [
    "Door",
    "checked",
    "checked_class",
    "integer",
    "integers",
    "is_tensor",
    "number",
    "require_tensors",
    "shown",
]
