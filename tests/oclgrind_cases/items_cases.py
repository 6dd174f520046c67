"""Kernels with one work-item per element: random numbers, dropout, pointwise expressions."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from clnet.device import HostScalar, Target
from clnet.expr import Input, Scalar, cos, exp, sin, where
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

MODULES = (
    random_module,
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


@case()
def expressions(target: Target) -> None:
    """Large and small: the kernel for one layout, and that for all."""
    for most in (0, 512):
        with harness.constants(small_module, SMALL_ELEMENTS=most):
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
