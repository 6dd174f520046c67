"""An encoder and a decoder with attention learn to spell words backwards, and generate greedily."""

import numpy as np

import clnet
from clnet import nn, optim
from clnet.models import Translator
from clnet.nn import functional as F

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BEGIN, END, LETTER = 0, 1, 2  # the first letter's number
LENGTH, BATCH = 6, 64


def words(rng):
    """Words, and what is wanted of each: begin, the letters backwards, end."""
    source = rng.integers(LETTER, LETTER + len(LETTERS), (BATCH, LENGTH))
    column = np.ones((BATCH, 1), np.int64)
    target = np.hstack([BEGIN * column, source[:, ::-1], END * column])
    return clnet.tensor(source), clnet.tensor(target)


def spelled(numbers):
    return "".join(LETTERS[n - LETTER] for n in numbers if n >= LETTER)


def main(steps=600):
    clnet.manual_seed(0)
    rng = np.random.default_rng(0)
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

    for step in range(steps):
        loss = train_step(*words(rng))
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    model.eval()
    source, target = words(rng)
    found = clnet.full((BATCH, 1), BEGIN, dtype=clnet.int64)
    with clnet.no_grad():
        for _ in range(LENGTH):  # a letter at a time: the likeliest after those before
            following = model(source, found)[:, -1].argmax(1, keepdim=True)
            found = clnet.cat([found, following], 1)
    right = (found[:, 1:] == target[:, 1:-1]).all(1).float().mean().item()
    for word, backwards in zip(source[:3].tolist(), found[:3].tolist(), strict=True):
        print(f"{spelled(word)} -> {spelled(backwards)}")
    print(f"{100 * right:.0f} % of {BATCH} new words are right")


if __name__ == "__main__":
    main()
