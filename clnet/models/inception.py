"""Inception v3 (Szegedy et al. 2016): wide and high filters, with torchvision's names."""

from __future__ import annotations

from typing import NamedTuple

from .. import nn, ops
from ..nn import functional as F
from ..tensor import Tensor
from .googlenet import BasicConv2d, drawn

_ROW, _COLUMN = ((1, 7), (0, 3)), ((7, 1), (3, 0))


def _chain(module: nn.Module, prefix: str, x: Tensor) -> Tensor:
    """The layers whose names are the prefix and numbers from 1 on, one after another."""
    number = 1
    while (layer := getattr(module, f"{prefix}_{number}", None)) is not None:
        x = layer(x)
        number += 1
    return x


class InceptionA(nn.Module):
    """Filters of 1x1, 5x5 and twice 3x3, and a mean.

    Args:
        channels: of the input.
        pool_features: channels of the mean.
    """

    def __init__(self, channels: int, pool_features: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(channels, 64, 1)
        self.branch5x5_1 = BasicConv2d(channels, 48, 1)
        self.branch5x5_2 = BasicConv2d(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = BasicConv2d(channels, 64, 1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, 3, padding=1)
        self.branch_pool = BasicConv2d(channels, pool_features, 1)

    def forward(self, x: Tensor) -> Tensor:
        """All branches' channels."""
        chains = [_chain(self, name, x) for name in ("branch5x5", "branch3x3dbl")]
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        return ops.cat([self.branch1x1(x), *chains, pooled], 1)


class InceptionB(nn.Module):
    """Images are halved, by filters of 3x3 and by maxima.

    Args:
        channels: of the input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch3x3 = BasicConv2d(channels, 384, 3, 2)
        self.branch3x3dbl_1 = BasicConv2d(channels, 64, 1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """All branches' channels."""
        chain = _chain(self, "branch3x3dbl", x)
        return ops.cat([self.branch3x3(x), chain, F.max_pool2d(x, 3, 2)], 1)


class InceptionC(nn.Module):
    """Filters of 1x1, of 7x7 in a row and a column, once and twice, and a mean.

    Args:
        channels: of the input.
        between: channels between the filters.
    """

    def __init__(self, channels: int, between: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(channels, 192, 1)
        self.branch7x7_1 = BasicConv2d(channels, between, 1)
        self.branch7x7_2 = BasicConv2d(between, between, _ROW[0], padding=_ROW[1])
        self.branch7x7_3 = BasicConv2d(between, 192, _COLUMN[0], padding=_COLUMN[1])
        self.branch7x7dbl_1 = BasicConv2d(channels, between, 1)
        self.branch7x7dbl_2 = BasicConv2d(between, between, _COLUMN[0], padding=_COLUMN[1])
        self.branch7x7dbl_3 = BasicConv2d(between, between, _ROW[0], padding=_ROW[1])
        self.branch7x7dbl_4 = BasicConv2d(between, between, _COLUMN[0], padding=_COLUMN[1])
        self.branch7x7dbl_5 = BasicConv2d(between, 192, _ROW[0], padding=_ROW[1])
        self.branch_pool = BasicConv2d(channels, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        """All branches' channels."""
        chains = [_chain(self, name, x) for name in ("branch7x7", "branch7x7dbl")]
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        return ops.cat([self.branch1x1(x), *chains, pooled], 1)


class InceptionD(nn.Module):
    """Images are halved, by filters of 3x3, behind those of 7x7, too, and by maxima.

    Args:
        channels: of the input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch3x3_1 = BasicConv2d(channels, 192, 1)
        self.branch3x3_2 = BasicConv2d(192, 320, 3, 2)
        self.branch7x7x3_1 = BasicConv2d(channels, 192, 1)
        self.branch7x7x3_2 = BasicConv2d(192, 192, _ROW[0], padding=_ROW[1])
        self.branch7x7x3_3 = BasicConv2d(192, 192, _COLUMN[0], padding=_COLUMN[1])
        self.branch7x7x3_4 = BasicConv2d(192, 192, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """All branches' channels."""
        chains = [_chain(self, name, x) for name in ("branch3x3", "branch7x7x3")]
        return ops.cat([*chains, F.max_pool2d(x, 3, 2)], 1)


class InceptionE(nn.Module):
    """Filters of 1x1, of rows and columns of three beside each other, and a mean.

    Args:
        channels: of the input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(channels, 320, 1)
        self.branch3x3_1 = BasicConv2d(channels, 384, 1)
        self.branch3x3_2a = BasicConv2d(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3_2b = BasicConv2d(384, 384, (3, 1), padding=(1, 0))
        self.branch3x3dbl_1 = BasicConv2d(channels, 448, 1)
        self.branch3x3dbl_2 = BasicConv2d(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = BasicConv2d(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3dbl_3b = BasicConv2d(384, 384, (3, 1), padding=(1, 0))
        self.branch_pool = BasicConv2d(channels, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        """All branches' channels."""
        one, two = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        both = [self.branch3x3_2a(one), self.branch3x3_2b(one)]
        both += [self.branch3x3dbl_3a(two), self.branch3x3dbl_3b(two)]
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        return ops.cat([self.branch1x1(x), *both, pooled], 1)


class InceptionV3Aux(nn.Module):
    """Classes from the middle of the network.

    Args:
        channels: there.
        num_classes: outputs.
    """

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv0 = BasicConv2d(channels, 128, 1)
        self.conv1 = BasicConv2d(128, 768, 5)
        self.fc = nn.Linear(768, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``."""
        x = self.conv1(self.conv0(F.avg_pool2d(x, 5, 3)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class InceptionOutputs(NamedTuple):
    """What training gives.

    Attributes:
        logits: classes.
        aux_logits: those from the middle of the network.
    """

    logits: Tensor
    aux_logits: Tensor


class Inception3(nn.Module):
    """Six convolutions, eleven blocks of branches, and a dense layer.

    Args:
        num_classes: outputs.
        aux_logits: whether training gives classes from the middle, too.
        dropout: before the dense layer.
    """

    def __init__(
        self, num_classes: int = 1000, *, aux_logits: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.aux_logits = aux_logits
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, 3, 2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, 3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, 3, padding=1)
        self.maxpool1 = nn.MaxPool2d(3, 2)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, 1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, 3)
        self.maxpool2 = nn.MaxPool2d(3, 2)
        self.Mixed_5b = InceptionA(192, 32)
        self.Mixed_5c = InceptionA(256, 64)
        self.Mixed_5d = InceptionA(288, 64)
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b = InceptionC(768, 128)
        self.Mixed_6c = InceptionC(768, 160)
        self.Mixed_6d = InceptionC(768, 160)
        self.Mixed_6e = InceptionC(768, 192)
        if aux_logits:
            self.AuxLogits = InceptionV3Aux(768, num_classes)
        self.Mixed_7a = InceptionD(768)
        self.Mixed_7b = InceptionE(1280)
        self.Mixed_7c = InceptionE(2048)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        drawn(self, 0.1, **{"AuxLogits.conv1.conv": 0.01, "AuxLogits.fc": 0.001})

    def forward(self, x: Tensor) -> Tensor | InceptionOutputs:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)`` of 75 pixels or more.

        In training with ``aux_logits``, :class:`InceptionOutputs` of two such results.
        """
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        middle = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(middle)))
        y = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        if not (self.training and self.aux_logits):
            return y
        return InceptionOutputs(y, self.AuxLogits(middle))


def inception_v3(num_classes: int = 1000, *, aux_logits: bool = True) -> Inception3:
    """Inception v3; arguments as :class:`Inception3`'s."""
    return Inception3(num_classes, aux_logits=aux_logits)
