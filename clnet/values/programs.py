"""What is the program's own, and which attributes of its objects compiled functions may read.

An attribute counts whose name occurs in code that may run: a meter's sum, which the step does not
read, may be another at every call. All plain attributes of an object count where code reads some
without their names (``vars``), or where the object's class is a library's, whose methods may read
what they name in code that is not looked at. What a compiled function finds outside is asked so of
that function's code (``compile/outer.py``); modules, which tell when one is assigned, ask of the
code of all functions that were compiled (:class:`Names`).
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["NAMES", "Names", "is_librarys", "is_plain", "is_programs", "is_programs_code"]

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = (_OURS, sysconfig.get_paths()["stdlib"], "<frozen")


def is_programs(value: Any) -> bool:
    """Whether a function, class or module is the program's own, not a library's.

    So is a class whose module was run and not kept (``exec``, ``runpy``), and a module that was
    not imported (``ModuleType("settings")``).
    """
    if isinstance(value, FunctionType):
        place = value.__code__.co_filename
    else:
        name = value.__name__ if isinstance(value, ModuleType) else value.__module__
        module = value if isinstance(value, ModuleType) else sys.modules.get(name)
        place = getattr(module, "__file__", None)
        if place is None:  # typed in, run and not kept, made by the program, or built in
            return getattr(module, "__spec__", None) is None
    return _is_programs_file(place)


def is_librarys(function: FunctionType) -> bool:
    """Whether a function is neither the program's, nor Python's, nor ours, nor NumPy's."""
    place = function.__code__.co_filename
    ours = place.startswith(_OURS) or function.__module__.partition(".")[0] == "numpy"
    return "-packages" in place and not ours


def is_programs_code(code: CodeType) -> bool:
    """Whether code is the program's own."""
    return _is_programs_file(code.co_filename)


@lru_cache(4096)
def _is_programs_file(place: str) -> bool:
    return "-packages" not in place and not place.startswith(_LIBRARIES)


def is_plain(kind: type, known: Iterable[type] = ()) -> bool:
    """Whether a class inherits from those of the program and of Python alone, whose code is known.

    Args:
        kind: the class.
        known: others whose code reads nothing of the program's.
    """
    bases = {base for base in kind.__mro__ if not is_programs(base)} - {*known}
    return all(base.__module__.partition(".")[0] in sys.stdlib_module_names for base in bases)


class Names:
    """The names in the code of all functions that were compiled.

    Attributes:
        names: of attributes, and all else.
    """

    def __init__(self) -> None:
        self.names = {"training"}
        self._plain: WeakKeyDictionary[type, bool] = WeakKeyDictionary()

    def look_at(self, kinds: Iterable[type]) -> None:
        """Let all attributes of objects of these classes count: code may not name what it reads."""
        self._plain.update(dict.fromkeys(kinds, False))

    def counts(self, kind: type, name: str, known: Callable[[type], Iterable[type]]) -> bool:
        """Whether a compiled function may read this attribute of an object.

        Args:
            kind: the object's class.
            name: the attribute's.
            known: of a class what :func:`is_plain` is told.
        """
        if name in self.names:
            return True
        plain = self._plain.get(kind)
        if plain is None:
            plain = self._plain[kind] = is_plain(kind, known(kind))
        return not plain


NAMES = Names()
"""Those of this process."""
