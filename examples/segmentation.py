"""A U-Net finds discs in noise: a class for every pixel, from images made on the spot."""

import numpy as np

import clnet
from clnet import optim
from clnet.models import UNet
from clnet.nn import functional as F

SIZE, BATCH = 32, 8


def discs(rng):
    """Noisy images with a disc each, and which pixels it covers."""
    y, x = np.mgrid[:SIZE, :SIZE]
    cy, cx, radius = rng.uniform([[8], [8], [3]], [[24], [24], [8]], (3, BATCH))[..., None, None]
    masks = ((y - cy) ** 2 + (x - cx) ** 2 < radius**2).astype(np.float32)
    images = masks + rng.normal(0, 0.7, masks.shape).astype(np.float32)
    return clnet.tensor(images[:, None]), clnet.tensor(masks[:, None])


def main(steps=150):
    clnet.manual_seed(0)
    rng = np.random.default_rng(0)
    model = UNet(1, 1, features=(8, 16, 32))
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    @clnet.compile
    def train_step(images, masks):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(images), masks)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for step in range(steps):
        loss = train_step(*discs(rng))
        if step % 25 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    model.eval()
    images, masks = discs(rng)
    with clnet.no_grad():
        found = (model(images) > 0).numpy()
    wanted = masks.numpy() > 0
    overlap = (found & wanted).sum() / max((found | wanted).sum(), 1)
    print(f"intersection over union {overlap:.3f}")


if __name__ == "__main__":
    main()
