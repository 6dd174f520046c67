"""Mixup, moving averages of the weights, a checkpoint and a resumed run."""

import argparse
import os
import copy
import tempfile
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class EMA:
    def __init__(self, model, decay):
        self.module, self.decay = copy.deepcopy(model).eval(), decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(self.decay * e + (1.0 - self.decay) * m)


def make(lr):
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.SiLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return model, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model, optimizer, scheduler = make(args.lr)
    begin(model, args.start)
    ema = EMA(model, 0.9)
    for step in range(8):
        if step == 4:  # as after a crash
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "checkpoint.pt")
                state = {
                    "step": step,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                torch.save({**state, "scheduler": scheduler.state_dict()}, path)
                model, optimizer, scheduler = make(args.lr)
                checkpoint = torch.load(path, map_location=device, weights_only=True)
            model.load_state_dict(checkpoint["model"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            scheduler.load_state_dict(checkpoint["scheduler"])
            assert checkpoint["step"] == step
        x = torch.from_numpy(rng.standard_normal((8, 6)).astype(np.float32))
        y = F.one_hot(torch.from_numpy(rng.integers(0, 3, 8)), 3).float()
        lam, order = rng.beta(0.4, 0.4), torch.from_numpy(rng.permutation(8))
        x, y = lam * x + (1 - lam) * x[order], lam * y + (1 - lam) * y[order]
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        ema.update(model)
        print(
            f"step {step} loss {loss.item():.6f} ema loss {F.cross_entropy(ema.module(x), y):.6f}"
        )


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
