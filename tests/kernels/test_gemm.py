"""Matrix products against float64, by every kernel, off their grids and on their edges."""

from __future__ import annotations

import dataclasses
import struct
from math import prod

import numpy as np
import pyopencl as cl
import pytest

from clnet.array import Array
from clnet.device import DeviceKind, Scratch, Target, device
from clnet.expr import Input, Scalar, tanh
from clnet.kernels.epilogue import Epilogue, Finish
from clnet.kernels.gemm import gemm_pack, gemm_packed, gemm_tiled
from clnet.kernels.gemm.gemm import gemm, pack_for
from clnet.kernels.gemm.gemm_packed import PackedParams, Work, choose_blocking
from clnet.kernels.gemm.gemm_problem import problems
from clnet.kernels.tile import Tile
from clnet.values.dtypes import float32, int8
from clnet.values.shapes import ceil_div, round_up
from tests.kernels.launching import compiled_rightly

GPU = {
    "dedicated_local_memory": True,
    "simd_width": 1,
    "max_group_size": 256,
    "local_memory_bytes": 32768,
}
SHAPES = {
    "cpu": {},
    "cpu-8-lanes": {"simd_width": 8},
    "cpu-4-lanes-many-units": {"simd_width": 4, "compute_units": 16},
    "gpu": GPU,
    "gpu-one-unit": {**GPU, "compute_units": 1, "local_memory_bytes": 49152},
}


@pytest.fixture(scope="module")
def where():
    return device()


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def target(request, where):
    traits = dataclasses.replace(where.traits, **request.param)
    return compiled_rightly(Target(traits, where.target.workspace_limit), where)


def place(values, where, order=None, gap=0):
    """The values on the device, axes stored in ``order``, ``gap`` elements before every run."""
    order = tuple(range(values.ndim)) if order is None else order
    stored = values.transpose(order)
    padded = np.full(
        (*stored.shape[:-1], stored.shape[-1] + gap), np.nan if gap else 0, values.dtype
    )
    padded[..., gap:] = stored
    dense = Array.from_numpy(padded, where)
    strides = [0] * values.ndim
    for at, axis in enumerate(order):
        strides[axis] = dense.strides[at]
    return dense.view(values.shape, tuple(strides), gap)


def run(target, where, out, a, b, **given):
    for launch in gemm(target, out, a, b, **given):
        where.queue.launch(launch)
    return out.numpy()


def check(got, expected, k, dtype=np.float32):
    tolerance = 2 * np.finfo(dtype).eps * np.sqrt(k) * np.abs(expected).max()
    assert np.ptp(expected) > 100 * tolerance or expected.size == 1
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def operands(*shapes, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def poisoned(shape, where, dtype=np.float32):
    return Array.from_numpy(np.full(shape, np.nan, dtype), where)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 1),
        (12, 31, 15),
        (13, 32, 16),
        (14, 33, 17),
        (63, 65, 7),
        (65, 63, 129),
        (129, 127, 33),
        (230, 70, 513),
        (3, 200, 40),
        (200, 3, 40),
        (1, 130, 600),
        (130, 1, 600),
        (9, 7, 4001),
        (16, 9, 4001),
    ],
)
def test_gemm_sizes_off_the_grid(target, where, m, n, k):
    a, b = operands((m, k), (k, n))
    out = poisoned((m, n), where)
    got = run(target, where, out, Array.from_numpy(a, where), Array.from_numpy(b, where))
    check(got, a.astype(np.float64) @ b, k)


SMALL_TILE = next(tile for tile, _ in gemm_tiled.TILINGS if tile[:3] == (32, 32, 16))
TEAMS = Tile(32, 32, 16, 8, 4, 4, teams=2)


@pytest.fixture
def small_tile(monkeypatch):
    """A GPU's products in one small tile.

    PoCL takes half a second for each kernel of the larger ones, which the sizes above have, and the
    tiles below, one by one.
    """
    monkeypatch.setattr(gemm_tiled, "TILINGS", ((SMALL_TILE, 1.0),))


in_one_tile = pytest.mark.usefixtures("small_tile")


@in_one_tile
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("transposed_out", [False, True], ids=["out", "out.T"])
@pytest.mark.parametrize("gap", [0, 3])
def test_gemm_strided(target, where, layout, transposed_out, gap):
    m, n, k = 68, 52, 72
    a, b = operands((m, k), (k, n))
    orders = {"N": (0, 1), "T": (1, 0)}
    order = orders["T" if transposed_out else "N"]
    out = place(np.full((m, n), np.nan, np.float32), where, order, gap)
    left, right = place(a, where, orders[layout[0]], gap), place(b, where, orders[layout[1]], gap)
    check(run(target, where, out, left, right), a.astype(np.float64) @ b, k)


@in_one_tile
def test_gemm_no_unit_stride(target, where):
    a, b = operands((30, 20, 2), (20, 40, 2))
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    room = poisoned((30, 40, 2), where)
    out = room.view((30, 40), room.strides[:2])
    left, right = left.view((30, 20), left.strides[:2]), right.view((20, 40), right.strides[:2])
    check(run(target, where, out, left, right), a[..., 0].astype(np.float64) @ b[..., 0], 20)
    assert np.isnan(room.numpy()[..., 1]).all()


@pytest.mark.parametrize("axis", [None, -1, -2], ids=["none", "n", "m"])
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(33, 36, 20), (36, 33, 1100), (36, 64, 1100)],
    ids=["one", "slices", "slices_in_vectors"],
)
@in_one_tile
def test_gemm_epilogue(target, where, axis, activation, beta, m, n, k):
    a, b, before = operands((m, k), (k, n), (m, n))
    bias = operands(({None: 1, -1: n, -2: m}[axis],), seed=1)[0]
    expected = 0.25 * (a.astype(np.float64) @ b) + beta * before
    if axis is not None:
        expected += bias if axis == -1 else bias[:, None]
    if activation:
        expected = np.maximum(expected, 0)
    out = Array.from_numpy(before if beta else np.full_like(before, np.nan), where)
    offsets = None if axis is None else Array.from_numpy(bias, where)
    epilogue = Epilogue(offsets, None, activation, "m" if axis == -2 else "n")
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    got = run(target, where, out, left, right, alpha=0.25, beta=beta, epilogue=epilogue)
    check(got, expected, k)


FEW = [(37, 10, 70), (29, 16, 64), (50, 6, 77), (33, 12, 129), (7, 30, 520), (9, 21, 513)]


@pytest.mark.parametrize(("m", "n", "k"), FEW)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_few_rows_or_columns_are_summed_along_k(where, m, n, k, dtype):
    target = Target(
        dataclasses.replace(where.traits, dedicated_local_memory=False),
        where.target.workspace_limit,
    )
    a, b, bias, before = operands((m, k), (n, k), (n,), (m, n), dtype=dtype)
    expected = np.maximum(0.5 * a.astype(np.float64) @ b.T + 2.0 * before + bias, 0)
    left, out = Array.from_numpy(a, where), Array.from_numpy(before, where)
    right, offsets = place(b.T, where, (1, 0)), Array.from_numpy(bias, where)
    epilogue = Epilogue(offsets, activation="relu")
    launches = gemm(target, out, left, right, alpha=0.5, beta=2.0, epilogue=epilogue)
    assert launches[0].kernel.name == "gemm_skinny_k"
    for launch in launches:
        where.queue.launch(launch)
    check(out.numpy(), expected, k, dtype)


# What the smallest products of a GPU are computed in.
UNPACKED = [(7, 656, 120), (16, 530, 70), (10, 64, 128), (50, 130, 9), (100, 272, 32), (5, 4, 3)]


@pytest.mark.parametrize(("m", "n", "k"), UNPACKED)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["a", "a.T"])
@pytest.mark.parametrize("axis", [-1, -2], ids=["n", "m"])
@in_one_tile
def test_few_rows_and_short_sums_need_no_panels(target, where, m, n, k, order, axis):
    a, b, bias, before = operands((m, k), (k, n), ((m, n)[axis],), (m, n))
    offsets = bias if axis == -1 else bias[:, None]
    expected = np.maximum(0.5 * a.astype(np.float64) @ b + 2.0 * before + offsets, 0)
    left, right = place(a, where, order, 3), place(b, where, gap=1)
    out, offsets = place(before, where, gap=2), Array.from_numpy(bias, where)
    epilogue = Epilogue(offsets, activation="relu", bias_axis="m" if axis == -2 else "n")
    given = {"alpha": 0.5, "beta": 2.0, "epilogue": epilogue}
    launches = gemm(target, out, left, right, **given)
    if not target.traits.dedicated_local_memory and n > 4:
        assert [launch.kernel.name for launch in launches] == ["gemm_unpacked"]
    check(run(target, where, out, left, right, **given), expected, k)


def test_few_rows_and_short_sums_in_float64(where):
    target = Target(
        dataclasses.replace(where.traits, dedicated_local_memory=False, simd_width=16),
        where.target.workspace_limit,
    )
    for m, n, k in ((11, 529, 50), (40, 72, 17)):
        a, b = operands((3, m, k), (3, k, n), dtype=np.float64)
        out = poisoned((3, m, n), where, np.float64)
        left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
        assert gemm(target, out, left, right)[0].kernel.name == "gemm_unpacked"
        expected = a.astype(np.longdouble) @ b.astype(np.longdouble)
        check(run(target, where, out, left, right), expected, k, np.float64)


@pytest.mark.parametrize(("k", "same"), [(64, True), (256, False)])
def test_a_last_layers_gradients_share_a_kernel(where, k, same):
    target = Target(
        dataclasses.replace(where.traits, dedicated_local_memory=False),
        where.target.workspace_limit,
    )

    def kernel(m: int, n: int, k: int):
        sizes = (m, n), (m, k), (k, n)
        (launch,) = gemm(target, *(Array.abstract(size, float32, where) for size in sizes))
        return launch.kernel

    assert (kernel(10, 256, k) == kernel(64, 256, 10)) is same


def test_short_sums_of_few_columns_are_not(where):
    target = Target(
        dataclasses.replace(where.traits, dedicated_local_memory=False),
        where.target.workspace_limit,
    )
    a, b = Array.abstract((40, 32), float32, where), Array.abstract((32, 10), float32, where)
    launches = gemm(target, Array.abstract((40, 10), float32, where), a, b.view((32, 10), (1, 32)))
    assert launches[-1].kernel.name == "gemm_packed"


@in_one_tile
def test_gemm_relu_keeps_nan(target, where):
    a, b = operands((20, 20), (20, 20))
    a[3] = np.nan
    got = run(
        target,
        where,
        poisoned((20, 20), where),
        Array.from_numpy(a, where),
        Array.from_numpy(b, where),
        epilogue=Epilogue(activation="relu"),
    )
    assert np.isnan(got[3]).all()
    assert not np.isnan(np.delete(got, 3, 0)).any()


@pytest.mark.parametrize(
    ("batch", "repeat_a", "repeat_b"),
    [((5,), False, False), ((5,), True, False), ((5,), False, True), ((3, 4), False, True)],
    ids=["both", "one a", "one b", "two axes, one b"],
)
@pytest.mark.parametrize("m", [1, 19])
@in_one_tile
def test_gemm_batch(target, where, batch, repeat_a, repeat_b, m):
    a, b = operands((*batch, m, 23), (*batch, 23, 37))
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    if repeat_a:
        a = np.broadcast_to(a[:1], a.shape)
        left = left.view(left.shape, (0, *left.strides[1:]))
    if repeat_b:
        b = np.broadcast_to(b.reshape(-1, 23, 37)[0], b.shape)
        right = right.view(right.shape, (*(0 for _ in batch), *right.strides[-2:]))
    out = poisoned((*batch, m, 37), where)
    check(run(target, where, out, left, right), a.astype(np.float64) @ b, 23)


@in_one_tile
def test_gemm_batch_axes_that_do_not_merge(target, where):
    a, b = operands((2, 3, 4, 5, 6), (2, 3, 4, 6, 7))
    left, right = place(a, where, (1, 0, 2, 4, 3), 1), place(b, where, (2, 1, 0, 3, 4), 2)
    out = place(np.full((2, 3, 4, 5, 7), np.nan, np.float32), where, (0, 2, 1, 3, 4))
    check(run(target, where, out, left, right), a.astype(np.float64) @ b, 6)


@in_one_tile
def test_gemm_float64(target, where):
    a, b = operands((70, 600), (600, 45), dtype=np.float64)
    out = poisoned((70, 45), where, np.float64)
    got = run(target, where, out, Array.from_numpy(a, where), Array.from_numpy(b, where))
    check(got, a.astype(np.longdouble) @ b.astype(np.longdouble), 600, np.float64)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_gemm_integers_wrap_around(target, where, dtype):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 100, (17, 50)).astype(dtype)
    b = rng.integers(0, 100, (50, 9)).astype(dtype)
    out = Array.from_numpy(np.full((17, 9), 77, dtype), where)
    got = run(target, where, out, Array.from_numpy(a, where), Array.from_numpy(b, where))
    np.testing.assert_array_equal(got, (a.astype(np.int64) @ b.astype(np.int64)).astype(dtype))


def test_gemm_empty_sum_gives_beta_out_plus_bias(target, where):
    before, bias = operands((6, 7), (7,))
    out = Array.from_numpy(before, where)
    a, b = poisoned((6, 0), where), poisoned((0, 7), where)
    got = run(target, where, out, a, b, beta=0.5, epilogue=Epilogue(Array.from_numpy(bias, where)))
    np.testing.assert_allclose(got, 0.5 * before + bias, rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)], ids=["batch", "m", "n"])
def test_gemm_empty_out_launches_nothing(target, where, shape):
    batch, m, n = shape
    a, b = np.zeros((batch, m, 5), np.float32), np.zeros((batch, 5, n), np.float32)
    out = Array.from_numpy(np.zeros(shape, np.float32), where)
    assert gemm(target, out, Array.from_numpy(a, where), Array.from_numpy(b, where)) == []


@in_one_tile
def test_gemm_same_bits_every_time(target, where):
    a, b = operands((100, 2000), (2000, 60))
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    first = run(target, where, poisoned((100, 60), where), left, right)
    again = run(target, where, poisoned((100, 60), where), left, right)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("n", [96, 112, 72], ids=["whole", "edge", "no lines"])
@in_one_tile
def test_gemm_of_a_large_result(target, where, monkeypatch, n):
    monkeypatch.setattr(gemm_packed, "STREAM_BYTES", 0)
    a, b, bias = operands((33, 40), (40, n), (n,))
    given = {"epilogue": Epilogue(Array.from_numpy(bias, where), activation="relu")}
    out = poisoned((33, n), where)
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    launches = gemm(target, out, left, right, **given)
    on_cpu = [launch.kernel.text() for launch in launches if launch.kernel.name == "gemm_packed"]
    in_lines = n != 72 and target.traits.simd_width >= 8  # two vectors make a line
    assert all(("STREAM" in text) == in_lines for text in on_cpu)
    expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
    check(run(target, where, out, left, right, **given), expected, 40)


@in_one_tile
def test_gemm_without_workspace(target, where):
    a, b = operands((250, 1100), (1100, 70))
    bare = dataclasses.replace(target, workspace_limit=0)
    out = poisoned((250, 70), where)
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    assert len(gemm(bare, out, left, right)) == 1
    check(run(bare, where, out, left, right), a.astype(np.float64) @ b, 1100)


@pytest.mark.parametrize(("m", "n", "k"), [(230, 70, 100), (16, 9, 4001), (2, 9, 4001)])
@in_one_tile
def test_gemm_operands_in_scratch_memory(target, where, m, n, k):
    a, b = operands((m, k), (k, n))
    memory = Scratch(where)
    left = Array.scratch(memory, (m, k), float32)
    right = Array.scratch(memory, (k, n), float32)
    out = poisoned((m, n), where)
    one = Array.from_numpy(np.ones((1, 1), np.float32), where)
    launches = []
    for scratch, values in ((left, a), (right, b)):
        row = Array.from_numpy(values.reshape(1, -1), where)
        flat = scratch.view((1, values.size), (values.size, 1))
        launches += gemm(target, flat, one, row)
    launches += gemm(target, out, left, right)
    for launch in launches:
        where.queue.launch(launch)
    check(out.numpy(), a.astype(np.float64) @ b, k)


def test_gemm_declares_its_work(target, where):
    shape = (4, 20, 30), (4, 30, 10), (4, 20, 10)
    a, b, out = (Array.abstract(s, float32, where) for s in shape)
    launches = gemm(target, out, a, b)
    assert sum(launch.flops for launch in launches) == 2 * prod((4, 20, 30, 10))
    assert sum(launch.bytes for launch in launches) >= 4 * sum(prod(s) for s in shape)


def test_harness_fails_on_a_wrong_product(where):
    a, b = operands((40, 50), (50, 60))
    wrong = a.astype(np.float64) @ b
    wrong[39, 59] -= float(a[39, 49]) * b[49, 59]
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    got = run(where.target, where, poisoned((40, 60), where), left, right)
    with pytest.raises(AssertionError):
        check(got, wrong, 50)


def test_shared_right_operand_turns_batch_into_rows(where):
    a = Array.abstract((6, 5, 8), float32, where)
    b = Array.abstract((8, 3), float32, where).view((6, 8, 3), (0, 3, 1))
    out = Array.abstract((6, 5, 3), float32, where)
    (problem,) = problems(out, a, b)
    assert (problem.batch, problem.m, problem.n, problem.k) == (1, 30, 3, 8)


@pytest.mark.parametrize("units", [1, 2, 64])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(14, 32, 16), (64, 32, 100_000), (1000, 1000, 1000), (32, 25_088, 144), (7, 7, 20_000)],
)
def test_blocking_covers_the_product_and_fits(m, n, k, units):
    params = PackedParams("float", 16, 14, 2, 2, 2**17, 2**16, False, None, False)
    work = Work(params, m, n, k, 1, 1, 4, units, 2**20)
    blocking = choose_blocking(work)
    slice_k = round_up(ceil_div(k, blocking.slices), params.unroll)
    assert (blocking.slices - 1) * slice_k < k
    assert blocking.row_panels * 16 * blocking.depth <= params.a_elements
    assert 32 * blocking.depth <= params.b_elements
    assert blocking.depth % params.unroll == 0
    scratch = blocking.slices * m * n if blocking.slices > 1 else 0
    scratch += round_up(n, 32) * round_up(k, 2) if blocking.prepacked else 0
    assert 4 * scratch <= work.limit


def test_blocking_gives_every_unit_work():
    params = PackedParams("float", 16, 14, 2, 2, 2**17, 2**16, False, None, False)
    blocking = choose_blocking(Work(params, 64, 32, 100_000, 1, 1, 4, 8, 2**28))
    assert blocking.slices >= 8
    blocking = choose_blocking(Work(params, 1000, 1000, 1000, 1, 1, 4, 8, 2**28))
    row_blocks = ceil_div(1000, 14 * blocking.row_panels)
    assert row_blocks * ceil_div(1000, 32 * blocking.column_panels) >= 8


def test_blocks_share_panels_that_do_not_go_into_them(where):
    traits = dataclasses.replace(
        where.traits, dedicated_local_memory=False, simd_width=16, compute_units=3
    )
    target = Target(traits, 2**20)
    a, b = operands((7 * 13 - 5, 60), (60, 7 * 32 - 3))
    out = poisoned((86, 221), where)
    args = out, Array.from_numpy(a, where), Array.from_numpy(b, where)
    launch = gemm(target, *args)[-1]
    assert launch.kernel.name == "gemm_packed"
    assert 1 < launch.global_size[0] < 7  # blocks that share seven panels
    check(run(target, where, *args), a.astype(np.float64) @ b, 60)


@pytest.mark.parametrize("items", [1, 2])
def test_groups_draw_their_blocks(where, monkeypatch, items):
    monkeypatch.setattr(gemm_packed, "LEAST_DRAWN", 1)
    traits = dataclasses.replace(
        where.traits, dedicated_local_memory=False, simd_width=8, compute_units=3
    )
    target = dataclasses.replace(where.target, traits=traits)
    m, n, k = 601, 500, 350
    lead = (items,) if items > 1 else ()
    a, b = operands((*lead, m, k), (*lead, k, n))
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    outs = [poisoned((*lead, m, n), where) for _ in range(3)]
    packing, panels = pack_for(target, outs[0], left, right)
    products = [gemm(target, out, left, right, panels=panels)[0] for out in outs]
    for launch in [*packing, *products]:  # each leaves the counter for the next
        assert launch in packing or struct.unpack("16i", launch.args[1])[10] == 1  # they draw
        where.queue.launch(launch)
    for out in outs:
        check(out.numpy(), a.astype(np.float64) @ b, k)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("n", [96, 100])
def test_gemm_of_large_panels(where, monkeypatch, n, turned):
    monkeypatch.setattr(gemm_pack, "PACKED_BYTES", 0)
    traits = dataclasses.replace(where.traits, dedicated_local_memory=False, simd_width=16)
    target = dataclasses.replace(where.target, traits=traits)
    a, b = operands((70, 75), (75, n))
    left, right = Array.from_numpy(a, where), Array.from_numpy(b, where)
    if turned:
        right = Array.from_numpy(np.ascontiguousarray(b.T), where).view((75, n), (1, 75))
    out = poisoned((70, n), where)
    packing, panels = pack_for(target, out, left, right)
    assert "STREAM" in packing[0].kernel.text()
    for launch in [*packing, *gemm(target, out, left, right, panels=panels)]:
        where.queue.launch(launch)
    check(out.numpy(), a.astype(np.float64) @ b, 75)


def test_every_register_block_fits_its_registers():
    for register, tile in gemm_packed.TILES.items():
        registers = 32 if register == 64 else 16
        assert max(tile.rows) * tile.vectors + tile.vectors + 1 <= registers


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "before"),
    [
        ((), 1, 1, 3, 0),
        ((2,), 33, 31, 9, 0),
        ((), 130, 68, 20, 0),
        ((), 13, 32, 16, 3),
        ((), 9, 36, 4001, 0),
    ],
)
@in_one_tile
def test_a_product_that_is_finished(target, where, monkeypatch, batch, m, n, k, before):
    """An array is overwritten, another written; by one kernel, or one behind it."""
    if before:
        monkeypatch.setattr(gemm_tiled, "TILINGS", ((TEAMS, 1.0),))
    a, b, old, other = operands((*batch, m, k), (*batch, k, n), (*batch, m, n), (*batch, m, n))
    bias = operands((n,), seed=1)[0]
    weight, beside, out = (
        place_behind(values, where, before) for values in (old, other, old * np.nan)
    )
    result, held, added = map(Input, range(3))
    finish = Finish(
        (held - Scalar(0) * (result + added), tanh(added) * result),
        (0.25,),
        (weight, out),
        (weight, beside),
    )
    run(
        target,
        where,
        weight,
        Array.from_numpy(a, where),
        Array.from_numpy(b, where),
        epilogue=Epilogue(Array.from_numpy(bias, where), finish=finish),
    )
    sums = a.astype(np.float64) @ b + bias
    check(weight.numpy(), old - 0.25 * (sums + other), k)
    check(out.numpy(), np.tanh(other) * sums, k)


@in_one_tile
def test_what_finishes_a_product_may_have_another_shape(target, where):
    a, b, other = operands((12, 5), (5, 8), (3, 4, 8))
    out, sums = (Array.from_numpy(np.full((3, 4, 8), np.nan, np.float32), where) for _ in range(2))
    result, added = Input(0), Input(1)
    finish = Finish((result * added, result), (), (out, sums), (Array.from_numpy(other, where),))
    left, right = (Array.from_numpy(x, where) for x in (a, b))
    run(target, where, out.view((12, 8), (8, 1)), left, right, epilogue=Epilogue(finish=finish))
    expected = (a.astype(np.float64) @ b).reshape(3, 4, 8)
    check(out.numpy(), expected * other, 5)
    check(sums.numpy(), expected, 5)


def place_behind(values, where, before):
    """The values, dense, behind so many elements."""
    flat = Array.from_numpy(
        np.concatenate([np.full(before, np.nan, np.float32), values.ravel()]), where
    )
    strides = [int(np.prod(values.shape[i + 1 :])) for i in range(values.ndim)]
    return flat.view(values.shape, tuple(strides), before)


def test_only_results_that_an_int_does_not_count_are_counted_in_long(where):
    for rows, wanted in ((2**16 + 1, "long"), (70, "int")):
        shapes = (rows, 2**15), (rows, 3), (3, 2**15)
        out, a, b = (Array.abstract(shape, int8, where) for shape in shapes)
        (launch,) = gemm(where.target, out, a, b)
        assert dict(launch.kernel.params)["flat"] == wanted
        assert f"const {wanted} index" in launch.kernel.text()


def test_more_whole_numbers_than_an_int_counts(where, monkeypatch):
    """Rows that lie upon each other; items behind the last int alone, of which each row is one."""
    if where.traits.kind is DeviceKind.GPU:
        pytest.skip("NVIDIA's OpenCL runs nothing behind an offset of 2^31 items")
    rows, row = 2**16 + 1, (np.arange(2**15) % 101).astype(np.int8)
    out, a = (Array.from_numpy(np.ones(n, np.int8), where) for n in (row.size, 1))
    b = Array.from_numpy(row.reshape(1, -1), where)
    wide, ones = out.view((rows, row.size), (0, 1)), a.view((rows, 1), (0, 0))
    (launch,) = gemm(where.target, wide, ones, b)
    assert launch.global_size == (2**31 + row.size,)
    enqueue = cl.enqueue_nd_range_kernel

    def behind(queue, kernel, size, group):
        return enqueue(queue, kernel, (size[0] - 2**31,), group, (2**31,))

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", behind)
    where.queue.launch(launch)
    np.testing.assert_array_equal(out.numpy(), row)
