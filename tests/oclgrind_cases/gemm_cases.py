"""Matrix products: every kernel, transposes, batches, epilogues, slices, panels packed before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from clnet.device import Target
from clnet.expr import Input, Scalar, tanh
from clnet.kernels import tile
from clnet.kernels.epilogue import Epilogue, Finish
from clnet.kernels.gemm import (
    gemm_any,
    gemm_laid,
    gemm_matrix,
    gemm_pack,
    gemm_packed,
    gemm_pair,
    gemm_problem,
    gemm_skinny,
    gemm_summed,
    gemm_tiled,
    gemm_unpacked,
    gemm_warpgroup,
)
from clnet.kernels.gemm.gemm import Multiplied, gemm, gemm_together

from .harness import (
    REALS,
    SMALLEST_TILE,
    case,
    constants,
    emulated_warpgroups,
    given,
    near,
    normal,
    output,
    run,
    transposed,
)

MODULES = (
    gemm_any,
    gemm_laid,
    gemm_matrix,
    gemm_pack,
    gemm_packed,
    gemm_pair,
    gemm_skinny,
    gemm_summed,
    gemm_tiled,
    gemm_unpacked,
    gemm_warpgroup,
)


def operand(shape: tuple[int, ...], dtype: Any, *, turned: bool, repeat: int = 0, before: int = 0):
    """An operand and its values; in memory transposed, or repeated along a new first axis."""
    *batch, rows, columns = shape
    stored = normal(*batch, *((columns, rows) if turned else (rows, columns)), dtype=dtype)
    array, values = given(stored, before=before), stored
    if turned:
        array, values = transposed(array), stored.swapaxes(-1, -2)
    if repeat:
        array = array.view((repeat, *array.shape), (0, *array.strides))
        values = np.broadcast_to(values, (repeat, *values.shape))
    return array, values.astype(np.float64)


def check(
    target: Target,
    dtype: Any,
    m: int,
    n: int,
    k: int,
    *,
    batch: tuple[int, ...] = (),
    turned: str = "",
    shared_b: int = 0,
    before: int = 0,
    gap: int = 0,
    bias_axis: int | None = None,
    activation: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """One product; ``turned``: operands that lie transposed, ``gap``: elements after out's rows."""
    items = (shared_b,) if shared_b else batch
    a, a_values = operand((*items, m, k), dtype, turned="a" in turned, before=before)
    b, b_values = operand(
        (*batch, k, n), dtype, turned="b" in turned, repeat=shared_b, before=before
    )
    held = normal(*items, *((n, m) if "o" in turned else (m, n)), dtype=dtype)
    if gap:
        wide = given(np.pad(held, [(0, 0), (0, gap)]))
        out = wide.view((m, n), wide.strides)
    else:
        out = given(held, before=before) if beta else output(held.shape, dtype)
    if "o" in turned:
        out, held = transposed(out), held.swapaxes(-1, -2)
    expected = alpha * (a_values @ b_values) + beta * held.astype(np.float64)
    bias = None
    if bias_axis is not None:
        values = normal(n if bias_axis == -1 else m, dtype=dtype)
        bias = given(values, before=before)
        expected = expected + (values if bias_axis == -1 else values[:, None])
    if activation:
        expected = np.maximum(expected, 0)
    epilogue = Epilogue(bias, None, activation, "m" if bias_axis == -2 else "n")
    run(gemm(target, out, a, b, alpha=alpha, beta=beta, epilogue=epilogue))
    near(out, expected, terms=8 * (k + 2))


@case()
def products_off_the_tile_grid(target: Target) -> None:
    for dtype in REALS:
        check(target, dtype, 5, 37, 9)
        check(target, dtype, 17, 35, 6, turned="ab", bias_axis=-1, activation="relu", beta=0.5)
        check(target, dtype, 15, 7, 20, turned="b", bias_axis=-2, alpha=2.0, before=3)
        check(target, dtype, 9, 33, 7, turned="ao", bias_axis=-1, beta=-1.0)
    check(target, np.float32, 13, 10, 3, turned="o", bias_axis=-2, activation="relu")
    check(target, np.float32, 35, 34, 17, batch=(2,), activation="relu")
    check(target, np.float32, 6, 5, 3, shared_b=3, bias_axis=-2)


@case("gpu")
def products_of_aligned_runs(target: Target) -> None:
    for turned in ("", "a", "b", "abo"):
        check(target, np.float32, 32, 36, 20, turned=turned, beta=1.0)
    check(target, np.float64, 32, 32, 16, bias_axis=-1)


@case("gpu")
def products_in_larger_tiles(target: Target) -> None:
    lonely = replace(target, traits=replace(target.traits, compute_units=1))
    check(lonely, np.float32, 65, 34, 9, turned="b", bias_axis=-1)


@case("gpu")
def products_in_a_ring_of_tiles(target: Target) -> None:
    shape = tile.Tile(32, 32, 16, 4, 4, 4, 3, "direct", ahead=True)
    with constants(gemm_tiled, TILINGS=((shape, 1.0),)):
        check(target, np.float32, 9, 36, 70)
        check(target, np.float32, 36, 31, 9, turned="ab", bias_axis=-1)


@case("gpu")
def products_of_teams(target: Target) -> None:
    for copy, stages, ahead in (("direct", 3, True), ("registers", 2, False)):
        shape = tile.Tile(32, 32, 16, 8, 4, 4, stages, copy, ahead=ahead, teams=2)
        with constants(gemm_tiled, TILINGS=((shape, 1.0),)):
            check(target, np.float32, 9, 36, 70, bias_axis=-1)


@case("gpu")
def products_that_are_finished(target: Target) -> None:
    product, held, added = map(Input, range(3))
    teams = (tile.Tile(32, 32, 16, 8, 4, 4, teams=2), 1.0)
    for m, n, k in ((33, 36, 20), (9, 7, 5), (5, 8, 70)):
        a, b, old, other = (normal(*shape) for shape in ((m, k), (k, n), (m, n), (m, n)))
        weight, out = given(old), output((m, n), np.float32)
        exprs = held - Scalar(0) * product, tanh(product * added)
        finish = Finish(exprs, (0.5,), (weight, out), (weight, given(other)))
        tiles = (teams,) if k == 5 else gemm_tiled.TILINGS
        with constants(gemm_tiled, SLICE_K=8, TILINGS=tiles), constants(tile, _LAUNCH_FLOPS=0):
            run(gemm(target, weight, given(a), given(b), epilogue=Epilogue(finish=finish)))
        sums = a.astype(np.float64) @ b
        near(weight, old - 0.5 * sums, terms=8 * (k + 2))
        near(out, np.tanh(sums * other), terms=8 * (k + 2))


@case("gpu")
def products_of_one_operand(target: Target) -> None:
    many = replace(target, traits=replace(target.traits, compute_units=64))
    for sizes, biased in (((40, 36), True), ((37, 33), False)):
        a, b = normal(9, 20), [normal(n, 20) for n in sizes]
        biases = [given(normal(n)) if biased else None for n in sizes]
        outs = [output((9, len(x)), np.float32) for x in b]
        parts = zip(outs, b, biases, strict=True)
        left = given(a)
        launches = gemm_together(
            many,
            [Multiplied(y, left, transposed(given(x)), Epilogue(bias)) for y, x, bias in parts],
        )
        assert launches is not None
        run(launches)
        for y, x, bias in zip(outs, b, biases, strict=True):
            added = 0 if bias is None else bias.numpy()
            near(y, a.astype(np.float64) @ x.T + added, terms=21)


@case("cpu")
def products_of_few_rows(target: Target) -> None:
    for dtype in REALS:
        for m, turned in ((1, ""), (2, "b"), (3, ""), (4, "b")):
            check(target, dtype, m, 39, 21, turned=turned)
            check(
                target, dtype, m, 39, 21, turned=turned, bias_axis=-1, activation="relu", beta=0.5
            )
        check(target, dtype, 2, 150, 3)
        check(target, dtype, 21, 2, 35, bias_axis=-1)
        for n in (5, 8, 9, 12, 14):
            check(target, dtype, 17, n, 66, turned="b", bias_axis=-1, beta=0.5)
        with constants(gemm_skinny, SLICE_K=16):
            check(target, dtype, 2, 19, 66, bias_axis=-2, before=1)
            check(target, dtype, 2, 19, 66, turned="b", beta=0.5)


@case("cpu")
def products_without_panels(target: Target) -> None:
    with constants(gemm_unpacked, GROUP_BYTES=256, STREAMS=4):
        for dtype in REALS:
            check(target, dtype, 6, 81, 11, bias_axis=-1, activation="relu", beta=0.5)
            check(target, dtype, 13, 67, 10, turned="a", bias_axis=-2)
            check(target, dtype, 21, 81, 7, turned="a", bias_axis=-1, alpha=0.5)
            check(target, dtype, 19, 64, 5, batch=(2,))
            check(target, dtype, 20, 64, 5, gap=1, beta=0.5)
            with constants(gemm_unpacked, MANY_ITEMS=5, UNITS_SHARE=1):
                check(target, dtype, 5, 8, 7, batch=(9,), bias_axis=-1)
                check(target, dtype, 6, 7, 40, batch=(5, 2), beta=0.5)


@case()
def sums_in_slices(target: Target) -> None:
    for dtype in REALS:
        with (
            constants(gemm_packed, SLICE_K=8, LAUNCH_COST=0, GROUP_COST=0),
            constants(gemm_unpacked, MOST_ROWS=0, MOST_STEPS=0),
            constants(gemm_tiled, SLICE_K=8, TILINGS=((SMALLEST_TILE, 1.0),)),
            constants(tile, _LAUNCH_FLOPS=0),
        ):
            check(target, dtype, 5, 11, 67, bias_axis=-1, activation="relu", beta=0.5)
            check(target, dtype, 6, 9, 70, bias_axis=-2)
            check(target, dtype, 6, 16, 70, bias_axis=-1)
            check(target, dtype, 5, 16, 70, bias_axis=-2, activation="relu")
            check(target, dtype, 7, 13, 65, gap=3, beta=0.5)
            check(target, dtype, 7, 13, 65, turned="o", activation="relu", alpha=0.5)
            check(target, dtype, 5, 9, 67)


@case("cpu")
def pairs_of_bfloat16(target: Target) -> None:
    with constants(gemm_packed, SLICE_K=8, LAUNCH_COST=0, PREPACK_COST=0, GROUP_COST=0):
        for m, k, turned, axis in ((11, 21, "", -1), (6, 70, "b", -2), (11, 20, "a", -1)):
            a, left = operand((2, m, 2 * k), bfloat16, turned="a" in turned, before=k % 2)
            if k == 21:  # every other one
                steps = (*a.strides[:2], 2 * a.strides[2])
                a, left = a.view((2, m, k), steps), left[..., ::2]
            else:
                a, left = a.view((2, m, k), a.strides), left[..., :k]
            b, right = operand((2, k, 9), bfloat16, turned="b" in turned)
            bias = given(normal(9 if axis == -1 else m, dtype=bfloat16))
            out = given(np.full((2, m, 9), np.nan, bfloat16))
            epilogue = Epilogue(bias, bias_axis="n" if axis == -1 else "m")
            run(gemm(target, out, a, b, dot="", epilogue=epilogue))
            added = bias.numpy().astype(np.float64).reshape((9,) if axis == -1 else (m, 1))
            found = out.numpy().astype(np.float64)
            np.testing.assert_allclose(found, left @ right + added, rtol=2**-8, atol=1e-4)


@case("cpu")
def panels_packed_before(target: Target) -> None:
    with (
        constants(gemm_packed, LAUNCH_COST=0, PREPACK_COST=0, GROUP_COST=0),
        constants(gemm_unpacked, MOST_STEPS=0),
    ):
        for dtype in REALS:
            check(target, dtype, 23, 35, 9, shared_b=3, bias_axis=-2, activation="relu")
            check(target, dtype, 23, 35, 19, shared_b=3, turned="b", beta=0.5, bias_axis=-2)
            check(target, dtype, 40, 21, 5, batch=(2,), bias_axis=-1)
            check(target, dtype, 40, 21, 5, activation="relu")


@case("cpu")
def blocks_drawn_and_panels_past_the_caches(target: Target) -> None:
    with (
        constants(gemm_packed, LAUNCH_COST=0, PREPACK_COST=0, GROUP_COST=0, LEAST_DRAWN=0),
        constants(gemm_unpacked, MOST_STEPS=0),
        constants(gemm_pack, PACKED_BYTES=0, LINE_BYTES=16),
    ):
        for dtype in REALS:
            check(target, dtype, 40, 35, 19, turned="b")
            check(target, dtype, 40, 64, 5, batch=(2,), bias_axis=-1)


@case("cpu")
def results_past_the_caches(target: Target) -> None:
    with constants(gemm_packed, STREAM_BYTES=0, LINE_BYTES=32):
        check(target, np.float32, 17, 96, 33, bias_axis=-1, activation="relu")
        check(target, np.float64, 17, 48, 33)


@case()
def any_type(target: Target) -> None:
    for m, n, k in ((5, 7, 3), (4, 3, 0)):
        a, b = np.arange(m * k).reshape(m, k) - 4, np.arange(k * n).reshape(k, n) - 3
        out = output((m, n), np.int32)
        run(gemm(target, out, given(a.astype(np.int32)), given(b.astype(np.int32))))
        near(out, a @ b)
    for dtype in REALS:
        check(target, dtype, 3, 5, 0, bias_axis=-1, activation="relu", beta=2.0)
        check(target, dtype, 3, 5, 0, bias_axis=-2)
        check(target, dtype, 3, 5, 0)


@case("gpu")
def products_on_emulated_units(target: Target) -> None:
    for unit, m, n, k, turned, bias_axis in (
        ("ptx", 33, 21, 40, "", None),
        ("ptx", 31, 16, 36, "ab", -1),
        ("mfma_xf32", 33, 36, 20, "b", None),
        # Oclgrind 21.10 ends where a vector is made of two, as b's of this unit along k are.
        ("dpas_16_tf32", 15, 32, 21, "a", -1),
    ):
        traits = replace(target.traits, matrix_units=f"emulated {unit}")
        units = replace(target, traits=traits)
        a, a_values = operand((m, k), np.float32, turned="a" in turned)
        b, b_values = operand((k, n), np.float32, turned="b" in turned)
        out = output((m, n), np.float32)
        values = normal(n)
        bias = None if bias_axis is None else given(values)
        activation = None if bias is None else "relu"
        epilogue = Epilogue(bias, activation=activation)
        run(gemm(units, out, a, b, epilogue=epilogue, tf32=True))
        expected = a_values @ b_values
        if bias is not None:
            expected = np.maximum(expected + values, 0)
        near(out, expected, terms=2**17)  # of TF32


@case("gpu")
def products_by_128_emulated_items(target: Target) -> None:
    """Rounded, with one copied operand; the second's slices are added by a launch of their own."""
    units = emulated_warpgroups(target, 2**16)
    a, a_values = operand((5, 20), np.float32, turned=False)
    b, b_values = operand((20, 9), np.float32, turned=False)
    out, values = output((5, 9)), normal(9)
    epilogue = Epilogue(given(values), activation="relu")
    run(gemm(units, out, a, b, epilogue=epilogue, tf32=True))
    near(out, np.maximum(a_values @ b_values + values, 0), terms=2**17)
    (problem,) = gemm_problem.problems(out, a, b, alpha=2.0, epilogue=epilogue)
    sums = normal(3, 1, 1, 5, 9)
    run([gemm_summed.summed(problem, given(sums), by_ptx=False)])
    near(out, np.maximum(2 * sums.sum((0, 1, 2)) + values, 0))
    c, c_values = operand((20, 8), np.float32, turned=False)
    before = normal(5, 8)
    dense = given(before)
    run(gemm(units, dense, a, c, beta=0.5, tf32=True))
    near(dense, a_values @ c_values + 0.5 * before, terms=2**17)
    (problem,) = gemm_problem.problems(dense, a, c)
    run([gemm_summed.summed(problem, given(sums[..., :8]), by_ptx=True)])  # none in float's text
    near(dense, sums[..., :8].sum((0, 1, 2)))
    a, a_values = operand((5, 8), np.float16, turned=False)
    b, b_values = operand((8, 8), np.float16, turned=False)
    apart, values = output((5, 16), np.float16), normal(8, dtype=np.float16)
    half = apart.view((5, 8), (16, 1))
    run(gemm(units, half, a, b, epilogue=Epilogue(given(values))))
    near(half, a_values @ b_values + values.astype(np.float64), terms=16)


@case()
def operands_copied_in_parts(target: Target) -> None:
    for turned in (False, True):
        x, values = operand((3, 5, 20), np.float32, turned=turned)
        to = output((1, 3, 5, 2 * 32))
        run([gemm_laid.laid(to, x.view((1, *x.shape), (0, *x.strides)), parts=2)])
        parts = np.zeros((1, 3, 5, 2, 32))
        large = (values.astype(np.float32).view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32)
        rest = (values - large).astype(np.float32).view(np.uint32) & 0xFFFFE000
        parts[0, :, :, 0, :20], parts[0, :, :, 1, :20] = large, rest.view(np.float32)
        near(to, parts.reshape(to.shape))
