"""What transformers, accelerate, peft, diffusers and Lightning ask for beside layers and ops."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import clnet
from clnet import nn, optim
from clnet.errors import ArgumentError, CheckpointError, ClnetError, DtypeError
from clnet.nn.attention import flex_attention as flex

pytestmark = pytest.mark.device


def test_limits_of_dtypes_that_no_tensor_has():
    eight = clnet.finfo(clnet.float8_e4m3fn)
    assert (eight.bits, eight.max, eight.eps, eight.dtype) == (8, 448.0, 0.125, "float8_e4m3fn")
    assert clnet.finfo(clnet.float8_e5m2).smallest_normal == 2.0**-14
    assert clnet.finfo().resolution == 1e-6
    assert clnet.finfo(clnet.bfloat16).resolution == 0.01
    assert clnet.iinfo(clnet.uint16).max == 65535
    assert (clnet.iinfo(clnet.int8).dtype, clnet.iinfo(clnet.uint16).dtype) == ("int8", "uint16")
    with pytest.raises(DtypeError, match="finfo"):
        clnet.finfo(clnet.uint16)
    with pytest.raises(DtypeError, match="limits are known"):
        clnet.finfo(clnet.float4_e2m1fn_x2)


def test_tensors_without_elements_are_left_out_of_cat():
    x, empty = clnet.ones(2, 1, 3), clnet.tensor([])
    assert clnet.cat([empty, x, empty], -2).shape == (2, 1, 3)
    assert clnet.cat([empty, empty]).shape == (0,)
    assert clnet.cat([clnet.tensor([]), clnet.tensor([1])]).dtype is clnet.float32


def test_parameters_of_two_names():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net.register_buffer("again", net[0].bias.detach())
    assert "1.weight" not in dict(net.named_parameters())
    assert "1.weight" in dict(net.named_parameters(remove_duplicate=False))
    assert list(dict(net.named_buffers(remove_duplicate=False))) == ["again"]


class Owner(nn.Module):
    """A module whose attribute is a property."""

    @property
    def trainer(self):
        return self._trainer

    @trainer.setter
    def trainer(self, value):
        self._trainer = f"of {value}"


def test_properties_of_modules_are_assigned_to():
    net = Owner()
    net.trainer = "mine"
    assert net.trainer == "of mine"
    assert "trainer" not in vars(net)


class Wrapper(optim.Optimizer):
    """An optimiser around another, as accelerate's."""

    def __init__(self, inner):
        self.inner = inner

    def step(self, closure=None):
        return self.inner.step(closure)


def test_optimisers_around_others_need_no_init():
    w = nn.Parameter(clnet.ones(1))
    w.grad = clnet.ones(1)
    Wrapper(optim.SGD([w], lr=0.5)).step()
    assert w.item() == 0.5


def test_dtypes_are_no_containers():
    assert not hasattr(clnet.float32, "__dataclass_fields__")
    assert not hasattr(clnet.uint16, "__dataclass_fields__")


def expected_attention(q, k, v, hidden, bias):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_attention_by_functions_of_places():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, h, 5, 4)).astype("f") for h in (4, 2, 2))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 5, 5, BLOCK_SIZE=2)
    given = [clnet.tensor(x, requires_grad=True) for x in (q, k, v)]
    out, lse = flex.flex_attention(
        *given,
        score_mod=lambda score, b, h, i, j: score + 0.1 * (j - i) * (h + 1),
        block_mask=mask,
        enable_gqa=True,
        return_lse=True,
    )
    i, j = np.arange(5)[:, None], np.arange(5)
    bias = 0.1 * (j - i) * np.arange(1, 5)[:, None, None]
    wide = [np.repeat(x, 2, 1) for x in (k, v)]
    np.testing.assert_allclose(
        out.detach().numpy(), expected_attention(q, *wide, j > i, bias), atol=2e-6
    )
    assert lse.shape == (2, 4, 5)
    out.sum().backward()
    assert all(float(x.grad.abs().sum()) > 0 for x in (given[0], given[2]))
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert mask.sparsity() == pytest.approx(100 / 3)
    with clnet.no_grad():
        _, exact = flex.flex_attention(*(x.double() for x in given), None, None, None, True, True)
    assert exact.dtype is clnet.float64


def test_masks_are_joined_and_hidden_rows_weigh_nothing():
    both = flex.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 2)
    assert flex.create_mask(both, 1, 1, 3, 3)[0, 0].int().tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [0, 1, 1],
    ]
    either = flex.or_masks(both, lambda b, h, i, j: j == 2)
    assert flex.create_mask(either, 1, 1, 1, 3).tolist() == [[[[True, False, True]]]]
    none = flex.create_block_mask(lambda b, h, i, j: (i < 0) & (j < 0), 1, 1, 2, 2)
    x = clnet.ones(1, 1, 2, 2)
    assert flex.flex_attention(x, x, x, block_mask=none).tolist() == [[[[0.0, 0.0]] * 2]]


def test_assert_close_is_pytorchs():
    close = clnet.testing.assert_close
    close({"a": [clnet.ones(2), 1.0]}, {"a": [clnet.ones(2) + 1e-7, 1.0]})
    close(clnet.tensor([math.nan]), clnet.tensor([math.nan]), equal_nan=True)
    with pytest.raises(AssertionError, match=r"1 / 2 \(50.0%\)(.|\n)*item \['a'\]\[0\]"):
        close({"a": [clnet.ones(2)]}, {"a": [clnet.tensor([1.0, 1.1])]})
    with pytest.raises(AssertionError, match="'dtype' do not match"):
        close(clnet.ones(1), clnet.ones(1, dtype=clnet.float64))
    close(clnet.ones(1), clnet.ones(1, dtype=clnet.float64), check_dtype=False)
    with pytest.raises(AssertionError, match="mine"):
        close(clnet.tensor(1), clnet.tensor(2), msg="mine")
    with pytest.raises(AssertionError, match="length"):
        close([1], [1, 2])
    with pytest.raises(ArgumentError, match="together"):
        close(1.0, 1.0, rtol=1.0)


def test_control_flow_runs_as_python():
    x = clnet.tensor(3.0)
    assert clnet.cond(x > 2, lambda y: y + 1, lambda y: y - 1, (x,)).item() == 4
    i, total = clnet.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), (x * 0, x))
    assert (i.item(), total.item()) == (4, 9)


def test_numbers_are_known():
    assert not isinstance(3, clnet.SymInt)
    assert clnet.sym_max(1, 2) == 2
    assert clnet.sym_int(2.5) == 2
    clnet._check(True)
    with pytest.raises(ArgumentError, match="too small"):
        clnet._check(False, lambda: "too small")
    with pytest.raises(ArgumentError):
        clnet._assert_async(clnet.tensor(0))


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (clnet._check_index, IndexError),
        (clnet._check_value, ValueError),
        (clnet._check_type, TypeError),
        (clnet._check_not_implemented, NotImplementedError),
    ],
)
def test_checks_raise_their_own_kind(check, kind):
    check(True)
    with pytest.raises(kind, match="too small"):
        check(False, lambda: "too small")
    with pytest.raises(kind, match="Expected cond"):
        check(False)


def test_what_libraries_are_not_here_is_said():
    assert clnet.backends.quantized.engine in clnet.backends.quantized.supported_engines
    assert clnet.cuda.is_tf32_supported() is clnet.cuda.is_available()


def test_what_is_not_here_says_what_to_do():
    for refused, remedy in (
        (lambda: clnet.cuda.graph(clnet.cuda.CUDAGraph()).__enter__(), r"clnet\.compile"),
        (lambda: clnet.distributed.rpc.init_rpc("first"), "all_reduce"),
    ):
        with pytest.raises(ClnetError, match=remedy):
            refused()


def test_a_profile_as_pytorchs(tmp_path):
    profiler = clnet.profiler
    x = clnet.ones(8, 8, requires_grad=True)
    seen = []
    with profiler.profile(
        schedule=profiler.schedule(wait=1, warmup=0, active=1, repeat=1),
        on_trace_ready=lambda p: seen.append(p.step_num),
    ) as p:
        for _ in range(3):
            with profiler.record_function("forward pass"):
                y = (x @ x).sum()
            y.backward()
            p.step()
    assert seen == [2]  # PyTorch's counts the step before it calls
    averages = {e.key: e for e in p.key_averages()}
    assert averages["matmul"].count == 1
    assert averages["forward pass"].count == 1
    assert averages["forward pass"].flops >= averages["matmul"].flops == 2 * 8**3
    total = p.key_averages().total_average()
    assert total.count == sum(e.count for e in averages.values())
    assert total.device_memory_usage == sum(e.device_memory_usage for e in averages.values()) > 0
    table = p.key_averages().table(sort_by="cpu_time_total", row_limit=1)
    assert "# of Calls" in table.splitlines()[0]
    assert len(table.splitlines()) == 2
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(ArgumentError, match="sort_by"):
        p.key_averages().table(sort_by="beauty")
    with pytest.raises(ArgumentError, match="recorded"):
        profiler.profile().key_averages()
    with pytest.raises(ArgumentError, match="active is 1 or more"):
        profiler.schedule(wait=0, warmup=0, active=0)
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "f"))):
        _ = x.exp()
    assert len(list((tmp_path / "f").glob("*.pt.trace.json"))) == 1


def test_operations_of_a_block_are_counted():
    with clnet.utils.flop_counter.FlopCounterMode(display=False) as counter:
        nn.Sequential(nn.Linear(8, 4, bias=False))(clnet.ones(2, 8))
    assert counter.get_total_flops() >= 2 * 2 * 8 * 4 - 2 * 4
    assert "Sequential.0" in counter.get_flop_counts()
    assert "Global" in counter.get_table()


def test_wishart_and_lkj():
    """Densities and entropies are PyTorch 2.13's; moments are the distributions'."""
    covariance = clnet.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)
    wishart = clnet.distributions.Wishart(clnet.tensor([4.0, 3.5]), covariance_matrix=covariance)
    log_prob = wishart.log_prob(clnet.tensor([[3.0, 0.5], [0.5, 2.0]]))
    np.testing.assert_allclose(log_prob.tolist(), [-5.325946, -5.214878], rtol=1e-5)
    np.testing.assert_allclose(wishart.entropy().tolist(), [7.140811, 6.803553], rtol=1e-5)
    np.testing.assert_allclose(wishart.variance[0].tolist(), [[32, 9], [9, 8]], rtol=1e-5)
    np.testing.assert_allclose(wishart.mode[1].tolist(), [[1, 0.25], [0.25, 0.5]], rtol=1e-5)
    log_prob.sum().backward()
    expected = [[-1.163265, 0.295918], [0.295918, -1.755102]]
    np.testing.assert_allclose(covariance.grad.tolist(), expected, rtol=1e-5)
    clnet.manual_seed(0)
    mean = wishart.rsample((4000,)).mean(0)[0]
    np.testing.assert_allclose(mean.tolist(), [[8, 2], [2, 4]], atol=0.3)
    with pytest.raises(ArgumentError, match="df is above 1"):
        clnet.distributions.Wishart(1.0, clnet.eye(2))
    lkj = clnet.distributions.LKJCholesky(3, clnet.tensor([1.0, 2.5]))
    matrix = clnet.tensor([[1.0, 0.2, 0.1], [0.2, 1.0, -0.3], [0.1, -0.3, 1.0]])
    found = lkj.log_prob(clnet.linalg.cholesky(matrix))
    np.testing.assert_allclose(found.tolist(), [-1.616724, -0.560701], rtol=1e-5)
    drawn = lkj.sample((4000,))
    correlations = drawn @ drawn.mT
    # Each correlation is 2 Beta(a, a) - 1 with a = concentration + 1/2: variance 1 / (2 a + 1).
    spread = correlations.var(0)[:, [1, 2, 2], [0, 0, 1]]
    np.testing.assert_allclose(spread.tolist(), [[1 / 4] * 3, [1 / 7] * 3], atol=0.02)
    with pytest.raises(ArgumentError, match="two variables"):
        clnet.distributions.LKJCholesky(1)


class Net(nn.Module):
    """Tied weights, a module twice, a function, plain attributes, a transient buffer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.both = nn.Sequential(self.first, nn.BatchNorm1d(3))
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.first.weight
        self.act = nn.functional.relu
        self.sizes = (1, 2.5)
        self.register_buffer("seen", clnet.ones(2), persistent=False)

    def forward(self, x):
        return self.act(self.both(x)) + self.tied(x)


def test_whole_modules_are_saved(tmp_path):
    net = Net().eval()
    net.first.bias.requires_grad_(False)
    clnet.save({"net": net, "epoch": 1}, tmp_path / "net.pt")
    with pytest.raises(CheckpointError, match=r"tests.test_packages_import:Net\. .*weights_only"):
        clnet.load(tmp_path / "net.pt")
    found = clnet.load(tmp_path / "net.pt", weights_only=False)["net"]
    x = clnet.ones(2, 3)
    assert found(x).tolist() == net(x).tolist()
    assert type(found) is Net
    assert str(found) == str(net)
    assert found.both[0] is found.first
    assert found.tied.weight is found.first.weight
    assert (found.training, found.sizes, found.act) == (False, (1, 2.5), nn.functional.relu)
    assert not found.first.bias.requires_grad
    assert list(found.state_dict()) == list(net.state_dict())
    found(x).sum().backward()
    assert found.tied.weight.grad is not None


def test_classes_are_looked_up_and_not_imported(tmp_path):
    for name in ("Owner.trainer", "Wrapper", "no_such_name"):
        gone = type("Gone", (Owner,), {"__module__": __name__})
        gone.__qualname__ = name
        clnet.save(gone(), tmp_path / "other.pt")
        with pytest.raises(CheckpointError, match="the class is loaded"):
            clnet.load(tmp_path / "other.pt", weights_only=False)
    net = Net()
    net.act = lambda x: x
    with pytest.raises(CheckpointError, match="act is a"):
        clnet.save(net, tmp_path / "other.pt")


@pytest.mark.parametrize("kind", [None, "cayley", "matrix_exp", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)], ids=str)
@pytest.mark.parametrize("based", [True, False], ids=["based", "bare"])
def test_orthogonal_weights(kind, shape, based):
    rng = np.random.default_rng(0)
    layer = nn.Linear(shape[1], shape[0], bias=False).double()
    with clnet.no_grad():
        layer.weight.copy_(clnet.tensor(rng.standard_normal(shape)))
    before = layer.weight.detach().numpy().copy()
    orthogonal = nn.utils.parametrizations.orthogonal
    assert orthogonal(layer, orthogonal_map=kind, use_trivialization=based) is layer
    if based:  # the orthonormal factor of the weight, up to signs
        q = layer.weight.detach().numpy()
        tall = shape[0] >= shape[1]
        corner = np.tril(q.T @ before, -1) if tall else np.triu(before @ q.T, 1)
        np.testing.assert_allclose(corner, 0, atol=1e-9)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        ((layer(clnet.ones(2, shape[1], dtype=clnet.float64)) - 1.0) ** 2).sum().backward()
        optimizer.step()
    w = layer.weight.detach().numpy()
    gram = w @ w.T if shape[0] < shape[1] else w.T @ w
    np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-9)


def test_orthogonal_refuses():
    with pytest.raises(ArgumentError, match="orthogonal_map"):
        nn.utils.parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="no")
    with pytest.raises(ArgumentError, match="two axes"):
        nn.utils.parametrizations.orthogonal(nn.Linear(2, 2), "bias")
