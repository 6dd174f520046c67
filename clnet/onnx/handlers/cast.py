"""Conversions between element types, also those that no kernel knows."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ... import ops
from ...errors import OnnxError
from ...tensor import Tensor
from ...values.dtypes import Kind, bool_, float32, float64, int64
from ..elements import Carried, Element, Laid, by_name, by_number, by_numpy, to_device
from ..registry import handler


def element_of(value: Any) -> Element:
    """The element type of a value."""
    if isinstance(value, Carried):
        return value.element
    if isinstance(value, Laid):
        value = value.plain()
    return by_numpy(value.dtype.numpy if isinstance(value, Tensor) else value.dtype)


def plain(value: Any, device: Any = None) -> Tensor:
    """The tensor that holds a value."""
    if isinstance(value, Laid):
        value = value.plain()
    if isinstance(value, np.ndarray):
        value = to_device(value, device)
    if isinstance(value, np.ndarray):
        raise OnnxError("onnx", "numbers are computed with, texts are not")
    return value.tensor if isinstance(value, Carried) else value


@handler("Cast")
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up", device: Any = None) -> Any:
    """Elements of another type."""
    return converted(x, by_number(to), saturate=bool(saturate), mode=round_mode, device=device)


@handler("CastLike")
def cast_like(
    x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up", device: Any = None
) -> Any:
    """Elements of another tensor's type."""
    to = element_of(like)
    return converted(x, to, saturate=bool(saturate), mode=round_mode, device=device)


def converted(
    x: Any, to: Element, *, saturate: bool = True, mode: str = "up", device: Any = None
) -> Any:
    """A value in another element type.

    Args:
        x: a tensor, a carried one or a host array.
        to: the type.
        saturate: whether what is too large for a small float becomes the largest.
        mode: how scales of 8 bits are rounded: ``"up"``, ``"down"`` or ``"nearest"``.
        device: for what lies on the host.
    """
    if to.name == "string":
        host = x if isinstance(x, np.ndarray) else plain(x).numpy()
        return np.vectorize(_as_text, otypes=[object])(host)
    if isinstance(x, np.ndarray) and x.dtype.kind == "O":
        return to_device(_numbers(x, to), device)
    tensor = plain(x, device)
    if to.is_small_float:
        wide = tensor.to(float32) if tensor.dtype is not float64 else tensor
        return Carried(small_float(wide, to, saturate=saturate, mode=mode).to(float32), to)
    dtype = to.dtype
    if dtype is None:
        raise OnnxError("onnx", "numbers become numbers or texts", type=to.name)
    if to.carried:
        whole = _whole(tensor, to)
        return Carried(to.wrapped(whole).to(dtype), to)
    return tensor.to(dtype)


def _whole(x: Tensor, to: Element) -> Tensor:
    """Without fractions, in a type that holds all bits that count."""
    if x.dtype.kind is Kind.FLOATING:
        x = ops.trunc(x)
    return x.to(int64)


def _as_text(number: Any) -> str:
    if isinstance(number, np.floating | ml_dtypes.bfloat16 | float):
        if np.isnan(number):
            return "NaN"
        if np.isinf(number):
            return "INF" if float(number) > 0 else "-INF"
        return f"{number:.8g}" if float(number) != int(number) else f"{float(number):g}"
    return str(number)


def _numbers(texts: np.ndarray, to: Element) -> np.ndarray:
    try:
        return texts.astype(np.float64).astype(to.numpy)
    except ValueError as error:
        raise OnnxError("onnx", "texts that become numbers are written as such") from error


@cache
def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The finite values of a small float in order, and for each two the lowest that is rounded up.

    Ties go to the value whose code is even.
    """
    element = by_name(name)
    bits = int(name[5])
    codes = np.arange(2**bits, dtype=np.uint8)
    wide = codes.view(element.numpy).astype(np.float64)
    good = np.isfinite(wide) & ~((wide == 0) & np.signbit(wide))
    order = np.argsort(wide[good])
    finite, even = wide[good][order], (codes[good][order] % 2 == 0)
    between = (finite[1:] + finite[:-1]) / 2
    bounds = np.where(even[1:], between, np.nextafter(between, np.inf))
    return finite, bounds


def small_float(x: Tensor, to: Element, *, saturate: bool, mode: str = "up") -> Tensor:
    """Rounded to a floating type of 8 or 4 bits, in the type of ``x``.

    Args:
        x: float32 or float64.
        to: the small type.
        saturate: whether what is too large becomes the largest, else infinite or NaN.
        mode: how scales (``float8e8m0``) are rounded.
    """
    if to.name == "float8e8m0":
        return _scale(x, saturate=saturate, mode=mode)
    finite, bounds = _table(to.name)
    bounds32 = _upwards(bounds) if x.dtype is float32 else bounds
    top = float(finite[-1])
    # Beyond the largest: half a step more is rounded to what does not exist.
    last_step = float(finite[-1] - finite[-2])
    inside = ops.clamp(x, -top, top)
    place = ops.searchsorted(x.new_tensor(bounds32).to(x.dtype), inside.contiguous(), right=True)
    table = x.new_tensor(finite.astype(x.dtype.numpy))
    y = ops.index_select(table, 0, place.reshape(-1)).reshape(x.shape)
    y = ops.where(ops.logical_and(ops.eq(y, 0), ops.signbit(x)), -y, y) if _signed(to) else y
    nan = ops.isnan(x)
    if not to.name.startswith("float8"):  # these have no NaN: it becomes 0
        return ops.where(nan, ops.zeros_like(x), y)
    over = ops.gt(ops.abs(x), top + last_step / 2)
    if _odd(to):
        over = ops.logical_or(over, ops.eq(ops.abs(x), top + last_step / 2))
    if not saturate:
        y = ops.where(over, _beyond(x, to), y)
    return ops.where(nan, x, y)


def _upwards(bounds: np.ndarray) -> np.ndarray:
    """Bounds in float32 that no float32 below the bound reaches."""
    near = bounds.astype(np.float32)
    return np.where(near < bounds, np.nextafter(near, np.float32(np.inf)), near)


def _signed(to: Element) -> bool:
    return not to.name.endswith("fnuz")


def _odd(to: Element) -> bool:
    """Whether the largest value's code is odd: a tie above it goes up."""
    return to.name in {"float8e5m2", "float8e4m3fnuz", "float8e5m2fnuz"}


def _beyond(x: Tensor, to: Element) -> Tensor:
    if to.name == "float8e5m2":
        return ops.where(ops.gt(x, 0), ops.full_like(x, np.inf), ops.full_like(x, -np.inf))
    return ops.full_like(x, np.nan)


def _scale(x: Tensor, *, saturate: bool, mode: str) -> Tensor:
    """Rounded to a power of two between 2^-127 and 2^127."""
    size = ops.abs(x).to(float32)
    mantissa, exponent = ops.frexp(size)  # size = mantissa 2^exponent, mantissa from 1/2 to 1
    low = ops.where(ops.eq(size, 0), ops.full_like(size, -127.0), exponent.to(float32) - 1)
    if mode == "down":
        up = ops.zeros_like(low).to(bool_)
    elif mode == "nearest":
        up = ops.ge(mantissa, 0.75)
    else:
        up = ops.gt(mantissa, 0.5)
    power = ops.clamp(low + up.to(float32), -127.0, 127.0 if saturate else 128.0)
    y = ops.exp2(power)
    return ops.where(ops.logical_or(ops.isnan(x), ops.isinf(x)), ops.full_like(size, np.nan), y)


@handler("BitCast")
def bit_cast(x: Any, *, to: int, device: Any = None) -> Any:
    """The same bits read as another type of the same width."""
    element = by_number(to)
    if isinstance(x, Tensor) and not element.carried and element.dtype is not None:
        return x.view(element.dtype)
    if isinstance(x, np.ndarray):
        return to_device(x.view(element.numpy), device)
    return _carried_bits(x, element)


def _carried_bits(x: Any, to: Element) -> Any:
    """Bits of unsigned types that are carried in wider ones."""
    widths = {"uint16": 16, "uint32": 32, "uint64": 64}
    names = {16: "int16", 32: "int32", 64: "int64"}
    if isinstance(x, Carried):
        if x.element.name not in widths:
            raise OnnxError("onnx", "bits of this type are not kept", type=x.element.name)
        bits = widths[x.element.name]
        same = next(e for n in (5, 6, 7) if (e := by_number(n)).name == names[bits])
        wrapped = x.tensor.to(same.dtype) if bits < 64 else x.tensor
        return wrapped if to is same else wrapped.view(to.dtype)
    if to.name not in widths:
        raise OnnxError("onnx", "bits of this type are not kept", type=to.name)
    bits = widths[to.name]
    signed = x.view(next(e.dtype for n in (5, 6, 7) if (e := by_number(n)).name == names[bits]))
    return Carried(to.wrapped(signed.to(to.dtype)), to)
