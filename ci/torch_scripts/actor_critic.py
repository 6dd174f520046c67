"""A policy and a value with one trunk, named tuples, smooth L1."""

import argparse
import os
from collections import namedtuple
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = Policy().to(device)
    begin(model, args.start)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for episode in range(args.steps):
        saved, rewards, state = [], [], rng.standard_normal(4).astype(np.float32)
        for _ in range(5):
            probs, value = model(torch.from_numpy(state).to(device))
            action = torch.tensor(int(rng.integers(0, 2)), device=device)
            m = torch.distributions.Categorical(probs)
            saved.append(SavedAction(m.log_prob(action), value))
            state = (0.9 * state + 0.1 * action.item()).astype(np.float32)
            rewards.append(1.0 - abs(float(state.mean())))
        R, returns = 0, []
        for r in rewards[::-1]:
            R = r + 0.99 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        policy_losses, value_losses = [], []
        for (log_prob, value), R in zip(saved, returns):
            policy_losses.append(-log_prob * (R - value.item()))
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([R.item()], device=device)))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        print(f"episode {episode} loss {loss.item():.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
