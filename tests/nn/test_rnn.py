"""Recurrent layers beside PyTorch's: text, state, outputs, last states, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, ShapeError
from tests.answers import torch

pytestmark = pytest.mark.device

KINDS = {
    "RNN": {},
    "RNN relu": {"nonlinearity": "relu"},
    "RNN two layers": {"num_layers": 2, "bidirectional": True, "bias": False},
    "LSTM": {},
    "LSTM two layers, both ways": {"num_layers": 2, "bidirectional": True},
    "LSTM projected": {"proj_size": 3, "num_layers": 2, "bidirectional": True},
    "LSTM batch first": {"batch_first": True, "bias": False},
    "GRU": {},
    "GRU two layers, both ways": {"num_layers": 2, "bidirectional": True, "batch_first": True},
}
X = (6, 3, 4)


def both(kind, *sizes, **options):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*sizes, **options)
    ours = getattr(nn, kind)(*sizes, **options)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs


def flat(result):
    """Outputs and states in one list."""
    if not isinstance(result, tuple):
        return [result]
    return [part for piece in result for part in flat(piece)]


def agree(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def compare(ours, theirs, *inputs):
    """Outputs, and gradients of a weighted sum of all of them."""

    def run(module, make, args):
        tensors = [make(a) for a in args]
        states = tensors[1:]
        hx = () if not states else (tuple(states) if len(states) > 1 else states[0],)
        return tensors, flat(module(tensors[0], *hx))

    own_in, own = run(ours, lambda a: clnet.tensor(a, requires_grad=True), inputs)
    their_in, their = run(theirs, lambda a: torch.tensor(a, requires_grad=True), inputs)
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal(tuple(y.shape)).astype("f4") for y in own]
    for a, b in zip(own, their, strict=True):
        agree(a, b)
    sum((y * clnet.tensor(w)).sum() for y, w in zip(own, weights, strict=True)).backward()
    sum((y * torch.tensor(w)).sum() for y, w in zip(their, weights, strict=True)).backward()
    for a, b in zip(own_in, their_in, strict=True):
        agree(a.grad, b.grad)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert a.grad is not None, name
        agree(a.grad, b.grad)


@pytest.mark.parametrize("name", ["LSTM two layers, both ways", "GRU two layers, both ways"])
def test_directions_side_by_side_agree_with_pytorch(name, monkeypatch):
    """As GPUs compute them."""
    monkeypatch.setattr("clnet.nn.rnn.side_by_side", lambda x: True)
    kind, options = name.split()[0], {**KINDS[name], "dropout": 0.0}
    ours, theirs = both(kind, 4, 5, **options)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(X).astype("f4")
    shape = (4, X[0] if options.get("batch_first") else X[1], 5)
    first, second = rng.standard_normal((2, *shape)).astype("f4")
    compare(ours, theirs, x, *([first, second] if kind == "LSTM" else [first]))
    with clnet.no_grad(), clnet.profile() as seen:
        ours(clnet.tensor(x))
    steps = X[1] if options.get("batch_first") else X[0]
    op = f"{kind.lower()}_sequence"
    # Of each layer a copy of the biases, and a product and a launch over the gates a step.
    assert seen.totals(lambda command: command.op)[op].calls <= 2 * (2 * steps + 2)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_layers_agree_with_pytorch(name, with_states):
    kind, options = name.split()[0], KINDS[name]
    ours, theirs = both(kind, 4, 5, **options)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(X).astype("f4")]
    if with_states:
        n = X[0] if options.get("batch_first") else X[1]
        layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        states = 2 if kind == "LSTM" else 1
        widths = (options.get("proj_size", 5), 5)[:states]
        inputs += [rng.standard_normal((layers, n, width)).astype("f4") for width in widths]
    compare(ours, theirs, *inputs)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_one_sequence_and_one_step(kind):
    ours, theirs = both(kind, 4, 5)
    rng = np.random.default_rng(0)
    compare(ours, theirs, rng.standard_normal((6, 4)).astype("f4"))
    ours, theirs = both(kind, 4, 5)
    compare(ours, theirs, rng.standard_normal((1, 2, 4)).astype("f4"))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_agree_with_pytorch(kind, bias):
    ours, theirs = both(kind, 4, 5, bias=bias)
    assert repr(ours) == repr(theirs)
    rng = np.random.default_rng(0)
    compare(ours, theirs, rng.standard_normal((3, 4)).astype("f4"))
    ours, theirs = both(kind, 4, 5, bias=bias)
    states = [rng.standard_normal((3, 5)).astype("f4") for _ in range(1 + (kind == "LSTMCell"))]
    compare(ours, theirs, rng.standard_normal((3, 4)).astype("f4"), *states)


def test_a_cell_with_relu():
    ours, theirs = both("RNNCell", 4, 5, nonlinearity="relu")
    assert repr(ours) == repr(theirs)
    compare(ours, theirs, np.random.default_rng(0).standard_normal((3, 4)).astype("f4"))


def test_dropout_is_between_layers_in_training_alone():
    net = nn.LSTM(4, 5, num_layers=2, dropout=0.5)
    assert "dropout=0.5" in repr(net)
    x = clnet.randn(3, 2, 4)
    a, b = net(x)[0].detach().numpy(), net(x)[0].detach().numpy()
    assert not np.array_equal(a, b)
    net.eval()
    assert np.array_equal(net(x)[0].detach().numpy(), net(x)[0].detach().numpy())


def test_a_compiled_step_is_the_eager_one():
    net = nn.GRU(4, 5)
    x = clnet.randn(3, 2, 4)
    expected = net(x)[0].detach().numpy()
    assert np.array_equal(clnet.compile(lambda x: net(x)[0].detach())(x).numpy(), expected)


def test_errors_name_what_is_wrong():
    with pytest.raises(ArgumentError, match="LSTM: proj_size is less than hidden_size"):
        nn.LSTM(4, 5, proj_size=5)
    with pytest.raises(ArgumentError, match="nonlinearity"):
        nn.RNN(4, 5, nonlinearity="sin")
    with pytest.raises(ArgumentError, match="there are layers"):
        nn.GRU(4, 5, num_layers=0)
    with pytest.raises(ArgumentError, match="dropout"):
        nn.GRU(4, 5, dropout=2)
    net = nn.GRU(4, 5)
    with pytest.raises(ShapeError, match="input_size"):
        net(clnet.ones(2, 3))
    with pytest.raises(ShapeError, match="one step or more"):
        net(clnet.ones(0, 3, 4))
    with pytest.raises(ShapeError, match="states are"):
        net(clnet.ones(2, 3, 4), clnet.ones(1, 3, 4))


def test_parameters_are_listed_by_layer_and_direction():
    lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    for names, weights in zip(lstm._all_weights, lstm.all_weights, strict=True):
        assert [id(getattr(lstm, name)) for name in names] == [id(w) for w in weights]
    assert lstm._all_weights[1] == [
        "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"
    ]  # fmt: skip
    assert lstm._flat_weights_names == [name for name, _ in lstm.named_parameters()]
    assert len(lstm._flat_weights) == 16


def test_the_base_of_all_has_their_parameters():
    for mode in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"):
        theirs = torch.nn.RNNBase(mode, 3, 4, num_layers=2, bidirectional=True)
        ours = nn.RNNBase(mode, 3, 4, num_layers=2, bidirectional=True)
        shapes = [(k, tuple(v.shape)) for k, v in theirs.state_dict().items()]
        assert [(k, tuple(v.shape)) for k, v in ours.state_dict().items()] == shapes
    layers = [nn.LSTM(2, 3), nn.GRU(2, 3), nn.RNN(2, 3), nn.RNN(2, 3, nonlinearity="relu")]
    assert [layer.mode for layer in layers] == ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"]
    assert all(isinstance(layer, nn.RNNBase) for layer in layers)
    with pytest.raises(ArgumentError, match="mode is one of LSTM, GRU"):
        nn.RNNBase("lstm", 3, 4)
