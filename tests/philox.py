"""Philox4x32-10 once more, written from the paper with Python's integers: the tests' reference."""

from __future__ import annotations

import numpy as np


def philox_block(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds."""
    c, (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        high0, high1, low = p0 >> 32, p1 >> 32, 0xFFFFFFFF
        c = [high1 ^ c[1] ^ k0, p1 & low, high0 ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return c


def words(seed: int, first: int, n: int) -> np.ndarray:
    """``n`` words of 32 bits, from counter ``first`` on."""
    key = [seed & 0xFFFFFFFF, seed >> 32]
    counters = range(first, first - (-n // 4))
    blocks = [philox_block([c & 0xFFFFFFFF, c >> 32, 0, 0], key) for c in counters]
    return np.array(blocks, np.uint32).ravel()[:n]


def long_words(seed: int, first: int, n: int) -> np.ndarray:
    """``n`` words of 64 bits, the low half first."""
    return words(seed, first, 2 * n).view(np.uint64)


def uniforms(seed: int, first: int, n: int) -> np.ndarray:
    """``n`` numbers in [0, 1) of 24 bits."""
    return (words(seed, first, n) >> 8) * 2.0**-24


def normals(seed: int, first: int, n: int) -> np.ndarray:
    """``n`` normals of pairs of words, in float64."""
    pairs = words(seed, first, n + n % 2).reshape(-1, 2)
    return box_muller((pairs[:, 0] + 0.5) * 2.0**-32, (pairs[:, 1] >> 8) * 2.0**-24)[:n]


def box_muller(u: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Two normals of each pair."""
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * turn
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()
