#!/usr/bin/env python3
"""Train networks of today, written once for both libraries, with clnet and with PyTorch.

    python ci/twins.py [--device NAME] [--torch-device cuda] [--batch N] [--steps N] [NETWORK ...]

Each network starts from the same weights. Two steps are compared by their losses, then steps are
timed in turns: PyTorch's eager ones (TF32 off), clnet's with the step compiled as a whole, and with
``compile(model)`` alone under the same loop as PyTorch's. Prints medians and PyTorch's time over
clnet's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch

import clnet

TOLERANCE = 1e-3
CLASSES, WORDS, LENGTH = 1000, 8192, 1024


def mobile(library: Any) -> Any:
    """Inverted residual blocks without their sums: pointwise and depthwise convolutions."""
    nn = library.nn

    def block(channels: int, out: int, stride: int) -> Any:
        wide = 6 * channels
        layers = [nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False)]
        layers += [nn.BatchNorm2d(wide), nn.ReLU6()]
        return nn.Sequential(*layers, nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))

    sizes = [(32, 24, 1), (24, 24, 2), (24, 32, 2), (32, 64, 2), (64, 96, 1), (96, 160, 2)]
    first = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, CLASSES)]
    return nn.Sequential(*first, *(block(*size) for size in sizes), *last)


def vit(library: Any) -> Any:
    """A vision transformer of six layers, 384 wide, on patches of 16x16."""
    nn = library.nn

    class ViT(nn.Module):
        def __init__(self, width: int = 384) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, width, 16, 16)
            self.position = nn.Parameter(library.zeros(1, 197, width))
            self.token = nn.Parameter(library.zeros(1, 1, width))
            layer = nn.TransformerEncoderLayer(
                width, 6, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
            self.head = nn.Linear(width, CLASSES)

        def forward(self, x: Any) -> Any:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = library.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
            return self.head(self.encoder(x)[:, 0])

    return ViT()


def gpt(library: Any) -> Any:
    """A decoder of four layers, 768 wide, with attention to what came before."""
    nn = library.nn

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, length, width = x.shape
            parts = self.project(self.norm(x)).split(width, dim=2)
            shape = (n, length, self.heads, width // self.heads)
            q, k, v = (part.view(*shape).transpose(1, 2) for part in parts)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(n, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self, width: int = 768) -> None:
            super().__init__()
            self.word, self.place = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
            self.blocks = nn.ModuleList([Block(width, 12) for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.word(x) + self.place(library.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h)).flatten(0, 1)

    return GPT()


NETWORKS: dict[str, Callable[[Any], Any]] = {"mobile": mobile, "vit": vit, "gpt": gpt}


def examples(name: str, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target classes for a network."""
    rng = np.random.default_rng(0)
    if name == "gpt":
        words = rng.integers(0, WORDS, (2, max(batch // 8, 1), LENGTH))
        return words[0], words[1].reshape(-1)
    images = rng.standard_normal((batch, 3, 224, 224)).astype(np.float32)
    return images, rng.integers(0, CLASSES, batch)


def stepping(library: Any, model: Any, call: Any, x: Any, y: Any) -> Callable[[], Any]:
    """A training step as programs have it; it gives the loss."""
    optimizer = library.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def milliseconds(step: Callable[[], Any], steps: int) -> float:
    """What one of so many steps takes."""
    step().item()
    start = time.perf_counter()
    for _ in range(steps):
        loss = step()
    loss.item()
    return (time.perf_counter() - start) / steps * 1e3


def compare(name: str, batch: int, steps: int, torch_device: str) -> bool:
    """Train a network both ways and print a line; False if the losses differ."""
    x, y = examples(name, batch)
    theirs, ours = NETWORKS[name](torch).to(torch_device), NETWORKS[name](clnet)
    weights = {k: v.detach().cpu().numpy() for k, v in theirs.state_dict().items()}
    ours.load_state_dict({k: clnet.tensor(v) for k, v in weights.items()})
    there = [torch.tensor(v).to(torch_device) for v in (x, y)]
    here = [clnet.tensor(v) for v in (x, y)]
    ways = {
        "torch": stepping(torch, theirs, theirs, *there),
        "step": clnet.compile(stepping(clnet, ours, ours, *here)),
        "module": stepping(clnet, ours, clnet.compile(ours), *here),
    }
    losses = [(ways["torch"]().item(), ways["step"]().item()) for _ in range(2)]
    if not np.allclose(*zip(*losses, strict=True), rtol=TOLERANCE):
        print(f"{name}: losses differ: {losses}")
        return False
    seen: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(3):
        for way, step in ways.items():
            seen[way].append(milliseconds(step, steps))
    median = {way: statistics.median(times) for way, times in seen.items()}
    times = ", ".join(f"{way} {median[way]:.2f} ms" for way in ways)
    ratios = ", ".join(f"{way} {median['torch'] / median[way]:.2f}" for way in ("step", "module"))
    print(f"{name}: {times}; PyTorch's time over clnet's: {ratios}", flush=True)
    return True


def main() -> int:
    """Compare; 1 if losses differ."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--device", help="clnet's")
    parser.add_argument("--torch-device", default="cpu", help="PyTorch's")
    parser.add_argument("--batch", type=int, default=64, help="images; an eighth of it are texts")
    parser.add_argument("--steps", type=int, default=5, help="timed at a time")
    parser.add_argument("networks", nargs="*", choices=[[], *NETWORKS], help="only these")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    with clnet.device(given.device) if given.device else clnet.device():
        names = given.networks or list(NETWORKS)
        sizes = (given.batch, given.steps, given.torch_device)
        agree = [compare(name, *sizes) for name in names]
    return int(not all(agree))


if __name__ == "__main__":
    sys.exit(main())
