"""Networks of images, volumes and videos."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .case import Case, adam, normal, sgd, whole


def _labels(library: Any) -> Any:
    return lambda model, x, y: library.nn.functional.cross_entropy(model(x), y)


def video(torch: Any) -> Case:
    """A small C3D: 3x3x3 convolutions over frames."""
    nn = torch.nn

    def block(a: int, b: int, pool: Any) -> list[Any]:
        return [nn.Conv3d(a, b, 3, padding=1), nn.BatchNorm3d(b), nn.ReLU(), nn.MaxPool3d(pool)]

    model = nn.Sequential(
        *block(3, 16, (1, 2, 2)),
        *block(16, 32, 2),
        *block(32, 64, 2),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    inputs = [normal(2, 3, 8, 32, 32), whole(10, 2)]
    return Case(model, inputs, _labels(torch), lambda m, x, y: m(x), sgd)


def deeplab(torch: Any) -> Case:
    """Atrous convolutions in parallel, bilinear upsampling, a loss with ignored pixels."""
    nn, F = torch.nn, torch.nn.functional

    class ASPP(nn.Module):
        def __init__(self, channels: int, out: int) -> None:
            super().__init__()
            self.branches = nn.ModuleList([nn.Conv2d(channels, out, 1, bias=False)])
            for rate in (2, 4, 6):
                self.branches.append(
                    nn.Conv2d(channels, out, 3, padding=rate, dilation=rate, bias=False)
                )
            self.pooled = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, out, 1), nn.ReLU()
            )
            self.project = nn.Sequential(
                nn.Conv2d(5 * out, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
            )

        def forward(self, x: Any) -> Any:
            found = [F.relu(branch(x)) for branch in self.branches]
            size = x.shape[-2:]
            pooled = F.interpolate(self.pooled(x), size=size, mode="bilinear", align_corners=False)
            return self.project(torch.cat([*found, pooled], dim=1))

    class DeepLab(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers: list[Any] = []
            for a, b, stride in ((3, 32, 2), (32, 48, 2), (48, 64, 1), (64, 64, 1)):
                layers += [nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
            self.backbone = nn.Sequential(*layers)
            self.aspp = ASPP(64, 48)
            self.head = nn.Conv2d(48, 21, 1)

        def forward(self, x: Any) -> Any:
            y = self.head(self.aspp(self.backbone(x)))
            return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)

    target = whole(22, 2, 96, 96)
    target[target == 21] = 255

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y, ignore_index=255)

    return Case(DeepLab(), [normal(2, 3, 96, 96), target], loss, lambda m, x, y: m(x), sgd)


def _double(nn: Any, a: int, b: int) -> Any:
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1),
        nn.BatchNorm2d(b),
        nn.ReLU(inplace=True),
        nn.Conv2d(b, b, 3, padding=1),
        nn.BatchNorm2d(b),
        nn.ReLU(inplace=True),
    )


def unet_transposed(torch: Any) -> Case:
    """A U-Net whose way up is by transposed convolutions."""
    return _unet(torch, transposed=True)


def unet_bilinear(torch: Any) -> Case:
    """A U-Net whose way up is bilinear."""
    return _unet(torch, transposed=False)


def _unet(torch: Any, *, transposed: bool) -> Case:
    nn, F = torch.nn, torch.nn.functional

    class UNet(nn.Module):
        def __init__(self, sizes: tuple[int, ...] = (16, 32, 64, 128)) -> None:
            super().__init__()
            self.first = _double(nn, 3, sizes[0])
            pairs = list(itertools.pairwise(sizes))
            self.down = nn.ModuleList([_double(nn, a, b) for a, b in pairs])
            self.up = nn.ModuleList()
            self.join = nn.ModuleList()
            for a, b in reversed(pairs):
                self.up.append(
                    nn.ConvTranspose2d(b, a, 2, stride=2)
                    if transposed
                    else nn.Sequential(
                        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                        nn.Conv2d(b, a, 1),
                    )
                )
                self.join.append(_double(nn, 2 * a, a))
            self.last = nn.Conv2d(sizes[0], 1, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for block in self.down:
                kept.append(block(F.max_pool2d(kept[-1], 2)))
            x = kept.pop()
            for up, join in zip(self.up, self.join, strict=True):
                x = join(torch.cat([kept.pop(), up(x)], dim=1))
            return self.last(x)

    def loss(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        p = torch.sigmoid(scores)
        dice = 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
        return F.binary_cross_entropy_with_logits(scores, y) + dice.mean()

    inputs = [normal(2, 3, 64, 64), whole(2, 2, 1, 64, 64).astype(np.float32)]
    return Case(UNet(), inputs, loss, lambda m, x, y: m(x).sigmoid() > 0.5, sgd)


def shuffle(torch: Any) -> Case:
    """ShuffleNet of the first kind: grouped 1x1 convolutions and a shuffle of channels."""
    nn, F = torch.nn, torch.nn.functional

    class Unit(nn.Module):
        def __init__(self, channels: int, groups: int) -> None:
            super().__init__()
            mid = channels // 4
            self.groups = groups
            self.a = nn.Conv2d(channels, mid, 1, groups=groups, bias=False)
            self.na = nn.BatchNorm2d(mid)
            self.b = nn.Conv2d(mid, mid, 3, padding=1, groups=mid, bias=False)
            self.nb = nn.BatchNorm2d(mid)
            self.c = nn.Conv2d(mid, channels, 1, groups=groups, bias=False)
            self.nc = nn.BatchNorm2d(channels)

        def forward(self, x: Any) -> Any:
            y = F.relu(self.na(self.a(x)))
            n, c, h, w = y.shape
            y = y.view(n, self.groups, c // self.groups, h, w).transpose(1, 2).contiguous()
            y = self.nb(self.b(y.view(n, c, h, w)))
            return F.relu(x + self.nc(self.c(y)))

    model = nn.Sequential(
        nn.Conv2d(3, 96, 3, 2, 1, bias=False),
        nn.BatchNorm2d(96),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *(Unit(96, 3) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, 100),
    )
    inputs = [normal(8, 3, 64, 64), whole(100, 8)]
    return Case(model, inputs, _labels(torch), lambda m, x, y: m(x), sgd)


def squeeze_excite(torch: Any) -> Case:
    """Residual blocks with squeeze and excitation, PReLU."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(c, c, 3, padding=1, bias=False),
                nn.BatchNorm2d(c),
                nn.PReLU(c),
                nn.Conv2d(c, c, 3, padding=1, bias=False),
                nn.BatchNorm2d(c),
            )
            self.fc = nn.Sequential(
                nn.Linear(c, c // 8), nn.ReLU(), nn.Linear(c // 8, c), nn.Sigmoid()
            )

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            b, c, _, _ = y.size()
            s = self.fc(y.mean(dim=(2, 3))).view(b, c, 1, 1)
            return torch.relu(x + y * s.expand_as(y))

    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        Block(64),
        nn.AvgPool2d(2),
        Block(64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    inputs = [normal(8, 3, 32, 32), whole(10, 8)]
    return Case(model, inputs, _labels(torch), lambda m, x, y: m(x), sgd)


def inception(torch: Any) -> Case:
    """Branches of 1x1, 3x3 and 5x5 filters and of pooling, put side by side."""
    nn, F = torch.nn, torch.nn.functional

    class Mixed(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.a = nn.Conv2d(c, 32, 1)
            self.b = nn.Sequential(nn.Conv2d(c, 24, 1), nn.ReLU(), nn.Conv2d(24, 48, 3, padding=1))
            self.c = nn.Sequential(nn.Conv2d(c, 8, 1), nn.ReLU(), nn.Conv2d(8, 16, 5, padding=2))
            self.d = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(c, 16, 1))

        def forward(self, x: Any) -> Any:
            return F.relu(torch.cat((self.a(x), self.b(x), self.c(x), self.d(x)), 1))

    model = nn.Sequential(
        nn.Conv2d(3, 48, 5, 2, 2),
        nn.ReLU(),
        nn.LocalResponseNorm(5),
        Mixed(48),
        Mixed(112),
        nn.MaxPool2d(3, 2),
        Mixed(112),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(112, 10),
    )
    inputs = [normal(4, 3, 64, 64), whole(10, 4)]
    return Case(model, inputs, _labels(torch), lambda m, x, y: m(x), sgd)


def espcn(torch: Any) -> Case:
    """Super-resolution by sub-pixel convolution."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 3 * 9, 3, padding=1),
        nn.PixelShuffle(3),
    )

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(model(x), y)

    inputs = [normal(2, 3, 64, 64), normal(2, 3, 192, 192, seed=2)]
    return Case(model, inputs, loss, lambda m, x, y: m(x).clamp(0, 1), adam)


def capsules(torch: Any) -> Case:
    """A capsule network with three rounds of routing."""
    nn, F = torch.nn, torch.nn.functional

    def squash(v: Any) -> Any:
        n = (v**2).sum(-1, keepdim=True)
        return n / (1 + n) * v / torch.sqrt(n + 1e-8)

    class Capsules(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 64, 9)
            self.primary = nn.Conv2d(64, 8 * 8, 9, stride=2)
            self.W = nn.Parameter(0.05 * torch.randn(1, 8 * 36, 10, 16, 8))

        def forward(self, x: Any) -> Any:
            y = self.primary(F.relu(self.conv(x)))
            u = squash(y.view(x.size(0), 8, 8, -1).permute(0, 1, 3, 2).reshape(x.size(0), -1, 8))
            votes = (self.W @ u[:, :, None, :, None]).squeeze(-1)
            b = torch.zeros(x.size(0), votes.size(1), 10, 1, device=x.device)
            v = None
            for turn in range(3):
                c = F.softmax(b, dim=2)
                v = squash((c * votes).sum(dim=1, keepdim=True))
                if turn < 2:
                    b = b + (votes * v).sum(-1, keepdim=True)
            assert v is not None
            return v.squeeze(1).norm(dim=-1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        found = model(x)
        t = F.one_hot(y, 10).float()
        up, down = F.relu(0.9 - found) ** 2, F.relu(found - 0.1) ** 2
        return (t * up + 0.5 * (1 - t) * down).sum(dim=1).mean()

    inputs = [normal(8, 1, 28, 28), whole(10, 8)]
    return Case(Capsules(), inputs, loss, lambda m, x, y: m(x).argmax(1), adam)


def siamese(torch: Any) -> Case:
    """Embeddings of three images, a triplet loss and a cosine one."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.LeakyReLU(0.2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.LeakyReLU(0.2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 16, 128),
    )

    def loss(model: Any, a: Any, p: Any, n: Any) -> Any:
        a, p, n = (F.normalize(model(x)) for x in (a, p, n))
        far = F.cosine_similarity(a, n)
        return F.triplet_margin_loss(a, p, n, margin=0.5) + F.relu(far).mean()

    inputs = [normal(32, 1, 28, 28, seed=s) for s in range(3)]
    return Case(model, inputs, loss, lambda m, a, p, n: F.cosine_similarity(m(a), m(p)), adam)


def eegnet(torch: Any) -> Case:
    """Filters over time, then over all electrodes of each, then separable ones."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 8, (1, 64), padding="same", bias=False),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 16, (22, 1), groups=8, bias=False),
        nn.BatchNorm2d(16),
        nn.ELU(),
        nn.AvgPool2d((1, 4)),
        nn.Conv2d(16, 16, (1, 16), padding=(0, 8), groups=16, bias=False),
        nn.Conv2d(16, 16, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ELU(),
        nn.AvgPool2d((1, 8)),
        nn.Flatten(),
        nn.Linear(16 * 8, 4),
    )
    inputs = [normal(8, 1, 22, 256), whole(4, 8)]
    return Case(model, inputs, _labels(torch), lambda m, x, y: m(x), sgd)


CONVOLUTIONAL = (
    eegnet,
    video,
    deeplab,
    unet_transposed,
    unet_bilinear,
    shuffle,
    squeeze_excite,
    inception,
    espcn,
    capsules,
    siamese,
)
