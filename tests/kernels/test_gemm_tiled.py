"""Every tile of a GPU's matrix products, one by one."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest

from clnet.device import Target, device
from clnet.kernels.gemm import gemm_tiled
from clnet.kernels.gemm.gemm_problem import Product, problems
from tests.kernels.test_gemm import GPU, check, operands, place, place_behind, poisoned, run


@pytest.fixture(scope="module")
def where():
    return device()


TILED = {
    "ctype": "float",
    "a_along": "k",
    "b_along": "tile",
    **dict.fromkeys(("a_dense", "b_dense", "out_dense"), True),
    "raster": 8,
    **dict.fromkeys(("bias", "activation", "finish")),
    "together": 1,
}


@pytest.mark.parametrize(
    "along", list(product(("tile", "k"), ("tile", "k"), (False, True))), ids=str
)
def test_every_tiling_keeps_its_constraints(along):
    a_along, b_along, dense = along
    for tile, _ in gemm_tiled.TILINGS:
        params = TILED | {"tile": tile, "a_along": a_along, "b_along": b_along}
        params |= {"a_dense": dense, "b_dense": dense}
        assert not (tile.even or dense) or gemm_tiled.TILED.broken(params) is None


def forced(tile):
    """The tile alone, copying without asynchronous instructions."""
    copy = "direct" if tile.ring else tile.copy
    return ((tile._replace(copy=copy), 1.0),)


def tiling(number):
    """PoCL compiles a GPU kernel for a second or more; every third sees to it in CI."""
    return pytest.param(number, marks=pytest.mark.slow if number % 3 else [])


@pytest.mark.parametrize("number", [tiling(n) for n in range(len(gemm_tiled.TILINGS))])
def test_every_tiling_multiplies(number, where, monkeypatch):
    tile = gemm_tiled.TILINGS[number][0]
    monkeypatch.setattr(gemm_tiled, "TILINGS", forced(tile))
    big = {**GPU, "local_memory_bytes": 2**17}
    target = Target(dataclasses.replace(where.traits, **big), where.target.workspace_limit)
    left, right = (((0, 1), (0, 1)), ((0, 1), (1, 0)), ((1, 0), (0, 1)))[number % 3]
    # Dense runs where a tile takes nothing else, else in every other tile: each is a kernel.
    m, n, k, gap = ((132, 264, 52, 0), (67, 61, 150, 1))[tile.even and number % 2]
    a, b = operands((m, k), (k, n))
    a_, b_ = place(a, where, left, gap), place(b, where, right)
    check(run(target, where, poisoned((m, n), where), a_, b_), a.astype(np.float64) @ b, k)


def test_tiles_that_few_operands_suit_are_for_these_alone(where):
    """Operands whose rows are no runs of four, or begin within one, get a tile that all suit."""
    tiles = [tile for tile, _ in gemm_tiled.TILINGS if not tile.even]
    assert tiles
    sizes = Product("float32", 96, 384, 96, 1, 1, "TN")
    assert {*tiles} <= {tile for tile, _ in gemm_tiled._suited(sizes)}
    for other in (sizes._replace(n=385), sizes._replace(layout="SN")):
        assert not {*tiles} & {tile for tile, _ in gemm_tiled._suited(other)}
    a, b = operands((96, 96), (96, 384))
    out = poisoned((96, 384), where)
    turned = place(a, where, (1, 0))
    behind = place_behind(a, where, 1)
    dense = problems(out, turned, place(b, where))[0]
    moved = problems(
        out, behind.view(behind.shape, behind.strides[::-1]), place_behind(b, where, 1)
    )[0]
    for tile in tiles:
        assert gemm_tiled._brought(tile, dense)
        assert not gemm_tiled._brought(tile, moved)
