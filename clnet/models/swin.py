"""Swin transformers (Liu et al. 2021): attention within windows, with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from .. import nn, ops
from ..creation import arange, empty
from ..nn import functional as F
from ..nn import init
from ..tensor import Tensor
from .convnext import Permute
from .initial import zero
from .parts import StochasticDepth
from .vision_transformer import MLPBlock

_WINDOW = 7
_APART = -100.0  # added to the scores of pixels that only the shift brought together


class PatchMerging(nn.Module):
    """Four neighbouring pixels become one of twice the channels.

    Args:
        dim: channels.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, h / 2, w / 2, 2 dim)``, rounded up, from ``(n, h, w, dim)``."""
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        n, h, w, channels = x.shape
        fours = x.view(n, h // 2, 2, w // 2, 2, channels).permute(0, 1, 3, 4, 2, 5)
        return self.reduction(self.norm(fours.reshape(n, h // 2, w // 2, 4 * channels)))


class ShiftedWindowAttention(nn.Module):
    """Every pixel attends to those of its window; how far they are apart is added to scores.

    Args:
        dim: channels.
        num_heads: of the attention.
        shift: by which the image is turned before it is cut into windows.
    """

    relative_position_index: Tensor

    def __init__(self, dim: int, num_heads: int, shift: int) -> None:
        super().__init__()
        self.num_heads, self.shift = num_heads, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        distances = 2 * _WINDOW - 1
        table = init.trunc_normal_(empty(distances * distances, num_heads), std=0.02)
        self.relative_position_bias_table = nn.Parameter(table)
        place = arange(_WINDOW)
        apart = place[:, None] - place[None, :] + (_WINDOW - 1)
        index = apart[:, None, :, None] * distances + apart[None, :, None, :]
        self.register_buffer("relative_position_index", index.reshape(-1))

    def forward(self, x: Tensor) -> Tensor:
        """``(n, h, w, dim)``."""
        n, h, w, dim = x.shape
        x = F.pad(x, (0, 0, 0, -w % _WINDOW, 0, -h % _WINDOW))
        high, wide = x.shape[1:3]
        # An image of one window is not turned.
        down, right = (self.shift if size > _WINDOW else 0 for size in (high, wide))
        turned = down or right
        if turned:
            x = x.roll((-down, -right), (1, 2))
        rows, columns, area = high // _WINDOW, wide // _WINDOW, _WINDOW * _WINDOW
        x = x.view(n, rows, _WINDOW, columns, _WINDOW, dim).permute(0, 1, 3, 2, 4, 5)
        q, k, v = (
            self.qkv(x.reshape(n, rows * columns, area, dim))
            .view(n, rows * columns, area, 3, self.num_heads, dim // self.num_heads)
            .permute(3, 0, 1, 4, 2, 5)
        )
        near = self.relative_position_bias_table[self.relative_position_index]
        scores = (q / sqrt(dim // self.num_heads)) @ k.transpose(-2, -1)
        scores = scores + near.view(area, area, self.num_heads).permute(2, 0, 1)
        if turned:
            scores = scores + _apart(x, (high, wide), (down, right))
        y = F.softmax(scores, -1) @ v
        y = self.proj(y.transpose(2, 3).reshape(n, rows * columns, area, dim))
        y = y.view(n, rows, columns, _WINDOW, _WINDOW, dim).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(n, high, wide, dim)
        if turned:
            y = y.roll((down, right), (1, 2))
        return y[:, :h, :w]


def _apart(like: Tensor, sizes: tuple[int, int], shifts: tuple[int, int]) -> Tensor:
    """What is added to scores: ``(windows, 1, area, area)``, 0 for pixels of one neighbourhood."""
    parts: list[Tensor] = []
    for size, shift in zip(sizes, shifts, strict=True):
        place = arange(size, device=like.device)
        last = (place >= size - _WINDOW).float() + (place >= size - shift).float()
        parts.append(last)
    high, wide = sizes
    area = _WINDOW * _WINDOW
    regions = 3 * parts[0][:, None] + parts[1][None, :]
    regions = regions.view(high // _WINDOW, _WINDOW, wide // _WINDOW, _WINDOW)
    regions = regions.permute(0, 2, 1, 3).reshape(-1, area)
    differ = ops.ne(regions[:, None, :], regions[:, :, None])
    return (differ.float() * _APART)[:, None]


class SwinTransformerBlock(nn.Module):
    """Attention within windows, then dense layers, each behind a norm and with a shortcut.

    Args:
        dim: channels.
        num_heads: of the attention.
        shift: of the windows.
        stochastic_depth_prob: how likely an example skips a branch.
    """

    def __init__(self, dim: int, num_heads: int, shift: int, stochastic_depth_prob: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = ShiftedWindowAttention(dim, num_heads, shift)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = MLPBlock(dim, 4 * dim, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, h, w, dim)``."""
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformer(nn.Module):
    """Patches of 4x4, stages of blocks between which images are halved, a dense layer.

    Args:
        embed_dim: channels of the first stage; each has twice as many as the one before.
        depths: blocks of the stages, whose windows are shifted in every other one.
        num_heads: of the stages.
        stochastic_depth_prob: of the last block; it grows from block to block.
        num_classes: outputs.
    """

    def __init__(
        self,
        embed_dim: int,
        depths: Sequence[int],
        num_heads: Sequence[int],
        *,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        stem = nn.Sequential(
            nn.Conv2d(3, embed_dim, 4, 4), Permute((0, 2, 3, 1)), nn.LayerNorm(embed_dim)
        )
        features: list[nn.Module] = [stem]
        dim, done, last = embed_dim, 0, max(sum(depths) - 1, 1)
        for stage, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            if stage:
                features.append(PatchMerging(dim))
                dim *= 2
            blocks: list[nn.Module] = []
            for number in range(depth):
                shift = _WINDOW // 2 * (number % 2)
                skipped = stochastic_depth_prob * done / last
                blocks.append(SwinTransformerBlock(dim, heads, shift, skipped))
                done += 1
            features.append(nn.Sequential(*blocks))
        self.features = nn.Sequential(*features)
        self.norm = nn.LayerNorm(dim)
        self.permute = Permute((0, 3, 1, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(dim, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.trunc_normal_(module.weight, std=0.02)
                zero(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def swin_t(num_classes: int = 1000) -> SwinTransformer:
    """Swin-T; arguments as :class:`SwinTransformer`'s."""
    return SwinTransformer(
        96, (2, 2, 6, 2), (3, 6, 12, 24), stochastic_depth_prob=0.2, num_classes=num_classes
    )


def swin_s(num_classes: int = 1000) -> SwinTransformer:
    """Swin-S; arguments as :class:`SwinTransformer`'s."""
    return SwinTransformer(
        96, (2, 2, 18, 2), (3, 6, 12, 24), stochastic_depth_prob=0.3, num_classes=num_classes
    )
