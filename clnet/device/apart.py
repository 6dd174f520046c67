"""A kernel's body in a function of its own, which PoCL's compiler then compiles once.

For a CPU, PoCL makes three functions of a kernel: one for a group, and two that call it with the
arguments in different forms. It inlines the first into both and keeps it: all passes of LLVM after
that, and the code generation, do the same work three times. A function that may not be inlined and
asks nothing about its work-item is left where it is; so the body is given its ids by the kernel.

This is for kernels whose groups have one work-item: between the items of a larger group it would be
a call each, and nothing would be vectorised across them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_KERNEL = re.compile(r"__kernel\s+void\s+(\w+)\s*\(([^()]*)\)\s*\{")
# What may stand before a kernel: it stays with it.
_ATTRIBUTES = re.compile(r"(?:__attribute__\(\([\w\s(),]*\)\)\s*|\bONE_BY_ONE\s+)*\Z")
_ENDS_BEFORE = re.compile(r"(?:[;}]|\*/|(?:^|\n)[ \t]*(?:#|//)[^\n]*|\A)\s*\Z")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ITEM = re.compile(
    r"\bget_(global_id|global_size|group_id|num_groups|local_id|local_size|global_offset|work_dim)"
    r"\s*\(\s*(\d?)\s*\)"
)
# Memory of a group is declared in a kernel alone; the body gets pointers.
_LOCAL = re.compile(r"__local\s+(\w+)\s+(\w+)\[([^][;,]+)\]\s*(__attribute__\(\([^;]*\)\))?\s*;")
_SCOPE = re.compile(r"__local\s+\w+\s+\w+\s*\[")
_NAME = re.compile(r"(\w+)\s*\Z")


class _Parts(NamedTuple):
    """A text with one kernel: what stands before it, and its own parts."""

    before: str
    attributes: str
    name: str
    parameters: str
    body: str


def body_apart(text: str) -> str:
    """A kernel's text with the body in a function of its own, which is never inlined.

    Args:
        text: OpenCL C.

    Returns:
        The text; as it was, where it has several kernels, barriers, or something after the kernel.
    """
    parts = None if "barrier(" in text else _parts(text)
    if parts is None:
        return text
    body, items = _given_items(parts.body)
    memory = list(_LOCAL.finditer(body))
    body = _LOCAL.sub("", body)
    if _SCOPE.search(body) or any(re.search(rf"sizeof\s*\(?\s*{m[2]}\b", body) for m in memory):
        return text
    named = [_NAME.search(parameter) for parameter in parts.parameters.split(",")]
    own = [
        *(f"const size_t {name}" for name in items),
        *(f"__local {m[1]} *restrict {m[2]}" for m in memory),
    ]
    given = [*(m[1] for m in named if m), *items.values(), *(m[2] for m in memory)]
    # It has external linkage: PoCL's front end would else put a group's memory in its parameter's
    # place, and crash when it makes a parameter of that in turn.
    function = f"{parts.name}_body"
    return (
        f"{parts.before}__attribute__((noinline)) void {function}("
        f"{parts.parameters}{''.join(f', {each}' for each in own)}) {{{body}}}\n"
        f"{parts.attributes}__kernel void {parts.name}({parts.parameters})\n"
        f"{{\n{''.join(f'    {m[0]}{chr(10)}' for m in memory)}"
        f"    {function}({', '.join(given)});\n}}\n"
    )


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
