# %% [markdown]
# # Diffusion on Fashion-MNIST
#
# `pip install "clnet[pocl,data,plot]"`. A network learns to say which noise was added to an image (Ho et al., 2020).
# Taking it away again and again, from nothing but noise, it draws images that nobody made.
#
# - **Data**: Fashion-MNIST at half its height and width, so that a CPU gets through it; looked for in
#   `CLNET_DATA` and in the cache, and `FashionMNIST(download=True)` fetches it once (30 MB).
# - **Result**: 900 steps in 427 seconds, on two busy cores; then coats, trousers, dresses and shoes that nobody made,
#   most of them recognisable, in 18 seconds.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np

import clnet
from clnet import nn, optim
from clnet.data import FashionMNIST
from clnet.models import DiffusionUNet
from clnet.nn import functional as F

STEPS, BATCH, TIMES, DRAWN = 900, 32, 200, 30

clnet.manual_seed(0)
rng = np.random.default_rng(0)
images = FashionMNIST(train=True).arrays[0].reshape(-1, 14, 2, 14, 2).mean((2, 4))
images = (images / 127.5 - 1).astype(np.float32)
print(images.shape, images.dtype)

# %% [markdown]
# How much of an image is left after so many steps of noise:

# %%
angles = (np.arange(TIMES + 1) / TIMES + 0.008) / 1.008 * np.pi / 2
left = np.cos(angles) ** 2 / np.cos(angles[0]) ** 2
noises = np.clip(1 - left[1:] / left[:-1], 0, 0.999).astype(np.float32)  # added by each step
left = np.cumprod(1 - noises)


def batch():
    """Images between -1 and 1, noise, steps, and what these leave of an image."""
    chosen = images[rng.integers(0, len(images), BATCH)]
    t = rng.integers(0, TIMES, BATCH)
    x = clnet.tensor(chosen[:, None])
    return x, clnet.randn_like(x), clnet.tensor(t), clnet.tensor(left[t].reshape(-1, 1, 1, 1))


# %% [markdown]
# A U-Net that is told the step, and an average of its weights over the last steps, which draws better.

# %%
model = DiffusionUNet(
    14,
    ch=24,
    ch_mult=(1, 2),
    num_res_blocks=1,
    attn_resolutions=(7,),
    in_channels=1,
    dropout=0.0,
    groups=8,
)
optimizer = optim.Adam(model.parameters(), lr=2e-3)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=STEPS, pct_start=0.1)
average = optim.swa_utils.AveragedModel(
    model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.99)
)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")


@clnet.compile
def train_step(x, noise, t, share):
    optimizer.zero_grad()
    noisy = share.sqrt() * x + (1 - share).sqrt() * noise
    loss = F.mse_loss(model(noisy, t), noise)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


losses = []
start = time.perf_counter()
for step in range(STEPS):
    losses.append(train_step(*batch()))
    scheduler.step()
    average.update_parameters(model)
    if step % 100 == 99 or step == STEPS - 1:
        print(f"step {step + 1}: loss {clnet.stack(losses[-100:]).mean().item():.4f}")
print(f"{time.perf_counter() - start:.0f} s")


# %% [markdown]
# From noise to images, a step of noise at a time. The image that the network believes in is kept between -1 and 1.


# %%
@clnet.compile
def noise_in(x, t):
    with clnet.no_grad():
        return average(x, t)


def draw(count):
    """Images ``(count, 14, 14)``, at the end and on the way."""
    x, on_the_way = clnet.randn(count, 1, 14, 14), []
    for t in reversed(range(TIMES)):
        noise = noise_in(x, clnet.full((count,), t, dtype=clnet.int64))
        before = float(left[t - 1]) if t else 1.0
        seen = ((x - (1 - left[t]) ** 0.5 * noise) / left[t] ** 0.5).clamp(-1, 1)
        x = (before**0.5 * noises[t] * seen + (1 - noises[t]) ** 0.5 * (1 - before) * x) / (
            1 - left[t]
        )
        if t:
            spread = (noises[t] * (1 - before) / (1 - left[t])) ** 0.5
            x = x + spread * clnet.randn_like(x)
        if t % (TIMES // 10) == 0:
            on_the_way.append(x.numpy()[:, 0])
    return x.numpy()[:, 0], np.stack(on_the_way)


def show(sheet, columns):
    """Images in rows."""
    rows = len(sheet) // columns
    sheet = sheet.reshape(rows, columns, 14, 14).transpose(0, 2, 1, 3).reshape(14 * rows, -1)
    plt.figure(figsize=(8, 8 * rows / columns))
    plt.imshow(sheet, cmap="gray_r", vmin=-1, vmax=1)
    plt.axis("off")
    plt.show()


start = time.perf_counter()
average.eval()
drawn, on_the_way = draw(DRAWN)
print(f"{time.perf_counter() - start:.0f} s")
show(drawn, min(10, DRAWN))

# %% [markdown]
# The first of them on its way, and images of the data set to compare with:

# %%
show(on_the_way[:, 0], len(on_the_way))
show(images[:20], 10)
