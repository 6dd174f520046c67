"""Attention that a program writes out is computed by the op's kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet.compile import fuse_attention as module
from clnet.compile.fuse_attention import fuse_attention
from clnet.compile.passes import KEEPING_BITS, PASSES, rewrite
from clnet.compile.record import record
from clnet.compile.tracer import Step
from clnet.kernels.softmax import attention_tiles
from clnet.kernels.softmax.attention_tiles import Tiling
from clnet.ops.attention import Attention, AttentionBackward
from tests.kernels.launching import gpu_shaped

BEFORE = PASSES[: PASSES.index(fuse_attention) + 1]
BATCH, HEADS, ROWS, HEAD = 2, 2, 11, 4  # a tile for heads of no whole fours takes twice as long
CAUSAL = np.tri(ROWS, dtype=np.float32)
HOLLOW = np.array(CAUSAL)
HOLLOW[4] = 0


@pytest.fixture(autouse=True)
def few_keys(monkeypatch):
    """As if these sizes were large enough for the kernels to pay."""
    for name in ("_LEAST_KEYS", "_KEYS_OF_AN_ELEMENT", "_LEAST_HEAD"):
        monkeypatch.setattr(module, name, 1)


def masked(scores, mask, fill):
    return scores.masked_fill(clnet.tensor(mask) == 0, fill)


def causal(q, k, v):
    scores = masked(q @ k.transpose(-2, -1) * HEAD**-0.5, CAUSAL, -math.inf)
    return F.dropout(F.softmax(scores, -1), 0.3) @ v


def plain(q, k, v):
    return (clnet.matmul(q, k.transpose(-1, -2)) / 2.5).softmax(-1) @ v


def without_a_scale(q, k, v):
    return F.dropout(clnet.matmul(q, k.transpose(-1, -2)).softmax(-1), 0.2) @ v


def by_einsum(q, k, v):
    scores = clnet.einsum("bhqd,bhkd->bhqk", q * 0.5, k)
    return clnet.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


def chosen(q, k, v):
    scores = q @ k.transpose(-2, -1)
    scores = clnet.where(clnet.tensor(HOLLOW) != 0, scores, -1e9) * 0.5
    return scores.softmax(-1) @ v


def filled(q, k, v):
    """No key counts for a row, whose weights are then all alike."""
    return masked(q @ k.transpose(-2, -1) * 0.5, HOLLOW, -1e9).softmax(-1) @ v


def hollow(q, k, v):
    """No key counts for a row, which is not a number then."""
    return masked(q @ k.transpose(-2, -1) * 0.5, HOLLOW, -math.inf).softmax(-1) @ v


def in_stacks(q, k, v):
    q, k, v = (x.reshape(-1, ROWS, HEAD) for x in (q, k, v))
    scores = masked(clnet.bmm(q, k.transpose(1, 2)) * 0.5, CAUSAL, -1e4)
    return clnet.bmm(F.dropout(scores.softmax(-1), 0.2), v)


FORMS = (
    causal, plain, without_a_scale, by_einsum, chosen, filled, hollow, in_stacks,
)  # fmt: skip


def weights_seen(q, k, v):
    weights = (q @ k.transpose(-2, -1)).softmax(-1)
    return weights @ v + weights.sum()


def added_mask(q, k, v):
    """Where one takes all of a row's keys away, its weights are those of the scores."""
    return (q @ k.transpose(-2, -1) + clnet.tensor(CAUSAL)).softmax(-1) @ v


def small_fill(q, k, v):
    """A number that scores may have, too."""
    return masked(q @ k.transpose(-2, -1), CAUSAL, 0.0).softmax(-1) @ v


def over_rows(q, k, v):
    return (q @ k.transpose(-2, -1)).softmax(-2) @ v


def logarithms(q, k, v):
    return (q @ k.transpose(-2, -1)).log_softmax(-1) @ v


def scores_used_twice(q, k, v):
    scores = q @ k.transpose(-2, -1)
    return scores.softmax(-1) @ v + scores.mean()


def learned_scale(q, k, v):
    return (q @ k.transpose(-2, -1) * v.mean()).softmax(-1) @ v


def queries_alone(q, k, v):
    """Of keys and values no gradient is asked for."""
    return (q @ k.detach().transpose(-2, -1)).softmax(-1) @ v.detach()


def in_order(q, k, v):
    """What gives two results lies between."""
    return (q @ k.transpose(-2, -1)).sort(-1).values.softmax(-1) @ v


OTHERS = (
    weights_seen, added_mask, small_fill, over_rows, logarithms, scores_used_twice, learned_scale,
    queries_alone, in_order,
)  # fmt: skip


def drawn():
    """Queries, keys and values as parts of one projection."""
    whole = np.random.default_rng(0).standard_normal((BATCH, ROWS, 3 * HEADS * HEAD))
    return clnet.tensor(whole.astype(np.float32), requires_grad=True)


def trained(form):
    def step(x):
        parts = x.reshape(BATCH, ROWS, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        y = form(*parts)
        (g,) = clnet.autograd.grad((y * y).sum(), [x])
        return y.detach(), g

    return step


def asked(form):
    def step(x):
        with clnet.no_grad():
            return (form(*x.reshape(BATCH, ROWS, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)),)

    return step


def functions(step):
    trace = rewrite(record(step, (drawn(),), {}, clnet.device()).trace, BEFORE)
    return [type(s.function) for s in trace.steps if isinstance(s, Step)]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("way", [trained, asked])
def test_attention_written_out_is_found(device, form, way):
    found = functions(way(form))
    assert found.count(Attention) == 1
    assert found.count(AttentionBackward) == (way is trained)
    assert not {"Softmax", "SoftmaxBackward", "Dropout"} & {f.__name__ for f in found}
    x, results = drawn(), []
    for passes in (PASSES, KEEPING_BITS):
        clnet.manual_seed(5)
        results.append(clnet.compile(way(form), passes=passes)(x))
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("form", OTHERS, ids=lambda form: form.__name__)
def test_what_is_not_quite_that_is_left(device, form):
    found = functions(trained(form))
    assert Attention not in found
    assert AttentionBackward not in found


@pytest.mark.parametrize("form", [causal, filled, hollow], ids=lambda form: form.__name__)
def test_tiles_read_parts_of_the_projection_where_they_lie(device, form, monkeypatch):
    tilings = {kernel: {32: (Tiling(4, 4, 4, 16),)} for kernel in attention_tiles.TILINGS}
    monkeypatch.setattr(attention_tiles, "TILINGS", tilings)
    wanted = clnet.compile(trained(form), passes=KEEPING_BITS)
    x = drawn()
    clnet.manual_seed(5)
    results = [wanted(x)]
    monkeypatch.setattr(device, "target", gpu_shaped(device))
    clnet.manual_seed(5)
    results.append(clnet.compile(trained(form))(x))
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=2e-5)


class Layer(clnet.nn.Module):
    """A layer as programs have it, whose weights somebody may look at."""

    def __init__(self, *, kept=False):
        super().__init__()
        self.projection = clnet.nn.Linear(HEADS * HEAD, 3 * HEADS * HEAD)
        self.kept = kept

    def forward(self, x):
        parts = self.projection(x).reshape(BATCH, ROWS, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        scores = masked(q @ k.transpose(-2, -1) * HEAD**-0.5, CAUSAL, -math.inf)
        weights = F.dropout(scores.softmax(-1), 0.3)
        if self.kept:
            self.weights = weights
        return weights @ v


@pytest.mark.parametrize("kept", [False, True])
def test_layers_compiled_by_themselves_save_no_weights(device, kept):
    clnet.manual_seed(1)
    layer = Layer(kept=kept)
    x = clnet.randn(BATCH, ROWS, HEADS * HEAD)
    found = []
    for passes in (PASSES, KEEPING_BITS):
        compiled = clnet.compile(layer, passes=passes)
        for seed in (3, 4):
            clnet.manual_seed(seed)
            y = compiled(x)
            layer.zero_grad()
            (y * y).sum().backward()
        found.append([y.numpy(force=True), *(p.grad.numpy() for p in layer.parameters())])
    for got, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
    recorded = record(layer, (x,), {}, device, jointly=fuse_attention)
    functions = [type(s.function) for s in recorded.trace.steps if isinstance(s, Step)]
    behind = [type(s.function) for s in recorded.backward.trace.steps if isinstance(s, Step)]
    assert functions.count(Attention) == behind.count(AttentionBackward) == (not kept)
    square = [x for x in recorded.backward.saved if x.shape[-2:] == (ROWS, ROWS) and x.ndim == 4]
    assert bool([x for x in square if x.shape[0] == BATCH]) == kept


def test_long_rows_and_few_keys_are_left_on_cpus(device, monkeypatch):
    if device.traits.kind.value != "cpu":
        pytest.skip("a matter of CPUs")
    monkeypatch.setattr(module, "_LEAST_KEYS", ROWS + 1)
    assert Attention not in functions(trained(plain))
    monkeypatch.setattr(module, "_LEAST_KEYS", 1)
    monkeypatch.setattr(module, "_MOST_HEAD", HEAD - 1)
    assert Attention not in functions(trained(plain))
