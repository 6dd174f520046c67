"""Data sets of random pictures, for what is not about pictures: CIFAR-10's take 13 s to decode."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_cifar10(folder: Path, *, each: int) -> None:
    """The binary version's files.

    Args:
        folder: is made.
        each: pictures of a file, of which five are for training; of all classes in turn.
    """
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = rng.integers(0, 256, (each, 1 + 3 * 32 * 32), dtype=np.uint8)
        records[:, 0] = np.arange(each) % 10
        (folder / name).write_bytes(records.tobytes())
