"""Fractional pooling beside PyTorch's, for given samples and for drawn ones."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F
from tests.answers import torch
from tests.opcase import OpCase, distinct, every_check, uniform
from tests.torchcase import by_torch

pytestmark = pytest.mark.device


def case(name, shape, kernel, size, **checks):
    count = int(name[-2])
    samples = uniform(0, 1, (*((1,) if len(shape) == count + 1 else shape[:1]), shape[-count - 1],
                             count), grad=False)  # fmt: skip

    def reference(x, drawn):
        return by_torch(name, kernel, size, _random_samples=torch.tensor(drawn))(x)

    return OpCase(
        lambda x, drawn: getattr(F, name)(x, kernel, size, _random_samples=drawn),
        reference, [distinct(*shape), samples], name=name, label=f"{shape}, {kernel}, {size}",
        shapes=[], layouts=(), **checks,
    )  # fmt: skip


CASES = [
    case("fractional_max_pool2d", (2, 3, 11, 9), (2, 3), (5, 4)),
    case("fractional_max_pool2d", (3, 8, 8), 2, (1, 7)),
    case("fractional_max_pool3d", (2, 2, 5, 7, 6), 2, (3, 4, 2)),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_drawn_windows_hold_their_maxima():
    x = clnet.tensor(np.random.default_rng(0).standard_normal((2, 3, 12, 10)).astype(np.float32))
    y, index = F.fractional_max_pool2d(x, 3, output_ratio=0.5, return_indices=True)
    assert (y.shape, index.dtype) == ((2, 3, 6, 5), clnet.int64)
    flat = x.numpy().reshape(2, 3, -1)
    found = np.take_along_axis(flat, index.numpy().reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(found.reshape(y.shape), y.numpy())
    assert (F.fractional_max_pool2d(x, 3, (6, 5)).numpy() != y.numpy()).any(), "drawn anew"


def test_nothing_is_pooled_of_no_batch_or_to_no_windows():
    """As PyTorch does, whose batches of nothing go through a network as others do."""
    assert F.fractional_max_pool2d(clnet.ones(0, 2, 6, 6), 2, (3, 1)).shape == (0, 2, 3, 1)
    assert F.fractional_max_pool2d(clnet.ones(1, 2, 6, 6), 2, (0, 1)).shape == (1, 2, 0, 1)


def test_errors_name_what_is_wrong():
    x = clnet.ones(1, 2, 6, 6)
    with pytest.raises(ArgumentError, match="either output_size or output_ratio is given"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(ArgumentError, match=r"ratios lie in \(0, 1\), one an axis"):
        F.fractional_max_pool2d(x, 2, output_ratio=1.5)
    with pytest.raises(ShapeError, match=r"fractional_max_pool3d: x has 4 or 5 axes"):
        F.fractional_max_pool3d(x[0], 2, 2)
    with pytest.raises(ShapeError, match="windows fit beside each other"):
        F.fractional_max_pool2d(x, 4, 5)
    with pytest.raises(ShapeError, match="there is a sample for each axis of each plane"):
        F.fractional_max_pool2d(x, 2, 3, _random_samples=clnet.ones(1, 2, 3))
    with pytest.raises(DtypeError, match="operands are floating"):
        F.fractional_max_pool2d(x.long(), 2, 3)
