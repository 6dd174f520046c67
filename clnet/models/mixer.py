"""MLP-Mixer (Tolstikhin et al. 2021): dense layers alone, with timm's names."""

from __future__ import annotations

from collections import OrderedDict

from .. import nn
from ..errors import ShapeError
from ..nn import init
from ..tensor import Tensor
from .initial import zero

_EPS = 1e-6


def _dense(features: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(fc1=nn.Linear(features, hidden), act=nn.GELU(), fc2=nn.Linear(hidden, features))
    )


class MixerBlock(nn.Module):
    """Dense layers over the patches of every channel, then over the channels of every patch.

    Args:
        dim: channels.
        patches: of an image.
        tokens_dim: between the first two layers.
        channels_dim: between the others.
    """

    def __init__(self, dim: int, patches: int, tokens_dim: int, channels_dim: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, _EPS)
        self.mlp_tokens = _dense(patches, tokens_dim)
        self.norm2 = nn.LayerNorm(dim, _EPS)
        self.mlp_channels = _dense(dim, channels_dim)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, patches, dim)``."""
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))


class MLPMixer(nn.Module):
    """Patches through blocks of dense layers; their mean goes to a dense layer.

    Args:
        dim: channels.
        depth: blocks.
        image_size: height and width of the images, whole patches.
        patch_size: height and width of a patch.
        num_classes: outputs.

    Raises:
        ShapeError: if images are not whole patches.
    """

    def __init__(
        self,
        dim: int,
        depth: int,
        *,
        image_size: int = 224,
        patch_size: int = 16,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ShapeError(
                "MLPMixer", "an image is whole patches", image_size=image_size,
                patch_size=patch_size,
            )  # fmt: skip
        patches = (image_size // patch_size) ** 2
        self.stem = nn.Sequential(OrderedDict(proj=nn.Conv2d(3, dim, patch_size, patch_size)))
        blocks = (MixerBlock(dim, patches, dim // 2, 4 * dim) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(dim, _EPS)
        self.head = nn.Linear(dim, num_classes)
        for module in self.blocks.modules():
            if isinstance(module, nn.Linear):
                init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    init.normal_(module.bias, std=1e-6)
        init.zeros_(self.head.weight)
        zero(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, image_size, image_size)``."""
        patches = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(patches)).mean(1))


def mixer_s16(num_classes: int = 1000, *, image_size: int = 224) -> MLPMixer:
    """Mixer-S/16; arguments as :class:`MLPMixer`'s."""
    return MLPMixer(512, 8, image_size=image_size, num_classes=num_classes)


def mixer_b16(num_classes: int = 1000, *, image_size: int = 224) -> MLPMixer:
    """Mixer-B/16; arguments as :class:`MLPMixer`'s."""
    return MLPMixer(768, 12, image_size=image_size, num_classes=num_classes)
