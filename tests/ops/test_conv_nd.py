"""Convolution of rows and volumes, patches, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.compile.passes import KEEPING_BITS
from clnet.compile.record import record
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.kernels.grid import in_groups
from clnet.nn import functional as F
from clnet.ops.conv_volume import VolumeSettings, by_planes
from clnet.profiling import profile
from tests.opcase import NARROW, OpCase, every_check, normal, sliced
from tests.torchcase import torch_case

pytestmark = [pytest.mark.device, pytest.mark.filterwarnings("ignore:Using padding='same'")]


def conv(name: str, x, weight, *args, channels: int = 0, **checks) -> OpCase:
    inputs = [normal(*x), normal(*weight)] + ([normal(channels)] if channels else [])
    rest = args if channels else (None, *args)
    return torch_case(
        name, inputs, *rest, shapes=[], layouts=(sliced,), k=64, **checks,
        label=f"{x}, {weight}, {args}",
    )  # fmt: skip


BOX = (2, 1, 3)  # filters of volumes that lie side by side


def of_boxes(x, w, b):
    n, c, *sizes = x.shape
    counts = [k // size for k, size in zip(sizes, BOX, strict=True)]
    x = x[:, :, : counts[0] * BOX[0], : counts[1] * BOX[1], : counts[2] * BOX[2]]
    parts = x.reshape(n, 2, c // 2, *(k for pair in zip(counts, BOX, strict=True) for k in pair))
    y = np.einsum("ngidahbwc,goiabc->ngodhw", parts, w.reshape(2, -1, *w.shape[1:]))
    return y.reshape(n, -1, *counts) + b.reshape(-1, 1, 1, 1)


def into_boxes(x, w, b):
    n, c, *sizes = x.shape
    parts = (x.reshape(n, 2, c // 2, *sizes), w.reshape(2, c // 2, *w.shape[1:]))
    y = np.einsum("ngidhw,gioabc->ngodahbwc", *parts)
    whole = [k * size for k, size in zip(sizes, BOX, strict=True)]
    return y.reshape(n, -1, *whole) + b.reshape(-1, 1, 1, 1)


CASES = [
    conv("conv1d", (2, 4, 9), (6, 2, 3), 2, 1, 2, 2, channels=6, grad2=True),
    conv("conv1d", (4, 9), (6, 4, 4), 1, "same", channels=6),
    conv("conv1d", (2, 4, 9), (6, 4, 3), 1, "valid"),
    conv("conv_transpose1d", (2, 4, 5), (4, 3, 3), 2, 1, 1, 2, 1, channels=6, grad2=True),
    conv("conv_transpose1d", (4, 5), (4, 3, 3), 3),
    conv(
        "conv3d", (2, 4, 5, 4, 6), (6, 2, 3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1), 2,
        channels=6,
    ),
    conv("conv3d", (1, 2, 4, 4, 5), (3, 2, 2, 3, 4), 1, "same", channels=3, grad2=True),
    conv("conv3d", (2, 4, 4, 5), (3, 2, 2, 3, 4)),
    conv(
        "conv_transpose3d", (2, 4, 3, 4, 3), (4, 3, 3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 0, 0), 2,
        (1, 1, 1), channels=6,
    ),
    conv(
        "conv_transpose3d", (2, 3, 2, 3), (2, 3, 2, 2, 3), 2, channels=3, grad2=True,
        dtypes=NARROW,
    ),
    *(
        OpCase(
            lambda x, w, b, name=name: getattr(F, name)(x, w, b, stride=BOX, groups=2),
            reference, [normal(2, 4, 5, 4, 7), normal(*filters), normal(6)], k=64, grad2=True,
            shapes=[], layouts=(sliced,), dtypes=NARROW, name=name,
        )
        for name, filters, reference in (
            ("conv3d", (6, 2, *BOX), of_boxes), ("conv_transpose3d", (4, 3, *BOX), into_boxes)
        )
    ),
    torch_case(
        "unfold", [normal(2, 3, 7, 6)], (3, 2), 1, 1, 2, shapes=[[(0, 1, 3, 3)]], dtypes=NARROW
    ),
    torch_case("unfold", [normal(3, 7, 6)], 2, 2, 0, 1, shapes=[]),
    torch_case("fold", [normal(2, 12, 20)], (5, 6), 2, 1, 0, 1, shapes=[], k=4, dtypes=NARROW),
    torch_case("fold", [normal(18, 6)], (4, 5), 3, 1, 0, 1, shapes=[], k=9),
]  # fmt: skip


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("name", ["conv3d", "conv_transpose3d"])
def test_filters_side_by_side_are_a_product_and_a_copy(name, device):
    x, w = clnet.ones(2, 4, 4, 4, 4, requires_grad=True), clnet.ones(4, 4, 2, 2, 2)
    w.requires_grad_()
    with profile(device) as observed:
        clnet.autograd.grad(getattr(F, name)(x, w, stride=2).sum(), [x, w])
    assert not [command for command in observed.commands if "axis_map" in command.name]


@pytest.mark.parametrize(
    ("sizes", "filters", "settings"),
    [
        ((2, 3, 6, 9, 17), (5, 3, 3, 3, 3), (1, 1, 1, 1)),
        ((2, 3, 6, 9, 17), (5, 3, 3, 3, 3), (2, 1, 1, 1)),
        ((2, 8, 6, 9, 17), (8, 1, 3, 3, 3), ((1, 2, 2), 1, 1, 8)),
        ((1, 3, 7, 20, 20), (16, 3, 3, 7, 7), ((1, 2, 2), (1, 3, 3), 1, 1)),
        ((2, 5, 9, 4, 4), (7, 5, 3, 1, 1), ((3, 1, 1), (2, 0, 0), (2, 1, 1), 1)),
        ((2, 5, 9, 8, 8), (7, 5, 1, 3, 3), (1, (0, 1, 1), 1, 1)),
        ((2, 5, 9, 4, 4), (7, 5, 5, 2, 1), ((1, 1, 2), (7, 0, 0), 1, 1)),
    ],
)
def test_volumes_are_one_op_on_a_processor(sizes, filters, settings, device):
    if in_groups(device.traits):
        pytest.skip("GPUs have convolutions of images")
    rng = np.random.default_rng(3)
    x, w, b = (rng.standard_normal(shape) for shape in (sizes, filters, filters[:1]))

    def results(convolve, dtype):
        given = [clnet.tensor(a.astype(dtype), requires_grad=True) for a in (x, w, b)]
        y = convolve(*given)
        return [y.detach(), *clnet.autograd.grad((y * y).sum(), given)]

    steps, pads, gaps, groups = settings

    def triple(k):
        return (k, k, k) if isinstance(k, int) else k

    ahead, *beside = triple(pads)
    apart = VolumeSettings(triple(steps), (ahead, ahead), tuple(beside), triple(gaps), groups)
    with profile(device) as observed:
        found = results(lambda *given: F.conv3d(*given, *settings), np.float32)
    names = {command.name for command in observed.commands}
    assert {"conv_volume", "conv_volume_weight"} <= names
    assert not {name for name in names if "axis_map" in name or "copy" in name}
    for a, e in zip(
        found, results(lambda *given: by_planes(*given, apart), np.float64), strict=True
    ):
        assert abs(a.numpy() - e.numpy()).max() < 3e-6 * abs(e.numpy()).max()


def test_volumes_in_compiled_functions_are_convolutions_of_images(device):
    x, w = clnet.ones(1, 2, 4, 5, 5), clnet.ones(3, 2, 3, 3, 3)
    trace = record(lambda x: F.conv3d(x, w, padding=1), (x,), {}, device).trace
    assert "conv2d" in {step.function.name for step in trace.steps}


def test_compiled_volumes_keep_the_bits_if_they_are_to(device):
    x, w = clnet.randn(2, 3, 6, 9, 17), clnet.randn(5, 3, 3, 3, 3, requires_grad=True)

    def step(x):
        y = F.conv3d(x, w, padding=1)
        return y.detach(), *clnet.autograd.grad((y * y).sum(), w)

    found = clnet.compile(step, passes=KEEPING_BITS)(x)
    for a, e in zip(found, step(x), strict=True):
        assert np.array_equal(a.numpy(), e.numpy())


def test_volumes_of_a_batch_are_mapped(device):
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s, np.float32) for s in ((3, 1, 2, 4, 5, 5), (4, 2, 3, 3, 3)))
    found = clnet.vmap(lambda x: F.conv3d(x, clnet.tensor(w), padding=1))(clnet.tensor(x))
    for a, of_one in zip(found, x, strict=True):
        expected = F.conv3d(clnet.tensor(of_one), clnet.tensor(w), padding=1)
        assert abs(a.numpy() - expected.numpy()).max() < 1e-5


def test_errors_say_what_is_wrong():
    x1, w1 = clnet.ones(1, 2, 6), clnet.ones(3, 2, 3)
    x3, w3 = clnet.ones(1, 2, 4, 4, 4), clnet.ones(3, 2, 3, 3, 3)
    for name in ("conv1d", "conv_transpose1d"):
        with pytest.raises(ShapeError, match=rf"^{name}: x is \(n, channels, length\) or"):
            getattr(F, name)(x3, w1)
        with pytest.raises(ShapeError, match=rf"^{name}: weight has 3 axes"):
            getattr(F, name)(x1, w3)
    for name in ("conv3d", "conv_transpose3d"):
        with pytest.raises(ShapeError, match=rf"^{name}: x is \(n, channels, d, h, w\) or"):
            getattr(F, name)(x1, w3)
        with pytest.raises(ShapeError, match=rf"^{name}: weight has 5 axes"):
            getattr(F, name)(x3, w1)
        with pytest.raises(ArgumentError, match=rf"^{name}: strides and dilations are 1 or more"):
            getattr(F, name)(x3, w3, stride=0)
    with pytest.raises(ArgumentError, match=r"^conv3d: padding 'same' needs stride 1"):
        F.conv3d(x3, w3, stride=2, padding="same")
    with pytest.raises(ShapeError, match=r"^conv3d: the filter is larger than the padded volume"):
        F.conv3d(x3, clnet.ones(3, 2, 5, 3, 3))
    with pytest.raises(ShapeError, match=r"^conv_transpose3d: padding leaves no plane"):
        F.conv_transpose3d(x3, clnet.ones(2, 3, 1, 1, 1), padding=3)
    with pytest.raises(ShapeError, match=r"^unfold: x is \(n, c, h, w\) or \(c, h, w\)"):
        F.unfold(clnet.ones(3, 3), 2)
    with pytest.raises(ShapeError, match=r"^unfold: a patch fits into the image"):
        F.unfold(clnet.ones(1, 3, 3), 4)
    with pytest.raises(ArgumentError, match=r"^unfold: sizes and steps are 1 or more"):
        F.unfold(clnet.ones(1, 3, 3), 0)
    with pytest.raises(DtypeError, match=r"^unfold: operands are floating"):
        F.unfold(clnet.ones(1, 3, 3).long(), 2)
    with pytest.raises(ShapeError, match=r"^fold: x is "):
        F.fold(clnet.ones(3), 3, 2)
    with pytest.raises(ShapeError, match=r"^fold: x has a multiple of 4 rows, and 4 columns"):
        F.fold(clnet.ones(4, 5), 3, 2)
