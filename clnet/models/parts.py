"""What several networks for photographs are made of, with torchvision's names."""

from __future__ import annotations

from collections.abc import Callable

from .. import nn
from ..creation import ones
from ..nn import functional as F
from ..tensor import Tensor

LEAST_CHANNELS = 8  # channel counts are multiples of it


def divisible(channels: float) -> int:
    """The nearest multiple of 8 that is not below by more than a tenth."""
    rounded = int(channels + LEAST_CHANNELS / 2) // LEAST_CHANNELS * LEAST_CHANNELS
    rounded = max(rounded, LEAST_CHANNELS)
    return rounded if rounded >= 0.9 * channels else rounded + LEAST_CHANNELS


def unit(
    planes: int,
    channels: int,
    size: int,
    activation: Callable[[], nn.Module] | None,
    *,
    stride: int = 1,
    groups: int = 1,
    eps: float = 1e-5,
    momentum: float = 0.1,
) -> nn.Sequential:
    """Convolution, batch norm, and an activation if there is one.

    Args:
        planes: channels of the input.
        channels: of the result.
        size: of the filter, odd.
        activation: makes it.
        stride: of the filter.
        groups: of channels.
        eps: of the norm.
        momentum: of its statistics.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(planes, channels, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels, eps, momentum),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))


class SqueezeExcitation(nn.Module):
    """Channels scaled by what their means say (Hu et al. 2018).

    Args:
        channels: of ``x``.
        squeezed: between both dense layers.
        activation: of the first.
        scale: of the second.
    """

    def __init__(
        self,
        channels: int,
        squeezed: int,
        activation: Callable[[], nn.Module],
        scale: Callable[[], nn.Module],
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = activation()
        self.scale_activation = scale()

    def forward(self, x: Tensor) -> Tensor:
        """``x``'s shape."""
        squeezed = self.activation(self.fc1(self.avgpool(x)))
        return x * self.scale_activation(self.fc2(squeezed))


class StochasticDepth(nn.Module):
    """In training, whole examples become 0 with probability ``p`` (Huang et al. 2016).

    Args:
        p: the probability; the others are divided by ``1 - p``.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """``x``'s shape."""
        if not self.training or self.p == 0:
            return x
        kept = ones(x.shape[0], *[1] * (x.ndim - 1), dtype=x.dtype, device=x.device)
        return x * F.dropout(kept, self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"
