"""What a launch gives to OpenCL and OpenCL cannot take: a number too large for its parameter.

pyopencl calls all of it ``std::bad_cast``. Looking at every argument before it is set would cost
more than setting it, so this is asked only once the driver's door has refused one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, ClnetError

if TYPE_CHECKING:
    from .launch import Launch

_MOST_ITEMS = 2**63 - 1


def misfit(launch: Launch, types: Sequence[Any], values: Sequence[Any]) -> ClnetError | None:
    """The error for the first size or number of a launch that OpenCL cannot take, or None.

    Args:
        launch: whose they are.
        types: for each parameter its NumPy scalar type; None for a pointer, ``np.void`` for a
            vector.
        values: what was to be set.
    """
    sizes = (*launch.global_size, *launch.local_size)
    if not all(_holds(size, 0, _MOST_ITEMS) for size in sizes):
        return _refused(launch, "sizes are whole numbers, 0 or more", sizes)
    for place, (kind, value) in enumerate(zip(types, values, strict=True)):
        if kind is None or kind is np.void:
            continue
        if np.issubdtype(kind, np.integer):
            limits = np.iinfo(kind)
            least, most = int(limits.min), int(limits.max)
            law = f"its kernel's parameter {place} is a whole number from {least} to {most}"
            if not _holds(value, least, most):
                return _refused(launch, law, value)
        elif not _is_real(value):
            return _refused(launch, f"its kernel's parameter {place} is a real number", value)
    return None


def _refused(launch: Launch, law: str, value: Any) -> ClnetError:
    return ArgumentError(
        launch.op or launch.kernel.name,
        law,
        kernel=launch.kernel.name,
        given=value,
        remedy="Compute with fewer elements or smaller numbers at a time",
    )


def _holds(value: Any, least: int, most: int) -> bool:
    try:
        return least <= operator.index(value) <= most
    except TypeError:
        return False


def _is_real(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, complex | str | bytes)
