"""OpenCL C that a user writes: its kernel's parameters, and its text as the queue launches it.

A kernel of ours has ``const long x_offset`` behind each pointer ``x``, where its elements begin. A
user's is given it here: a parameter ``offset_of_x_`` is added, and the body begins with
``x += offset_of_x_;``, on the same line, so that the compiler's messages count the user's lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..errors import ArgumentError
from ..values.dtypes import (
    DType,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..values.pattern import pattern
from ..values.record import NamedTuple

_NUMBERS: dict[str, DType] = {
    "char": int8,
    "uchar": uint8,
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
}
_SIGNED = ("char", "short", "int", "long")
_COMMENT = pattern(r"/\*[\s\S]*?\*/|//[^\n]*")
_HEAD = pattern(
    r"\b(?:__)?kernel\s+(?P<attributes>__attribute__\s*\(\(.*?\)\)\s*)?void\s+(?P<name>\w+)\s*"
    r"\((?P<parameters>[^)]*)\)\s*\{"
)
_NO_TYPE = frozenset("const volatile global constant __global __constant".split())


class Parameter(NamedTuple):
    """A parameter of a user's kernel.

    Attributes:
        name: as the source has it.
        dtype: of the number, or of the elements that a pointer leads to.
        unsigned: whether it is an unsigned number.
        pointer: whether it is a pointer.
        written: whether it is a pointer to what is not const: a result.
        declared: its declaration; of a pointer one that may be moved, and its offset's.
    """

    name: str
    dtype: DType
    unsigned: bool
    pointer: bool
    written: bool
    declared: str


class UserSource:
    """A user's kernel, as a launch takes it; compared by identity.

    Args:
        source: OpenCL C with at least one ``__kernel``.
        name: which of them; None: the only one.
        options: build options.

    Attributes:
        name: the kernel's.
        options: build options.
        parameters: in order.
        alone: whether every launch so far had groups of one work-item.

    Raises:
        ArgumentError: if there is no such kernel, or a parameter is of a type that cannot be given.
    """

    foretold = False  # users need not say how many operations it does

    def __init__(self, source: str, name: str | None, options: Sequence[str]) -> None:
        plain = _COMMENT.sub(lambda found: _blank(found[0]), source)
        heads = [h for h in _HEAD.finditer(plain) if name is None or h["name"] == name]
        if len(heads) != 1:
            names = [head["name"] for head in _HEAD.finditer(plain)]
            raise ArgumentError(
                "kernel",
                "the source has one __kernel void function, or one of that name",
                name=name,
                kernels=names,
                remedy="Give name=, one of these" if len(names) > 1 else "Look at its first line",
            )
        head = heads[0]
        self.name = head["name"]
        self.options = ("-cl-std=CL1.2", *options)
        self.alone = True
        texts = [text for text in head["parameters"].split(",") if text.strip()]
        self.parameters = tuple(_parameter(self.name, text.strip()) for text in texts)
        pointers = [p.name for p in self.parameters if p.pointer]
        listed = ", ".join(p.declared for p in self.parameters)
        begins = "".join(f" {p} += offset_of_{p}_;" for p in pointers)
        attributes = head["attributes"] or ""
        lines = "\n" * source[head.start() : head.end()].count("\n")
        self._text = (
            f"{source[: head.start()]}{attributes}__kernel void {self.name}({listed}) {{"
            f"{lines}{begins}{source[head.end() :]}\n"
        )

    @property
    def origin(self) -> str:
        """For messages."""
        return f"clnet.kernel {self.name}"

    def launched_in(self, local_size: tuple[int, ...]) -> None:
        """Note the size of a launch's groups, before a device asks for the text."""
        self.alone = self.alone and prod(local_size) == 1

    def text(self) -> str:
        """The OpenCL C, with offsets."""
        return self._text


def _blank(comment: str) -> str:
    """As many characters that say nothing, in as many lines."""
    return "".join("\n" if letter == "\n" else " " for letter in comment)


def _parameter(kernel: str, text: str) -> Parameter:
    words = text.replace("*", " * ").split()
    name, pointer = words[-1], "*" in words
    before = words[: words.index("*")] if pointer else words[:-1]
    kinds = [word for word in before if word not in _NO_TYPE]
    unsigned = "unsigned" in kinds
    kinds = [word for word in kinds if word not in ("unsigned", "signed")]
    kind = kinds[0] if kinds or not unsigned else "int"
    if kind[1:] in _SIGNED and kind not in _SIGNED:
        kind, unsigned = kind[1:], True
    ctype = f"u{kind}" if unsigned else kind
    known = ctype in _NUMBERS if pointer else kind in _NUMBERS and (not unsigned or kind in _SIGNED)
    if not known or len(kinds) > 1 or words.count("*") > 1 or not name.isidentifier():
        raise ArgumentError(
            "kernel",
            "a parameter is a number, or a __global or __constant pointer to numbers",
            kernel=kernel,
            parameter=text,
            types=" ".join(_NUMBERS),
            remedy="Declare __local memory in the body; a pointer to vectors is a cast there",
        )
    if not pointer:
        return Parameter(name, _NUMBERS[kind], unsigned, False, False, f"const {ctype} {name}")
    space = "__constant" if {"constant", "__constant"} & set(before) else "__global"
    written = space == "__global" and "const" not in before
    restrict = "restrict " if {"restrict", "__restrict"} & set(words) else ""
    kind = ctype if written else f"const {ctype}"
    declared = f"{space} {kind} *{restrict}{name}, const long offset_of_{name}_"
    return Parameter(name, _NUMBERS[ctype], unsigned, True, written, declared)
