"""More networks of sounds, series, molecules, baskets and sets."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .case import Case, adam, drawn, normal, rms_norm, sgd, whole


def raw_audio(torch: Any) -> Case:
    """A wave read by 400 taps each 80 samples, then strided convolutions with group norms."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Conv1d(1, 64, 400, 80, bias=False), nn.GroupNorm(64, 64), nn.GELU(),
        nn.Conv1d(64, 96, 8, 4), nn.GELU(), nn.Conv1d(96, 96, 4, 2), nn.GELU(),
        nn.Conv1d(96, 128, 3, 2, 1), nn.GELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        nn.Linear(128, 12),
    )  # fmt: skip

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    return Case(model, [normal(4, 1, 16000), whole(12, 4)], loss, lambda m, x, y: m(x), adam)


def conformer(torch: Any) -> Case:
    """Half feed-forwards around attention and a gated depthwise convolution over time."""
    nn, F = torch.nn, torch.nn.functional

    def forwards(d: int) -> Any:
        return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.before, self.after = forwards(d), forwards(d)
            self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])
            self.attention = nn.MultiheadAttention(d, 4, batch_first=True)
            self.gate, self.out = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
            self.depth = nn.Conv1d(d, d, 15, padding=7, groups=d)
            self.batch = nn.BatchNorm1d(d)

        def forward(self, x: Any) -> Any:
            x = x + 0.5 * self.before(x)
            y = self.norms[0](x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            y = F.glu(self.gate(self.norms[1](x).transpose(1, 2)), dim=1)
            x = x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
            return self.norms[2](x + 0.5 * self.after(x))

    d = 96
    model = nn.Sequential(nn.Linear(40, d), Block(d), Block(d), nn.Linear(d, 30))

    def loss(model: Any, x: Any, y: Any) -> Any:
        p = F.log_softmax(model(x), -1).transpose(0, 1)
        lengths = torch.full((x.shape[0],), 100, dtype=torch.long)
        return F.ctc_loss(p, y, lengths, torch.full((x.shape[0],), 12, dtype=torch.long))

    return Case(model, [normal(4, 100, 40), 1 + whole(29, 4, 12)], loss, lambda m, x, y: m(x), adam)


def relative_positions(torch: Any) -> Case:
    """T5's encoder: a learned bias for each bucket of distances, RMS norms, gated GELU."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, d: int, heads: int) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
            self.w0, self.w1 = (nn.Linear(d, 2 * d, bias=False) for _ in range(2))
            self.out = nn.Linear(2 * d, d, bias=False)
            self.a, self.b, self.heads = rms_norm(torch, d), rms_norm(torch, d), heads

        def forward(self, x: Any, bias: Any) -> Any:
            n, t, d = x.shape
            y = self.a(x)
            q, k, v = (
                f(y).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
            )
            weights = torch.softmax(q @ k.transpose(2, 3) + bias, dim=-1)
            x = x + self.o((weights @ v).transpose(1, 2).reshape(n, t, d))
            y = self.b(x)
            return x + self.out(F.gelu(self.w0(y)) * self.w1(y))

    class Encoder(nn.Module):
        def __init__(self, d: int = 96, heads: int = 6) -> None:
            super().__init__()
            self.embed, self.bias = nn.Embedding(500, d), nn.Embedding(32, heads)
            self.layers = nn.ModuleList([Layer(d, heads) for _ in range(3)])

        def forward(self, x: Any) -> Any:
            t = torch.arange(x.shape[1])
            apart = t[None] - t[:, None]
            far = 8 + (torch.log(apart.abs().float().clamp(min=1) / 8) * 3.46).long().clamp(max=7)
            bucket = torch.where(apart.abs() < 8, apart.abs(), far) + 16 * (apart > 0).long()
            bias = self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
            y = self.embed(x)
            for layer in self.layers:
                y = layer(y, bias)
            return y @ self.embed.weight.t() * 0.05

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return Case(Encoder(), [whole(500, 4, 80), whole(500, 4, 80, seed=2)], loss,
                lambda m, x, y: m(x), adam)  # fmt: skip


def read_text(torch: Any) -> Case:
    """CRNN: columns of a convolution's features, two directions of LSTM, CTC."""
    nn, F = torch.nn, torch.nn.functional

    class CRNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, 1, 1),
                nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(64, 64, (8, 1)),
            )  # fmt: skip
            self.rnn = nn.LSTM(64, 64, 2, bidirectional=True)
            self.out = nn.Linear(128, 37)

        def forward(self, x: Any) -> Any:
            y = self.body(x).squeeze(2).permute(2, 0, 1)
            return F.log_softmax(self.out(self.rnn(y)[0]), -1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        p = model(x)
        n = x.shape[0]
        lengths = torch.full((n,), p.shape[0], dtype=torch.long)
        return F.ctc_loss(p, y, lengths, torch.full((n,), 6, dtype=torch.long), zero_infinity=True)

    return Case(CRNN(), [normal(8, 1, 32, 96), 1 + whole(36, 8, 6)], loss,
                lambda m, x, y: m(x), adam)  # fmt: skip


def packed_sentences(torch: Any) -> Case:
    """Sentences of many lengths, packed for a GRU of two layers; the last states answer."""
    nn, F = torch.nn, torch.nn.functional
    lengths = sorted((int(n) for n in 4 + whole(36, 16)), reverse=True)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(400, 48, padding_idx=0)
            self.rnn = nn.GRU(48, 64, 2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(128, 5)

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            _, h = self.rnn(packed)
            return self.out(torch.cat([h[-2], h[-1]], 1))

    x = 1 + whole(399, 16, max(lengths))
    for row, length in zip(x, lengths, strict=True):
        row[length:] = 0

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    return Case(Reader(), [x, whole(5, 16)], loss, lambda m, x, y: m(x), adam)


def forecast(torch: Any) -> Case:
    """N-BEATS: stacks that explain a series and hand on what is left."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, length: int, ahead: int, width: int = 128) -> None:
            super().__init__()
            sizes = [length, width, width, width]
            layers: list[Any] = []
            for a, b in itertools.pairwise(sizes):
                layers += [nn.Linear(a, b), nn.ReLU()]
            self.body = nn.Sequential(*layers)
            self.back, self.fore = nn.Linear(width, length), nn.Linear(width, ahead)

        def forward(self, x: Any) -> Any:
            h = self.body(x)
            return x - self.back(h), self.fore(h)

    class NBeats(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(60, 12) for _ in range(6)])

        def forward(self, x: Any) -> Any:
            total = 0
            for block in self.blocks:
                x, more = block(x)
                total = total + more
            return total

    def loss(model: Any, x: Any, y: Any) -> Any:
        p = model(x)
        return 200 * (torch.abs(p - y) / (p.abs() + y.abs() + 1e-3)).mean() + F.huber_loss(p, y)

    return Case(NBeats(), [normal(128, 60), normal(128, 12, seed=2)], loss,
                lambda m, x, y: m(x), adam)  # fmt: skip


def next_purchase(torch: Any) -> Case:
    """SASRec: causal attention over baskets, a right and a wrong item each, of 4,000."""
    nn, F = torch.nn, torch.nn.functional

    class SASRec(nn.Module):
        def __init__(self, d: int = 64, t: int = 50) -> None:
            super().__init__()
            self.item, self.place = nn.Embedding(4001, d, padding_idx=0), nn.Embedding(t, d)
            self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(4)])
            self.attend = nn.ModuleList([nn.MultiheadAttention(d, 2) for _ in range(2)])
            self.forwards = nn.ModuleList([
                nn.Sequential(nn.Conv1d(d, d, 1), nn.ReLU(), nn.Conv1d(d, d, 1)) for _ in range(2)
            ])  # fmt: skip

        def forward(self, x: Any) -> Any:
            t = x.shape[1]
            y = self.item(x) * 8 + self.place(torch.arange(t))
            y = y * (x != 0).unsqueeze(-1)
            mask = ~torch.tril(torch.ones((t, t), dtype=torch.bool))
            for i in range(2):
                y = y.transpose(0, 1)
                q = self.norms[2 * i](y)
                y = (q + self.attend[i](q, y, y, attn_mask=mask)[0]).transpose(0, 1)
                y = self.norms[2 * i + 1](y)
                y = y + self.forwards[i](y.transpose(1, 2)).transpose(1, 2)
                y = y * (x != 0).unsqueeze(-1)
            return y

    def loss(model: Any, x: Any, right: Any, wrong: Any) -> Any:
        y = model(x)
        good, bad = ((y * model.item(t)).sum(-1) for t in (right, wrong))
        there = (right != 0).float()
        each = F.softplus(-good) + F.softplus(bad)
        return (each * there).sum() / there.sum()

    x, right, wrong = (whole(4001, 16, 50, seed=s) for s in (1, 2, 3))
    x[::3, :20] = right[::3, :20] = 0
    return Case(SASRec(), [x, right, wrong], loss, lambda m, x, r, w: m(x), adam)


def molecules(torch: Any) -> Case:
    """SchNet: filters of distances, messages added up where bonds end."""
    nn, F = torch.nn, torch.nn.functional
    atoms, bonds, graphs = 200, 1600, 10

    class Interaction(nn.Module):
        def __init__(self, d: int, rbf: int) -> None:
            super().__init__()
            self.filters = nn.Sequential(nn.Linear(rbf, d), nn.Softplus(), nn.Linear(d, d))
            self.before, self.after, self.out = (nn.Linear(d, d) for _ in range(3))

        def forward(self, x: Any, source: Any, target: Any, rbf: Any, cut: Any) -> Any:
            message = self.before(x)[source] * self.filters(rbf) * cut
            y = torch.zeros_like(x).index_add(0, target, message)
            return x + self.out(F.softplus(self.after(y)))

    class SchNet(nn.Module):
        def __init__(self, d: int = 64, rbf: int = 32) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, d)
            self.blocks = nn.ModuleList([Interaction(d, rbf) for _ in range(3)])
            self.out = nn.Sequential(nn.Linear(d, 32), nn.Softplus(), nn.Linear(32, 1))
            self.register_buffer("centres", torch.linspace(0, 5, rbf))

        def forward(self, z: Any, at: Any, source: Any, target: Any, graph: Any) -> Any:
            apart = (at[source] - at[target]).norm(dim=-1, keepdim=True)
            rbf = torch.exp(-10 * (apart - self.centres) ** 2)
            cut = 0.5 * (torch.cos(apart.clamp(max=5) * 0.628) + 1)
            x = self.embed(z)
            for block in self.blocks:
                x = block(x, source, target, rbf, cut)
            each = self.out(x).squeeze(-1)
            return torch.zeros(graphs).index_add(0, graph, each)

    def loss(model: Any, *inputs: Any) -> Any:
        return F.l1_loss(model(*inputs[:-1]), inputs[-1])

    graph = np.sort(whole(graphs, atoms))
    source = whole(atoms, bonds, seed=2)
    target = (source + 1 + whole(atoms - 1, bonds, seed=3)) % atoms
    inputs = [whole(20, atoms), 2 * normal(atoms, 3), source, target, graph, normal(graphs, seed=4)]
    return Case(SchNet(), inputs, loss, lambda m, *a: m(*a[:-1]), adam)


def few_examples(torch: Any) -> Case:
    """Prototypes: the class whose mean lies nearest."""
    nn, F = torch.nn, torch.nn.functional

    def block(a: int, b: int) -> list[Any]:
        return [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]

    model = nn.Sequential(*block(1, 32), *block(32, 32), *block(32, 32), nn.Flatten())

    def far(model: Any, support: Any, query: Any) -> Any:
        ways, shots = support.shape[:2]
        means = model(support.flatten(0, 1)).view(ways, shots, -1).mean(1)
        return torch.cdist(model(query), means) ** 2

    def loss(model: Any, support: Any, query: Any, y: Any) -> Any:
        return F.cross_entropy(-far(model, support, query) / 10, y)

    inputs = [normal(8, 5, 1, 28, 28), normal(40, 1, 28, 28, seed=2), whole(8, 40)]
    return Case(model, inputs, loss, lambda m, s, q, y: far(m, s, q), adam)


def sets(torch: Any) -> Case:
    """Set transformers: induced points attend, then are attended to; sorted features beside."""
    nn, F = torch.nn, torch.nn.functional

    class MAB(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(d, 4, batch_first=True)
            self.a, self.b, self.out = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, d)

        def forward(self, q: Any, k: Any) -> Any:
            y = self.a(q + self.attend(q, k, k, need_weights=False)[0])
            return self.b(y + F.relu(self.out(y)))

    class Sets(nn.Module):
        def __init__(self, d: int = 64) -> None:
            super().__init__()
            self.first = nn.Linear(3, d)
            self.points, self.seed = (nn.Parameter(torch.randn(1, n, d)) for n in (16, 1))
            self.up, self.down, self.pool = MAB(d), MAB(d), MAB(d)
            self.out = nn.Linear(d + 8, 10)

        def forward(self, x: Any) -> Any:
            y, n = self.first(x), x.shape[0]
            y = self.down(y, self.up(self.points.expand(n, -1, -1), y))
            pooled = self.pool(self.seed.expand(n, -1, -1), y).squeeze(1)
            least = (y * x[:, :, :1]).norm(dim=-1).sort(dim=1).values[:, :4]
            most = y.amax(-1).topk(4, dim=1).values
            return self.out(torch.cat([pooled, least, most], 1))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y, label_smoothing=0.1)

    return Case(Sets(), [normal(8, 128, 3), whole(10, 8)], loss, lambda m, x, y: m(x), adam)


def discrete_latents(torch: Any) -> Case:
    """A categorical VAE: soft samples by Gumbel's noise, given as an input."""
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(784, 256), nn.ELU(), nn.Linear(256, 200))
            self.decode = nn.Sequential(nn.Linear(200, 256), nn.ELU(), nn.Linear(256, 784))

        def forward(self, x: Any, noise: Any) -> Any:
            logits = self.encode(x).view(-1, 20, 10)
            z = F.softmax((logits - torch.log(-torch.log(noise))) / 0.7, dim=-1)
            return self.decode(z.flatten(1)), logits

    def loss(model: Any, x: Any, noise: Any) -> Any:
        y, logits = model(x, noise)
        q = F.softmax(logits, -1)
        kl = (q * (torch.log(q + 1e-20) - np.log(0.1))).sum((1, 2)).mean()
        each = F.binary_cross_entropy_with_logits(y, x, reduction="none")
        return each.sum(1).mean() + kl

    noise = drawn(4).uniform(0.01, 0.99, (64, 20, 10)).astype(np.float32)
    x = drawn(5).random((64, 784), np.float32)
    return Case(VAE(), [x, noise], loss, lambda m, x, n: torch.sigmoid(m(x, n)[0]), adam)


def crossed_features(torch: Any) -> Case:
    """Columns of a table as words of a transformer, crosses of features beside."""
    nn, F = torch.nn, torch.nn.functional

    class Tables(nn.Module):
        def __init__(self, columns: int = 12, d: int = 32) -> None:
            super().__init__()
            self.embed = nn.ModuleList([nn.Embedding(50 + 10 * i, d) for i in range(columns)])
            layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            wide = columns * d + 7
            self.norm = nn.LayerNorm(7)
            self.crosses = nn.ModuleList([nn.Linear(wide, wide) for _ in range(2)])
            self.out = nn.Sequential(nn.Linear(wide, 64), nn.SELU(), nn.Linear(64, 1))

        def forward(self, which: Any, numbers: Any) -> Any:
            words = torch.stack([e(which[:, i]) for i, e in enumerate(self.embed)], 1)
            x = torch.cat([self.encoder(words).flatten(1), self.norm(numbers)], 1)
            y = x
            for cross in self.crosses:
                y = x * cross(y) + y
            return self.out(y).squeeze(1)

    def loss(model: Any, which: Any, numbers: Any, y: Any) -> Any:
        p = model(which, numbers)
        return F.binary_cross_entropy_with_logits(p, y, pos_weight=torch.tensor(3.0))

    inputs = [whole(50, 64, 12), normal(64, 7), whole(2, 64).astype(np.float32)]
    return Case(Tables(), inputs, loss, lambda m, w, n, y: m(w, n), sgd)


SIGNALS = (
    raw_audio,
    conformer,
    relative_positions,
    read_text,
    packed_sentences,
    forecast,
    next_purchase,
    molecules,
    few_examples,
    sets,
    discrete_latents,
    crossed_features,
)
