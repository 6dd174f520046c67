"""What an annotation says of a parameter: types that pass, and conversions of others."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import numpy as np

from ..errors import DtypeError, KindError
from .dtypes import DType, as_dtype
from .generator import Generator
from .plain import (
    LEAST,
    MOST,
    NO,
    integer,
    is_iterable,
    is_operand,
    is_sequence,
    is_tensor,
    number,
    number_or_no,
    shown,
    whole_or_no,
)

__all__ = [
    "NUMBERS",
    "TENSORS",
    "Convert",
    "Kind",
    "Tensors",
    "Whole",
    "are_whole",
    "kind_of",
    "pass_within",
]

Convert = Callable[[str, str, Any], Any]
"""``convert(op, name, value)`` gives the value to go on with, or raises."""


class Tensors(tuple[Any, ...]):
    """Among the types that pass it stands for lists and tuples of tensors."""


TENSORS: set[type] = set()
"""Classes of tensors that have passed somewhere, which take over nothing that is called."""
_PLAIN = (list, tuple)


class Whole(tuple[int, ...]):
    """Among the types that pass it stands for tuples of whole numbers, which are looked into."""


class Numbers(tuple[int, ...]):
    """Of a parameter that takes anything it stands for lists and tuples of whole numbers."""


NUMBERS: frozenset[type] = frozenset({Numbers})


# Alternatives: each gives the value to go on with, or NO. Errors of range they raise themselves.


def _as_int(op: str, name: str, value: Any) -> Any:
    return NO if whole_or_no(value) is NO else integer(op, name, value)


def _as_float(op: str, name: str, value: Any) -> Any:
    return NO if number_or_no(value) is NO else number(op, name, value)


def _as_bool(op: str, name: str, value: Any) -> Any:
    flag = op[:1].isupper() and type(value) is int  # classes are Python's in PyTorch: 1 is true
    return bool(value) if flag or isinstance(value, bool | np.bool_) else NO


def _as_dtype(op: str, name: str, value: Any) -> Any:
    try:
        return as_dtype(value)
    except DtypeError:
        return NO


def _exactly(kind: type) -> Convert:
    return lambda op, name, value: value if isinstance(value, kind) else NO


def _as_complex(op: str, name: str, value: Any) -> Any:
    """A number, also a complex one."""
    kind = value.dtype.kind if isinstance(value, np.ndarray) and value.shape == () else ""
    if isinstance(value, complex | np.complexfloating) or kind == "c":
        return complex(value)
    return _as_float(op, name, value)


def _as_operand(op: str, name: str, value: Any) -> Any:
    return value if is_operand(value) else _as_complex(op, name, value)


def _sequence_of(element: Convert, made: type = tuple) -> Convert:
    def convert(op: str, name: str, value: Any) -> Any:
        if not is_sequence(value):
            return NO
        found = [element(op, name, v) for v in value]
        return NO if any(v is NO for v in found) else made(found)

    return convert


def _iterable(op: str, name: str, value: Any) -> Any:
    refused = isinstance(value, str | bytes | Mapping) or is_tensor(value)
    return value if is_iterable(value) and not refused else NO


def _iterable_of(element: Convert) -> Convert:
    """Elements are looked at where that takes none away: those of an iterator are not."""

    def convert(op: str, name: str, value: Any) -> Any:
        if _iterable(op, name, value) is NO or isinstance(value, Iterator):
            return _iterable(op, name, value)
        return NO if any(element(op, name, v) is NO for v in value) else value

    return convert


_ATOMS: dict[str, tuple[str, Convert]] = {
    "Tensor": ("a tensor", lambda op, name, value: value if is_tensor(value) else NO),
    "Parameter": ("a tensor", lambda op, name, value: value if is_tensor(value) else NO),
    "int": ("a whole number", _as_int),
    "float": ("a number", _as_float),
    "bool": ("a bool", _as_bool),
    "str": ("a string", _exactly(str)),
    "None": ("None", lambda op, name, value: None if value is None else NO),
    "DType": ("a dtype", _as_dtype),
    "Generator": ("a clnet.Generator", _exactly(Generator)),
    "HostScalar": ("a cell", lambda op, name, value: value if hasattr(value, "value") else NO),
    "Operand": ("a tensor or a number", _as_operand),
    "Callable": ("a function", lambda op, name, value: value if callable(value) else NO),
    "Number": ("a number", _as_complex),
    "complex": ("a number", _as_complex),
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
        self.whole = any(word.endswith(("a whole number", "a number")) for word in words)
        self.several = any(word.startswith("a sequence of whole numbers") for word in words)
        self.tensors = any(word == "a sequence of tensors" for word in words)

    def passes(self, value: Any) -> bool:
        """Whether whole numbers are such, of few enough bits."""
        if type(value) is int:
            return self.whole and LEAST <= value <= MOST
        return self.several and are_whole(value)

    def __call__(self, op: str, name: str, value: Any) -> Any:
        """The value to go on with.

        Raises:
            DtypeError: if it is of another kind.
        """
        for convert in self.alternatives:
            found = convert(op, name, value)
            if found is not NO:
                return found
        hint = "Make one with clnet.tensor(...)" if self.what.startswith("a tensor") else None
        raise KindError(op, f"{name} is {self.what}", **{name: shown(value)}, remedy=hint)


def pass_within(types: Set[type], value: Any) -> bool:
    """Whether a sequence's elements are such as its parameter takes, as they are.

    Args:
        types: that pass for the parameter; :class:`Whole` and :class:`Tensors` among them say which
            elements do.
        value: what is given.
    """
    if types is NUMBERS:
        return type(value) in _PLAIN and are_whole(tuple(value))
    if Whole in types and are_whole(value):
        return True
    return Tensors in types and type(value) in _PLAIN and TENSORS.issuperset(map(type, value))


def are_whole(values: Any) -> bool:
    """Whether it is a tuple of whole numbers of at most 64 bits, as Python's."""
    if not isinstance(values, tuple):
        return False
    for v in values:  # noqa: SIM110 - a generator takes three times as long
        if type(v) is not int or not LEAST <= v <= MOST:
            return False
    return True


_FITS: dict[str, tuple[type, ...]] = {
    "float": (float, bool),
    "complex": (complex, float, bool),
    "Number": (complex, float, bool),
    "Operand": (complex, float, bool),
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
        return tuple(a + b if isinstance(a, list) else a | b for a, b in zip(*sides, strict=True))  # pyrefly: ignore[no-matching-overload]
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
            [lambda op, name, value: value if is_sequence(value) else NO],
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
        return next((v for v in tried if v is not NO), NO)

    return convert


@functools.cache
def kind_of(annotation: str, function: Callable[..., Any]) -> Kind | None:
    """What a function's parameter of an annotation takes; None: anything."""
    # Of its module, and not its globals: a declared constructor's are those of its maker.
    names = vars(sys.modules[inspect.unwrap(function).__module__])
    try:
        found = _parse(ast.parse(annotation, mode="eval").body, names)
    except SyntaxError:
        return None
    return None if found is None else Kind(*found)
