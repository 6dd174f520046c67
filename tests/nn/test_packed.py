"""Packed and padded sequences, and recurrent layers over them, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, ShapeError
from clnet.ops.index import MovedRows
from clnet.ops.machinery.function import apply
from tests.answers import torch

rnn = nn.utils.rnn
pytestmark = pytest.mark.device

LENGTHS = [3, 5, 1, 3]
HOST = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)


def pairs(*values):
    return [(clnet.tensor(v), torch.tensor(v)) for v in values]


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_agrees_with_pytorch_and_is_undone(batch_first):
    host = np.ascontiguousarray(HOST.swapaxes(0, 1)) if batch_first else HOST
    ((x, t),) = pairs(host)
    how = {"batch_first": batch_first}
    ours = rnn.pack_padded_sequence(x, clnet.tensor(LENGTHS), enforce_sorted=False, **how)
    theirs = torch.nn.utils.rnn.pack_padded_sequence(t, LENGTHS, enforce_sorted=False, **how)
    assert ours.batch_sizes.tolist() == theirs.batch_sizes.tolist()
    back, lengths = rnn.pad_packed_sequence(ours, padding_value=-1.0, total_length=6, **how)
    again, expected = torch.nn.utils.rnn.pad_packed_sequence(
        theirs, padding_value=-1.0, total_length=6, **how
    )
    np.testing.assert_array_equal(back.numpy(), again.numpy())
    assert lengths.tolist() == expected.tolist() == LENGTHS


def test_padding_agrees_with_pytorch_and_is_undone():
    rows = [clnet.tensor(HOST[:n, i]) for i, n in enumerate(LENGTHS)]
    theirs = [torch.tensor(HOST[:n, i]) for i, n in enumerate(LENGTHS)]
    for side in ("left", "right"):
        ours = rnn.pad_sequence(rows, True, 0.5, side)
        expected = torch.nn.utils.rnn.pad_sequence(theirs, True, 0.5, side)
        np.testing.assert_array_equal(ours.numpy(), expected.numpy())
    back = rnn.unpad_sequence(rnn.pad_sequence(rows), LENGTHS)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(back, rows, strict=True))
    packed = rnn.pack_sequence(rows, enforce_sorted=False)
    reference = torch.nn.utils.rnn.pack_sequence(theirs, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == reference.batch_sizes.tolist()
    assert packed.data.shape == tuple(reference.data.shape)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("LSTM", {"proj_size": 2}),
        ("GRU", {"bidirectional": True}),
        ("RNN", {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["each step", "padded", "side by side"])
def test_layers_over_packed_sequences_agree_with_pytorch(
    kind, options, with_states, way, monkeypatch
):
    monkeypatch.setattr("clnet.nn.packed_steps._MOST_ON_CPUS", 0 if way == "each step" else 9)
    if way == "side by side":  # as GPUs compute them
        monkeypatch.setattr("clnet.nn.rnn.side_by_side", lambda x: True)
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(3, 4, **options)
    ours = getattr(nn, kind)(3, 4, **options)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(1)
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    widths = (options.get("proj_size", 4), 4)[: 1 + (kind == "LSTM")]
    hosts = [rng.standard_normal((layers, 4, w)).astype("f4") for w in widths]
    results = []
    for package, layer in ((clnet, ours), (torch, theirs)):
        x = package.tensor(HOST, requires_grad=True)
        given = [package.tensor(h) for h in hosts]
        hx = (tuple(given) if kind == "LSTM" else given[0],) if with_states else ()
        tools = package.nn.utils.rnn
        packed = tools.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        y, last = layer(packed, *hx)
        y, _ = tools.pad_packed_sequence(y)
        ends = last if isinstance(last, tuple) else (last,)
        (sum((s * s).sum() for s in ends) + (y * y * y).sum()).backward()
        found = [y, *ends, x.grad, *(p.grad for p in layer.parameters())]
        results.append([t.detach().numpy() for t in found])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_sizes_and_places_are_tensors_as_pytorchs():
    results = []
    for package in (clnet, torch):
        tools = package.nn.utils.rnn
        x = package.tensor(HOST)
        packed = tools.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        data, sizes, places, back = packed
        again = tools.PackedSequence(data, sizes, places)  # the inverse follows
        lengths = package.tensor(LENGTHS)
        found = [*packed, places, back, again.unsorted_indices, lengths[places]]
        found += [lengths[places].index_select(0, back), tools.pad_packed_sequence(again)[0]]
        assert sizes.dtype == places.dtype == package.int64
        assert packed.batch_sizes[0].item() == len(LENGTHS)
        assert packed.double().sorted_indices is not None
        sorted_ = tools.pack_padded_sequence(x, [5, 3, 3, 1])
        assert sorted_.sorted_indices is sorted_.unsorted_indices is None
        results.append([t.numpy() for t in found])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_of_padded_sequences_are_those_of_one_of_their_length():
    """However many sequences end before: a layer's launches are counted by steps."""
    layer, launched = nn.LSTM(3, 4), []
    for lengths in ([9, 9, 9, 9], [9, 7, 5, 3]):
        packed = rnn.pack_padded_sequence(clnet.ones(9, 4, 3), lengths)
        with clnet.no_grad(), clnet.profile() as seen:
            layer(packed)
        launched.append(seen.totals(lambda command: command.op)["lstm_sequence"].calls)
    assert launched[0] == launched[1]


def test_rows_are_moved_and_moved_back():
    x = clnet.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    to, back = clnet.tensor([4, 0, 2]), clnet.tensor([1, 3, 2, 3, 0])
    y = apply(MovedRows(), x, back, to)
    np.testing.assert_array_equal(y.detach().numpy(), [[2, 3], [0, 0], [4, 5], [0, 0], [0, 1]])
    (slope,) = clnet.autograd.grad((y * y * y).sum(), [x], create_graph=True)
    (bend,) = clnet.autograd.grad(slope.sum(), [x])
    values = x.detach().numpy()
    np.testing.assert_allclose(slope.detach().numpy(), 3 * values**2)
    np.testing.assert_allclose(bend.numpy(), 6 * values)


def test_sizes_that_a_program_writes_count():
    packed = rnn.pack_padded_sequence(clnet.tensor(HOST), [5, 3, 3, 1])
    packed.batch_sizes.fill_(1)
    assert packed.sizes == (1,) * 5


def test_packed_sequences_are_compiled_inside_a_function():
    layer, (x,) = nn.GRU(3, 4), (clnet.tensor(HOST),)

    def run(x):
        packed = rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        packed = rnn.PackedSequence(packed.data * 2, packed.batch_sizes, packed.sorted_indices)
        return layer(packed)[0]

    eager, compiled = run(x), clnet.compile(run)
    for _ in range(2):
        found = compiled(x)
        assert isinstance(found, rnn.PackedSequence)
        assert found.sizes == eager.sizes
        for a, b in zip(found, eager, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_errors_name_what_is_wrong():
    x = clnet.tensor(HOST)
    with pytest.raises(ArgumentError, match="the longest come first"):
        rnn.pack_padded_sequence(x, LENGTHS)
    with pytest.raises(ShapeError, match="each sequence has a length, from 1 to the steps"):
        rnn.pack_padded_sequence(x, [6, 5, 4, 3])
    with pytest.raises(ArgumentError, match="total_length holds the longest"):
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [5, 3, 3, 1]), total_length=4)
    with pytest.raises(ArgumentError, match="padding_side is left or right"):
        rnn.pad_sequence([x], padding_side="top")
    packed = rnn.pack_padded_sequence(x, [5, 3, 3, 1])
    with pytest.raises(ShapeError, match=r"GRU: packed data is \(steps, input_size\)"):
        nn.GRU(4, 5)(packed)
    with pytest.raises(ShapeError, match="states are"):
        nn.GRU(3, 5)(packed, clnet.ones(1, 3, 5))


def test_sequences_change_their_dtype_and_stay_themselves_else():
    packed = rnn.pack_sequence([clnet.arange(3), clnet.arange(2)])
    assert packed.to("cpu") is packed.long() is packed
    names = {"int": "int32", "short": "int16", "char": "int8", "byte": "uint8"}
    for name, dtype in names.items():
        found = getattr(packed, name)()
        assert found.data.dtype is getattr(clnet, dtype)
        assert found.data.tolist() == packed.data.tolist()
