"""Networks of words and characters."""

from __future__ import annotations

import math
from typing import Any

from .case import Case, adam, whole


def bahdanau(torch: Any) -> Case:
    """Translation by GRU cells with additive attention, one word after another."""
    nn, F = torch.nn, torch.nn.functional

    class Seq2Seq(nn.Module):
        def __init__(self, words: int = 400, d: int = 96) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(words, d), nn.Embedding(words, d)
            self.encoder = nn.GRU(d, d, batch_first=True, bidirectional=True)
            self.bridge = nn.Linear(2 * d, d)
            self.q, self.k = nn.Linear(d, d, bias=False), nn.Linear(2 * d, d, bias=False)
            self.v = nn.Linear(d, 1, bias=False)
            self.cell = nn.GRUCell(3 * d, d)
            self.out = nn.Linear(4 * d, words)

        def forward(self, x: Any, y: Any) -> Any:
            states, last = self.encoder(self.source(x))
            h = torch.tanh(self.bridge(torch.cat((last[0], last[1]), dim=-1)))
            keys, mask = self.k(states), x == 0
            words, out = self.target(y), []
            for t in range(y.size(1)):
                e = self.v(torch.tanh(self.q(h).unsqueeze(1) + keys)).squeeze(-1)
                a = F.softmax(e.masked_fill(mask, float("-inf")), dim=-1)
                context = torch.bmm(a.unsqueeze(1), states).squeeze(1)
                h = self.cell(torch.cat((words[:, t], context), dim=-1), h)
                out.append(self.out(torch.cat((h, context, words[:, t]), dim=-1)))
            return torch.stack(out, dim=1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        scores = model(x, y[:, :-1])
        return F.cross_entropy(scores.transpose(1, 2), y[:, 1:], ignore_index=0)

    x, y = whole(399, 16, 20) + 1, whole(399, 16, 17, seed=2) + 1
    x[::2, 14:] = 0
    y[::2, 12:] = 0
    return Case(Seq2Seq(), [x, y], loss, lambda m, x, y: m(x, y), adam)


def translator_masked(torch: Any) -> Case:
    """nn.Transformer with padding and causal masks, and label smoothing."""
    nn, F = torch.nn, torch.nn.functional

    class Translator(nn.Module):
        def __init__(self, words: int = 500, d: int = 128) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, d, padding_idx=0)
            at, scale = torch.arange(64).unsqueeze(1), math.log(10000.0) / d
            turn = torch.exp(torch.arange(0, d, 2) * -scale)
            table = torch.zeros(64, d)
            table[:, 0::2] = torch.sin(at * turn)
            table[:, 1::2] = torch.cos(at * turn)
            self.register_buffer("table", table)
            self.body = nn.Transformer(d, 4, 2, 2, 256, dropout=0.0, batch_first=True)
            self.head = nn.Linear(d, words)
            self.d = d

        def put(self, x: Any) -> Any:
            return self.embed(x) * math.sqrt(self.d) + self.table[: x.size(1)]

        def forward(self, x: Any, y: Any) -> Any:
            causal = nn.Transformer.generate_square_subsequent_mask(y.size(1))
            y = self.body(
                self.put(x),
                self.put(y),
                tgt_mask=causal,
                src_key_padding_mask=x == 0,
                tgt_key_padding_mask=y == 0,
                memory_key_padding_mask=x == 0,
            )
            return self.head(y)

    def loss(model: Any, x: Any, y: Any) -> Any:
        scores = model(x, y[:, :-1])
        return F.cross_entropy(
            scores.flatten(0, 1), y[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1
        )

    x, y = whole(499, 8, 32) + 1, whole(499, 8, 29, seed=2) + 1
    x[::2, 20:] = 0
    y[::2, 18:] = 0

    def ask(model: Any, x: Any, y: Any) -> Any:
        return (y != 0).unsqueeze(-1) * model(x, y)  # rows of padding alone are whatever

    return Case(Translator(), [x, y], loss, ask, adam)


def _grouped_block(torch: Any) -> tuple[Any, Any]:
    """A norm, and a block of grouped queries with rotary places."""
    nn, F = torch.nn, torch.nn.functional

    class RMS(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d))

        def forward(self, x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    def half(x: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    class Block(nn.Module):
        def __init__(self, d: int, heads: int, groups: int) -> None:
            super().__init__()
            self.heads, self.groups, self.size = heads, groups, d // heads
            self.n1, self.n2 = RMS(d), RMS(d)
            self.q = nn.Linear(d, d, bias=False)
            self.k = nn.Linear(d, groups * self.size, bias=False)
            self.v = nn.Linear(d, groups * self.size, bias=False)
            self.o = nn.Linear(d, d, bias=False)
            self.gate, self.up = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False)
            self.down = nn.Linear(3 * d, d, bias=False)

        def forward(self, x: Any, cos: Any, sin: Any, mask: Any) -> Any:
            b, t, _ = x.shape
            y = self.n1(x)
            q = self.q(y).view(b, t, self.heads, self.size).transpose(1, 2)
            k = self.k(y).view(b, t, self.groups, self.size).transpose(1, 2)
            v = self.v(y).view(b, t, self.groups, self.size).transpose(1, 2)
            q, k = q * cos + half(q) * sin, k * cos + half(k) * sin
            k = k.repeat_interleave(self.heads // self.groups, dim=1)
            v = v.repeat_interleave(self.heads // self.groups, dim=1)
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.size) + mask
            y = F.softmax(scores, dim=-1) @ v
            x = x + self.o(y.transpose(1, 2).contiguous().view(b, t, -1))
            y = self.n2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    return RMS, Block


def llama_gqa(torch: Any) -> Case:
    """Rotary places, grouped queries, RMS norm, SwiGLU; attention written out with a mask."""
    nn, F = torch.nn, torch.nn.functional
    RMS, Block = _grouped_block(torch)

    class Llama(nn.Module):
        def __init__(self, words: int = 512, d: int = 128) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, d)
            self.blocks = nn.ModuleList([Block(d, 8, 2) for _ in range(3)])
            self.norm, self.head = RMS(d), nn.Linear(d, words, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: Any) -> Any:
            t = x.size(1)
            inv = 1.0 / 10000 ** (torch.arange(0, 16, 2, device=x.device).float() / 16)
            angle = torch.outer(torch.arange(t, device=x.device).float(), inv)
            angle = torch.cat((angle, angle), dim=-1)
            mask = torch.triu(torch.full((t, t), float("-inf"), device=x.device), diagonal=1)
            y = self.embed(x)
            for block in self.blocks:
                y = block(y, angle.cos(), angle.sin(), mask)
            return self.head(self.norm(y))

    def loss(model: Any, x: Any) -> Any:
        scores = model(x[:, :-1])
        return F.cross_entropy(scores.reshape(-1, scores.size(-1)), x[:, 1:].reshape(-1))

    return Case(Llama(), [whole(512, 4, 129)], loss, lambda m, x: m(x), adam)


def char_cnn(torch: Any) -> Case:
    """Words of one-hot characters through 1-d convolutions and pooling."""
    nn, F = torch.nn, torch.nn.functional

    class CharCNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv1d(70, 64, 7),
                nn.ReLU(),
                nn.MaxPool1d(3),
                nn.Conv1d(64, 64, 7),
                nn.ReLU(),
                nn.MaxPool1d(3),
                nn.Conv1d(64, 64, 3),
                nn.ReLU(),
                nn.MaxPool1d(3),
            )
            self.head = nn.Sequential(nn.Linear(64 * 7, 128), nn.ReLU(), nn.Linear(128, 4))

        def forward(self, x: Any) -> Any:
            y = self.body(F.one_hot(x, 70).float().transpose(1, 2))
            return self.head(y.view(y.size(0), -1))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    inputs = [whole(70, 16, 256), whole(4, 16)]
    return Case(CharCNN(), inputs, loss, lambda m, x, y: m(x), adam)


def text_cnn(torch: Any) -> Case:
    """Kim's sentence classifier: filters over whole embeddings, the most of each over time."""
    nn, F = torch.nn, torch.nn.functional

    class TextCNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(2000, 128)
            self.convs = nn.ModuleList([nn.Conv2d(1, 64, (k, 128)) for k in (3, 4, 5)])
            self.head = nn.Linear(192, 5)

        def forward(self, x: Any) -> Any:
            y = self.embed(x).unsqueeze(1)
            y = [F.relu(conv(y)).squeeze(3) for conv in self.convs]
            y = [F.max_pool1d(each, each.size(2)).squeeze(2) for each in y]
            return self.head(torch.cat(y, 1))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    inputs = [whole(2000, 16, 56), whole(5, 16)]
    return Case(TextCNN(), inputs, loss, lambda m, x, y: m(x), adam)


def experts(torch: Any) -> Case:
    """A transformer's layer of experts, of which the two best of each word answer."""
    nn, F = torch.nn, torch.nn.functional

    class MoE(nn.Module):
        def __init__(self, d: int, n: int) -> None:
            super().__init__()
            self.gate = nn.Linear(d, n, bias=False)
            self.w1 = nn.Parameter(0.1 * torch.randn(n, d, 2 * d))
            self.w2 = nn.Parameter(0.1 * torch.randn(n, 2 * d, d))

        def forward(self, x: Any) -> Any:
            p = F.softmax(self.gate(x), dim=-1)
            top, which = torch.topk(p, 2, dim=-1)
            top = top / top.sum(dim=-1, keepdim=True)
            share = torch.zeros_like(p).scatter(-1, which, top)
            hidden = F.gelu(torch.einsum("btd,edh->beth", x, self.w1))
            return torch.einsum("beth,ehd,bte->btd", hidden, self.w2, share)

    class Net(nn.Module):
        def __init__(self, d: int = 96) -> None:
            super().__init__()
            self.embed = nn.Embedding(256, d)
            self.attention = nn.MultiheadAttention(d, 4, batch_first=True)
            self.n1, self.n2, self.moe = nn.LayerNorm(d), nn.LayerNorm(d), MoE(d, 8)
            self.head = nn.Linear(d, 256)

        def forward(self, x: Any) -> Any:
            y = self.embed(x)
            z = self.n1(y)
            y = y + self.attention(z, z, z, need_weights=False)[0]
            return self.head(y + self.moe(self.n2(y)))

    def loss(model: Any, x: Any) -> Any:
        return F.cross_entropy(model(x).transpose(1, 2), x)

    return Case(Net(), [whole(256, 4, 64)], loss, lambda m, x: m(x), adam)


def word2vec(torch: Any) -> Case:
    """Skip-grams with negative samples."""
    nn, F = torch.nn, torch.nn.functional

    class SkipGram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.u, self.v = nn.Embedding(5000, 100), nn.Embedding(5000, 100)

        def forward(self, c: Any, p: Any, n: Any) -> Any:
            u = self.u(c)
            near = F.logsigmoid((u * self.v(p)).sum(1))
            far = F.logsigmoid(-torch.bmm(self.v(n), u.unsqueeze(2)).squeeze(2)).sum(1)
            return -(near + far).mean()

    inputs = [whole(5000, 256), whole(5000, 256, seed=2), whole(5000, 256, 10, seed=3)]
    return Case(SkipGram(), inputs, lambda m, *x: m(*x), lambda m, c, *_: m.u(c), adam)


def hierarchical(torch: Any) -> Case:
    """Words to sentences to a document by GRUs with attention, lengths of sentences packed."""
    nn, F = torch.nn, torch.nn.functional

    class Pool(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.w, self.u = nn.Linear(d, d), nn.Linear(d, 1, bias=False)

        def forward(self, x: Any) -> Any:
            a = F.softmax(self.u(torch.tanh(self.w(x))), dim=1)
            return (a * x).sum(dim=1)

    class HAN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(1000, 64)
            self.words = nn.GRU(64, 48, bidirectional=True, batch_first=True)
            self.sentences = nn.GRU(96, 48, bidirectional=True, batch_first=True)
            self.p1, self.p2, self.head = Pool(96), Pool(96), nn.Linear(96, 5)

        def forward(self, x: Any) -> Any:
            b, s, w = x.shape
            y, _ = self.words(self.embed(x.view(b * s, w)))
            y, _ = self.sentences(self.p1(y).view(b, s, -1))
            return self.head(self.p2(y))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y, weight=torch.tensor([1.0, 2.0, 1.0, 0.5, 1.0]))

    inputs = [whole(1000, 8, 6, 20), whole(5, 8)]
    return Case(HAN(), inputs, loss, lambda m, x, y: m(x), adam)


TEXTS = (
    bahdanau,
    translator_masked,
    llama_gqa,
    char_cnn,
    text_cnn,
    experts,
    word2vec,
    hierarchical,
)
