"""The seven networks of Shi et al., "Benchmarking State-of-the-Art Deep Learning Software Tools".

The paper's (2016) own tools differ in details; these are the definitions that their authors' code
has in common, in Caffe's geometry where they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from .. import nn
from ..nn import functional as F
from ..tensor import Tensor
from .language import LSTMLanguageModel
from .resnet import resnet50


@dataclass(frozen=True)
class ShiNetwork:
    """One row of the paper's table.

    Attributes:
        name: the paper's.
        make: builds the network.
        batch_size: examples in a mini-batch.
        input_shape: of one example; of the LSTM, its steps.
        classes: outputs; of the LSTM, the vocabulary.
        gflop: of a training step on a mini-batch: two for each multiplication and addition of
            the forward pass and of both gradients.
    """

    name: str
    make: Callable[[], nn.Module]
    batch_size: int
    input_shape: tuple[int, ...]
    classes: int
    gflop: float


def _dense(*sizes: int) -> nn.Sequential:
    """Dense layers with sigmoids between."""
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Sigmoid()]
    return nn.Sequential(*layers[:-1])


def fcn_s() -> nn.Sequential:
    """FCN-S: three hidden layers of 2048 between 26752 synthetic features and as many classes."""
    return _dense(26752, 2048, 2048, 2048, 26752)


def fcn_r() -> nn.Sequential:
    """FCN-R: hidden layers of 2048, 4096 and 1024 for MNIST."""
    return _dense(784, 2048, 4096, 1024, 10)


def alexnet_s(dropout: float = 0.5) -> nn.Sequential:
    """AlexNet-S: without groups and without local response normalisation.

    Args:
        dropout: probability behind the first two dense layers.
    """
    return nn.Sequential(
        *(nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(nn.Conv2d(96, 256, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
        nn.Flatten(),
        *(nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(dropout)),
        *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(dropout)),
        nn.Linear(4096, 1000),
    )


def alexnet_r() -> nn.Sequential:
    """AlexNet-R: three 5x5 convolutions for CIFAR-10."""
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU()),
        *(nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True)),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


class ShiBlock(nn.Module):
    """``shortcut(x) + bn(conv3x3(relu(bn(conv3x3(x)))))``: no ReLU after the sum.

    Args:
        inplanes: channels of ``x``.
        planes: channels of the result; more than ``inplanes`` halve the image.
    """

    def __init__(self, inplanes: int, planes: int) -> None:
        super().__init__()
        self.missing = planes - inplanes
        stride = 2 if self.missing else 1
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(planes)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, planes, h, w)``, or half the height and width."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.missing:
            x = F.pad(F.avg_pool2d(x, 1, stride=2), (0, 0, 0, 0, 0, self.missing))
        return x + y


def shi_resnet56() -> nn.Sequential:
    """ResNet-56 for CIFAR-10, whose convolutions have biases."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    inplanes = 16
    for planes in (16, 32, 64):
        for _ in range(9):
            layers.append(ShiBlock(inplanes, planes))
            inplanes = planes
    return nn.Sequential(*layers, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10))


def shi_lstm() -> LSTMLanguageModel:
    """The LSTM for Penn Treebank: 10,000 words, two layers of 256.

    It has PyTorch's two biases for each gate where the paper counts one: 2048 parameters more.
    """
    return LSTMLanguageModel(10000, 256, hidden_size=256, num_layers=2)


SHI_NETWORKS = (
    ShiNetwork("FCN-S", fcn_s, 64, (26752,), 26752, 45.30),
    ShiNetwork("AlexNet-S", alexnet_s, 16, (3, 224, 224), 1000, 108.6),
    ShiNetwork("ResNet-50", resnet50, 16, (3, 224, 224), 1000, 370.4),
    ShiNetwork("FCN-R", fcn_r, 1024, (784,), 10, 87.24),
    ShiNetwork("AlexNet-R", alexnet_r, 1024, (3, 32, 32), 10, 75.56),
    ShiNetwork("ResNet-56", shi_resnet56, 128, (3, 32, 32), 10, 96.37),
    ShiNetwork("LSTM", shi_lstm, 128, (32,), 10000, 88.68),
)
"""The rows of the paper's table, in its order."""
