# %% [markdown]
# # A character GPT that writes
#
# `pip install "clnet[pocl,plot]"`. A transformer of GPT-2's shape (Radford et al., 2019) reads a book a character at a
# time, guesses each next one, and then writes by itself.
#
# - **Data**: the reference of the Python language, which comes with Python.
# - **Result**: 1.44 nats (2.08 bits) a character of the held-out part after 1,000 steps in 206 seconds. It writes lines
#   of the reference's words, quotes and commas; many words are misspelt, and it says nothing.

# %%
import time
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

import clnet
from clnet import nn, optim
from clnet.models import GPT
from clnet.nn import functional as F

STEPS, BATCH, LENGTH, WRITTEN = 1000, 24, 64, 400

clnet.manual_seed(0)
rng = np.random.default_rng(0)
text = "\n".join(" ".join(line.split()) for topic in topics.values() for line in topic.split("\n"))
letters = sorted({letter for letter in text if letter.isascii()})
number = {letter: i for i, letter in enumerate(letters)}
book = np.array([number[letter] for letter in text if letter in number])
held_out, book = book[: len(book) // 20], book[len(book) // 20 :]
print(f"{len(book):,} characters, of {len(letters)} kinds; {len(held_out):,} are held out")


def pages(part):
    """Places of a text, and what follows each of their characters."""
    first = rng.integers(0, len(part) - LENGTH, BATCH)[:, None] + np.arange(LENGTH)
    return clnet.tensor(part[first]), clnet.tensor(part[first + 1])


# %% [markdown]
# Three blocks of attention: each position sees itself and those before. AdamW warms up and then slows down.

# %%
model = GPT(len(letters), LENGTH, n_layer=3, n_head=4, n_embd=96)
optimizer = optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.1)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS, pct_start=0.1)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")


def loss_of(before, after):
    return F.cross_entropy(model(before).flatten(0, 1), after.flatten())


@clnet.compile
def train_step(before, after):
    optimizer.zero_grad()
    loss = loss_of(before, after)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


losses = []
start = time.perf_counter()
for step in range(STEPS):
    losses.append(train_step(*pages(book)))
    scheduler.step()
    if step % 100 == 0 or step == STEPS - 1:
        print(f"step {step}: loss {losses[-1].item():.3f}")
print(f"{time.perf_counter() - start:.0f} s")

# %%
model.eval()
with clnet.no_grad():
    loss = np.mean([loss_of(*pages(held_out)).item() for _ in range(8)])
print(f"held out: loss {loss:.3f}, {loss / np.log(2):.2f} bits a character")
plt.figure(figsize=(6, 2.5))
plt.plot(clnet.stack(losses).numpy(), linewidth=0.5)
plt.xlabel("step")
plt.ylabel("loss")
plt.show()

# %% [markdown]
# It goes on with what it is given. Each next character is drawn from its probabilities, sharpened by a temperature
# below 1.


# %%
@clnet.compile
def scores_at(tokens, place):
    """What may follow the character at a place, ``(1, letters)``."""
    with clnet.no_grad():
        return model(tokens).index_select(1, place).squeeze(1)


def write(beginning, count, temperature=0.6):
    """The beginning and ``count`` more characters."""
    found = [number[letter] for letter in beginning]
    for _ in range(count):
        seen = found[-LENGTH:]
        tokens = clnet.tensor([seen + [0] * (LENGTH - len(seen))])
        scores = scores_at(tokens, clnet.tensor([len(seen) - 1]))
        probabilities = F.softmax(scores / temperature, 1).numpy()[0].astype(np.float64)
        found.append(rng.choice(len(letters), p=probabilities / probabilities.sum()))
    return "".join(letters[i] for i in found)


print(write("The following ", WRITTEN))
