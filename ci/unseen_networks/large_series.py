"""Networks of sounds, texts, tables, points and graphs as wide as in papers.

As in :mod:`.large_pictures` ``--batch 16`` fills a card.
"""

from __future__ import annotations

import math
from typing import Any

from .case import Case, adam, asked, labels, normal, rms_norm, sgd, square, whole


def wavenet_wide(torch: Any) -> Case:
    """Gated filters of two taps, 1 to 512 apart, on 4,096 samples."""
    nn = torch.nn

    class WaveNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, 128, 1)
            self.gates = nn.ModuleList([nn.Conv1d(128, 256, 2, dilation=2**i) for i in range(10)])
            self.mix = nn.ModuleList([nn.Conv1d(128, 256, 1) for _ in range(10)])
            self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(128, 128, 1), nn.ReLU(),
                                     nn.Conv1d(128, 256, 1))  # fmt: skip

        def forward(self, x: Any) -> Any:
            x, skips = self.first(x), 0
            for number, (gate, mix) in enumerate(zip(self.gates, self.mix, strict=True)):
                y = gate(nn.functional.pad(x, (2**number, 0)))
                a, b = y.chunk(2, 1)
                rest, skip = mix(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
                x, skips = x + rest, skips + skip
            return self.out(skips)

    return Case(WaveNet(), [normal(1, 1, 4096), whole(256, 1, 4096)], labels(torch), asked, adam)


def vocoder(torch: Any) -> Case:
    """HiFi-GAN's generator: transposed filters in time, residual blocks of several reaches."""
    nn, F = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, c: int, size: int) -> None:
            super().__init__()
            self.filters = nn.ModuleList(
                [nn.Conv1d(c, c, size, padding=d * (size - 1) // 2, dilation=d) for d in (1, 3, 5)]
            )

        def forward(self, x: Any) -> Any:
            for f in self.filters:
                x = x + f(F.leaky_relu(x, 0.1))
            return x

    class Generator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(80, 256, 7, padding=3)
            self.ups = nn.ModuleList(
                [nn.ConvTranspose1d(256 >> i, 128 >> i, 2 * r, r, r // 2)
                 for i, r in enumerate((8, 8, 2))]
            )  # fmt: skip
            self.blocks = nn.ModuleList(
                [nn.ModuleList([Residual(128 >> i, s) for s in (3, 7, 11)]) for i in range(3)]
            )
            self.last = nn.Conv1d(32, 1, 7, padding=3)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for up, blocks in zip(self.ups, self.blocks, strict=True):
                x = up(F.leaky_relu(x, 0.1))
                x = sum(b(x) for b in blocks) / 3
            return torch.tanh(self.last(F.leaky_relu(x, 0.1)))

    return Case(Generator(), [normal(1, 80, 32), normal(1, 1, 4096)], square, asked, adam)


def recommender(torch: Any) -> Case:
    """DLRM's shape: twelve tables of 20,000 rows, products of all pairs, two towers."""
    nn = torch.nn

    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(20000, 64) for _ in range(12)])
            self.below = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
            self.above = nn.Sequential(nn.Linear(64 + 78, 512), nn.ReLU(), nn.Linear(512, 256),
                                       nn.ReLU(), nn.Linear(256, 1))  # fmt: skip

        def forward(self, dense: Any, codes: Any) -> Any:
            x = self.below(dense)
            rows = [x, *(t(codes[:, i]) for i, t in enumerate(self.tables))]
            all_rows = torch.stack(rows, 1)
            pairs = torch.bmm(all_rows, all_rows.transpose(1, 2))
            i, j = torch.tril_indices(13, 13, -1)
            return self.above(torch.cat([x, pairs[:, i, j]], 1))[:, 0]

    def loss(model: Any, x: Any, codes: Any, y: Any) -> Any:
        return nn.functional.binary_cross_entropy_with_logits(model(x, codes), y)

    return Case(Tables(), [normal(512, 13), whole(20000, 512, 12),
                           whole(2, 512).astype("float32")], loss, asked, sgd)  # fmt: skip


def radiance(torch: Any) -> Case:
    """NeRF's network of 8 layers of 256, with its waves and its skip, 4,096 points."""
    nn = torch.nn

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [nn.Linear(63 if i == 0 else 319 if i == 5 else 256, 256) for i in range(8)]
            )
            self.out = nn.Linear(256, 4)

        def forward(self, x: Any) -> Any:
            waves = [x]
            for i in range(10):
                waves += [torch.sin(2.0**i * x), torch.cos(2.0**i * x)]
            h = e = torch.cat(waves, -1)
            for i, layer in enumerate(self.layers):
                h = torch.relu(layer(torch.cat([e, h], -1) if i == 5 else h))
            return self.out(h)

    return Case(Field(), [0.3 * normal(4096, 3), normal(4096, 4)], square, asked, adam)


def point_cloud(torch: Any) -> Case:
    """PointNet on 1,024 points: filters of one tap, maxima over all points."""
    nn = torch.nn
    layers: list[Any] = []
    for c, d in ((3, 64), (64, 64), (64, 128), (128, 1024)):
        layers += [nn.Conv1d(c, d, 1), nn.BatchNorm1d(d), nn.ReLU()]
    model = nn.Sequential(
        *layers, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(1024, 512), nn.BatchNorm1d(512),
        nn.ReLU(), nn.Linear(512, 40),
    )  # fmt: skip
    return Case(model, [normal(4, 3, 1024), whole(40, 4)], labels(torch), asked, adam)


def _attention(torch: Any, x: Any, projected: Any, heads: int, bias: Any = None) -> Any:
    n, t, d = x.shape
    q, k, v = projected(x).view(n, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return y.transpose(1, 2).reshape(n, t, d)


def conformer_wide(torch: Any) -> Case:
    """Conformer's blocks of 256: half steps, attention, depthwise filters of 31 taps, GLU."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(5)])
            self.feed = nn.ModuleList(
                [nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
                 for _ in range(2)]
            )  # fmt: skip
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.conv = nn.Sequential(
                nn.Conv1d(d, 2 * d, 1), nn.GLU(1), nn.Conv1d(d, d, 31, padding=15, groups=d),
                nn.BatchNorm1d(d), nn.SiLU(), nn.Conv1d(d, d, 1),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            x = x + 0.5 * self.feed[0](self.norms[0](x))
            x = x + self.out(_attention(torch, self.norms[1](x), self.qkv, 4))
            x = x + self.conv(self.norms[2](x).transpose(1, 2)).transpose(1, 2)
            return self.norms[4](x + 0.5 * self.feed[1](self.norms[3](x)))

    model = nn.Sequential(*(Block(256) for _ in range(4)), nn.Linear(256, 80))
    return Case(model, [normal(2, 256, 256), normal(2, 256, 80)], square, asked, adam)


def relative_text(torch: Any) -> Case:
    """T5's encoder: biases of buckets added to scores, RMS norms, gated GELU, 512 words."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.one, self.two = rms_norm(torch, d), rms_norm(torch, d)
            self.qkv = nn.Linear(d, 3 * d, bias=False)
            self.out = nn.Linear(d, d, bias=False)
            self.gate, self.value = (nn.Linear(d, 2 * d, bias=False) for _ in range(2))
            self.down = nn.Linear(2 * d, d, bias=False)

        def forward(self, x: Any, bias: Any) -> Any:
            x = x + self.out(_attention(torch, self.one(x), self.qkv, 8, bias))
            y = self.two(x)
            return x + self.down(F.gelu(self.gate(y), approximate="tanh") * self.value(y))

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(32000, 512)
            self.buckets = nn.Embedding(32, 8)
            self.blocks = nn.ModuleList([Block(512) for _ in range(4)])
            self.norm = rms_norm(torch, 512)

        def forward(self, words: Any) -> Any:
            at = torch.arange(words.shape[1])
            apart = (at[None, :] - at[:, None]).clamp(-15, 16) + 15
            bias = self.buckets(apart).permute(2, 0, 1)[None]
            x = self.words(words)
            for block in self.blocks:
                x = block(x, bias)
            return self.norm(x) @ self.words.weight.T

    def loss(model: Any, words: Any, wanted: Any) -> Any:
        return F.cross_entropy(model(words).flatten(0, 1) / math.sqrt(512), wanted.flatten())

    return Case(Encoder(), [whole(32000, 1, 512), whole(32000, 1, 512, seed=2)], loss,
                lambda m, x, y: m(x)[:, -1], adam)  # fmt: skip


def word_model(torch: Any) -> Case:
    """Two LSTMs of 640 below 33,000 words, tied to the embedding."""
    nn = torch.nn

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(33000, 640)
            self.lstm = nn.LSTM(640, 640, 2, batch_first=True)
            self.out = nn.Linear(640, 33000)
            self.out.weight = self.words.weight

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(self.words(x))[0]).flatten(0, 1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(model(x), y.flatten())

    return Case(Words(), [whole(33000, 2, 35), whole(33000, 2, 35, seed=2)], loss,
                lambda m, x, y: m(x)[::35], sgd)  # fmt: skip


def listener(torch: Any) -> Case:
    """Deep Speech 2: strided filters on spectra, three GRUs of 512 both ways."""
    nn = torch.nn

    class Listener(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv2d(1, 32, (11, 11), (2, 2), (5, 5), bias=False), nn.BatchNorm2d(32),
                nn.Hardtanh(0, 20), nn.Conv2d(32, 32, (11, 11), (1, 2), (5, 5), bias=False),
                nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
            )  # fmt: skip
            self.gru = nn.GRU(640, 512, 3, batch_first=True, bidirectional=True)
            self.out = nn.Linear(1024, 29)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            y = y.permute(0, 2, 1, 3).flatten(2)
            return self.out(self.gru(y)[0]).transpose(1, 2)

    return Case(Listener(), [normal(2, 1, 200, 80), whole(29, 2, 100)], labels(torch), asked, sgd)


def spectral_operator(torch: Any) -> Case:
    """A Fourier neural operator of 32 channels and 12 modes on grids of 64x64."""
    nn = torch.nn

    class Spectral(nn.Module):
        def __init__(self, c: int, modes: int) -> None:
            super().__init__()
            self.modes = modes
            self.weight = nn.Parameter(torch.randn(2, c, c, modes, modes, 2) / c)
            self.skip = nn.Conv2d(c, c, 1)

        def forward(self, x: Any) -> Any:
            m, w = self.modes, torch.view_as_complex(self.weight)
            y = torch.fft.rfft2(x)
            low = torch.einsum("bixy,ioxy->boxy", y[:, :, :m, :m], w[0])
            high = torch.einsum("bixy,ioxy->boxy", y[:, :, -m:, :m], w[1])
            full = torch.zeros_like(y)
            full[:, :, :m, :m], full[:, :, -m:, :m] = low, high
            z = torch.fft.irfft2(full, s=x.shape[-2:])
            return torch.nn.functional.gelu(z + self.skip(x))

    model = nn.Sequential(nn.Conv2d(3, 32, 1), *(Spectral(32, 12) for _ in range(4)),
                          nn.Conv2d(32, 128, 1), nn.GELU(), nn.Conv2d(128, 1, 1))  # fmt: skip
    return Case(model, [normal(2, 3, 64, 64), normal(2, 1, 64, 64)], square, asked, adam)


def graph_wide(torch: Any) -> Case:
    """Two graph layers of 128 over 8,000 nodes and 64,000 edges, added up by index."""
    nn = torch.nn

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.out = (
                nn.Linear(128, 128),
                nn.Linear(128, 128),
                nn.Linear(128, 40),
            )

        def forward(self, x: Any, edges: Any) -> Any:
            for layer in (self.one, self.two):
                y = layer(x)
                x = torch.relu(
                    y + torch.zeros_like(y).index_add(0, edges[:, 1], y[edges[:, 0]]) / 8
                )
            return self.out(x)

    return Case(Graph(), [normal(8000, 128), whole(8000, 64000, 2), whole(40, 8000)],
                labels(torch), asked, adam)  # fmt: skip


def tables_wide(torch: Any) -> Case:
    """A perceptron of 2,048 with batch norms and dropout of nothing, 512 rows."""
    nn = torch.nn
    layers: list[Any] = []
    for c, d in ((256, 2048), (2048, 2048), (2048, 1024)):
        layers += [nn.Linear(c, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Dropout(0.0)]
    model = nn.Sequential(*layers, nn.Linear(1024, 10))
    return Case(model, [normal(512, 256), whole(10, 512)], labels(torch), asked, adam)


def looking_back(torch: Any) -> Case:
    """Perceiver: 128 latents look at 2,048 places, then at each other."""
    nn = torch.nn

    class Perceiver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.latents = nn.Parameter(0.1 * torch.randn(128, 256))
            self.bring = nn.Linear(64, 256)
            self.cross = nn.MultiheadAttention(256, 4, batch_first=True)
            self.layers = nn.ModuleList(
                [nn.TransformerEncoderLayer(256, 4, 512, 0.0, "gelu", batch_first=True,
                                            norm_first=True) for _ in range(4)]
            )  # fmt: skip
            self.out = nn.Linear(256, 10)

        def forward(self, x: Any) -> Any:
            x = self.bring(x)
            y = self.latents.expand(x.shape[0], -1, -1)
            y = y + self.cross(y, x, x, need_weights=False)[0]
            for layer in self.layers:
                y = layer(y)
            return self.out(y.mean(1))

    return Case(Perceiver(), [normal(4, 2048, 64), whole(10, 4)], labels(torch), asked, adam)


LARGE_SERIES = [
    wavenet_wide,
    vocoder,
    recommender,
    radiance,
    point_cloud,
    conformer_wide,
    relative_text,
    word_model,
    listener,
    spectral_operator,
    graph_wide,
    tables_wide,
    looking_back,
]
