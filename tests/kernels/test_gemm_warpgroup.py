"""Products of 128 items at once: emulated copies and products, what chooses them, tf32x3."""

from __future__ import annotations

import dataclasses
import re
from itertools import cycle

import numpy as np
import pytest

import clnet
from clnet.device import Target
from clnet.kernels.conv import ConvGeometry, conv_forward, conv_input_grad, conv_weight_grad
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm, gemm_laid, gemm_warpgroup
from clnet.values import mode
from tests.groups import are_compiled_wrongly
from tests.kernels.launching import names_launched
from tests.kernels.test_gemm_matrix import ROUNDING, drawn, units_of, values

BY_128 = "gemm_warpgroup"


@pytest.fixture
def target():
    here = clnet.device()
    if are_compiled_wrongly(here):
        pytest.skip("PoCL 5.0 for AVX-512 miscompiles them, as loops and as continuations")
    units = units_of(here.traits)
    traits = dataclasses.replace(
        units, warpgroup_units=True, local_memory_bytes=2**18, compute_units=3
    )
    return Target(traits, here.target.workspace_limit)


def card():
    """Numbers of an H200."""
    traits = units_of(clnet.device().traits, "ptx")
    return dataclasses.replace(
        traits,
        warpgroup_units=True,
        compute_units=132,
        max_group_size=1024,
        local_memory_bytes=49152,
        large_local_memory_bytes=232000,
    )


# dtype, m, n, k, batch, transposed operands, elements behind rows, epilogue; launches
CASES = [
    (clnet.float16, 66, 40, 72, (), "", 0, {}, [BY_128]),
    (clnet.bfloat16, 72, 15, 70, (), "ab", 0, {"bias": -1, "beta": 0.5}, ["gemm_laid", BY_128]),
    (clnet.bfloat16, 8, 9, 24, (2, 3), "b", 0, {"bias": -2, "alpha": 2.0}, [BY_128]),
    (clnet.float32, 17, 70, 36, (), "b", 0, {"activation": "relu"}, [BY_128]),
    (clnet.float32, 20, 21, 35, (2,), "", 2, {}, ["gemm_laid", "gemm_laid", BY_128]),
    (clnet.float32, 17, 36, 40, (), "", 0, {"bias": -1, "beta": 0.5, "alpha": 2.0}, [BY_128]),
    (clnet.float32, 68, 21, 36, (2,), "ab", 0, {"bias": -2, "activation": "relu"}, [BY_128]),
    (clnet.float32, 40, 36, 70, (), "a", 0, {"bias": -2}, ["gemm_laid", BY_128]),
]


@pytest.mark.parametrize("given", CASES, ids=str)
def test_products(given, target):
    *sizes, expected_launches = given
    assert run(target, *sizes) == expected_launches


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
@pytest.mark.parametrize(("n", "bias"), [(135, -1), (65, -2), (3, -1)])
def test_rows_that_begin_at_runs_and_end_anywhere(dtype, n, bias, target):
    """They are stored by the copy engine; what lies behind them stays."""
    m, k, pitch = 70, 24, 152
    a, b = drawn(dtype, m, k), drawn(dtype, k, n, turned=True, gap=0, seed=1)
    added = drawn(dtype, 1, n if bias == -1 else m, seed=3)[0]
    whole = drawn(dtype, m, pitch, seed=2)
    before, out = whole.double().numpy(), whole[:, :n]
    made = Epilogue(added.array, bias_axis="n" if bias == -1 else "m")
    launches = gemm(target, out.array, a.array, b.array, beta=0.5, epilogue=made)
    (params,) = [launch.kernel.params for launch in launches if launch.kernel.name == BY_128]
    assert params["boxed"]
    clnet.device().queue.run(launches, (out.array,))
    terms = added.double().numpy()
    expected = values(a) @ values(b) + 0.5 * before[:, :n]
    expected += terms if bias == -1 else terms[:, None]
    error = np.abs(out.double().numpy() - expected).max() / np.abs(expected).max()
    assert error < ROUNDING[dtype]
    np.testing.assert_array_equal(whole.double().numpy()[:, n:], before[:, n:])


def test_slices_of_long_sums(target, monkeypatch):
    """k in three slices, which a launch of its own adds."""
    monkeypatch.setattr(gemm_warpgroup, "LEAST_STAGES", 1)
    monkeypatch.setattr(gemm_warpgroup, "COPY_S", 0)
    monkeypatch.setattr(gemm_warpgroup, "STORE_S", 0)
    settings = {"bias": -1, "alpha": 2.0, "beta": 0.5}
    names = run(target, clnet.float16, 24, 16, 136, (), "a", 0, settings)
    assert names == [BY_128, "gemm_summed"]


def test_slices_of_what_items_hold(target, monkeypatch):
    """They have an even number of stages, but for the last."""
    monkeypatch.setattr(gemm_warpgroup, "LEAST_STAGES", 1)
    monkeypatch.setattr(gemm_laid, "COPY_BYTES_S", 1.0)
    for cost in ("COPY_S", "STORE_S"):
        monkeypatch.setattr(gemm_warpgroup, cost, 0)
    settings = {"bias": -1, "beta": 0.5, "activation": "relu"}
    names = run(target, clnet.float32, 24, 20, 136, (), "a", 0, settings)
    assert names == ["gemm_laid", BY_128, "gemm_summed"]


def test_large_operands_are_copied_some_rows_at_a_time(target):
    """Scratch memory for copies of 128 of 401 rows, each of which has its own bias."""
    little = Target(target.traits, 2 * 128 * 512)
    names = run(little, clnet.bfloat16, 401, 16, 200, (), "a", 0, {"bias": -2})
    assert names == ["gemm_laid", BY_128] * 4
    assert BY_128 not in run(
        Target(target.traits, 2**15), clnet.bfloat16, 401, 16, 200, (), "a", 0, {}
    )


def test_products_of_split_operands(target):
    """Nearer to float64 than one product of TF32, by far."""
    names = run(target, clnet.float32, 40, 36, 100, (), "", 0, {"bias": -1}, split=True)
    assert names == ["gemm_laid", "gemm_laid", BY_128]


def test_split_operands_take_the_scratch_memory_there_is(target):
    """In runs of k, whose results add up: beta, bias and activation come once."""
    little = Target(target.traits, 8 * (40 + 36) * 64)
    settings = {"bias": -1, "beta": 0.5, "alpha": 2.0, "activation": "relu"}
    names = run(little, clnet.float32, 40, 36, 100, (), "a", 0, settings, split=True)
    assert names == ["gemm_laid", "gemm_laid", BY_128] * 2
    none = Target(target.traits, 0)
    assert BY_128 not in run(none, clnet.float32, 8, 8, 8, (), "", 0, {}, split=True)


def run(target, dtype, m, n, k, batch, turned, gap, settings, *, split=False):
    """Names of the kernels that made a product which is near NumPy's in float64."""
    a = drawn(dtype, *batch, m, k, turned="a" in turned, gap=gap)
    b = drawn(dtype, *batch, k, n, turned="b" in turned, gap=gap, seed=1)
    out = drawn(dtype, *batch, m, n, seed=2)
    alpha, beta = settings.get("alpha", 1.0), settings.get("beta", 0.0)
    product = values(a, not split) @ values(b, not split)
    expected = alpha * product + beta * out.double().numpy()
    bias, axis = None, settings.get("bias", -1)
    if "bias" in settings:
        bias = drawn(dtype, 1, n if axis == -1 else m, seed=3)[0]
        added = bias.double().numpy()
        expected = expected + (added if axis == -1 else added[:, None])
    if "activation" in settings:
        expected = np.maximum(expected, 0)
    made = Epilogue(
        None if bias is None else bias.array,
        activation=settings.get("activation"),
        bias_axis="n" if axis == -1 else "m",
    )
    launches = gemm(
        target, out.array, a.array, b.array,
        alpha=alpha, beta=beta, epilogue=made, tf32=not split, split=split,
    )  # fmt: skip
    clnet.device().queue.run(launches, (out.array,))
    error = np.abs(out.double().numpy() - expected).max() / np.abs(expected).max()
    assert error < (2e-6 if split else ROUNDING[dtype])
    return [launch.kernel.name for launch in launches]


def test_numbers_that_a_split_may_lose(target):
    """Large ones do not overflow, NaN stays, infinities reach only their row."""
    a, b = np.ones((16, 16), np.float32), np.eye(16, dtype=np.float32)
    top = np.finfo(np.float32).max
    a[0, 0], a[1, 1], a[2, 2], a[3, 3], a[4, 4] = top, np.nan, np.inf, 1e-30, -top
    out = clnet.zeros(16, 16)
    launches = gemm(target, out.array, clnet.tensor(a).array, clnet.tensor(b).array, split=True)
    assert launches[-1].kernel.name == BY_128
    clnet.device().queue.run(launches, (out.array,))
    y = out.numpy()
    np.testing.assert_allclose([y[0, 0], y[3, 3], y[4, 4]], [top, 1e-30, -top], rtol=2.0**-22)
    assert np.isnan(y[1, 1])
    assert not np.isfinite(y[2, 2])
    assert np.isfinite(y[[0, *range(3, 16)]]).all()


def chosen(n, m=None, k=None, dtype=clnet.float16, traits=None, **settings):
    """The launches' names, and the tiles, of a product."""
    with clnet.abstract():
        a = clnet.zeros(m or n, k or n, dtype=dtype)
        b, out = clnet.zeros(k or n, n, dtype=dtype), clnet.zeros(m or n, n, dtype=dtype)
        launches = gemm(Target(traits or card(), 2**29), out.array, a.array, b.array, **settings)
    names = [launch.kernel.name for launch in launches]
    tiles = [x.kernel.params["tile"] for x in launches if x.kernel.name == BY_128]
    return names, tiles


def test_tiles_suit_the_number_of_units_and_local_memory():
    assert chosen(4096)[1][0][:2] == (128, 256)
    assert chosen(1024)[1][0][:2] == (64, 128)
    few = dataclasses.replace(card(), large_local_memory_bytes=0)
    assert chosen(4096, traits=few) == (["gemm_matrix"], [])


# m, n, k in bfloat16; the tile that was the fastest on an H100, of those that were timed
FASTEST = [
    (4096, 4096, 4096, (128, 256)),
    (8192, 8192, 8192, (128, 256)),
    (2048, 2048, 2048, (128, 256)),
    (8192, 2304, 768, (128, 192)),
    (8192, 768, 768, (128, 192)),
    (8192, 768, 3072, (128, 192)),
    (2304, 768, 8192, (128, 128)),
    (768, 768, 8192, (128, 128)),
    (1024, 1024, 1024, (64, 128)),
    (3072, 768, 8192, (128, 192)),
]


@pytest.mark.parametrize(("m", "n", "k", "tile"), FASTEST)
def test_the_tile_is_the_fastest_that_was_timed(m, n, k, tile):
    assert chosen(n, m=m, k=k, dtype=clnet.bfloat16)[1][0][:2] == tile


@pytest.mark.parametrize("split", [False, True])
def test_what_kernels_declare_fits_into_local_memory(split, monkeypatch):
    """All tiles, by the kernels' text; a tile that needs more than there is is not chosen."""
    listed = "SPLIT_TILES" if split else "TILES"
    tiles, of_filters = getattr(gemm_warpgroup, listed), gemm_warpgroup.TURNED_TILES[1]
    monkeypatch.setattr(gemm_warpgroup, "COPY_S", 1e-5)
    for tile, sided, turned in zip(tiles, gemm_warpgroup.SIDED_TILES, cycle(of_filters)):
        monkeypatch.setattr(gemm_warpgroup, listed, (tile,))
        monkeypatch.setattr(gemm_warpgroup, "SIDED_TILES", (sided,))
        monkeypatch.setitem(gemm_warpgroup.TURNED_TILES, 1, (turned,))
        for launch in multiplied(split=split):
            arrays = re.findall(r"__local \w+ \w+\[.*", launch.kernel.text())
            found = [re.match(r"__local uint4 tiles\[(\d+)\] .*aligned\(1024", a) for a in arrays]
            nbytes = [16 * int(each[1]) for each in found if each]
            assert len(nbytes) == len(arrays) == 1
            # The driver's compiler adds what the array may have to move by to be aligned.
            declared = launch.kernel.params["tile"]
            assert declared in (tile, sided, turned)
            assert nbytes[0] + 1024 <= declared.local_bytes <= 0x38C00
    needed = tiles[-1].local_bytes
    assert names_on(needed, split=split)[-1] == BY_128
    assert BY_128 not in names_on(needed - 1, split=split)


def multiplied(*, split):
    """Launches of all kernels by 128 items at once, in the tile that is listed."""
    target = Target(card(), 2**29)
    dtypes = [clnet.float32] if split else [clnet.float16, clnet.bfloat16, clnet.float32]
    launches = []
    for dtype in dtypes:
        with clnet.abstract():
            x = clnet.zeros(4096, 4096, dtype=dtype).array
            launches += gemm(target, x, x, x, tf32=not split, split=split)
            if not split:
                images = clnet.zeros(64, 28, 28, 128, dtype=dtype).permute(0, 3, 1, 2).array
                w = clnet.zeros(128, 128, 3, 3, dtype=dtype).array
                g = ConvGeometry(64, 128, 28, 28, 128, 3, 3, 28, 28, 1, 1, 1, 1)
                launches += conv_forward(target, images, images, w, g, tf32=True)
                launches += conv_input_grad(target, images, images, w, g, tf32=True)
                launches += conv_weight_grad(target, w, images, images, g, tf32=True)
    found = [x for x in launches if "warpgroup" in x.kernel.name]
    assert len(found) == (1 if split else 12)
    return found


def names_on(nbytes, *, split):
    traits = dataclasses.replace(card(), large_local_memory_bytes=nbytes)
    return chosen(4096, dtype=clnet.float32, traits=traits, tf32=not split, split=split)[0]


def test_where_another_kernel_multiplies():
    without = dataclasses.replace(card(), warpgroup_units=False)
    assert chosen(1024, traits=without)[0] == ["gemm_matrix"]
    assert chosen(64)[0] == ["gemm_matrix"]  # too little to do
    assert chosen(1024, dtype=clnet.float64)[0] == ["gemm_tiled"]
    assert chosen(129, m=129, k=200)[0] == ["gemm_matrix"]  # a copy would cost more than it wins
    assert chosen(4095)[0] == ["gemm_laid", "gemm_laid", BY_128]  # rows begin anywhere
    assert chosen(1024, dtype=clnet.float32)[0] == ["gemm_tiled"]
    assert chosen(4096, dtype=clnet.float32, split=True)[0] == ["gemm_laid", "gemm_laid", BY_128]
    assert chosen(1024, m=2**21 - 64, k=99)[0] == ["gemm_laid", BY_128]
    assert chosen(1024, m=2**21, k=99)[0] == ["gemm_matrix"]  # more groups than drivers take
    halves = dataclasses.replace(without, matrix_units="")
    plain, _ = chosen(4096, dtype=clnet.float32, split=True, traits=halves)
    assert plain[-1] == "gemm_tiled"  # a card may copy an operand before


def test_long_sums_of_few_tiles_are_sliced():
    names, _ = chosen(256, k=16384)
    assert names == [BY_128, "gemm_summed"]


def test_precision_is_taken_by_products_alone(target, monkeypatch):
    monkeypatch.setattr(clnet.device(), "target", target)
    names = names_launched(clnet.device(), monkeypatch)
    x = drawn(clnet.float32, 16, 16)
    with mode.using():
        clnet.set_float32_matmul_precision("tf32x3")
        assert clnet.get_float32_matmul_precision() == "tf32x3"
        y = x @ x
        image = drawn(clnet.float32, 8, 8).reshape(1, 1, 8, 8)
        clnet.nn.functional.conv2d(image, clnet.ones(1, 1, 3, 3))
    assert BY_128 in names
    assert not any("conv_matrix" in name for name in names)
    np.testing.assert_allclose(y.numpy(), x.double().numpy() @ x.double().numpy(), atol=1e-5)
