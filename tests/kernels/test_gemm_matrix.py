"""Products on matrix units: the kernel with emulated units, what chooses it, and who uses it."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import clnet
from clnet.device import Target, matrix_units
from clnet.device.matrix_units import UNITS
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm, gemm_matrix, multiplies
from clnet.kernels.gemm.gemm_problem import problems
from clnet.nn import functional as F
from clnet.values import mode
from tests.kernels.launching import names_launched

ROUNDING = {clnet.float16: 1e-3, clnet.bfloat16: 8e-3, clnet.float32: 1e-5}


def units_of(traits, kind="emulated ptx"):
    return dataclasses.replace(
        traits,
        matrix_units=kind,
        warpgroup_units=False,
        dedicated_local_memory=True,
        simd_width=1,
        local_memory_bytes=2**17,
        max_group_size=256,
    )


@pytest.fixture
def target():
    here = clnet.device()
    return Target(units_of(here.traits), here.target.workspace_limit)


def drawn(dtype, *shape, turned=False, gap=0, seed=0):
    """A tensor of these sizes, in memory transposed or with elements behind its rows."""
    rng = np.random.default_rng(seed)
    *batch, rows, columns = shape
    stored = (*batch, columns, rows + gap) if turned else (*batch, rows, columns + gap)
    x = clnet.tensor(rng.standard_normal(stored).astype(np.float32)).to(dtype)
    return x[..., :rows].transpose(-1, -2) if turned else x[..., :columns]


def values(x, rounds=True):
    """In float64; float32 rounded to TF32, half away from zero, if the unit rounds it."""
    host = x.float().numpy()
    if rounds and x.dtype is clnet.float32:
        host = ((host.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)
    return host.astype(np.float64)


# dtype, m, n, k, batch, transposed operands, elements behind rows, epilogue
CASES = [
    (clnet.float16, 37, 48, 72, (), "", 0, {}),
    (clnet.float16, 33, 19, 45, (), "ab", 1, {"bias": -1, "activation": "relu", "beta": 0.5}),
    (clnet.bfloat16, 32, 24, 40, (2, 3), "b", 0, {"bias": -2, "alpha": 2.0}),
    (clnet.float32, 40, 20, 24, (), "a", 0, {}),
    (clnet.float32, 17, 33, 50, (2,), "b", 2, {"bias": -1, "activation": "relu"}),
]


# unit; dtype, m, n, k, batch, transposed operands, elements behind rows, epilogue
UNIT_CASES = [
    ("mfma_xf32", (clnet.float16, 37, 40, 72, (), "", 0, {})),
    ("mfma_xf32", (clnet.float32, 33, 35, 21, (), "b", 0, {"bias": -2})),
    ("mfma_1k", (clnet.float32, 17, 36, 40, (), "a", 0, {"beta": 0.5})),
    ("mfma", (clnet.bfloat16, 35, 33, 41, (), "ab", 1, {"beta": 0.5})),
    ("wmma_gfx12", (clnet.float16, 40, 33, 40, (2,), "b", 0, {"bias": -1})),
    ("wmma", (clnet.bfloat16, 40, 48, 72, (), "a", 0, {"activation": "relu"})),
    ("dpas_16", (clnet.float16, 24, 40, 40, (), "a", 0, {})),
    ("dpas_16_tf32", (clnet.float32, 19, 33, 21, (), "b", 0, {})),
    ("dpas_8", (clnet.bfloat16, 17, 24, 40, (), "b", 0, {"bias": -1})),
]


@pytest.mark.parametrize("given", CASES, ids=str)
def test_emulated_units_multiply(given, target):
    check("ptx", given, target)


@pytest.mark.parametrize(("unit", "given"), UNIT_CASES, ids=str)
def test_units_of_other_makers_multiply(unit, given, target):
    emulated = units_of(target.traits, f"emulated {unit}")
    check(unit, given, Target(emulated, target.workspace_limit))


# Operands that do not come in runs of 16 bytes: how they lie, and which of them are copied.
COPIED = [
    ("ptx", (clnet.bfloat16, 33, 19, 45, (2,), "", 0, {"bias": -1, "beta": 0.5}), 2),
    ("ptx", (clnet.float16, 33, 24, 45, (), "", 0, {}), 1),
    ("ptx", (clnet.float32, 17, 33, 50, (), "ab", 1, {}), 2),
    ("dpas_8", (clnet.bfloat16, 17, 24, 41, (), "b", 0, {"bias": -2}), 2),
]


@pytest.mark.parametrize(("unit", "given", "copies"), COPIED, ids=str)
def test_operands_without_runs_are_copied_where_that_is_faster(
    unit, given, copies, target, monkeypatch
):
    monkeypatch.setattr(gemm_matrix, "SINGLE", {2: 1e9, 4: 1e9})
    emulated = units_of(target.traits, f"emulated {unit}")
    check(unit, given, Target(emulated, target.workspace_limit), copies=copies)


def test_estimates_know_what_elements_one_by_one_cost(target):
    """Microseconds; an H100 took 123, 707, 2478 and 23."""
    traits = dataclasses.replace(units_of(target.traits, "ptx"), compute_units=132)
    card = Target(traits, 2**28)

    def foretold(m, n, k):
        a, b, out = (
            clnet.empty(*s, device="meta", dtype=clnet.bfloat16) for s in ((m, k), (k, n), (m, n))
        )
        return gemm_matrix.matrix_seconds(card, problems(out.array, a.array, b.array)[0]) * 1e6

    assert foretold(32768, 256, 196) > 40
    assert foretold(256, 196, 32768) > 100
    assert foretold(4095, 4095, 4095) > 500
    assert foretold(333, 333, 333) < 25


def check(unit, given, target, copies=0):
    """A product on emulated units is near NumPy's in float64."""
    dtype, m, n, k, batch, turned, gap, settings = given
    rounds = matrix_units(unit)[dtype.stored].rounds
    a = drawn(dtype, *batch, m, k, turned="a" in turned, gap=gap)
    b = drawn(dtype, *batch, k, n, turned="b" in turned, gap=gap, seed=1)
    out = drawn(dtype, *batch, m, n, seed=2)
    alpha, beta = settings.get("alpha", 1.0), settings.get("beta", 0.0)
    product = values(a, rounds) @ values(b, rounds)
    expected = alpha * product + beta * out.double().numpy()
    bias, axis = None, settings.get("bias", -1)
    if "bias" in settings:
        bias = drawn(dtype, 1, n if axis == -1 else m, seed=3)[0]
        added = bias.double().numpy()
        expected = expected + (added if axis == -1 else added[:, None])
    if "activation" in settings:
        expected = np.maximum(expected, 0)
    launches = gemm(
        target,
        out.array,
        a.array,
        b.array,
        alpha=alpha,
        beta=beta,
        epilogue=Epilogue(
            None if bias is None else bias.array,
            activation=settings.get("activation"),
            bias_axis="n" if axis == -1 else "m",
        ),
        tf32=True,
    )
    names = [launch.kernel.name for launch in launches]
    assert names == [*["gemm_laid"] * copies, "gemm_matrix"]
    clnet.device().queue.run(launches, (out.array,))
    error = np.abs(out.double().numpy() - expected).max() / np.abs(expected).max()
    assert error < ROUNDING[dtype]


PRODUCTS = [(name, ctype) for name, types in UNITS.items() for ctype in types]


@pytest.mark.parametrize(("name", "ctype"), PRODUCTS, ids=str)
def test_items_hold_every_element_of_a_units_matrices(name, ctype):
    unit = matrix_units(name)[ctype]
    for held, lines in ((unit.a, unit.rows), (unit.b, unit.columns)):
        at = {held.at(lane, e) for lane in range(unit.lanes) for e in range(held.count)}
        assert at == set(itertools.product(range(lines), range(unit.steps)))
        for (line, step), lane in itertools.product(at, (0, unit.lanes - 1)):
            assert held.at(*held.holder(line, step, lane)) == (line, step)
    at = [unit.sums.at(*each) for each in np.ndindex(unit.lanes, unit.sums.count)]
    assert sorted(at) == [*np.ndindex(unit.rows, unit.columns)]


@pytest.mark.parametrize(("name", "ctype"), PRODUCTS, ids=str)
def test_every_tile_is_regular(name, ctype):
    unit = matrix_units(name)[ctype]
    tiles = gemm_matrix.TILES[unit.lanes, unit.rows, unit.columns]
    for tile in (*tiles, gemm_matrix.small(unit)):
        assert tile.regular(unit, ctype)
    assert not tiles[0]._replace(stages=1).regular(unit, ctype)
    assert not tiles[0]._replace(patch_m=48).regular(unit, ctype)
    assert not tiles[0]._replace(lanes=4).regular(unit, ctype)


def test_tiles_suit_local_memory_and_the_number_of_groups():
    card = dataclasses.replace(
        units_of(clnet.device().traits, "ptx"),
        local_memory_bytes=49152,
        large_local_memory_bytes=0,
        compute_units=132,
    )
    large = dataclasses.replace(card, large_local_memory_bytes=232000)
    limit = clnet.device().target.workspace_limit

    def stages(traits, n):
        x = clnet.zeros(n, n, dtype=clnet.float16).array
        with clnet.abstract():
            (launch,) = gemm(Target(traits, limit), x, x, x)
        tile = launch.kernel.params["tile"]
        return tile.m, tile.stages

    assert stages(large, 2048) == (128, 3)
    assert stages(card, 2048) == (128, 2)
    assert stages(large, 512) == (64, 3)


def test_only_what_units_multiply_goes_there(target):
    assert multiplies(target, clnet.float16)
    assert not multiplies(target, clnet.float64)
    halves = Target(units_of(target.traits, "wmma"), target.workspace_limit)
    assert multiplies(halves, clnet.bfloat16)
    assert not multiplies(halves, clnet.float32)
    without = Target(units_of(target.traits, ""), target.workspace_limit)
    assert not multiplies(without, clnet.float16)
    x = clnet.ones(4, 4).array
    (launch,) = gemm(target, x, x, x)
    assert launch.kernel.name != "gemm_matrix"  # float32 that nobody allowed to be rounded


def test_layers_use_them(target, monkeypatch):
    """Of 16 bits without conversions, of float32 where it may be rounded; gradients, too."""
    monkeypatch.setattr(clnet.device(), "target", target)
    names = names_launched(clnet.device(), monkeypatch)
    x, weight = drawn(clnet.bfloat16, 8, 16), drawn(clnet.bfloat16, 24, 16, seed=1)
    weight.requires_grad_()
    y = F.linear(x, weight)
    y.backward(clnet.ones_like(y))
    assert names.count("gemm_matrix") == 2
    np.testing.assert_allclose(
        y.detach().double().numpy(), values(x) @ values(weight.detach()).T, rtol=0.01, atol=0.02
    )
    names.clear()
    a = drawn(clnet.float32, 8, 8)
    exact = a @ a
    assert "gemm_matrix" not in names
    with mode.using():
        clnet.set_float32_matmul_precision("high")
        rounded = a @ a
    assert "gemm_matrix" in names
    assert 0 < np.abs(exact.numpy() - rounded.numpy()).max() < 0.02
