"""DenseNet (Huang et al. 2017): every layer reads all before it, with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn, ops
from ..nn import init
from ..tensor import Tensor
from .initial import zero


class DenseLayer(nn.Module):
    """Norm, ReLU and 1x1 convolution, then norm, ReLU and 3x3 convolution.

    Args:
        planes: channels of all layers before.
        growth_rate: channels of the result.
        bn_size: channels between, in growth rates.
        drop_rate: probability behind.
    """

    def __init__(self, planes: int, growth_rate: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(planes)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(planes, bn_size * growth_rate, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU()
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, 3, padding=1, bias=False)
        self.dropout = nn.Dropout(drop_rate)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """``(n, growth_rate, h, w)`` from the results before."""
        x = self.conv1(self.relu1(self.norm1(ops.cat(list(features), 1))))
        return self.dropout(self.conv2(self.relu2(self.norm2(x))))


class DenseBlock(nn.ModuleDict):
    """Layers that read all before them; the result is all of theirs, and ``x``.

    Args:
        count: layers.
        planes: channels of ``x``.
        growth_rate: channels that each adds.
        bn_size: as :class:`DenseLayer`'s.
        drop_rate: the same.
    """

    def __init__(
        self, count: int, planes: int, growth_rate: int, bn_size: int, drop_rate: float
    ) -> None:
        super().__init__()
        for i in range(count):
            layer = DenseLayer(planes + i * growth_rate, growth_rate, bn_size, drop_rate)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, planes + count * growth_rate, h, w)``."""
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return ops.cat(features, 1)


def _transition(planes: int) -> nn.Sequential:
    """Half the channels at half the size."""
    return nn.Sequential(
        {
            "norm": nn.BatchNorm2d(planes),
            "relu": nn.ReLU(),
            "conv": nn.Conv2d(planes, planes // 2, 1, bias=False),
            "pool": nn.AvgPool2d(2, stride=2),
        }
    )


class DenseNet(nn.Module):
    """A 7x7 convolution, four dense blocks, the mean of each channel, a dense layer.

    Args:
        block_config: layers of the blocks.
        num_classes: outputs.
        growth_rate: channels that each layer adds.
        num_init_features: channels of the first convolution.
        bn_size: channels between a layer's convolutions, in growth rates.
        drop_rate: probability behind each layer.
    """

    def __init__(
        self,
        block_config: Sequence[int] = (6, 12, 24, 16),
        *,
        num_classes: int = 1000,
        growth_rate: int = 32,
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0.0,
    ) -> None:
        super().__init__()
        planes = num_init_features
        layers: dict[str, nn.Module] = {
            "conv0": nn.Conv2d(3, planes, 7, stride=2, padding=3, bias=False),
            "norm0": nn.BatchNorm2d(planes),
            "relu0": nn.ReLU(),
            "pool0": nn.MaxPool2d(3, stride=2, padding=1),
        }
        for i, count in enumerate(block_config, 1):
            layers[f"denseblock{i}"] = DenseBlock(count, planes, growth_rate, bn_size, drop_rate)
            planes += count * growth_rate
            if i < len(block_config):
                layers[f"transition{i}"] = _transition(planes)
                planes //= 2
        layers[f"norm{len(block_config) + 1}"] = nn.BatchNorm2d(planes)
        self.features = nn.Sequential(layers)
        self.classifier = nn.Linear(planes, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                init.kaiming_normal_(module.weight)
        zero(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``, 29x29 or larger."""
        return self.classifier(self.features(x).relu().mean((2, 3)))


def densenet121(num_classes: int = 1000, *, drop_rate: float = 0.0) -> DenseNet:
    """DenseNet-121; arguments as :class:`DenseNet`'s."""
    return DenseNet(num_classes=num_classes, drop_rate=drop_rate)
