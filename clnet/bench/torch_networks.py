"""The workloads' networks once more, in PyTorch, with their parameters in the same order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

_CNN_SIDES = {"fashion-cnn": 28, "digits-cnn": 8}


def build(torch: Any, name: str) -> Any:
    """The twin of a workload's network.

    Args:
        torch: the module.
        name: the workload's.

    Returns:
        A ``torch.nn.Module``.
    """
    nn = torch.nn
    if name == "fcn-s":
        return _dense(nn, 26752, 2048, 2048, 2048, 26752)
    if name == "fcn-r":
        return _dense(nn, 784, 2048, 4096, 1024, 10)
    if name.startswith("alexnet-s"):
        return _alexnet_s(nn)
    if name == "alexnet-r":
        return _alexnet_r(nn)
    if name == "resnet-56":
        return _resnet56(torch)
    if name == "lstm":
        return _lstm(nn)
    if name in _CNN_SIDES:
        return _cnn(nn, _CNN_SIDES[name])
    return _resnet50(nn)


def _dense(nn: Any, *sizes: int) -> Any:
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.Sigmoid())]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def _alexnet_s(nn: Any) -> Any:
    def pool() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(), pool()),
        *(nn.Conv2d(96, 256, 5, padding=2), nn.ReLU(), pool()),
        *(nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), pool()),
        nn.Flatten(),
        *(nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()),
        nn.Linear(4096, 1000),
    )


def _alexnet_r(nn: Any) -> Any:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU()),
        *(nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True)),
        *(nn.Flatten(), nn.Linear(1024, 10)),
    )


def _cnn(nn: Any, side: int) -> Any:
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * (side // 4) ** 2, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def _resnet56(torch: Any) -> Any:
    nn, pad = torch.nn, torch.nn.functional.pad

    class Block(nn.Module):
        def __init__(self, inplanes: int, planes: int) -> None:
            super().__init__()
            self.missing = planes - inplanes
            stride = 2 if self.missing else 1
            self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, padding=1)
            self.bn2 = nn.BatchNorm2d(planes)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            if self.missing:
                x = pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.missing))
            return x + y

    blocks, inplanes = [], 16
    for planes in (16, 32, 64):
        for _ in range(9):
            blocks.append(Block(inplanes, planes))
            inplanes = planes
    first = (nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(*first, *blocks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10))


def _resnet50(nn: Any) -> Any:
    class Bottleneck(nn.Module):
        def __init__(self, inplanes: int, planes: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(4 * planes)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inplanes != 4 * planes:
                conv = nn.Conv2d(inplanes, 4 * planes, 1, stride=stride, bias=False)
                self.downsample = nn.Sequential(conv, nn.BatchNorm2d(4 * planes))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    stages, inplanes = [], 64
    for planes, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            stages.append(Bottleneck(inplanes, planes, stride if i == 0 else 1))
            inplanes = 4 * planes
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        *(nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)),
        *stages,
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)),
    )


def _lstm(nn: Any) -> Any:
    class LanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Embedding(10000, 256)
            self.rnn = nn.LSTM(256, 256, 2)
            self.decoder = nn.Linear(256, 10000)

        def forward(self, tokens: Any, state: Any = None) -> Any:
            y, last = self.rnn(self.encoder(tokens), state)
            return self.decoder(y), last

    return LanguageModel()
