# %% [markdown]
# # A GAN that draws digits
#
# `pip install "clnet[pocl,plot]"`. A generator makes images of noise, a discriminator says which are real, and each
# learns from the other (Radford et al., 2016).
#
# - **Data**: 1,438 digits of 8x8 that come with clnet. The networks are DCGAN's made small; `clnet.models` has
#   `DCGANGenerator` and `DCGANDiscriminator` for 64x64.
# - **Result**: the digits below after 120 epochs, in 60 seconds; most can be read.

# %%
import time

import matplotlib.pyplot as plt

import clnet
from clnet import nn, optim
from clnet.data import DataLoader, Digits, ToFloat
from clnet.nn import functional as F

EPOCHS, NOISE, BATCH = 120, 32, 64

clnet.manual_seed(0)
loader = DataLoader(Digits(train=True), BATCH, shuffle=True, drop_last=True, transform=ToFloat(16))
generator = nn.Sequential(
    *(nn.ConvTranspose2d(NOISE, 64, 2, bias=False), nn.BatchNorm2d(64), nn.ReLU()),  # 2x2
    *(nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),  # 4x4
    *(nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh()),  # 8x8
)
discriminator = nn.Sequential(
    *(nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2)),
    *(nn.Conv2d(32, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64), nn.LeakyReLU(0.2)),
    *(nn.Conv2d(64, 1, 2), nn.Flatten(0)),
)
for module in (*generator, *discriminator):
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.05)
teacher = optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.999))
pupil = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))

# %% [markdown]
# Both are trained in one compiled step: two losses, two backward passes, two optimisers.


# %%
@clnet.compile
def train_step(images, noise):
    drawn = generator(noise)
    teacher.zero_grad()
    real, false = discriminator(images), discriminator(drawn.detach())
    told_apart = F.softplus(-real).mean() + F.softplus(false).mean()
    told_apart.backward()
    teacher.step()
    pupil.zero_grad()
    deceived = F.softplus(-discriminator(drawn)).mean()
    deceived.backward()
    pupil.step()
    return told_apart.detach(), deceived.detach()


start, curves = time.perf_counter(), []
for epoch in range(EPOCHS):
    for images, _ in loader:
        x = clnet.tensor(2 * images - 1)
        curves.append(clnet.stack(train_step(x, clnet.randn(BATCH, NOISE, 1, 1))))
    if epoch % 20 == 0 or epoch == EPOCHS - 1:
        told_apart, deceived = curves[-1].tolist()
        print(f"epoch {epoch + 1}: discriminator {told_apart:.3f}, generator {deceived:.3f}")
print(f"{time.perf_counter() - start:.0f} s")

# %% [markdown]
# Above what it drew, below digits that people wrote:

# %%
generator.eval()
with clnet.no_grad():
    drawn = generator(clnet.randn(32, NOISE, 1, 1)).numpy()
figure, axes = plt.subplots(2, 1, figsize=(8, 2.2), layout="constrained")
for axis, sheet in zip(axes, (drawn, 2 * next(iter(loader))[0][:32] - 1), strict=True):
    axis.imshow(sheet.reshape(2, 16, 8, 8).transpose(0, 2, 1, 3).reshape(16, -1), cmap="gray_r")
    axis.axis("off")
plt.show()

# %%
figure, axis = plt.subplots(figsize=(8, 2), layout="constrained")
axis.plot(clnet.stack(curves).numpy(), linewidth=0.5, label=["discriminator", "generator"])
axis.set(xlabel="step", ylabel="loss")
axis.legend()
plt.show()
