"""One call compared with PyTorch's answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import clnet
from clnet.device import Device
from clnet.values import mode
from tests.points.answers import key, read
from tests.points.differences import explained
from tests.points.sweep import Point, differs, run, spread


class Outcome(NamedTuple):
    """How many numbers were compared, how many differ, and those that no line explains."""

    points: int
    different: int
    unlisted: tuple[str, ...]


def check(point: Point, dtype: str, device: Device, *, compiled: bool = False) -> Outcome:
    """Compare a call with its answers."""
    expected = read()[1][key(point, dtype)]
    with mode.using(device=device):
        actual = run(clnet, point, dtype, compiled=compiled)
    hosts, _ = point.inputs(dtype)
    points, different, unlisted = 0, 0, list[str]()
    for name, want in expected.items():
        got = actual.get(name, np.zeros_like(want)).reshape(-1)
        if got.shape != want.shape or got.dtype != want.dtype:
            unlisted.append(f"{name} is {got.dtype} {got.shape}, not {want.dtype} {want.shape}")
            continue
        wrong = differs(name, got, want, dtype, hosts)
        points += wrong.size
        different += int(wrong.sum())
        known = explained(point.text, name, hosts, got, want)
        for i in np.flatnonzero(wrong & ~known)[:4]:
            given = ", ".join(f"{spread(h, wrong.size)[i]!s}" for h in hosts)
            unlisted.append(f"{name}({given}) = {got[i]!s}, not {want[i]!s}")
    return Outcome(points, different, tuple(unlisted))


def kept(point: Point, dtype: str) -> bool:
    """Whether a call is swept in a dtype: those of one operand in all, the others in float32."""
    if dtype == "float32":
        return True
    alone = len(point.operands) == 1
    narrow = point.sixteen_bit and "double" not in point.text
    return alone and (dtype == "float64" or narrow)
