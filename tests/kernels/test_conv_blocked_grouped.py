"""Convolutions of groups of channels between blocked arrays against float64."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.kernels.conv.conv_geometry import ConvGeometry, Direction
from clnet.kernels.conv_blocked import blocked_strips
from clnet.kernels.conv_blocked.blocked_form import BlockedAlgorithm, BlockedForm
from clnet.kernels.conv_blocked.conv_blocked import choose_form
from tests.kernels.blockedcase import Side, check, target_of
from tests.kernels.convcase import Reference

# Geometry -> the lanes with which it is computed.
GROUPED = {
    "whole-block": (ConvGeometry(2, 16, 9, 8, 16, 3, 3, 9, 8, 1, 1, 1, 1, groups=2), (8,)),
    "half-block": (ConvGeometry(2, 16, 9, 8, 16, 3, 3, 9, 8, 1, 1, 1, 1, groups=4), (8,)),
    "quarter": (ConvGeometry(2, 16, 15, 9, 16, 3, 3, 8, 5, 2, 2, 1, 1, groups=4), (16,)),
    "pairs": (ConvGeometry(2, 16, 9, 7, 16, 3, 5, 9, 7, 1, 1, 1, 2, groups=8), (4,)),
    "more-out": (ConvGeometry(1, 32, 7, 7, 64, 3, 3, 4, 4, 2, 2, 1, 1, groups=2), (8, 16)),
    "fewer-out": (ConvGeometry(1, 72, 6, 5, 24, 3, 2, 5, 5, 1, 1, 0, 0, 1, 1, 3), (8,)),
    "1x1": (ConvGeometry(2, 48, 5, 6, 32, 1, 1, 5, 6, groups=2), (8,)),
    "dilation": (ConvGeometry(2, 16, 12, 13, 16, 3, 2, 5, 6, 2, 2, 1, 0, 2, 2, 2), (8,)),
    "stride-below-gap": (ConvGeometry(1, 16, 13, 12, 16, 3, 3, 5, 4, 3, 3, 2, 2, 2, 2, 2), (8,)),
    "7x1": (ConvGeometry(2, 16, 9, 4, 16, 7, 1, 9, 4, 1, 1, 3, 0, groups=2), (8,)),
    "1x7": (ConvGeometry(2, 16, 4, 15, 16, 1, 7, 4, 15, 1, 1, 0, 3, groups=2), (8,)),
    "one-column": (ConvGeometry(2, 16, 9, 1, 16, 3, 1, 5, 1, 2, 2, 1, 0, groups=2), (8,)),
    "one-pixel": (ConvGeometry(3, 16, 4, 4, 16, 4, 4, 1, 1, groups=2), (8,)),
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("geometry", "lanes"), [(name, n) for name, (_, lanes) in GROUPED.items() for n in lanes]
)
def test_groups_match_reference(geometry, lanes, direction, where):
    if where.traits.dedicated_local_memory:
        pytest.skip("blocked arrays are chosen on CPU-shaped devices only")
    case, target = Reference(GROUPED[geometry][0]), target_of(where, lanes)
    form = choose_form(target, case.g, direction)
    assert form == BlockedForm(BlockedAlgorithm.GROUPED, lanes)
    check(Side(where, target, case, direction, form))


@pytest.mark.parametrize("direction", Direction)
def test_groups_in_several_strips(direction, where, monkeypatch):
    monkeypatch.setattr(blocked_strips, "STRIP_FLOATS", 0)
    monkeypatch.setattr(blocked_strips, "FAR_FLOATS", 0)
    case = Reference(GROUPED["half-block"][0])
    form = BlockedForm(BlockedAlgorithm.GROUPED, 8)
    check(Side(where, target_of(where, 8), case, direction, form))


def test_groups_with_bias_and_a_value_that_is_added(where):
    form, case = BlockedForm(BlockedAlgorithm.GROUPED, 8), Reference(GROUPED["whole-block"][0])
    side = Side(where, target_of(where, 8), case, Direction.FORWARD, form)
    added = np.random.default_rng(1).standard_normal(case.forward().shape, dtype=np.float32)
    check(side, bias=True, added=added, activation="relu")


@pytest.mark.parametrize("geometry", ["whole-block", "half-block"])
def test_infinities_stay_in_their_group(geometry, where):
    if where.traits.dedicated_local_memory:
        pytest.skip("blocked arrays are chosen on CPU-shaped devices only")
    g = GROUPED[geometry][0]
    x = np.ones((g.n, g.ic, g.h, g.w), np.float32)
    x[:, : g.icg] = np.inf
    layer = clnet.nn.Conv2d(g.ic, g.oc, (g.kh, g.kw), groups=g.groups)
    with clnet.no_grad():
        y = clnet.compile(layer)(clnet.tensor(x)).numpy()
    assert np.isfinite(y[:, g.ocg :]).all()
    assert not np.isfinite(y[:, : g.ocg]).any()


def test_groups_that_share_blocks_unevenly_stay_plain(where):
    if where.traits.dedicated_local_memory:
        pytest.skip("blocked arrays are chosen on CPU-shaped devices only")
    target = target_of(where, 8)
    for channels, outs, groups in ((24, 24, 8), (24, 24, 2), (16, 32, 8), (32, 16, 8)):
        g = ConvGeometry(1, channels, 9, 9, outs, 3, 3, 9, 9, 1, 1, 1, 1, groups=groups)
        assert [choose_form(target, g, direction) for direction in Direction] == [None] * 3
