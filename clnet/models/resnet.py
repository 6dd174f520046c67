"""Residual networks for photographs (He et al. 2016), with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn
from ..errors import ArgumentError
from ..tensor import Tensor
from .initial import drawn_later, he_normal, zero


class BasicBlock(nn.Module):
    """``relu(x + conv3x3(relu(conv3x3(x))))``, batch norm after each convolution.

    Args:
        inplanes: channels of ``x``.
        planes: channels of both convolutions.
        stride: of the first.
    """

    expansion = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _downsample(inplanes, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, planes, h / stride, w / stride)``."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Three convolutions, 1x1, 3x3 and 1x1; the stride is the second's (version 1.5).

    Args:
        inplanes: channels of ``x``.
        planes: a quarter of the channels of the last convolution.
        stride: of the second.
        groups: of the second (ResNeXt, Xie et al. 2017).
        base_width: channels of each group of the first two, where ``planes`` is 64.
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        *,
        groups: int = 1,
        base_width: int = 64,
    ) -> None:
        super().__init__()
        width = planes * base_width // 64 * groups
        self.conv1 = nn.Conv2d(inplanes, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.relu = nn.ReLU()
        self.downsample = _downsample(inplanes, 4 * planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, 4 * planes, h / stride, w / stride)``."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def _downsample(inplanes: int, planes: int, stride: int) -> nn.Module | None:
    """What takes ``x`` to the shape of a block's result, where that differs."""
    if stride == 1 and inplanes == planes:
        return None
    conv = nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(planes))


class ResNet(nn.Module):
    """A 7x7 convolution, four stages of residual blocks, the mean of each channel, a dense layer.

    Args:
        block: of which kind.
        layers: blocks of the four stages.
        num_classes: outputs.
        zero_init_residual: whether every block is the identity at first.
        groups: of a bottleneck's 3x3 convolution.
        width_per_group: its channels in a group, in the first stage.

    Raises:
        ArgumentError: if blocks other than bottlenecks are to have groups or another width.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        *,
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
    ) -> None:
        super().__init__()
        sizes: dict[str, int] = {}
        if (groups, width_per_group) != (1, 64):
            if not issubclass(block, Bottleneck):
                raise ArgumentError(
                    "ResNet", "groups and other widths are for bottlenecks", block=block.__name__,
                    groups=groups, width_per_group=width_per_group,
                )  # fmt: skip
            sizes = {"groups": groups, "base_width": width_per_group}
        # Other blocks may have layers of other kinds.
        with drawn_later(all_of_them=block in (BasicBlock, Bottleneck)):
            self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            self.relu = nn.ReLU()
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
            inplanes = 64
            for stage, count in enumerate(layers):
                planes = 64 << stage
                blocks: list[nn.Module] = []
                for i in range(count):
                    blocks.append(block(inplanes, planes, 2 if stage and i == 0 else 1, **sizes))
                    inplanes = planes * block.expansion
                self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inplanes, num_classes)
        he_normal(self)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, BasicBlock):
                    zero(module.bn2.weight)
                elif isinstance(module, Bottleneck):
                    zero(module.bn3.weight)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(num_classes: int = 1000, *, zero_init_residual: bool = False) -> ResNet:
    """ResNet-18; arguments as :class:`ResNet`'s."""
    return _resnet(BasicBlock, (2, 2, 2, 2), num_classes, zero_init_residual)


def resnet34(num_classes: int = 1000, *, zero_init_residual: bool = False) -> ResNet:
    """ResNet-34; arguments as :class:`ResNet`'s."""
    return _resnet(BasicBlock, (3, 4, 6, 3), num_classes, zero_init_residual)


def resnet50(num_classes: int = 1000, *, zero_init_residual: bool = False) -> ResNet:
    """ResNet-50; arguments as :class:`ResNet`'s."""
    return _resnet(Bottleneck, (3, 4, 6, 3), num_classes, zero_init_residual)


def resnet101(num_classes: int = 1000, *, zero_init_residual: bool = False) -> ResNet:
    """ResNet-101; arguments as :class:`ResNet`'s."""
    return _resnet(Bottleneck, (3, 4, 23, 3), num_classes, zero_init_residual)


def resnet152(num_classes: int = 1000, *, zero_init_residual: bool = False) -> ResNet:
    """ResNet-152; arguments as :class:`ResNet`'s."""
    return _resnet(Bottleneck, (3, 8, 36, 3), num_classes, zero_init_residual)


def resnext50_32x4d(num_classes: int = 1000) -> ResNet:
    """ResNeXt-50: 32 groups of 4 channels; arguments as :class:`ResNet`'s."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes=num_classes, groups=32, width_per_group=4)


def resnext101_32x8d(num_classes: int = 1000) -> ResNet:
    """ResNeXt-101: 32 groups of 8 channels; arguments as :class:`ResNet`'s."""
    return ResNet(Bottleneck, (3, 4, 23, 3), num_classes=num_classes, groups=32, width_per_group=8)


def wide_resnet50_2(num_classes: int = 1000) -> ResNet:
    """Wide ResNet-50 (Zagoruyko, Komodakis 2016): 3x3 convolutions of twice the channels."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes=num_classes, width_per_group=128)


def wide_resnet101_2(num_classes: int = 1000) -> ResNet:
    """Wide ResNet-101: 3x3 convolutions of twice the channels."""
    return ResNet(Bottleneck, (3, 4, 23, 3), num_classes=num_classes, width_per_group=128)


def _resnet(
    block: type[BasicBlock] | type[Bottleneck],
    layers: tuple[int, ...],
    num_classes: int,
    zero_init_residual: bool,  # noqa: FBT001 - internal
) -> ResNet:
    return ResNet(block, layers, num_classes=num_classes, zero_init_residual=zero_init_residual)
