"""``torch._tensor_str``: parts of a tensor's text, which packages join to texts of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..face.text import PrintOptions, closed, elements_of, set_printoptions, suffixes_of
from ..tensor import Tensor

__all__ = ["PRINT_OPTS", "printoptions"]

PRINT_OPTS = PrintOptions


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements; ``indent``: columns that stand before each line but the first."""
    return elements_of(self.detach(), indent)


def _add_suffixes(  # for packages
    tensor_str: str,
    suffixes: Sequence[str],
    indent: int,
    force_newline: bool,  # noqa: FBT001 - PyTorch's
) -> str:
    """The elements' text with what follows it, and the closing bracket."""
    return closed(tensor_str, suffixes, indent=indent, apart=force_newline)


def _str_intern(  # for packages
    inp: Tensor, *, tensor_contents: str | None = None
) -> str:
    """The text of a tensor, perhaps with another text for its elements."""
    contents = _tensor_str(inp, len("tensor(")) if tensor_contents is None else tensor_contents
    return closed(f"tensor({contents}", suffixes_of(inp, device=False))


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """A block in which tensors' texts look as ``set_printoptions`` of these settings says.

    Args:
        kwargs: the settings, by name.
    """
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    before = {name: getattr(PrintOptions, name) for name in names}
    try:
        set_printoptions(**kwargs)
        yield
    finally:
        for name, value in before.items():
            setattr(PrintOptions, name, value)
