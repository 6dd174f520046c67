# %% [markdown]
# # Digits in ten lines
#
# `pip install "clnet[pocl,plot]"`. A small convolutional network reads handwritten digits. Who knows PyTorch can read
# this without a manual.
#
# - **Data**: 1,797 images of 8x8 that come with clnet; 359 of them are for the test.
# - **Result**: 99.2% of 359 images of the test are right after 15 epochs, in two seconds with the kernels in the
#   cache (twenty without).

# %%
import matplotlib.pyplot as plt

import clnet
from clnet import nn, optim
from clnet.data import DataLoader, Digits, Normalize
from clnet.nn import functional as F
from clnet.train import Trainer, accuracy

EPOCHS = 15

# %% [markdown]
# The ten lines:

# %%
clnet.manual_seed(0)
train, test = Digits(train=True), Digits(train=False)
transform = Normalize.of(train.arrays[0])
layers = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))
optimizer = optim.Adam(model.parameters(), lr=3e-3)
metrics = {"accuracy": accuracy}
trainer = Trainer(model, F.cross_entropy, optimizer, metrics=metrics, progress=False)
history = trainer.fit(DataLoader(train, 64, shuffle=True, transform=transform), epochs=EPOCHS)
print(trainer.evaluate(DataLoader(test, 256, transform=transform)))

# %% [markdown]
# The trainer compiled the step: it recorded forward, backward and update once, fused neighbours, planned the memory,
# and replayed that. Without a trainer the same is a decorator:


# %%
@clnet.compile
def train_step(images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


for images, labels in DataLoader(train, 64, shuffle=True, drop_last=True, transform=transform):
    loss = train_step(clnet.tensor(images), clnet.tensor(labels))
print(f"loss {loss.item():.4f}")
print(train_step.explain())

# %% [markdown]
# What it sees in images of the test:

# %%
images, labels = next(iter(DataLoader(test, len(test), transform=transform)))
with clnet.no_grad():
    found = model(clnet.tensor(images)).argmax(1).numpy()
print(f"{(found != labels).sum()} of {len(labels)} are wrong")
figure, axes = plt.subplots(1, 10, figsize=(8, 1.1))
for axis, image, number in zip(axes, test.arrays[0], found, strict=False):
    axis.imshow(image[0], cmap="gray_r")
    axis.set_title(str(number))
    axis.axis("off")
plt.show()
