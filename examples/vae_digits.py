"""A variational autoencoder learns handwritten digits (8 x 8, part of clnet) and draws new ones."""

from itertools import islice

import numpy as np

import clnet
from clnet import optim
from clnet.data import DataLoader, Digits, ToFloat
from clnet.models import VAE
from clnet.models.vae import vae_loss

SHADES = np.array([*" .:-=+*#%@"])


def show(images):
    """Images of numbers between 0 and 1, side by side in letters."""
    for line in np.concatenate([*images], axis=1):
        print("".join(np.repeat(SHADES[(line * 9.99).astype(int)], 2)))


def main(epochs=60, steps=None):
    """Train; ``steps`` limits the batches of an epoch."""
    clnet.manual_seed(0)
    digits = Digits(train=True)
    loader = DataLoader(digits, 64, shuffle=True, drop_last=True, transform=ToFloat(16))
    model = VAE(64, 128, 8)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    @clnet.compile
    def train_step(x):
        optimizer.zero_grad()
        result, mu, logvar = model(x)
        loss = vae_loss(result, x, mu, logvar)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for epoch in range(epochs):
        batches = (clnet.tensor(images) for images, _ in islice(loader, steps))
        losses = [train_step(x).item() / len(x) for x in batches]
        if epoch % 10 == 0 or epoch == epochs - 1:
            print(f"epoch {epoch}: loss {np.mean(losses):.2f} an image")
    with clnet.no_grad():
        drawn = model.decode(clnet.randn(8, 8))
    show(drawn.numpy().reshape(8, 8, 8))


if __name__ == "__main__":
    main()
