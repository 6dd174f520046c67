"""Depthwise convolutions between blocked arrays against float64."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.kernels.conv.conv_geometry import ConvGeometry, Direction
from clnet.kernels.conv_blocked.blocked_form import BlockedAlgorithm, BlockedForm
from clnet.kernels.conv_blocked.conv_blocked import (
    choose_form,
)
from tests.kernels.blockedcase import LANES, Side, check, target_of
from tests.kernels.convcase import Reference

DEPTHWISE = {
    "3x3": ConvGeometry(3, 32, 9, 7, 32, 3, 3, 9, 7, 1, 1, 1, 1, groups=32),
    "5x5-stride": ConvGeometry(2, 16, 15, 29, 16, 5, 5, 8, 15, 2, 2, 2, 2, groups=16),
    "dilation": ConvGeometry(2, 16, 12, 13, 16, 3, 2, 5, 6, 2, 2, 1, 0, 2, 2, groups=16),
    "stride-below-gap": ConvGeometry(1, 16, 13, 12, 16, 3, 3, 5, 4, 3, 3, 2, 2, 2, 2, groups=16),
    "far-taps": ConvGeometry(2, 16, 9, 7, 16, 3, 3, 9, 7, 1, 1, 5, 6, 5, 6, groups=16),
    "several-strips": ConvGeometry(2, 16, 40, 31, 16, 3, 3, 40, 31, 1, 1, 1, 1, groups=16),
    "one-pixel": ConvGeometry(5, 16, 4, 4, 16, 4, 4, 1, 1, groups=16),
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("geometry", "lanes"),
    [(g, n) for g in DEPTHWISE for n in LANES if n == 8 or g == "3x3"],
)
def test_depthwise_matches_reference(geometry, lanes, direction, where):
    if where.traits.dedicated_local_memory:
        pytest.skip("blocked arrays are chosen on CPU-shaped devices only")
    case, target = Reference(DEPTHWISE[geometry]), target_of(where, lanes)
    form = choose_form(target, case.g, direction)
    assert form == BlockedForm(BlockedAlgorithm.DEPTHWISE, lanes)
    check(Side(where, target, case, direction, form))


@pytest.mark.parametrize("activation", [None, "relu"])
def test_depthwise_with_bias_and_a_value_that_is_added(activation, where):
    form, case = BlockedForm(BlockedAlgorithm.DEPTHWISE, 16), Reference(DEPTHWISE["3x3"])
    side = Side(where, target_of(where, 16), case, Direction.FORWARD, form)
    added = np.random.default_rng(1).standard_normal(case.forward().shape, dtype=np.float32)
    check(side, bias=True, added=added, activation=activation)


def test_depthwise_rows_that_do_not_fit_stay_plain(where):
    if where.traits.dedicated_local_memory:
        pytest.skip("blocked arrays are chosen on CPU-shaped devices only")
    target = target_of(where, 16)
    g = ConvGeometry(1, 16, 9, 4000, 16, 3, 3, 9, 4000, 1, 1, 1, 1, groups=16)
    assert [choose_form(target, g, direction) for direction in Direction] == [None] * 3
    wide = ConvGeometry(1, 16, 15, 15, 16, 13, 13, 3, 3, groups=16)
    assert choose_form(target, wide, Direction.FORWARD) is not None
    assert choose_form(target, wide, Direction.WEIGHT_GRAD) is None
