"""``clnet.testing``: ``assert_close``, with PyTorch's tolerances, of tensors and containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..tensor import Tensor, tensor
from ..values.dtypes import DType, bfloat16, complex64, complex128, float16, float32, float64
from .drawn_tensor import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_DEFAULTS = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}
"""Relative and absolute tolerance by dtype; whole numbers are equal."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Check ``|actual - expected| <= atol + rtol |expected|``, element by element.

    Args:
        actual: a tensor, a number, an array, or a sequence or mapping of such.
        expected: likewise.
        allow_subclasses: False: both are of the same type.
        rtol: relative tolerance; by dtype, with ``atol``, if both are None.
        atol: absolute tolerance.
        equal_nan: whether NaN is equal to NaN.
        check_device: whether devices must be the same.
        check_dtype: whether dtypes must be the same; else they are promoted.
        check_layout: whether both are dense, or both sparse.
        check_stride: whether strides must be the same.
        msg: another message, or what makes one of the message.

    Raises:
        AssertionError: if they are not close; it says how many elements, and which most.
        ArgumentError: if one of the tolerances is given without the other.
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(
            "assert_close", "rtol and atol are given together", rtol=rtol, atol=atol
        )
    given = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "same": not allow_subclasses}
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout}
    why = _difference(actual, expected, "", given, {**checks, "stride": check_stride})
    if why:
        raise AssertionError(msg(why) if callable(msg) else msg or why)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, **given: Any
) -> None:
    """As :func:`assert_close`, of dtypes that need not be the same."""
    given.setdefault("equal_nan", True)
    assert_close(actual, expected, rtol=rtol, atol=atol, check_dtype=False, **given)


def _difference(a: Any, b: Any, place: str, given: dict[str, Any], checks: dict[str, bool]) -> str:
    """What differs first; nothing if they are close."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            return f"The keys of the mappings do not match: {sorted(a)} and {sorted(b)}"
        found = (_difference(a[k], b[k], f"{place}[{k!r}]", given, checks) for k in a)
        return next((why for why in found if why), "")
    if _listed(a) and _listed(b):
        if len(a) != len(b):
            return f"The length of the sequences mismatch: {len(a)} != {len(b)}"
        pairs = enumerate(zip(a, b, strict=True))
        found = (_difference(x, y, f"{place}[{i}]", given, checks) for i, (x, y) in pairs)
        return next((why for why in found if why), "")
    if given["same"] and type(a) is not type(b):
        return f"Types do not match: {type(a).__name__} != {type(b).__name__}"
    if a is None or b is None:
        return "" if a is b else f"None mismatch: {a} is not {b}"
    left, right = _as_tensor(a), _as_tensor(b)
    plain = not (isinstance(a, Tensor) and isinstance(b, Tensor))
    why = _unlike(left, right, dict.fromkeys(checks, False) if plain else checks)
    why = why or _apart(left.to_dense(), right.to_dense(), given)
    return f"{why}\n\nThe failure occurred for item {place}" if why and place else why


def _listed(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str | bytes)


def _as_tensor(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else tensor(x)


def _unlike(a: Any, b: Any, checks: dict[str, bool]) -> str:
    """What of two tensors beside their elements differs."""
    sides: list[tuple[str, Any, Any]] = [("shape", tuple(a.shape), tuple(b.shape))]
    sides += [(n, getattr(a, n), getattr(b, n)) for n in ("device", "dtype", "layout") if checks[n]]
    if checks["stride"]:
        sides.append(("stride", a.stride(), b.stride()))
    return next(
        (
            f"The values for attribute '{n}' do not match: {x} != {y}."
            for n, x, y in sides
            if x != y
        ),
        "",
    )


def _apart(a: Any, b: Any, given: dict[str, Any]) -> str:
    """How far apart elements are, if they are not close."""
    rtol, atol = given["rtol"], given["atol"]
    if rtol is None:
        both = [_tolerances(a.dtype), _tolerances(b.dtype)]
        rtol, atol = max(r for r, _ in both), max(t for _, t in both)
    x, y = (_wide(v) for v in (a, b))
    with np.errstate(invalid="ignore"):
        apart = np.abs(x - y)
        close = ((x == y) | (apart <= atol + rtol * np.abs(y))).astype(bool)
    finite = np.isfinite(np.asarray(apart, np.float64))
    close &= finite | (x == y).astype(bool)
    if given["equal_nan"]:
        close |= ((x != x) & (y != y)).astype(bool)
    if close.all():
        return ""
    apart = np.where(close, 0, np.where(finite, apart, np.inf))
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
    count, share = int((~close).sum()), (~close).mean()
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {count} / {close.size} ({share:.1%})"
        f"\nGreatest absolute difference: {apart[at]} at index {at} (up to {atol} allowed)"
        f"\nThere {x[at]} is, and {y[at]} is expected (rtol {rtol})"
    )


def _tolerances(dtype: DType) -> tuple[float, float]:
    return _DEFAULTS.get(dtype, (0.0, 0.0))


def _wide(x: Any) -> np.ndarray:
    """On the host: exact numbers, floats as float64."""
    host = np.asarray(x.cpu().numpy())
    if x.dtype.is_complex:
        return host.astype(np.complex128)
    return host.astype(np.float64 if x.dtype.is_floating_point else object)
