"""Numbers beside tensors of few bits: which their dtypes hold, and what becomes of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...values.dtypes import DType, Kind

UNWRAPPED = {"clamp", "where", "masked_fill"}
"""Ops that refuse what others take modulo the dtype's range, as PyTorch's; powers an exponent."""

ROUNDED = {"eq", "fmod", "ge", "gt", "hardshrink", "le", "lt", "ne", "remainder"}
"""Ops that round what stands beside floats of 16 bits to these first, as PyTorch's on every device.

Others compute in float32 with the number as it is, as PyTorch's sums and products do.
"""


def rounded_to(dtype: DType, value: Any) -> Any:
    """A number as a floating dtype of 16 bits holds it; a cell, whose number changes, as it is."""
    if not isinstance(value, int | float):
        return value
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(value))


def wrapped(value: Any, compute: DType) -> Any:
    """A whole number as a dtype of few bits keeps it: a kernel's argument holds no other."""
    if type(value) is not int or compute.kind is Kind.BOOL:
        return value
    limits = np.iinfo(compute.numpy)
    if limits.min <= value <= limits.max:
        return value
    return (value - int(limits.min)) % (1 << limits.bits) + int(limits.min)


def require_range(name: str, options: Sequence[Any], compute: DType) -> None:
    """Refuse whole numbers that a dtype does not hold: a kernel's argument would not.

    Unsigned types count those below 0 from their end, but for exponents.
    """
    limits = np.iinfo(np.uint8 if compute.kind is Kind.BOOL else compute.numpy)
    wraps = limits.min == 0 and compute.kind is not Kind.BOOL and name != "pow"
    least = -int(limits.max) if wraps else int(limits.min)
    for value in options:
        if type(value) is int and not least <= value <= limits.max:
            raise ArgumentError(name, f"{compute!r} holds the settings", settings=list(options))
