"""PyTorch's answers at the special points, kept in a file so that they are there without PyTorch.

``python ci/points.py --record`` writes it; a test says when it no longer is what PyTorch gives.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

import numpy as np

from tests.points.sweep import Point

FILE = Path(__file__).with_name("answers.xz")
DTYPES = ("float32", "float64", "float16", "bfloat16")
Answers = dict[str, dict[str, np.ndarray]]


def key(point: Point, dtype: str) -> str:
    """What a call's answers are found by."""
    return f"{dtype} {point.text} {point.operands} {point.kinks} {point.orders}"


def write(answers: Answers, written_by: str) -> None:
    """Write the file: a line of JSON that says what lies where, then the numbers."""
    index: dict[str, list[tuple[str, str, int]]] = {}
    parts: list[bytes] = []
    for name, arrays in answers.items():
        index[name] = [(n, a.dtype.str, a.size) for n, a in arrays.items()]
        # Bytes of one significance beside each other: signs and exponents repeat.
        parts += [
            np.ascontiguousarray(a.reshape(-1).view(np.uint8).reshape(a.size, -1).T).tobytes()
            for a in arrays.values()
        ]
    head = json.dumps({"by": written_by, "index": index}, separators=(",", ":")).encode()
    FILE.write_bytes(lzma.compress(head + b"\n" + b"".join(parts), preset=9))


@cache
def read() -> tuple[str, Answers]:
    """Who wrote the file, and its answers."""
    head, _, body = lzma.decompress(FILE.read_bytes()).partition(b"\n")
    stored, at = json.loads(head), 0
    found: Answers = {}
    for name, arrays in stored["index"].items():
        found[name] = {}
        for quantity, kind, size in arrays:
            dtype = np.dtype(kind)
            raw = np.frombuffer(body, np.uint8, size * dtype.itemsize, at)
            at += size * dtype.itemsize
            columns = np.ascontiguousarray(raw.reshape(dtype.itemsize, size).T)
            found[name][quantity] = columns.reshape(-1).view(dtype)
    return stored["by"], found
