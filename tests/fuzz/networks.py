"""Networks drawn from layers, functions and shortcuts, trained in several ways that must agree.

``python -m tests.fuzz.networks --count 500 --seed 7`` draws many. Each is trained for three steps:
plain, with each layer checkpointed and in autocast, each op by op and compiled, and by PyTorch
from the same weights. Compiled bits are those of eager execution; PyTorch's losses and gradients
are compared beside what its own float32 differs from its float64.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clnet
from clnet.compile.passes import KEEPING_BITS

Shape = tuple[int, ...]
STEPS = 3
_WORSE = 20  # times PyTorch's own error, in float32, that ours may be
_SAME = 1e-3  # apart from rounding
_MOST_ELEMENTS = 1500


@dataclass(frozen=True)
class Part:
    """What a network does between two shapes (of one example).

    Attributes:
        name: what it is, for a report.
        shape: of what it gives.
        run: the library, its layers and the tensor to the tensor.
        layers: their names in ``nn`` and their arguments.
    """

    name: str
    shape: Shape
    run: Callable[[Any, Sequence[Any], Any], Any]
    layers: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = ()


def layer(shape: Shape, name: str, *args: Any, **settings: Any) -> Part:
    """A layer that is called with the tensor alone."""
    return Part(name, shape, lambda lib, made, x: made[0](x), ((name, args, settings),))


def along_channels(shape: Shape, name: str, *args: Any, **settings: Any) -> Part:
    """A layer of ``(n, channels, length)`` for sequences of ``(n, length, channels)``."""

    def run(lib: Any, made: Sequence[Any], x: Any) -> Any:
        return made[0](x.transpose(1, 2)).transpose(1, 2)

    return Part(name, shape, run, ((name, args, settings),))


_ACTIVATIONS = (
    *("ReLU", "Tanh", "GELU", "SiLU", "Sigmoid", "ELU", "LeakyReLU", "Softplus", "Hardswish"),
    *("Mish", "SELU", "Hardtanh", "LogSigmoid", "Softsign", "ReLU6", "CELU", "Hardsigmoid"),
)


def _written_in_place(lib: Any, x: Any) -> Any:
    y = x * 1.0
    return y.mul_(0.5).add_(x.sigmoid())


def _written_slice(lib: Any, x: Any) -> Any:
    y = x.clone()
    y[:, 0] = x[:, -1].tanh()
    return y


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda lib, x: lib.nn.functional.softmax(x, -1) * x.shape[-1],
    "normalize": lambda lib, x: lib.nn.functional.normalize(x, dim=1, eps=1e-3),
    "cumsum": lambda lib, x: x.cumsum(1) / x.shape[1],
    "flip": lambda lib, x: x.flip(1),
    "roll": lambda lib, x: x.roll(1, 1),
    "sort": lambda lib, x: x.sort(-1)[0],
    "clamp": lambda lib, x: x.clamp(-2.0, 2.0) * 1.5,
    "where": lambda lib, x: lib.where(x > 0.1, x * 2, x.tanh()),
    "logsumexp": lambda lib, x: x - x.logsumexp(-1, keepdim=True),
    "amax": lambda lib, x: x - x.amax(1, keepdim=True),
    "rms": lambda lib, x: x * (x.square().mean(-1, keepdim=True) + 1e-2).rsqrt(),
    "in place": _written_in_place,
    "slice": _written_slice,
}


def everywhere(rng: random.Random, shape: Shape) -> Iterable[Part]:
    """Parts that keep any shape."""
    name = rng.choice([*_FUNCTIONS])
    run = _FUNCTIONS[name]
    yield layer(shape, rng.choice(_ACTIVATIONS))
    yield Part(name, shape, lambda lib, made, x: run(lib, x))


def of_images(rng: random.Random, shape: Shape) -> Iterable[Part]:
    """Parts that take ``(channels, height, width)``."""
    c, h, w = shape
    out, size, stride = rng.randint(1, 6), rng.choice([1, 2, 3]), rng.choice([1, 1, 2])
    pad = rng.randint(0, size // 2)
    oh, ow = ((n + 2 * pad - size) // stride + 1 for n in (h, w))
    settings = {"stride": stride, "padding": pad}
    yield layer((out, oh, ow), "Conv2d", c, out, size, **settings, bias=rng.random() < 0.7)
    yield layer((2 * c, h, w), "Conv2d", c, 2 * c, 3, padding=1, groups=c)
    yield layer((out, 2 * h, 2 * w), "ConvTranspose2d", c, out, 2, stride=2)
    yield layer((out, h - 2, w - 2), "Conv2d", c, out, 3, dilation=2, padding=1)
    yield layer(shape, "BatchNorm2d", c, affine=rng.random() < 0.8)
    yield layer(shape, "GroupNorm", rng.choice([g for g in range(1, c + 1) if c % g == 0]), c)
    yield layer(shape, "PReLU", c)
    yield layer((c, h - 1, w - 1), rng.choice(["MaxPool2d", "AvgPool2d"]), 2, stride=1)
    yield layer((c, h // 2, w // 2), rng.choice(["MaxPool2d", "AvgPool2d"]), 2)
    yield layer((c, 3, 2), rng.choice(["AdaptiveAvgPool2d", "AdaptiveMaxPool2d"]), (3, 2))
    mode = rng.choice(["nearest", "bilinear"])
    yield layer((c, 2 * h, 2 * w), "Upsample", scale_factor=2, mode=mode)
    yield layer((c, h + 2, w + 1), rng.choice(["ReplicationPad2d", "ZeroPad2d"]), (1, 0, 1, 1))
    yield Part("transpose", (c, w, h), lambda lib, made, x: x.transpose(2, 3))
    yield Part("join", (2 * c, h, w), lambda lib, made, x: lib.cat([x, x.relu()], 1))
    yield Part("to rows", (h * w, c), lambda lib, made, x: x.flatten(2).transpose(1, 2))
    twice = ("Conv2d", (c, c, 3), {"padding": 1})
    yield Part("shared", shape, lambda lib, made, x: made[0](made[0](x).tanh()), (twice,))


def of_sequences(rng: random.Random, shape: Shape) -> Iterable[Part]:
    """Parts that take ``(length, channels)``."""
    n, d = shape
    out = rng.choice([3, 4, 6, 8])
    heads, causal = rng.choice([h for h in (1, 2, 3, 4) if d % h == 0]), rng.random() < 0.5

    def attended(lib: Any, made: Sequence[Any], x: Any) -> Any:
        q = x.unflatten(-1, (heads, d // heads)).transpose(1, 2)
        y = lib.nn.functional.scaled_dot_product_attention(q, q.tanh(), q, is_causal=causal)
        return y.transpose(1, 2).flatten(2)

    def heads_of_a_layer(lib: Any, made: Sequence[Any], x: Any) -> Any:
        mask = lib.ones(n, n, dtype=lib.bool).triu(1) if causal else None
        return x + made[0](x, x, x, attn_mask=mask, need_weights=False)[0]

    def einsum(lib: Any, made: Sequence[Any], x: Any) -> Any:
        return lib.einsum("nld,od->nlo", x, made[0].weight)

    yield layer((n, out), "Linear", d, out, bias=rng.random() < 0.7)
    yield layer(shape, rng.choice(["LayerNorm", "RMSNorm"]), d)
    for kind in ("RNN", "GRU", "LSTM"):
        both = rng.random() < 0.3
        settings = {"num_layers": rng.choice([1, 2]), "bidirectional": both, "batch_first": True}
        given = ((kind, (d, out), settings),)
        yield Part(kind, (n, out * (1 + both)), lambda lib, made, x: made[0](x)[0], given)
    given = (("MultiheadAttention", (d, heads), {"batch_first": True}),)
    yield Part("heads", shape, heads_of_a_layer, given)
    yield Part("attention", shape, attended)
    yield along_channels((n, out), "Conv1d", d, out, 3, padding=1)
    yield along_channels(shape, "BatchNorm1d", d)
    yield along_channels((n // 2, d), "MaxPool1d", 2)
    settings = {"dim_feedforward": 7, "dropout": 0.0, "batch_first": True, "norm_first": causal}
    yield layer(shape, "TransformerEncoderLayer", d, heads, **settings)
    yield Part("einsum", (n, out), einsum, (("Linear", (d, out), {"bias": False}),))
    yield Part("mean", (d,), lambda lib, made, x: x.mean(1))
    yield Part("last", (d,), lambda lib, made, x: x[:, -1])
    yield Part("products", shape, lambda lib, made, x: lib.bmm(x @ x.mT / n, x).tanh())


def of_features(rng: random.Random, shape: Shape) -> Iterable[Part]:
    """Parts that take ``(features,)``."""
    (d,) = shape
    out = rng.randint(2, 12)
    yield layer((out,), "Linear", d, out, bias=rng.random() < 0.7)
    yield layer(shape, rng.choice(["BatchNorm1d", "LayerNorm"]), d)
    if d < 40:
        given = (("Linear", (d, d), {}),)
        yield Part("residual", shape, lambda lib, made, x: x + made[0](x).tanh(), given)
        yield Part("shared", shape, lambda lib, made, x: made[0](made[0](x).tanh()), given)
        given = (("Bilinear", (d, d, 4), {}),)
        yield Part("bilinear", (4,), lambda lib, made, x: made[0](x, x.tanh()), given)
        yield Part("outer", (d, d), lambda lib, made, x: x[:, :, None] * x.tanh()[:, None])
    if d % 2 == 0:
        yield layer((d // 2,), "GLU")


_PARTS = {1: of_features, 2: of_sequences, 3: of_images}


@dataclass(frozen=True)
class Network:
    """A drawn network, and how it is trained.

    Attributes:
        seed: it was drawn with.
        rows: examples of a batch.
        start: the shape of one.
        parts: one after the other; a number adds what came out of that part.
        classes: of the linear layer behind them.
        loss: which.
        optimizer: its name.
    """

    seed: int
    rows: int
    start: Shape
    parts: tuple[Part | int, ...]
    classes: int
    loss: str
    optimizer: str

    def __str__(self) -> str:
        names = [p.name if isinstance(p, Part) else f"+{p}" for p in self.parts]
        return f"{self.seed}: {self.start} {' > '.join(names)} > {self.loss}, {self.optimizer}"


def draw(seed: int) -> Network:
    """The network of a seed."""
    rng = random.Random(seed)
    start = rng.choice(
        [
            (rng.randint(1, 5), rng.randint(5, 10), rng.randint(5, 10)),
            (rng.randint(3, 8), rng.choice([4, 6, 8, 12])),
            (rng.randint(3, 17),),
        ]
    )
    parts: list[Part | int] = []
    shapes = [start]
    for _ in range(rng.randint(3, 9)):
        same = [i for i, shape in enumerate(shapes[:-1]) if shape == shapes[-1]]
        if same and rng.random() < 0.3:
            parts.append(rng.choice(same))
            shapes.append(shapes[-1])
            continue
        kind = everywhere if rng.random() < 0.25 else _PARTS[len(shapes[-1])]
        fitting = [
            part
            for part in kind(rng, shapes[-1])
            if min(part.shape) > 0 and np.prod(part.shape) <= _MOST_ELEMENTS
        ]
        parts.append(rng.choice(fitting))
        shapes.append(parts[-1].shape)  # pyrefly: ignore[missing-attribute]
    return Network(
        seed,
        rng.randint(2, 5),
        start,
        tuple(parts),
        rng.randint(2, 5),
        rng.choice([*_LOSSES]),
        rng.choice(["SGD", "Adam", "AdamW", "RMSprop", "NAdam", "Adagrad", "RAdam"]),
    )


_LOSSES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "cross_entropy": lambda f, y, t, hot: f.cross_entropy(y, t, label_smoothing=0.1),
    "nll_loss": lambda f, y, t, hot: f.nll_loss(f.log_softmax(y, 1), t),
    "mse_loss": lambda f, y, t, hot: f.mse_loss(y, hot),
    "huber_loss": lambda f, y, t, hot: f.huber_loss(y, hot, delta=0.5),
    "kl_div": lambda f, y, t, hot: f.kl_div(
        f.log_softmax(y, 1), f.softmax(hot, 1), reduction="batchmean"
    ),
    "multi_margin_loss": lambda f, y, t, hot: f.multi_margin_loss(y, t),
    "bce": lambda f, y, t, hot: f.binary_cross_entropy_with_logits(y, hot),
}


class Trained:
    """A network trained by a library for some steps.

    Args:
        lib: clnet or torch.
        network: which.
        compiled: the whole step is, with the passes that keep bits.
        narrow: forward runs in autocast to bfloat16.
        again: each layer is checkpointed.
        double: in float64.
        passes: of the compiled function.

    Attributes:
        losses: of the steps.
        gradients: of the first step.
        state: parameters and buffers after the last.
    """

    def __init__(
        self,
        lib: Any,
        network: Network,
        *,
        compiled: bool = False,
        narrow: bool = False,
        again: bool = False,
        double: bool = False,
        passes: Any = KEEPING_BITS,
    ) -> None:
        self._lib, self._network, self._narrow, self._again = lib, network, narrow, again
        self._model = self._built()
        if double:
            self._model.double()
        rate = 0.02 if network.optimizer == "SGD" else 0.003
        kind = getattr(lib.optim, network.optimizer)
        self._optimizer = kind(list(self._model.parameters()), lr=rate)
        step = clnet.compile(self._step, passes=passes) if compiled else self._step
        rng, losses = np.random.default_rng(network.seed), []
        for i in range(STEPS):
            x = lib.tensor(rng.standard_normal((network.rows, *network.start), np.float32))
            classes = lib.tensor(rng.integers(0, network.classes, network.rows))
            losses.append(step(x.double() if double else x, classes).item())
            if i == 0:
                given = [p.grad for p in self._model.parameters()]
                self.gradients = [None if g is None else g.numpy().copy() for g in given]
        self.losses = [np.array(losses)]
        self.state = [v.numpy().copy() for v in self._model.state_dict().values()]

    def _built(self) -> Any:
        nn, rng = self._lib.nn, np.random.default_rng(self._network.seed + 1)
        parts = [p for p in self._network.parts if isinstance(p, Part)]
        groups = [[getattr(nn, n)(*a, **k) for n, a, k in p.layers] for p in parts]
        shapes = (p.shape for p in reversed(parts))
        size = int(np.prod(next(shapes, self._network.start)))
        groups.append([nn.Linear(size, self._network.classes)])
        model = nn.ModuleList([nn.ModuleList(group) for group in groups])
        with self._lib.no_grad():
            for name, p in model.named_parameters():
                value = rng.standard_normal(tuple(p.shape), np.float32)
                if p.ndim > 1:
                    value /= np.sqrt(np.prod(p.shape[1:]))
                else:
                    value = value * 0.2 + ("bias" not in name)
                p.copy_(self._lib.tensor(value.astype(np.float32)))
        return model

    def _forward(self, x: Any) -> Any:
        groups, came = iter(self._model), [x]
        for part in self._network.parts:
            if isinstance(part, int):
                came.append(came[-1] + came[part])
                continue
            made = [*next(groups)]
            if self._again and made:
                run = part.run
                x = clnet.checkpoint(lambda x, run=run, made=made: run(clnet, made, x), came[-1])
            else:
                x = part.run(self._lib, made, came[-1])
            came.append(x)
        return next(groups)[0](came[-1].flatten(1))

    def _step(self, x: Any, classes: Any) -> Any:
        self._optimizer.zero_grad()
        if self._narrow:
            with clnet.autocast("cuda", dtype=clnet.bfloat16):
                y = self._forward(x).float()
        else:
            y = self._forward(x)
        functional = self._lib.nn.functional
        hot = functional.one_hot(classes, self._network.classes).to(y.dtype)
        loss = _LOSSES[self._network.loss](functional, y, classes, hot)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def bits(self) -> list[bytes | None]:
        """All that can be compared, as bytes."""
        every = (*self.losses, *self.gradients, *self.state)
        return [None if x is None else x.tobytes() for x in every]


def farthest(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """The largest difference, beside the largest number of its array; no array is 0."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        x, y = (np.float64(0) if v is None else v.astype(np.float64) for v in (a, b))
        if np.size(x) and np.size(y):
            apart = np.abs(x - y).max() / (np.abs(y).max() + 1e-3)
            worst = max(worst, np.inf if np.isnan(apart) else float(apart))
    return worst


def wrong(network: Network, torch: Any = None) -> list[str]:
    """Ways of training a network that differ, compiled from op by op, or from PyTorch."""
    ways: dict[str, dict[str, Any]] = {
        "compiled": {},
        "checkpointed": {"again": True},  # adds gradients up in another order
        "autocast": {"narrow": True},
    }
    found, results = [], {}
    for name, way in ways.items():
        results[name] = eager = Trained(clnet, network, **way)
        if Trained(clnet, network, compiled=True, **way).bits() != eager.bits():
            found.append(name)
    eager = results["compiled"]
    if not farthest(results["checkpointed"].gradients, eager.gradients) <= _SAME:
        found.append("gradients of checkpoints")
    if torch is not None:
        exact, usual = Trained(torch, network, double=True), Trained(torch, network)
        for what, least in (("losses", 1e-4), ("gradients", _SAME)):
            wanted = getattr(exact, what)
            allowed = max(least, _WORSE * farthest(getattr(usual, what), wanted))
            if not farthest(getattr(eager, what), wanted) <= allowed:
                found.append(f"{what} of PyTorch")
    return found


def main() -> int:
    """Draw networks; 1 if one differs."""
    parser = argparse.ArgumentParser(description="Drawn networks, trained in several ways.")
    parser.add_argument("--count", type=int, default=200, help="networks")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    given = parser.parse_args()
    import torch  # noqa: PLC0415 - optional

    bad = 0
    warnings.simplefilter("ignore")
    for seed in range(given.seed, given.seed + given.count):
        network = draw(seed)
        found = wrong(network, torch)
        bad += bool(found)
        if found:
            print(f"{network}: {', '.join(found)}", flush=True)
    print(f"{given.count} networks, {bad} differ", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
