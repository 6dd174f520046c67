"""A large array, and a model larger than most allocations: ``python ci/big.py [GIB] [MODEL_GIB]``.

Of the default device; 6 GiB and 12 GiB unless told. Each number is known in closed form, so no
reference of that size is computed. It fails at the first that is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from clnet import nn

WIDTH = 8192
RATE = 0.01


def array(gib: float) -> None:
    """One array: written, computed with in place, summed, picked from."""
    columns = 1000
    rows = int(gib * 2**30) // (4 * columns) + 1
    big = clnet.empty(rows, columns)
    big.copy_(clnet.arange(float(columns)).expand(rows, columns))
    big.mul_(2).add_(1)
    row = 2 * np.arange(columns, dtype=np.float32) + 1
    picked = clnet.tensor([0, rows // 2, rows - 1])
    same("the last row", big[-1].numpy(), row)
    same("rows picked", big[picked].numpy(), np.tile(row, (3, 1)))
    same("the last elements", big.reshape(-1)[-5:].numpy(), row[-5:])
    close("means of columns", big.mean(dim=0).numpy(), row)
    same("the largest", big.max().numpy(), row[-1])
    added = big + big
    same("the last row of a sum", added[-1].numpy(), 2 * row)
    print(f"array of {big.nbytes / 2**30:.2f} GiB: right", flush=True)


def model(gib: float) -> None:
    """Training steps of layers of ones, eager and compiled: each loss is known."""
    layers = max(int(gib * 2**30) // (4 * WIDTH**2), 1)
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    with clnet.no_grad():
        for weight in net.parameters():
            weight.fill_(1 / WIDTH)
    optimizer = clnet.optim.SGD(net.parameters(), lr=RATE)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).mean()
        loss.backward()
        optimizer.step()
        return loss

    # All weights stay equal; a layer gives so many times what it is given.
    times, losses = 1.0, list[float]()
    for _ in range(3):
        losses.append(times**layers)
        times -= RATE * times ** (layers - 1)
    x = clnet.ones(16, WIDTH)
    for expected, run in zip(
        losses, (step, compiled := clnet.compile(step), compiled), strict=True
    ):
        close("a loss", np.asarray(run(x).item()), np.asarray(expected))
    size = layers * 4 * WIDTH**2 / 2**30
    reserved = clnet.device().pool.statistics().reserved / 2**30
    print(f"model of {size:.2f} GiB, {reserved:.1f} GiB in all: right", flush=True)


def same(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Fail unless two arrays are equal."""
    if not np.array_equal(found, expected):
        raise SystemExit(f"{what}: {found} instead of {expected}")


def close(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Fail unless two arrays are equal but for rounding."""
    if not np.allclose(found, expected, rtol=1e-3):
        raise SystemExit(f"{what}: {found} instead of {expected}")


def timed(work: Callable[[float], None], gib: float) -> None:
    """Do it, and tell how long it took."""
    start = time.perf_counter()
    work(gib)
    clnet.empty_cache()
    print(f"  {time.perf_counter() - start:.1f} s")


def main() -> int:
    """Both."""
    sizes = [float(text) for text in sys.argv[1:]]
    traits = clnet.device().traits
    print(
        f"{clnet.device()}: {traits.global_memory_bytes / 2**30:.1f} GiB, buffers of at "
        f"most {traits.max_allocation_bytes / 2**30:.2f} GiB"
    )
    timed(array, sizes[0] if sizes else 6.0)
    timed(model, sizes[1] if len(sizes) > 1 else 12.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
