"""``nn._reduction``: words of losses as numbers, and the settings before there were words."""

from __future__ import annotations

import warnings

from ..errors import ArgumentError
from ..ops.loss import OLD_MEAN

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_WORDS = ("none", "mean", "sum")


def get_enum(reduction: str) -> int:
    """The place of ``"none"``, ``"mean"``, ``"sum"``.

    Raises:
        ArgumentError: if it is another word.
    """
    if reduction == OLD_MEAN:
        text = f"reduction={OLD_MEAN!r} is deprecated, please use reduction='mean' instead."
        warnings.warn(text, stacklevel=2)
        reduction = "mean"
    if reduction not in _WORDS:
        raise ArgumentError("get_enum", f"it is one of {_WORDS}", reduction=reduction)
    return _WORDS.index(reduction)


def legacy_get_string(
    size_average: bool | None,  # noqa: FBT001 - PyTorch's
    reduce: bool | None,  # noqa: FBT001 - PyTorch's
    emit_warning: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
) -> str:
    """The word that two flags mean, of which None is True."""
    averaged, reduced = size_average in (None, True), reduce in (None, True)
    word = ("mean" if averaged else "sum") if reduced else "none"
    if emit_warning:
        text = f"size_average and reduce args will be deprecated, please use reduction='{word}'."
        warnings.warn(text, stacklevel=2)
    return word


def legacy_get_enum(
    size_average: bool | None,  # noqa: FBT001 - PyTorch's
    reduce: bool | None,  # noqa: FBT001 - PyTorch's
    emit_warning: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
) -> int:
    """The place of that word."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
