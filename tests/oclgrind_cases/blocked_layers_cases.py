"""Blocked arrays but for convolutions: reorders, norms, pooling, pointwise vectors."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np

import clnet
from clnet.array import Array
from clnet.device import Target
from clnet.expr import Input, Scalar, exp, logical_and, logical_or, where
from clnet.kernels import streaming as streaming_module
from clnet.kernels.conv_blocked.reorder import reorder
from clnet.kernels.norm import blocked_norm as norm_module
from clnet.kernels.norm.blocked_norm import blocked_moments, blocked_sums
from clnet.kernels.pointwise import pointwise_lines as lines_module
from clnet.kernels.pointwise import pointwise_rows as rows_module
from clnet.kernels.pointwise import pointwise_small as small_module
from clnet.kernels.pointwise import pointwise_vectors as vectors_module
from clnet.kernels.pointwise.pointwise import pointwise
from clnet.kernels.pool import blocked_means as means_module
from clnet.kernels.pool import blocked_pool as pool_module
from clnet.kernels.pool.blocked_means import Means, blocked_avg_pool, blocked_avg_pool_gradient
from clnet.kernels.pool.blocked_pool import blocked_max_pool, blocked_max_pool_gradient
from clnet.kernels.pool.window import Window
from clnet.values.dtypes import float32, from_numpy

from .harness import case, constants, given, near, normal, output, run

reorder_module = import_module("clnet.kernels.conv_blocked.reorder")

MODULES = (
    *(norm_module, means_module, pool_module),
    *(lines_module, rows_module, vectors_module, reorder_module),
)

PADDED = Window(3, 3, 2, 2, 1, 1)


def blocked(x: np.ndarray, lanes: int) -> np.ndarray:
    """Plain images as blocked ones."""
    n, c, h, w = x.shape
    return x.reshape(n, c // lanes, lanes, h, w).transpose(0, 1, 3, 4, 2)


def channels(values: np.ndarray, lanes: int) -> Array:
    """A value for each channel as an operand of blocked arrays."""
    array = given(values, before=3)
    return array.view((1, values.size // lanes, 1, 1, lanes), (0, lanes, 0, 0, 1))


@case("cpu")
def reorders(target: Target) -> None:
    lanes = target.traits.simd_width
    for plane in [(1, 3), (3, 7), (5, 8)]:
        x = normal(2, 2 * lanes, *plane)
        y, back = output(blocked(x, lanes).shape), output(x.shape)
        run(reorder(y, given(x, before=1)))
        near(y, blocked(x, lanes))
        run(reorder(back, y))
        near(back, x)


@case("cpu")
def moments_and_sums(target: Target) -> None:
    lanes = target.traits.simd_width
    x, y, c = normal(2, 2 * lanes, 3, 5), normal(2, 2 * lanes, 3, 5), normal(2 * lanes)
    with constants(norm_module, _PART=7):
        mean, invstd, var = (output(c.shape) for _ in range(3))
        run(blocked_moments((mean, invstd, var), given(blocked(x, lanes), before=1), eps=0.1))
        near(mean, x.mean((0, 2, 3)), terms=64)
        near(invstd, 1 / np.sqrt(x.var((0, 2, 3)) + 0.1), terms=64)
        near(var, x.var((0, 2, 3), ddof=1), terms=64)
        sums = [output(c.shape) for _ in range(2)]
        inputs = [given(blocked(a, lanes)) for a in (x, y)]
        exprs = (Input(0), where(Input(1) <= 0, 0, exp(Input(0) - Input(2)) * Scalar(0)))
        run(blocked_sums(sums, [*inputs, given(c)], exprs, scalars=(0.5,)))
        for limit in (0, norm_module.STREAM_BYTES):
            made, again = output(blocked(x, lanes).shape), output(c.shape)
            with constants(norm_module, STREAM_BYTES=limit):
                doubled = (Input(0) * 2, Input(0))
                run(blocked_sums([again], inputs[:1], doubled, made=[made]))
            near(made, blocked(2 * x, lanes))
            near(again, x.sum((0, 2, 3)), terms=256)
    near(sums[0], x.sum((0, 2, 3)), terms=256)
    kept = np.where(y <= 0, 0, np.exp(x - c[:, None, None]) * 0.5)
    near(sums[1], kept.sum((0, 2, 3)), terms=1024)


@case("cpu")
def vectors(target: Target) -> None:
    lanes = target.traits.simd_width
    x, c, m = normal(2, 2 * lanes, 3, 5), normal(2 * lanes), normal(1, 1, 3, 5)
    mask = given(m).view((1, 1, 3, 5, 1), (0, 0, 5, 1, 0))
    y, z = (output(blocked(x, lanes).shape) for _ in range(2))
    inputs: Sequence[Array] = [given(blocked(x, lanes)), channels(c, lanes), mask]
    exprs = (Input(0) * Input(1) + Input(2) * Scalar(0), exp(Input(0)))
    with constants(vectors_module, _SHARE=4):
        run(pointwise(target, [y, z], inputs, exprs, scalars=(0.5,), compute=float32))
    near(y, blocked(x * c[:, None, None] + m * 0.5, lanes))
    near(z, blocked(np.exp(x), lanes), terms=64)
    # Truth values along the run, those of a channel, and one for all of them.
    kept, open_, dark = x > 0, c > 0, m > 0
    truths = [
        given(blocked(kept, lanes), before=3),
        channels(open_, lanes),
        given(dark).view((1, 1, 3, 5, 1), (0, 0, 5, 1, 0)),
    ]
    z = output(y.shape, np.bool_)
    a, b, d = (Input(i, True) for i in range(3))
    exprs = (where(a, Input(3), 2), logical_or(logical_and(a, b), d))
    with constants(vectors_module, _SHARE=4):
        run(pointwise(target, [y, z], [*truths, inputs[0]], exprs, compute=float32))
    near(y, blocked(np.where(kept, x, 2), lanes))
    near(z, blocked((kept & open_[:, None, None]) | dark[0, 0], lanes))
    run(pointwise(target, [y], truths[:1], (Input(0) * 3,), compute=float32))
    near(y, blocked(kept * 3, lanes))


@case("cpu")
def maxima(target: Target) -> None:
    lanes = target.traits.simd_width
    x, gy = normal(1, 2 * lanes, 5, 7), normal(1, 2 * lanes, 3, 4)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    y, gx = np.zeros(gy.shape), np.zeros(padded.shape)
    for c, i, j in np.ndindex(2 * lanes, 3, 4):
        window = padded[0, c, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        y[0, c, i, j] = window.max()
        row, column = np.unravel_index(window.argmax(), window.shape)
        gx[0, c, 2 * i + row, 2 * j + column] += gy[0, c, i, j]
    shape = blocked(gy, lanes).shape
    found, index, alone = output(shape), output(shape, np.int32), output(shape)
    x_ = given(blocked(x, lanes), before=2)
    run(blocked_max_pool(found, x_, window=PADDED, index=index))
    run(blocked_max_pool(alone, x_, window=PADDED, index=None))
    near(found, blocked(y, lanes))
    near(alone, blocked(y, lanes))
    for limit in (0, 2**20):
        found = output(blocked(x, lanes).shape)
        with constants(streaming_module, STREAM_BYTES=limit, LINE_BYTES=4 * lanes):
            run(blocked_max_pool_gradient(found, given(blocked(gy, lanes)), index, window=PADDED))
        near(found, blocked(gx[:, :, 1:-1, 1:-1], lanes), terms=64)


@case("cpu")
def means(target: Target) -> None:
    lanes = target.traits.simd_width
    x, gy = normal(1, 2 * lanes, 5, 7), normal(1, 2 * lanes, 3, 4)
    for how in [Means(PADDED), Means(PADDED, include_pad=False), Means(None)]:
        share = np.zeros((3, 4, 5, 7))
        for i, j in np.ndindex(3, 4):
            if how.window is None:
                rows, columns = (
                    (i * 5 // 3, -(-(i + 1) * 5 // 3)),
                    (j * 7 // 4, -(-(j + 1) * 7 // 4)),
                )
            else:
                rows, columns = (max(2 * i - 1, 0), 2 * i + 2), (max(2 * j - 1, 0), 2 * j + 2)
            part = share[i, j, rows[0] : rows[1], columns[0] : columns[1]]
            part[:] = 1 / (9 if how.window and how.include_pad else part.size)
        y = output(blocked(gy, lanes).shape)
        run(blocked_avg_pool(y, given(blocked(x, lanes), before=1), means=how))
        near(y, blocked(np.einsum("ijhw,nchw->ncij", share, x), lanes), terms=64)
        for limit in (0, 2**20):
            gx = output(blocked(x, lanes).shape)
            with constants(streaming_module, STREAM_BYTES=limit, LINE_BYTES=4 * lanes):
                run(blocked_avg_pool_gradient(target, gx, given(blocked(gy, lanes)), means=how))
            near(gx, blocked(np.einsum("ijhw,ncij->nchw", share, gy), lanes), terms=64)
    for limit in (0, 2**20):
        gx, one = output(blocked(x, lanes).shape), normal(1, 2 * lanes, 1, 1)
        with constants(streaming_module, STREAM_BYTES=limit, LINE_BYTES=4 * lanes):
            run(
                blocked_avg_pool_gradient(target, gx, given(blocked(one, lanes)), means=Means(None))
            )
        near(gx, blocked(np.broadcast_to(one / 35, x.shape), lanes))


@case("cpu")
def dense_vectors_past_the_caches(target: Target) -> None:
    with constants(vectors_module, DENSE_ELEMENTS=0, LEAST_RUN=2, STREAM_BYTES=0):
        for n in (48, 64 * 5):
            x, y = normal(n), output((n,))
            run(pointwise(target, [y], [given(x)], (Input(0) * Input(0) + 1,), compute=float32))
            near(y, x.astype(np.float64) ** 2 + 1)


@case("cpu")
def vectors_of_16_bits(target: Target) -> None:
    lanes = target.traits.simd_width
    for dtype in (clnet.float16, clnet.bfloat16):
        x, c = (clnet.tensor(a).to(dtype) for a in (normal(3, 4 * lanes), normal(3, 1)))
        same, wide = clnet.zeros(x.shape, dtype=dtype), clnet.zeros(x.shape)
        with constants(vectors_module, DENSE_ELEMENTS=0, LEAST_RUN=2):
            inputs = [x.array, c.array.view(x.shape, (1, 0))]
            made = [same.array, wide.array]
            run(pointwise(target, made, inputs, (-Input(0), Input(0) * Input(1)), compute=float32))
        near(wide.array, x.float().numpy() * c.float().numpy())
        assert (same == -x).all().item()
        ends, turned = clnet.zeros(2, lanes + 3, dtype=dtype), clnet.zeros(2, lanes + 3)
        inputs = [x.array.view(ends.shape, (lanes + 3, 1)), x.array.view(ends.shape, (1, 2))]
        exprs, made = (Input(0) * 2, Input(0) * Input(1)), [ends.array, turned.array]
        with constants(small_module, SMALL_ELEMENTS=0):
            run(pointwise(target, made, inputs, exprs, compute=float32))
        flat = x.float().numpy().ravel()
        both = flat[: 2 * lanes + 6].reshape(2, -1), flat[: 2 * lanes + 6].reshape(-1, 2).T
        near(turned.array, both[0] * both[1])
        np.testing.assert_array_equal(ends.float().numpy(), 2 * both[0])


@case("cpu")
def rows_of_any_length(target: Target) -> None:
    lanes = target.traits.simd_width
    exprs = (Input(0) * Input(1) + Input(2) * Scalar(0), exp(Input(0)))
    for n in (2 * lanes, 2 * lanes + 3):
        # Sizes beyond what one kernel of all layouts takes; dense, a value a row, every other.
        x, c, s = normal(44, n), normal(44, 1), normal(44, 2 * n)
        steps = given(s, before=1)
        y, z = output(x.shape), output(x.shape)
        inputs = [given(x), given(c), steps.view((44, n), (2 * n, 2), steps.offset)]
        run(pointwise(target, [y, z], inputs, exprs, scalars=(0.5,), compute=float32))
        near(y, x * c + s[:, ::2] * 0.5)
        near(z, np.exp(x), terms=64)
        # The parts of complex numbers, which lie in turns.
        both = output((44, n, 2))
        parts = [both.view((44, n), (2 * n, 2), both.offset + k) for k in (0, 1)]
        run(pointwise(target, parts, inputs, exprs, scalars=(0.5,), compute=float32))
        near(both, np.stack([x * c + s[:, ::2] * 0.5, np.exp(x)], -1), terms=64)


@case("cpu")
def loops_along_rows_of_other_types(target: Target) -> None:
    for dtype in (np.int64, np.float64):
        x = (normal(44, 19) * 9).astype(dtype)
        c, s, mask = x[:, :1] + 1, (normal(44, 38) * 9).astype(dtype), normal(44, 19) > 0
        steps = given(s, before=1)
        every_other = steps.view((44, 19), (38, 2), steps.offset)
        inputs = [given(x, before=3), given(c), every_other, given(mask)]
        y, z, both = output(x.shape), output(x.shape, np.bool_), output((44, 19, 2), dtype)
        part = both.view((44, 19), (38, 2), both.offset + 1)
        exprs = (
            Input(0) * Input(1) + Scalar(0),
            Input(0) > Input(2),
            where(Input(3), Input(0), Input(2)),
        )
        compute = from_numpy(np.dtype(dtype))
        run(pointwise(target, [y, z, part], inputs, exprs, scalars=(2,), compute=compute))
        near(y, x * c + 2, terms=64)
        near(z, x > s[:, ::2])
        np.testing.assert_array_equal(both.numpy()[..., 1], np.where(mask, x, s[:, ::2]))
    ints = np.arange(600) % 250 - 20  # of which bfloat16 has all
    y, half = output(ints.shape), clnet.zeros(600, dtype=clnet.bfloat16)
    run(pointwise(target, [y, half.array], [given(ints)], (exp(Input(0) * 0.01), Input(0)),
                  compute=float32))  # fmt: skip
    near(y, np.exp(ints * 0.01), terms=64)
    near(half.float().array, ints)
