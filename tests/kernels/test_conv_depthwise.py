"""Depthwise convolutions on GPUs, in strips and in tiles of planes, against float64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnet.kernels.conv import (
    conv_depthwise_strip,
    conv_depthwise_tile,
)
from clnet.kernels.conv.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
)
from tests.kernels.convcase import GEOMETRIES, GPU, Reference, check, launches_of, run, target_of

STRIPS = {
    "multiplier": ConvGeometry(2, 3, 9, 8, 6, 3, 3, 9, 8, 1, 1, 1, 1, 1, 1, 3),
    "stride": ConvGeometry(3, 5, 9, 7, 5, 3, 3, 5, 4, 2, 2, 1, 1, 1, 1, 5),
    "stride-dilation-groups": GEOMETRIES["stride-dilation-groups"],
    "unread-pixels": GEOMETRIES["unread-pixels"],
    "one-row": GEOMETRIES["one-row"],
}


@pytest.mark.parametrize("geometry", STRIPS)
def test_strips_match_reference(geometry, where, monkeypatch):
    """Strips of several results, of which the last lack some, and filters summed up in parts."""
    monkeypatch.setattr(conv_depthwise_strip, "_RESIDENT_ITEMS", 1)
    monkeypatch.setattr(conv_depthwise_strip, "_SUMS", 4)
    case = Reference(STRIPS[geometry])
    target = target_of(where, GPU)  # of few units, or strips are short
    few_units = dataclasses.replace(target.traits, compute_units=2)
    target = dataclasses.replace(target, traits=few_units)
    _, launches = launches_of(where, target, case, Algorithm.DEPTHWISE)
    if case.g.oh > 1:
        assert all(found[0].kernel.params["strip"] > 1 for found in launches)
    check(run(where, target, case, Algorithm.DEPTHWISE), case)


TILES = {
    "same": ConvGeometry(7, 3, 10, 11, 3, 5, 5, 10, 11, 1, 1, 2, 2, 1, 1, 3),
    "dilated": ConvGeometry(3, 2, 13, 17, 2, 3, 6, 15, 7, 1, 1, 5, 0, 2, 2, 2),
    "vectors": ConvGeometry(3, 2, 9, 24, 2, 3, 3, 9, 24, 1, 1, 1, 1, 1, 1, 2),
    "stride": ConvGeometry(3, 2, 11, 16, 2, 3, 3, 6, 8, 2, 2, 1, 1, 1, 1, 2),
    "stride-dilation": ConvGeometry(2, 3, 14, 12, 3, 2, 3, 5, 10, 3, 2, 2, 6, 2, 2, 3),
    "large": ConvGeometry(2, 2, 12, 8, 2, 9, 8, 10, 8, 1, 1, 3, 4, 1, 1, 2),
}


@pytest.fixture
def small_tiles(monkeypatch):
    """Depthwise convolutions in tiles of few columns, by items of few results."""
    for name, value in {"_RESULTS": 8, "_WIDEST": 8, "_GROUPS_PER_UNIT": 1}.items():
        monkeypatch.setattr(conv_depthwise_tile, name, value)
    conv_depthwise_tile._cut.cache_clear()
    yield
    conv_depthwise_tile._cut.cache_clear()


@pytest.mark.parametrize("geometry", TILES)
def test_tiles_of_planes_match_reference(geometry, where, small_tiles):
    """Tiles of several strips and planes, of which the last lack some."""
    case = Reference(TILES[geometry])
    target = target_of(where, {**GPU, "compute_units": 2, "max_group_size": 64})
    _, launches = launches_of(where, target, case, Algorithm.DEPTHWISE)
    assert geometry != "same" or launches[0][0].kernel.params["planes"] > 1
    ways = ("tile", "tile", "strip_weight" if geometry == "large" else "tile_weight")
    assert [found[0].kernel.name for found in launches] == [f"conv_depthwise_{w}" for w in ways]
    check(run(where, target, case, Algorithm.DEPTHWISE), case)
    y, *_ = run(where, target, case, Algorithm.DEPTHWISE, "relu")
    np.testing.assert_allclose(y, np.maximum(case.forward(), 0), rtol=0, atol=1e-4)


def test_planes_too_large_for_local_memory_are_computed_in_strips(where):
    g = ConvGeometry(1, 1, 90, 3, 1, 5, 4, 2, 3, 1, 1, 0, 1, 22, 1, 1)
    little = {**GPU, "local_memory_bytes": 1024, "large_local_memory_bytes": 0}
    for direction in Direction:
        assert conv_depthwise_tile.suits(target_of(where, GPU), g, direction, 4)
        assert not conv_depthwise_tile.suits(target_of(where, little), g, direction, 4)


def test_filters_too_tall_for_strips_are_computed_without_them(where):
    case = Reference(ConvGeometry(1, 2, 40, 3, 2, 33, 1, 8, 3, groups=2))
    target = target_of(where, GPU)
    _, launches = launches_of(where, target, case, Algorithm.DEPTHWISE)
    assert {found[0].kernel.name for found in launches} == {
        "conv_depthwise",
        "conv_depthwise_input",
        "conv_depthwise_weight",
    }
    check(run(where, target, case, Algorithm.DEPTHWISE), case)


def test_parts_of_a_depthwise_gradient_fit_the_workspace(where):
    case = Reference(ConvGeometry(9, 2, 8, 9, 2, 3, 3, 8, 9, 1, 1, 1, 1, 1, 1, 2))
    for limit, parts in ((0, 1), (3 * 2 * 9 * 4, 3)):
        target = target_of(where, GPU, limit)
        _, launches = launches_of(where, target, case, Algorithm.DEPTHWISE)
        assert launches[2][0].global_size[0] == parts * launches[2][0].local_size[0]
        check(run(where, target, case, Algorithm.DEPTHWISE), case)
