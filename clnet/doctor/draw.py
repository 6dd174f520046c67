"""Inputs of cases, drawn from a generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator], Sequence[np.ndarray]]


def normal(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Draw:
    """Normal numbers of these shapes."""
    return lambda rng: [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def between(low: float, high: float, *shapes: tuple[int, ...]) -> Draw:
    """Numbers of an interval."""
    return lambda rng: [rng.uniform(low, high, shape).astype(np.float32) for shape in shapes]


def apart(*shape: int) -> Draw:
    """Numbers of which no two are nearly the same, in any order."""

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        count = math.prod(shape)
        return [((rng.permutation(count) - count / 2) / 7).astype(np.float32).reshape(shape)]

    return draw


def with_whole(draw: Draw, high: int, *shape: int, dtype: Any = np.int64) -> Draw:
    """What another draws, and whole numbers below ``high``."""
    return lambda rng: [*draw(rng), rng.integers(0, high, shape).astype(dtype)]
