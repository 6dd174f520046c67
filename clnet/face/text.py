"""How a tensor looks when it is printed: as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np

from ..device import device as open_device
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from ..values.dtypes import bool_, default_complex, default_float, int64

__all__ = ["set_printoptions"]

_UNSAID = (int64, bool_)
"""Dtypes that the numbers show."""


class PrintOptions:
    """What ``set_printoptions`` set."""

    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}


@checked
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,  # noqa: FBT001 - PyTorch's
) -> None:
    """How many elements and digits a tensor's text has.

    Args:
        precision: digits behind the point.
        threshold: elements from which on only the ends are shown.
        edgeitems: how many those are, along each axis.
        linewidth: columns.
        profile: ``"default"``, ``"short"`` or ``"full"``, for all of these.
        sci_mode: numbers with exponents always, or never; None: where they are large or small.
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems}
    given |= {"linewidth": linewidth, "sci_mode": sci_mode}
    chosen = _PROFILES.get(profile or "", {})
    for name, value in {**chosen, **{k: v for k, v in given.items() if v is not None}}.items():
        setattr(PrintOptions, name, value)
    if sci_mode is None:
        PrintOptions.sci_mode = None


def _writer(host: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """How a number is written, all of them in one way, and how wide the widest is."""
    if host.dtype.kind == "c":
        return _complex_writer(host)
    if host.dtype.kind != "f":
        return _aligned(str, host.reshape(-1).tolist())
    apart = host[np.isfinite(host) & (host != 0)].astype(np.float64)
    digits, finite = PrintOptions.precision, apart.tolist()
    if not finite:  # so zeros stand as close as PyTorch's
        return _aligned(_whole, [])
    high, low = np.abs(apart).max(), np.abs(apart).min()
    wide = high / low > 1000 or high > 10**8 or low < 10**-4
    if wide if PrintOptions.sci_mode is None else PrintOptions.sci_mode:
        return _aligned(lambda x: f"{x:.{digits}e}", finite)
    if np.all(apart == np.ceil(apart)):
        return _aligned(_whole, finite)
    return _aligned(lambda x: f"{x:.{digits}f}", finite)


def _whole(x: float) -> str:
    return f"{x:.0f}." if isfinite(x) else str(x)


def _aligned(write: Callable[[Any], str], values: list[Any]) -> tuple[Callable[[Any], str], int]:
    width = max((len(write(v)) for v in values), default=1)
    return lambda x: write(x).rjust(width), width


def _complex_writer(host: Any) -> tuple[Callable[[Any], str], int]:
    """Both parts, each in the one way of all such parts."""
    (first, wide), (second, other) = _writer(host.real), _writer(host.imag)

    def write(z: Any) -> str:
        part = second(z.imag).lstrip()
        return f"{first(z.real)}{'' if part[0] in '+-' else '+'}{part}j"

    return write, wide + other + 1


def elements_of(x: Tensor, indent: int = len("tensor(")) -> str:
    """The numbers in brackets; lines after the first begin ``indent`` columns further in.

    NumPy's layout is not PyTorch's, which counts as many numbers to a line as are ``linewidth``
    wide when all of them are as wide as the widest finite one.
    """
    host = x.array.numpy()
    if host.dtype.kind not in "biufc":  # bfloat16 is none of NumPy's own
        host = host.astype(np.float32)
    if host.size == 0:
        return "[]"
    write, width = _writer(_shown_part(host))
    return _laid_out(host, indent, write, width, short=host.size > PrintOptions.threshold)


def _laid_out(
    host: np.ndarray, indent: int, write: Callable[[Any], str], width: int, *, short: bool
) -> str:
    if host.ndim == 0:
        return write(host.item())
    ends, size = PrintOptions.edgeitems, len(host)
    parts = [host]
    if short and size > 2 * ends:
        parts = [host[:ends], host[size - ends :]]
    if host.ndim == 1:
        texts = [[write(v) for v in part.tolist()] for part in parts]
        words = texts[0] if len(texts) == 1 else [*texts[0], " ...", *texts[1]]
        each = max(1, (PrintOptions.linewidth - indent) // (width + 2))
        lines = [", ".join(words[i : i + each]) for i in range(0, len(words), each)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    texts = [[_laid_out(r, indent + 1, write, width, short=short) for r in part] for part in parts]
    rows = texts[0] if len(texts) == 1 else [*texts[0], "...", *texts[1]]
    return "[" + ("," + "\n" * (host.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def _shown_part(host: np.ndarray) -> np.ndarray:
    """The elements that are written: all, or those at the ends."""
    if host.size <= PrintOptions.threshold:
        return host
    n = PrintOptions.edgeitems
    for axis, size in enumerate(host.shape):
        if size > 2 * n:
            host = host.take([*range(n), *range(size - n, size)], axis)
    return host


def suffixes_of(x: Tensor, *, device: bool) -> list[str]:
    """What follows the numbers; ``device``: also the device's name."""
    found = [f"device={x.device.name!r}"] if device else []
    if x.numel() == 0 and x.ndim != 1:
        found.append(f"size={tuple(x.shape)}")
    plain = x.dtype in _UNSAID or x.dtype in (default_float(), default_complex())
    if not plain or (x.numel() == 0 and x.dtype is not default_float()):
        found.append(f"dtype={x.dtype!r}")
    if x.node is not None:
        return [*found, f"grad_fn=<{x.node.name()}>"]
    return [*found, "requires_grad=True"] if x.requires_grad else found


def closed(text: str, suffixes: Sequence[str], *, indent: int = 7, apart: bool = False) -> str:
    """A text with what follows it and the closing bracket, on lines of ``linewidth``.

    Args:
        text: up to the last number.
        suffixes: what follows.
        indent: columns before a new line.
        apart: the first of them begins a new line.
    """
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if apart or column + len(suffix) + 2 > PrintOptions.linewidth:
            text += ",\n" + " " * indent + suffix
            column, apart = indent + len(suffix), False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def text_of(x: Tensor) -> str:
    """``tensor([1., 2.])``: elements; device, dtype and tape where they are not the usual ones."""
    if x.is_meta:
        size = f"size={tuple(x.shape)}"
        return ", ".join(["tensor(...", "device='meta'", size, *suffixes_of(x, device=False)]) + ")"
    default = mode.current().device or open_device()
    suffixes = suffixes_of(x, device=x.device is not default)
    if x.array.storage.buffer is None:
        return ", ".join(["tensor(...", f"size={tuple(x.shape)}", *suffixes, "abstract"]) + ")"
    return closed("tensor(" + elements_of(x), suffixes)


Tensor.__repr__ = text_of  # pyrefly: ignore[bad-assignment] - the text of a tensor
