"""ShuffleNetV2 (Ma et al. 2018): channels change sides between blocks, with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn, ops
from ..nn import functional as F
from ..tensor import Tensor

_REPEATS = (4, 8, 4)


def _filtered(planes: int, stride: int) -> list[nn.Module]:
    """A filter for each channel, and a norm."""
    return [
        nn.Conv2d(planes, planes, 3, stride, 1, groups=planes, bias=False),
        nn.BatchNorm2d(planes),
    ]


def _mixed(planes: int, channels: int) -> list[nn.Module]:
    """A 1x1 convolution, norm and ReLU."""
    conv = nn.Conv2d(planes, channels, 1, bias=False)
    return [conv, nn.BatchNorm2d(channels), nn.ReLU()]


class InvertedResidual(nn.Module):
    """Half of the channels stay as they are, or are filtered where the map is halved.

    Args:
        inp: channels of ``x``.
        oup: channels of the result.
        stride: of the filters.
    """

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        self.stride, half = stride, oup // 2
        kept = [] if stride == 1 else [*_filtered(inp, stride), *_mixed(inp, half)]
        self.branch1 = nn.Sequential(*kept)
        self.branch2 = nn.Sequential(
            *_mixed(half if stride == 1 else inp, half),
            *_filtered(half, stride),
            *_mixed(half, half),
        )

    def forward(self, x: Tensor) -> Tensor:
        """``(n, oup, h / stride, w / stride)``."""
        if self.stride == 1:
            left, right = x.chunk(2, 1)
            y = ops.cat([left, self.branch2(right)], 1)
        else:
            y = ops.cat([self.branch1(x), self.branch2(x)], 1)
        return F.channel_shuffle(y, 2)


class ShuffleNetV2(nn.Module):
    """A convolution, three stages of blocks, a convolution, the mean, a dense layer.

    Args:
        channels: of the first convolution, the stages and the last convolution.
        num_classes: outputs.
    """

    def __init__(self, channels: Sequence[int], *, num_classes: int = 1000) -> None:
        super().__init__()
        first, *stages, last = channels
        conv = nn.Conv2d(3, first, 3, 2, 1, bias=False)
        self.conv1 = nn.Sequential(conv, nn.BatchNorm2d(first), nn.ReLU())
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        planes = first
        for number, (width, count) in enumerate(zip(stages, _REPEATS, strict=True), 2):
            more = [InvertedResidual(width, width, 1) for _ in range(count - 1)]
            blocks = [InvertedResidual(planes, width, 2), *more]
            self.add_module(f"stage{number}", nn.Sequential(*blocks))
            planes = width
        self.conv5 = nn.Sequential(*_mixed(planes, last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean((2, 3)))


def shufflenet_v2_x0_5(num_classes: int = 1000) -> ShuffleNetV2:
    """ShuffleNetV2 of half the channels; arguments as :class:`ShuffleNetV2`'s."""
    return ShuffleNetV2((24, 48, 96, 192, 1024), num_classes=num_classes)


def shufflenet_v2_x1_0(num_classes: int = 1000) -> ShuffleNetV2:
    """ShuffleNetV2; arguments as :class:`ShuffleNetV2`'s."""
    return ShuffleNetV2((24, 116, 232, 464, 1024), num_classes=num_classes)
