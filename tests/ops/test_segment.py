"""Segments of an axis joined, against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DataDomainError, DtypeError, ShapeError

pytestmark = pytest.mark.device

OTHERWISE_TESTED = {"segment_reduce": "test_segments"}
LENGTHS = [[2, 0, 3], [1, 4, 0]]
DATA = np.array([[1.0, 1, 0, 4, 2], [3, -1, 5, 5, 0]])[..., None] * [1.0, -2.0]
EMPTY = {"sum": 0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1}


def joined(reduce, part, initial):
    if not len(part):
        return np.full(part.shape[1:], EMPTY[reduce] if initial is None else initial)
    start = [] if initial is None else [np.full(part.shape[1:], initial)]
    if reduce == "mean":
        return (part.sum(0) + sum(start)) / len(part)
    return getattr(np, reduce)(np.stack([*start, *part]), 0)


@pytest.mark.parametrize("reduce", EMPTY)
@pytest.mark.parametrize("initial", [None, 1.0])
def test_segments(reduce, initial):
    x = clnet.tensor(DATA, requires_grad=True)
    y = clnet.segment_reduce(x, reduce, lengths=clnet.tensor(LENGTHS), axis=1, initial=initial)
    ends = np.cumsum(LENGTHS, -1)
    wanted = [
        [joined(reduce, row[end - n : end], initial) for n, end in zip(lengths, of, strict=True)]
        for row, lengths, of in zip(DATA, LENGTHS, ends, strict=True)
    ]
    np.testing.assert_allclose(y.detach().numpy(), wanted)
    torch = pytest.importorskip("torch")
    z = torch.tensor(DATA, requires_grad=True)
    lengths = torch.tensor(LENGTHS)
    torch.segment_reduce(z, reduce, lengths=lengths, axis=1, initial=initial).nansum().backward()
    y.nansum().backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy())


def test_offsets():
    x = clnet.arange(5.0)
    y = clnet.segment_reduce(x, "max", offsets=clnet.tensor([0, 2, 2, 5]))
    assert y.tolist() == [1, -np.inf, 4]
    part = clnet.segment_reduce(x, "sum", lengths=clnet.tensor([1, 2]), unsafe=True)
    assert part.tolist() == [0, 3]


def test_errors():
    x, lengths = clnet.ones(2, 3), clnet.tensor([1, 1])
    with pytest.raises(ArgumentError, match="reduce is one of sum, mean, max, min, prod"):
        clnet.segment_reduce(x, "median", lengths=lengths)
    for given in ({}, {"lengths": lengths, "offsets": lengths}, {"indices": lengths}):
        with pytest.raises(ArgumentError, match="either lengths or offsets are given"):
            clnet.segment_reduce(x, "sum", **given)
    with pytest.raises(ShapeError, match="lengths have the axes of data"):
        clnet.segment_reduce(x, "sum", lengths=lengths, axis=1)
    with pytest.raises(DtypeError, match="operands are floating"):
        clnet.segment_reduce(x.int(), "sum", lengths=lengths)
    clnet.segment_reduce(x, "sum", lengths=lengths * 2)
    with pytest.raises(DataDomainError, match="add up to the axis of data"):
        clnet.synchronize()


def test_extremes_have_two_names(device):
    x, lengths = clnet.tensor([1.0, 3.0, 2.0]), clnet.tensor([2, 1])
    for name in ("max", "min"):
        y, z = (
            clnet.segment_reduce(x, n, lengths=lengths, initial=2.5) for n in (name, f"a{name}")
        )
        np.testing.assert_array_equal(y.numpy(), z.numpy())


@pytest.mark.parametrize("how", ["max", "min"])
def test_nans_of_a_segment_share_the_gradient_of_its_extreme(how):
    data = clnet.tensor([np.nan, 5.0, np.nan, np.nan, 7.0, 7.0], requires_grad=True)
    y = clnet.segment_reduce(data, how, lengths=clnet.tensor([3, 1, 2]))
    y.backward(clnet.tensor([6.0, 4.0, 2.0]))
    assert data.grad.tolist() == [3.0, 0.0, 3.0, 4.0, 1.0, 1.0]
