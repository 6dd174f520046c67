"""Copies, fills, padding, and arrays laid beside each other."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product

import numpy as np

from clnet.device import Target
from clnet.kernels import streaming as streaming_module
from clnet.kernels.grid import lanes_of
from clnet.kernels.moving import copy_pairs, join_rows
from clnet.kernels.moving.around import around
from clnet.kernels.moving.copy import arange, copy, fill
from clnet.kernels.moving.place import place
from clnet.kernels.moving.repeat import repeat

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

copy_module = import_module("clnet.kernels.moving.copy")
lines_module = import_module("clnet.kernels.moving.copy_lines")
join_module = import_module("clnet.kernels.moving.join_rows")
place_module = import_module("clnet.kernels.moving.place")
around_module = import_module("clnet.kernels.moving.around")
repeat_module = import_module("clnet.kernels.moving.repeat")

MODULES = (
    around_module,
    copy_module,
    copy_pairs,
    join_module,
    lines_module,
    place_module,
    repeat_module,
)


@case()
def copies(target: Target) -> None:
    for dtype, source in ((np.float32, np.int32), (np.float64, np.float32), (np.bool_, np.float64)):
        x = (3 * normal(3, 7, 37)).round().astype(source)
        for order in ((0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)):
            stored = given(x, before=2)
            shape, strides = (tuple(a[i] for i in order) for a in (stored.shape, stored.strides))
            y = output(shape, dtype)
            run(copy(target, y, stored.view(shape, strides)))
            near(y, x.transpose(order).astype(dtype))
    grouped = replace(target, traits=replace(target.traits, max_group_size=256))
    for shape in ((2, 6, 70), (1, 66, 4), (5, 6)):
        x = normal(*shape).astype(np.float16)
        y = output((*shape[:-2], *shape[:-3:-1]), np.float16)
        run(copy(grouped, y, transposed(given(x, before=2))))
        near(y, x.swapaxes(-1, -2))
    x, wide = normal(5, 40), np.zeros((5, 43), np.float32)
    y = given(wide)
    run(copy(target, y.view((5, 40), (43, 1), 2), given(x)))
    wide[:, 2:42] = x
    near(y, wide)


@case("gpu")
def rows_beside_each_other(target: Target) -> None:
    for dtype, inner in ((np.float32, 4), (np.float32, 3), (np.float64, 2), (np.int16, 8)):
        for count in (2, 3, 5, 9, 20):
            lengths = [1 + k % 3 for k in range(count)]
            parts = [(9 * normal(2, n, inner)).astype(dtype) for n in lengths]
            y = output((2, sum(lengths), inner), dtype)
            run(join_rows(target, y, [given(x, before=inner) for x in parts], 1))
            near(y, np.concatenate(parts, 1))


@case("cpu")
def short_lines_and_backward_ones(target: Target) -> None:
    for dtype, source in ((np.float32, np.float64), (np.float64, np.int32), (np.bool_, np.float32)):
        x = (3 * normal(3, 5, 3)).round().astype(source)
        wide, stored = given(np.zeros((3, 5, 5), dtype)), given(x, before=1)
        to, expected = wide.view((3, 5, 3), (25, 5, 1), 2), np.zeros((3, 5, 5), dtype)
        expected[..., 2:] = x.astype(dtype)
        with constants(copy_module, _MANY=0):
            run(copy(target, to, stored))
        near(wide, expected)
        y = output((15, 7), dtype)
        with constants(copy_module, _MANY=0):
            run(copy(target, y, stored.view((15, 7), (3, 0), stored.offset)))
        near(y, np.repeat(x.reshape(15, 3)[:, :1], 7, axis=1).astype(dtype))
        # Longer than the compiler knows, with steps that it does not know, either.
        long, apart = (3 * normal(3, 370)).round().astype(source), given(np.zeros((3, 74), dtype))
        with constants(copy_module, _MANY=0):
            run(copy(target, apart.view((3, 37), (74, 2), 1), given(long).view((3, 37), (370, 9))))
        near(apart.view((3, 37), (74, 2), 1), long[:, :333:9].astype(dtype))
    # Not bytes: Oclgrind takes a vector of them turned round for unwritten; its elements are right.
    for dtype in (np.float32, np.float64, np.int16):
        x = (9 * normal(2, 3, 37)).astype(dtype)
        y, stored = output(x.shape, dtype), given(x, before=2)
        with constants(lines_module, _MANY_ELEMENTS=0):
            back = stored.view((2, 3, 37), (111, 37, -1), stored.offset + 36)
            run(copy(target, y, back))
            near(y, x[..., ::-1])
            y = output((2, 37, 3), dtype)
            back = stored.view((2, 37, 3), (111, -1, 37), stored.offset + 36)
            run(copy(target, y, back))
        near(y, x[..., ::-1].swapaxes(1, 2))


@case("cpu")
def laid_among_one_value(target: Target) -> None:
    for dtype, limit in product(REALS, (0, 2**20)):
        lanes = lanes_of(target, np.dtype(dtype).itemsize)
        line = lanes * np.dtype(dtype).itemsize
        x, y = normal(2, 3, 5, 19, dtype=dtype), output((2, 3, 7, 21), dtype)
        given_x, expected = given(x, before=1), np.full(y.shape, 0.5, dtype)
        expected[:, :, 1:6, 2:] = x
        past = constants(streaming_module, STREAM_BYTES=limit, LINE_BYTES=line)
        with past, constants(place_module, _LEAST=0, _ROOM=64):
            at = (0, 0, 1, 2)
            run(place(target, y, given_x, x.shape, given_x.strides, starts=at, value=0.5))
            near(y, expected)
            y = output((3, 5, 17), dtype)
            run(place(target, y, given_x, y.shape, given_x.strides[1:], starts=(0, 0, 0)))
        near(y, x[0, :, :, :17])


@case("cpu")
def padded_by_elements(target: Target) -> None:
    ends, starts = ((0, 0), (2, 1), (1, 0), (3, 4)), (0, 2, 1, 3)
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "constant": "constant"}
    for dtype, mode, n in product(REALS, modes, (5, 37)):
        x = normal(2, 3, 4, n, dtype=dtype)
        expected = np.pad(x, ends, modes[mode])
        y, value = output(expected.shape, dtype), 0.0 if mode == "constant" else None
        run([around(target, y, given(x, before=1), starts=starts, mode=mode, value=value)])
        near(y, expected)
    x, y = normal(40), output((36,))
    run([around(target, y, given(x), starts=(-2,), mode="replicate")])  # less of it
    near(y, x[2:38])


@case("cpu")
def elements_repeated(target: Target) -> None:
    line = 4 * target.traits.simd_width
    for dtype in REALS:
        for shape, limit in product(((5, 3, 33), (1, 1, 200), (4, 2, 16)), (0, 2**20)):
            x, y = normal(*shape[:2], dtype=dtype), output(shape, dtype)
            given_x = given(x)
            with constants(streaming_module, STREAM_BYTES=limit, LINE_BYTES=line):
                run(copy(target, y, given_x.view(shape, (*given_x.strides, 0))))
            near(y, np.broadcast_to(x[..., None], shape))
            y = output(shape, dtype)
            run([repeat(target, y, given_x, (x.size,), (1,), divisor=3)])
            near(y, np.broadcast_to(x[..., None] / 3, shape))


@case("cpu")
def squares_turned_over(target: Target) -> None:
    line = 4 * target.traits.simd_width
    for dtype in REALS:
        x = normal(2, 19, 32, dtype=dtype)
        for shown, limit in ((x, 0), (x.swapaxes(1, 2), 0), (x, streaming_module.STREAM_BYTES)):
            _, rows, columns = shown.shape
            stored = given(np.ascontiguousarray(shown))
            turned = stored.view((2, columns, rows), (rows * columns, 1, columns))
            y = output(turned.shape, dtype)
            with constants(streaming_module, STREAM_BYTES=limit, LINE_BYTES=line):
                run(copy(target, y, turned))
            near(y, shown.swapaxes(1, 2))


@case()
def constants_and_ranges(target: Target) -> None:
    for dtype in (*REALS, np.int32):
        y = output((67,), dtype)
        run(arange(target, y, 2, 3))
        near(y, 2 + 3 * np.arange(67))
        y = output((3, 300), dtype)  # rows, and a row in parts
        expected = y.numpy()
        run(fill(target, y.view((3, 290), (300, 1), 5), 7) + fill(target, y.view((1,), (1,)), 5))
        expected[:, 5:295], expected[0, 0] = 7, 5
        near(y, expected)
        y = output((5, 9), dtype)
        expected = y.numpy()
        run(fill(target, y.view((4, 5), (9, 2), 1), 7))
        steps = (9 * y.dtype.itemsize, 2 * y.dtype.itemsize)
        np.lib.stride_tricks.as_strided(expected.ravel()[1:], (4, 5), steps)[...] = 7
        near(y, expected)
