#!/usr/bin/env python3
"""Loss curves of a small GPT in 16 bits by clnet and by PyTorch, over seeds.

    python ci/loss_curves.py [--device NAME] [--precision bf16|fp16|fp32] [--seeds N] [--steps N]

Both train the same network on Python's own sources, byte by byte, with AdamW and autocast (fp16
with scaled gradients). A seed draws the weights, which both begin with, and the order of the texts.
Losses are averaged over windows of a tenth of the steps. It prints each window's means and the
deviation among PyTorch's seeds, and fails if a mean of clnet's is further from PyTorch's than the
noise of such a mean: three of its standard errors, of both sides together.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch

import clnet
from clnet import nn, optim
from clnet.bench.zoo_twins import gpt as torch_gpt
from clnet.models import GPT

WORDS, LENGTH, BLOCKS, HEADS, WIDTH = 256, 128, 4, 4, 256
BATCH, RATE, WINDOWS, ERRORS = 32, 1e-3, 10, 3


def sources() -> np.ndarray:
    """The bytes of the standard library's modules, in the order of their names."""
    folder = Path(argparse.__file__).parent
    return np.concatenate(
        [np.frombuffer(p.read_bytes(), np.uint8) for p in sorted(folder.glob("*.py"))]
    )


def batches(text: np.ndarray, seed: int, steps: int) -> Iterator[np.ndarray]:
    """Texts of one byte more than the network sees at once."""
    draw = np.random.default_rng(seed)
    for _ in range(steps):
        starts = draw.integers(0, len(text) - LENGTH, BATCH)
        yield np.stack([text[i : i + LENGTH + 1] for i in starts]).astype(np.int64)


def by_clnet(text: np.ndarray, seed: int, options: argparse.Namespace) -> tuple[list[float], Any]:
    """Losses, and the weights that it began with."""
    device = clnet.device(options.device)
    clnet.manual_seed(seed)
    model = GPT(WORDS, LENGTH, n_layer=BLOCKS, n_head=HEADS, n_embd=WIDTH).to(device)
    begun = {name: x.numpy().copy() for name, x in model.state_dict().items()}
    optimizer = optim.AdamW(model.parameters(), lr=RATE)
    scaler = clnet.amp.GradScaler(enabled=options.precision == "fp16")
    narrow = {"bf16": clnet.bfloat16, "fp16": clnet.float16}.get(options.precision)

    @clnet.compile
    def step(x: clnet.Tensor, y: clnet.Tensor) -> clnet.Tensor:
        optimizer.zero_grad()
        with clnet.autocast(device.type, dtype=narrow, enabled=narrow is not None):
            scores = model(x)
            loss = nn.functional.cross_entropy(scores.reshape(-1, WORDS), y.reshape(-1))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    losses: list[float] = []
    for drawn in batches(text, seed, options.steps):
        x, y = (clnet.tensor(np.ascontiguousarray(v), device=device) for v in _split(drawn))
        losses.append(step(x, y).item())
    return losses, begun


def by_torch(
    text: np.ndarray, seed: int, options: argparse.Namespace, begun: dict[str, np.ndarray]
) -> list[float]:
    """Losses, from the same weights."""
    kind = "cuda" if torch.cuda.is_available() and options.device != "pocl" else "cpu"
    model = torch_gpt(torch, WORDS, LENGTH, BLOCKS, HEADS, WIDTH)
    model.load_state_dict({k: torch.tensor(v) for k, v in begun.items()})
    model = model.to(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    scaler = torch.amp.GradScaler(kind, enabled=options.precision == "fp16")
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
    losses: list[float] = []
    for drawn in batches(text, seed, options.steps):
        x, y = (torch.tensor(np.ascontiguousarray(v), device=kind) for v in _split(drawn))
        optimizer.zero_grad()
        with torch.autocast(kind, dtype=narrow, enabled=narrow is not None):
            scores = model(x)
            loss = torch.nn.functional.cross_entropy(scores.reshape(-1, WORDS), y.reshape(-1))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def _split(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return drawn[:, :-1], drawn[:, 1:]


def windows(losses: list[float]) -> list[float]:
    """Their means over tenths."""
    return [float(part.mean()) for part in np.array_split(np.array(losses), WINDOWS)]


def main() -> int:
    """1 if the curves differ by more than their noise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", help="clnet's; PyTorch takes CUDA where it has it")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp16", "fp32"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    text, ours, theirs = sources(), list[list[float]](), list[list[float]]()
    for seed in range(options.seeds):
        losses, begun = by_clnet(text, seed, options)
        ours.append(windows(losses))
        theirs.append(windows(by_torch(text, seed, options, begun)))
    print(f"{options.precision}: means of {options.seeds} seeds, {options.steps // WINDOWS} steps")
    print("steps   clnet  PyTorch  difference  PyTorch's seeds  allowed")
    apart = 0
    for k, (a, b) in enumerate(
        zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)
    ):
        difference = statistics.mean(a) - statistics.mean(b)
        error = (statistics.variance(a) + statistics.variance(b)) ** 0.5 / len(a) ** 0.5
        apart += abs(difference) > ERRORS * error
        print(
            f"{(k + 1) * options.steps // WINDOWS:5}  {statistics.mean(a):6.4f}   "
            f"{statistics.mean(b):6.4f}  {difference:+10.4f}  {statistics.stdev(b):15.4f}  "
            f"{ERRORS * error:7.4f}"
        )
    print("the curves differ" if apart else "no difference beyond the noise of seeds")
    return int(apart > 0)


if __name__ == "__main__":
    raise SystemExit(main())
