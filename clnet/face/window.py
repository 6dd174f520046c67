"""Windows of signals beside Hann's and Hamming's, computed on the host in double precision."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from ..creation import window_dtype
from ..errors import ArgumentError
from ..tensor import Tensor, tensor
from ..values.dtypes import DType

__all__ = ["bartlett_window", "blackman_window", "kaiser_window"]


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``1 - |2 i / n - 1|``; arguments as :func:`hann_window`'s."""
    i, n = _window("bartlett_window", window_length, periodic)
    return _made("bartlett_window", 1 - np.abs(2 * i / n - 1), dtype, device, requires_grad)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's window; arguments as :func:`hann_window`'s."""
    i, n = _window("blackman_window", window_length, periodic)
    values = 0.42 - 0.5 * np.cos(2 * pi * i / n) + 0.08 * np.cos(4 * pi * i / n)
    return _made("blackman_window", values, dtype, device, requires_grad)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window of a shape ``beta``; else as :func:`hann_window`."""
    i, n = _window("kaiser_window", window_length, periodic)
    inside = np.sqrt(np.maximum(0, 1 - (2 * i / n - 1) ** 2))
    return _made("kaiser_window", np.i0(beta * inside) / np.i0(beta), dtype, device, requires_grad)


def _window(op: str, length: int, periodic: bool) -> tuple[np.ndarray, float]:
    if length < 0:
        raise ArgumentError(op, "window_length is 0 or more", window_length=length)
    n = length if periodic else length - 1
    return (np.arange(length, dtype=np.float64), n) if length != 1 else (np.ones(1), 2.0)


def _made(
    op: str, values: np.ndarray, dtype: DType | None, device: Any, requires_grad: bool
) -> Tensor:
    kind = window_dtype(op, dtype)
    return tensor(values, dtype=kind, device=device, requires_grad=requires_grad)
