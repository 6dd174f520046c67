"""Fourier transforms and the filters of sound."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import fft, ops
from ...errors import ArgumentError
from ...tensor import Tensor
from ...values.dtypes import int64
from ..elements import by_number, to_device
from ..registry import Host, handler


def _complex(x: Tensor) -> Tensor:
    """A last axis of one or two parts as numbers."""
    if x.shape[-1] == 1:
        return ops.select(x, -1, 0)
    return ops.view_as_complex(ops.contiguous(x))


@handler("DFT", since=17)
def dft_old(
    x: Tensor, length: Host | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    """The discrete Fourier transform along an axis."""
    return dft(x, length, np.array(axis), inverse=inverse, onesided=onesided)


@handler("DFT", since=20)
def dft(
    x: Tensor,
    length: Host | None = None,
    axis: Host | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """The discrete Fourier transform along an axis, numbers as two parts in the last one."""
    along = -2 if axis is None else int(np.asarray(axis).reshape(-1)[0])
    along %= x.ndim
    n = None if length is None else int(np.asarray(length).reshape(-1)[0])
    given = _complex(x)
    if inverse and onesided:
        return ops.unsqueeze(fft.irfft(given, n, along), -1)
    if inverse:
        return ops.view_as_real(fft.ifft(given, n, along))
    y = fft.fft(given, n, along)
    if onesided:
        y = ops.narrow(y, along, 0, y.shape[along] // 2 + 1)
    return ops.view_as_real(y)


@handler("STFT", since=17)
def stft(
    x: Tensor,
    step: Host,
    window: Tensor | None = None,
    length: Host | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Transforms of overlapping frames."""
    signal = _complex(x) if x.ndim == 3 else x
    hop = int(np.asarray(step).reshape(-1)[0])
    if length is not None:
        size = int(np.asarray(length).reshape(-1)[0])
    elif window is not None:
        size = window.shape[0]
    else:
        raise ArgumentError("onnx", "frames have a window or a length")
    count = 1 + (signal.shape[-1] - size) // hop
    index = np.arange(count)[:, None] * hop + np.arange(size)
    frames = ops.index_select(signal, 1, x.new_tensor(index.reshape(-1), dtype=int64))
    frames = frames.reshape((signal.shape[0], count, size))
    frames = frames if window is None else frames * window
    y = fft.fft(frames, None, -1)
    if onesided:
        y = ops.narrow(y, -1, 0, size // 2 + 1)
    return ops.view_as_real(y)


@handler("MelWeightMatrix", since=17)
def mel_weight_matrix(
    bins: Host,
    dft_length: Host,
    rate: Host,
    low: Host,
    high: Host,
    *,
    output_datatype: int = 1,
    device: Any = None,
) -> Any:
    """Triangular filters, evenly spaced in mel: a table made of five numbers."""
    count, size = int(bins), int(dft_length)

    def mel(hertz: float) -> float:
        return 2595 * np.log10(1 + hertz / 700)

    first, last = mel(float(low)), mel(float(high))
    step = (last - first) / (count + 2)
    hertz = 700 * (10 ** ((first + np.arange(count + 2) * step) / 2595) - 1)
    places = ((size + 1) * hertz // int(rate)).astype(int)
    table = np.zeros((size // 2 + 1, count))
    for i in range(count):
        left, centre, right = places[i : i + 3]
        if centre == left:
            table[centre, i] = 1
        else:
            rising = np.arange(left, centre + 1)
            table[rising, i] = (rising - left) / (centre - left)
        if right > centre:
            falling = np.arange(centre, right)
            table[falling, i] = (right - falling) / (right - centre)
    return to_device(table.astype(by_number(output_datatype).numpy), device)
