"""RegNets (Radosavovic et al. 2020): blocks of grouped convolutions, with torchvision's names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from math import sqrt

from .. import nn
from ..nn import functional as F
from ..nn import init
from ..tensor import Tensor
from .initial import zero
from .parts import SqueezeExcitation, unit

_relu = partial(nn.ReLU, inplace=True)


class RegNetBlock(nn.Module):
    """Convolutions of 1x1, of groups of 3x3 and of 1x1, channels scaled between, and a shortcut.

    Args:
        width_in: channels of the input.
        width: of the result.
        stride: of the groups.
        group_width: channels of a group.
        se_ratio: of ``width_in``, between the layers that scale channels; None: they are not.
    """

    def __init__(
        self, width_in: int, width: int, stride: int, group_width: int, se_ratio: float | None
    ) -> None:
        super().__init__()
        self.changes = stride != 1 or width_in != width
        if self.changes:
            self.proj = unit(width_in, width, 1, None, stride=stride)
        groups = width // group_width
        layers = OrderedDict[str, nn.Module](
            a=unit(width_in, width, 1, _relu),
            b=unit(width, width, 3, _relu, stride=stride, groups=groups),
        )
        if se_ratio is not None:
            squeezed = round(se_ratio * width_in)
            layers["se"] = SqueezeExcitation(width, squeezed, nn.ReLU, nn.Sigmoid)
        layers["c"] = unit(width, width, 1, None)
        self.f = nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, width, h / stride, w / stride)``."""
        return F.relu((self.proj(x) if self.changes else x) + self.f(x))


class RegNet(nn.Module):
    """A convolution, stages of blocks of which each halves images, and a dense layer.

    Args:
        widths: channels of the stages.
        depths: blocks of the stages.
        group_width: channels of a group.
        se_ratio: as :class:`RegNetBlock` has it.
        num_classes: outputs.
    """

    def __init__(
        self,
        widths: Sequence[int],
        depths: Sequence[int],
        group_width: int,
        *,
        se_ratio: float | None = None,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        channels = 32
        self.stem = unit(3, channels, 3, _relu, stride=2)
        stages = OrderedDict[str, nn.Module]()
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True), 1):
            blocks = OrderedDict[str, nn.Module]()
            for place in range(depth):
                block = RegNetBlock(channels, width, 1 if place else 2, group_width, se_ratio)
                blocks[f"block{number}-{place}"] = block
                channels = width
            stages[f"block{number}"] = nn.Sequential(blocks)
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                init.normal_(module.weight, 0.0, sqrt(2.0 / fan_out))
        init.normal_(self.fc.weight, 0.0, 0.01)
        zero(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(1))


def regnet_y_400mf(num_classes: int = 1000) -> RegNet:
    """RegNetY of 400 million multiplications; arguments as :class:`RegNet`'s."""
    return RegNet((48, 104, 208, 440), (1, 3, 6, 6), 8, se_ratio=0.25, num_classes=num_classes)


def regnet_x_400mf(num_classes: int = 1000) -> RegNet:
    """RegNetX of 400 million multiplications; arguments as :class:`RegNet`'s."""
    return RegNet((32, 64, 160, 400), (1, 2, 7, 12), 16, num_classes=num_classes)
