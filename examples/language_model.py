"""A recurrent network learns to write Python, a character at a time, from the standard library."""

import argparse as lesson
from itertools import islice
from math import exp
from pathlib import Path

import clnet
from clnet import nn, optim
from clnet.data import DataLoader, Vocabulary, columns
from clnet.models import LSTMLanguageModel
from clnet.nn import functional as F
from clnet.train import continuation

BATCH, STEPS, HIDDEN = 32, 64, 256


def main(epochs=20, steps=None):
    """Train; ``steps`` limits the batches of an epoch."""
    clnet.manual_seed(0)
    text = Path(lesson.__file__).read_text(encoding="utf-8")
    vocabulary = Vocabulary.of(text, "char")
    # The text in 32 parallel columns: a batch is the next 64 rows of them.
    loader = DataLoader(columns(vocabulary.encode(text), BATCH), STEPS, drop_last=True)
    model = LSTMLanguageModel(len(vocabulary), 64, hidden_size=HIDDEN, num_layers=1)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)

    @clnet.compile
    def train_step(inputs, targets, h, c):
        optimizer.zero_grad()
        outputs, (h, c) = model(inputs, (h, c))
        loss = F.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss.detach(), h.detach(), c.detach()

    for epoch in range(epochs):
        losses = []
        h = c = clnet.zeros(1, BATCH, HIDDEN)
        for inputs, targets in islice(loader, steps):
            # The states go on to the next batch; gradients do not go back into this one.
            loss, h, c = train_step(clnet.tensor(inputs), clnet.tensor(targets), h, c)
            losses.append(loss)
        mean = clnet.stack(losses).mean().item()
        print(f"epoch {epoch + 1}: perplexity {exp(mean):.2f}")
    begin = "def main("
    drawn = continuation(model, vocabulary.encode(begin).tolist(), 20 if steps else 300)
    print(begin + vocabulary.decode(drawn))


if __name__ == "__main__":
    main()
