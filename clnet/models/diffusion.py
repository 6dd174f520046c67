"""The U-Net of diffusion models (Ho et al. 2020): residual blocks that know the time, attention.

Entries of ``state_dict`` have the names of the usual PyTorch source of these networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from .. import nn, ops
from ..creation import arange
from ..errors import ArgumentError
from ..nn import functional as F
from ..tensor import Tensor

_EPS = 1e-6
_PERIOD = 10000.0


def times(t: Tensor, width: int) -> Tensor:
    """Sines and cosines of numbers of steps, ``(n, width)``.

    Args:
        t: ``(n,)``.
        width: an even number.
    """
    half = width // 2
    frequencies = (arange(half, device=t.device) * (-log(_PERIOD) / (half - 1))).exp()
    angles = t.float()[:, None] * frequencies
    return ops.cat([angles.sin(), angles.cos()], 1)


class DiffusionResnetBlock(nn.Module):
    """Two convolutions behind norms, the time added between, and a shortcut.

    Args:
        channels: of the input.
        out: of the result.
        time: features of the time.
        groups: of the norms.
        dropout: before the second convolution.
    """

    def __init__(self, channels: int, out: int, time: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels, _EPS)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.temb_proj = nn.Linear(time, out)
        self.norm2 = nn.GroupNorm(groups, out, _EPS)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        if channels != out:
            self.nin_shortcut = nn.Conv2d(channels, out, 1)
        self.widens = channels != out

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """``(n, out, h, w)``; the time is ``(n, time)``."""
        y = self.conv1(F.silu(self.norm1(x))) + self.temb_proj(F.silu(time))[:, :, None, None]
        y = self.conv2(self.dropout(F.silu(self.norm2(y))))
        return (self.nin_shortcut(x) if self.widens else x) + y


class DiffusionAttention(nn.Module):
    """Every pixel attends to all.

    Args:
        channels: of the images.
        groups: of the norm.
    """

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, _EPS)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, channels, h, w)``."""
        y = self.norm(x)
        q, k, v = (
            project(y).flatten(2).transpose(1, 2)[:, None] for project in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v)[:, 0].transpose(1, 2)
        return x + self.proj_out(y.reshape(*x.shape))


class _Sampling(nn.Module):
    """A convolution that halves images, or doubles them before.

    Args:
        channels: of the images.
        halves: whether they are halved.
    """

    def __init__(self, channels: int, *, halves: bool) -> None:
        super().__init__()
        self.halves = halves
        padding = 0 if halves else 1
        self.conv = nn.Conv2d(channels, channels, 3, 2 if halves else 1, padding)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, channels, ...)``."""
        if self.halves:
            return self.conv(F.pad(x, (0, 1, 0, 1)))
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class _Level(nn.Module):
    """Blocks of one size of images, and what leads to the next.

    Args:
        blocks: residual blocks.
        attention: behind each, or none.
        sampling: what follows them, or None.
        name: of that.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        attention: Sequence[nn.Module],
        sampling: nn.Module | None,
        name: str,
    ) -> None:
        super().__init__()
        self.block = nn.ModuleList(blocks)
        self.attn = nn.ModuleList(attention)
        self.name = name
        if sampling is not None:
            self.add_module(name, sampling)
        self.leads_on = sampling is not None

    def run(self, number: int, x: Tensor, time: Tensor) -> Tensor:
        """One of the blocks, and its attention."""
        x = self.block[number](x, time)
        return self.attn[number](x) if len(self.attn) else x

    def lead(self, x: Tensor) -> Tensor:
        """Images of the next level's size."""
        return getattr(self, self.name)(x)


class DiffusionUNet(nn.Module):
    """What noise was added to images, from the images and the number of the step.

    Args:
        image_size: height and width.
        ch: channels of the first level.
        ch_mult: those of all levels, over these.
        num_res_blocks: of a level on the way down; one more on the way up.
        attn_resolutions: sizes of images at which there is attention.
        in_channels: of the images.
        dropout: in all blocks.
        groups: of the norms.

    Raises:
        ArgumentError: if images cannot be halved so often, or groups do not divide the channels.
    """

    def __init__(
        self,
        image_size: int = 32,
        *,
        ch: int = 128,
        ch_mult: Sequence[int] = (1, 2, 2, 2),
        num_res_blocks: int = 2,
        attn_resolutions: Sequence[int] = (16,),
        in_channels: int = 3,
        dropout: float = 0.1,
        groups: int = 32,
    ) -> None:
        super().__init__()
        levels = len(ch_mult)
        if image_size % 2 ** (levels - 1) or ch % groups:
            raise ArgumentError(
                "DiffusionUNet", "images are halved between levels, and groups divide ch",
                image_size=image_size, levels=levels, ch=ch, groups=groups,
            )  # fmt: skip
        self.ch, time = ch, 4 * ch
        self.blocks = num_res_blocks

        def block(channels: int, out: int) -> nn.Module:
            return DiffusionResnetBlock(channels, out, time, groups, dropout)

        def attention(level: int, count: int) -> list[nn.Module]:
            count = count if image_size >> level in attn_resolutions else 0
            return [DiffusionAttention(ch * ch_mult[level], groups) for _ in range(count)]

        dense = [nn.Linear(ch, time), nn.Linear(time, time)]
        self.temb = nn.ModuleDict({"dense": nn.ModuleList(dense)})
        self.conv_in = nn.Conv2d(in_channels, ch, 3, padding=1)
        self.down = nn.ModuleList()
        kept, width = [ch], ch
        for level, factor in enumerate(ch_mult):
            out = ch * factor
            blocks = [block(width if i == 0 else out, out) for i in range(num_res_blocks)]
            last = level == levels - 1
            halved = None if last else _Sampling(out, halves=True)
            around = attention(level, num_res_blocks)
            self.down.append(_Level(blocks, around, halved, "downsample"))
            kept += [out] * (num_res_blocks + (not last))
            width = out
        between: dict[str, nn.Module] = {"block_1": block(width, width)}
        between |= {"attn_1": DiffusionAttention(width, groups), "block_2": block(width, width)}
        self.mid = nn.ModuleDict(between)
        up: list[nn.Module] = []
        for level in reversed(range(levels)):
            out = ch * ch_mult[level]
            widths = [width, *[out] * num_res_blocks]
            blocks = [block(wide + kept.pop(), out) for wide in widths]
            doubled = _Sampling(out, halves=False) if level else None
            around = attention(level, num_res_blocks + 1)
            up.insert(0, _Level(blocks, around, doubled, "upsample"))
            width = out
        self.up = nn.ModuleList(up)
        self.norm_out = nn.GroupNorm(groups, width, _EPS)
        self.conv_out = nn.Conv2d(width, in_channels, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """``(n, in_channels, image_size, image_size)``; ``t`` ``(n,)`` are numbers of steps."""
        first, second = self.temb["dense"].children()
        time = second(F.silu(first(times(t, self.ch))))
        kept = [self.conv_in(x)]
        for level in self.down:
            for number in range(self.blocks):
                kept.append(level.run(number, kept[-1], time))
            if level.leads_on:
                kept.append(level.lead(kept[-1]))
        y = self.mid["block_1"](kept[-1], time)
        y = self.mid["block_2"](self.mid["attn_1"](y), time)
        for level in reversed(list(self.up)):
            for number in range(self.blocks + 1):
                y = level.run(number, ops.cat([y, kept.pop()], 1), time)
            if level.leads_on:
                y = level.lead(y)
        return self.conv_out(F.silu(self.norm_out(y)))
