"""Networks that make something: images, codes, densities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import Case, adam, normal, whole


def gan(torch: Any) -> Case:
    """Transposed convolutions against a critic with spectral norm, an optimiser each."""
    nn, F = torch.nn, torch.nn.functional
    sn = nn.utils.parametrizations.spectral_norm

    class GAN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g = nn.Sequential(
                nn.ConvTranspose2d(32, 64, 4, 1, 0, bias=False),
                nn.BatchNorm2d(64),
                nn.ReLU(True),
                nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False),
                nn.BatchNorm2d(32),
                nn.ReLU(True),
                nn.ConvTranspose2d(32, 3, 4, 2, 1),
                nn.Tanh(),
            )
            self.d = nn.Sequential(
                sn(nn.Conv2d(3, 32, 4, 2, 1)),
                nn.LeakyReLU(0.2),
                sn(nn.Conv2d(32, 64, 4, 2, 1)),
                nn.LeakyReLU(0.2),
                nn.Flatten(),
                sn(nn.Linear(64 * 16, 1)),
            )

    class Both:
        def __init__(self, library: Any, model: Any) -> None:
            adam = library.optim.Adam
            self.g = adam(model.g.parameters(), lr=2e-4, betas=(0.5, 0.999))
            self.d = adam(model.d.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def train(model: Any, optimizer: Any, x: Any, z: Any) -> Any:
        optimizer.d.zero_grad()
        made = model.g(z)
        d = F.relu(1 - model.d(x)).mean() + F.relu(1 + model.d(made.detach())).mean()
        d.backward()
        optimizer.d.step()
        optimizer.g.zero_grad()
        g = -model.d(made).mean()
        g.backward()
        optimizer.g.step()
        return d.detach() + g.detach()

    inputs = [normal(16, 3, 16, 16), normal(16, 32, 1, 1, seed=2)]
    model = GAN()
    return Case(model, inputs, None, lambda m, x, z: m.g(z), lambda lib, _: Both(lib, model), train)


def vqvae(torch: Any) -> Case:
    """Codes by the nearest of a book, straight-through gradients."""
    nn, F = torch.nn, torch.nn.functional

    class VQVAE(nn.Module):
        def __init__(self, d: int = 32, codes: int = 128) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, d, 4, 2, 1)
            )
            self.book = nn.Embedding(codes, d)
            self.decoder = nn.Sequential(
                nn.ConvTranspose2d(d, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)
            )

        def forward(self, x: Any) -> Any:
            z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
            flat = z.view(-1, z.size(-1))
            far = (
                flat.pow(2).sum(1, keepdim=True)
                - 2 * flat @ self.book.weight.t()
                + self.book.weight.pow(2).sum(1)
            )
            q = self.book(far.argmin(1)).view(z.shape)
            extra = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
            q = z + (q - z).detach()
            return self.decoder(q.permute(0, 3, 1, 2).contiguous()), extra

    def loss(model: Any, x: Any) -> Any:
        y, extra = model(x)
        return F.mse_loss(y, x) + extra

    return Case(VQVAE(), [normal(8, 3, 32, 32)], loss, lambda m, x: m(x)[0], adam)


def diffusion_unet(torch: Any) -> Case:
    """Group norm, SiLU, times as sines, attention in the middle, nearest upsampling."""
    nn, F = torch.nn, torch.nn.functional

    class Res(nn.Module):
        def __init__(self, a: int, b: int, t: int) -> None:
            super().__init__()
            self.n1, self.c1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
            self.t = nn.Linear(t, b)
            self.n2, self.c2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
            self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x: Any, t: Any) -> Any:
            y = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
            return self.c2(F.silu(self.n2(y))) + self.skip(x)

    class Attention(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.norm, self.qkv = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1)
            self.out = nn.Conv2d(c, c, 1)

        def forward(self, x: Any) -> Any:
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(b, 3, c, h * w).unbind(1)
            a = torch.softmax(torch.einsum("bci,bcj->bij", q, k) * c**-0.5, dim=-1)
            return x + self.out(torch.einsum("bij,bcj->bci", a, v).reshape(b, c, h, w))

    class UNet(nn.Module):
        def __init__(self, c: int = 32) -> None:
            super().__init__()
            self.c = c
            self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
            self.first = nn.Conv2d(3, c, 3, padding=1)
            self.d1, self.down = Res(c, c, 4 * c), nn.Conv2d(c, c, 3, 2, 1)
            self.d2, self.mid = Res(c, 2 * c, 4 * c), Attention(2 * c)
            self.m2 = Res(2 * c, 2 * c, 4 * c)
            self.u1 = Res(4 * c, c, 4 * c)
            self.u2 = Res(2 * c, c, 4 * c)
            self.norm, self.last = nn.GroupNorm(8, c), nn.Conv2d(c, 3, 3, padding=1)

        def forward(self, x: Any, t: Any) -> Any:
            rate = torch.exp(-math.log(10000) * torch.arange(self.c // 2).float() / (self.c // 2))
            angle = t.float()[:, None] * rate[None]
            t = self.time(torch.cat((angle.sin(), angle.cos()), dim=-1))
            a = self.d1(self.first(x), t)
            b = self.d2(self.down(a), t)
            y = self.m2(self.mid(b), t)
            y = F.interpolate(self.u1(torch.cat((y, b), 1), t), scale_factor=2, mode="nearest")
            return self.last(F.silu(self.norm(self.u2(torch.cat((y, a), 1), t))))

    def loss(model: Any, x: Any, e: Any, t: Any) -> Any:
        keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)[t].view(-1, 1, 1, 1)
        return F.mse_loss(model(keep.sqrt() * x + (1 - keep).sqrt() * e, t), e)

    inputs = [normal(4, 3, 32, 32), normal(4, 3, 32, 32, seed=2), whole(1000, 4)]
    return Case(UNet(), inputs, loss, lambda m, x, e, t: m(x, t), adam)


def real_nvp(torch: Any) -> Case:
    """A flow of affine couplings, the density by torch.distributions."""
    nn = torch.nn

    class Flow(nn.Module):
        def __init__(self, d: int = 32, layers: int = 6) -> None:
            super().__init__()

            def net() -> Any:
                return nn.Sequential(
                    nn.Linear(d, 128), nn.LeakyReLU(), nn.Linear(128, 128), nn.LeakyReLU()
                )

            self.bodies = nn.ModuleList([net() for _ in range(layers)])
            self.heads = nn.ModuleList([nn.Linear(128, 2 * d) for _ in range(layers)])
            masks = [[(i + j) % 2 for j in range(d)] for i in range(layers)]
            self.register_buffer("masks", torch.tensor(masks).float())

        def forward(self, x: Any) -> Any:
            total = x.new_zeros(x.shape[0])
            for mask, body, head in zip(self.masks, self.bodies, self.heads, strict=True):
                kept = x * mask
                s, t = head(body(kept)).chunk(2, dim=1)
                s = torch.tanh(s) * (1 - mask)
                x = kept + (1 - mask) * (x * torch.exp(s) + t)
                total = total + s.sum(dim=1)
            return x, total

    def loss(model: Any, x: Any) -> Any:
        z, total = model(x)
        prior = torch.distributions.Normal(0.0, 1.0)
        return -(prior.log_prob(z).sum(1) + total).mean()

    return Case(Flow(), [normal(256, 32)], loss, lambda m, x: m(x)[0], adam)


def style_modulated(torch: Any) -> Case:
    """StyleGAN2's blocks: filters modulated for each image, as one grouped convolution."""
    nn, F = torch.nn, torch.nn.functional

    class Modulated(nn.Module):
        def __init__(self, a: int, b: int, style: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(b, a, 3, 3) / math.sqrt(9 * a))
            self.style, self.bias = nn.Linear(style, a), nn.Parameter(torch.zeros(b))

        def forward(self, x: Any, w: Any) -> Any:
            n, c, h, width = x.shape
            s = self.style(w) + 1
            f = self.weight[None] * s[:, None, :, None, None]
            f = f * torch.rsqrt(f.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
            y = F.conv2d(x.reshape(1, n * c, h, width), f.flatten(0, 1), padding=1, groups=n)
            y = y.view(n, -1, h, width) + self.bias.view(1, -1, 1, 1)
            return F.leaky_relu(y, 0.2) * math.sqrt(2)

    class Generator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64))
            self.start = nn.Parameter(torch.randn(1, 48, 8, 8))
            self.blocks = nn.ModuleList(
                [Modulated(48, 48, 64), Modulated(48, 32, 64), Modulated(32, 32, 64)]
            )
            self.rgb = nn.Conv2d(32, 3, 1)

        def forward(self, z: Any) -> Any:
            w = self.map(F.normalize(z, dim=1))
            x = self.start.expand(z.size(0), -1, -1, -1)
            for i, block in enumerate(self.blocks):
                if i:
                    x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
                x = block(x, w)
            return self.rgb(x)

    def loss(model: Any, z: Any, x: Any) -> Any:
        return F.l1_loss(model(z), x)

    inputs = [normal(4, 64), normal(4, 3, 32, 32, seed=2)]
    return Case(Generator(), inputs, loss, lambda m, z, x: m(z), adam)


def masked_autoencoder(torch: Any) -> Case:
    """Patches left out by gathering, put back by places, the loss of those left out."""
    nn = torch.nn

    class MAE(nn.Module):
        def __init__(self, d: int = 96) -> None:
            super().__init__()
            self.embed = nn.Linear(48, d)
            self.place = nn.Parameter(0.02 * torch.randn(1, 64, d))
            self.mask = nn.Parameter(torch.zeros(1, 1, d))
            layer = nn.TransformerEncoderLayer(
                d, 4, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.decoder = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True)
            self.head = nn.Linear(d, 48)

        def forward(self, patches: Any, order: Any) -> Any:
            x = self.embed(patches) + self.place
            n, t, d = x.shape
            keep = order[:, :16].unsqueeze(-1).expand(-1, -1, d)
            y = self.encoder(torch.gather(x, 1, keep))
            full = self.mask.expand(n, t, d).scatter(1, keep, y)
            return self.head(self.decoder(full + self.place))

    def loss(model: Any, x: Any, order: Any) -> Any:
        n = x.size(0)
        patches = x.unfold(2, 4, 4).unfold(3, 4, 4)
        patches = patches.permute(0, 2, 3, 1, 4, 5).reshape(n, 64, 48)
        hidden = torch.ones(n, 64).scatter(1, order[:, :16], 0.0)
        error = ((model(patches, order) - patches) ** 2).mean(-1)
        return (error * hidden).sum() / hidden.sum()

    def ask(model: Any, x: Any, order: Any) -> Any:
        return loss(model, x, order)

    order = np.stack([np.random.default_rng(i).permutation(64) for i in range(8)])
    return Case(MAE(), [normal(8, 3, 32, 32), order], loss, ask, adam)


GENERATIVE = (gan, vqvae, diffusion_unet, real_nvp, style_modulated, masked_autoencoder)
