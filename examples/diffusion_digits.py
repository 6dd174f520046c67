"""Diffusion (Ho et al. 2020) on handwritten digits: a U-Net takes noise away, and so draws."""

from itertools import islice

import numpy as np

import clnet
from clnet import optim
from clnet.data import DataLoader, Digits, ToFloat
from clnet.models import DiffusionUNet
from clnet.nn import functional as F

STEPS = 100  # of noise, from an image to nothing of it
SHADES = np.array([*" .:-=+*#%@"])


def show(images):
    """Images of numbers between 0 and 1, side by side in letters."""
    for line in np.concatenate([*images], axis=1):
        print("".join(np.repeat(SHADES[(line * 9.99).astype(int)], 2)))


def main(epochs=30, steps=None):
    """Train; ``steps`` limits the batches of an epoch."""
    clnet.manual_seed(0)
    rng = np.random.default_rng(0)
    loader = DataLoader(Digits(train=True), 64, shuffle=True, drop_last=True, transform=ToFloat(16))
    model = DiffusionUNet(
        8, ch=32, ch_mult=(1, 2), num_res_blocks=1, attn_resolutions=(4,), in_channels=1, dropout=0,
        groups=8,
    )  # fmt: skip
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    noise_of = np.linspace(1e-3, 0.12, STEPS, dtype=np.float32)
    kept = np.cumprod(1 - noise_of)  # of an image, after so many steps

    @clnet.compile
    def train_step(x, noise, t, share):
        optimizer.zero_grad()
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(noisy, t), noise)
        loss.backward()
        optimizer.step()
        return loss.detach()

    @clnet.compile
    def noise_in(x, t):
        with clnet.no_grad():
            return model(x, t)

    for epoch in range(epochs):
        losses = []
        for images, _ in islice(loader, steps):
            x = clnet.tensor(2 * images - 1)
            t = rng.integers(0, STEPS, len(x))
            share = clnet.tensor(kept[t].reshape(-1, 1, 1, 1))
            losses.append(train_step(x, clnet.randn_like(x), clnet.tensor(t), share).item())
        if epoch % 10 == 0 or epoch == epochs - 1:
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
    model.eval()
    x = clnet.randn(8, 1, 8, 8)
    for t in reversed(range(STEPS if steps is None else steps)):
        found = noise_in(x, clnet.full((8,), t, dtype=clnet.int64))
        x = (x - noise_of[t] / (1 - kept[t]) ** 0.5 * found) / (1 - noise_of[t]) ** 0.5
        if t:
            x = x + noise_of[t] ** 0.5 * clnet.randn_like(x)
    show((x.clamp(-1, 1).numpy().reshape(8, 8, 8) + 1) / 2)


if __name__ == "__main__":
    main()
