"""The points: zeros, ones, kinks, saturation, the ends of the number line, infinities and NaN."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

INF, NAN = float("inf"), float("nan")
VECTOR = 64
COTANGENTS = (1.0, 0.0, -2.0)  # what arrives from above: 0 shows products of 0 and infinity

# Named lists, so that a call can say `a="unit"`.
SMALL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5)
TAME = (*SMALL, 0.25, 2.0, -2.0, 3.0, -3.0)
KINKS = (2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 1.5, -1.5, 2.5, -2.5, 0.1, -0.1)
LARGE = (20.0, -20.0, 88.0, -88.0, 104.0, -104.0, 1e4, -1e4)
ODD = (INF, -INF, NAN)


def ends(dtype: str) -> tuple[float, ...]:
    """Neighbours of 1, where exponentials overflow, the largest and the least of a dtype."""
    info = ml_dtypes.finfo(dtype)
    one, least = float(info.eps), float(info.smallest_subnormal)
    tiny, most = float(info.tiny), float(info.max)
    far = {"float64": (709.0, 710.0, 746.0, 1e300), "float16": (12.0, 1e3)}
    beyond = far.get(dtype, (89.0, 1e30))
    both = (1 + one, 1 - one / 2, *beyond, tiny, 8 * least, least, most)
    return tuple(sign * x for x in both for sign in (1.0, -1.0))


def named(name: str, dtype: str) -> tuple[float, ...]:
    """The points of a name, in a dtype."""
    info = ml_dtypes.finfo(dtype)
    tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    pair = (*SMALL, 2.0, -2.0, 3.0, 20.0, -20.0, 88.0, -104.0, tiny, -tiny, least, most, -most)
    unit = (0.0, -0.0, 1.0, 0.5, 0.25, tiny, least, 1 - float(info.eps) / 2, 1e-20)
    lists = {
        "all": (*SMALL, *KINKS, *LARGE, *ends(dtype), *ODD),
        "pair": (*pair, 1e30, -1e30, *ODD),
        "triple": (*SMALL, -2.0, 88.0, 1e30, *ODD),
        "few": (0.0, -0.0, 1.0, -1.0, 0.5, INF, NAN),
        "tame": TAME,
        "unit": unit,
        "target": (0.0, 1.0, 0.5, 0.25),
        "label": (1.0, -1.0),
        "weight": (0.0, 1.0, 0.5, 3.0),
        "count": (0.0, 1.0, 2.0, 1.5, 20.0),
        "degree": (-1.0, 0.0, 1.0, 2.0, 2.5, 7.0, 20.0),
        "whole": (0.0, 1.0, -1.0, 2.0, -3.0, 127.0, -127.0),
    }
    return lists[name]


def grid(
    lists: Sequence[Sequence[float]], dtype: str, cotangents: Sequence[float]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Every combination of points with every cotangent: an array for each operand, and those."""
    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    with np.errstate(over="ignore"):
        columns = np.array(list(product(cotangents, *lists)), np.float64).T.astype(kind)
    # A whole number of any processor's vectors: what is left over PyTorch computes in other ways.
    rows = -(-columns.shape[1] // VECTOR) * VECTOR
    columns = np.take(columns, np.arange(rows) % columns.shape[1], axis=1)
    return [np.ascontiguousarray(c) for c in columns[1:]], np.ascontiguousarray(columns[0])
