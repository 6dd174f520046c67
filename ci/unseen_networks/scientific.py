"""Networks of physics, fields and functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import Case, adam, drawn, normal


def nerf(torch: Any) -> Case:
    """Points as sines and cosines, a skipped connection, colours summed along rays."""
    nn, F = torch.nn, torch.nn.functional

    class NeRF(nn.Module):
        def __init__(self, bands: int = 6, d: int = 128) -> None:
            super().__init__()
            self.bands = bands
            size = 3 + 6 * bands
            self.a = nn.ModuleList([nn.Linear(size, d), nn.Linear(d, d), nn.Linear(d, d)])
            self.b = nn.ModuleList([nn.Linear(d + size, d), nn.Linear(d, d)])
            self.head = nn.Linear(d, 4)

        def forward(self, x: Any) -> Any:
            found = [x]
            for i in range(self.bands):
                found += [torch.sin(2.0**i * math.pi * x), torch.cos(2.0**i * math.pi * x)]
            e = y = torch.cat(found, -1)
            for layer in self.a:
                y = F.relu(layer(y))
            y = torch.cat([y, e], -1)
            for layer in self.b:
                y = F.relu(layer(y))
            y = self.head(y)
            return torch.sigmoid(y[..., :3]), F.relu(y[..., 3])

    def render(model: Any, origin: Any, way: Any, depth: Any) -> Any:
        points = origin[:, None] + way[:, None] * depth[..., None]
        rgb, sigma = model(points)
        step = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 1e2)], -1)
        alpha = 1 - torch.exp(-sigma * step)
        through = torch.cumprod(
            torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1
        )[:, :-1]
        return ((alpha * through)[..., None] * rgb).sum(-2)

    def loss(model: Any, o: Any, d: Any, z: Any, c: Any) -> Any:
        return F.mse_loss(render(model, o, d, z), c)

    depth = np.sort(drawn(4).random((64, 32), np.float32), axis=1) + 0.5
    inputs = [normal(64, 3), normal(64, 3, seed=2), depth, normal(64, 3, seed=3)]
    return Case(NeRF(), inputs, loss, lambda m, o, d, z, c: render(m, o, d, z), adam)


def physics(torch: Any) -> Case:
    """Burgers' equation as a loss: second derivatives of the network by its inputs."""
    nn = torch.nn
    layers: list[Any] = [nn.Linear(2, 40), nn.Tanh()]
    for _ in range(4):
        layers += [nn.Linear(40, 40), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(40, 1))

    def loss(model: Any, x: Any, t: Any, x0: Any, u0: Any) -> Any:
        x, t = x.clone().requires_grad_(), t.clone().requires_grad_()
        u = model(torch.cat((x, t), 1))
        ux, ut = torch.autograd.grad(u, (x, t), torch.ones_like(u), create_graph=True)
        uxx = torch.autograd.grad(ux, x, torch.ones_like(ux), create_graph=True)[0]
        residual = ut + u * ux - 0.01 / math.pi * uxx
        start = model(torch.cat((x0, torch.zeros_like(x0)), 1))
        return (residual**2).mean() + ((start - u0) ** 2).mean()

    x0 = normal(100, 1, seed=3)
    inputs = [normal(1000, 1), normal(1000, 1, seed=2), x0, -np.sin(math.pi * x0)]
    return Case(model, inputs, loss, lambda m, x, t, a, b: m(torch.cat((x, t), 1)), adam)


def kan(torch: Any) -> Case:
    """Kolmogorov-Arnold layers: B-splines on edges, by Cox and de Boor's recursion."""
    nn, F = torch.nn, torch.nn.functional

    class KANLinear(nn.Module):
        def __init__(self, a: int, b: int, size: int = 5, order: int = 3) -> None:
            super().__init__()
            self.order = order
            h = 2 / size
            grid = torch.arange(-order, size + order + 1).float() * h - 1
            self.register_buffer("grid", grid.expand(a, -1).contiguous())
            self.base = nn.Parameter(torch.randn(b, a) / math.sqrt(a))
            self.spline = nn.Parameter(0.1 * torch.randn(b, a, size + order))

        def forward(self, x: Any) -> Any:
            base = F.linear(F.silu(x), self.base)
            g, x = self.grid, x.unsqueeze(-1)
            b = ((x >= g[:, :-1]) & (x < g[:, 1:])).to(x.dtype)
            for k in range(1, self.order + 1):
                left = (x - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * b[:, :, :-1]
                right = (g[:, k + 1 :] - x) / (g[:, k + 1 :] - g[:, 1:-k]) * b[:, :, 1:]
                b = left + right
            return base + F.linear(b.view(b.size(0), -1), self.spline.view(len(self.spline), -1))

    model = nn.Sequential(KANLinear(16, 32), KANLinear(32, 32), KANLinear(32, 1))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(model(x), y)

    inputs = [np.tanh(normal(256, 16)), normal(256, 1, seed=2)]
    return Case(model, inputs, loss, lambda m, x, y: m(x), adam)


def neural_ode(torch: Any) -> Case:
    """A field integrated by Runge and Kutta's steps, differentiated through them."""
    nn, F = torch.nn, torch.nn.functional

    class ODE(nn.Module):
        def __init__(self, d: int = 32) -> None:
            super().__init__()
            self.enter, self.leave = nn.Linear(8, d), nn.Linear(d, 8)
            self.f = nn.Sequential(nn.Linear(d + 1, 64), nn.Tanh(), nn.Linear(64, d))

        def field(self, t: float, y: Any) -> Any:
            return self.f(torch.cat([y, torch.full_like(y[:, :1], t)], dim=1))

        def forward(self, x: Any, steps: int = 10) -> Any:
            y, h = self.enter(x), 1 / steps
            for i in range(steps):
                t = i * h
                k1 = self.field(t, y)
                k2 = self.field(t + h / 2, y + h / 2 * k1)
                k3 = self.field(t + h / 2, y + h / 2 * k2)
                k4 = self.field(t + h, y + h * k3)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return self.leave(y)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(model(x), y)

    inputs = [normal(64, 8), normal(64, 8, seed=2)]
    return Case(ODE(), inputs, loss, lambda m, x, y: m(x), adam)


def fourier_operator(torch: Any) -> Case:
    """A Fourier neural operator: complex weights on the lowest frequencies."""
    nn, F = torch.nn, torch.nn.functional

    class Spectral(nn.Module):
        def __init__(self, c: int, modes: int) -> None:
            super().__init__()
            self.modes = modes
            self.w = nn.Parameter(torch.randn(c, c, modes, 2) / (c * c))

        def forward(self, x: Any) -> Any:
            f = torch.fft.rfft(x)
            w = torch.view_as_complex(self.w)
            low = torch.einsum("bix,iox->box", f[:, :, : self.modes], w)
            f = torch.cat([low, torch.zeros_like(f[:, :, self.modes :])], dim=-1)
            return torch.fft.irfft(f, n=x.size(-1))

    class FNO(nn.Module):
        def __init__(self, c: int = 32) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(2, c), nn.Linear(c, 1)
            self.s = nn.ModuleList([Spectral(c, 12) for _ in range(3)])
            self.w = nn.ModuleList([nn.Conv1d(c, c, 1) for _ in range(3)])

        def forward(self, x: Any) -> Any:
            y = self.first(x).permute(0, 2, 1)
            for s, w in zip(self.s, self.w, strict=True):
                y = F.gelu(s(y) + w(y))
            return self.last(y.permute(0, 2, 1))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(model(x), y)

    inputs = [normal(8, 256, 2), normal(8, 256, 1, seed=2)]
    return Case(FNO(), inputs, loss, lambda m, x, y: m(x), adam)


def siren(torch: Any) -> Case:
    """Sines as activations; the loss is of values and of their gradients."""
    nn = torch.nn

    class Sine(nn.Module):
        def __init__(self, a: int, b: int) -> None:
            super().__init__()
            self.linear = nn.Linear(a, b)

        def forward(self, x: Any) -> Any:
            return torch.sin(30 * self.linear(x))

    model = nn.Sequential(Sine(2, 64), Sine(64, 64), Sine(64, 64), nn.Linear(64, 1))

    def loss(model: Any, x: Any, y: Any, dy: Any) -> Any:
        x = x.clone().requires_grad_()
        u = model(x)
        (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        return ((u - y) ** 2).mean() + 0.01 * ((du - dy) ** 2).mean()

    inputs = [0.1 * normal(1024, 2), normal(1024, 1, seed=2), normal(1024, 2, seed=3)]
    return Case(model, inputs, loss, lambda m, x, y, dy: m(x), adam)


SCIENTIFIC = (nerf, physics, kan, neural_ode, fourier_operator, siren)
