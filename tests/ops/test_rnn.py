"""Steps of recurrent layers against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from tests.opcase import NARROW, OpCase, every_check, normal


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_ref(x, h, c, w_ih, w_hh, b_ih, b_hh):
    i, f, g, o = np.split(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=-1)
    kept = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(kept), kept


def gru_ref(x, h, w_ih, w_hh, b_ih, b_hh):
    (xr, xz, xn), (hr, hz, hn) = (
        np.split(a @ w.T + b, 3, axis=-1) for a, w, b in ((x, w_ih, b_ih), (h, w_hh, b_hh))
    )
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h


def rnn_ref(x, h, w_ih, w_hh, b_ih, b_hh):
    return np.tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)


def relu_ref(x, h, w_ih, w_hh):
    return np.maximum(x @ w_ih.T + h @ w_hh.T, 0)


def weights(gates, inputs=3, hidden=5):
    rows = gates * hidden
    return [normal(rows, inputs), normal(rows, hidden), normal(rows), normal(rows)]


def shapes(states, gates):
    rows, state = gates * 5, ((1, 5),) * states
    return [((1, 3), *state, (rows, 3), (rows, 5), (rows,), (rows,))]


CASES = [
    OpCase(
        lambda x, h, c, *w: ops.lstm_cell(x, (h, c), *w),
        lstm_ref,
        [normal(4, 3), normal(4, 5), normal(4, 5), *weights(4)],
        k=8,
        grad2=True,
        name="lstm_cell",
        shapes=shapes(2, 4),
        dtypes=NARROW,
    ),
    OpCase(
        ops.gru_cell,
        gru_ref,
        [normal(4, 3), normal(4, 5), *weights(3)],
        k=8,
        grad2=True,
        shapes=shapes(1, 3),
    ),
    OpCase(
        ops.rnn_tanh_cell,
        rnn_ref,
        [normal(4, 3), normal(4, 5), *weights(1)],
        k=8,
        grad2=True,
        shapes=shapes(1, 1),
    ),
    OpCase(
        ops.rnn_relu_cell, relu_ref, [normal(4, 3), normal(4, 5), *weights(1)[:2]], k=8, shapes=()
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_rnn(case, check, device):
    check(case, device)


def test_only_one_state_is_used(device):
    """The gradient of a result that nothing depends on is not there."""
    x, h, c = (clnet.randn(2, 3, requires_grad=True) for _ in range(3))
    w = clnet.randn(12, 3)
    ops.lstm_cell(x, (h, c), w, w)[1].sum().backward()
    assert c.grad is not None
    assert np.isfinite(x.grad.numpy()).all()


def test_errors_name_what_is_wrong(device):
    x, w = clnet.ones(2, 3), clnet.ones(12, 3)
    with pytest.raises(ShapeError, match="lstm_cell: x and the state have one batch"):
        ops.lstm_cell(x, (clnet.ones(4, 3), clnet.ones(4, 3)), w, w)
    with pytest.raises(ShapeError, match="both states"):
        ops.lstm_cell(x, (x, clnet.ones(2, 4)), w, w)
    for states in ((), (x,), (x, x, x)):
        with pytest.raises(ArgumentError, match="lstm_cell: hx is the hidden and the cell state"):
            ops.lstm_cell(x, states, w, w)
    with pytest.raises(ShapeError, match="gru_cell"):
        ops.gru_cell(x, x, w, w)
    with pytest.raises(DtypeError, match="floating"):
        ops.gru_cell(clnet.tensor([[1]]), x, w, w)
