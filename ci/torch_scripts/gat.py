"""A graph attention network: heads, masks, einsum."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    def __init__(self, inner, outer, heads, concat=False, slope=0.2):
        super().__init__()
        self.heads, self.hidden, self.concat = heads, outer // heads if concat else outer, concat
        self.W = nn.Parameter(torch.empty(size=(inner, self.hidden * heads)))
        self.a = nn.Parameter(torch.empty(size=(heads, 2 * self.hidden, 1)))
        self.act = nn.LeakyReLU(slope)
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj):
        n = h.shape[0]
        h = torch.mm(h, self.W).view(n, self.heads, self.hidden).permute(1, 0, 2)
        source = torch.matmul(h, self.a[:, : self.hidden, :])
        target = torch.matmul(h, self.a[:, self.hidden :, :])
        e = self.act(source + target.mT)
        scores = torch.where(adj > 0, e, -9e16 * torch.ones_like(e))
        h = torch.matmul(F.softmax(scores, dim=-1), h)
        if self.concat:
            return h.permute(1, 0, 2).contiguous().view(n, self.heads * self.hidden)
        return h.mean(dim=0)


class GAT(nn.Module):
    def __init__(self, inner, hidden, heads, classes):
        super().__init__()
        self.one = GraphAttention(inner, hidden, heads, concat=True)
        self.two = GraphAttention(hidden, classes, 1)

    def forward(self, x, adj):
        return F.log_softmax(self.two(F.elu(self.one(x, adj)), adj), dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    adj = torch.from_numpy((rng.random((16, 16)) < 0.3).astype(np.float32)) + torch.eye(16)
    x = torch.from_numpy(rng.standard_normal((16, 6)).astype(np.float32)).to(device)
    labels = torch.from_numpy(rng.integers(0, 4, 16)).to(device)
    model = GAT(6, 8, 2, 4).to(device)
    begin(model, args.start)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    criterion = nn.NLLLoss()
    for epoch in range(args.steps):
        optimizer.zero_grad()
        output = model(x, adj.to(device))
        loss = criterion(output, labels)
        loss.backward()
        optimizer.step()
        accuracy = (output.argmax(dim=1) == labels).float().mean()
        print(f"epoch {epoch} loss {loss.item():.6f} accuracy {accuracy:.3f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
