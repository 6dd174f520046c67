"""Pooling ops."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from tests.opcase import NARROW, OpCase, distinct, every_check, normal

ONE_PLANE = [[(1, 1, 4, 4)], [(0, 2, 7, 6)]]


def windows(x: np.ndarray, k: int, s: int, p: int, fill: float, out: tuple[int, int]) -> np.ndarray:
    """``(n, c, oh, ow, k * k)``: what each window sees."""
    n, c, h, w = x.shape
    far = (out[0] - 1) * s + k, (out[1] - 1) * s + k
    padded = np.full((n, c, max(h + 2 * p, far[0]), max(w + 2 * p, far[1])), float(fill))
    padded[:, :, p : p + h, p : p + w] = x
    y = np.empty((n, c, *out, k * k))
    for i, j in np.ndindex(out):
        y[:, :, i, j] = padded[:, :, i * s : i * s + k, j * s : j * s + k].reshape(n, c, k * k)
    return y


def out_size(x: np.ndarray, k: int, s: int, p: int) -> tuple[int, int]:
    return (x.shape[2] + 2 * p - k) // s + 1, (x.shape[3] + 2 * p - k) // s + 1


def max_reference(x, k, s, p):
    return windows(x, k, s, p, -np.inf, out_size(x, k, s, p)).max(-1)


def avg_reference(x, k, s, p, *, include_pad=True):
    seen = windows(x, k, s, p, 0, out_size(x, k, s, p)).sum(-1)
    ones = windows(np.ones_like(x), k, s, p, 0, out_size(x, k, s, p)).sum(-1)
    return seen / (k * k if include_pad else ones)


def global_reference(x):
    return x.mean((2, 3), keepdims=True)


CASES = [
    OpCase(
        lambda x: ops.max_pool2d(x, 2),
        lambda x: max_reference(x, 2, 2, 0),
        [distinct(2, 3, 7, 6)],
        shapes=ONE_PLANE,
        name="max_pool2d",
        label="2",
    ),
    OpCase(
        lambda x: ops.max_pool2d(x, 3, 2, 1),
        lambda x: max_reference(x, 3, 2, 1),
        [distinct(2, 2, 9, 8)],
        name="max_pool2d",
        label="3, stride=2, padding=1",
        dtypes=NARROW,
        shapes=ONE_PLANE,
    ),
    OpCase(
        lambda x: ops.avg_pool2d(x, 2),
        lambda x: avg_reference(x, 2, 2, 0),
        [normal(2, 3, 7, 6)],
        k=4,
        shapes=ONE_PLANE,
        name="avg_pool2d",
        label="2",
    ),
    OpCase(
        lambda x: ops.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: avg_reference(x, 3, 2, 1, include_pad=False),
        [normal(2, 2, 9, 8)],
        k=9,
        shapes=ONE_PLANE,
        name="avg_pool2d",
        label="3, stride=2, padding=1",
        dtypes=NARROW,
    ),
    OpCase(
        lambda x: ops.adaptive_avg_pool2d(x, 1),
        global_reference,
        [normal(3, 4, 5, 7)],
        k=35,
        shapes=ONE_PLANE,
        name="adaptive_avg_pool2d",
        label="1",
        dtypes=NARROW,
    ),
    OpCase(
        lambda x: ops.adaptive_avg_pool2d(x, (2, None)),
        lambda x: x.reshape(*x.shape[:2], 2, -1, x.shape[3]).mean(3),
        [normal(2, 2, 6, 5)],
        k=3,
        shapes=ONE_PLANE[:1],
        name="adaptive_avg_pool2d",
        label="2, None",
    ),
]


# The ops are linear but for the choice of the maximum: second derivatives show in a composition.
CASES += [
    OpCase(
        lambda x: ops.max_pool2d(x * x * x, 3, 2, 1),
        lambda x: max_reference(x**3, 3, 2, 1),
        [distinct(2, 1, 6, 5)],
        grad2=True,
        k=3,
        shapes=[],
        name="max_pool2d",
        label="of cubes",
    ),
    OpCase(
        lambda x: ops.avg_pool2d(x * x * x, 3, 2, 1),
        lambda x: avg_reference(x**3, 3, 2, 1),
        [normal(2, 1, 6, 5)],
        grad2=True,
        k=9,
        shapes=[],
        name="avg_pool2d",
        label="of cubes",
    ),
    OpCase(
        lambda x: ops.adaptive_avg_pool2d(x * x * x, 1),
        lambda x: global_reference(x**3),
        [normal(2, 2, 3, 4)],
        grad2=True,
        k=12,
        shapes=[],
        name="adaptive_avg_pool2d",
        label="of cubes",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 2},
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "ceil_mode": True},
        {"kernel_size": 2, "stride": 3, "dilation": 2, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (3, 8, 9)], ids=str)
def test_pooling_agrees_with_pytorch(settings, shape):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    functional = torch.nn.functional
    host = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x, theirs = clnet.tensor(host, requires_grad=True), torch.tensor(host, requires_grad=True)
    y, index = ops.max_pool2d(x, **settings, return_indices=True)
    expected, where = functional.max_pool2d(theirs, **settings, return_indices=True)
    np.testing.assert_array_equal(y.detach().numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(index.numpy(), where.numpy())
    assert index.dtype is clnet.int64
    (y * y).backward(clnet.ones(y.shape))
    (expected * expected).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)
    settings = {k: v for k, v in settings.items() if k != "dilation"}
    for extra in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
        np.testing.assert_allclose(
            ops.avg_pool2d(x.detach(), **settings, **extra).numpy(),
            functional.avg_pool2d(theirs.detach(), **settings, **extra).numpy(),
            rtol=1e-5,
            atol=1e-6,
        )


def test_max_pool2d_without_gradient_stores_no_positions():
    x = clnet.ones(1, 1, 4, 4)
    launched = ops.max_pool2d(x, 2)
    assert launched.shape == (1, 1, 2, 2)
    assert launched.numpy().tolist() == [[[[1, 1], [1, 1]]]]


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x: ops.max_pool2d(x, 5), ShapeError, "the window fits into the image"),
        (lambda x: ops.max_pool2d(x, 2, padding=2), ArgumentError, "at most half the window"),
        (lambda x: ops.max_pool2d(x, 0), ArgumentError, "1 or more"),
        (lambda x: ops.avg_pool2d(x, 2, divisor_override=0), ArgumentError, "not 0"),
        (lambda x: ops.avg_pool2d(x.reshape(16), 2), ShapeError, r"\(n, c, h, w\)"),
        (lambda x: ops.avg_pool2d(x.int(), 2), DtypeError, "floating"),
        (lambda x: ops.adaptive_avg_pool2d(x, -1), ArgumentError, "0 or more"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(1, 1, 4, 4))
