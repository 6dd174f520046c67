"""A kernel's body in a function of its own, which PoCL's compiler then compiles once.

For a CPU, PoCL makes three functions of a kernel: one for a group, and two that call it with the
arguments in different forms. It inlines the first into both and keeps it: all passes of LLVM after
that, and the code generation, do the same work three times. A function that may not be inlined and
asks nothing about its work-item is left where it is; so the body is given its ids by the kernel.

In a larger group, a call for each work-item would cost time, and nothing would be vectorised across
them: there the group's first work-item calls the function, and a loop in it goes over all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..values.record import NamedTuple

_KERNEL = re.compile(r"__kernel\s+void\s+(\w+)\s*\(([^()]*)\)\s*\{")
# What may stand before a kernel: it stays with it.
_ATTRIBUTES = re.compile(
    r"(?:__attribute__\(\([\w\s(),]*\)\)\s*|(?<!#define )\b(?:ONE_BY_ONE|SIDE_BY_SIDE)\s+)*\Z"
)
_ENDS_BEFORE = re.compile(r"(?:[;}]|\*/|(?:^|\n)[ \t]*(?:#|//)[^\n]*|\A)\s*\Z")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ITEM = re.compile(
    r"\bget_(global_id|global_size|group_id|num_groups|local_id|local_size|global_offset|work_dim)"
    r"\s*\(\s*(\d?)\s*\)"
)
# Memory of a group is declared in a kernel alone; the body gets pointers.
_LOCAL = re.compile(r"__local\s+(\w+)\s+(\w+)\[([^][;,]+)\]\s*(__attribute__\(\([^;]*\)\))?\s*;")
_SCOPE = re.compile(r"__local\s+\w+\s+\w+\s*\[")
# What is left after that in a function or macro before the kernel, or has an axis that is computed,
# must be asked by each work-item; and of functions of a whole group each is a call of all.
_OF_ALL = re.compile(r"\bget_\w+|\w*work_group_\w+|\bwait_group_events|\bsub_group_\w+")
# A variable that differs from work-item to work-item.
_OF_ITEM = re.compile(r"own_(global|local)_id_")
# One work-item waits for no other, and sees its own writes.
_BARRIER = re.compile(r"\bbarrier\s*\([\w\s|]*\)")
_IN_LANES = "#pragma clang loop vectorize(assume_safety)\n"
_NAME = re.compile(r"(\w+)\s*\Z")


class _Parts(NamedTuple):
    """A text with one kernel: what stands before it, and its own parts."""

    before: str
    attributes: str
    name: str
    parameters: str
    body: str

    def names(self) -> list[str]:
        """The parameters' names."""
        named = [_NAME.search(parameter) for parameter in self.parameters.split(",")]
        return [found[1] for found in named if found]


_BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4,
          "float": 4, "long": 8, "ulong": 8, "double": 8}  # fmt: skip


class Memory(NamedTuple):
    """An array of a group's memory.

    Attributes:
        declared: its declaration.
        ctype, name, elements: parts of that.
    """

    declared: str
    ctype: str
    name: str
    elements: str

    @property
    def nbytes(self) -> int | None:
        """Its bytes; None: only a compiler knows."""
        known = self.elements.isdecimal() and self.ctype in _BYTES
        return int(self.elements) * _BYTES[self.ctype] if known else None


class Body(NamedTuple):
    """A kernel's body in a function.

    Attributes:
        text: what stands before the kernel, and the function.
        attributes: what stands before the kernel and stays with it.
        name, parameters: of the kernel; the function is ``name_body``.
        given: what the kernel calls the function with, C expressions that ask about the group.
        memory: of a group.
        first: what the kernel asks before it calls the function; ``""``: nothing.
    """

    text: str
    attributes: str
    name: str
    parameters: str
    given: tuple[str, ...]
    memory: tuple[Memory, ...] = ()
    first: str = ""

    @property
    def asks(self) -> bool:
        """Whether its functions, or what they call, ask about a work-item by themselves."""
        return _OF_ALL.search(self.text) is not None

    def kernel(self) -> str:
        """The whole text: the kernel does nothing but call the function."""
        declared = "".join(f"    {each.declared}\n" for each in self.memory)
        asked = f"    if ({self.first})\n    " if self.first else ""
        return (
            f"{self.text}{self.attributes}__kernel void {self.name}({self.parameters})\n"
            f"{{\n{declared}{asked}    {self.name}_body({', '.join(self.given)});\n}}\n"
        )


def body_apart(text: str, *, alone: bool = True) -> str:
    """A kernel's text with the body in a function of its own, which is never inlined.

    Args:
        text: OpenCL C.
        alone: whether each group has one work-item; otherwise the function computes a whole group.

    Returns:
        The text; without barriers, where groups have one work-item: PoCL cuts a kernel in parts at
        each, and its releases compile some of those wrongly. As it was but for that, where it has
        several kernels or something after the kernel, or a group of several work-items has
        barriers, memory of its own, or asks about itself elsewhere.
    """
    body = body_of(text, alone=alone)
    if body is not None:
        return body.kernel()
    return _BARRIER.sub("(void)0", text) if alone else text


def body_of(text: str, *, alone: bool) -> Body | None:
    """A kernel's body as :func:`body_apart` makes it a function; None: it stays where it is."""
    if alone:
        text = _BARRIER.sub("(void)0", text)
    parts = None if "barrier(" in text else _parts(text)
    if parts is None:
        return None
    return _of_one(parts) if alone else _of_many(parts)


def _of_one(parts: _Parts) -> Body | None:
    """Of a kernel whose groups have one work-item."""
    body, items = _given_items(parts.body)
    memory = tuple(Memory(m[0], m[1], m[2], m[3]) for m in _LOCAL.finditer(body))
    body = _LOCAL.sub("", body)
    if _SCOPE.search(body) or any(re.search(rf"sizeof\s*\(?\s*{m.name}\b", body) for m in memory):
        return None
    own = [
        *(f"const size_t {name}" for name in items),
        *(f"__local {m.ctype} *restrict {m.name}" for m in memory),
    ]
    given = (*parts.names(), *items.values(), *(m.name for m in memory))
    # It has external linkage: PoCL's front end would else put a group's memory in its parameter's
    # place, and crash when it makes a parameter of that in turn.
    function = (
        f"{parts.before}__attribute__((noinline)) void {parts.name}_body("
        f"{parts.parameters}{''.join(f', {each}' for each in own)}) {{{body}}}\n"
    )
    return Body(function, parts.attributes, parts.name, parts.parameters, given, memory)


def _of_many(parts: _Parts) -> Body | None:
    """Of a kernel whose groups have several work-items.

    The body becomes a function of one work-item, which is inlined in the loop over a group's. Of an
    axis that no work-item asks about, all work-items call.
    """
    body, items = _given_items(parts.body)
    if _SCOPE.search(body) or _OF_ALL.search(parts.before + body):
        return None
    axes = sorted({name[-1] for name in items if _OF_ITEM.match(name)}, reverse=True)
    shared = {name: asked for name, asked in items.items() if not _OF_ITEM.match(name)}
    shared.update((f"own_items_{axis}", f"get_local_size({axis})") for axis in axes)
    shared.update((f"own_first_{axis}", f"get_global_id({axis})") for axis in axes)
    of_item = {
        **{f"own_global_id_{axis}": f"own_first_{axis} + own_item_{axis}" for axis in axes},
        **{f"own_local_id_{axis}": f"own_item_{axis}" for axis in axes},
    }
    loops = "".join(
        f"    for (size_t own_item_{axis} = 0; own_item_{axis} < own_items_{axis};"
        f" ++own_item_{axis})\n"
        for axis in axes
    )
    if axes and "SIDE_BY_SIDE" in parts.attributes:
        # Work-items are independent, and lanes pay, whatever the compiler thinks of either.
        innermost = loops.rindex("    for (")
        loops = f"{loops[:innermost]}{_IN_LANES}{loops[innermost:]}"
    name, parameters, names = parts.name, parts.parameters, parts.names()
    function = (
        f"{parts.before}inline __attribute__((always_inline)) void {name}_item("
        f"{parameters}{_sizes(items)}) {{{body}}}\n"
        f"__attribute__((noinline)) void {name}_body({parameters}{_sizes(shared)})\n"
        f"{{\n{loops}        {name}_item("
        f"{', '.join([*names, *(of_item.get(each, each) for each in items)])});\n}}\n"
    )
    first = " && ".join(f"get_local_id({axis}) == 0" for axis in axes) or "true"
    given = (*names, *shared.values())
    return Body(function, parts.attributes, name, parameters, given, first=first)


def answered(asked: str, local_size: tuple[int, ...]) -> str:
    """What a body is given, of a group whose ids and number are ``g_0`` and ``n_0``, and so on.

    Args:
        asked: of :attr:`Body.given`.
        local_size: work-items of a group; it is asked by the first of them.
    """
    sizes = (*local_size, *(1,) * (3 - len(local_size)))

    def answer(found: re.Match[str]) -> str:
        axis = found[2] or "0"
        size = sizes[int(axis)]
        return {
            "global_id": f"g_{axis} * {size}", "global_size": f"n_{axis} * {size}",
            "group_id": f"g_{axis}", "num_groups": f"n_{axis}", "local_id": "0",
            "local_size": f"{size}", "global_offset": "0", "work_dim": f"{len(local_size)}",
        }[found[1]]  # fmt: skip

    return _ITEM.sub(answer, asked)


def _sizes(names: Iterable[str]) -> str:
    """Parameters of these names, which follow others."""
    return "".join(f", const size_t {name}" for name in names)


def _parts(text: str) -> _Parts | None:
    """The parts of a text with one kernel, which nothing follows; else None."""
    kernels = list(_KERNEL.finditer(text))
    if len(kernels) != 1:
        return None
    (kernel,) = kernels
    head = text[: kernel.start()]
    attributes = _ATTRIBUTES.search(head)
    before = head[: attributes.start()] if attributes else head
    if not _ENDS_BEFORE.search(before):
        return None
    end = _end_of_block(text, kernel.end())
    if end is None or _COMMENT.sub("", text[end + 1 :]).strip():
        return None
    return _Parts(
        before, head[len(before) :], kernel[1], kernel[2].strip(), text[kernel.end() : end]
    )


def _end_of_block(text: str, begin: int) -> int | None:
    """Where the brace stands that closes the block whose content begins at ``begin``."""
    # Braces of comments count nothing; what takes their place is as long.
    plain = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    depth = 1
    for brace in re.finditer("[{}]", plain[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin + brace.start()
    return None


def _given_items(body: str) -> tuple[str, dict[str, str]]:
    """A body that has what it asks about its work-item in variables; and of these the values."""
    items: dict[str, str] = {}

    def variable(asked: re.Match[str]) -> str:
        name = f"own_{asked[1]}{asked[2] and '_'}{asked[2]}"
        items[name] = f"get_{asked[1]}({asked[2]})"
        return name

    return _ITEM.sub(variable, body), items
