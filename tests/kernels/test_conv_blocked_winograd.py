"""Winograd's convolutions between blocked arrays against float64, and where they are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.device import Target
from clnet.kernels import streaming
from clnet.kernels.conv.conv_geometry import ConvGeometry, Direction
from clnet.kernels.conv.conv_obstacle import ConvObstacle
from clnet.kernels.conv_blocked import (
    conv_blocked_winograd_weight,
)
from clnet.kernels.conv_blocked.blocked_form import BlockedAlgorithm, BlockedForm
from clnet.kernels.conv_blocked.conv_blocked import (
    choose_form,
    obstacle,
)
from tests.kernels.blockedcase import GEOMETRIES, LANES, Side, check, target_of
from tests.kernels.convcase import Reference

WINOGRAD = {
    BlockedAlgorithm.WINOGRAD2: 2e-6,
    BlockedAlgorithm.WINOGRAD4: 1e-5,
}
SMOOTH = {
    "3x3": GEOMETRIES["3x3"],
    "valid": ConvGeometry(2, 32, 11, 10, 16, 3, 3, 9, 8),
    "wide": ConvGeometry(1, 16, 5, 7, 64, 3, 3, 7, 9, 1, 1, 2, 2),
    "below-a-tile": ConvGeometry(2, 16, 1, 2, 32, 3, 3, 1, 2, 1, 1, 1, 1),
    "several-blocks": ConvGeometry(13, 48, 17, 19, 32, 3, 3, 17, 19, 1, 1, 1, 1),
}


@pytest.mark.parametrize("algorithm", WINOGRAD)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("geometry", "lanes"), [(g, n) for g in SMOOTH for n in LANES if n == 16 or g == "3x3"]
)
def test_winograd_matches_reference(geometry, lanes, direction, algorithm, where):
    case, target = Reference(SMOOTH[geometry]), target_of(where, lanes)
    form = BlockedForm(algorithm, lanes)
    assert obstacle(target, case.g, direction, form) is None
    check(Side(where, target, case, direction, form), WINOGRAD[algorithm])


LARGER = {
    "5x5": ConvGeometry(3, 16, 9, 7, 48, 5, 5, 9, 7, 1, 1, 2, 2),
    "5x5-valid": ConvGeometry(2, 32, 12, 11, 32, 5, 5, 8, 7),
    "5x5-several-blocks": ConvGeometry(13, 48, 17, 19, 32, 5, 5, 19, 19, 1, 1, 3, 2),
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("geometry", "lanes"), [(g, n) for g in LARGER for n in LANES if n == 16 or g == "5x5"]
)
def test_winograd_of_larger_filters_matches_reference(geometry, lanes, direction, where):
    case, target = Reference(LARGER[geometry]), target_of(where, lanes)
    small = BlockedForm(BlockedAlgorithm.WINOGRAD2, lanes)
    assert obstacle(target, case.g, direction, small) is ConvObstacle.FILTERS
    form = BlockedForm(BlockedAlgorithm.WINOGRAD4, lanes)
    assert obstacle(target, case.g, direction, form) is None
    check(Side(where, target, case, direction, form), WINOGRAD[form.algorithm])


def test_winograd_weight_grad_in_many_parts(where, monkeypatch):
    """Blocks of a few tiles, chunks of blocks, and groups of panels where the sums are large."""
    case = Reference(ConvGeometry(13, 48, 17, 19, 32, 3, 3, 17, 19, 1, 1, 1, 1))
    form = BlockedForm(BlockedAlgorithm.WINOGRAD4, 8)
    monkeypatch.setattr(conv_blocked_winograd_weight, "MOST_TILES", 7)
    for sum_bytes in (2**30, 2**18):
        monkeypatch.setattr(conv_blocked_winograd_weight, "SUM_BYTES", sum_bytes)
        side = Side(where, target_of(where, 8), case, Direction.WEIGHT_GRAD, form)
        check(side, WINOGRAD[form.algorithm])


def test_winograd_weight_grad_of_few_tiles_has_work_for_all_units(where):
    case = Reference(ConvGeometry(2, 16, 4, 4, 96, 3, 3, 4, 4, 1, 1, 1, 1))
    form, target = BlockedForm(BlockedAlgorithm.WINOGRAD4, 8), target_of(where, 8)
    side = Side(where, target, case, Direction.WEIGHT_GRAD, form)
    assert side.launches()[1][0].global_size == (1, target.traits.compute_units)
    check(side, WINOGRAD[form.algorithm])


@pytest.mark.parametrize(("n", "channels", "side", "algorithm"), [
    (1, 64, 7, "direct"), (4, 512, 7, "direct"), (4, 1024, 7, "direct"), (16, 512, 7, "winograd4"),
    (1, 256, 14, "winograd2"), (2, 160, 14, "winograd4"), (4, 128, 7, "winograd4"),
])  # fmt: skip
def test_transforms_of_weight_grads_pay_for_their_sums(n, channels, side, algorithm, where):
    g = ConvGeometry(n, channels, side, side, channels, 3, 3, side, side, 1, 1, 1, 1)
    form = choose_form(target_of(where, 8), g, Direction.WEIGHT_GRAD)
    assert form.algorithm is BlockedAlgorithm(algorithm)


def test_winograd_with_bias_and_activation(where):
    form = BlockedForm(BlockedAlgorithm.WINOGRAD4, 16)
    side = Side(where, target_of(where, 16), Reference(SMOOTH["3x3"]), Direction.FORWARD, form)
    check(side, 2e-5, bias=True, activation="relu")


def test_winograd_where_it_pays_and_is_allowed(where):
    target = target_of(where, 16)
    g = ConvGeometry(8, 64, 56, 56, 64, 3, 3, 56, 56, 1, 1, 1, 1)
    forward, weight = Direction.FORWARD, Direction.WEIGHT_GRAD
    assert choose_form(target, g, forward).algorithm is BlockedAlgorithm.WINOGRAD4
    direct = BlockedForm(BlockedAlgorithm.DIRECT, 16)
    assert choose_form(target, g, forward, winograd=False) == direct
    assert choose_form(target, g, weight).algorithm is BlockedAlgorithm.WINOGRAD4
    small = g._replace(n=1, h=7, w=7, oh=7, ow=7)
    assert choose_form(target, small, forward) == choose_form(target, small, weight) == direct
    assert choose_form(target, g._replace(sh=2, sw=2, oh=28, ow=28), forward) == direct
    tight = Target(target.traits, 100_000)
    assert choose_form(tight, g, forward) == direct


@pytest.mark.parametrize("direction", Direction)
def test_small_convolutions_of_training_take_no_coarser_tiles(direction, where):
    target = target_of(where, 8)
    g = ConvGeometry(4, 32, 32, 32, 8, 3, 3, 32, 32, 1, 1, 1, 1)
    assert choose_form(target, g, direction).algorithm is not BlockedAlgorithm.WINOGRAD4
    many = g._replace(n=64)
    assert choose_form(target, many, direction).algorithm is BlockedAlgorithm.WINOGRAD4


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.INPUT_GRAD])
def test_large_transformed_filters_go_past_the_caches(direction, lanes, where, monkeypatch):
    form = BlockedForm(BlockedAlgorithm.WINOGRAD4, lanes)
    side = Side(where, target_of(where, lanes), Reference(SMOOTH["3x3"]), direction, form)
    plainly = side.run()
    monkeypatch.setattr(streaming, "PACKED_BYTES", 0)
    monkeypatch.setattr(streaming, "LINE_BYTES", 4 * lanes)
    assert side.launches()[1][0].kernel.params["stream"]
    assert np.array_equal(side.run(), plainly)


def test_filters_that_stay_are_worth_larger_transforms(where):
    target, forward = target_of(where, 16), Direction.FORWARD
    g = ConvGeometry(8, 256, 14, 14, 256, 3, 3, 14, 14, 1, 1, 1, 1)
    assert choose_form(target, g, forward).algorithm is BlockedAlgorithm.WINOGRAD2
    stay = choose_form(target, g, forward, packing=False)
    assert stay.algorithm is BlockedAlgorithm.WINOGRAD4
    few = g._replace(n=1, h=7, w=7, oh=7, ow=7, ic=512, oc=512)
    assert choose_form(target, few, forward).algorithm is BlockedAlgorithm.DIRECT
