"""Which tile a product on GPUs gets: by waves of groups, what copies need, and slices."""

from __future__ import annotations

import dataclasses

import pytest

from clnet.device import device
from clnet.kernels.gemm import gemm_tiled
from clnet.kernels.tile import Work as TileWork
from clnet.kernels.tile import choose, time_in_waves
from tests.kernels.test_gemm import GPU
from tests.kernels.test_gemm_tiled import TILED


@pytest.fixture
def where():
    return device()


def test_waves_are_as_measured():
    """An H200's times of 2048x(tiles)x512, in rounds of one tile on every unit."""
    whole, small = gemm_tiled.TILINGS[1][0], gemm_tiled.TILINGS[2][0]
    assert (whole.resident, small.resident) == (1, 3)
    one = time_in_waves(whole, 1.0, 32, 1.0)
    assert [time_in_waves(whole, 1.0, 32, n) / one for n in (0.5, 1.5, 2, 9.1)] == [1, 2, 2, 10]
    three = time_in_waves(small, 0.95, 32, 3.0)
    measured = {1: 0.38, 2: 0.74, 4: 1.68, 5: 1.75, 6: 2.0, 7: 2.5, 8: 2.7}
    for groups, rounds in measured.items():
        taken = time_in_waves(small, 0.95, 32, float(groups)) / three
        assert abs(taken - rounds) < 0.1


def test_asynchronous_tiles_need_the_trait(where):
    traits = dataclasses.replace(
        where.traits, **GPU, large_local_memory_bytes=2**17, asynchronous_copies=False
    )
    work = TileWork(4096, 4096, 4096, 1, 4, 1)
    assert choose(traits, gemm_tiled.TILINGS, work, shortest=256).tile.copy == "registers"
    traits = dataclasses.replace(traits, asynchronous_copies=True, compute_units=132)
    assert choose(traits, gemm_tiled.TILINGS, work, shortest=256).tile.copy == "async"
    twice = work._replace(item_bytes=8)
    assert choose(traits, gemm_tiled.TILINGS, twice, shortest=256).tile.copy == "registers"


def test_few_tiles_are_cut_into_slices(where):
    traits = dataclasses.replace(where.traits, **GPU, compute_units=100)
    choice = choose(traits, gemm_tiled.TILINGS, TileWork(64, 64, 100_000, 1, 4, 64), shortest=256)
    assert choice.slices > 16
    assert (choice.slices - 1) * choice.slice_k < 100_000
    assert choose(traits, (), TileWork(64, 64, 64, 1, 4, 64), shortest=256) is None


def test_stages_suit_the_way_of_copying():
    tile = gemm_tiled.TILINGS[0][0]
    params = TILED | {"tile": tile._replace(stages=2)}
    assert "copy ahead" in gemm_tiled.TILED.broken(params).reason
