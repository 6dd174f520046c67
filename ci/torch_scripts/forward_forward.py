"""Layers that learn by themselves, each with an optimiser of its own."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn


class Layer(nn.Linear):
    def __init__(self, in_features, out_features, lr):
        super().__init__(in_features, out_features)
        self.relu = torch.nn.ReLU()
        self.opt = torch.optim.Adam(self.parameters(), lr=lr)
        self.threshold = 1.0

    def forward(self, x):
        x_direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(x_direction, self.weight.T) + self.bias.unsqueeze(0))

    def learn(self, x_pos, x_neg):
        g_pos = self.forward(x_pos).pow(2).mean(1)
        g_neg = self.forward(x_neg).pow(2).mean(1)
        both = torch.cat([-g_pos + self.threshold, g_neg - self.threshold])
        loss = torch.log(1 + torch.exp(both)).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item(), self.forward(x_pos).detach(), self.forward(x_neg).detach()


def overlay_y_on_x(x, y, classes=10):
    x_ = x.clone()
    x_[:, :classes] *= 0.0
    x_[range(x.shape[0]), y] = x.max()
    return x_


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = nn.ModuleList([Layer(30, 24, args.lr), Layer(24, 16, args.lr)]).to(device)
    begin(net, args.start)
    x = torch.from_numpy(rng.standard_normal((12, 30)).astype(np.float32)).to(device)
    y = torch.from_numpy(rng.integers(0, 10, 12)).to(device)
    wrong = (y + torch.from_numpy(rng.integers(1, 10, 12)).to(device)) % 10
    for step in range(args.steps):
        h_pos, h_neg = overlay_y_on_x(x, y), overlay_y_on_x(x, wrong)
        for layer in net:
            loss, h_pos, h_neg = layer.learn(h_pos, h_neg)
            print(f"step {step} loss {loss:.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
