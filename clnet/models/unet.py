"""U-Net (Ronneberger et al. 2015): a class for every pixel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .. import nn, ops
from ..errors import ArgumentError
from ..tensor import Tensor


def _double(planes: int, channels: int) -> nn.Sequential:
    """Two 3x3 convolutions that keep the size, with batch norm and ReLU."""
    layers: list[nn.Module] = []
    for before in (planes, channels):
        layers += [
            nn.Conv2d(before, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down by max pooling, up by transposed convolution, joined at each size.

    Args:
        in_channels: of the images.
        num_classes: outputs for each pixel.
        features: channels at each size, the largest image first.

    Raises:
        ArgumentError: if there are fewer than two sizes.
    """

    def __init__(
        self,
        in_channels: int = 3,
        num_classes: int = 1,
        *,
        features: Sequence[int] = (64, 128, 256, 512, 1024),
    ) -> None:
        super().__init__()
        if len(features) < 2:
            raise ArgumentError("UNet", "there are two sizes or more", features=tuple(features))
        self.depth = len(features) - 1
        self.down = nn.ModuleList(_double(a, b) for a, b in pairwise((in_channels, *features)))
        self.pool = nn.MaxPool2d(2)
        rising = list(pairwise(reversed(features)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in rising)
        self.join = nn.ModuleList(_double(2 * b, b) for _, b in rising)
        self.out = nn.Conv2d(features[0], num_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes, h, w)``, before the softmax, from ``(n, in_channels, h, w)``.

        Raises:
            ArgumentError: if the image cannot be halved as often as there are sizes.
        """
        step = 2**self.depth
        if x.shape[2] % step or x.shape[3] % step:
            raise ArgumentError("UNet", f"height and width are multiples of {step}", x=x.shape)
        kept: list[Tensor] = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(ops.cat([kept.pop(), up(x)], 1))
        return self.out(x)


def unet(in_channels: int = 3, num_classes: int = 1) -> UNet:
    """U-Net of the paper's five sizes; arguments as :class:`UNet`'s."""
    return UNet(in_channels, num_classes)
