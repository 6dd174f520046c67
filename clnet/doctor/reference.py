"""What ops compute, once more: plain NumPy in float64, written for reading and not for speed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np


def taps(size: tuple[int, int], out: tuple[int, int], step: int, apart: int) -> Iterator[tuple]:
    """For each place of a window: its row and column, and the slices of a plane that it meets."""
    for i in range(size[0]):
        for j in range(size[1]):
            rows = slice(i * apart, i * apart + (out[0] - 1) * step + 1, step)
            columns = slice(j * apart, j * apart + (out[1] - 1) * step + 1, step)
            yield i, j, rows, columns


def _padded(x: np.ndarray, pad: int, value: float = 0) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=value)


def _out(x: np.ndarray, size: tuple[int, int], step: int, pad: int, apart: int) -> tuple[int, int]:
    oh, ow = (
        (n + 2 * pad - apart * (k - 1) - 1) // step + 1
        for n, k in zip(x.shape[2:], size, strict=True)
    )
    return oh, ow


def conv(
    x: np.ndarray, w: np.ndarray, *, step: int = 1, pad: int = 0, apart: int = 1, groups: int = 1
) -> np.ndarray:
    """A convolution of images (n, c, h, w) with filters (oc, c / groups, kh, kw)."""
    out = _out(x, w.shape[2:], step, pad, apart)
    wide, per = _padded(x, pad), w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for g in range(groups):
        some, mine = slice(g * w.shape[1], (g + 1) * w.shape[1]), slice(g * per, (g + 1) * per)
        for i, j, rows, columns in taps(w.shape[2:], out, step, apart):
            part = wide[:, some, rows, columns]
            y[:, mine] += np.einsum("nchw,oc->nohw", part, w[mine, :, i, j])
    return y


def conv_gradients(
    c: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    *,
    step: int = 1,
    pad: int = 0,
    apart: int = 1,
    groups: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Of the cotangent ``c`` the gradients of :func:`conv`'s image and filters."""
    out, wide, per = c.shape[2:], _padded(x, pad), w.shape[0] // groups
    gx, gw = np.zeros(wide.shape), np.zeros(w.shape)
    for g in range(groups):
        some, mine = slice(g * w.shape[1], (g + 1) * w.shape[1]), slice(g * per, (g + 1) * per)
        for i, j, rows, columns in taps(w.shape[2:], out, step, apart):
            part = wide[:, some, rows, columns]
            gx[:, some, rows, columns] += np.einsum("nohw,oc->nchw", c[:, mine], w[mine, :, i, j])
            gw[mine, :, i, j] = np.einsum("nohw,nchw->oc", c[:, mine], part)
    return gx[:, :, pad : pad + x.shape[2], pad : pad + x.shape[3]], gw


def _windows(x: np.ndarray, size: int, step: int, pad: int, value: float) -> np.ndarray:
    out = _out(x, (size, size), step, pad, 1)
    wide = _padded(x, pad, value)
    return np.stack([wide[:, :, r, s] for _, _, r, s in taps((size, size), out, step, 1)])


def max_pool(x: np.ndarray, size: int, *, step: int, pad: int = 0) -> np.ndarray:
    """The largest number of each window."""
    return _windows(x, size, step, pad, -np.inf).max(0)


def avg_pool(x: np.ndarray, size: int, *, step: int, pad: int = 0) -> np.ndarray:
    """The mean of each window, zeros around the image among its numbers."""
    return _windows(x, size, step, pad, 0).mean(0)


def normed(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    """Numbers less their mean, over their deviation."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def batch_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Channels of images normalised over the batch, scaled and shifted."""
    shape = (1, -1, 1, 1)
    return normed(x, (0, 2, 3)) * w.reshape(shape) + b.reshape(shape)


def group_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray, groups: int) -> np.ndarray:
    """Groups of channels of images normalised, scaled and shifted."""
    parts = normed(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)
    return parts * w.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    most = x.max(-1, keepdims=True)
    return (np.log(np.exp(x - most).sum(-1, keepdims=True)) + most)[..., 0]


def cross_entropy(x: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The mean over rows of what their classes cost."""
    return np.asarray(np.mean(log_sum_exp(x) - x[np.arange(len(x)), classes]))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool) -> np.ndarray:
    """Attention of queries, keys and values (..., rows, width)."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def sigmoid(x: np.ndarray) -> np.ndarray:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def lstm_step(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, w: np.ndarray, u: np.ndarray
) -> np.ndarray:
    """The next hidden state of an LSTM, whose gates are input, forget, cell and output."""
    i, f, g, o = np.split(x @ w.T + h @ u.T, 4, axis=1)
    return sigmoid(o) * np.tanh(sigmoid(f) * c + sigmoid(i) * np.tanh(g))


def gru_step(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The next hidden state of a GRU, whose gates are reset, update and new."""
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ w.T, 3, axis=1), np.split(h @ u.T, 3, axis=1)
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h


def philox(seed: int, first: int, blocks: int) -> np.ndarray:
    """Words of 32 bits of Philox4x32-10, from counter ``first`` on, four a block."""
    words: list[int] = []
    for count in range(first, first + blocks):
        c, key = [count & 0xFFFFFFFF, count >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(q >> 32) ^ c[1] ^ key[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ key[1]]
            c.append(p & 0xFFFFFFFF)
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += c
    return np.array(words, np.uint32)
