"""Convolutions between blocked arrays against float64: every form, direction and width."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnet.device import Target
from clnet.kernels import streaming
from clnet.kernels.conv.conv_geometry import ConvGeometry, ConvProblem, Direction
from clnet.kernels.conv_blocked import (
    blocked_strips,
    conv_blocked_direct,
    conv_blocked_gathered_weight,
    conv_blocked_weight,
)
from clnet.kernels.conv_blocked.blocked_form import BlockedAlgorithm, BlockedForm
from clnet.kernels.conv_blocked.conv_blocked import (
    choose_form,
)
from clnet.kernels.conv_blocked.conv_blocked_direct import Walk, walks
from tests.kernels.blockedcase import GEOMETRIES, LANES, Side, check, target_of
from tests.kernels.convcase import Reference

NARROW = ("3x3", "stride-dilation", "1x1-side-by-side")


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("geometry", "lanes"),
    [
        (g, n)
        for g in GEOMETRIES
        for n in LANES
        if n == 16 or g in ("3x3", "stride-dilation", "1x1-side-by-side")
    ],
)
def test_direct_matches_reference(geometry, lanes, direction, where):
    case = Reference(GEOMETRIES[geometry])
    target = target_of(where, lanes)
    form = choose_form(target, case.g, direction, winograd=False)
    assert form == BlockedForm(BlockedAlgorithm.DIRECT, lanes)
    check(Side(where, target, case, direction, form))


FEW = {
    "3x3": ConvGeometry(2, 3, 9, 31, 48, 3, 3, 9, 31, 1, 1, 1, 1),
    "7x7-stride": ConvGeometry(2, 3, 23, 37, 32, 7, 7, 12, 19, 2, 2, 3, 3),
    "four-blocks": ConvGeometry(2, 3, 9, 17, 64, 3, 3, 5, 9, 2, 2, 1, 1),
    "11x11-stride": ConvGeometry(1, 3, 39, 43, 16, 11, 11, 9, 10, 4, 4, 2, 2),
    "5x5-one-channel": ConvGeometry(9, 1, 12, 14, 32, 5, 5, 12, 14, 1, 1, 2, 2),
    "dilation": ConvGeometry(1, 2, 15, 14, 16, 2, 3, 6, 9, 2, 1, 0, 1, 3, 2),
    "short-rows": ConvGeometry(3, 1, 4, 3, 16, 3, 3, 4, 3, 1, 1, 1, 1),
}


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.WEIGHT_GRAD])
@pytest.mark.parametrize(
    ("geometry", "lanes"), [(g, n) for g in FEW for n in LANES if n == 16 or g in ("3x3", "7x7")]
)
def test_few_channels_match_reference(geometry, lanes, direction, where):
    if where.traits.dedicated_local_memory:
        pytest.skip("blocked arrays are chosen on CPU-shaped devices only")
    case, target = Reference(FEW[geometry]), target_of(where, lanes)
    form = choose_form(target, case.g, direction)
    assert form == BlockedForm(BlockedAlgorithm.FEW, lanes)
    check(Side(where, target, case, direction, form))
    assert choose_form(target, case.g, Direction.INPUT_GRAD) is None


def test_few_channels_with_bias_and_activation(where):
    form = BlockedForm(BlockedAlgorithm.FEW, 16)
    side = Side(where, target_of(where, 16), Reference(FEW["3x3"]), Direction.FORWARD, form)
    check(side, bias=True, activation="relu")


def test_check_notices_padding_off_by_one(where):
    g = GEOMETRIES["3x3"]
    form = BlockedForm(BlockedAlgorithm.DIRECT, 16)
    side = Side(where, target_of(where, 16), Reference(g._replace(ph=0)), Direction.FORWARD, form)
    wrong = side.run()
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(wrong, Reference(g).forward(), rtol=0, atol=1e-2)


@pytest.mark.parametrize("activation", [None, "relu"])
def test_bias_and_activation(activation, where):
    form = BlockedForm(BlockedAlgorithm.DIRECT, 16)
    case = Reference(GEOMETRIES["3x3"])
    side = Side(where, target_of(where, 16), case, Direction.FORWARD, form)
    check(side, bias=True, activation=activation)


@pytest.mark.parametrize(("bias", "activation"), [(True, "relu"), (False, None)])
@pytest.mark.parametrize(("geometry", "algorithm", "tolerance"), [
    ("four-blocks", BlockedAlgorithm.DIRECT, 2e-6), ("3x3", BlockedAlgorithm.WINOGRAD4, 5e-5),
])  # fmt: skip
def test_a_value_is_added_before_the_activation(
    geometry, algorithm, tolerance, bias, activation, where
):
    case = Reference(GEOMETRIES[geometry])
    form = BlockedForm(algorithm, 16)
    side = Side(where, target_of(where, 16), case, Direction.FORWARD, form)
    added = np.random.default_rng(1).standard_normal(case.forward().shape, dtype=np.float32)
    check(side, tolerance, bias=bias, added=added, activation=activation)


@pytest.mark.parametrize("geometry", ["1x1", "1x1-side-by-side", "stride-dilation", "3x3"])
def test_what_a_tile_reads_may_come_in_parts(geometry, where, monkeypatch):
    monkeypatch.setattr(conv_blocked_direct, "GATHERED_PIXELS", 1)
    monkeypatch.setattr(conv_blocked_direct, "LOCAL_BYTES", 0)
    form = BlockedForm(BlockedAlgorithm.DIRECT, 16)
    case = Reference(GEOMETRIES[geometry])
    forward = Side(where, target_of(where, 16), case, Direction.FORWARD, form)
    added = np.ones_like(case.forward(), np.float32)
    check(forward, bias=True, added=added, activation="relu")
    check(Side(where, target_of(where, 16), case, Direction.INPUT_GRAD, form))


# Images of which no whole number of tiles makes one: the last tile begins early.
ENDS = {
    "one image": ConvGeometry(1, 32, 5, 5, 32, 1, 1, 5, 5),
    "images": ConvGeometry(3, 16, 7, 9, 96, 1, 1, 7, 9),
    "one tile": ConvGeometry(2, 16, 4, 7, 32, 1, 1, 4, 7),
}


@pytest.mark.parametrize("geometry", ENDS)
@pytest.mark.parametrize("lanes", LANES)
def test_tiles_read_pixels_where_they_lie_up_to_the_end_of_each_image(geometry, lanes, where):
    form, case = BlockedForm(BlockedAlgorithm.DIRECT, lanes), Reference(ENDS[geometry])
    side = Side(where, target_of(where, lanes), case, Direction.FORWARD, form)
    few = lanes < 16 or geometry != "images"  # panels
    assert side.launches()[1][-1].kernel.params["straight"] == few
    added = np.random.default_rng(1).standard_normal(case.forward().shape, dtype=np.float32)
    check(side, bias=True, added=added, activation="relu")


@pytest.mark.parametrize(("geometry", "straight"), [
    (ConvGeometry(1, 64, 7, 7, 64, 1, 1, 7, 7), True),
    (ConvGeometry(16, 64, 7, 7, 256, 1, 1, 7, 7), False),  # each image's last tile is nearly empty
    (ConvGeometry(1, 2048, 7, 7, 64, 1, 1, 7, 7), False),  # filters come in parts
    (ConvGeometry(1, 64, 2, 2, 64, 1, 1, 2, 2), False),
    (ConvGeometry(1, 64, 7, 7, 64, 1, 1, 4, 4, 2, 2), False),
])  # fmt: skip
def test_pixels_are_gathered_where_that_takes_less(geometry, straight):
    tile, sides = conv_blocked_direct.tile_of(geometry.oc, 8), walks(geometry, Direction.FORWARD)
    form = BlockedForm(BlockedAlgorithm.DIRECT, 8)
    shapes = form.x_shape(geometry), form.y_shape(geometry)
    assert conv_blocked_direct.is_straight(geometry, tile, *shapes, sides) == straight


@pytest.mark.parametrize(("channels", "pixels", "chunks"), [
    (80, 14, (2, 1)), (112, 14, (2, 1)),  # of 5 and 7 panels half are too many
    (192, 7, (1, 2)), (480, 14, (1, 2)), (48, 28, (4, 1)),
])  # fmt: skip
def test_two_units_have_as_much_to_do(channels, pixels, chunks, where):
    target = Target(dataclasses.replace(target_of(where, 8).traits, compute_units=2), 0)
    g = ConvGeometry(1, 480, pixels, pixels, channels, 1, 1, pixels, pixels)
    split = conv_blocked_direct.SPLIT.choose(
        target, ConvProblem(Direction.FORWARD.value, False, *g)
    )
    assert split[:2] == chunks


@pytest.mark.parametrize(("step", "taps", "height", "width", "least", "far"), [
    (1, 3, 112, 112, 5, True), (1, 3, 112, 112, 30, False),
    (2, 5, 28, 59, 1, True), (1, 5, 28, 32, 1, False), (2, 3, 14, 29, 1, False),
])  # fmt: skip
def test_strips_are_higher_where_they_would_read_many_rows_twice(
    step, taps, height, width, least, far
):
    down = Walk(step, 1, -1, -1, 1)
    strip = blocked_strips.near_or_far(down, taps, height, 8 * width, least)
    near = blocked_strips.strip_of(down, taps, height, 8 * width, blocked_strips.STRIP_FLOATS)
    assert (strip > near) == far
    assert strip in (
        near,
        blocked_strips.strip_of(down, taps, height, 8 * width, blocked_strips.FAR_FLOATS),
    )


ROWS_ONCE = [name for name in GEOMETRIES if name.startswith("rows-")]


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.INPUT_GRAD])
@pytest.mark.parametrize("geometry", ROWS_ONCE)
@pytest.mark.parametrize(("turn", "room"), [(224, 2**19), (28, 2**15)])
def test_rows_are_gathered_once_for_all_taps(geometry, direction, turn, room, where, monkeypatch):
    monkeypatch.setattr(conv_blocked_direct, "GATHERED_PIXELS", turn)
    monkeypatch.setattr(conv_blocked_direct, "LOCAL_BYTES", room)
    form, case = BlockedForm(BlockedAlgorithm.DIRECT, 16), Reference(GEOMETRIES[geometry])
    side = Side(where, target_of(where, 16), case, direction, form)
    shared = side.launches()[1][-1].kernel.params["shared"] > 0
    asked = direction is Direction.FORWARD or geometry in ("rows-once", "rows-once-images")
    if asked and where.traits.local_memory_bytes >= 2 * room:
        fits = geometry in ("rows-once-images", "rows-apart") or room > 2**15
        assert shared == (fits and geometry not in ("rows-once-even", "rows-unread"))
    check(side)


@pytest.mark.parametrize(("room", "taps", "blocks", "part"), [
    (18, 9, 2, (9, 2)), (17, 9, 2, (8, 2)), (3, 9, 2, (1, 2)), (1, 9, 2, (1, 1)), (0, 1, 5, (1, 1)),
    (8, 9, 12, (1, 6)),
])  # fmt: skip
def test_parts_are_whole_taps_where_blocks_fit(room, taps, blocks, part):
    assert conv_blocked_direct.part_of(room, taps, blocks) == part


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.INPUT_GRAD])
def test_large_results_go_past_the_caches(direction, where, monkeypatch):
    monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
    form = BlockedForm(BlockedAlgorithm.DIRECT, 16)
    side = Side(where, target_of(where, 16), Reference(GEOMETRIES["1x1-stride"]), direction, form)
    assert side.launches()[1][-1].kernel.params["stream"]
    check(side)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("geometry", ["1x1", "1x1-side-by-side"])
def test_weight_grad_of_large_maps_reads_them_where_they_lie(geometry, lanes, where, monkeypatch):
    case, form = Reference(GEOMETRIES[geometry]), BlockedForm(BlockedAlgorithm.DIRECT, lanes)
    side = Side(where, target_of(where, lanes), case, Direction.WEIGHT_GRAD, form)
    assert side.launches()[1][0].kernel.name == "conv_blocked_gathered_weight"
    monkeypatch.setattr(conv_blocked_weight, "STRAIGHT_PIXELS", case.g.h * case.g.w)
    if lanes == 16 and geometry == "1x1":  # chunks of rows
        monkeypatch.setattr(conv_blocked_weight, "BLOCK_PIXELS", 1)
    assert side.launches()[1][0].kernel.name == "conv_blocked_weight"
    check(side)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("geometry", ["stride-dilation", "far-taps", "even-same", "four-blocks"])
def test_weight_grad_gathers_in_parts(geometry, lanes, where, monkeypatch):
    monkeypatch.setattr(conv_blocked_gathered_weight, "BLOCK_PIXELS", 4)
    monkeypatch.setattr(conv_blocked_gathered_weight, "LOCAL_BYTES", 2**13)
    case, form = Reference(GEOMETRIES[geometry]), BlockedForm(BlockedAlgorithm.DIRECT, lanes)
    target = target_of(where, lanes)
    side = Side(where, target, case, Direction.WEIGHT_GRAD, form)
    check(side)
    once = side.run()
    assert np.array_equal(side.run(), once)
    side.target = Target(target.traits, 4 * once.size)  # room for the sums of one chunk
    assert len(side.launches()[1]) == 1
    check(side)


def test_weight_grad_of_many_pixels_rounds_as_its_parts(where):
    g = ConvGeometry(1, 8, 96, 260, 8, 1, 1, 96, 260)
    case, target = Reference(g), target_of(where, 8)
    form = BlockedForm(BlockedAlgorithm.DIRECT, 8)
    side = Side(where, target, case, Direction.WEIGHT_GRAD, form)
    side.target = Target(target.traits, 4 * 64)
    assert len(side.launches()[1]) == 1
    check(side, 1e-6)  # one chain of 24,960 products is 4.6e-6 off


@pytest.mark.parametrize(("units", "floats", "affordable"), [
    (2, 2**17, 100), (16, 2**17, 100), (3, 2**17, 1), (2, 2**12, 2), (64, 2**14, 100),
])  # fmt: skip
@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_parts_of_a_weight_grad_fit(geometry, block, units, floats, affordable):
    g = GEOMETRIES[geometry]
    split = conv_blocked_gathered_weight.split_of(units, floats, g, block, affordable)
    vectors = conv_blocked_gathered_weight.VECTORS
    tiles = -(-(g.ic // block) * g.taps // vectors)
    outs = -(-g.oc // block // split.out_groups) * block
    pixels = -(-split.rows * split.columns // 4) * 4
    sums = -(-tiles // split.tile_groups) * vectors * block * outs
    assert pixels * (vectors * block + outs) + sums <= floats
    assert 1 <= split.tile_groups <= tiles
    assert 1 <= split.out_groups <= g.oc // block
    assert 1 <= split.chunks <= min(affordable, g.n * g.oh)
    assert split.columns <= g.ow


def test_what_stays_plain(where):
    g, target = GEOMETRIES["3x3"], target_of(where, 16)
    assert choose_form(target, g._replace(groups=2), Direction.FORWARD) is None
    assert choose_form(target, g._replace(oc=24), Direction.FORWARD) is None
    assert choose_form(target, g._replace(n=2**20, h=512, w=512), Direction.FORWARD) is None
    gpu = Target(dataclasses.replace(target.traits, dedicated_local_memory=True), 2**30)
    assert choose_form(gpu, g, Direction.FORWARD) is None
    tight = Target(target.traits, 1000)
    assert choose_form(tight, g, Direction.WEIGHT_GRAD) is None


@pytest.mark.parametrize("direction", Direction)
def test_same_bits_every_time(direction, where):
    case = Reference(ConvGeometry(9, 16, 14, 14, 32, 3, 3, 14, 14, 1, 1, 1, 1))
    target = where.target
    form = choose_form(target, case.g, direction)
    if form is None:
        pytest.skip("the device has no blocked forms")
    side = Side(where, target, case, direction, form)
    assert side.run().tobytes() == side.run().tobytes()


@pytest.mark.parametrize("direction", Direction)
def test_flops_are_declared(direction, where):
    case, target = Reference(GEOMETRIES["3x3"]), target_of(where, 16)
    form = choose_form(target, case.g, direction, winograd=False)
    _, launches = Side(where, target, case, direction, form).launches()
    assert sum(launch.flops for launch in launches) >= case.g.flops
    assert all(launch.bytes > 0 for launch in launches)
