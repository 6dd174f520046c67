"""DCGAN (Radford et al. 2016): images of 64x64 from noise, with the names of PyTorch's example."""

from __future__ import annotations

from .. import nn
from ..nn import init
from ..tensor import Tensor
from .initial import zero

_SLOPE = 0.2


def _drawn(model: nn.Module) -> None:
    """First weights as the paper chose them."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            init.normal_(module.weight, 0.0, 0.02)
        elif isinstance(module, nn.BatchNorm2d):
            init.normal_(module.weight, 1.0, 0.02)  # pyrefly: ignore[bad-argument-type] - it has one
            zero(module.bias)


class DCGANGenerator(nn.Module):
    """Noise of one pixel is doubled in size four times, from 4x4 to 64x64.

    Args:
        nz: channels of the noise.
        ngf: channels before the last layer.
        nc: channels of the images.
    """

    def __init__(self, nz: int = 100, ngf: int = 64, nc: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, stride, padding = nz, 1, 0
        for factor in (8, 4, 2, 1):
            layers += [
                nn.ConvTranspose2d(channels, ngf * factor, 4, stride, padding, bias=False),
                nn.BatchNorm2d(ngf * factor),
                nn.ReLU(inplace=True),
            ]
            channels, stride, padding = ngf * factor, 2, 1
        last = nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False)
        self.main = nn.Sequential(*layers, last, nn.Tanh())
        _drawn(self)

    def forward(self, noise: Tensor) -> Tensor:
        """``(n, nc, 64, 64)`` between -1 and 1, from ``(n, nz, 1, 1)``."""
        return self.main(noise)


class DCGANDiscriminator(nn.Module):
    """How likely images are real.

    Args:
        ndf: channels behind the first layer.
        nc: channels of the images.
    """

    def __init__(self, ndf: int = 64, nc: int = 3) -> None:
        super().__init__()
        layers = [nn.Conv2d(nc, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(_SLOPE, inplace=True)]
        for factor in (1, 2, 4):
            layers += [
                nn.Conv2d(ndf * factor, ndf * factor * 2, 4, 2, 1, bias=False),
                nn.BatchNorm2d(ndf * factor * 2),
                nn.LeakyReLU(_SLOPE, inplace=True),
            ]
        last = nn.Conv2d(ndf * 8, 1, 4, 1, 0, bias=False)
        self.main = nn.Sequential(*layers, last, nn.Sigmoid())
        _drawn(self)

    def forward(self, images: Tensor) -> Tensor:
        """``(n,)`` between 0 and 1, from ``(n, nc, 64, 64)``."""
        return self.main(images).view(-1)
