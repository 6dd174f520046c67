"""Convolution of rows and volumes, patches, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F
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
