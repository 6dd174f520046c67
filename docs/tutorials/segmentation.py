# %% [markdown]
# # Segmentation with a U-Net
#
# `pip install "clnet[pocl,plot]"`. A U-Net finds discs in noise: a class for every pixel.
#
# - **Data**: images made on the spot, of 32x32, with a disc each under noise of 0.7 times its brightness.
# - **Result**: the pixels found and wanted overlap to 0.89 (intersection over union) after 150 steps, in 6 seconds.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np

import clnet
from clnet import optim
from clnet.models import UNet
from clnet.nn import functional as F

SIZE, BATCH, STEPS = 32, 8, 150

rng = np.random.default_rng(0)


def discs():
    """Noisy images with a disc each, and which pixels it covers."""
    y, x = np.mgrid[:SIZE, :SIZE]
    cy, cx, radius = rng.uniform([[8], [8], [3]], [[24], [24], [8]], (3, BATCH))[..., None, None]
    masks = ((y - cy) ** 2 + (x - cx) ** 2 < radius**2).astype(np.float32)
    images = masks + rng.normal(0, 0.7, masks.shape).astype(np.float32)
    return clnet.tensor(images[:, None]), clnet.tensor(masks[:, None])


# %% [markdown]
# Three sizes of images are enough here; `clnet.models.unet()` is the paper's.

# %%
clnet.manual_seed(0)
model = UNet(1, 1, features=(8, 16, 32))
optimizer = optim.Adam(model.parameters(), lr=3e-3)


@clnet.compile
def train_step(images, masks):
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(images), masks)
    loss.backward()
    optimizer.step()
    return loss.detach()


start = time.perf_counter()
for step in range(STEPS):
    loss = train_step(*discs())
    if step % 25 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
print(f"{time.perf_counter() - start:.0f} s")

# %% [markdown]
# New images: what goes in, what is wanted, what comes out.

# %%
model.eval()
images, masks = discs()
with clnet.no_grad():
    found = (model(images) > 0).numpy()
wanted = masks.numpy() > 0
overlap = (found & wanted).sum() / max((found | wanted).sum(), 1)
print(f"intersection over union {overlap:.3f}")
figure, axes = plt.subplots(3, BATCH, figsize=(8, 3))
for row, pictures in zip(axes, (images.numpy(), wanted, found), strict=True):
    for axis, picture in zip(row, pictures, strict=True):
        axis.imshow(picture[0], cmap="gray")
        axis.axis("off")
plt.show()
