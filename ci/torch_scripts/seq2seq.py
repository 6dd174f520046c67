"""Translation by GRUs with attention, padded and packed sequences."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Seq2Seq(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width, padding_idx=0)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)
        self.decoder = nn.GRU(2 * width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, source, lengths, target):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        keys = self.bridge(states)
        hidden = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))[None]
        mask = (source[:, : keys.size(1)] == 0).unsqueeze(1)
        outputs = []
        for t in range(target.size(1)):
            query = hidden.transpose(0, 1)
            scores = torch.bmm(query, keys.transpose(1, 2)).masked_fill(mask, float("-inf"))
            context = torch.bmm(scores.softmax(-1), keys)
            step = torch.cat([self.embedding(target[:, t : t + 1]), context], dim=-1)
            output, hidden = self.decoder(step, hidden)
            outputs.append(self.out(output))
        return torch.cat(outputs, dim=1)


def collate(batch):
    sources, targets = zip(*batch)
    lengths = torch.tensor([len(s) for s in sources])
    return pad_sequence(sources, batch_first=True), lengths, pad_sequence(targets, batch_first=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(12):
        words = torch.from_numpy(rng.integers(1, 12, rng.integers(2, 6)))
        pairs.append((words, words.flip(0)))
    loader = torch.utils.data.DataLoader(pairs, batch_size=4, collate_fn=collate)
    model = Seq2Seq(12, 16).to(device)
    begin(model, args.start)
    optimizer = torch.optim.NAdam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    for step, (source, lengths, target) in enumerate(loader):
        logits = model(source, lengths, target)
        loss = criterion(logits[:, :-1].reshape(-1, 12), target[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
