"""PyTorch's words for how elements are stored, and in which order axes lie in memory."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["WORDS", "Layout", "MemoryFormat", "Named"]


class Named:
    """A value of the library's that prints as the library and its name: ``clnet.float32``.

    Attributes:
        name: of the value.
        library: ``"torch"`` where programs find clnet under that name: they cut it off what
            ``str(x.dtype)`` gives, and look the rest up.
    """

    __slots__ = ()
    library: ClassVar[str] = "clnet"
    name: str

    def __repr__(self) -> str:
        return f"{Named.library}.{self.name}"


class _Word(Named):
    """A setting of PyTorch's that has one object for each word."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return _word, (type(self).__name__, self.name)


class Layout(_Word):
    """How elements are stored: ``clnet.strided`` is the only way of dense tensors."""


class MemoryFormat(_Word):
    """In which order axes lie in memory.

    Copies, conversions and what is made like a tensor keep its order (``preserve_format``) unless
    ``contiguous_format`` is asked for; ``channels_last`` is taken as that. What other ops compute
    is dense in row-major order.
    """


WORDS: dict[str, _Word] = {
    **{
        name: Layout(name)
        for name in (
            *("strided", "jagged", "sparse_coo", "sparse_csr", "sparse_csc"),
            *("sparse_bsr", "sparse_bsc"),  # of blocks: names alone, which programs compare
        )
    },
    **{
        name: MemoryFormat(name)
        for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
    },
    "legacy_contiguous_format": MemoryFormat("contiguous_format"),
}
"""Layouts and memory formats by name."""


def _word(kind: str, name: str) -> _Word:
    return WORDS[name]
