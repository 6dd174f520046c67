"""Kernels with one work-item per element: random numbers, dropout, pointwise expressions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module

import numpy as np

from clnet.device import HostScalar, Target
from clnet.expr import Input, Scalar, cos, exp, sin, where
from clnet.kernels.pointwise import draw_binomial, draw_gamma, draw_poisson
from clnet.kernels.pointwise import pointwise_runs as runs_module
from clnet.kernels.pointwise import pointwise_small as small_module
from clnet.kernels.pointwise import random_numbers as random_module
from clnet.kernels.pointwise.pointwise import pointwise
from clnet.kernels.pointwise.pointwise_many import pointwise_many
from clnet.kernels.pointwise.random_numbers import (
    bernoulli,
    dropout,
    integers,
    normal,
    random_bits,
    uniform,
)
from clnet.values.dtypes import float32, from_numpy

from . import harness
from .harness import REALS, case, given, near, output, run, transposed

pointwise_many_module = import_module("clnet.kernels.pointwise.pointwise_many")
pointwise_module = import_module("clnet.kernels.pointwise.pointwise")
draws_module = import_module("clnet.kernels.pointwise.draws")

MODULES = (
    random_module,
    draws_module,
    pointwise_module,
    pointwise_many_module,
    small_module,
    runs_module,
)

SEED, OFFSET, N = 0xF123456789ABCDEF, 2**32 - 3, 301


def words(count: int) -> np.ndarray:
    """Philox 4x32-10 from the paper, with Python's integers."""
    low, out = 0xFFFFFFFF, []
    for at in range(OFFSET, OFFSET + -(-count // 4)):
        c, (k0, k1) = [at & low, at >> 32, 0, 0], (SEED & low, SEED >> 32)
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [p1 >> 32 ^ c[1] ^ k0, p1 & low, p0 >> 32 ^ c[3] ^ k1, p0 & low]
            k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
        out += c
    return np.array(out[:count], np.uint32)


def uniforms(dtype: type, count: int) -> np.ndarray:
    if dtype is np.float32:
        return (words(count) >> 8) * 2.0**-24
    return (words(2 * count).view(np.uint64) >> np.uint64(11)) * 2.0**-53


@case()
def random_numbers(target: Target) -> None:
    where_from = {"seed": SEED, "offset": HostScalar(OFFSET)}
    y = output((N,), np.int32)
    run(random_bits(target, y, **where_from))
    np.testing.assert_array_equal(y.numpy().view(np.uint32), words(N))
    for dtype in REALS:
        y = output((N,), dtype)
        run(uniform(target, y, low=-1.0, high=3.0, **where_from))
        near(y, 4 * uniforms(dtype, N) - 1)
        run(normal(target, y, mean=0.5, std=2.0, **where_from))
        even = N + N % 2
        scale = 2.0**-32 if dtype is np.float32 else 2.0**-53
        raw = (
            words(even) if dtype is np.float32 else words(2 * even).view(np.uint64) >> np.uint64(11)
        )
        radius = np.sqrt(-2 * np.log((raw[::2] + 0.5) * scale))
        angle = 2 * np.pi * uniforms(dtype, even)[1::2]
        pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        near(y, 0.5 + 2 * pairs.ravel()[:N], terms=128)

        kept = uniforms(np.float32, N) >= np.float32(0.25)
        run(bernoulli(target, y, p=0.25, **where_from))
        near(y, (~kept).astype(float))
        x = harness.normal(N, dtype=dtype)
        run(dropout(target, y, given(x, before=1), p=0.25, **where_from))
        near(y, np.where(kept, x / 0.75, 0))
        run(integers(target, y, low=-7, high=5, **where_from))
        near(y, np.array([-7 + (int(w) * 12 >> 64) for w in words(2 * N).view(np.uint64)], float))
    y = output((N,), np.int64)
    run(integers(target, y, low=0, high=2**40, **where_from))
    near(y, np.array([int(w) >> 24 for w in words(2 * N).view(np.uint64)]))


def attempts(block: np.ndarray, middle: float, a: float, b: float) -> Iterator[tuple[float, ...]]:
    """Transformed rejection: what is proposed, ``1/2 - |u|``, and what it is compared with."""
    for u, v in (block.reshape(-1, 2) + 0.5) * 2.0**-32:
        us = 0.5 - abs(u - 0.5)
        yield math.floor((2 * a / us + b) * (u - 0.5) + middle), us, v


def poisson_of(block: np.ndarray, rate: float) -> float:
    if rate < 15:
        return float((np.cumprod((block + 0.5) * 2.0**-32) > math.exp(-rate)).sum())
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    for k, us, v in attempts(block, rate + 0.43, a, b):
        if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        v *= (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b)
        if k >= 0 and math.log(v) <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return k
    return math.floor(rate + 0.43)


def binomial_of(block: np.ndarray, n: float, p: float) -> float:
    q = min(p, 1 - p)
    if q == 0:
        return 0 if p == 0 else n
    if n * q < 15:
        waits = np.floor(np.log((block + 0.5) * 2.0**-32) / math.log1p(-q)) + 1
        won = float((np.cumsum(waits) <= n).sum())
        return won if p <= 0.5 else n - won
    spread = math.sqrt(n * q * (1 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    top, odds = math.floor((n + 1) * q), math.log(q / (1 - q))
    for k, us, v in attempts(block, n * q + 0.5, a, b):
        sure = us >= 0.07 and v <= 0.92 - 4.2 / b
        v *= (2.83 + 5.1 / b) * spread / (a / us**2 + b)
        factorials = sum(map(math.lgamma, (top + 1, n - top + 1)))
        if sure or (
            0 <= k <= n
            and math.log(v)
            <= (k - top) * odds + factorials - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        ):
            return k if p <= 0.5 else n - k
    raise AssertionError("all refused")


def gamma_of(block: np.ndarray, shape: float, dtype: type) -> float:
    wide = dtype is not np.float32
    scale = 2.0**-53 if wide else 2.0**-32
    numbers = block.view(np.uint64) >> np.uint64(11) if wide else block
    u = (numbers + 0.5) * scale
    turn = u[1::4] - 0.5 * scale if wide else (block[1::4] >> 8) * 2.0**-24
    d = (shape + 1 if shape < 1 else shape) - 1 / 3
    for radius, angle, v in zip(np.sqrt(-2 * np.log(u[::4])), turn, u[2::4], strict=True):
        x = radius * math.cos(2 * math.pi * angle)
        cube = (1 + x / math.sqrt(9 * d)) ** 3
        if cube > 0 and math.log(v) < x * x / 2 + d - d * cube + d * math.log(cube):
            boost = u[-2 if wide else -4] ** (1 / shape) if shape < 1 else 1
            return d * cube * boost
    raise AssertionError("all refused")


@case()
def numbers_of_distributions(target: Target) -> None:
    """Beside the same algorithms in Python."""
    rates = np.array([0.0, 0.3, 14.0, 15.0, 40.0, 200.0])
    trials, odds = np.array([0.0, 3, 29, 31, 90, 500]), np.array([0.5, 1, 0.4, 0.5, 0.7, 0.2])
    shapes = np.array([0.1, 0.7, 1.0, 2.5, 30.0, 4.0])
    blocks = words(64 * rates.size).reshape(rates.size, 64)
    where_from = {"seed": SEED, "offset": HostScalar(OFFSET)}
    for dtype in REALS:
        y = output(rates.shape, dtype)
        run(draw_poisson(target, y, given(rates.astype(dtype), before=1), **where_from))
        near(y, np.array(list(map(poisson_of, blocks, rates))))
        both = given(trials.astype(dtype), before=2), given(odds.astype(dtype), before=1)
        run(draw_binomial(target, y, *both, **where_from))
        near(y, np.array(list(map(binomial_of, blocks, trials, odds))))
        run(draw_gamma(target, y, given(shapes.astype(dtype), before=1), **where_from))
        wanted = [gamma_of(*each, dtype) for each in zip(blocks, shapes, strict=True)]
        near(y, np.array(wanted), terms=256)


@case()
def expressions(target: Target) -> None:
    """Large and small: the kernel for one layout, short rows and copies before it, that for all."""
    for most, many in ((0, 2**14), (0, 0), (512, 2**14)):
        with (
            harness.constants(small_module, SMALL_ELEMENTS=most),
            harness.constants(pointwise_module, _MANY_ELEMENTS=many),
        ):
            pointwise_module._recipe.cache_clear()
            check_expressions(target)


def check_expressions(target: Target) -> None:
    for dtype in REALS:
        compute = from_numpy(np.dtype(dtype))
        a, b = harness.normal(3, 5, 7, dtype=dtype), harness.normal(3, 7, 5, dtype=dtype)
        row, mask = harness.normal(7, dtype=dtype), harness.normal(3, 1, 7) > 0
        y, z = output(a.shape, dtype), output(a.shape, np.bool_)
        inputs = [given(a, before=1), transposed(given(b)), given(row), given(mask)]
        total = where(Input(3), Input(0) * Input(2), exp(Input(1))) + Scalar(0)
        exprs = (total, Input(0) > Input(1))
        run(pointwise(target, [y, z], inputs, exprs, scalars=[HostScalar(0.5)], compute=compute))
        turned = b.swapaxes(1, 2).astype(np.float64)
        near(y, np.where(mask, a.astype(np.float64) * row, np.exp(turned)) + 0.5, terms=64)
        near(z, a > turned)
        for n in (1, 67, 1030):
            x, y = harness.normal(n, dtype=dtype), output((n,), dtype)
            run(pointwise(target, [y], [given(x)], (Input(0) * Input(0) - 1,), compute=compute))
            near(y, x.astype(np.float64) ** 2 - 1)
    a, b = harness.normal(3, 5, 8), harness.normal(5)
    y, z = output(a.shape), output(a.shape)
    inputs = [given(a, before=4), given(b).view((1, 5, 1), (0, 1, 1))]
    exprs = (Input(0) * Input(1) + Scalar(0), exp(Input(0)))
    with harness.constants(runs_module, ELEMENTS_PER_UNIT=0):
        run(pointwise(target, [y, z], inputs, exprs, scalars=[0.5], compute=float32))
    near(y, a * b[:, None].astype(np.float64) + 0.5, terms=64)
    near(z, np.exp(a.astype(np.float64)), terms=64)
    with harness.constants(runs_module, ELEMENTS_PER_UNIT=0):
        half, row = given(a.astype(np.float16), before=4), given(b.astype(np.float16))
        y, inputs = output(a.shape, np.float16), [half, row.view((1, 5, 1), (0, 1, 1))]
        run(pointwise(target, [y], inputs, (Input(0) * Input(1),), compute=float32))
    near(y, a * b[:, None].astype(np.float64), terms=64)
    rows, columns = harness.normal(5, 8), harness.normal(8)
    y, inputs = output(rows.shape), [given(rows), given(columns).view((1, 8), (0, 1))]
    with harness.constants(runs_module, ELEMENTS_PER_UNIT=0, _MANY_ELEMENTS=0):
        run(pointwise(target, [y], inputs, (Input(0) * Input(1),), compute=float32))
    near(y, rows * columns.astype(np.float64))
    ints = np.arange(-20, 21, dtype=np.int32)
    y = given(ints)  # in place, from integers
    run(pointwise(target, [y], [y], (Input(0) * 2,), compute=float32))
    near(y, 2 * ints)


@case()
def waves(target: Target) -> None:
    """Far from 0, too, where single lanes of a vector are reduced apart."""
    for n in (7, 300, 600):
        x = np.linspace(-9, 9, n, dtype=np.float32)
        x[n // 2], x[n // 3] = 1e20, -4321.5
        y, z = output((n,)), output((n,))
        run(pointwise(target, [y, z], [given(x)], (sin(Input(0)), cos(Input(0))), compute=float32))
        near(y, np.sin(x.astype(np.float64)))
        near(z, np.cos(x.astype(np.float64)))


@case()
def many_updates(target: Target) -> None:
    exprs = (Input(0) - Scalar(0) * Input(1) * Input(2),)
    for dtype, sizes in (
        (np.float32, (1,)),
        (np.float64, (1023, 1, 1024)),
        (np.float32, (7, 2049, 64, 3, 1025)),
    ):
        parameters = [harness.normal(n, dtype=dtype) for n in sizes]
        gradients = [harness.normal(n, dtype=dtype) for n in sizes]
        segments = [
            (given(p, before=k), given(g))
            for k, (p, g) in enumerate(zip(parameters, gradients, strict=True))
        ]
        factor = given(np.array([3], dtype), before=2)
        rate, compute = HostScalar(0.5), from_numpy(np.dtype(dtype))
        run(pointwise_many(target, segments, [factor], exprs, scalars=[rate], compute=compute))
        for (found, _), p, g in zip(segments, parameters, gradients, strict=True):
            near(found, p - 0.5 * g.astype(np.float64) * 3)
