"""Networks over time: sound, signals and scans."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .case import Case, adam, normal, sgd, whole


def wavenet(torch: Any) -> Case:
    """Causal dilated convolutions with gates and skipped connections."""
    nn, F = torch.nn, torch.nn.functional

    class WaveNet(nn.Module):
        def __init__(self, channels: int = 32, layers: int = 8) -> None:
            super().__init__()
            self.embed = nn.Embedding(256, channels)
            self.dilations = [2**i for i in range(layers)]
            self.gates = nn.ModuleList(
                [nn.Conv1d(channels, 2 * channels, 2, dilation=d) for d in self.dilations]
            )
            self.residual = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in range(layers)])
            self.skip = nn.ModuleList([nn.Conv1d(channels, 64, 1) for _ in range(layers)])
            self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(64, 64, 1), nn.ReLU())
            self.last = nn.Conv1d(64, 256, 1)

        def forward(self, x: Any) -> Any:
            y = self.embed(x).transpose(1, 2)
            skipped = 0
            for d, gate, residual, skip in zip(
                self.dilations, self.gates, self.residual, self.skip, strict=True
            ):
                a, b = gate(F.pad(y, (d, 0))).chunk(2, dim=1)
                z = torch.tanh(a) * torch.sigmoid(b)
                skipped = skipped + skip(z)
                y = y + residual(z)
            return self.last(self.out(skipped))

    def loss(model: Any, x: Any) -> Any:
        return F.cross_entropy(model(x[:, :-1]), x[:, 1:])

    return Case(WaveNet(), [whole(256, 4, 513)], loss, lambda m, x: m(x).argmax(1), adam)


def tcn(torch: Any) -> Case:
    """A temporal convolutional network with weight norm, as its authors wrote it."""
    nn, F = torch.nn, torch.nn.functional
    weight_norm = nn.utils.parametrizations.weight_norm

    class Block(nn.Module):
        def __init__(self, a: int, b: int, d: int) -> None:
            super().__init__()
            pad = 2 * d
            self.pad = pad
            self.first = weight_norm(nn.Conv1d(a, b, 3, padding=pad, dilation=d))
            self.second = weight_norm(nn.Conv1d(b, b, 3, padding=pad, dilation=d))
            self.down = nn.Conv1d(a, b, 1) if a != b else None

        def forward(self, x: Any) -> Any:
            y = F.relu(self.first(x)[:, :, : -self.pad].contiguous())
            y = F.relu(self.second(y)[:, :, : -self.pad].contiguous())
            return F.relu(y + (x if self.down is None else self.down(x)))

    class TCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (1, 25, 25, 25, 25, 25, 25)
            pairs = enumerate(itertools.pairwise(sizes))
            self.body = nn.Sequential(*(Block(a, b, 2**i) for i, (a, b) in pairs))
            self.head = nn.Linear(25, 10)

        def forward(self, x: Any) -> Any:
            return F.log_softmax(self.head(self.body(x)[:, :, -1]), dim=1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.nll_loss(model(x), y)

    inputs = [normal(16, 1, 784), whole(10, 16)]
    return Case(TCN(), inputs, loss, lambda m, x, y: m(x), adam)


def speech(torch: Any) -> Case:
    """Spectrograms through convolutions and a two-way GRU to letters, by CTC."""
    nn, F = torch.nn, torch.nn.functional

    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv2d(1, 32, (11, 5), stride=(2, 2), padding=(5, 2)),
                nn.BatchNorm2d(32),
                nn.Hardtanh(0, 20),
            )
            self.rnn = nn.GRU(32 * 20, 128, bidirectional=True, batch_first=True)
            self.norm = nn.LayerNorm(256)
            self.head = nn.Linear(256, 29)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            n, c, f, t = y.shape
            y = y.permute(0, 3, 1, 2).reshape(n, t, c * f)
            y, _ = self.rnn(y)
            return F.log_softmax(self.head(self.norm(y)), dim=-1)

    def loss(model: Any, x: Any, y: Any, lengths: Any, sizes: Any) -> Any:
        return F.ctc_loss(model(x).transpose(0, 1), y, lengths, sizes, zero_infinity=True)

    inputs = [
        normal(4, 1, 40, 160),
        whole(28, 4, 20) + 1,
        np.array([80, 80, 70, 60]),
        np.array([20, 18, 15, 12]),
    ]
    return Case(Speech(), inputs, loss, lambda m, x, *rest: m(x).argmax(-1), adam)


def conv_lstm(torch: Any) -> Case:
    """An LSTM whose states are images, over frames."""
    nn, F = torch.nn, torch.nn.functional

    class Cell(nn.Module):
        def __init__(self, a: int, h: int) -> None:
            super().__init__()
            self.h = h
            self.gates = nn.Conv2d(a + h, 4 * h, 3, padding=1)

        def forward(self, x: Any, state: Any) -> Any:
            h, c = state
            i, f, o, g = torch.split(self.gates(torch.cat([x, h], dim=1)), self.h, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            return h, c

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = Cell(1, 24)
            self.out = nn.Conv2d(24, 1, 1)

        def forward(self, x: Any) -> Any:
            b, t, _, height, width = x.shape
            state = (
                torch.zeros(b, 24, height, width, device=x.device),
                torch.zeros(b, 24, height, width, device=x.device),
            )
            frames = []
            for step in range(t):
                state = self.cell(x[:, step], state)
                frames.append(self.out(state[0]))
            return torch.stack(frames, dim=1)

    def loss(model: Any, x: Any) -> Any:
        return F.mse_loss(model(x[:, :-1]), x[:, 1:])

    return Case(Forecast(), [normal(2, 7, 1, 32, 32)], loss, lambda m, x: m(x), adam)


def mamba(torch: Any) -> Case:
    """A selective state space, its scan written as a loop."""
    nn, F = torch.nn, torch.nn.functional

    class Mamba(nn.Module):
        def __init__(self, d: int = 64, n: int = 16) -> None:
            super().__init__()
            inner = 2 * d
            self.n, self.rank = n, 4
            self.norm = nn.RMSNorm(d)
            self.in_proj = nn.Linear(d, 2 * inner, bias=False)
            self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
            self.x_proj = nn.Linear(inner, self.rank + 2 * n, bias=False)
            self.dt_proj = nn.Linear(self.rank, inner)
            self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(inner, 1)))
            self.D = nn.Parameter(torch.ones(inner))
            self.out_proj = nn.Linear(inner, d, bias=False)

        def forward(self, u: Any) -> Any:
            length = u.shape[1]
            x, z = self.in_proj(self.norm(u)).chunk(2, dim=-1)
            x = F.silu(self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2))
            dt, B, C = torch.split(self.x_proj(x), [self.rank, self.n, self.n], dim=-1)
            dt = F.softplus(self.dt_proj(dt))
            decay = torch.exp(torch.einsum("bld,dn->bldn", dt, -torch.exp(self.A_log)))
            fed = torch.einsum("bld,bln,bld->bldn", dt, B, x)
            state = torch.zeros_like(decay[:, 0])
            out = []
            for i in range(length):
                state = decay[:, i] * state + fed[:, i]
                out.append(torch.einsum("bdn,bn->bd", state, C[:, i]))
            y = torch.stack(out, dim=1) + x * self.D
            return u + self.out_proj(y * F.silu(z))

    class LM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(128, 64)
            self.blocks = nn.ModuleList([Mamba() for _ in range(2)])
            self.head = nn.Linear(64, 128)

        def forward(self, x: Any) -> Any:
            y = self.embed(x)
            for block in self.blocks:
                y = block(y)
            return self.head(y)

    return _words(torch, LM(), 128, (4, 33))


def _words(torch: Any, model: Any, words: int, shape: tuple[int, int]) -> Case:
    F = torch.nn.functional

    def loss(model: Any, x: Any) -> Any:
        return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    return Case(model, [whole(words, *shape)], loss, lambda m, x: m(x), adam)


def rwkv(torch: Any) -> Case:
    """RWKV's time mixing with numerators and denominators, and its channel mixing."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.decay, self.first = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
            self.mix = nn.Parameter(torch.full((5, d), 0.5))
            self.key, self.value = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
            self.receptance, self.output = nn.Linear(d, d, False), nn.Linear(d, d, False)
            self.up, self.down = nn.Linear(d, 4 * d, False), nn.Linear(4 * d, d, False)
            self.gate = nn.Linear(d, d, False)
            self.shift = nn.ZeroPad2d((0, 0, 1, -1))

        def wkv(self, k: Any, v: Any) -> Any:
            w, u = -torch.exp(self.decay), self.first
            a = torch.zeros_like(k[:, 0])
            b = torch.zeros_like(a)
            p = torch.full_like(a, -1e30)
            out = []
            for t in range(k.shape[1]):
                kt, vt = k[:, t], v[:, t]
                q = torch.maximum(p, u + kt)
                e1, e2 = torch.exp(p - q), torch.exp(u + kt - q)
                out.append((e1 * a + e2 * vt) / (e1 * b + e2))
                q = torch.maximum(p + w, kt)
                e1, e2 = torch.exp(p + w - q), torch.exp(kt - q)
                a, b, p = e1 * a + e2 * vt, e1 * b + e2, q
            return torch.stack(out, dim=1)

        def forward(self, x: Any) -> Any:
            y = self.ln1(x)
            s = self.shift(y)
            k, v, r = (y * m + s * (1 - m) for m in self.mix[:3])
            x = x + self.output(
                torch.sigmoid(self.receptance(r)) * self.wkv(self.key(k), self.value(v))
            )
            y = self.ln2(x)
            s = self.shift(y)
            k, r = (y * m + s * (1 - m) for m in self.mix[3:])
            return x + torch.sigmoid(self.gate(r)) * self.down(torch.relu(self.up(k)) ** 2)

    model = nn.Sequential(nn.Embedding(128, 96), Block(96), Block(96), nn.Linear(96, 128))
    return _words(torch, model, 128, (4, 33))


def linear_attention(torch: Any) -> Case:
    """Causal attention by kernel features and running sums."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, d: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm, self.qkv = nn.LayerNorm(d), nn.Linear(d, 3 * d)
            self.out = nn.Linear(d, d)
            self.mlp = nn.Sequential(
                nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)
            )

        def forward(self, x: Any) -> Any:
            b, t, d = x.shape
            q, k, v = (
                y.view(b, t, self.heads, -1).transpose(1, 2)
                for y in self.qkv(self.norm(x)).chunk(3, -1)
            )
            q, k = F.elu(q) + 1, F.elu(k) + 1
            kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(dim=2)
            z = 1 / (torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2)) + 1e-6)
            y = torch.einsum("bhtd,bhtde,bht->bhte", q, kv, z)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
            return x + self.mlp(x)

    model = nn.Sequential(nn.Embedding(128, 64), Block(64, 4), Block(64, 4), nn.Linear(64, 128))
    return _words(torch, model, 128, (4, 129))


def crf_tagger(torch: Any) -> Case:
    """A two-way LSTM whose labels a conditional random field scores."""
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self, words: int = 500, tags: int = 9) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, 64, padding_idx=0)
            self.lstm = nn.LSTM(64, 64, bidirectional=True, batch_first=True)
            self.head = nn.Linear(128, tags)
            self.moves = nn.Parameter(0.1 * torch.randn(tags, tags))

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embed(x))[0])

    def loss(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        mask = (x != 0).float()
        alpha = scores[:, 0]
        gold = scores[:, 0].gather(1, y[:, :1]).squeeze(1)
        for t in range(1, x.shape[1]):
            m = mask[:, t]
            new = torch.logsumexp(alpha.unsqueeze(2) + model.moves, dim=1) + scores[:, t]
            alpha = torch.where(m.unsqueeze(1) > 0, new, alpha)
            step = scores[:, t].gather(1, y[:, t : t + 1]).squeeze(1)
            gold = gold + m * (step + model.moves[y[:, t - 1], y[:, t]])
        return (torch.logsumexp(alpha, dim=1) - gold).mean()

    def viterbi(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        best = scores[:, 0]
        for t in range(1, x.shape[1]):
            best = (best.unsqueeze(2) + model.moves).max(dim=1)[0] + scores[:, t]
        return best

    x = whole(499, 16, 24) + 1
    x[::2, 18:] = 0
    return Case(Tagger(), [x, whole(9, 16, 24, seed=3)], loss, viterbi, adam)


def keyword(torch: Any) -> Case:
    """Spectrograms of sound made in the network, then depthwise 1-d convolutions."""
    nn, F = torch.nn, torch.nn.functional

    class Keyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("window", torch.hann_window(256))
            layers: list[Any] = [nn.Conv1d(129, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU()]
            for _ in range(4):
                layers += [
                    nn.Conv1d(64, 64, 9, padding=4, groups=64),
                    nn.Conv1d(64, 64, 1),
                    nn.BatchNorm1d(64),
                    nn.ReLU(),
                ]
            self.body = nn.Sequential(*layers)
            self.head = nn.Linear(64, 12)

        def forward(self, x: Any) -> Any:
            s = torch.stft(x, 256, 128, window=self.window, return_complex=True)
            return self.head(self.body(torch.log(s.abs() ** 2 + 1e-6)).mean(-1))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    inputs = [normal(8, 8000), whole(12, 8)]
    return Case(Keyword(), inputs, loss, lambda m, x, y: m(x), sgd)


SEQUENCES = (
    wavenet,
    tcn,
    speech,
    conv_lstm,
    mamba,
    rwkv,
    linear_attention,
    crf_tagger,
    keyword,
)
