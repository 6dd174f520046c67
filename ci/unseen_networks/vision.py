"""More networks of images: attention of all kinds, detectors, transformers of images, penalties."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .case import Case, adam, drawn, normal, sgd, whole


def _labels(library: Any) -> Any:
    return lambda model, x, y: library.nn.functional.cross_entropy(model(x), y)


def spatial_transformer(torch: Any) -> Case:
    """Images turned by a map that a network predicts, read by a grid's places."""
    nn, F = torch.nn, torch.nn.functional

    class STN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.locate = nn.Sequential(
                nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 10, 5),
                nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(90, 32), nn.ReLU(),
            )  # fmt: skip
            self.theta = nn.Linear(32, 6)
            self.body = nn.Sequential(
                nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5),
                nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(320, 10),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            same = torch.tensor([1.0, 0, 0, 0, 1, 0])
            theta = (0.1 * self.theta(self.locate(x)) + same).view(-1, 2, 3)
            grid = F.affine_grid(theta, x.size(), align_corners=False)
            return self.body(F.grid_sample(x, grid, align_corners=False))

    return Case(STN(), [normal(32, 1, 28, 28), whole(10, 32)], _labels(torch),
                lambda m, x, y: m(x), sgd)  # fmt: skip


def large_kernels(torch: Any) -> Case:
    """RepLKNet's blocks: depthwise filters of 13x13 beside those of 5x5."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.large = nn.Conv2d(d, d, 13, padding=6, groups=d, bias=False)
            self.small = nn.Conv2d(d, d, 5, padding=2, groups=d, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(d) for _ in range(3)])
            self.up, self.down = nn.Conv2d(d, 2 * d, 1), nn.Conv2d(2 * d, d, 1)

        def forward(self, x: Any) -> Any:
            y = self.norms[0](self.large(x)) + self.norms[1](self.small(x))
            return x + self.down(torch.nn.functional.gelu(self.up(self.norms[2](y))))

    model = nn.Sequential(
        nn.Conv2d(3, 32, 4, 4), *(Block(32) for _ in range(3)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    return Case(model, [normal(4, 3, 96, 96), whole(10, 4)], _labels(torch),
                lambda m, x, y: m(x), sgd)  # fmt: skip


def conv_mixer(torch: Any) -> Case:
    """ConvMixer: depthwise and pointwise convolutions with residuals, patches of 4."""
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x) + x

    d = 64
    blocks = [
        nn.Sequential(
            Residual(
                nn.Sequential(nn.Conv2d(d, d, 9, groups=d, padding="same"), nn.GELU(),
                              nn.BatchNorm2d(d))
            ),
            nn.Conv2d(d, d, 1), nn.GELU(), nn.BatchNorm2d(d),
        )
        for _ in range(4)
    ]  # fmt: skip
    model = nn.Sequential(
        nn.Conv2d(3, d, 4, 4), nn.GELU(), nn.BatchNorm2d(d), *blocks,
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(d, 10),
    )  # fmt: skip
    return Case(model, [normal(8, 3, 64, 64), whole(10, 8)], _labels(torch),
                lambda m, x, y: m(x), sgd)  # fmt: skip


def attended_features(torch: Any) -> Case:
    """CBAM's channels and places, a non-local block, ghost modules."""
    nn, F = torch.nn, torch.nn.functional

    class CBAM(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(c, c // 4), nn.ReLU(), nn.Linear(c // 4, c))
            self.place = nn.Conv2d(2, 1, 7, padding=3)

        def forward(self, x: Any) -> Any:
            weights = self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3)))
            x = x * torch.sigmoid(weights)[:, :, None, None]
            parts = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)
            return x * torch.sigmoid(self.place(parts))

    class NonLocal(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Conv2d(c, c // 2, 1) for _ in range(3))
            self.out = nn.Conv2d(c // 2, c, 1)

        def forward(self, x: Any) -> Any:
            n, _, h, w = x.shape
            q, k, v = (f(x).flatten(2) for f in (self.q, self.k, self.v))
            a = torch.softmax(torch.bmm(q.transpose(1, 2), k), dim=-1)
            return x + self.out(torch.bmm(v, a.transpose(1, 2)).reshape(n, -1, h, w))

    class Ghost(nn.Module):
        def __init__(self, a: int, b: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(a, b // 2, 1, bias=False)
            self.cheap = nn.Conv2d(b // 2, b // 2, 3, padding=1, groups=b // 2, bias=False)
            self.norm = nn.BatchNorm2d(b)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.first(x))
            return F.hardswish(self.norm(torch.cat([x, self.cheap(x)], 1)))

    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), Ghost(32, 64), CBAM(64), nn.MaxPool2d(2), NonLocal(64),
        Ghost(64, 64), CBAM(64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return Case(model, [normal(4, 3, 64, 64), whole(10, 4)], _labels(torch),
                lambda m, x, y: m(x), sgd)  # fmt: skip


def pyramid_detector(torch: Any) -> Case:
    """A feature pyramid with heads at three sizes, focal and smooth losses of what is there."""
    nn, F = torch.nn, torch.nn.functional

    class Detector(nn.Module):
        def __init__(self, c: int = 48) -> None:
            super().__init__()
            sizes = [3, 16, 32, 64, 96]
            self.stages = nn.ModuleList([
                nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(8, b), nn.SiLU())
                for a, b in itertools.pairwise(sizes)
            ])  # fmt: skip
            self.sides = nn.ModuleList([nn.Conv2d(a, c, 1) for a in sizes[2:]])
            self.head = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
            self.kind, self.box = nn.Conv2d(c, 6, 3, padding=1), nn.Conv2d(c, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            found = []
            for stage in self.stages:
                x = stage(x)
                found.append(x)
            y, kinds, boxes = None, [], []
            for side, level in zip(reversed(self.sides), reversed(found[1:]), strict=True):
                level = side(level)
                if y is not None:
                    level = level + F.interpolate(y, size=level.shape[-2:], mode="nearest")
                y = level
                h = self.head(y)
                kinds.append(self.kind(h).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 6))
                boxes.append(self.box(h).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
            return torch.cat(kinds, 1), torch.cat(boxes, 1)

    def loss(model: Any, x: Any, kind: Any, box: Any) -> Any:
        kinds, boxes = model(x)
        there = kind > 0
        target = F.one_hot(kind, 7)[..., 1:].float()
        p = torch.sigmoid(kinds)
        each = F.binary_cross_entropy_with_logits(kinds, target, reduction="none")
        focal = each * (1 - torch.where(target > 0, p, 1 - p)) ** 2
        count = there.sum().clamp(min=1)
        near = F.smooth_l1_loss(boxes, box, reduction="none").sum(-1)
        return (focal.sum() + torch.where(there, near, torch.zeros_like(near)).sum()) / count

    places = 16 * 16 + 8 * 8 + 4 * 4
    kind = whole(7, 2, places) * (drawn(5).random((2, places)) < 0.05)
    inputs = [normal(2, 3, 64, 64), kind, normal(2, places, 4, seed=3)]
    return Case(Detector(), inputs, loss, lambda m, x, k, b: torch.cat(m(x), -1), adam)


def detection_transformer(torch: Any) -> Case:
    """DETR: learned queries attend to features with places; matched in order here."""
    nn, F = torch.nn, torch.nn.functional

    class DETR(nn.Module):
        def __init__(self, d: int = 64, queries: int = 20) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, d, 3, 2, 1), nn.ReLU(),
                nn.Conv2d(d, d, 3, 2, 1),
            )  # fmt: skip
            self.transformer = nn.Transformer(d, 4, 2, 2, 128, dropout=0.0, batch_first=True)
            self.query = nn.Parameter(torch.rand(queries, d))
            self.row, self.column = (nn.Parameter(torch.rand(16, d // 2)) for _ in range(2))
            self.kind, self.box = nn.Linear(d, 8), nn.Linear(d, 4)

        def forward(self, x: Any) -> Any:
            x = self.body(x)
            n, _, h, w = x.shape
            at = torch.cat([
                self.column[:w].unsqueeze(0).repeat(h, 1, 1),
                self.row[:h].unsqueeze(1).repeat(1, w, 1),
            ], dim=-1).flatten(0, 1).unsqueeze(0)  # fmt: skip
            y = self.transformer(at + 0.1 * x.flatten(2).permute(0, 2, 1),
                                 self.query.unsqueeze(0).expand(n, -1, -1))  # fmt: skip
            return self.kind(y), self.box(y).sigmoid()

    def loss(model: Any, x: Any, kind: Any, box: Any) -> Any:
        kinds, boxes = model(x)
        weight = torch.ones(8)
        weight[0] = 0.1
        return F.cross_entropy(kinds.transpose(1, 2), kind, weight) + 5 * F.l1_loss(boxes, box)

    box = drawn(3).random((2, 20, 4), np.float32)
    inputs = [normal(2, 3, 96, 96), whole(8, 2, 20), box]
    return Case(DETR(), inputs, loss, lambda m, x, k, b: torch.cat(m(x), -1), adam)


def style_transfer(torch: Any) -> Case:
    """Instance norms, reflected edges, nearest upsampling, Gram matrices, total variation."""
    nn, F = torch.nn, torch.nn.functional

    def layer(a: int, b: int, k: int, stride: int = 1) -> list[Any]:
        return [nn.ReflectionPad2d(k // 2), nn.Conv2d(a, b, k, stride),
                nn.InstanceNorm2d(b, affine=True), nn.ReLU()]  # fmt: skip

    class Residual(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.body = nn.Sequential(*layer(c, c, 3), *layer(c, c, 3)[:-1])

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    model = nn.Sequential(
        *layer(3, 16, 9), *layer(16, 32, 3, 2), *layer(32, 48, 3, 2), Residual(48), Residual(48),
        nn.Upsample(scale_factor=2), *layer(48, 32, 3), nn.Upsample(scale_factor=2),
        *layer(32, 16, 3), nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9),
    )  # fmt: skip

    def gram(y: Any) -> Any:
        flat = y.flatten(2)
        return flat @ flat.transpose(1, 2) / flat.shape[-1]

    def loss(model: Any, x: Any, style: Any) -> Any:
        y = model(x)
        smooth = (y[:, :, 1:] - y[:, :, :-1]).abs().mean()
        return F.mse_loss(y, x) + F.mse_loss(gram(y), gram(style)) + smooth

    inputs = [normal(2, 3, 64, 64), normal(2, 3, 64, 64, seed=2)]
    return Case(model, inputs, loss, lambda m, x, s: m(x), adam)


def gradient_penalty(torch: Any) -> Case:
    """A critic of Wasserstein's distance, whose slopes at points between are to be 1."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1),
        nn.LayerNorm([32, 8, 8]), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.Softplus(),
        nn.Flatten(), nn.Linear(64 * 16, 1),
    )  # fmt: skip

    def loss(model: Any, real: Any, fake: Any, share: Any) -> Any:
        between = (share * real + (1 - share) * fake).requires_grad_(True)
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        penalty = ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        return model(fake).mean() - model(real).mean() + 10 * penalty

    inputs = [normal(16, 3, 32, 32), normal(16, 3, 32, 32, seed=2)]
    inputs.append(drawn(3).random((16, 1, 1, 1), np.float32))
    return Case(model, inputs, loss, lambda m, r, f, s: m(r), adam)


def pixel_cnn(torch: Any) -> Case:
    """Gated masked convolutions: each pixel from those before it, as one of 32 values."""
    nn, F = torch.nn, torch.nn.functional

    class Masked(nn.Conv2d):
        def __init__(self, *args: Any, first: bool = False, **named: Any) -> None:
            super().__init__(*args, **named)
            mask = torch.ones_like(self.weight)
            _, _, h, w = mask.shape
            mask[:, :, h // 2, w // 2 + (not first) :] = 0
            mask[:, :, h // 2 + 1 :] = 0
            self.register_buffer("mask", mask)

        def forward(self, x: Any) -> Any:
            return F.conv2d(x, self.weight * self.mask, self.bias, self.stride, self.padding)

    class Gated(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.conv, self.out = Masked(c, 2 * c, 5, padding=2), nn.Conv2d(c, c, 1)

        def forward(self, x: Any) -> Any:
            a, b = self.conv(x).chunk(2, 1)
            return x + self.out(torch.tanh(a) * torch.sigmoid(b))

    c = 32
    model = nn.Sequential(Masked(1, c, 7, padding=3, first=True), *(Gated(c) for _ in range(4)),
                          nn.ReLU(), nn.Conv2d(c, 32, 1))  # fmt: skip

    def loss(model: Any, x: Any) -> Any:
        return F.cross_entropy(model(x.unsqueeze(1).float() / 16 - 1), x)

    return Case(model, [whole(32, 4, 28, 28)], loss,
                lambda m, x: m(x.unsqueeze(1).float() / 16 - 1), adam)  # fmt: skip


def volumes(torch: Any) -> Case:
    """A U-Net of volumes with transposed convolutions, and Dice's loss."""
    nn = torch.nn

    def double(a: int, b: int) -> Any:
        return nn.Sequential(
            nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b), nn.GELU(),
            nn.Conv3d(b, b, 3, padding=1), nn.InstanceNorm3d(b), nn.GELU(),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = double(1, 12), double(12, 24), double(24, 48)
            self.up1, self.up0 = (nn.ConvTranspose3d(2 * c, c, 2, 2) for c in (24, 12))
            self.join1, self.join0 = double(48, 24), double(24, 12)
            self.out = nn.Conv3d(12, 3, 1)

        def forward(self, x: Any) -> Any:
            pool = torch.nn.functional.max_pool3d
            a = self.first(x)
            b = self.second(pool(a, 2))
            c = self.third(pool(b, 2))
            b = self.join1(torch.cat([self.up1(c), b], 1))
            return self.out(self.join0(torch.cat([self.up0(b), a], 1)))

    def loss(model: Any, x: Any, y: Any) -> Any:
        p = torch.softmax(model(x), 1)
        t = torch.nn.functional.one_hot(y, 3).permute(0, 4, 1, 2, 3).float()
        both = (p * t).sum((2, 3, 4))
        return 1 - (2 * both / (p.sum((2, 3, 4)) + t.sum((2, 3, 4)) + 1e-5)).mean()

    inputs = [normal(1, 1, 24, 32, 32), whole(3, 1, 24, 32, 32)]
    return Case(UNet(), inputs, loss, lambda m, x, y: m(x), sgd)


def angular_margin(torch: Any) -> Case:
    """ArcFace: 5,000 faces as directions, with a margin at the right one."""
    nn, F = torch.nn, torch.nn.functional

    class Faces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1), nn.PReLU(32), nn.Conv2d(32, 64, 3, 2, 1), nn.PReLU(64),
                nn.Conv2d(64, 64, 3, 2, 1, groups=64), nn.Flatten(), nn.Linear(1024, 128),
                nn.BatchNorm1d(128),
            )  # fmt: skip
            self.faces = nn.Parameter(torch.randn(5000, 128))

        def forward(self, x: Any) -> Any:
            return F.linear(F.normalize(self.body(x)), F.normalize(self.faces))

    def loss(model: Any, x: Any, y: Any) -> Any:
        cosine = model(x)
        angle = torch.acos(cosine.clamp(-1 + 1e-7, 1 - 1e-7))
        right = F.one_hot(y, 5000).bool()
        return F.cross_entropy(30 * torch.where(right, torch.cos(angle + 0.5), cosine), y)

    return Case(Faces(), [normal(16, 3, 32, 32), whole(5000, 16)], loss,
                lambda m, x, y: m(x), sgd)  # fmt: skip


VISION = (
    spatial_transformer,
    large_kernels,
    conv_mixer,
    attended_features,
    pyramid_detector,
    detection_transformer,
    style_transfer,
    gradient_penalty,
    pixel_cnn,
    volumes,
    angular_margin,
)
