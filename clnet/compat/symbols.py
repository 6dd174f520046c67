"""Numbers that PyTorch's compiler would not know: here all are known, and Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, DtypeError
from ..tensor import Tensor
from ..values.plain import shown

__all__ = [
    "PyTorchFileReader",
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


class SymInt:
    """A whole number that is not known yet: there is none."""


class SymFloat:
    """A number that is not known yet: there is none."""


class SymBool:
    """A truth that is not known yet: there is none."""


class PyTorchFileReader:
    """What reads PyTorch's files there: ``clnet.load`` reads them here."""


def sym_int(a: Any) -> int:
    """The whole number, towards 0."""
    return int(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger number."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number."""
    return min(a, b)


def sym_not(a: Any) -> bool:
    """Whether it is false."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """The second where the first is true, else the third."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The root of a number."""
    return math.sqrt(a)


def check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Check that something holds.

    Raises:
        ArgumentError: if it does not, with the message that the function gives.
    """
    if not cond:
        raise ArgumentError("_check", "the condition holds", message=message() if message else None)


def _check_with(  # torch._check_with
    error_type: type[Exception], cond: Any, message: Callable[[], str] | None = None
) -> None:
    if not cond:
        raise error_type(message() if message else "Expected cond to be True")


def check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """:func:`check`, which raises an ``IndexError``."""
    _check_with(IndexError, cond, message)


def check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """:func:`check`, which raises a ``ValueError``."""
    _check_with(ValueError, cond, message)


def check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """:func:`check`, which raises a ``TypeError``."""
    _check_with(TypeError, cond, message)


def check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """:func:`check`, which raises a ``NotImplementedError``."""
    _check_with(NotImplementedError, cond, message)


def check_is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:  # noqa: A002 - PyTorch's name
    """Check that a number can be a size.

    Raises:
        ArgumentError: if it is below 0, or above ``max``.
    """
    check(i >= 0 and (max is None or i <= max), message)


def check_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    """Check that all elements are true; the host waits for them.

    Raises:
        ArgumentError: if one is not.
        DtypeError: if ``cond`` is no tensor.
    """
    if not isinstance(cond, Tensor):
        raise DtypeError("check", "cond is a tensor", cond=shown(cond))
    check(bool(cond.all()), message)


def _check_all_with(  # torch._check_tensor_all_with
    error_type: type[Exception], cond: Tensor, message: Callable[[], str] | None = None
) -> None:
    if not isinstance(cond, Tensor):
        raise DtypeError("check", "cond is a tensor", cond=shown(cond))
    _check_with(error_type, bool(cond.all()), message)


def assert_async(cond: Tensor, message: str = "") -> None:
    """Check that a tensor's element is true; the host waits for it.

    Raises:
        ArgumentError: if it is not.
    """
    check(bool(cond), lambda: message)


NAMES = {
    **{name: name for name in __all__},
    "_check": "check",
    "_check_with": "_check_with",
    "_check_index": "check_index",
    "_check_value": "check_value",
    "_check_type": "check_type",
    "_check_not_implemented": "check_not_implemented",
    "_check_is_size": "check_is_size",
    "_check_tensor_all": "check_all",
    "_check_tensor_all_with": "_check_all_with",
    "_assert_async": "assert_async",
}
"""What ``clnet`` shows of this module, by the name it has there."""
