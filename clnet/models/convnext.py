"""ConvNeXt (Liu et al. 2022): depthwise 7x7 convolutions, with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn
from ..nn import functional as F
from ..nn import init
from ..tensor import Tensor, full
from .initial import zero
from .parts import StochasticDepth

_EPS = 1e-6


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of every pixel."""

    def forward(self, x: Tensor) -> Tensor:
        """``(n, channels, h, w)``."""
        y = F.layer_norm(
            x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps
        )
        return y.permute(0, 3, 1, 2)


class Permute(nn.Module):
    """Axes in another order.

    Args:
        dims: the order.
    """

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = tuple(dims)

    def forward(self, x: Tensor) -> Tensor:
        """The axes of ``x`` in that order."""
        return x.permute(*self.dims)


class CNBlock(nn.Module):
    """A filter for each channel, then two dense layers over the channels of every pixel.

    Args:
        dim: channels.
        layer_scale: what the result is multiplied by at first.
        stochastic_depth_prob: how likely an example skips the block.
    """

    def __init__(self, dim: int, layer_scale: float, stochastic_depth_prob: float) -> None:
        super().__init__()
        self.layer_scale = nn.Parameter(full((dim, 1, 1), layer_scale))
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
            Permute((0, 2, 3, 1)),
            nn.LayerNorm(dim, _EPS),
            nn.Linear(dim, 4 * dim),
            nn.GELU(),
            nn.Linear(4 * dim, dim),
            Permute((0, 3, 1, 2)),
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, dim, h, w)``."""
        return self.stochastic_depth(self.layer_scale * self.block(x)) + x


class ConvNeXt(nn.Module):
    """Patches of 4x4, four stages of blocks between which maps are halved, a dense layer.

    Args:
        channels: of the stages.
        layers: blocks of the stages.
        stochastic_depth_prob: of the last block; it grows from block to block.
        layer_scale: of all blocks.
        num_classes: outputs.
    """

    def __init__(
        self,
        channels: Sequence[int],
        layers: Sequence[int],
        *,
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        width, done, last = channels[0], 0, max(sum(layers) - 1, 1)
        stem = nn.Sequential(nn.Conv2d(3, width, 4, 4), LayerNorm2d(width, _EPS))
        features: list[nn.Module] = [stem]
        for stage, (dim, count) in enumerate(zip(channels, layers, strict=True)):
            if stage:
                halved = nn.Conv2d(width, dim, 2, 2)
                features.append(nn.Sequential(LayerNorm2d(width, _EPS), halved))
            blocks: list[nn.Module] = []
            for _ in range(count):
                blocks.append(CNBlock(dim, layer_scale, stochastic_depth_prob * done / last))
                done += 1
            features.append(nn.Sequential(*blocks))
            width = dim
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            LayerNorm2d(width, _EPS), nn.Flatten(1), nn.Linear(width, num_classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                init.trunc_normal_(module.weight, std=0.02)
                zero(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        return self.classifier(self.avgpool(self.features(x)))


def convnext_tiny(num_classes: int = 1000) -> ConvNeXt:
    """ConvNeXt-T; arguments as :class:`ConvNeXt`'s."""
    return ConvNeXt(
        (96, 192, 384, 768), (3, 3, 9, 3), stochastic_depth_prob=0.1, num_classes=num_classes
    )


def convnext_small(num_classes: int = 1000) -> ConvNeXt:
    """ConvNeXt-S; arguments as :class:`ConvNeXt`'s."""
    return ConvNeXt(
        (96, 192, 384, 768), (3, 3, 27, 3), stochastic_depth_prob=0.4, num_classes=num_classes
    )


def convnext_base(num_classes: int = 1000) -> ConvNeXt:
    """ConvNeXt-B; arguments as :class:`ConvNeXt`'s."""
    return ConvNeXt(
        (128, 256, 512, 1024), (3, 3, 27, 3), stochastic_depth_prob=0.5, num_classes=num_classes
    )
