"""What `test_architecture.py` asks of Python files, found in one pass over a file's syntax tree.

The trees of all files are millions of objects, which Python's collector would look through again
and again: a tree goes as soon as its facts are noted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

TYPE_CHECKING = "TYPE_CHECKING"  # pyrefly: ignore[invalid-type-checking-constant] - its name


class Import(NamedTuple):
    """One name of an import: ``from ..module import name as alias``, or ``import module``."""

    module: str
    name: str | None  # None of ``import module``
    alias: str | None
    level: int  # how many dots
    depth: int  # in how many functions
    at_run_time: bool  # not under ``if TYPE_CHECKING``


class Name(NamedTuple):
    """What is named: an attribute, what is defined or imported, or a string that is a name."""

    line: int
    name: str
    is_text: bool


class Call(NamedTuple):
    """A call of ``function`` or of ``module.function``."""

    line: int
    function: str


class Function(NamedTuple):
    """A function, and its lines from ``def`` to the end without the docstring."""

    name: str
    lines: int


class Class(NamedTuple):
    """A class, the last names of its bases, and its methods, each with whether it has a docstring.

    Methods are those that are written in the class itself, and no coroutines.
    """

    name: str
    bases: tuple[str, ...]
    methods: tuple[tuple[str, bool], ...]


class Facts(NamedTuple):
    """All that is noted of a file."""

    imports: list[Import]
    names: list[Name]
    calls: list[Call]
    functions: list[Function]
    classes: list[Class]
    private: list[tuple[str, str]]  # `a._b`


@cache
def facts(text: str) -> Facts:
    """What is in a file.

    Args:
        text: its Python.
    """
    found = Facts([], [], [], [], [], [])
    for node, depth, at_run_time in _nodes(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.extend(_imports(node, depth, at_run_time))
        elif isinstance(node, ast.Call):
            if (function := _dotted(node.func)) is not None:
                found.calls.append(Call(node.lineno, function))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.functions.append(Function(node.name, _length(node)))
        elif isinstance(node, ast.ClassDef):
            found.classes.append(_class(node))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            found.private.append((ast.unparse(node.value), node.attr))
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.isidentifier():
                found.names.append(Name(node.lineno, node.value, True))
        elif isinstance(name := getattr(node, "attr", None) or getattr(node, "name", None), str):
            found.names.append(Name(getattr(node, "lineno", 0), name, False))
    return found


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, int, bool]]:
    """All nodes, each with its depth in functions, and whether it is there at run time."""
    to_do: list[tuple[ast.AST, int, bool]] = [(tree, 0, True)]
    while to_do:
        node, depth, at_run_time = to_do.pop()
        yield node, depth, at_run_time
        depth += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types = isinstance(node, ast.If) and _asks_for_types(node.test)
        for field in node._fields:
            value = getattr(node, field, None)
            there = at_run_time and (field == "orelse" or not for_types)
            for child in value if isinstance(value, list) else (value,):
                if not isinstance(child, ast.AST) or isinstance(child, ast.expr_context):
                    continue
                to_do.append((child, depth, there))


def _asks_for_types(test: ast.expr) -> bool:
    return any(
        TYPE_CHECKING in (getattr(node, "id", None), getattr(node, "attr", None))
        for node in ast.walk(test)
    )


def _imports(node: ast.Import | ast.ImportFrom, depth: int, at_run_time: bool) -> Iterator[Import]:
    for each in node.names:
        if isinstance(node, ast.Import):
            yield Import(each.name, None, each.asname, 0, depth, at_run_time)
        else:
            module = node.module or ""
            yield Import(module, each.name, each.asname, node.level, depth, at_run_time)


def _dotted(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return None


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    # Documentation is not to be saved on.
    first = node.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if _documented(node) else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def _documented(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def _class(node: ast.ClassDef) -> Class:
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    bases = tuple(ast.unparse(base).split(".")[-1] for base in plain)
    methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
    return Class(node.name, bases, tuple((each.name, _documented(each)) for each in methods))
