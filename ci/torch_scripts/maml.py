"""Meta-learning of sines: gradients of gradients, functional calls."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


def adapted(model, x, y, rate=0.1, steps=2):
    weights = dict(model.named_parameters())
    for _ in range(steps):
        loss = F.mse_loss(functional_call(model, weights, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)
        weights = {n: w - rate * g for (n, w), g in zip(weights.items(), grads)}
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
    begin(model, args.start)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @torch.compile(backend="eager")
    def meta_step(tasks):
        total = torch.tensor(0.0)
        for (x, y), (x_test, y_test) in tasks:
            weights = adapted(model, x, y)
            total += F.mse_loss(functional_call(model, weights, (x_test,)), y_test)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total

    def drawn(phase):
        x = torch.from_numpy(rng.uniform(-3, 3, (5, 1)).astype(np.float32))
        return x, torch.sin(x + phase)

    for step in range(args.steps):
        phases = rng.uniform(0, 3, 2).tolist()
        tasks = [(drawn(phase), drawn(phase)) for phase in phases]
        print(f"step {step} loss {meta_step(tasks).item():.5f}")


def begin(model, path):
    """Take the weights of a file, or write them there."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
