# %% [markdown]
# # Sequence to sequence with attention
#
# `pip install "clnet[pocl]"`. An encoder and a decoder learn to spell words backwards,
# by attention from one to the other.
#
# - **Data**: words of six random letters, drawn anew for each step.
# - **Result**: 94% of 64 new words are right after 600 steps, in 102 seconds.

# %%
import time

import numpy as np

import clnet
from clnet import nn, optim
from clnet.models import Translator
from clnet.nn import functional as F

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BEGIN, END, LETTER = 0, 1, 2  # the first letter's number
LENGTH, BATCH, STEPS = 6, 64, 600

rng = np.random.default_rng(0)


def words():
    """Words, and what is wanted of each: begin, the letters backwards, end."""
    source = rng.integers(LETTER, LETTER + len(LETTERS), (BATCH, LENGTH))
    column = np.ones((BATCH, 1), np.int64)
    target = np.hstack([BEGIN * column, source[:, ::-1], END * column])
    return clnet.tensor(source), clnet.tensor(target)


# %% [markdown]
# The decoder sees the right letters so far and is asked for the next one: for all places at once.

# %%
clnet.manual_seed(0)
size = LETTER + len(LETTERS)
model = Translator(
    size, size, emb_size=64, nhead=4, num_layers=2, dim_feedforward=128, dropout=0.0, longest=16
)
optimizer = optim.Adam(model.parameters(), lr=1e-3)


@clnet.compile
def train_step(source, target):
    optimizer.zero_grad()
    outputs = model(source, target[:, :-1])
    loss = F.cross_entropy(outputs.flatten(0, 1), target[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


start = time.perf_counter()
for step in range(STEPS):
    loss = train_step(*words())
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
print(f"loss {loss.item():.4f} after {time.perf_counter() - start:.0f} s")

# %% [markdown]
# New words are written a letter at a time: the likeliest after those before.

# %%
model.eval()
source, target = words()
found = clnet.full((BATCH, 1), BEGIN, dtype=clnet.int64)
with clnet.no_grad():
    for _ in range(LENGTH):
        following = model(source, found)[:, -1].argmax(1, keepdim=True)
        found = clnet.cat([found, following], 1)


def spelled(numbers):
    return "".join(LETTERS[n - LETTER] for n in numbers if n >= LETTER)


for word, backwards in zip(source[:5].tolist(), found[:5].tolist(), strict=True):
    print(f"{spelled(word)} -> {spelled(backwards)}")
right = (found[:, 1:] == target[:, 1:-1]).all(1).float().mean().item()
print(f"{100 * right:.0f} % of {BATCH} new words are right")
