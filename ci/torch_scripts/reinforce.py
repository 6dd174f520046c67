"""REINFORCE: a policy learns from whole episodes of a small world."""

import argparse
import os
from collections import deque
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.affine2 = nn.Linear(16, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=1)


def finish_episode(policy, optimizer, gamma=0.99):
    R, returns = 0, deque()
    for r in policy.rewards[::-1]:
        R = r + gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
    policy_loss = [-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return policy_loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    policy = Policy().to(device)
    begin(policy, args.start)
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    for episode in range(args.steps):
        state = rng.standard_normal(4)
        for _ in range(6):
            probs = policy(torch.from_numpy(state).float().unsqueeze(0).to(device))
            m = Categorical(probs)
            action = torch.tensor([int(rng.integers(0, 2))])
            policy.saved_log_probs.append(m.log_prob(action.to(device)))
            state = 0.9 * state + 0.1 * (2 * action.item() - 1) + 0.1 * rng.standard_normal(4)
            policy.rewards.append(float(-abs(state[0])))
        print(f"episode {episode} loss {finish_episode(policy, optimizer):.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
