"""GoogLeNet (Szegedy et al. 2015) with batch norms, and torchvision's names."""

from __future__ import annotations

from typing import NamedTuple

from .. import nn, ops
from ..nn import functional as F
from ..nn import init
from ..tensor import Tensor

_EPS = 0.001


class BasicConv2d(nn.Module):
    """Convolution without bias, batch norm, ReLU.

    Args:
        channels: of the input.
        out: of the result.
        size: of the filter.
        stride: of the filter.
        padding: around the input.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        size: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(out, _EPS)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, out, ...)``."""
        return F.relu(self.bn(self.conv(x)))


def drawn(model: nn.Module, std: float, **others: float) -> None:
    """Draw convolutions and dense layers from normal distributions cut off at two deviations.

    Args:
        model: whose layers are drawn anew.
        std: the deviation.
        **others: those of layers whose names end like this.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            given = [value for end, value in others.items() if name.endswith(end)]
            init.trunc_normal_(module.weight, 0.0, given[0] if given else std)


class Inception(nn.Module):
    """Filters of 1x1, of 3x3 twice, and a pooling beside each other.

    Args:
        channels: of the input.
        one: of the first branch's result.
        three: of the second's, before and behind its larger filter.
        five: the same of the third's.
        pooled: of the last one's.
    """

    def __init__(
        self, channels: int, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int
    ) -> None:
        super().__init__()
        self.branch1 = BasicConv2d(channels, one, 1)
        self.branch2, self.branch3 = (
            nn.Sequential(BasicConv2d(channels, a, 1), BasicConv2d(a, b, 3, padding=1))
            for a, b in (three, five)
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, 1, 1, ceil_mode=True), BasicConv2d(channels, pooled, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """All branches' channels."""
        branches = (self.branch1, self.branch2, self.branch3, self.branch4)
        return ops.cat([branch(x) for branch in branches], 1)


class InceptionAux(nn.Module):
    """Classes from the middle of the network.

    Args:
        channels: there.
        num_classes: outputs.
    """

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv = BasicConv2d(channels, 128, 1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(0.7)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``."""
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x))))


class GoogLeNetOutputs(NamedTuple):
    """What training gives.

    Attributes:
        logits: classes.
        aux_logits2: those from two thirds of the network.
        aux_logits1: those from one third.
    """

    logits: Tensor
    aux_logits2: Tensor
    aux_logits1: Tensor


class GoogLeNet(nn.Module):
    """Nine blocks of branches, and a dense layer.

    Args:
        num_classes: outputs.
        aux_logits: whether training gives classes from the middle, too.
        dropout: before the dense layer.
    """

    def __init__(
        self, num_classes: int = 1000, *, aux_logits: bool = True, dropout: float = 0.2
    ) -> None:
        super().__init__()
        self.aux_logits = aux_logits
        self.conv1 = BasicConv2d(3, 64, 7, 2, 3)
        self.maxpool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = BasicConv2d(64, 64, 1)
        self.conv3 = BasicConv2d(64, 192, 3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception3a = Inception(192, 64, (96, 128), (16, 32), 32)
        self.inception3b = Inception(256, 128, (128, 192), (32, 96), 64)
        self.maxpool3 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception4a = Inception(480, 192, (96, 208), (16, 48), 64)
        self.inception4b = Inception(512, 160, (112, 224), (24, 64), 64)
        self.inception4c = Inception(512, 128, (128, 256), (24, 64), 64)
        self.inception4d = Inception(512, 112, (144, 288), (32, 64), 64)
        self.inception4e = Inception(528, 256, (160, 320), (32, 128), 128)
        self.maxpool4 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.inception5a = Inception(832, 256, (160, 320), (32, 128), 128)
        self.inception5b = Inception(832, 384, (192, 384), (48, 128), 128)
        if aux_logits:
            self.aux1 = InceptionAux(512, num_classes)
            self.aux2 = InceptionAux(528, num_classes)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(1024, num_classes)
        drawn(self, 0.01)

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``.

        In training with ``aux_logits``, :class:`GoogLeNetOutputs` of three such results.
        """
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        first = self.inception4a(self.maxpool3(self.inception3b(self.inception3a(x))))
        second = self.inception4d(self.inception4c(self.inception4b(first)))
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(second))))
        y = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        if not (self.training and self.aux_logits):
            return y
        return GoogLeNetOutputs(y, self.aux2(second), self.aux1(first))


def googlenet(num_classes: int = 1000, *, aux_logits: bool = True) -> GoogLeNet:
    """GoogLeNet; arguments as :class:`GoogLeNet`'s."""
    return GoogLeNet(num_classes, aux_logits=aux_logits)
