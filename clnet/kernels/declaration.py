"""A kernel's arguments as the header of its template declares them: written once, used by name.

The header is the block of ``##`` lines that a template begins with. What it says of a kernel's
arguments becomes the list in parentheses behind the kernel's name, where the template writes
``(...)``, and the order in which :meth:`.kernel.Kernel.launch` passes what it is given by name::

    ## def    scale, total              opens arguments of these kernels, or of all; needed only
    ##                                  where the file holds several
    ## arg    n, m: int                 name, type and meaning
    ## arg    y: out ctype[n]           a pointer is in (const), out or inout; its type is a
    ## arg    x: in ctype[n], may alias C type or a parameter's value; other pointers than those
    ## % if biased:                     that may alias are restrict
    ## arg    bias: in {ctype}4         {...} is an expression of the parameters
    ## % endif
    ## % for j in range(scalars):
    ## arg    s_{j}: float              as many as there are rounds; launch takes a sequence
    ## % endfor

Behind every pointer ``x`` stands ``const long x_offset``, where its elements begin. Arrays through
which the work-items of a group tell each other may alias, too: a compiler may move the reading of
a restrict one over a barrier, since nobody else can write to it (NVIDIA's does).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import CodeType
from typing import Any

from ..values.pattern import pattern
from ..values.record import NamedTuple

# What the queue gives to a kernel that checks its data: see lib/fault.mako.
FROM_THE_QUEUE = frozenset({"fault", "site"})
_WIDTH = 100
# What OpenCL C has no type for, and the type that it lies in memory as.
_STORED = {"bfloat16": "ushort"}
_CONTROL = pattern(r"##\s+%\s*(end)?(if|for|elif|else)\b(.*)")
_ARGUMENT = pattern(
    r"##\s+arg\s+(?P<names>[\w{}]+(?:, [\w{}]+)*):\s+"
    r"(?:(?P<pointer>in|out|inout)\s+)?(?P<type>\S.*)"
)
_PARAMETER = pattern(r"##\s+param\s+(\w+(?:, \w+)*):\s+(\S.*)")
_SECTION = pattern(r"##\s+def\s+(\w+(?:,\s*\w+)*)")
_CALL = pattern(r'argument\("([^"]+)", f"[^"]+", "(\w*)"')
_DEFINED = pattern(r'<%def name="(\w+)\(([^"]*)\)">')


class Argument(NamedTuple):
    """An argument of a kernel with parameters.

    Attributes:
        name: as the header writes it, ``x_{j}`` of all rounds of a loop.
        written: as the kernel's text has it.
        text: its declaration, of a pointer with its offset's.
    """

    name: str
    written: str
    text: str


class Declaration(NamedTuple):
    """What a template says of one of its kernels.

    Attributes:
        parameters: the def's arguments in order, and of what kind the header says that each is.
        names: of all arguments that the kernel can have, as the header writes them; of each
            whether it is a pointer.
        code: in Python, gives the arguments one by one to ``argument`` (:func:`arguments`).
    """

    parameters: dict[str, str]
    names: dict[str, bool]
    code: str

    def arguments(self, params: Mapping[str, Any]) -> list[Argument]:
        """The arguments of the kernel with these parameters, in order."""
        found: list[Argument] = []
        scope: dict[str, Any] = dict(params)

        def argument(name: str, written: str, pointer: str, ctype: str, alias: str) -> None:
            known = str(scope.get(ctype, ctype))
            known = _STORED.get(known, known)
            if pointer:
                const = "const " if pointer == "in" else ""
                known = f"__global {const}{known} *{alias}{written}, const long {written}_offset"
            else:
                known = f"const {known} {written}"
            found.append(Argument(name, written, known))

        scope["argument"] = argument
        exec(_compiled(self.code), scope)
        return found

    def listed(self, params: Mapping[str, Any]) -> str:
        """The arguments in parentheses, in lines of a page's width."""
        lines = [""]
        for number, each in enumerate(self.arguments(params)):
            text = each.text if number == 0 else f", {each.text}"
            if lines[-1] and len(lines[-1]) + len(text) > _WIDTH - len("    ,"):
                lines[-1] += ","
                lines.append(text.removeprefix(", "))
            else:
                lines[-1] += text
        return "(\n    " + "\n    ".join(lines) + ")"


@cache
def _compiled(code: str) -> CodeType:
    """When a text is rendered, or a launch meets new names: not for all kernels of a file."""
    return compile(code, "<arguments>", "exec")


@cache
def declarations(template: str) -> dict[str, Declaration]:
    """What a template's header declares, by the names of its kernels.

    Args:
        template: its text.
    """
    defined = dict(_DEFINED.findall(template))
    kernels = [name for name in defined if f"__kernel void {name}(" in template]
    sources: dict[str, list[str]] = {name: [] for name in kernels}
    kinds: dict[str, str] = {}
    section, depth = kernels, 0
    for line in template.splitlines():
        if not line.startswith("##"):
            break
        if opened := _SECTION.match(line):
            names = [name.strip() for name in opened[1].split(",")]
            section = kernels if names == ["all"] else names
        elif parameter := _PARAMETER.match(line):
            kind = parameter[2].split("  ")[0]
            kinds |= dict.fromkeys(parameter[1].split(", "), kind)
        elif control := _CONTROL.match(line):
            end, word, rest = control.groups()
            depth -= bool(end) or word in {"elif", "else"}
            _add(sources, section, depth, [] if end else [f"{word}{rest.split('  ')[0]}"])
            depth += not end
        elif argument := _ARGUMENT.match(line):
            _add(sources, section, depth, _calls(argument))
    return {
        name: Declaration(
            {p: kinds.get(p, "") for p in re.findall(r"\w+", defined[name])},
            {n: bool(p) for n, p in _CALL.findall("\n".join(sources[name]))},
            "\n".join(sources[name]),
        )
        for name in kernels
    }


def _calls(argument: re.Match[str]) -> list[str]:
    """The lines of code for an ``arg`` line."""
    declared = argument["type"].split("  ")[0]
    ctype, *_ = re.split(r"\[|, may alias", declared)
    form = "f" if "{" in ctype else ""
    alias = "" if declared.endswith(", may alias") else "restrict "
    rest = f'"{argument["pointer"] or ""}", {form}"{ctype.strip()}", "{alias}"'
    return [f'argument("{n}", f"{n}", {rest})' for n in argument["names"].split(", ")]


def _add(
    sources: dict[str, list[str]], section: list[str], depth: int, lines: Iterable[str]
) -> None:
    """Put lines of code, that far indented, behind those of a section's kernels."""
    for name in section:
        sources.setdefault(name, []).extend("    " * depth + line for line in lines)
