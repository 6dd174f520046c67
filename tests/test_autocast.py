"""Mixed precision: dtypes and values as PyTorch's, gradients in float32, eager and compiled."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.compile.record import record
from clnet.compile.tracer import Step
from clnet.errors import ArgumentError
from clnet.ops.machinery.autocast import POLICY, Computes
from clnet.values import mode
from tests.torchcase import without_onednn

RNG = np.random.default_rng(0)


def draw(*shape):
    return (RNG.random(shape) * 0.5 + 0.2).astype(np.float32)


M, V, X, W = (4, 4), (4,), (2, 4, 6, 6), (4, 4, 3, 3)
# By name: a call with a module and its functional, and the shapes it gets.
CALLS = {
    **{n: (lambda m, f, x, n=n: getattr(m, n)(x), M) for n in
       "exp log pow2 sqrt tanh reciprocal abs sigmoid".split() if n != "pow2"},
    **{n: (lambda m, f, x, n=n: getattr(m, n)(x, 0), M) for n in
       "sum prod cumsum mean amax std logsumexp".split()},
    "pow": (lambda m, f, x: x**2, M),
    "norm": (lambda m, f, x: m.norm(x), M),
    **{n: (lambda m, f, x, n=n: getattr(f, n)(x, dim=-1), M) for n in
       ("softmax", "log_softmax", "glu")},
    **{n: (lambda m, f, x, n=n: getattr(f, n)(x), M) for n in ("relu", "gelu", "softplus")},
    **{n: (lambda m, f, x, y, n=n: getattr(m, n)(x, y), M, M) for n in
       "matmul mm mul add div maximum atan2 dist cdist".split()},
    "addmm": (lambda m, f, x, y: m.addmm(x, x, y), M, M),
    "bmm": (lambda m, f, x, y: m.bmm(x[None], y[None]), M, M),
    "baddbmm": (lambda m, f, x, y: m.baddbmm(x[None], x[None], y[None]), M, M),
    "einsum": (lambda m, f, x, y: m.einsum("ij,jk->ik", x, y), M, M),
    "linear": (lambda m, f, x, w, b: f.linear(x, w, b), M, M, V),
    "conv2d": (lambda m, f, x, w, b: f.conv2d(x, w, b), X, W, V),
    "conv_transpose2d": (lambda m, f, x, w, b: f.conv_transpose2d(x, w, b), X, W, V),
    "conv1d": (lambda m, f, x, w, b: f.conv1d(x, w, b), (2, 4, 6), (4, 4, 3), V),
    "conv3d": (lambda m, f, x, w: f.conv3d(x, w), (1, 4, 3, 3, 3), (4, 4, 3, 3, 3)),
    "conv_transpose3d": (
        lambda m, f, x, w, b: f.conv_transpose3d(x, w, b), (1, 4, 2, 2, 2), (4, 4, 3, 3, 3), V,
    ),
    "attention": (lambda m, f, q: f.scaled_dot_product_attention(q, q, q), (1, 2, 8, 8)),
    "prelu": (lambda m, f, x, v: f.prelu(x, v), M, V),
    "layer_norm": (lambda m, f, x, v: f.layer_norm(x, (4,), v, v), M, V),
    "group_norm": (lambda m, f, x, v: f.group_norm(x, 2, v, v), X, V),
    "batch_norm": (lambda m, f, x, v: f.batch_norm(x, None, None, v, v, True), X, V),
    **{n: (lambda m, f, x, y, n=n: getattr(f, n)(x, y), M, M) for n in
       "mse_loss l1_loss smooth_l1_loss huber_loss poisson_nll_loss cross_entropy".split()},
    "triplet_margin_loss": (lambda m, f, x, y: f.triplet_margin_loss(x, y, y), M, M),
    "cosine_similarity": (lambda m, f, x, y: f.cosine_similarity(x, y), M, M),
    "cat": (lambda m, f, x, y: m.cat([x, y]), M, M),
    "stack": (lambda m, f, x, y: m.stack([x, y]), M, M),
    "where": (lambda m, f, x, y: m.where(x > 0.3, x, y), M, M),
    "addcmul": (lambda m, f, x, y: m.addcmul(x, x, y), M, M),
    "grid_sample": (lambda m, f, x, g: f.grid_sample(x, g, align_corners=False), X, (2, 3, 3, 2)),
    "max_pool2d": (lambda m, f, x: f.max_pool2d(x, 2), X),
    "dropout": (lambda m, f, x: f.dropout(x, 0.5), M),
}  # fmt: skip
# In float32 by PyTorch's table for CUDA; on its CPUs they compute in what they are given.
FLOAT32_ON_CUDA = set(
    """exp log reciprocal sum norm cumsum pow softmax log_softmax softplus layer_norm group_norm
    dist cosine_similarity""".split()
)


def patterns(count):
    """Which operands are of 16 bits: none, all, the first, the last."""
    tails = {(0,) * count, (1,) * count, (1,) + (0,) * (count - 1), (0,) * (count - 1) + (1,)}
    return sorted(tails)


@pytest.mark.parametrize("name", CALLS)
def test_a_result_has_the_dtype_that_pytorch_gives_it(name):
    torch = pytest.importorskip("torch")
    call, *shapes = CALLS[name]
    for narrow in patterns(len(shapes)):
        given = [draw(*shape) for shape in shapes]
        theirs = [torch.tensor(x) for x in given]
        theirs = [x.bfloat16() if n else x for x, n in zip(theirs, narrow, strict=True)]
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                expected = str(call(torch, torch.nn.functional, *theirs).dtype)
        except RuntimeError:  # its CPU kernels do not mix dtypes
            continue
        if name in FLOAT32_ON_CUDA and any(narrow):
            expected = "torch.float32"
        if name == "grid_sample":  # the widest on CUDA
            expected = "torch.bfloat16" if all(narrow) else "torch.float32"
        with clnet.abstract():
            ours = [clnet.zeros(shape) for shape in shapes]
            ours = [x.bfloat16() if n else x for x, n in zip(ours, narrow, strict=True)]
            with clnet.autocast("cpu"):
                found = call(clnet, F, *ours).dtype
        assert str(found) == expected.replace("torch", "clnet"), narrow


def test_dtypes_without_pytorch():
    x, weight = clnet.ones(2, 2), clnet.ones(2, 2)
    with clnet.autocast("cuda"):
        y = x @ weight
        assert y.dtype is clnet.float16
        assert (y + x).dtype is clnet.float32
        assert y.exp().dtype is (y**2).dtype is clnet.cat([y, x]).dtype is clnet.float32
        assert y.mean().dtype is F.gelu(y).dtype is clnet.float16
        assert F.softmax(y, -1).dtype is y.sum().dtype is F.mse_loss(y, y).dtype is clnet.float32
        assert F.softmax(y, -1, dtype=clnet.float16).dtype is clnet.float16
        assert y.sum(dtype=clnet.float16).dtype is clnet.float16
        y.exp_()
        assert y.dtype is clnet.float16  # what is written in place stays what it is
    assert (x @ weight).dtype is clnet.float32


def test_float64_is_left_alone():
    x = clnet.ones(2, 2, dtype=clnet.float64)
    with clnet.autocast("cpu"):
        assert (x @ x).dtype is clnet.float64
        assert x.exp().dtype is clnet.float64


def test_every_op_of_the_table_is_there():
    known = {name.rpartition(".")[2] for name in clnet.ops.machinery.function.PUBLIC_OPS}
    inner = {"gru_sequence", "lstm_sequence", "rnn_cell", "renorm", "sum_squares"}
    assert set(POLICY) - known <= inner
    assert POLICY["matmul"] is Computes.NARROW


def test_the_state_is_pytorchs():
    assert not clnet.is_autocast_enabled("cpu")
    assert clnet.get_autocast_dtype("cpu") is clnet.bfloat16
    assert clnet.get_autocast_dtype("cuda") is clnet.get_autocast_gpu_dtype() is clnet.float16
    with clnet.autocast("cuda", dtype=clnet.bfloat16):
        assert clnet.is_autocast_enabled()
        assert clnet.get_autocast_dtype() is clnet.bfloat16
        with clnet.autocast("cuda", enabled=False):
            assert not clnet.is_autocast_enabled()
            assert (clnet.ones(1, 1) @ clnet.ones(1, 1)).dtype is clnet.float32
        with clnet.autocast("cuda"):
            assert clnet.get_autocast_dtype() is clnet.float16
        assert clnet.get_autocast_dtype() is clnet.bfloat16
    assert not clnet.is_autocast_enabled()
    with mode.using():
        clnet.set_autocast_enabled("cpu", True)
        assert clnet.get_autocast_dtype() is clnet.bfloat16
        clnet.set_autocast_enabled("cpu", False)
        assert not clnet.is_autocast_enabled()
    assert clnet.amp.is_autocast_available("cpu")


def test_bad_settings_are_named():
    with pytest.raises(ArgumentError, match="device_type is one of"):
        clnet.autocast("tpus")
    with pytest.raises(ArgumentError, match="float16 or bfloat16"):
        clnet.set_autocast_dtype("cpu", clnet.float32)
    with pytest.warns(UserWarning, match="nothing is cast"), clnet.autocast("cpu", clnet.float32):
        assert not clnet.is_autocast_enabled()


def test_a_decorator_is_a_context():
    @clnet.autocast("cpu")
    def product(x):
        return x @ x

    assert product(clnet.ones(2, 2)).dtype is clnet.bfloat16
    assert not clnet.is_autocast_enabled()


def test_an_exception_ends_the_context():
    with pytest.raises(ZeroDivisionError), clnet.autocast("cpu"):
        1 / 0  # noqa: B018 - it is the exception
    assert not clnet.is_autocast_enabled()


def test_a_weight_is_cast_once_and_anew_when_it_changed():
    weight, x = nn.Parameter(clnet.ones(2, 2)), clnet.ones(2, 2)

    def twice(x):
        with clnet.autocast("cpu"):
            y = F.linear(F.linear(x, weight), weight)
            with clnet.autocast("cpu"):
                return F.linear(y, weight)

    steps = record(twice, (x,), {}, x.device).trace.steps
    casts = [s for s in steps if isinstance(s, Step) and s.function.name == "to"]
    ours = [s for s in casts if s.inputs[0].storage is weight.array.storage]
    assert len(ours) == 1
    with clnet.autocast("cpu"):
        before = F.linear(x, weight)
        with clnet.no_grad():
            weight.fill_(2.0)
        assert (F.linear(x, weight) / before).tolist() == [[2, 2], [2, 2]]
        assert clnet.is_autocast_cache_enabled()
        clnet.clear_autocast_cache()
        assert not mode.current().autocast.cache
    with clnet.autocast("cpu", cache_enabled=False):
        F.linear(x, weight)
        assert mode.current().autocast.cache is None


def test_a_cast_made_without_gradients_serves_none_with():
    weight, x = nn.Parameter(clnet.ones(2, 2)), clnet.ones(2, 2)
    with clnet.autocast("cpu"):
        with clnet.no_grad():
            F.linear(x, weight)
        F.linear(x, weight).sum().backward()
    assert weight.grad.dtype is clnet.float32
    assert weight.grad.tolist() == [[2, 2], [2, 2]]


def test_a_compiled_function_is_keyed_by_the_context():
    product = clnet.compile(lambda x: x @ x)
    x = clnet.ones(2, 2)
    assert product(x).dtype is clnet.float32
    with clnet.autocast("cpu"):
        assert product(x).dtype is clnet.bfloat16
        assert product(x).dtype is clnet.bfloat16
    with clnet.autocast("cuda"):
        assert product(x).dtype is clnet.float16
    assert product(x).dtype is clnet.float32
    assert product.num_traces == 3


def test_a_checkpoint_runs_again_as_it_ran():
    layer, x = nn.Linear(3, 3), clnet.tensor(draw(2, 3), requires_grad=True)
    grads = []
    for run in (lambda x: layer(x).sum(), lambda x: clnet.checkpoint(lambda v: layer(v).sum(), x)):
        x.grad = layer.weight.grad = None
        with clnet.autocast("cpu"):
            layer(x)  # its cast weight is no part of the checkpoint
            loss = run(x)
        loss.backward()
        grads.append((x.grad.numpy(), layer.weight.grad.numpy()))
    np.testing.assert_array_equal(grads[0][0], grads[1][0])
    np.testing.assert_array_equal(grads[0][1], grads[1][1])


def test_a_users_function_runs_in_the_context_of_its_forward():
    seen = []

    class Product(clnet.autograd.Function):
        @staticmethod
        @clnet.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @clnet.amp.custom_bwd(device_type="cuda")
        def backward(ctx, g):
            seen.append(clnet.is_autocast_enabled())
            (x,) = ctx.saved_tensors
            return g @ x.T + x.T @ g

    class Wide(Product):
        @staticmethod
        @clnet.amp.custom_fwd(device_type="cuda", cast_inputs=clnet.float32)
        def forward(ctx, x):
            assert not clnet.is_autocast_enabled()
            ctx.save_for_backward(x)
            return x @ x

    x = clnet.ones(2, 2, requires_grad=True)
    with clnet.autocast("cuda"):
        narrow, wide = Product.apply(x), Wide.apply(x.half())
    assert narrow.dtype is clnet.float16
    assert wide.dtype is clnet.float32
    (narrow.sum() + wide.sum()).backward()
    assert sorted(seen) == [False, True]
    assert x.grad.tolist() == [[8, 8], [8, 8]]


def test_a_users_function_takes_named_tuples_of_tensors():
    Pair = namedtuple("Pair", "first second")

    class Sum(clnet.autograd.Function):
        @staticmethod
        @clnet.amp.custom_fwd(device_type="cuda", cast_inputs=clnet.float32)
        def forward(ctx, pair):
            assert isinstance(pair, Pair)
            return pair.first + pair.second

    with clnet.autocast("cuda"):
        assert Sum.apply(Pair(clnet.ones(2).half(), clnet.ones(2))).dtype is clnet.float32


def networks(m):
    """A GPT's block, a CNN and an LSTM, of either framework."""
    n = m.nn

    class Block(n.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = n.Embedding(11, 8), n.Linear(8, 11)
            self.norm, self.rows = n.LayerNorm(8), n.Linear(8, 24)
            self.mlp = n.Sequential(n.Linear(8, 16), n.GELU(), n.Linear(16, 8))

        def forward(self, x):
            x = self.table(x)
            q, k, v = self.rows(self.norm(x)).split(8, -1)
            x = x + n.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.head(x + self.mlp(x)).reshape(-1, 11)

    class Cnn(n.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.head = n.Conv2d(1, 4, 3), n.BatchNorm2d(4), n.Linear(16, 11)

        def forward(self, x):
            x = n.functional.max_pool2d(n.functional.relu(self.norm(self.conv(x))), 2)
            return self.head(x.flatten(1))

    class Lstm(n.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = n.LSTM(5, 6, batch_first=True), n.Linear(6, 11)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    return {"gpt": Block, "cnn": Cnn, "lstm": Lstm}


INPUTS = {
    "gpt": (RNG.integers(0, 11, (2, 6)), RNG.integers(0, 11, 12)),
    "cnn": (draw(4, 1, 6, 6), RNG.integers(0, 11, 4)),
    "lstm": (draw(4, 3, 5), RNG.integers(0, 11, 4)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_network_trains_as_pytorchs(name):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = networks(torch)[name]()
    first = {k: v.numpy() for k, v in theirs.state_dict().items()}
    curves = {}
    for m, ways in ((torch, ("eager",)), (clnet, ("eager", "compiled"))):
        for way in ways:
            model = theirs if m is torch else networks(clnet)[name]()
            if m is clnet:
                model.load_state_dict({k: clnet.tensor(v) for k, v in first.items()})
            x, y = (m.tensor(v) for v in INPUTS[name])
            optimizer = m.optim.SGD(model.parameters(), lr=0.3)

            def step(x, y, m=m, model=model, optimizer=optimizer):
                optimizer.zero_grad()
                with m.autocast("cpu", dtype=m.bfloat16):
                    out = model(x)
                    loss = m.nn.functional.cross_entropy(out, y)
                loss.backward()
                optimizer.step()
                return loss.detach()

            if m is torch:
                first = {k: v.copy() for k, v in first.items()}
            run = clnet.compile(step) if way == "compiled" else step
            with without_onednn(torch):
                curves[m.__name__, way] = [float(run(x, y)) for _ in range(4)]
            assert all(p.grad.dtype is m.float32 for p in model.parameters())
    reference = curves["torch", "eager"]
    assert reference[-1] < reference[0]
    for way in ("eager", "compiled"):
        np.testing.assert_allclose(curves["clnet", way], reference, rtol=0.02)


@pytest.mark.parametrize("name", ["cosine_embedding_loss", "triplet_margin_loss"])
def test_losses_of_several_ops_compute_in_float32_from_the_first_on(name):
    loss = getattr(F, name)
    x, y, z = (clnet.rand(4, 5, dtype=clnet.bfloat16) for _ in range(3))
    last = clnet.tensor([1, -1, 1, 1]) if name.startswith("cosine") else z
    with clnet.autocast("cuda", dtype=clnet.bfloat16):
        found = loss(x, y, last)
    wide = last if last is not z else z.float()
    assert found.item() == loss(x.float(), y.float(), wide).item()
