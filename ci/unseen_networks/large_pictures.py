"""Networks of pictures and volumes as wide as in papers: ``--batch 16`` fills a card."""

from __future__ import annotations

import itertools
import math
from typing import Any

from .case import Case, adam, asked, labels, normal, sgd, square, whole


def video_resnet(torch: Any) -> Case:
    """R3D-18: residual blocks of 3x3x3 filters on clips."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, c: int, d: int, step: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv3d(c, d, 3, step, 1, bias=False), nn.BatchNorm3d(d), nn.ReLU(),
                nn.Conv3d(d, d, 3, 1, 1, bias=False), nn.BatchNorm3d(d),
            )  # fmt: skip
            self.short = (
                nn.Identity()
                if c == d
                else nn.Sequential(nn.Conv3d(c, d, 1, step, bias=False), nn.BatchNorm3d(d))
            )

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.short(x))

    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
    model = nn.Sequential(
        nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(64),
        nn.ReLU(), *(Block(*s) for s in sizes), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
        nn.Linear(256, 400),
    )  # fmt: skip
    return Case(model, [normal(1, 3, 8, 64, 64), whole(400, 1)], labels(torch), asked, sgd)


def _twice(nn: Any, c: int, d: int) -> Any:
    return nn.Sequential(
        nn.Conv2d(c, d, 3, padding=1, bias=False), nn.BatchNorm2d(d), nn.ReLU(),
        nn.Conv2d(d, d, 3, padding=1, bias=False), nn.BatchNorm2d(d), nn.ReLU(),
    )  # fmt: skip


def unet_wide(torch: Any) -> Case:
    """The U-Net of the paper's widths, up by transposed filters."""
    nn = torch.nn

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [64, 128, 256, 512]
            self.down = nn.ModuleList(
                [_twice(nn, a, b) for a, b in zip([3, *widths], widths, strict=False)]
            )
            self.up = nn.ModuleList(
                [nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(widths)]
            )
            self.join = nn.ModuleList([_twice(nn, 2 * a, a) for a in widths[:-1]])
            self.out = nn.Conv2d(64, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for number, part in enumerate(self.down):
                x = part(x if not number else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for number in (2, 1, 0):
                x = self.join[number](torch.cat([kept[number], self.up[number](x)], 1))
            return self.out(x)

    return Case(UNet(), [normal(1, 3, 128, 128), whole(2, 1, 128, 128)], labels(torch), asked, adam)


def volume_unet(torch: Any) -> Case:
    """Segmentation of volumes: instance norms, leaky slopes, strided filters."""
    nn = torch.nn

    def part(c: int, d: int, step: int = 1) -> Any:
        return nn.Sequential(
            nn.Conv3d(c, d, 3, step, 1), nn.InstanceNorm3d(d, affine=True), nn.LeakyReLU(0.01),
            nn.Conv3d(d, d, 3, 1, 1), nn.InstanceNorm3d(d, affine=True), nn.LeakyReLU(0.01),
        )  # fmt: skip

    class Volumes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = part(1, 32), part(32, 64, 2), part(64, 128, 2)
            self.up1, self.up2 = nn.ConvTranspose3d(128, 64, 2, 2), nn.ConvTranspose3d(64, 32, 2, 2)
            self.d, self.e, self.out = part(128, 64), part(64, 32), nn.Conv3d(32, 3, 1)

        def forward(self, x: Any) -> Any:
            a = self.a(x)
            b = self.b(a)
            y = self.d(torch.cat([b, self.up1(self.c(b))], 1))
            return self.out(self.e(torch.cat([a, self.up2(y)], 1)))

    return Case(Volumes(), [normal(1, 1, 32, 32, 32), whole(3, 1, 32, 32, 32)], labels(torch),
                asked, sgd)  # fmt: skip


def enhanced_images(torch: Any) -> Case:
    """EDSR: 16 residual blocks of 128 channels, shuffled up twice."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(),
                                      nn.Conv2d(128, 128, 3, padding=1))  # fmt: skip

        def forward(self, x: Any) -> Any:
            return x + 0.1 * self.body(x)

    model = nn.Sequential(
        nn.Conv2d(3, 128, 3, padding=1), *(Block() for _ in range(16)),
        nn.Conv2d(128, 512, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(128, 3, 3, padding=1),
    )  # fmt: skip
    return Case(model, [normal(1, 3, 48, 48), normal(1, 3, 96, 96)], square, asked, adam)


def detector(torch: Any) -> Case:
    """A one-stage detector: cross-stage blocks with SiLU, a pyramid by nearest neighbours."""
    nn = torch.nn

    def conv(c: int, d: int, size: int = 1, step: int = 1) -> Any:
        return nn.Sequential(nn.Conv2d(c, d, size, step, size // 2, bias=False),
                             nn.BatchNorm2d(d), nn.SiLU())  # fmt: skip

    class Cross(nn.Module):
        def __init__(self, c: int, d: int, n: int) -> None:
            super().__init__()
            h = d // 2
            self.a, self.b, self.out = conv(c, h), conv(c, h), conv(2 * h, d)
            self.blocks = nn.ModuleList(
                [nn.Sequential(conv(h, h), conv(h, h, 3)) for _ in range(n)]
            )

        def forward(self, x: Any) -> Any:
            y = self.a(x)
            for block in self.blocks:
                y = y + block(y)
            return self.out(torch.cat([y, self.b(x)], 1))

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(conv(3, 32, 3, 2), conv(32, 64, 3, 2), Cross(64, 64, 1),
                                     conv(64, 128, 3, 2), Cross(128, 128, 2))  # fmt: skip
            self.two = nn.Sequential(conv(128, 256, 3, 2), Cross(256, 256, 3))
            self.three = nn.Sequential(conv(256, 512, 3, 2), Cross(512, 512, 1))
            self.small = conv(512, 256)
            self.join = Cross(512, 256, 1)
            self.less = conv(256, 128)
            self.last = Cross(256, 128, 1)
            self.heads = nn.ModuleList([nn.Conv2d(c, 75, 1) for c in (128, 256, 512)])

        def forward(self, x: Any) -> Any:
            one = self.one(x)
            two = self.two(one)
            three = self.three(two)
            up = nn.functional.interpolate(self.small(three), scale_factor=2.0, mode="nearest")
            two = self.join(torch.cat([up, two], 1))
            up = nn.functional.interpolate(self.less(two), scale_factor=2.0, mode="nearest")
            one = self.last(torch.cat([up, one], 1))
            found = [h(y).flatten(2) for h, y in zip(self.heads, (one, two, three), strict=True)]
            return torch.cat(found, 2)

    return Case(Detector(), [normal(1, 3, 192, 192), normal(1, 75, 756)], square, asked, sgd)


def mixed_convolutions(torch: Any) -> Case:
    """ConvMixer of 384: depthwise filters of 9x9, GELU, batch norms, residual sums."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.deep, self.wide = nn.Conv2d(d, d, 9, groups=d, padding=4), nn.Conv2d(d, d, 1)
            self.one, self.two = nn.BatchNorm2d(d), nn.BatchNorm2d(d)

        def forward(self, x: Any) -> Any:
            gelu = nn.functional.gelu
            x = x + self.one(gelu(self.deep(x)))
            return self.two(gelu(self.wide(x)))

    model = nn.Sequential(
        nn.Conv2d(3, 384, 7, 7), *(Block(384) for _ in range(6)), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(384, 100),
    )  # fmt: skip
    return Case(model, [normal(2, 3, 224, 224), whole(100, 2)], labels(torch), asked, sgd)


def fused_inverted(torch: Any) -> Case:
    """EfficientNetV2's first stages: 3x3 filters that widen, then depthwise with gates."""
    nn = torch.nn

    class Fused(nn.Module):
        def __init__(self, c: int, d: int, step: int, *, deep: bool) -> None:
            super().__init__()
            h = 4 * c
            self.deep, self.same = deep, c == d and step == 1
            first = nn.Conv2d(c, h, 1, bias=False) if deep else nn.Conv2d(
                c, h, 3, step, 1, bias=False)  # fmt: skip
            self.widen = nn.Sequential(first, nn.BatchNorm2d(h), nn.SiLU())
            self.middle = (
                nn.Sequential(nn.Conv2d(h, h, 3, step, 1, groups=h, bias=False),
                              nn.BatchNorm2d(h), nn.SiLU())
                if deep else nn.Identity()
            )  # fmt: skip
            self.gate = nn.Sequential(nn.Conv2d(h, c // 4, 1), nn.SiLU(), nn.Conv2d(c // 4, h, 1),
                                      nn.Sigmoid())  # fmt: skip
            self.out = nn.Sequential(nn.Conv2d(h, d, 1, bias=False), nn.BatchNorm2d(d))

        def forward(self, x: Any) -> Any:
            y = self.middle(self.widen(x))
            if self.deep:
                y = y * self.gate(y.mean((2, 3), keepdim=True))
            y = self.out(y)
            return x + y if self.same else y

    sizes = [(24, 24, 1, False), (24, 48, 2, False), (48, 48, 1, False), (48, 64, 2, False),
             (64, 128, 2, True), (128, 128, 1, True), (128, 160, 1, True)]  # fmt: skip
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU(),
        *(Fused(c, d, step, deep=deep) for c, d, step, deep in sizes),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 1000),
    )  # fmt: skip
    return Case(model, [normal(2, 3, 160, 160), whole(1000, 2)], labels(torch), asked, sgd)


def painted(torch: Any) -> Case:
    """StyleGAN2's blocks: filters of each image's own, blurred, with noise of nothing."""
    nn, F = torch.nn, torch.nn.functional

    class Styled(nn.Module):
        def __init__(self, c: int, d: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(1, d, c, 3, 3))
            self.style = nn.Linear(128, c)
            self.bias = nn.Parameter(torch.zeros(1, d, 1, 1))

        def forward(self, x: Any, w: Any) -> Any:
            n, c, high, wide = x.shape
            f = self.weight * self.style(w).view(n, 1, c, 1, 1) / math.sqrt(9 * c)
            f = f * torch.rsqrt(f.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
            y = F.conv2d(x.reshape(1, n * c, high, wide), f.flatten(0, 1), padding=1, groups=n)
            return F.leaky_relu(y.view(n, -1, high, wide) + self.bias, 0.2)

    class Painter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start = nn.Parameter(torch.randn(1, 256, 8, 8))
            self.layers = nn.ModuleList(
                [Styled(256, 256), Styled(256, 128), Styled(128, 64), Styled(64, 32)]
            )
            self.out = nn.Conv2d(32, 3, 1)

        def forward(self, w: Any) -> Any:
            x = self.start.expand(w.shape[0], -1, -1, -1)
            for number, layer in enumerate(self.layers):
                if number:
                    x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
                x = layer(x, w)
            return self.out(x)

    return Case(Painter(), [normal(2, 128), normal(2, 3, 64, 64)], square, asked, adam)


LARGE_PICTURES = [
    video_resnet,
    unet_wide,
    volume_unet,
    enhanced_images,
    detector,
    mixed_convolutions,
    fused_inverted,
    painted,
]
