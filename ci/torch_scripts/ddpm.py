"""Denoising diffusion: a schedule of noise, sinusoidal times, sampling."""

import argparse
import os
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.inner = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.outer = nn.Conv2d(width, 1, 3, padding=1)
        self.width = width

    def forward(self, x, t):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angles = t[:, None].float() * freqs[None]
        emb = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))
        h = F.silu(self.norm(self.inner(x)) + emb[:, :, None, None])
        return self.outer(h)


def extract(a, t, shape):
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    T = 20
    betas = torch.linspace(1e-4, 0.02, T)
    alphas = torch.cumprod(1 - betas, dim=0)
    model = Net().to(device)
    begin(model, args.start)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        x = torch.from_numpy(rng.standard_normal((4, 1, 8, 8)).astype(np.float32))
        noise = torch.from_numpy(rng.standard_normal((4, 1, 8, 8)).astype(np.float32))
        t = torch.from_numpy(rng.integers(0, T, 4)).long()
        a = extract(alphas, t, x.shape)
        loss = F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
    with torch.inference_mode():
        x = torch.from_numpy(rng.standard_normal((1, 1, 8, 8)).astype(np.float32))
        for i in reversed(range(T)):
            t = torch.full((1,), i, dtype=torch.long)
            eps = model(x, t)
            x = (x - betas[i] / (1 - alphas[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
    print(f"sample loss {x.pow(2).mean().item():.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
