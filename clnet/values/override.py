"""Classes that take over what is called with them: PyTorch's ``__torch_function__``.

A door (``arguments``) asks here, where a value's class is new to it, and where a thread is in a
mode (``TorchFunctionMode``), which is asked about all functions. ``face/subclass.py`` says what
subclasses of ``Tensor`` do unless they say otherwise.

An operator leaves a second operand of a class that is neither PyTorch's nor Python's to that class,
which may have the operator turned round, ``__rmul__``: it gives ``NotImplemented``, as in PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from numbers import Complex
from typing import Any

_SEQUENCES = (list, tuple)
SEQUENCES = (list, tuple, str, bytes, bytearray)
"""What Python repeats as often as a tensor of one whole number says."""
_KNOWN = ("clnet", "numpy", "torch")
_MISTAKEN = frozenset({type(None), dict, set, *SEQUENCES})
"""Packages whose classes, and Python's own that, know nothing of tensors: the op says its law."""


ENTERED: list[Any] = []
"""Modes that any thread has entered: as long as there are none, doors ask no further."""


class _Own(threading.local):
    """The modes that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_OWN = _Own()


def enter_mode(entered: Any) -> None:
    """From now on a mode is asked about each function that this thread calls."""
    _OWN.modes.append(entered)
    ENTERED.append(entered)


def leave_mode() -> None:
    """The innermost mode is asked no more."""
    ENTERED.remove(_OWN.modes.pop())


def modes() -> tuple[Any, ...]:
    """Those that this thread is in, the innermost last."""
    return tuple(_OWN.modes)


@contextmanager
def without_modes(count: int | None = None) -> Iterator[None]:
    """A block in which the innermost modes are not asked.

    Args:
        count: how many; None: all.
    """
    kept = _OWN.modes
    _OWN.modes = kept[: len(kept) - (len(kept) if count is None else count)]
    try:
        yield
    finally:
        _OWN.modes = kept


def asked_modes(
    function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
) -> Any:
    """What the innermost mode makes of a call, which may call the function itself.

    Returns:
        ``NotImplemented`` if this thread is in none, or it gives that.
    """
    if not _OWN.modes:
        return NotImplemented
    innermost = _OWN.modes[-1]
    kinds = tuple(taking_over((*args, *given.values())))
    with without_modes(1):
        return innermost.__torch_function__(function, kinds, args, dict(given))


def taking_over(values: Iterable[Any]) -> list[type]:
    """The classes of values, and of sequences' elements, that take over; subclasses first."""
    found: list[type] = []
    for value in values:
        inside = value if type(value) in _SEQUENCES else (value,)
        for kind in map(type, inside):
            if takes_over(kind) and kind not in found:
                at = next((i for i, k in enumerate(found) if issubclass(kind, k)), len(found))
                found.insert(at, kind)
    return found


@lru_cache(maxsize=1024)
def takes_over(kind: type) -> bool:
    """Whether a class does: not PyTorch's own, which are foreign, nor those of clnet itself."""
    if not hasattr(kind, "__torch_function__"):
        return False
    if hasattr(kind, "__taking_over__"):  # clnet's own that does
        return True
    return kind.__module__.partition(".")[0] not in ("clnet", "torch") and not getattr(
        kind.__torch_function__, "disabled", False
    )


def call_over(
    kinds: list[type],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    given: Mapping[str, Any],
) -> Any:
    """What the first class that does not say ``NotImplemented`` makes of a call.

    Raises:
        TypeError: if all say so.
    """
    for kind in kinds:
        found = kind.__torch_function__(function, tuple(kinds), args, dict(given))
        if found is not NotImplemented:
            return found
    names = ", ".join(kind.__name__ for kind in kinds)
    raise TypeError(
        f"{function.__name__}: not implemented by the classes of its arguments: {names}"
    )


def _is_index(value: Any) -> bool:
    """Whether it is a tensor of one whole number."""
    whole = hasattr(value, "__apply_function__") and not value.dtype.differentiable
    return whole and value.numel() == 1


def is_unknown(value: Any) -> bool:
    """Whether its class may know more of operators with tensors than ops do."""
    kind = type(value)
    if hasattr(kind, "__apply_function__") or kind in _MISTAKEN:
        return False
    if kind.__module__.partition(".")[0] in _KNOWN:
        return False
    return not (isinstance(value, Complex) or hasattr(kind, "__clnet_called__"))


def is_left_to_python(op: str, args: tuple[Any, ...]) -> bool:
    """Whether an operator gives ``NotImplemented``, so that Python asks the second operand's class.

    Args:
        op: the op's name.
        args: the operands.
    """
    if len(args) != 2:
        return False
    if op.startswith("mul") and type(args[1]) in SEQUENCES:  # repeated
        return _is_index(args[0])
    return is_unknown(args[1])
