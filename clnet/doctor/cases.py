"""The cases: computations of every family of kernels, small and of odd sizes.

Sizes are chosen for what they reach: a size beyond a tile and below two, rows that are no whole
number of vectors, more elements than one group takes. Which variant of a kernel serves is up to the
device's traits, as in any program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..tensor import Tensor
from ..values.dtypes import float16, float32, int32
from . import reference as ref
from .case import Case, Gradient, values
from .draw import Draw, apart, between, normal, with_whole
from .further import factorisations, precisions, random, recurrent, transforms


def _map(
    name: str,
    compute: Callable[..., Tensor],
    reference: Callable[..., Any],
    slope: Callable[..., Any],
    draw: Draw,
    **given: Any,
) -> Case:
    """A function of each element, with its derivative."""

    def gradient(c: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (c * slope(x),)

    return Case(name, "pointwise", compute, reference, draw, gradient, **given)


_MANY = 70_001  # more than a group, or a core, takes at once
_ERF = np.vectorize(math.erf, otypes=[np.float64])
_ROOT_PI = math.sqrt(math.pi)
# Largest, infinite and no numbers, zeros of both signs.
_SPECIAL = np.array(
    [0.0, -0.0, 3e38, -3e38, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 1],
    np.float32,
)


def pointwise() -> list[Case]:
    """Elements one by one: functions, rounding, special numbers, whole numbers."""
    wide, positive = between(-9, 9, (_MANY,)), between(1e-3, 50, (1013,))
    small = between(-9, 9, (1013,))
    return [
        _map("exp", ops.exp, np.exp, np.exp, wide),
        _map("log", ops.log, np.log, lambda x: 1 / x, positive),
        _map("tanh", ops.tanh, np.tanh, lambda x: 1 / np.cosh(x) ** 2, small),
        _map("erf", ops.erf, _ERF, lambda x: 2 / _ROOT_PI * np.exp(-x * x), small),
        _map(
            "sigmoid",
            ops.sigmoid,
            ref.sigmoid,
            lambda x: ref.sigmoid(x) * ref.sigmoid(-x),
            small,
        ),
        _map("sqrt", lambda x: x.sqrt(), np.sqrt, lambda x: 0.5 / np.sqrt(x), positive),
        _map("rsqrt", ops.rsqrt, lambda x: x**-0.5, lambda x: -0.5 * x**-1.5, positive),
        _map("sin", ops.sin, np.sin, np.cos, small),
        _map("cos", ops.cos, np.cos, lambda x: -np.sin(x), small),
        _map("atan", ops.atan, np.arctan, lambda x: 1 / (1 + x * x), small),
        _map("power", lambda x: x**2.7, lambda x: x**2.7, lambda x: 2.7 * x**1.7, positive),
        Case(
            "broadcast",
            "pointwise",
            lambda x, y, z: (x * y + z) / (y * y + 1),
            lambda x, y, z: (x * y + z) / (y * y + 1),
            normal((5, 1, 17), (3, 1), (17,)),
        ),
    ]


def exact() -> list[Case]:
    """Special numbers, rounding, whole numbers, other precisions."""
    return [
        values(
            "special numbers",
            lambda x: ops.stack(
                [x * 1.0, ops.maximum(x, x * 0), ops.isnan(x).to(float32), ops.floor(x)]
            ),
            lambda x: np.stack([x, np.maximum(x, x * 0), np.isnan(x), np.floor(x)]),
            lambda rng: [np.tile(rng.permutation(_SPECIAL), 70)],
            family="pointwise",
            tolerance=0,
        ),
        values(
            "rounding",
            lambda x: ops.stack([ops.round(x), ops.trunc(x), ops.ceil(x), x.to(int32).to(float32)]),
            lambda x: np.stack([np.round(x), np.trunc(x), np.ceil(x), np.trunc(x)]),
            lambda rng: [(rng.integers(-40, 40, 601) / 2).astype(np.float32)],
            family="pointwise",
            tolerance=0,
        ),
        values(
            "whole numbers",
            lambda x, y: ops.stack([x // y, x % y, x * y, x ^ y, x - y, ops.where(x > y, x, y)]),
            lambda x, y: np.stack([x // y, x % y, x * y, x ^ y, x - y, np.maximum(x, y)]),
            lambda rng: [
                rng.integers(-(10**9), 10**9, 997, np.int32),
                rng.integers(1, 46_000, 997, np.int32) * rng.choice([-1, 1], 997).astype(np.int32),
            ],
            family="pointwise",
            tolerance=0,
        ),
        values(
            "a long sum kept in order",
            lambda x: (x + 1e-4) * (x - 1e-4) - x * x,
            lambda x: (
                (x.astype(np.float32) + np.float32(1e-4))
                * (x.astype(np.float32) - np.float32(1e-4))
                - x.astype(np.float32) * x.astype(np.float32)
            ),
            between(0.5, 2, (1013,)),
            family="pointwise",
            tolerance=0,
        ),
    ]


def _product(name: str, m: int, k: int, n: int, **given: Any) -> Case:
    def gradient(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        return c @ b.T, a.T @ c

    draw = normal((m, k), (k, n))
    return Case(name, "gemm", ops.matmul, lambda a, b: a @ b, draw, gradient, **given)


def gemm() -> list[Case]:
    """Products of matrices: tiny, off the tiles, skinny, batched, with what follows them."""

    def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return ops.relu(ops.linear(x, w, b))

    def linear_gradient(
        c: np.ndarray, x: np.ndarray, w: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        c = c * (x @ w.T + b > 0)
        return c @ w, c.T @ x, c.sum(0)

    def batched(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        return c @ b.swapaxes(1, 2), a.swapaxes(1, 2) @ c

    return [
        _product("product, tiny", 3, 5, 2),
        _product("product, off the tiles", 67, 33, 41),
        _product("product, several tiles", 131, 160, 129),
        _product("product, skinny", 1, 300, 77),
        Case(
            "product, batched",
            "gemm",
            ops.matmul,
            lambda a, b: a @ b,
            normal((3, 17, 9), (3, 9, 21)),
            batched,
        ),
        Case(
            "linear layer",
            "gemm",
            linear,
            lambda x, w, b: np.maximum(x @ w.T + b, 0),
            normal((37, 65), (50, 65), (50,)),
            linear_gradient,
        ),
        values(
            "product of half precision",
            lambda a, b: (a.to(float16) @ b.to(float16)).to(float32),
            lambda a, b: a.astype(np.float16).astype(float) @ b.astype(np.float16).astype(float),
            normal((40, 64), (64, 48)),
            family="gemm",
            tolerance=2e-3,
        ),
        Case(
            "product of doubles",
            "gemm",
            ops.matmul,
            lambda a, b: a @ b,
            normal((19, 23), (23, 21), dtype=np.float64),
            lambda c, a, b: (c @ b.T, a.T @ c),
            tolerance=1e-13,
            needs="float64",
        ),
    ]


def _conv(name: str, x: tuple[int, ...], w: tuple[int, ...], **given: int) -> Case:
    torch = {"step": "stride", "pad": "padding", "apart": "dilation", "groups": "groups"}
    named: Any = {torch[key]: value for key, value in given.items()}
    gradient: Gradient = lambda c, x, w: ref.conv_gradients(c, x, w, **given)  # noqa: E731
    return Case(
        name,
        "conv",
        lambda x, w: ops.conv2d(x, w, **named),
        lambda x, w: ref.conv(x, w, **given),
        normal(x, w),
        gradient,
    )


def conv() -> list[Case]:
    """Convolutions: each algorithm that geometry and device lead to."""
    return [
        _conv("convolution, few channels", (2, 3, 11, 13), (5, 3, 3, 3), pad=1),
        _conv("convolution, many channels", (2, 16, 14, 14), (24, 16, 3, 3), pad=1),
        _conv("convolution, strided", (3, 6, 15, 17), (7, 6, 5, 5), step=2, pad=2),
        _conv("convolution, dilated", (2, 4, 13, 12), (6, 4, 3, 3), apart=2, pad=1),
        _conv("convolution, 1 x 1", (2, 17, 9, 9), (13, 17, 1, 1)),
        _conv("convolution, depthwise", (2, 9, 12, 14), (9, 1, 3, 3), pad=1, groups=9),
        _conv("convolution, grouped", (2, 8, 9, 10), (12, 4, 3, 3), groups=2),
    ]


def pool() -> list[Case]:
    """Pooling."""
    return [
        Case(
            "largest of windows",
            "pool",
            lambda x: ops.max_pool2d(x, 3, stride=2, padding=1),
            lambda x: ref.max_pool(x, 3, step=2, pad=1),
            apart(2, 3, 10, 13),
        ),
        Case(
            "means of windows",
            "pool",
            lambda x: ops.avg_pool2d(x, 2),
            lambda x: ref.avg_pool(x, 2, step=2),
            normal((2, 3, 8, 14)),
        ),
        Case(
            "means of windows that overlap",
            "pool",
            lambda x: ops.avg_pool2d(x, 3, stride=1, padding=1),
            lambda x: ref.avg_pool(x, 3, step=1, pad=1),
            normal((2, 2, 9, 11)),
        ),
    ]


def norm() -> list[Case]:
    """Norms of rows, of groups and of batches."""
    return [
        Case(
            "layer norm",
            "norm",
            lambda x, w, b: ops.layer_norm(x, (37,), w, b),
            lambda x, w, b: ref.normed(x, (1,)) * w + b,
            normal((9, 37), (37,), (37,)),
            tolerance=3e-5,
        ),
        Case(
            "rms norm",
            "norm",
            lambda x, w: ops.rms_norm(x, (41,), w, 1e-5),
            lambda x, w: x / np.sqrt(np.mean(x * x, 1, keepdims=True) + 1e-5) * w,
            normal((7, 41), (41,)),
            tolerance=3e-5,
        ),
        Case(
            "batch norm",
            "norm",
            lambda x, w, b: ops.batch_norm(x, None, None, w, b, training=True),
            ref.batch_norm,
            normal((4, 5, 6, 7), (5,), (5,)),
            tolerance=3e-5,
        ),
        Case(
            "group norm",
            "norm",
            lambda x, w, b: ops.group_norm(x, 2, w, b),
            lambda x, w, b: ref.group_norm(x, w, b, 2),
            normal((3, 6, 5, 5), (6,), (6,)),
            tolerance=3e-5,
        ),
    ]


def softmax() -> list[Case]:
    """Softmax, its logarithm, and the loss made of it."""
    return [
        Case(
            "softmax", "softmax", lambda x: ops.softmax(x, -1), ref.softmax, between(-8, 8, (9, 67))
        ),
        Case(
            "logarithm of softmax",
            "softmax",
            lambda x: ops.log_softmax(x, -1),
            lambda x: x - ref.log_sum_exp(x)[:, None],
            between(-8, 8, (13, 33)),
        ),
        Case(
            "cross entropy",
            "softmax",
            ops.cross_entropy,
            ref.cross_entropy,
            with_whole(normal((33, 10)), 10, 33),
        ),
    ]


def attention() -> list[Case]:
    """Attention, whole and causal."""

    def of(name: str, rows: int, *, causal: bool) -> Case:
        return Case(
            name,
            "attention",
            lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, is_causal=causal),
            lambda q, k, v: ref.attention(q, k, v, causal=causal),
            normal(*[(2, 2, rows, 8)] * 3),
            tolerance=3e-5,
        )

    return [of("attention", 13, causal=False), of("attention, causal", 11, causal=True)]


def _of_rows(value: Callable[[np.ndarray], np.ndarray]) -> Gradient:
    """The gradient of what gives a number a row: so many times the row's cotangent."""
    return lambda c, x: (np.broadcast_to(c[:, None] * value(x), x.shape).copy(),)


def reductions() -> list[Case]:
    """Sums, largest numbers, scans: along rows, columns and all."""

    def sums(x: Tensor) -> Tensor:
        return ops.sum(x, 0) + ops.mean(x)

    def sums_gradient(c: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.broadcast_to(c, x.shape) + c.sum() / x.size,)

    return [
        Case(
            "sums of columns and of all",
            "reductions",
            sums,
            lambda x: x.sum(0) + x.mean(),
            normal((203, 37)),
            sums_gradient,
        ),
        Case(
            "sums of rows",
            "reductions",
            lambda x: ops.sum(x, 1),
            lambda x: x.sum(1),
            normal((37, 1031)),
            _of_rows(lambda x: np.ones((1, 1))),
        ),
        Case(
            "sum of many",
            "reductions",
            lambda x: ops.sum(x * x),
            lambda x: np.sum(x * x),
            normal((_MANY,)),
            lambda c, x: (2 * c * x,),
        ),
    ]


def along_rows() -> list[Case]:
    """Largest numbers and their places, running sums, deviations."""
    return [
        Case(
            "largest of rows",
            "reductions",
            lambda x: ops.amax(x, 1),
            lambda x: x.max(1),
            apart(9, 131),
            _of_rows(lambda x: x == x.max(1, keepdims=True)),
        ),
        values(
            "place of the largest",
            lambda x: ops.argmax(x, 1).to(float32),
            lambda x: x.argmax(1),
            apart(17, 131),
            family="reductions",
            tolerance=0,
        ),
        Case(
            "running sums",
            "reductions",
            lambda x: ops.cumsum(x, 1),
            lambda x: x.cumsum(1),
            normal((5, 300)),
            lambda c, x: (c[:, ::-1].cumsum(1)[:, ::-1],),
        ),
        Case(
            "deviation", "reductions", lambda x: ops.var(x, 1), lambda x: x.var(1, ddof=1),
            normal((7, 53)), tolerance=3e-5,
        ),
    ]  # fmt: skip


def indexing() -> list[Case]:
    """Rows and elements by their index, sorting, and moving."""

    def scattered(x: np.ndarray, index: np.ndarray) -> np.ndarray:
        y = np.zeros((11, x.shape[1]))
        np.add.at(y, index, x)
        return y

    return [
        Case(
            "rows of a table",
            "indexing",
            lambda w, i: ops.embedding(i, w),
            lambda w, i: w[i],
            with_whole(normal((23, 17)), 23, 4, 9),
            lambda c, w, i: (scattered_rows(c, w, i),),
        ),
        Case(
            "elements by index",
            "indexing",
            lambda x, i: ops.gather(x, 1, i),
            lambda x, i: np.take_along_axis(x, i, 1),
            with_whole(normal((7, 19)), 19, 7, 30),
        ),
        Case(
            "sums of rows by index",
            "indexing",
            lambda x, i: ops.index_add(x.new_zeros(11, 13), 0, i, x),
            scattered,
            with_whole(normal((29, 13)), 11, 29),
            lambda c, x, i: (c[i],),
        ),
        Case(
            "sorted",
            "indexing",
            lambda x: ops.sort(x, 1)[0],
            lambda x: np.sort(x, 1),
            apart(5, 77),
            lambda c, x: (np.take_along_axis(c, x.argsort(1).argsort(1), 1),),
        ),
        Case(
            "turned, joined and padded",
            "indexing",
            lambda x, y: ops.pad(ops.cat([x.mT, ops.flip(y, [0])], 1), (2, 3)),
            lambda x, y: np.pad(np.concatenate([x.T, y[::-1]], 1), ((0, 0), (2, 3))),
            normal((70, 33), (33, 41)),
            lambda c, x, y: (c[:, 2:72].T, c[::-1, 72:113]),
        ),
        Case(
            "every third, from the second on",
            "indexing",
            lambda x: x[1::3, 2:],
            lambda x: x[1::3, 2:],
            normal((31, 37)),
        ),
    ]


def scattered_rows(c: np.ndarray, w: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The gradient of a table whose rows were taken by index."""
    gradient = np.zeros(w.shape)
    np.add.at(gradient, index, c)
    return gradient


def all_cases() -> list[Case]:
    """Every case, the families that most depends on first."""
    families = (
        *(pointwise, exact, precisions, gemm, reductions, along_rows, indexing, softmax, conv),
        *(pool, norm, attention, random, recurrent, transforms, factorisations),
    )
    return [case for family in families for case in family()]
