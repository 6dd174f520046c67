"""Residual networks for 32x32 images: 16, 32 and 64 channels in three stages (He et al. 2016)."""

from __future__ import annotations

from .. import nn
from ..nn import functional as F
from ..tensor import Tensor
from .initial import drawn_later, he_normal


class CifarBlock(nn.Module):
    """``relu(shortcut(x) + conv3x3(relu(conv3x3(x))))``.

    Args:
        inplanes: channels of ``x``.
        planes: channels of the result; more than ``inplanes`` halve the image.
        norm: whether batch norm follows each convolution.
        projection: whether a 1x1 convolution halves the image on the shortcut; else every other
            pixel is taken, and the channels that lack are zeros.
    """

    def __init__(self, inplanes: int, planes: int, *, norm: bool, projection: bool) -> None:
        super().__init__()
        stride = 1 if inplanes == planes else 2
        self.stride = stride
        self.missing = planes - inplanes
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes) if norm else nn.Identity()
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes) if norm else nn.Identity()
        self.downsample = None
        if projection and stride != 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(planes) if norm else nn.Identity(),
            )

    def forward(self, x: Tensor) -> Tensor:
        """``(n, planes, h / stride, w / stride)``."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + self._shortcut(x))

    def _shortcut(self, x: Tensor) -> Tensor:
        if self.downsample is not None:
            return self.downsample(x)
        if self.stride == 1:
            return x
        every_other = F.avg_pool2d(x, 1, stride=self.stride)
        return F.pad(every_other, (0, 0, 0, 0, 0, self.missing))


class CifarResNet(nn.Module):
    """A 3x3 convolution, three stages of blocks, the mean of each channel, a dense layer.

    Args:
        blocks: of each stage; the depth is six times that, plus two.
        num_classes: outputs.
        width: channels of the first stage, half and a quarter of the others'.
        norm: whether batch norm follows each convolution.
        projection: whether the shortcuts that change shape are 1x1 convolutions.
    """

    def __init__(
        self,
        blocks: int,
        num_classes: int = 10,
        *,
        width: int = 16,
        norm: bool = True,
        projection: bool = False,
    ) -> None:
        super().__init__()
        with drawn_later():
            self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width) if norm else nn.Identity()
            self.relu = nn.ReLU()
            inplanes = width
            for stage, planes in enumerate((width, 2 * width, 4 * width)):
                row: list[nn.Module] = []
                for _ in range(blocks):
                    row.append(CifarBlock(inplanes, planes, norm=norm, projection=projection))
                    inplanes = planes
                self.add_module(f"layer{stage + 1}", nn.Sequential(*row))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inplanes, num_classes)
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, 32, 32)``."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(self.avgpool(x).flatten(1))


def resnet14(num_classes: int = 10, *, width: int = 16) -> CifarResNet:
    """AWNN's ResNet-14: no batch norm, 1x1 convolutions on the shortcuts that change shape."""
    return CifarResNet(2, num_classes, width=width, norm=False, projection=True)


def resnet14_bn(num_classes: int = 10, *, width: int = 16) -> CifarResNet:
    """:func:`resnet14` with batch norm after each convolution."""
    return CifarResNet(2, num_classes, width=width, projection=True)


def resnet20(num_classes: int = 10, *, width: int = 16) -> CifarResNet:
    """ResNet-20 of He et al., with shortcuts that have no parameters."""
    return CifarResNet(3, num_classes, width=width)


def resnet56(num_classes: int = 10, *, width: int = 16) -> CifarResNet:
    """ResNet-56 of He et al., with shortcuts that have no parameters."""
    return CifarResNet(9, num_classes, width=width)
