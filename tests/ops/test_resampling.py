"""Interpolation, sampling and pixel shuffles beside PyTorch's."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet.device import Target
from clnet.errors import ArgumentError, DtypeError, OutOfDeviceMemory, ShapeError
from clnet.kernels.pool import grid_sample_image
from clnet.nn import functional as F
from clnet.ops.sampling import GridSample
from tests.answers import torch
from tests.opcase import OpCase, every_check, normal, sliced, uniform
from tests.torchcase import by_torch, torch_case

pytestmark = pytest.mark.device

ROWS, IMAGES, VOLUMES = normal(2, 3, 7), normal(2, 2, 5, 6), normal(1, 2, 3, 4, 5)
OF = {1: ROWS, 2: IMAGES, 3: VOLUMES}
SIZES = (9, 4, 7)
MODES = [
    *(("nearest", n) for n in OF),
    *(("nearest-exact", n) for n in OF),
    *(("area", n) for n in OF),
    ("linear", 1),
    ("bilinear", 2),
    ("trilinear", 3),
    ("bicubic", 2),
]
CORNERED = [(m, n) for m, n in MODES if "linear" in m or "cubic" in m]


def resize(axes: int, *args, **settings) -> OpCase:
    return torch_case("interpolate", [OF[axes]], *args, shapes=[], layouts=(sliced,), **settings)


def sample(axes: int, **settings) -> OpCase:
    # Places within cells of the grid: the reference's differences must not cross a kink.
    shape = (2, 4, 3, 2) if axes == 2 else (1, 2, 3, 2, 3)
    place = uniform(-1.2, 1.2, shape, grad=settings["mode"] == "bilinear")
    sizes = {2: (2, 3, 5, 6), 3: (1, 2, 3, 4, 5)}
    return torch_case("grid_sample", [normal(*sizes[axes]), place], **settings, shapes=[])


CASES = [
    *(resize(n, SIZES[:n], mode=m) for m, n in MODES),
    *(resize(n, scale_factor=1.7, mode=m) for m, n in MODES),
    *(resize(n, SIZES[:n], mode=m, align_corners=True) for m, n in CORNERED),
    resize(2, scale_factor=(0.6, 2.5), mode="bilinear", recompute_scale_factor=True),
    resize(2, (1, 1), mode="bicubic", align_corners=True),
    *(
        resize(2, (3, 9), mode=m, antialias=True, align_corners=corners)
        for m in ("bilinear", "bicubic")
        for corners in (False, True)
    ),
    *(
        sample(n, mode=m, padding_mode=p, align_corners=corners)
        for m, n in [
            ("bilinear", 2),
            ("nearest", 2),
            ("bicubic", 2),
            ("bilinear", 3),
            ("nearest", 3),
        ]
        for p in ("zeros", "border", "reflection")
        for corners in (False, True)
    ),
    sample(
        2,
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
        label="16 bits",
        dtypes=("bfloat16",),
    ),
    *(
        OpCase(
            lambda t, s=size, c=corners: F.affine_grid(t, s, align_corners=c),
            lambda t, s=size, c=corners: by_torch("affine_grid", list(s), align_corners=c)(t),
            [normal(2, len(size) - 2, len(size) - 1)],
            shapes=[],
            name="affine_grid",
            label=f"{size}, {corners}",
        )
        for size in ((2, 3, 4, 5), (2, 1, 3, 2, 4))
        for corners in (False, True)
    ),
    torch_case("pixel_shuffle", [normal(2, 8, 3, 4)], 2, shapes=[[(0, 4, 1, 1)]]),
    torch_case("pixel_unshuffle", [normal(2, 2, 4, 6)], 2, shapes=[[(1, 1, 2, 2)]]),
    torch_case("channel_shuffle", [normal(2, 6, 3, 4)], 3, shapes=[[(1, 3, 1, 1)]]),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_gradients_of_gradients_flow_through_interpolation():
    values = np.random.default_rng(3).normal(size=(2, 2, 5, 6))
    answers = []
    for library, given in ((clnet, clnet.tensor(values)), (torch, torch.from_numpy(values))):
        x = given.requires_grad_()
        resize = F.interpolate if library is clnet else torch.nn.functional.interpolate
        y = resize(x * x * x, (9, 4), mode="bilinear")
        (slope,) = library.autograd.grad((y * y).sum(), [x], create_graph=True)
        (bend,) = library.autograd.grad((slope * slope).sum(), [x])
        answers.append([np.asarray(t.detach().numpy()) for t in (y, slope, bend)])
    for ours, theirs in zip(*answers, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_of_gradients_flow_through_samples(mode):
    """Beside differences along a drawn direction: PyTorch 2.11 has none."""
    rng = np.random.default_rng(4)
    at = [rng.normal(size=(2, 2, 5, 6)), rng.uniform(-0.8, 0.8, (2, 3, 4, 2))]
    way = [rng.normal(size=v.shape) for v in at]

    def slopes(values, **how):
        leaves = [clnet.tensor(v, requires_grad=True) for v in values]
        y = F.grid_sample(*leaves, mode=mode, align_corners=False)
        found = clnet.autograd.grad((y * y).sum(), leaves, **how)
        return leaves, sum((s * s).sum() for s in found)

    leaves, total = slopes(at, create_graph=True)
    bends = clnet.autograd.grad(total, leaves)
    along = sum((b.numpy() * w).sum() for b, w in zip(bends, way, strict=True))
    ends = [slopes([v + 1e-6 * k * w for v, w in zip(at, way, strict=True)])[1] for k in (1, -1)]
    np.testing.assert_allclose(along, (ends[0] - ends[1]).item() / 2e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("places", [0, 6])
def test_samples_of_nothing_and_at_no_places(shape, places):
    leaves = [clnet.ones(shape, requires_grad=True)]
    leaves.append(clnet.zeros(shape[0], places, 2, 2, requires_grad=True))
    y = F.grid_sample(*leaves, align_corners=False)
    assert y.shape == (*shape[:2], places, 2)
    gx, gp = clnet.autograd.grad(y.sum(), leaves)
    assert (gx.shape, gp.shape) == (leaves[0].shape, leaves[1].shape)
    assert gx.sum().item() == y.numel()
    assert not gp.any()


def test_samples_of_a_view_have_the_same_bits_each_time():
    rng = np.random.default_rng(5)
    x = clnet.tensor(rng.normal(size=(2, 9, 11, 3)).astype(np.float32)).permute(0, 3, 1, 2)
    grid = clnet.tensor(rng.uniform(-1, 1, (2, 2, 30, 40)).astype(np.float32)).permute(0, 2, 3, 1)
    found = []
    for _ in range(3):
        leaves = [v.detach().requires_grad_() for v in (x, grid)]
        y = F.grid_sample(*leaves, padding_mode="border", align_corners=False)
        found.append([y, *clnet.autograd.grad((y * y).sum(), leaves)])
    dense = F.grid_sample(x.contiguous(), grid.contiguous(), padding_mode="border")
    for again in found:
        for one, other in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
        np.testing.assert_array_equal(again[0].detach().numpy(), dense.numpy())


def test_what_lies_outside_counts_nothing_whatever_the_edge_holds():
    x = clnet.full((1, 2, 4, 4), float("inf"), requires_grad=True)
    grid = clnet.full((1, 5, 20, 2), 3.0)
    y = F.grid_sample(x, grid, align_corners=False)
    (gx,) = clnet.autograd.grad(y, [x], clnet.full(y.shape, float("nan")))
    assert not y.any()
    assert not gx.any()


@pytest.mark.parametrize("dedicated_local_memory", [True, False])
def test_images_gradients_are_one_launch_where_an_item_adds_alone(device, dedicated_local_memory):
    traits = replace(device.traits, dedicated_local_memory=dedicated_local_memory)
    gx, gy, grid = (
        clnet.zeros(shape).array for shape in ((2, 3, 4, 5), (2, 3, 6, 6), (2, 6, 6, 2))
    )
    taps = GridSample("bilinear", "zeros", False).taps((4, 5))
    few, many = (
        len(grid_sample_image(Target(replace(traits, compute_units=n), 2**20), gx, gy, grid, taps))
        for n in (2, 1000)
    )
    assert many > 1
    assert (few == 1) != dedicated_local_memory


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
def test_nearest_keeps_the_dtype(dtype):
    x = clnet.tensor([[[1, 2, 3]]]).to(dtype=getattr(clnet, dtype))
    y = F.interpolate(x, 6)
    assert y.dtype is x.dtype
    np.testing.assert_array_equal(y.numpy().ravel().astype(int), [1, 1, 2, 2, 3, 3])


BY_SIZES = [
    *((mode, n, 1.3, {}) for mode, n in MODES if mode != "area"),
    *(("nearest", n, 2.3, {}) for n in OF),
    ("bilinear", 2, 1.3, {"antialias": True}),
    ("bicubic", 2, 1.3, {"antialias": True}),
]


@pytest.mark.parametrize(("mode", "n", "factor", "how"), BY_SIZES)
def test_an_axis_whose_size_stays_goes_by_it_where_pytorchs_does(mode, n, factor, how):
    """Of three elements 1.3 times as many are three: a copy, or samples 1 / 1.3 apart."""
    x = np.random.default_rng(0).normal(size=(1, 2, *(3,) * n))
    for axis in range(n):
        factors = tuple(factor if a == axis else 1.0 for a in range(n))
        given = {"scale_factor": factors, "mode": mode, **how}
        found = F.interpolate(clnet.tensor(x), **given).numpy()
        expected = torch.nn.functional.interpolate(torch.tensor(x), **given).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_errors_say_what_is_wrong():
    x = clnet.ones(1, 2, 3, 4)
    with pytest.raises(ShapeError, match=r"^affine_grid: sizes are 1 or more"):
        F.affine_grid(clnet.ones(1, 2, 3), (1, 3, 0, 1))
    with pytest.raises(ArgumentError, match=r"^interpolate: mode is one of nearest, "):
        F.interpolate(x, 2, mode="best")
    with pytest.raises(ArgumentError, match=r"^interpolate: either size or scale_factor is given"):
        F.interpolate(x)
    with pytest.raises(ArgumentError, match=r"^interpolate: recompute_scale_factor needs"):
        F.interpolate(x, 2, recompute_scale_factor=True)
    with pytest.raises(
        ArgumentError, match=r"^interpolate: there is one number for each of 2 axes"
    ):
        F.interpolate(x, (2, 3, 4))
    with pytest.raises(ArgumentError, match=r"^interpolate: align_corners goes with linear"):
        F.interpolate(x, 2, align_corners=True)
    with pytest.raises(ArgumentError, match=r"^interpolate: antialias goes with bilinear"):
        F.interpolate(x, 2, antialias=True)
    with pytest.raises(ShapeError, match=r"^interpolate: for mode 'linear' x has 3 axes"):
        F.interpolate(x, 2, mode="linear")
    with pytest.raises(ShapeError, match=r"^interpolate: sizes are 1 or more"):
        F.interpolate(x, 0)
    with pytest.raises(DtypeError, match=r"^interpolate: operands are floating"):
        F.interpolate(x.long(), 2, mode="bilinear")
    with pytest.raises(ArgumentError, match=r"^grid_sample: mode is one of"):
        F.grid_sample(x, clnet.ones(1, 2, 2, 2), mode="linear")
    with pytest.raises(ArgumentError, match=r"^grid_sample: padding_mode is one of"):
        F.grid_sample(x, clnet.ones(1, 2, 2, 2), padding_mode="ones")
    with pytest.raises(ShapeError, match=r"^grid_sample: x is "):
        F.grid_sample(x, clnet.ones(1, 2, 2, 3))
    with pytest.raises(ShapeError, match=r"^grid_sample: mode 'bicubic' takes images"):
        F.grid_sample(clnet.ones(1, 1, 2, 2, 2), clnet.ones(1, 2, 2, 2, 3), mode="bicubic")
    with pytest.raises(ShapeError, match=r"^affine_grid: theta is \(n, 2, 3\)"):
        F.affine_grid(clnet.ones(1, 2, 2), (1, 1, 2, 2))
    with pytest.raises(ShapeError, match=r"^pixel_shuffle: channels are a multiple"):
        F.pixel_shuffle(x, 2)
    with pytest.raises(ArgumentError, match=r"^pixel_unshuffle: the factor is 1 or more"):
        F.pixel_unshuffle(x, 0)
    with pytest.raises(ShapeError, match=r"^pixel_unshuffle: sides are multiples"):
        F.pixel_unshuffle(x, 2)
    with pytest.raises(ShapeError, match=r"^pixel_shuffle: x is "):
        F.pixel_shuffle(clnet.ones(2, 3), 2)
    with pytest.raises(ShapeError, match=r"^channel_shuffle: groups divides the channels"):
        F.channel_shuffle(x, 3)
    with pytest.raises(ArgumentError, match=r"^channel_shuffle: groups is 1 or more"):
        F.channel_shuffle(x, 0)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_what_cannot_fit_is_refused_before_the_host_works_for_it(mode):
    x = clnet.ones(1, 1, 4, 4)
    start = time.perf_counter()
    for kind in ({"scale_factor": 1e9}, {"size": (10**12, 1)}):
        with pytest.raises(OutOfDeviceMemory):
            clnet.nn.functional.interpolate(x, mode=mode, **kind)
    assert time.perf_counter() - start < 5
    with pytest.raises(ArgumentError, match="scale_factor is finite; got scale_factor=inf"):
        clnet.nn.functional.interpolate(x, scale_factor=float("inf"), mode=mode)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_what_lies_infinitely_far_outside_a_volume_is_zero(mode):
    far = [[math.inf, 0.0, 0.0], [0.0, -math.inf, 0.1], [math.nan, 0.0, 0.0], [math.inf] * 3]
    near = [0.3, -0.2, 0.1]

    def found(lib, functional):
        x = lib.arange(24.0).reshape(1, 1, 2, 3, 4).requires_grad_()
        grid = lib.tensor([*far, near]).reshape(1, 1, 1, 5, 3).requires_grad_()
        y = functional.grid_sample(x, grid, mode=mode, align_corners=False)
        y.sum().backward()
        return [a.tolist() for a in (y.flatten(), x.grad.flatten(), grid.grad.flatten())]

    ours = found(clnet, F)
    assert ours[0][:4] == [0.0] * 4
    assert ours[2][:12] == [0.0] * 12
    for a, b in zip(ours, found(torch, torch.nn.functional), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    x, grid = clnet.ones(1, 1, 2, 2, 2), clnet.tensor(far[:1]).reshape(1, 1, 1, 1, 3)
    function = GridSample(mode, "zeros", align_corners=False)
    assert function.decompose(x, grid).item() == 0.0
