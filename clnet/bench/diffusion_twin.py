"""The U-Net of ``clnet.models.diffusion`` once more in PyTorch, with the same names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import log
from typing import Any


def diffusion(
    torch: Any, ch: int, mult: Sequence[int], deep: int, attends: Sequence[bool], groups: int
) -> Any:
    """The twin of :class:`clnet.models.DiffusionUNet`, without dropout.

    Args:
        torch: the module.
        ch: channels of the first level.
        mult: those of all levels, over these.
        deep: residual blocks of a level.
        attends: on which levels there is attention.
        groups: of the norms.
    """
    nn, func = torch.nn, torch.nn.functional
    block, attention = _block(torch, ch, groups), _attention(torch, groups)
    level = partial(_level, nn, block, attention)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            dense = [nn.Linear(ch, 4 * ch), nn.Linear(4 * ch, 4 * ch)]
            self.temb = nn.ModuleDict({"dense": nn.ModuleList(dense)})
            self.conv_in = nn.Conv2d(3, ch, 3, padding=1)
            self.down = nn.ModuleList()
            widths, kept, last = [ch * m for m in mult], [ch], len(mult) - 1
            for i, out in enumerate(widths):
                sizes = [(kept[-1], out)] + [(out, out)] * (deep - 1)
                name = "downsample" if i < last else ""
                self.down.append(level(sizes, name, attends=attends[i]))
                kept += [out] * (deep + (i < last))
            width = widths[-1]
            self.mid = nn.ModuleDict(
                {"block_1": block(width, width), "attn_1": attention(width),
                 "block_2": block(width, width)}
            )  # fmt: skip
            ups = []
            for i in range(last, -1, -1):
                sizes = []
                for _ in range(deep + 1):
                    sizes.append((width + kept.pop(), widths[i]))
                    width = widths[i]
                ups.append(level(sizes, "upsample" if i else "", attends=attends[i]))
            self.up = nn.ModuleList(reversed(ups))
            self.norm_out, self.conv_out = (
                nn.GroupNorm(groups, ch, 1e-6),
                nn.Conv2d(ch, 3, 3, padding=1),
            )

        def forward(self, x: Any, t: Any) -> Any:
            dense = self.temb["dense"]
            time = dense[1](func.silu(dense[0](_waves(torch, t, ch // 2))))
            kept = [self.conv_in(x)]
            for part in self.down:
                for number in range(deep):
                    kept.append(_through(part, number, kept[-1], time))
                if "downsample" in part:
                    kept.append(part["downsample"]["conv"](func.pad(kept[-1], (0, 1, 0, 1))))
            y = self.mid["attn_1"](self.mid["block_1"](kept[-1], time))
            y = self.mid["block_2"](y, time)
            for part in reversed(self.up):
                for number in range(deep + 1):
                    y = _through(part, number, torch.cat([y, kept.pop()], 1), time)
                if "upsample" in part:
                    y = part["upsample"]["conv"](func.interpolate(y, scale_factor=2))
            return self.conv_out(func.silu(self.norm_out(y)))

    return UNet()


def _waves(torch: Any, t: Any, half: int) -> Any:
    steps = torch.exp(torch.arange(half, device=t.device) * (-log(10000) / (half - 1)))
    angles = torch.outer(t.float(), steps)
    return torch.cat([angles.sin(), angles.cos()], 1)


def _block(torch: Any, ch: int, groups: int) -> Any:
    nn, func = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, channels: int, out: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = (
                nn.GroupNorm(groups, channels, 1e-6),
                nn.Conv2d(channels, out, 3, padding=1),
            )
            self.temb_proj = nn.Linear(4 * ch, out)
            self.norm2, self.conv2 = (
                nn.GroupNorm(groups, out, 1e-6),
                nn.Conv2d(out, out, 3, padding=1),
            )
            self.nin_shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

        def forward(self, x: Any, time: Any) -> Any:
            y = self.conv1(func.silu(self.norm1(x)))
            y = y + self.temb_proj(func.silu(time))[..., None, None]
            y = self.conv2(func.silu(self.norm2(y)))
            return y + (x if self.nin_shortcut is None else self.nin_shortcut(x))

    return Block


def _attention(torch: Any, groups: int) -> Any:
    nn, func = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(groups, channels, 1e-6)
            self.q, self.k = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
            self.v = nn.Conv2d(channels, channels, 1)
            self.proj_out = nn.Conv2d(channels, channels, 1)

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            q, k, v = (f(y).flatten(2).mT.unsqueeze(1) for f in (self.q, self.k, self.v))
            seen = func.scaled_dot_product_attention(q, k, v)
            return x + self.proj_out(seen.squeeze(1).mT.reshape(x.shape))

    return Attention


def _level(
    nn: Any,
    block: Any,
    attention: Any,
    sizes: list[tuple[int, int]],
    name: str,
    *,
    attends: bool,
) -> Any:
    out = sizes[0][1]
    parts = {"block": nn.ModuleList([block(*size) for size in sizes])}
    parts["attn"] = nn.ModuleList([attention(out) for _ in sizes if attends])
    if name:
        down = name == "downsample"
        conv = nn.Conv2d(out, out, 3, 2 if down else 1, 0 if down else 1)
        parts[name] = nn.ModuleDict({"conv": conv})
    return nn.ModuleDict(parts)


def _through(part: Any, number: int, x: Any, time: Any) -> Any:
    y = part["block"][number](x, time)
    return part["attn"][number](y) if len(part["attn"]) else y
