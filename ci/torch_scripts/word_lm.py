"""A language model of words: LSTM, detached states, tied weights, perplexity."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, ntoken, width, layers):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, width)
        self.rnn = nn.LSTM(width, width, layers)
        self.decoder = nn.Linear(width, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        return F.log_softmax(
            self.decoder(output).view(-1, self.decoder.out_features), dim=1
        ), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        shape = (self.rnn.num_layers, bsz, self.rnn.hidden_size)
        return (weight.new_zeros(shape), weight.new_zeros(shape))


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2.0)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    source = batchify(torch.from_numpy(rng.integers(0, 20, 400)), 4).to(device)
    model = Model(20, 16, 2).to(device)
    begin(model, args.start)
    criterion = nn.NLLLoss()
    hidden, bptt = model.init_hidden(4), 7
    for step, i in enumerate(range(0, bptt * args.steps, bptt)):
        data, target = source[i : i + bptt], source[i + 1 : i + 1 + bptt].view(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-args.lr)
        print(f"step {step} loss {loss.item():.6f} ppl {np.exp(loss.item()):.2f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
