"""What masks pick in functions that are compiled: as in eager ones, or refused by the line."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet.errors import TraceError

pytestmark = pytest.mark.device


def assigned(x):
    """Under the masks lie numbers of which roots and logarithms elsewhere are NaN."""
    y, mask = x * 1, x > 2
    y[mask] += 1
    y[mask] *= 2 - y[mask]
    low = ~mask
    y[low] = clnet.tensor(3.0) * y[low].exp() + 1
    y[mask] = clnet.sqrt(x[mask] - 2) * clnet.tensor(0.5)
    picked = y[mask]
    picked.mul_(2).clamp_(max=1.5)
    y[mask] = picked - clnet.log(x[mask] - 2)
    y[mask & (x < 5)] = 7
    rows = clnet.stack([y, y])
    first = clnet.tensor([True, False])
    rows[first] *= clnet.arange(6)
    return rows


def summed(x):
    mask = x > 2
    loss = F.mse_loss(x[mask], (x * 3)[mask]) + F.relu(x[mask]).sum() + x[mask].mean()
    return loss + F.l1_loss(x[mask] * 2, x[mask], reduction="sum") + (x[mask] > 3).sum()


@pytest.mark.parametrize("function", [assigned, summed])
def test_compiled_is_eager_with_its_gradient(function):
    x = clnet.arange(6, dtype=clnet.float32).requires_grad_()

    def both(x):
        y = function(x)
        return y, clnet.autograd.grad(y.sum(), x)[0]

    compiled = clnet.compile(both)
    for sign in (1, -1, 1):
        given = (x.detach() * sign + (sign < 0) * 3).requires_grad_()
        for a, b in zip(both(given), compiled(given), strict=True):
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-6)


REFUSED = {
    "shape": lambda x: x[x > 2].shape,
    "dtype": lambda x: clnet.cat([x[x > 2], x]),
    "sort": lambda x: x[x > 2].sort(),
    "max": lambda x: clnet.max(x[x > 2]),
    "sum": lambda x: x[x > 2].sum(0),
    "matmul": lambda x: x[x > 2] @ x[x > 2],
    "len": lambda x: len(x[x > 2]),
    "bool": lambda x: x if x[x > 2] else -x,
    "iter": lambda x: list(x[x > 2]),
    "__getitem__": lambda x: x[x > 2][0],
    "add": lambda x: x[x > 2] + x,
    "__add__": lambda x: x[x > 2] + x[x > 3],
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_needs_the_number_of_elements_is_refused_by_the_line(op):
    with pytest.raises(TraceError, match="how many elements a mask picks") as caught:
        clnet.compile(REFUSED[op])(clnet.arange(6, dtype=clnet.float32))
    assert "test_chosen.py" in str(caught.value)


def test_another_mask_is_refused():
    def equal_but_another(x):
        y = x * 1
        y[y > 2] = y[y > 2] * 2
        return y

    def written_between(x):
        y, mask = x * 1, x > 2
        picked = y[mask]
        mask &= x < 4
        y[mask] = picked
        return y

    for function in (equal_but_another, written_between):
        with pytest.raises(TraceError, match=r"Assign under the mask that picked"):
            clnet.compile(function)(clnet.arange(6, dtype=clnet.float32))
