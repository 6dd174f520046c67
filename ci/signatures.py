#!/usr/bin/env python3
"""Compare the signature of every public name with PyTorch's, and write docs/differences.md.

    python ci/signatures.py [--check] [--least SHARE] [--list]

A name agrees if each call that PyTorch's signature allows is one that clnet's allows with the same
meaning: every parameter is there by its name, at its place where it has one, with an equal default.
What clnet takes beyond that does not count. Needs PyTorch, the ``torch`` extra.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributions
import torch.overrides
import torch.utils.data

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from ci.signature_reasons import KNOWN, LEFT_OUT, REASONS, ROOMS
from clnet.values.spelling import ALSO, FIRST, INERT

LEAST = 0.95
PAGE = Path(__file__).parents[1] / "docs" / "differences.md"
Parameter = inspect.Parameter
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Section(NamedTuple):
    """Names found at one place: ``torch.nn`` and ``clnet.nn``, say."""

    title: str
    place: str
    wanted: Callable[[str, Any], bool]


def _documented(name: str, value: Any) -> bool:
    """Whether a function is of those that PyTorch's pages describe: others have no docstring."""
    return callable(value) and not inspect.isclass(value) and bool(inspect.getdoc(value))


def _classes(base: Any) -> Callable[[str, Any], bool]:
    return lambda name, value: inspect.isclass(value) and issubclass(value, base)


def _exported(module: Any) -> Callable[[str, Any], bool]:
    return lambda name, value: name in module.__all__ and callable(value)


def _torch_function(name: str, value: Any) -> bool:
    if not _documented(name, value) or inspect.ismodule(value):
        return False
    return inspect.isbuiltin(value) or str(getattr(value, "__module__", "")).startswith("torch")


SECTIONS = (
    Section("torch", "", _torch_function),
    Section("Tensor", "Tensor", _documented),
    Section("nn", "nn", _classes(torch.nn.Module)),
    Section("nn.functional", "nn.functional", _torch_function),
    Section("nn.init", "nn.init", lambda n, v: inspect.isfunction(v)),
    Section("optim", "optim", _classes(torch.optim.Optimizer)),
    Section(
        "optim.lr_scheduler", "optim.lr_scheduler", _classes(torch.optim.lr_scheduler.LRScheduler)
    ),
    Section("linalg", "linalg", _documented),
    Section("special", "special", _documented),
    Section("fft", "fft", _documented),
    Section("distributions", "distributions", _exported(torch.distributions)),
    Section("utils.data", "utils.data", _exported(torch.utils.data)),
)


def names(section: Section) -> dict[str, Any]:
    """What PyTorch has there that counts."""
    place = _at(torch, section.place)
    found = {n: getattr(place, n) for n in dir(place) if not n.startswith("_")}
    skipped = re.compile(LEFT_OUT.get(section.title, "(?!)"))
    return {n: v for n, v in found.items() if section.wanted(n, v) and not skipped.fullmatch(n)}


def _at(package: Any, place: str) -> Any:
    return reduce(getattr, filter(None, place.split(".")), package)


# PyTorch's signatures.


@cache
def _overrides() -> dict[Any, Callable[..., Any]]:
    return torch.overrides.get_testing_overrides()


def theirs(name: str, value: Any, *, method: bool) -> inspect.Signature | None:
    """PyTorch's signature: Python's, else of the docstring's first line, else of its own tests."""
    known = KNOWN.get(f"Tensor.{name}" if method else "", KNOWN.get(name))
    if known is not None:
        return _from_docstring(name, known, method=method)
    if inspect.isfunction(value) and value.__name__ == "fn":  # F.max_pool2d: of two functions
        value = getattr(torch.nn.functional, f"_{name}", value)
    if inspect.isfunction(value) or inspect.isclass(value):
        own = value.__init__ if inspect.isclass(value) else value
        try:
            return _without_self(inspect.signature(own), inspect.isclass(value) or method)
        except (TypeError, ValueError):
            return None
    function = _of_function(name) if method else None
    found = function or _from_docstring(name, value, method=method)
    if found is not None:
        return found
    stand_in = _overrides().get(value) if inspect.isroutine(value) else None
    return None if stand_in is None else _without_self(inspect.signature(stand_in), method)


def _of_function(name: str) -> inspect.Signature | None:
    """The signature of the function that a method is: its own docstring tells less."""
    function = getattr(torch, name, None)
    found = None if function is None else _from_docstring(name, function)
    if found is None or not found.parameters:
        return None
    first = next(iter(found.parameters.values()))
    if first.name not in ("input", "self", "tensor"):
        return None
    kept = [p for p in _without_self(found, True).parameters.values() if p.name != "out"]
    return found.replace(parameters=kept)


def _without_self(signature: inspect.Signature, yes: Any) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if yes else parameters)


def _from_docstring(name: str, value: Any, *, method: bool = False) -> inspect.Signature | None:
    """The first line's signature, ``add(input, other, *, alpha=1, out=None) -> Tensor``."""
    text = value if isinstance(value, str) else (inspect.getdoc(value) or "")
    text = text.strip().split("->")[0]
    head = re.match(rf"(?:\w+\.)*{re.escape(name)}\s*\((.*?)\)\s*(?:\n|$)", text, re.DOTALL)
    if head is None:
        return None
    inside = re.sub(r"\b\w+\.\.\.", "*rest", head[1].replace("\n", " "))
    inside = re.sub(r"\b(?:Tensor|int|float|bool|Scalar|Number|Device)\s+(?=\w)", "", inside)
    inside = re.sub(r":\s*[\w\[\], .|]+?(?=[,=)]|$)", "", inside)
    inside = re.sub(r"torch\.\w+", "None", inside)
    if re.search(r"\*\s*$", inside):
        inside = re.sub(r",?\s*\*\s*$", "", inside)
    try:
        node = ast.parse(f"def f({inside}): ...").body[0]
    except SyntaxError:
        return None
    space: dict[str, Any] = {"inf": float("inf"), "pi": 3.141592653589793}
    try:
        exec(ast.unparse(node), space)  # the text of an installed package's signature
    except NameError:
        return None
    found = inspect.signature(space["f"])
    if method and next(iter(found.parameters), "") in ("input", "self"):
        found = _without_self(found, True)
    return found


# Ours.


def ours(value: Any, *, method: bool) -> inspect.Signature | None:
    """The signature of what clnet has under a name, with the names that its door takes."""
    own = value.__init__ if inspect.isclass(value) else value
    door = getattr(own, "__door__", None)
    try:
        found = door.public if door is not None else inspect.signature(own)
    except (TypeError, ValueError):
        return None
    cut = (method or inspect.isclass(value)) and bool(found.parameters)
    return _without_self(found, cut)


# Comparing.


def differences(mine: inspect.Signature, other: inspect.Signature) -> list[str]:
    """In what calls that the other allows differ here; nothing, if all agree."""
    if all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in other.parameters.values()):
        return []  # it says nothing
    found: list[str] = []
    have = mine.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in have.values())
    order = [p.name for p in have.values() if p.kind in _POSITIONAL]
    rest = any(p.kind is p.VAR_POSITIONAL for p in have.values())
    place = 0
    for p in other.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            if not rest and p.name != "_":
                found += [] if place < len(order) else [f"*{p.name} is missing"]
            place = len(order)
            continue
        if p.kind is p.VAR_KEYWORD:
            continue
        own = have.get(p.name) or have.get(ALSO.get(p.name, ""))
        if own is None and place == 0 and {p.name, *order[:1]} <= {*FIRST}:
            own = have[order[0]]
        if p.name.startswith("_") and own is None:
            continue  # PyTorch's own business
        if own is None and p.name in INERT:
            place += p.kind in _POSITIONAL and p.name in have
            continue
        if own is None and not (takes_any and p.kind is p.KEYWORD_ONLY):
            if not (takes_any and rest):
                found.append(f"{p.name} is missing")
        elif own is not None:
            found += _default(own, p)
        if p.kind in _POSITIONAL:
            at = order[place] if place < len(order) else None
            if own is not None and at != own.name and not rest:
                found.append(f"{p.name} is not at place {place + 1}")
            place += 1
    wanted = {p.name for p in other.parameters.values()}
    wanted |= {ALSO.get(n, n) for n in wanted} | ({*FIRST} if wanted & {*FIRST} else set())
    for p in have.values():
        given = p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if p.default is p.empty and not given and p.name not in wanted:
            found.append(f"{p.name} must be given")
    return found


def _default(own: inspect.Parameter, other: inspect.Parameter) -> list[str]:
    if other.default is other.empty or _same(own.default, other.default):
        return []
    if own.kind is own.VAR_POSITIONAL:
        return []
    if own.default is own.empty:
        return [f"{own.name} must be given"]
    return [f"{own.name} is {own.default!r}, PyTorch's {other.default!r}"]


def _same(a: Any, b: Any) -> bool:
    """Whether defaults mean the same; None stands for a setting that is found out."""
    if a is b or (inspect.isfunction(b) and a in (None, b.__name__)):
        return True
    if isinstance(b, torch.Generator) or str(b) == "cpu":
        return a is None
    texts = [str(x).removeprefix("torch.").removeprefix("clnet.") for x in (a, b)]
    if texts[0] == texts[1] or (isinstance(b, type) and isinstance(a, type)):
        return True
    try:
        if bool(a == b):
            return True
    except (TypeError, ValueError, RuntimeError):
        return False
    settled = ("float32", "strided", "contiguous_format", "preserve_format")
    return (a is None and (b in (False, 0) or texts[1] in settled)) or (
        b is None and (a in (False, 0, ()) or texts[0] in settled)
    )


class Row(NamedTuple):
    """One name: what differs, or why it is missing."""

    name: str
    missing: bool
    text: str

    @property
    def agrees(self) -> bool:
        """Whether it is there and takes what PyTorch's takes."""
        return not self.missing and not self.text


def compare(section: Section) -> list[Row]:
    """Every name of a section."""
    rows: list[Row] = []
    try:
        place = _at(clnet, section.place)
    except AttributeError:
        place = object()
    for name, value in names(section).items():
        method = section.title == "Tensor"
        own = getattr(place, name, None)
        if own is None:
            rows.append(Row(name, True, reason(section, name)))
            continue
        other, mine = theirs(name, value, method=method), ours(own, method=method)
        known = f"{section.title}.{name}" in REASONS
        found = [] if other is None or mine is None else differences(mine, other)
        found += [] if other is None else _door_differences(own, other)
        text = "; ".join(found)
        if text and known:
            text += f" ({reason(section, name)})"
        rows.append(Row(name, False, text))
    return rows


def _door_differences(own: Any, other: inspect.Signature) -> list[str]:
    """What a door cannot translate."""
    door = getattr(own.__init__ if inspect.isclass(own) else own, "__door__", None)
    if door is None:
        return []
    wanted = other.parameters
    found = [f"{n} is taken at its default alone" for n in door.spelling.only_by_default()]
    found = [text for text in found if text.partition(" ")[0] in wanted]
    found = [text for text in found if not text.startswith("_")]
    return found + [f"{n} has another place" for n in door.spelling.misplaced() if n in wanted]


def reason(section: Section, name: str) -> str:
    """Why a name is missing or differs."""
    full = f"{section.title}.{name}"
    if full in REASONS:
        return REASONS[full]
    for pattern, text in ROOMS.items():
        if re.fullmatch(pattern, full):
            return text
    return "not written"


# The page.

INTRODUCTION = """
# Differences from PyTorch

Written by `python ci/signatures.py`; a test compares it with what the code says. It lists every
public name of PyTorch that clnet does not have, and every one that takes its arguments otherwise.
What agrees is not listed: names, places and defaults of all parameters. What ops compute is
compared elsewhere; corners are in [ops.md](ops.md).

"""


def build(found: dict[str, list[Row]]) -> str:
    """The page's text."""
    lines = [*INTRODUCTION.strip().splitlines(), "", *table(found), ""]
    for title, rows in found.items():
        differing = [r for r in rows if not r.missing and r.text]
        missing = [r for r in rows if r.missing]
        if not differing and not missing:
            continue
        lines += [f"## {title}", ""]
        groups: dict[str, list[str]] = {}
        for row in missing:
            groups.setdefault(row.text, []).append(row.name)
        for text, group in groups.items():
            lines += _wrapped(f"- Missing ({text}): " + ", ".join(f"`{n}`" for n in group) + ".")
        for row in differing:
            lines += _wrapped(f"- `{row.name}`: {row.text}.")
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def table(found: dict[str, list[Row]]) -> list[str]:
    """How many names of each section are there and agree."""
    lines = ["| | PyTorch has | clnet has | agree |", "| --- | ---: | ---: | ---: |"]
    counts = {t: _counts(rows) for t, rows in found.items()}
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))
    for title, (wanted, have, agree) in counts.items():
        lines.append(f"| {title} | {wanted} | {have} | {agree} |")
    return lines


def _counts(rows: list[Row]) -> tuple[int, int, int]:
    return len(rows), sum(not r.missing for r in rows), sum(r.agrees for r in rows)


def main() -> int:
    """Compare everything; 1 if too little agrees, or the page is not up to date."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the page, write nothing")
    parser.add_argument("--least", type=float, default=LEAST, help="share that must agree")
    parser.add_argument("--list", action="store_true", help="print each name that does not agree")
    arguments = parser.parse_args()
    found = {section.title: compare(section) for section in SECTIONS}
    if arguments.list:
        for title, rows in found.items():
            for row in rows:
                if not row.agrees:
                    print(f"{title}.{row.name}: {'missing: ' * row.missing}{row.text}")
    print("\n".join(table(found)))
    every = [row for rows in found.values() for row in rows]
    share = sum(row.agrees for row in every) / len(every)
    print(f"share that exists and agrees: {share:.3f}")
    text = build(found)
    if arguments.check:
        return int(share < arguments.least or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return int(share < arguments.least)


if __name__ == "__main__":
    sys.exit(main())
