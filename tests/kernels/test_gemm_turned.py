"""Operands of products that are copied first so that they lie along the tile."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target, device
from clnet.expr import Input
from clnet.kernels.epilogue import Epilogue, Finish
from clnet.kernels.gemm import gemm_tiled, gemm_turned
from clnet.kernels.gemm.gemm import gemm
from clnet.values.dtypes import float32, float64
from tests.kernels.launching import SMALL_RING
from tests.kernels.test_gemm import GPU, check, operands, place, poisoned, run

COPY = "gemm_laid"


@pytest.fixture(scope="module")
def where():
    return device()


@pytest.fixture
def always(where, monkeypatch):
    """A device on which every copy pays; a tile of its, without asynchronous instructions."""
    monkeypatch.setattr(gemm_tiled, "TILINGS", SMALL_RING)
    monkeypatch.setattr(gemm_turned, "SHARE", float("inf"))
    traits = dataclasses.replace(where.traits, **GPU | {"local_memory_bytes": 2**17})
    return Target(traits, where.target.workspace_limit)


def card(where, **others):
    """Numbers of an H200."""
    numbers = {**GPU, "compute_units": 132, "max_group_size": 1024, "local_memory_bytes": 49152}
    numbers |= {"large_local_memory_bytes": 232000, "asynchronous_copies": True, **others}
    return Target(dataclasses.replace(where.traits, **numbers), 2**29)


def abstract(where, m, n, k, layout="NT", dtype=float32):
    shapes = ((m, k), (k, n))
    arrays = [Array.abstract(s if o == "N" else s[::-1], dtype, where)
              for s, o in zip(shapes, layout, strict=True)]  # fmt: skip
    a, b = (x.view(s, x.strides if o == "N" else x.strides[::-1])
            for x, s, o in zip(arrays, shapes, layout, strict=True))  # fmt: skip
    return Array.abstract((m, n), dtype, where), a, b


def names(launches):
    return [launch.kernel.name for launch in launches]


def along(launches):
    params = launches[-1].kernel.params
    return params["a_along"], params["b_along"]


@pytest.mark.parametrize(("m", "n", "k"), [(66, 130, 35), (32, 64, 16), (31, 63, 70), (5, 129, 3)])
@pytest.mark.parametrize("gap", [0, 3])
def test_copies_give_the_same_product(where, always, m, n, k, gap):
    a, b, bias = operands((m, k), (k, n), (n,))
    left, right = place(a, where, gap=gap), place(b, where, (1, 0), gap)
    given = {"epilogue": Epilogue(Array.from_numpy(bias, where)), "alpha": 0.5}
    out = poisoned((m, n), where)
    launches = gemm(always, out, left, right, **given)
    assert names(launches) == [COPY, COPY, "gemm_tiled"]
    assert along(launches) == ("tile", "tile")
    params = launches[-1].kernel.params
    assert params["a_dense"]
    assert params["b_dense"]
    expected = 0.5 * (a.astype(np.float64) @ b) + bias
    check(run(always, where, out, left, right, **given), expected, k)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_what_lies_along_the_tile_stays(where, always, layout):
    a, b = operands((35, 40), (40, 70))
    orders = {"N": (0, 1), "T": (1, 0)}
    left, right = place(a, where, orders[layout[0]]), place(b, where, orders[layout[1]])
    out = poisoned((35, 70), where)
    launches = gemm(always, out, left, right)
    assert names(launches).count(COPY) == (layout[0] == "N") + (layout[1] == "T")
    check(run(always, where, out, left, right), a.astype(np.float64) @ b, 40)


def test_items_that_repeat_are_copied_once(where, always):
    a, b = operands((3, 2, 20, 33), (2, 33, 37))
    left = place(a, where, (1, 0, 2, 3))
    right = place(b, where, (0, 2, 1)).view((3, 2, 33, 37), (0, 33 * 37, 1, 33))
    out = poisoned((3, 2, 20, 37), where)
    launches = gemm(always, out, left, right)
    copies = [launch.global_size[2] for launch in launches if launch.kernel.name == COPY]
    assert copies == [6, 2]
    check(run(always, where, out, left, right), a.astype(np.float64) @ b, 33)


def test_a_finished_product_of_copies(where, always):
    a, b, other = operands((40, 50), (50, 66), (40, 66))
    out, beside = poisoned((40, 66), where), Array.from_numpy(other, where)
    finish = Finish((Input(0) * Input(1),), (), (out,), (beside,))
    left, right = place(a, where), place(b, where, (1, 0))
    run(always, where, out, left, right, epilogue=Epilogue(finish=finish))
    check(out.numpy(), (a.astype(np.float64) @ b) * other, 50)


def test_long_sums_of_copies_are_cut_into_slices(where, always):
    a, b = operands((40, 2100), (2100, 30))
    left, right = place(a, where), place(b, where, (1, 0))
    out = poisoned((40, 30), where)
    assert names(gemm(always, out, left, right))[:3] == [COPY, COPY, "gemm_tiled"]
    assert len(gemm(always, out, left, right)) == 4  # and what adds the slices
    check(run(always, where, out, left, right), a.astype(np.float64) @ b, 2100)


def test_rows_with_room_behind_them_are_read_in_fours(where, always):
    """What lies there, here NaN, is part of no result; behind the last row there may be nothing."""
    a, b = operands((20, 18), (20, 30))
    room = np.full((2, 20, 32), np.nan, np.float32)
    room[0, :, :18], room[1, :, :30] = a, b
    held = Array.from_numpy(room, where)
    left = held.view((18, 20), (1, 32))
    right = held.view((20, 30), (32, 1), 20 * 32)
    out = poisoned((18, 30), where)
    (launch,) = gemm(always, out, left, right)
    assert launch.kernel.params["a_dense"]
    assert launch.kernel.params["b_dense"]
    check(run(always, where, out, left, right), a.astype(np.float64).T @ b, 20)
    short = Array.from_numpy(room.ravel()[:-2], where).view((20, 30), (32, 1), 20 * 32)
    (launch,) = gemm(always, out, left, short)
    assert launch.kernel.params["a_dense"]
    assert not launch.kernel.params["b_dense"]


def test_copies_are_made_where_they_pay(where):
    def copies(*sizes, target=None, **given):
        return names(gemm(target or card(where), *abstract(where, *sizes, **given))).count(COPY)

    assert copies(8192, 50257, 768) == 2  # of 0.6e12 operations
    assert copies(8192, 768, 3072) == 1  # 100 MB of inputs, 9 MB of weights
    assert copies(8192, 768, 3072, layout="NN") == 0
    assert copies(2048, 512, 512) == 0
    little = dataclasses.replace(card(where), workspace_limit=64 * 2**20)
    assert copies(8192, 50257, 768, target=little) == 1  # room for the 25 MB of inputs alone
    assert copies(8192, 50257, 768, target=card(where, asynchronous_copies=False)) == 0
    assert copies(4096, 4096, 4096, dtype=float64) == 0
