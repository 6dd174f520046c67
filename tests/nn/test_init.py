"""First values: their distribution, their bounds, and that a seed decides them."""

from __future__ import annotations

from math import erf, exp, pi, sqrt

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, ShapeError
from clnet.nn import init

SHAPE = (60, 40, 3, 5)  # fan in 600, fan out 900, 36,000 elements


@pytest.fixture(autouse=True)
def _seed():
    clnet.manual_seed(0)


def made(fill, shape=SHAPE, *args, **kwargs):
    x = clnet.zeros(shape)
    assert fill(x, *args, **kwargs) is x
    return np.asarray(x, np.float64)


def is_uniform(x, low, high):
    """Inside the bounds, and the empirical distribution function is a straight line."""
    assert low <= x.min() <= x.max() <= high
    steps = np.sort((x.ravel() - low) / (high - low)) - (np.arange(x.size) + 0.5) / x.size
    assert np.abs(steps).max() < 1.95 / sqrt(x.size)  # Kolmogorov: exceeded once in 1000


def is_normal(x, mean, std):
    z = (x.ravel() - mean) / std
    expected = np.array([0.5 * (1 + erf(v / sqrt(2))) for v in np.sort(z)])
    assert np.abs(expected - (np.arange(z.size) + 0.5) / z.size).max() < 1.95 / sqrt(z.size)


def test_uniform_and_normal():
    is_uniform(made(init.uniform_), 0, 1)
    is_uniform(made(init.uniform_, SHAPE, -2.0, 3.0), -2, 3)
    is_normal(made(init.normal_), 0, 1)
    is_normal(made(init.normal_, SHAPE, 1.0, 0.1), 1, 0.1)


def test_constants():
    assert made(init.zeros_, 3).tolist() == [0, 0, 0]
    assert made(init.ones_, 3).tolist() == [1, 1, 1]
    assert made(init.constant_, 3, 0.25).tolist() == [0.25, 0.25, 0.25]


def test_xavier():
    is_uniform(made(init.xavier_uniform_), -sqrt(6 / 1500), sqrt(6 / 1500))
    is_normal(made(init.xavier_normal_, SHAPE, 2.0), 0, 2 * sqrt(2 / 1500))


@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 600), ("fan_out", 900)])
def test_kaiming(mode, fan):
    bound = sqrt(6 / fan)
    is_uniform(made(init.kaiming_uniform_, mode=mode, nonlinearity="relu"), -bound, bound)
    slope = sqrt(2 / (1 + 0.3**2))
    is_normal(made(init.kaiming_normal_, SHAPE, 0.3, mode), 0, slope / sqrt(fan))


def test_truncated_normal():
    mean, std, low, high = 0.5, 2.0, -1.0, 3.0
    x = made(init.trunc_normal_, SHAPE, mean, std, low, high)
    assert low <= x.min() < low + 0.01
    assert high - 0.01 < x.max() <= high
    a, b = ((v - mean) / std for v in (low, high))
    cdf = np.array([0.5 * (1 + erf((v - mean) / (std * sqrt(2)))) for v in np.sort(x.ravel())])
    below, above = (0.5 * (1 + erf(v / sqrt(2))) for v in (a, b))
    is_uniform(cdf, below, above)
    density = [exp(-v * v / 2) / sqrt(2 * pi) for v in (a, b)]
    expected = mean + std * (density[0] - density[1]) / (above - below)
    assert abs(x.mean() - expected) < 5 * std / sqrt(x.size)


def test_truncated_normal_reaches_far_tails():
    x = made(init.trunc_normal_, (300_000,), 0.0, 1.0, -9.0, 9.0)
    assert 4 < np.abs(x).max() < 9
    is_normal(x, 0, 1)


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16], ids=str)
def test_truncated_normal_of_two_bytes_has_no_outliers(dtype):
    x = init.trunc_normal_(clnet.empty(100_000, dtype=dtype), std=0.01).numpy().astype(np.float64)
    assert np.abs(x).max() < 0.06
    is_normal(x, 0, 0.01)


@pytest.mark.parametrize("layer", [nn.Linear(600, 60), nn.Conv2d(80, 60, (3, 5), groups=2)])
def test_layers_start_within_the_root_of_their_fan(layer):
    fan = np.prod(layer.weight.shape[1:])
    is_uniform(np.asarray(layer.weight), -1 / sqrt(fan), 1 / sqrt(fan))
    bias = np.asarray(layer.bias)
    assert 0.5 / sqrt(fan) < np.abs(bias).max() <= 1 / sqrt(fan)


def test_a_layer_without_inputs_starts_at_zero():
    layer = nn.Linear(0, 4)
    assert layer.weight.shape == (4, 0)
    assert layer.bias.tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "fill",
    [init.kaiming_uniform_, init.kaiming_normal_, init.xavier_uniform_, init.xavier_normal_],
    ids=lambda fill: fill.__name__,
)
def test_nothing_is_drawn_for_no_elements(fill):
    assert made(fill, (0, 0)).shape == (0, 0)


def test_an_embedding_starts_normal_with_a_row_of_zeros():
    table = np.asarray(nn.Embedding(300, 50, padding_idx=7).weight)
    assert not table[7].any()
    is_normal(np.delete(table, 7, axis=0).astype(np.float64), 0, 1)


def test_a_seed_decides_the_values():
    clnet.manual_seed(5)
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    clnet.manual_seed(5)
    again = nn.Linear(4, 4)
    assert first.weight.tolist() == again.weight.tolist()
    assert first.weight.tolist() != second.weight.tolist()


def test_a_generator_of_ones_own_leaves_the_default_one_alone():
    x = clnet.zeros(8)
    before = clnet.get_rng_state().tolist()
    init.normal_(x, generator=clnet.Generator(3))
    y = init.normal_(clnet.zeros(8), generator=clnet.Generator(3))
    assert x.tolist() == y.tolist()
    assert clnet.get_rng_state().tolist() == before


def test_a_parameter_is_filled_and_stays_trainable():
    p = nn.Parameter(clnet.zeros(2, 2))
    assert init.ones_(p) is p
    assert p.requires_grad
    assert p.is_leaf


@pytest.mark.parametrize(
    ("name", "param", "gain"),
    [
        ("linear", None, 1.0),
        ("conv2d", None, 1.0),
        ("conv_transpose2d", None, 1.0),
        ("sigmoid", None, 1.0),
        ("tanh", None, 5 / 3),
        ("relu", None, sqrt(2)),
        ("selu", None, 0.75),
        ("leaky_relu", None, sqrt(2 / 1.0001)),
        ("leaky_relu", 0.5, sqrt(2 / 1.25)),
    ],
)
def test_gains(name, param, gain):
    assert init.calculate_gain(name, param) == pytest.approx(gain, rel=1e-12)


def test_what_cannot_be_initialised_is_left_alone():
    x = clnet.full((3, 3), 7.0)
    vector = clnet.full(3, 7.0)
    with pytest.raises(ArgumentError, match=r"it has no gain; got nonlinearity='swish'\. Use one"):
        init.kaiming_normal_(x, nonlinearity="swish")
    with pytest.raises(ArgumentError, match="mode is 'fan_in' or 'fan_out'; got mode='fan'"):
        init.kaiming_uniform_(x, mode="fan")
    with pytest.raises(ShapeError, match=r"two axes or more; got shape=\(3,\)"):
        init.xavier_uniform_(vector)
    assert x.tolist() == [[7.0] * 3] * 3
    assert vector.tolist() == [7.0] * 3


def test_identities():
    assert init.eye_(clnet.full((2, 3), 7.0)).tolist() == [[1, 0, 0], [0, 1, 0]]
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    for shape, groups in (((4, 3, 3), 1), ((4, 2, 3, 2), 2), ((3, 3, 1, 3, 2), 3)):
        wanted = torch.nn.init.dirac_(torch.empty(shape), groups)
        assert init.dirac_(clnet.full(shape, 7.0), groups).tolist() == wanted.tolist()
    with pytest.raises(ShapeError, match="x is a matrix"):
        init.eye_(clnet.zeros(3))
    with pytest.raises(ShapeError, match="groups divides the first"):
        init.dirac_(clnet.zeros(3, 3, 3), 2)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3)])
def test_rows_or_columns_are_orthonormal(shape):
    x = clnet.nn.Parameter(clnet.zeros(*shape))
    clnet.manual_seed(0)
    assert init.orthogonal_(x, gain=2.0) is x
    rows = x.detach().numpy().reshape(shape[0], -1)
    rows = rows if rows.shape[0] <= rows.shape[1] else rows.T
    np.testing.assert_allclose(rows @ rows.T, 4 * np.eye(len(rows)), atol=1e-5)
    with pytest.raises(ShapeError, match="x has two axes or more"):
        init.orthogonal_(clnet.zeros(3))


def test_sparse_leaves_a_share_of_each_column_0():
    x = clnet.empty(20, 30)
    init.sparse_(x, 0.13, std=2.0)
    host = x.numpy()
    assert ((host == 0).sum(0) == 3).all()
    assert 1.8 < host[host != 0].std() < 2.2
    assert len({tuple(np.flatnonzero(column == 0)) for column in host.T}) > 10
    with pytest.raises(ShapeError, match="x is a matrix"):
        init.sparse_(clnet.empty(3), 0.5)
    with pytest.raises(ArgumentError, match="sparsity lies in"):
        init.sparse_(clnet.empty(3, 3), 1.5)
