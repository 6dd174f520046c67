"""How a tensor looks when it is printed: as PyTorch's."""

from __future__ import annotations

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


def _element(host: np.ndarray) -> Any:
    """How an element is written, all in one way; None: as NumPy does."""
    if host.dtype.kind != "f":
        return None
    finite = host[np.isfinite(host)].astype(np.float64)
    apart = finite[finite != 0]
    digits = PrintOptions.precision
    high, low = (np.abs(apart).max(), np.abs(apart).min()) if apart.size else (0.0, 1.0)
    whole = bool(np.all(finite == np.ceil(finite)))
    wide = high / low > 1000 or high > 10**8 or (not whole and low < 10**-4)
    if wide if PrintOptions.sci_mode is None else PrintOptions.sci_mode:
        return lambda x: f"{x:.{digits}e}" if np.isfinite(x) else str(x)
    if whole:
        return lambda x: f"{x:.0f}." if np.isfinite(x) else str(x)
    return lambda x: f"{x:.{digits}f}" if np.isfinite(x) else str(x)


def _complex_element(host: Any) -> Any:
    """How a complex number is written: both parts, each in the one way of all such parts."""
    writes = [_element(part) or str for part in (host.real, host.imag)]
    wide = [
        max((len(write(v)) for v in part.reshape(-1) if np.isfinite(v)), default=0)
        for write, part in zip(writes, (host.real, host.imag), strict=True)
    ]

    def write(z: Any) -> str:
        first = writes[0](z.real).rjust(wide[0])
        second = writes[1](z.imag).rjust(wide[1]).lstrip()
        return f"{first}{'' if second[0] in '+-' else '+'}{second}j"

    return write


def elements_of(x: Tensor) -> str:
    """The numbers in brackets."""
    host = x.array.numpy()
    if host.dtype.kind not in "biufc":  # bfloat16 is none of NumPy's own
        host = host.astype(np.float32)
    write = _element(_shown_part(host))
    texts: Any = None
    if host.dtype.kind == "c":
        write = _complex_element(_shown_part(host))
        texts = {"complex_kind": write}
    elif write is not None:
        finite = [v for v in _shown_part(host).reshape(-1) if np.isfinite(v)]
        width = max((len(write(v)) for v in finite), default=0)
        texts = {"float_kind": lambda v: write(v).rjust(width)}
    threshold = PrintOptions.threshold
    if host.ndim == 0:
        return str(host.item()) if write is None else write(host[()])
    text = np.array2string(
        host,
        max_line_width=PrintOptions.linewidth,
        separator=", ",
        prefix="tensor(",
        formatter=texts,
        threshold=int(min(threshold, 2**31)),
        edgeitems=PrintOptions.edgeitems,
    )
    return text.replace(", ..., ", ",  ..., ")


def _shown_part(host: np.ndarray) -> np.ndarray:
    """The elements that are written: all, or those at the ends."""
    if host.size <= PrintOptions.threshold:
        return host
    n = PrintOptions.edgeitems
    for axis, size in enumerate(host.shape):
        if size > 2 * n:
            host = host.take([*range(n), *range(size - n, size)], axis)
    return host


def suffix_of(x: Tensor, *, device: bool) -> str:
    """What follows the numbers; ``device``: also the device's name."""
    text = f", device={x.device.name!r}" if device else ""
    if x.numel() == 0 and x.ndim != 1:
        text += f", size={tuple(x.shape)}"
    plain = x.dtype in _UNSAID or x.dtype in (default_float(), default_complex())
    if not plain or (x.numel() == 0 and x.dtype is not default_float()):
        text += f", dtype={x.dtype!r}"
    if x.node is not None:
        return text + f", grad_fn=<{x.node.name()}>"
    return text + ", requires_grad=True" if x.requires_grad else text


def text_of(x: Tensor) -> str:
    """``tensor([1., 2.])``: elements; device, dtype and tape where they are not the usual ones."""
    default = mode.current().device or open_device()
    suffix = suffix_of(x, device=x.device is not default)
    if x.is_meta:
        rest = suffix_of(x, device=False)
        return f"tensor(..., device='meta', size={tuple(x.shape)}{rest})"
    if x.array.storage.buffer is None:
        return f"tensor(..., size={tuple(x.shape)}{suffix}, abstract)"
    if x.numel() == 0:
        return f"tensor([]{suffix})"
    return f"tensor({elements_of(x)}{suffix})"


Tensor.__repr__ = text_of  # pyright: ignore[reportAttributeAccessIssue] - the text of a tensor
