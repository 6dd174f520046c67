"""Pooling in one and three axes, adaptive maxima, unpooling and powers, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F
from tests.opcase import OpCase, distinct, every_check, normal, positive, sliced
from tests.torchcase import torch_case

pytestmark = pytest.mark.device

SHAPES = {1: (2, 3, 9), 2: (2, 2, 7, 6), 3: (2, 2, 5, 6, 6)}
EMPTY = {n: [[(0, *shape[1:])], [shape[1:]]] for n, shape in SHAPES.items()}


def maxima(name: str, axes: int, *args, **settings) -> OpCase:
    shapes = EMPTY[axes] if name.startswith("max_pool") else []
    return torch_case(
        name, [distinct(*SHAPES[axes])], *args, shapes=shapes, layouts=(sliced,), **settings
    )


def means(name: str, axes: int, *args, **settings) -> OpCase:
    x = normal(*SHAPES[axes])
    return torch_case(name, [x], *args, shapes=EMPTY[axes], layouts=(sliced,), k=27, **settings)


CASES = [
    *(maxima(f"max_pool{n}d", n, 2) for n in (1, 3)),
    *(maxima(f"max_pool{n}d", n, 3, 2, 1, return_indices=True) for n in (1, 3)),
    *(maxima(f"max_pool{n}d", n, 2, 1, 1, 2, ceil_mode=True, grad=False) for n in (1, 3)),
    maxima("max_pool3d", 3, (3, 2, 2), (1, 2, 3), (1, 0, 1)),
    *(means(f"avg_pool{n}d", n, 2) for n in (1, 3)),
    *(means(f"avg_pool{n}d", n, 3, 2, 1, True, False) for n in (1, 3)),
    *(means(f"avg_pool{n}d", n, 3, 2, 1, True, True) for n in (1, 3)),
    means("avg_pool3d", 3, (3, 2, 2), 2, 1, divisor_override=7),
    *(means(f"adaptive_avg_pool{n}d", n, 4) for n in (1, 3)),
    means("adaptive_avg_pool3d", 3, (None, 1, 4)),
    *(maxima(f"adaptive_max_pool{n}d", n, 4, return_indices=True) for n in (1, 2, 3)),
    maxima("adaptive_max_pool2d", 2, (None, 2)),
    maxima("adaptive_max_pool3d", 3, (2, None, 1)),
    *(
        torch_case(f"lp_pool{n}d", [positive(*SHAPES[n])], 3.0, 2, shapes=[], k=8)
        for n in (1, 2, 3)
    ),
]
CASES += [
    OpCase(
        lambda x, n=n, s=s: getattr(F, f"max_unpool{n}d")(_top(x, n), _where(x, n), 2, None, 0, s),
        lambda x, n=n, s=s: _restored(x, n, s),
        [distinct(*SHAPES[n])],
        shapes=[],
        name=f"max_unpool{n}d",
        label=str(s),
    )
    for n in (1, 2, 3)
    for s in (None, SHAPES[n])
]


def _top(x, n):
    return getattr(F, f"max_pool{n}d")(x, 2)


def _where(x, n):
    return getattr(F, f"max_pool{n}d")(x.detach(), 2, return_indices=True)[1]


def _restored(x: np.ndarray, n: int, size: tuple[int, ...] | None) -> np.ndarray:
    """Zeros but for the largest element of each 2 x ... window."""
    even = tuple(s // 2 * 2 for s in x.shape[2:])
    inner = x[(..., *(slice(e) for e in even))]
    halves = [k for e in even for k in (e // 2, 2)]
    blocks = inner.reshape(*x.shape[:2], *halves)
    top = blocks.max(tuple(range(3, 3 + 2 * n, 2)), keepdims=True)
    kept = np.where(blocks == top, blocks, 0).reshape(inner.shape)
    if size is None:
        return kept
    # A position counts within the plane it was found in, so a larger plane keeps it in place.
    return np.pad(kept, [(0, 0)] * 2 + [(0, s - e) for s, e in zip(x.shape[2:], even, strict=True)])


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("name", ["max_pool3d", "adaptive_max_pool2d"])
def test_nan_wins(name):
    x = clnet.tensor(np.array([[[[1.0, np.nan], [3.0, 2.0]]]], np.float32))
    volume, size = (x, (2, 1)) if name.endswith("2d") else (x.reshape(1, 1, 1, 2, 2), (1, 1, 2))
    y = getattr(F, name)(volume, size).numpy().ravel()
    np.testing.assert_array_equal(y, [np.nan, 3])


def test_overlapping_positions_are_put_once():
    x = clnet.tensor([[[0.0, 0, 0], [0, 5, 0], [0, 0, 0]]])
    y, index = F.max_pool2d(x, 2, 1, return_indices=True)
    back = F.max_unpool2d(y, index, 2, 1)
    np.testing.assert_array_equal(back.numpy(), [[[0, 0, 0], [0, 5, 0], [0, 0, 0]]])


def test_errors_say_what_is_wrong():
    rows, volumes = clnet.ones(1, 2, 6), clnet.ones(1, 2, 4, 4, 4)
    for name in ("max_pool1d", "avg_pool1d"):
        with pytest.raises(ShapeError, match=rf"^{name}: x is \(n, c, l\) or \(c, l\)"):
            getattr(F, name)(volumes, 2)
        with pytest.raises(ArgumentError, match=rf"^{name}: padding is at most half the window"):
            getattr(F, name)(rows, 2, padding=2)
    for name in ("max_pool3d", "avg_pool3d"):
        with pytest.raises(ShapeError, match=rf"^{name}: x is \(n, c, d, h, w\)"):
            getattr(F, name)(rows, 2)
        with pytest.raises(ArgumentError, match=rf"^{name}: padding is at most half the window"):
            getattr(F, name)(volumes, 2, padding=2)
        with pytest.raises(ArgumentError, match=rf"^{name}: sizes and steps are 1 or more"):
            getattr(F, name)(volumes, 0)
        with pytest.raises(ShapeError, match=rf"^{name}: the window fits into the "):
            getattr(F, name)(volumes, 5)
        with pytest.raises(ShapeError, match=rf"^{name}: kernel_size is an int or 3 ints"):
            getattr(F, name)(volumes, (2, 2))
    with pytest.raises(ArgumentError, match=r"^avg_pool3d: the divisor is not 0"):
        F.avg_pool3d(volumes, 2, divisor_override=0)
    with pytest.raises(ArgumentError, match=r"^adaptive_max_pool3d: output_size has 3 sizes"):
        F.adaptive_max_pool3d(volumes, (1, 2))
    with pytest.raises(ArgumentError, match=r"^adaptive_max_pool1d: sizes are 0 or more"):
        F.adaptive_max_pool1d(rows, -1)
    with pytest.raises(ShapeError, match=r"^adaptive_avg_pool1d: what is pooled is not empty"):
        F.adaptive_avg_pool1d(clnet.ones(1, 2, 0), 1)
    with pytest.raises(DtypeError, match=r"^adaptive_max_pool1d: operands are real numbers"):
        F.adaptive_max_pool1d(rows.bool(), 1)
    with pytest.raises(ShapeError, match=r"^max_unpool1d: each value has a position"):
        F.max_unpool1d(rows, clnet.ones(1, 2, 5).long(), 2)
    with pytest.raises(DtypeError, match=r"^max_unpool1d: positions are int64 or int32"):
        F.max_unpool1d(rows, rows, 2)
    with pytest.raises(
        ShapeError, match=r"^max_unpool1d: output_size is within a stride of \(12,\)"
    ):
        F.max_unpool1d(rows, rows.long(), 2, output_size=(15,))


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 3, 2), "stride": (2, 1, 3), "dilation": (2, 1, 2), "ceil_mode": True},
        {"kernel_size": 1, "stride": (2, 1, 2)},
    ],
    ids=str,
)
def test_maxima_of_volumes_in_two_passes_are_those_of_one(how):
    """The first of equal elements gets the gradient, whatever their depth; and the last NaN."""
    rng = np.random.default_rng(3)
    host = rng.integers(0, 3, (2, 3, 7, 9, 11)).astype(np.float32)
    host.ravel()[::97] = np.nan
    found = []
    for indices in (False, True):
        x = clnet.tensor(host, requires_grad=True)
        y = F.max_pool3d(x, **how, return_indices=indices)
        y = y[0] if indices else y
        weights = rng.integers(1, 9, y.shape) if not found else found[0][2]
        (y.nan_to_num(5.0) * clnet.tensor(weights.astype(np.float32))).sum().backward()
        assert x.grad is not None
        found.append((y.detach().numpy(), x.grad.numpy(), weights))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
