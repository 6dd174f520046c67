"""SqueezeNet (Iandola et al. 2016): few parameters, with torchvision's names."""

from __future__ import annotations

from .. import nn, ops
from ..errors import ArgumentError
from ..nn import init
from ..tensor import Tensor
from .initial import zero

# By version: the first convolution's channels and size, then fire modules (squeezed, expanded) and
# pools (None).
_NARROW = ((16, 64), (16, 64))
_WIDE = ((48, 192), (48, 192), (64, 256))
_VERSIONS = {
    "1_0": (96, 7, (*_NARROW, (32, 128), None, (32, 128), *_WIDE, None, (64, 256))),
    "1_1": (64, 3, (*_NARROW, None, (32, 128), (32, 128), None, *_WIDE, (64, 256))),
}


class Fire(nn.Module):
    """Squeeze the channels by a 1x1 convolution, then expand them by 1x1 and by 3x3 ones.

    Args:
        inplanes: channels of ``x``.
        squeeze_planes: channels between.
        expand_planes: channels of each of the two parts of the result.
    """

    def __init__(self, inplanes: int, squeeze_planes: int, expand_planes: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU()
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand_planes, 1)
        self.expand1x1_activation = nn.ReLU()
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """``(n, 2 * expand_planes, h, w)``."""
        x = self.squeeze_activation(self.squeeze(x))
        parts = (
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        )
        return ops.cat(list(parts), 1)


class SqueezeNet(nn.Module):
    """Fire modules, then a convolution that gives the classes, and the mean over the image.

    Args:
        version: ``"1_0"``, the paper's, or ``"1_1"``, which needs 2.4 times less work.
        num_classes: outputs.
        dropout: probability in front of the last convolution.

    Raises:
        ArgumentError: if there is no such version.
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _VERSIONS:
            raise ArgumentError("SqueezeNet", "version is '1_0' or '1_1'", version=repr(version))
        planes, size, rest = _VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, planes, size, stride=2), nn.ReLU(), _pool()]
        for sizes in rest:
            if sizes is None:
                layers.append(_pool())
            else:
                squeezed, expanded = sizes
                layers.append(Fire(planes, squeezed, expanded))
                planes = 2 * expanded
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(planes, num_classes, 1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), last, nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module is last:
                    init.normal_(module.weight, 0.0, 0.01)
                else:
                    init.kaiming_uniform_(module.weight)
                zero(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``, 21x21 or larger."""
        return self.classifier(self.features(x)).flatten(1)


def squeezenet1_0(num_classes: int = 1000, *, dropout: float = 0.5) -> SqueezeNet:
    """SqueezeNet 1.0; arguments as :class:`SqueezeNet`'s."""
    return SqueezeNet("1_0", num_classes, dropout)


def squeezenet1_1(num_classes: int = 1000, *, dropout: float = 0.5) -> SqueezeNet:
    """SqueezeNet 1.1; arguments as :class:`SqueezeNet`'s."""
    return SqueezeNet("1_1", num_classes, dropout)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)
