"""A graph convolutional network on a drawn graph, adjacency normalised by hand."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphConv(nn.Module):
    def __init__(self, inner, outer, use_bias=False):
        super().__init__()
        self.kernel = nn.Parameter(torch.Tensor(inner, outer))
        nn.init.xavier_normal_(self.kernel)
        self.bias = None
        if use_bias:
            self.bias = nn.Parameter(torch.Tensor(outer))
            nn.init.zeros_(self.bias)

    def forward(self, x, adj):
        out = torch.mm(adj, torch.mm(x, self.kernel))
        return out + self.bias if self.bias is not None else out


class GCN(nn.Module):
    def __init__(self, inner, hidden, classes):
        super().__init__()
        self.gc1 = GraphConv(inner, hidden, use_bias=True)
        self.gc2 = GraphConv(hidden, classes)

    def forward(self, x, adj):
        return F.log_softmax(self.gc2(F.relu(self.gc1(x, adj)), adj), dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    adj = torch.from_numpy((rng.random((20, 20)) < 0.2).astype(np.float32))
    adj = ((adj + adj.t()) > 0).float() + torch.eye(20)
    degree = torch.pow(adj.sum(1), -0.5)
    adj = (torch.diag(degree) @ adj @ torch.diag(degree)).to(device)
    x = torch.from_numpy(rng.standard_normal((20, 7)).astype(np.float32)).to(device)
    labels = torch.LongTensor(rng.integers(0, 3, 20)).to(device)
    idx_train, idx_test = torch.arange(0, 14), torch.arange(14, 20)
    model = GCN(7, 8, 3).to(device)
    begin(model, args.start)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    for epoch in range(args.steps):
        model.train()
        optimizer.zero_grad()
        output = model(x, adj)
        loss = F.nll_loss(output[idx_train], labels[idx_train])
        loss.backward()
        optimizer.step()
        model.eval()
        test = F.nll_loss(model(x, adj)[idx_test], labels[idx_test])
        print(f"epoch {epoch} loss {loss.item():.6f} test loss {test.item():.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
