"""Every algorithm of convolution and its gradients against float64, and the choice between them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Scratch, Target
from clnet.errors import ArgumentError
from clnet.kernels import tile
from clnet.kernels.conv import (
    conv_direct,
    conv_implicit,
    conv_implicit_weight,
    conv_winograd,
)
from clnet.kernels.conv.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    choose,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
    fits,
)
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.tile import Tile
from clnet.values.dtypes import float32
from tests.kernels.convcase import GEOMETRIES, GPU, Reference, check, launches_of, run, target_of
from tests.kernels.launching import cpu_shaped

TARGETS = {
    "direct": (Algorithm.DIRECT, {}),
    "direct-8-lanes": (Algorithm.DIRECT, {"simd_width": 8, "compute_units": 16}),
    "direct-1-lane": (Algorithm.DIRECT, {"simd_width": 1}),
    "im2col": (Algorithm.IM2COL, {}),
    "implicit": (Algorithm.IMPLICIT, GPU),
    "implicit-small-groups": (Algorithm.IMPLICIT, {**GPU, "max_group_size": 64}),
    "depthwise": (Algorithm.DEPTHWISE, {}),
    "strips": (Algorithm.DEPTHWISE, GPU),
}
BROAD = ("direct", "im2col", "implicit", "depthwise")
NARROW = ("3x3", "stride-dilation-groups", "1x1")
OF_LARGE_TILES = ("stride-dilation-groups",)  # those that a GPU would take
LISTED = {module: module.TILINGS for module in (conv_implicit, conv_implicit_weight)}
SMALL_TILE = Tile(32, 32, 8, 4, 4, 4)
SLOW_IMPLICIT = pytest.param("implicit", marks=pytest.mark.slow)


@pytest.fixture(autouse=True)
def tiles_of_large_ones(monkeypatch):
    """Direct convolutions of few elements are cut as large ones are; implicit ones in one tile."""
    monkeypatch.setattr(conv_direct, "SMALL_FLOPS", 0)
    for module in LISTED:  # the compiler takes a third for this one, and tests share its kernels
        monkeypatch.setattr(module, "TILINGS", ((SMALL_TILE, 1.0),))


def geometry_and_way(geometry, way):
    """PoCL compiles a GPU kernel for a second or more; some geometries see to them in CI."""
    often = way != "implicit" or geometry in ("stride-dilation-groups", "one-row")
    return pytest.param(geometry, way, marks=[] if often else pytest.mark.slow)


@pytest.mark.parametrize(
    ("geometry", "way"),
    [geometry_and_way(g, t) for g in GEOMETRIES for t in TARGETS if t in BROAD or g in NARROW],
)
def test_algorithm_matches_reference(geometry, way, where, monkeypatch):
    algorithm, traits = TARGETS[way]
    if way == "implicit" and geometry in OF_LARGE_TILES:
        for module, tilings in LISTED.items():
            monkeypatch.setattr(module, "TILINGS", tilings)
    case = Reference(GEOMETRIES[geometry])
    check(run(where, target_of(where, traits), case, algorithm), case)


@pytest.mark.parametrize("direction", Direction)
def test_filters_as_large_as_the_images_are_one_product(direction, where):
    g = GEOMETRIES["filter-is-image"]
    point = ConvGeometry(5, 9, 1, 1, 7, 1, 1, 1, 1, 2, 2, 0, 0, 3, 3)
    others = (
        g._replace(n=1, groups=1, h=5, oh=2),
        g._replace(h=2, w=2, ph=1, pw=1),
        g._replace(h=7, w=7, dh=2, dw=2),
        ConvGeometry(5, 4, 4, 4, 2, 4, 4, 1, 1, groups=2),
    )
    target = cpu_shaped(where)
    for geometry in (g, point):
        assert choose(target, geometry, direction, float32) is Algorithm.WHOLE
    for geometry in others:
        assert choose(target, geometry, direction, float32) is not Algorithm.WHOLE


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limit", [None, 0])
def test_products_of_whole_images_match_reference(limit, dtype, where):
    case = Reference(ConvGeometry(16, 12, 4, 3, 40, 4, 3, 1, 1, 2, 1), dtype)
    check(run(where, target_of(where, {}, limit), case, Algorithm.WHOLE), case)
    y, *_ = run(where, where.target, case, Algorithm.WHOLE, "relu")
    np.testing.assert_allclose(y, np.maximum(case.forward(), 0), rtol=0, atol=1e-4)


def test_direct_convolutions_share_kernels(where):
    """But for tiles: padding, vertical stride and dilation, and bias are arguments; for packing
    and the weight's gradient all strides and dilations are."""
    seen: dict[str, set[str]] = {}
    for stride, dilation, padding in ((3, 1, 0), (4, 2, 1), (3, 4, 2)):
        down = (20 + 2 * padding - 2 * dilation - 1) // stride + 1
        for step, gap in ((1, 1), (stride, dilation)):
            across = (20 + 2 * padding - 2 * gap - 1) // step + 1
            settings = (stride, step, padding, padding, dilation, gap)
            g = ConvGeometry(1, 1, 20, 20, 1, 3, 3, down, across, *settings)
            case = Reference(g)
            _, (forward, _, weight) = launches_of(where, where.target, case, Algorithm.DIRECT)
            for launch in (*forward, *weight):
                tile = dict.fromkeys(("rows", "vectors", "strip"))
                name = f"{launch.kernel.name}, step {min(step, 2)}"
                seen.setdefault(name, set()).add(str({**launch.kernel.params, **tile}))
    count = {name: len(params) for name, params in seen.items()}
    assert count["conv_direct, step 1"] == 1
    assert count["conv_direct_weight, step 1"] == count["conv_direct_weight, step 2"] == 1
    assert count["conv_planes, step 1"] == count["conv_planes, step 2"] == 1


def ring(shape):
    """A tile that keeps several in local memory, copying without asynchronous instructions."""
    return ((shape._replace(stages=3, copy="direct", ahead=True), 1.0),)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", ["3x3", "stride-dilation-groups", "1x1", "7x7-stride"])
def test_tiles_in_a_ring_match_reference(geometry, where, monkeypatch):
    monkeypatch.setattr(conv_implicit, "TILINGS", ring(SMALL_TILE))
    monkeypatch.setattr(conv_implicit_weight, "TILINGS", ring(SMALL_TILE))
    case = Reference(GEOMETRIES[geometry])
    check(run(where, target_of(where, GPU), case, Algorithm.IMPLICIT), case)


def test_small_direct_convolutions_share_kernels(where, monkeypatch):
    """Whatever their channels and pixels."""
    monkeypatch.setattr(conv_direct, "SMALL_FLOPS", 2**16)
    seen = set()
    for n, ic, oc, height, width in ((1, 2, 3, 4, 6), (2, 3, 4, 5, 9), (1, 1, 3, 3, 17)):
        case = Reference(ConvGeometry(n, ic, height, width, oc, 3, 3, height, width, ph=1, pw=1))
        results, launches = launches_of(where, where.target, case, Algorithm.DIRECT)
        seen |= {id(x.kernel) for part in launches for x in part if "direct" in x.kernel.name}
        for launch in (launch for part in launches for launch in part):
            where.queue.launch(launch)
        check([result.numpy() for result in results], case)
    assert len(seen) == 3


def test_patches_share_a_kernel_and_loop_over_their_taps(where):
    """Written out, 1,024 taps took the compiler a minute, and each of them had a kernel."""
    case = Reference(ConvGeometry(2, 2, 24, 36, 3, 12, 12, 2, 3, sh=12, sw=12))
    algorithm, traits = TARGETS["direct"]
    target = target_of(where, traits)
    outputs, launches = launches_of(where, target, case, algorithm)
    assert len({id(x.kernel) for x in launches[1] if x.kernel.name == "conv_direct"}) == 1
    (kernel,) = {x.kernel for x in launches[0] if x.kernel.name == "conv_direct"}
    assert kernel.text().count("= multiply_add(") <= 4 * 28  # four taps' products, not 144
    for launch in (launch for part in launches for launch in part):
        where.queue.launch(launch)
    check([output.numpy() for output in outputs], case)


def test_sums_cut_into_many_slices(where, monkeypatch):
    monkeypatch.setattr(tile, "_LAUNCH_FLOPS", 0)
    for module in (conv_implicit, conv_implicit_weight):
        monkeypatch.setattr(module, "_SHORTEST_SLICE", 16)
    g = ConvGeometry(9, 40, 9, 8, 6, 3, 3, 9, 8, 1, 1, 1, 1)
    case = Reference(g)
    target = target_of(where, {**GPU, "compute_units": 64})
    _, launches = launches_of(where, target, case, Algorithm.IMPLICIT)
    assert (len(launches[0]), len(launches[2])) == (3, 2)
    check(run(where, target, case, Algorithm.IMPLICIT), case)


WINOGRAD = {
    "3x3": GEOMETRIES["3x3"],
    "whole-tiles": ConvGeometry(2, 6, 8, 12, 7, 3, 3, 8, 12, 1, 1, 1, 1),
    "no-padding": ConvGeometry(1, 3, 7, 9, 4, 3, 3, 5, 7),
    "more-padding": ConvGeometry(1, 3, 5, 5, 4, 3, 3, 7, 6, 1, 1, 2, 1),
    "5x5": ConvGeometry(2, 5, 9, 7, 6, 5, 5, 9, 7, 1, 1, 2, 2),
}


@pytest.mark.parametrize("geometry", WINOGRAD)
def test_winograd_matches_reference(geometry, where):
    case = Reference(WINOGRAD[geometry])
    check(run(where, target_of(where, GPU), case, Algorithm.WINOGRAD), case, factor=64)


def test_winograd_takes_as_many_images_at_a_time_as_fit(where):
    g = ConvGeometry(7, 5, 9, 7, 6, 3, 3, 9, 7, 1, 1, 1, 1)
    case = Reference(g)
    fixed, three = (
        max(conv_winograd._bytes(g._replace(n=n), direction, 4) for direction in Direction)
        for n in (0, 3)
    )
    target = target_of(where, GPU, three)
    _, launches = launches_of(where, target, case, Algorithm.WINOGRAD)
    # Filters, then parts of 3, 3 and 1 images of three launches each; the gradient's sums last.
    assert [len(found) for found in launches] == [10, 10, 10]
    check(run(where, target, case, Algorithm.WINOGRAD), case, factor=64)
    for direction in Direction:
        assert not fits(target_of(where, GPU, fixed), g, direction, float32, Algorithm.WINOGRAD)


@pytest.mark.slow
def test_winograd_in_float64(where):
    case = Reference(GEOMETRIES["3x3"], np.float64)
    check(run(where, target_of(where, GPU), case, Algorithm.WINOGRAD), case, factor=64)


def test_winograd_is_for_3x3_with_stride_1_where_products_weigh_more_than_bytes(where):
    target = target_of(where, GPU, 2**30)
    deep = ConvGeometry(64, 256, 14, 14, 256, 3, 3, 14, 14, 1, 1, 1, 1)
    for direction in Direction:
        assert choose(target, deep, direction, float32) is Algorithm.WINOGRAD
        other_way = choose(target, deep, direction, float32, winograd=False)
        assert other_way is Algorithm.IMPLICIT
        for other in (
            deep._replace(ic=16, oc=16),
            deep._replace(sh=2, oh=7),
            deep._replace(dh=2),
            deep._replace(groups=2),
            deep._replace(n=1),
        ):
            assert choose(target, other, direction, float32) is Algorithm.IMPLICIT
    direction = Direction.FORWARD
    assert choose(target_of(where, GPU, 2**20), deep, direction, float32) is Algorithm.DEPTHWISE


def test_check_notices_padding_off_by_one(where):
    g = GEOMETRIES["3x3"]
    case, wrong = Reference(g), Reference(g._replace(ph=0))
    results = run(where, where.target, wrong, Algorithm.DEPTHWISE)
    with pytest.raises(AssertionError):
        check(results, case)


@pytest.mark.parametrize("way", BROAD)
def test_relu_follows_the_bias(way, where):
    algorithm, traits = TARGETS[way]
    case = Reference(GEOMETRIES["3x3"])
    y, *_ = run(where, target_of(where, traits), case, algorithm, "relu")
    np.testing.assert_allclose(y, np.maximum(case.forward(), 0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("way", ["direct", "im2col", SLOW_IMPLICIT, "depthwise", "strips"])
def test_float64(way, where):
    algorithm, traits = TARGETS[way]
    case = Reference(GEOMETRIES["3x3"], np.float64)
    check(run(where, target_of(where, traits), case, algorithm), case)


@pytest.mark.parametrize("way", BROAD)
def test_operands_may_begin_inside_their_storage(way, where):
    algorithm, traits = TARGETS[way]
    case = Reference(GEOMETRIES["3x3"])
    target, g = target_of(where, traits), case.g

    def inside(values):
        flat = np.concatenate([np.full(3, np.nan, np.float32), values.ravel()])
        dense = Array.from_numpy(values, where)
        return Array.from_numpy(flat, where).view(values.shape, dense.strides, 3)

    x, weight, bias, gy = (inside(v) for v in (case.x, case.weight, case.bias, case.gy))
    y, gx, gw = (inside(np.full_like(v, np.nan)) for v in (case.gy, case.x, case.weight))
    for launch in (
        *conv_forward(target, y, x, weight, g, Epilogue(bias), algorithm=algorithm),
        *conv_input_grad(target, gx, gy, weight, g, algorithm=algorithm),
        *conv_weight_grad(target, gw, gy, x, g, algorithm=algorithm),
    ):
        where.queue.launch(launch)
    check([y.numpy(), gx.numpy(), gw.numpy()], case)


@pytest.mark.parametrize("way", ["direct", "im2col", SLOW_IMPLICIT])
def test_small_workspace_is_kept_to(way, where):
    algorithm, traits = TARGETS[way]
    case = Reference(ConvGeometry(5, 4, 12, 12, 6, 3, 3, 12, 12, 1, 1, 1, 1))
    target = target_of(where, traits, 48 * 1024)
    _, launches = launches_of(where, target, case, algorithm)
    used = {arg.nbytes for part in launches for launch in part for arg in launch.args
            if isinstance(arg, Scratch)}  # fmt: skip
    assert used
    assert max(used) <= target.workspace_limit
    check(run(where, target, case, algorithm), case)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("traits", [{}, GPU], ids=["cpu", "gpu"])
def test_choice_gives_way_to_what_fits(traits, direction, where):
    g = ConvGeometry(2, 8, 64, 64, 8, 3, 3, 64, 64, 1, 1, 1, 1)
    for limit in (0, 100_000, 300_000, 10_000_000):
        target = target_of(where, traits, limit)
        assert fits(target, g, direction, float32, choose(target, g, direction, float32))
    assert not fits(target_of(where, {}, 1000), g, direction, float32, Algorithm.DIRECT)


def test_algorithm_that_does_not_fit_is_refused(where):
    case = Reference(GEOMETRIES["3x3"])
    with pytest.raises(ArgumentError, match="conv_forward: the algorithm does not fit"):
        launches_of(where, target_of(where, {}, 100), case, Algorithm.IM2COL)


def test_no_workspace_at_all_still_computes(where):
    case = Reference(GEOMETRIES["stride-dilation-groups"])
    check(run(where, target_of(where, {}, 0), case), case)


def test_rows_longer_than_the_strip_of_sums(where):
    case = Reference(ConvGeometry(1, 2, 3, 9000, 3, 3, 3, 3, 9000, 1, 1, 1, 1))
    check(run(where, where.target, case, Algorithm.DIRECT), case)


@pytest.mark.parametrize("way", ["direct", "im2col", SLOW_IMPLICIT, "depthwise", "strips"])
def test_same_bits_every_time(way, where):
    algorithm, traits = TARGETS[way]
    case = Reference(ConvGeometry(9, 8, 14, 14, 24, 3, 3, 14, 14, 1, 1, 1, 1))
    target = target_of(where, traits)
    first = run(where, target, case, algorithm)
    for result, again in zip(first, run(where, target, case, algorithm), strict=True):
        assert result.tobytes() == again.tobytes()


@pytest.mark.parametrize("algorithm", [None, *Algorithm])
def test_no_images_give_a_zero_weight_gradient(algorithm, where):
    g = GEOMETRIES["3x3"]._replace(n=0)
    case = Reference(g)
    _, _, gw = run(where, where.target, case, algorithm)
    assert not gw.any()


def test_no_channels_give_the_bias(where):
    case = Reference(ConvGeometry(2, 0, 4, 4, 3, 3, 3, 4, 4, 1, 1, 1, 1))
    y, *_ = run(where, where.target, case)
    np.testing.assert_array_equal(y, np.broadcast_to(case.bias[:, None, None], y.shape))


def test_junk_beyond_the_rows_does_not_reach_the_weight_gradient(where):
    """Padding is zero even where the scratch memory held NaN, and infinity stays in its channel."""
    case = Reference(GEOMETRIES["3x3"])
    case.x[:, 2] = np.inf
    *_, gw = run(where, where.target, case, Algorithm.DIRECT)
    expected = case.weight_grad()
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(gw[:, kept], expected[:, kept], rtol=0, atol=1e-3)


@pytest.mark.parametrize("way", TARGETS)
def test_flops_are_declared(way, where):
    algorithm, traits = TARGETS[way]
    case = Reference(GEOMETRIES["3x3"])
    _, launches = launches_of(where, target_of(where, traits), case, algorithm)
    for part in launches:
        assert sum(launch.flops for launch in part) >= case.g.flops
        assert all(launch.bytes > 0 for launch in part)


@pytest.mark.parametrize("direction", Direction)
def test_pixels_of_all_images_are_columns_where_an_int_counts_them(direction, where):
    """One channel of 2^31 bytes or so may lie in images; a plane of them no kernel counts."""
    target = Target(dataclasses.replace(where.traits, **GPU), where.target.workspace_limit)
    for images, wanted in ((2**15 - 2, Algorithm.IMPLICIT), (2**15, Algorithm.DEPTHWISE)):
        g = ConvGeometry(images, 1, 256, 256, 1, 3, 3, 256, 256, 1, 1, 1, 1)
        assert choose(target, g, direction, float32) is wanted
    g = ConvGeometry(1, 1, 2**16, 2**15, 1, 3, 3, 2**16, 2**15, 1, 1, 1, 1)
    x = Array.abstract((1, 1, 2**16, 2**15), float32, where)
    weight = Array.abstract((1, 1, 3, 3), float32, where)
    for function, operands in (
        (conv_forward, (x, x, weight)),
        (conv_input_grad, (x, x, weight)),
        (conv_weight_grad, (weight, x, x)),
    ):
        with pytest.raises(ArgumentError, match="no more pixels than an int counts"):
            function(target, *operands, g)
