"""Reductions over any axes and places of extremes: rows, columns, groups, one stage and two."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from clnet.device import Target
from clnet.kernels.reduce.arg_reduce import arg_reduce
from clnet.kernels.reduce.reduce import Reduction, reduce
from clnet.kernels.reduce.reduce_many import Measure, reduce_many
from clnet.kernels.reduce.reduce_pairs import Pairing, reduce_pairs
from clnet.kernels.reduce.reduce_spread import reduce_spread

from .harness import (
    REALS,
    case,
    constants,
    given,
    near,
    normal,
    output,
    run,
    transposed,
)

arg_module = import_module("clnet.kernels.reduce.arg_reduce")
many_module = import_module("clnet.kernels.reduce.reduce_many")
reduce_module = import_module("clnet.kernels.reduce.reduce")

pairs_module = import_module("clnet.kernels.reduce.reduce_pairs")
spread_module = import_module("clnet.kernels.reduce.reduce_spread")

MODULES = (reduce_module, many_module, arg_module, pairs_module, spread_module)

REFERENCES = {
    Reduction.SUM: np.sum,
    Reduction.MEAN: np.mean,
    Reduction.SUM_SQUARES: lambda x, axis: np.sum(x * x, axis=axis),
    Reduction.PROD: np.prod,
    Reduction.MAX: np.max,
    Reduction.MIN: np.min,
    Reduction.ANY: np.any,
    Reduction.ALL: np.all,
}
LAYOUTS = [
    ((3, 37), (1,)),
    ((37, 5), (0,)),
    ((2, 9, 35), (0, 2)),
    ((2, 19, 3), (1,)),
    ((67,), (0,)),
]


def check(
    target: Target,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    kind: Reduction,
    dtype: Any = np.float32,
    *,
    turned: bool = False,
) -> None:
    values = normal(*shape) * (2 if np.issubdtype(dtype, np.integer) else 1)
    values = (values > -1 if dtype is np.bool_ else values).astype(dtype)
    x = given(values, before=1)
    if turned:
        x, values = transposed(x), values.swapaxes(-1, -2)
    exact = values.astype(np.float64) if np.issubdtype(dtype, np.floating) else values
    expected = np.asarray(REFERENCES[kind](exact, axis=dims))
    integral = np.issubdtype(dtype, np.integer) and kind in (Reduction.SUM, Reduction.PROD)
    logical = kind in (Reduction.ANY, Reduction.ALL)
    out = output(expected.shape, np.bool_ if logical else np.int64 if integral else dtype)
    run(reduce(target, out, x, dims=dims, kind=kind))
    near(out, expected, terms=8 * values.size)


def check_every_other(target: Target, dtype: Any) -> None:
    """Elements that nobody's neighbours are."""
    values = normal(3, 42, dtype=dtype)
    x = given(values[:, :-1]).view((3, 21), (41, 2))
    out = output((3,), dtype)
    run(reduce(target, out, x, dims=(1,), kind=Reduction.SUM))
    near(out, values[:, :-1:2].sum(axis=1, dtype=np.float64), terms=512)


@case()
def layouts(target: Target) -> None:
    for dtype in REALS:
        for shape, dims in LAYOUTS:
            check(target, shape, dims, Reduction.SUM, dtype)
            check(target, shape, dims, Reduction.MEAN, dtype)
    check(target, (5, 33), (1,), Reduction.SUM, turned=True)
    check(target, (5, 33), (0,), Reduction.SUM, turned=True)
    check(target, (2, 7, 5), (0, 2), Reduction.MEAN, turned=True)
    check(target, (2, 7, 5), (0, 1), Reduction.SUM, turned=True)
    for dtype in REALS:
        check_every_other(target, dtype)
    check(target, (3, 0), (1,), Reduction.SUM)
    check(target, (300, 5), (0,), Reduction.SUM)  # more than a stage of rows
    single = replace(target, traits=replace(target.traits, float64=False))
    for shape, dims in LAYOUTS:
        check(single, shape, dims, Reduction.SUM)


@case()
def kinds(target: Target) -> None:
    for shape, dims in (((2, 21), (1,)), ((21, 18), (0,))):
        for kind in Reduction:
            check(target, shape, dims, kind)
        check(target, shape, dims, Reduction.SUM, np.int32)
        check(target, shape, dims, Reduction.PROD, np.int64)
        check(target, shape, dims, Reduction.MAX, np.uint8)
        check(target, shape, dims, Reduction.ALL, np.bool_)


@case()
def pairs(target: Target) -> None:
    for dtype, divisor, parts in (  # any two of them each way
        (np.float32, None, False),
        (np.float32, 7.0, True),
        (np.float64, None, True),
        (np.float64, 7.0, False),
    ):
        with constants(reduce_module, _GROUP=8 if parts else 256):
            for shape, dims in (
                ((3, 37), (1,)),
                ((37, 5), (0,)),
                ((2, 9, 35), (0, 2)),
                ((9,), (0,)),
            ):
                x, y = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
                for kind, terms in (
                    (Pairing.PRODUCT, x * y),
                    (Pairing.DIFFERENCE, x - y),
                    (Pairing.SQUARED_DISTANCE, (x - y) ** 2),
                    (Pairing.DECAY, np.exp(x - y)),
                ):
                    out = output(tuple(n for d, n in enumerate(shape) if d not in dims), dtype)
                    x_, y_ = given(x, before=1), given(y, before=2)
                    run(reduce_pairs(target, out, x_, y_, dims=dims, kind=kind, divisor=divisor))
                    near(out, terms.sum(dims, np.float64) / (divisor or 1), terms=256)


@case()
def spreads(target: Target) -> None:
    for dtype, root, parts in (
        (np.float32, False, False),
        (np.float32, True, True),
        (np.float64, True, False),
        (np.float64, False, True),
    ):
        with constants(reduce_module, _GROUP=8 if parts else 256):
            for shape, dims in (
                ((3, 37), (1,)),
                ((37, 5), (0,)),
                ((2, 9, 35), (0, 2)),
                ((9,), (0,)),
            ):
                x = normal(*shape, dtype=dtype) + 3
                kept = tuple(1 if d in dims else n for d, n in enumerate(shape))
                out, center = output(kept, dtype), output(kept, dtype)
                x_ = given(x, before=1)
                divisor = None if dims == (1,) else 7.0
                run(reduce_spread(target, out, center, x_, dims=dims, divisor=divisor, root=root))
                wide = x.astype(np.float64)
                middle = wide.mean(dims, keepdims=True)
                expected = ((wide - middle) ** 2).sum(dims, keepdims=True) / (divisor or 1)
                near(center, middle, terms=256)
                near(out, np.sqrt(expected) if root else expected, terms=256)


@case()
def two_stages(target: Target) -> None:
    with constants(reduce_module, _PART=16, _PART_WHEN_MANY=16, _GROUP=8):
        for dtype in REALS:
            check(target, (2, 301), (1,), Reduction.MEAN, dtype)
            check(target, (150, 3), (0,), Reduction.SUM, dtype)
        check(target, (2, 150, 3), (0, 1), Reduction.MAX)
        check(target, (3, 5, 40), (0, 2), Reduction.SUM_SQUARES)
        check(target, (300,), (0,), Reduction.ANY, np.int32)


def check_place(
    target: Target, shape: tuple[int, ...], dim: int, dtype: Any, *, values: bool = True
) -> None:
    x = (4 * normal(*shape)).astype(dtype)  # so that integers are equal here and there
    if np.issubdtype(dtype, np.floating):
        x.flat[x.size // 2] = np.nan
    for kind, best in ((Reduction.MAX, np.argmax), (Reduction.MIN, np.argmin)):
        where = best(x, axis=dim)
        places, found = output(where.shape, np.int64), output(where.shape, dtype)
        run(
            arg_reduce(
                target, found if values else None, places, given(x, before=2), dim=dim, kind=kind
            )
        )
        near(places, where)
        if values:
            near(found, np.take_along_axis(x, np.expand_dims(where, dim), dim).squeeze(dim))


@case()
def places_of_extremes(target: Target) -> None:
    for dtype in (*REALS, np.int32, np.int64):
        check_place(target, (3, 21), 1, dtype)
        check_place(target, (9, 19), 0, dtype)
        check_place(target, (2, 7, 3), 1, dtype, values=False)
    with constants(arg_module, _PART=16, _GROUP=8):
        for dtype in REALS:
            check_place(target, (2, 131), 1, dtype)
            check_place(target, (131, 3), 0, dtype)


@case()
def many(target: Target) -> None:
    """Segments longer than a block, shorter than a vector, and fewer than the kernel has."""
    for dtype in REALS:
        values = [normal(n, dtype=dtype) for n in (16_390, 3, 70)]
        for kind in Measure:
            for some in (values, values[1:2]):
                out = output((), dtype)
                run(reduce_many(target, out, [given(v, before=1) for v in some], kind))
                every = np.abs(np.concatenate(some).astype(np.float64))
                total = {
                    Measure.SUM_SQUARES: (every * every).sum(),
                    Measure.SUM_MAGNITUDES: every.sum(),
                    Measure.MAX_MAGNITUDE: every.max(),
                }
                near(out, np.asarray(total[kind]), terms=every.size)
