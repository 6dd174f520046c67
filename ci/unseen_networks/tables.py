"""Networks of tables, users and items, graphs, points."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, adam, normal, whole


def dlrm(torch: Any) -> Case:
    """Bags of embeddings, and products of all pairs of them."""
    nn, F = torch.nn, torch.nn.functional

    class DLRM(nn.Module):
        def __init__(self, tables: int = 8, rows: int = 2000, d: int = 32) -> None:
            super().__init__()
            self.bags = nn.ModuleList([nn.EmbeddingBag(rows, d, mode="sum") for _ in range(tables)])
            self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, d), nn.ReLU())
            n = tables + 1
            self.top = nn.Sequential(
                nn.Linear(d + n * (n - 1) // 2, 128), nn.ReLU(), nn.Linear(128, 1)
            )
            self.n = n

        def forward(self, dense: Any, which: Any) -> Any:
            x = self.bottom(dense)
            found = [bag(which[i]) for i, bag in enumerate(self.bags)]
            t = torch.stack([x, *found], dim=1)
            z = torch.bmm(t, t.transpose(1, 2))
            i, j = torch.tril_indices(self.n, self.n, offset=-1)
            return self.top(torch.cat([x, z[:, i, j]], dim=1)).squeeze(1)

    def loss(model: Any, dense: Any, which: Any, y: Any) -> Any:
        return F.binary_cross_entropy_with_logits(model(dense, which), y)

    inputs = [normal(128, 13), whole(2000, 8, 128, 4), whole(2, 128).astype(np.float32)]
    return Case(DLRM(), inputs, loss, lambda m, d, w, y: torch.sigmoid(m(d, w)), adam)


def factorisation(torch: Any) -> Case:
    """Users and items as vectors with biases, their product the rating."""
    nn, F = torch.nn, torch.nn.functional

    class MF(nn.Module):
        def __init__(self, users: int = 3000, items: int = 2000, d: int = 64) -> None:
            super().__init__()
            self.p, self.q = nn.Embedding(users, d), nn.Embedding(items, d)
            self.bp, self.bq = nn.Embedding(users, 1), nn.Embedding(items, 1)

        def forward(self, u: Any, i: Any) -> Any:
            return (self.p(u) * self.q(i)).sum(1) + self.bp(u).squeeze(1) + self.bq(i).squeeze(1)

    def loss(model: Any, u: Any, i: Any, r: Any) -> Any:
        return F.mse_loss(model(u, i), r)

    inputs = [whole(3000, 512), whole(2000, 512, seed=2), normal(512)]
    return Case(MF(), inputs, loss, lambda m, u, i, r: m(u, i), adam)


def deep_fm(torch: Any) -> Case:
    """Factorisation machine and MLP over one table of fields, dropout left out."""
    nn, F = torch.nn, torch.nn.functional

    class DeepFM(nn.Module):
        def __init__(self, fields: int = 20, each: int = 100, d: int = 16) -> None:
            super().__init__()
            self.first, self.v = nn.Embedding(fields * each, 1), nn.Embedding(fields * each, d)
            self.register_buffer("offsets", torch.arange(fields) * each)
            self.mlp = nn.Sequential(
                nn.Linear(fields * d, 128),
                nn.BatchNorm1d(128),
                nn.ReLU(),
                nn.Linear(128, 64),
                nn.BatchNorm1d(64),
                nn.ReLU(),
                nn.Linear(64, 1),
            )

        def forward(self, x: Any) -> Any:
            x = x + self.offsets
            v = self.v(x)
            pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1, keepdim=True)
            return (self.first(x).sum(1) + pairs + self.mlp(v.flatten(1))).squeeze(1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.binary_cross_entropy_with_logits(model(x), y)

    inputs = [whole(100, 128, 20), whole(2, 128).astype(np.float32)]
    return Case(DeepFM(), inputs, loss, lambda m, x, y: m(x).sigmoid(), adam)


def graph_network(torch: Any) -> Case:
    """Messages along edges, added up where they arrive, pooled for each graph."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.message = nn.Sequential(nn.Linear(2 * d + 4, d), nn.ReLU(), nn.Linear(d, d))
            self.update = nn.GRUCell(d, d)

        def forward(self, x: Any, edges: Any, e: Any) -> Any:
            a, b = edges[0], edges[1]
            m = self.message(torch.cat((x[a], x[b], e), dim=1))
            got = torch.zeros_like(x).index_add(0, b, m)
            return self.update(got, x)

    class MPNN(nn.Module):
        def __init__(self, d: int = 64) -> None:
            super().__init__()
            self.first = nn.Linear(16, d)
            self.layers = nn.ModuleList([Layer(d) for _ in range(3)])
            self.head = nn.Linear(d, 1)

        def forward(self, x: Any, edges: Any, e: Any, graph: Any) -> Any:
            x = self.first(x)
            for layer in self.layers:
                x = layer(x, edges, e)
            index = graph.unsqueeze(1).expand(-1, x.size(1))
            pooled = torch.zeros(16, x.size(1)).scatter_add(0, index, x)
            return self.head(pooled).squeeze(1)

    def loss(model: Any, x: Any, edges: Any, e: Any, graph: Any, y: Any) -> Any:
        return F.smooth_l1_loss(model(x, edges, e, graph), y)

    graph = np.sort(whole(16, 400, seed=5))
    inputs = [normal(400, 16), whole(400, 2, 1600), normal(1600, 4), graph, normal(16)]
    return Case(MPNN(), inputs, loss, lambda m, *x: m(*x[:4]), adam)


def graph_attention(torch: Any) -> Case:
    """Attention over the edges that arrive, by a softmax of segments."""
    nn, F = torch.nn, torch.nn.functional

    class GAT(nn.Module):
        def __init__(self, a: int, b: int, heads: int) -> None:
            super().__init__()
            self.heads, self.w = heads, nn.Linear(a, heads * b, bias=False)
            self.src = nn.Parameter(0.1 * torch.randn(heads, b))
            self.dst = nn.Parameter(0.1 * torch.randn(heads, b))

        def forward(self, x: Any, edges: Any) -> Any:
            n = x.size(0)
            h = self.w(x).view(n, self.heads, -1)
            s, t = (h * self.src).sum(-1), (h * self.dst).sum(-1)
            e = F.leaky_relu(s[edges[0]] + t[edges[1]], 0.2)
            index = edges[1].unsqueeze(1).expand_as(e)
            most = torch.full((n, self.heads), -1e9).scatter_reduce(0, index, e.detach(), "amax")
            e = torch.exp(e - most[edges[1]])
            total = torch.zeros(n, self.heads).index_add(0, edges[1], e)
            a = e / (total[edges[1]] + 1e-16)
            out = torch.zeros_like(h).index_add(0, edges[1], a.unsqueeze(-1) * h[edges[0]])
            return out.flatten(1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = GAT(64, 8, 8), GAT(64, 7, 1)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.b(F.elu(self.a(x, edges)), edges)

    def loss(model: Any, x: Any, edges: Any, y: Any) -> Any:
        return F.cross_entropy(model(x, edges)[:140], y)

    inputs = [normal(1000, 64), whole(1000, 2, 5000), whole(7, 140)]
    return Case(Net(), inputs, loss, lambda m, x, e, y: m(x, e), adam)


def point_net(torch: Any) -> Case:
    """Points through shared layers, the most of each feature over the points."""
    nn, F = torch.nn, torch.nn.functional

    class PointNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv1d(3, 64, 1), nn.Conv1d(64, 128, 1)
            self.c = nn.Conv1d(128, 256, 1)
            self.na, self.nb, self.nc = (nn.BatchNorm1d(k) for k in (64, 128, 256))
            self.head = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

        def forward(self, x: Any) -> Any:
            y = F.relu(self.na(self.a(x.transpose(2, 1))))
            y = self.nc(self.c(F.relu(self.nb(self.b(y)))))
            return F.log_softmax(self.head(torch.max(y, 2)[0]), dim=1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.nll_loss(model(x), y)

    inputs = [normal(8, 256, 3), whole(10, 8)]
    return Case(PointNet(), inputs, loss, lambda m, x, y: m(x), adam)


TABLES = (dlrm, factorisation, deep_fm, graph_network, graph_attention, point_net)
