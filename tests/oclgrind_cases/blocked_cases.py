"""Convolutions between blocked arrays: every form and direction, borders, strides, dilation."""

from __future__ import annotations

import numpy as np

from clnet.array import Array
from clnet.device import Target
from clnet.kernels import streaming
from clnet.kernels.conv.conv_geometry import ConvGeometry, Direction
from clnet.kernels.conv_blocked import (
    blocked_strips,
    conv_blocked_depthwise,
    conv_blocked_direct,
    conv_blocked_few_channels,
    conv_blocked_gathered_weight,
    conv_blocked_grouped,
    conv_blocked_grouped_weight,
    conv_blocked_pack,
    conv_blocked_weight,
    conv_blocked_winograd,
    conv_blocked_winograd_weight,
)
from clnet.kernels.conv_blocked.blocked_form import BlockedForm
from clnet.kernels.conv_blocked.conv_blocked import (
    BlockedAlgorithm,
    block_size,
    blocked_forward,
    blocked_input_grad,
    blocked_weight_grad,
    obstacle,
    pack_filters,
    packed_size,
)
from clnet.kernels.epilogue import Epilogue

from .convolution import taps
from .harness import case, constants, given, near, normal, output, run

MODULES = (
    conv_blocked_depthwise,
    conv_blocked_direct,
    conv_blocked_few_channels,
    conv_blocked_gathered_weight,
    conv_blocked_grouped,
    conv_blocked_grouped_weight,
    conv_blocked_pack,
    conv_blocked_weight,
    conv_blocked_winograd,
    conv_blocked_winograd_weight,
)

SIDE_BY_SIDE = ConvGeometry(1, 16, 12, 7, 16, 1, 1, 12, 7)
STRAIGHT = ConvGeometry(1, 16, 3, 4, 32, 1, 1, 3, 4)
PADDED = ConvGeometry(2, 16, 3, 4, 32, 3, 3, 3, 4, ph=1, pw=1)
LARGE = ConvGeometry(1, 16, 3, 3, 16, 5, 5, 3, 4, ph=2, pw=2)
STRIDED = ConvGeometry(1, 16, 5, 4, 16, 3, 2, 2, 2, sh=2, sw=2, ph=1, dh=2)
WIDE = ConvGeometry(1, 64, 3, 3, 64, 1, 1, 2, 2, sh=2, sw=2)
OF_CHANNELS = ConvGeometry(2, 16, 5, 4, 16, 3, 3, 5, 4, ph=1, pw=1, groups=16)
OF_CHANNELS_STRIDED = ConvGeometry(1, 16, 7, 6, 16, 3, 2, 3, 3, sh=2, sw=2, ph=1, dh=2, groups=16)
OF_GROUPS = ConvGeometry(2, 32, 5, 4, 32, 3, 3, 5, 4, ph=1, pw=1, groups=2)
OF_SMALL_GROUPS = ConvGeometry(1, 16, 7, 6, 16, 3, 2, 3, 3, sh=2, sw=2, ph=1, dh=2, groups=8)
OF_LARGE_GROUPS = ConvGeometry(1, 32, 4, 5, 64, 1, 3, 4, 5, pw=1, groups=2)
OF_ONE_COLUMN = ConvGeometry(1, 32, 5, 1, 32, 3, 1, 3, 1, sh=2, sw=2, ph=1, groups=2)
FEW = ConvGeometry(2, 3, 6, 7, 32, 3, 2, 3, 6, sh=2, ph=1)


def arranged(values: np.ndarray, form: BlockedForm) -> Array:
    """A plain array, blocked."""
    n, c, h, w = values.shape
    folded = values.reshape(n, c // form.block, form.block, h, w).transpose(0, 1, 3, 4, 2)
    return given(np.ascontiguousarray(folded), before=3)


def near_blocked(actual: Array, expected: np.ndarray, form: BlockedForm, terms: int) -> None:
    n, c, h, w = expected.shape
    folded = expected.reshape(n, c // form.block, form.block, h, w).transpose(0, 1, 3, 4, 2)
    near(actual, folded, terms=terms)


def check(target: Target, g: ConvGeometry, algorithm: BlockedAlgorithm, *, full: bool) -> None:
    """The convolution and both gradients; ``full``: with bias, activation and, if it can, a sum."""
    block = block_size(target.traits)
    assert block is not None
    if block < 16 and algorithm is not BlockedAlgorithm.FEW:  # still several blocks
        groups = g.groups if algorithm is BlockedAlgorithm.GROUPED else max(g.groups // 2, 1)
        g = g._replace(ic=g.ic // 2, oc=g.oc // 2, groups=groups)
    form = BlockedForm(algorithm, block)
    x, w = normal(g.n, g.ic, g.h, g.w), normal(g.oc, g.icg, g.kh, g.kw)
    own = w
    # Which channel of which group a channel of x is for a filter: filters of groups, as dense ones.
    of = (
        np.arange(g.ic)
        == (np.arange(g.oc) // g.ocg * g.icg)[:, None, None] + np.arange(g.icg)[:, None]
    ).astype(w.dtype)
    w = np.einsum("oxi,oxrs->oirs", of, w)
    bias, gy, reads = normal(g.oc), normal(g.n, g.oc, g.oh, g.ow), taps(g)
    y = np.einsum("nihw,oirs,yxrshw->noyx", x, w, reads, optimize=True)
    gx = np.einsum("noyx,oirs,yxrshw->nihw", gy, w, reads, optimize=True)
    gw = np.einsum("noyx,nihw,yxrshw->oirs", gy, x, reads, optimize=True)
    gw = np.einsum("oxi,oirs->oxrs", of, gw)
    added = normal(*y.shape) if full and not form.plain_x else None
    if full:
        y = np.maximum(y + bias[:, None, None] + (0 if added is None else added), 0)
    x_ = given(x, before=3) if form.plain_x else arranged(x, form)
    gy_, w_ = arranged(gy, form), given(own)
    able = [d for d in Direction if obstacle(target, g, d, form) is None]
    ways = [d for d in able if d is not Direction.WEIGHT_GRAD]
    packed = {d: output((packed_size(g, d, form),)) for d in ways}
    for direction, out in packed.items():
        run(pack_filters(target, out, w_, g, direction, form))
    out = output(form.y_shape(g))
    run(
        blocked_forward(
            target,
            out,
            x_,
            packed[Direction.FORWARD],
            g,
            form,
            Epilogue(
                given(bias) if full else None,
                None if added is None else arranged(added, form),
                "relu" if full else None,
            ),
        )
    )
    near_blocked(out, y, form, 1024)
    if Direction.INPUT_GRAD in packed:
        out = output(form.x_shape(g))
        run(blocked_input_grad(target, out, gy_, packed[Direction.INPUT_GRAD], g, form))
        near_blocked(out, gx, form, 1024)
    if Direction.WEIGHT_GRAD in able:
        out = output(gw.shape)
        run(blocked_weight_grad(target, out, gy_, x_, g, form))
        near(out, gw, terms=512)


@case("cpu")
def direct(target: Target) -> None:
    check(target, PADDED, BlockedAlgorithm.DIRECT, full=True)
    check(target, STRIDED, BlockedAlgorithm.DIRECT, full=False)
    check(target, WIDE, BlockedAlgorithm.DIRECT, full=True)
    with constants(conv_blocked_gathered_weight, BLOCK_PIXELS=16, GROUP_FLOPS=1):
        check(target, SIDE_BY_SIDE, BlockedAlgorithm.DIRECT, full=False)
    with constants(conv_blocked_weight, STRAIGHT_PIXELS=0):
        check(target, STRAIGHT, BlockedAlgorithm.DIRECT, full=False)
    with (
        constants(conv_blocked_direct, GATHERED_PIXELS=1, LOCAL_BYTES=0),
        constants(conv_blocked_gathered_weight, BLOCK_PIXELS=4, LOCAL_BYTES=2**13),
    ):
        check(target, PADDED, BlockedAlgorithm.DIRECT, full=True)
    # Tiles end with rows: those that the taps read are gathered once.
    width = 14 if target.traits.simd_width == 16 else 12
    rows = ConvGeometry(3, 16, 4, 2 * width, 32, 2, 3, 2, width, sh=2, sw=2, pw=1)
    with constants(conv_blocked_direct, GATHERED_PIXELS=28):
        check(target, rows, BlockedAlgorithm.DIRECT, full=True)
    with constants(streaming, LINE_BYTES=4 * target.traits.simd_width, STREAM_BYTES=0):
        check(target, STRIDED, BlockedAlgorithm.DIRECT, full=False)


@case("cpu")
def few_channels(target: Target) -> None:
    with constants(conv_blocked_few_channels, MOST_FLOATS=2**10):
        check(target, FEW, BlockedAlgorithm.FEW, full=True)
        check(target, FEW, BlockedAlgorithm.FEW, full=False)


@case("cpu")
def depthwise_blocks(target: Target) -> None:
    with constants(blocked_strips, MOST_FLOATS=2**12):
        check(target, OF_CHANNELS, BlockedAlgorithm.DEPTHWISE, full=True)
        check(target, OF_CHANNELS_STRIDED, BlockedAlgorithm.DEPTHWISE, full=False)
    with constants(blocked_strips, MOST_FLOATS=2**12, STRIP_FLOATS=0):
        check(target, OF_CHANNELS, BlockedAlgorithm.DEPTHWISE, full=False)


@case("cpu")
def grouped_blocks(target: Target) -> None:
    with constants(blocked_strips, MOST_FLOATS=2**12):
        check(target, OF_GROUPS, BlockedAlgorithm.GROUPED, full=True)
        check(target, OF_SMALL_GROUPS, BlockedAlgorithm.GROUPED, full=False)
        check(target, OF_LARGE_GROUPS, BlockedAlgorithm.GROUPED, full=False)
        check(target, OF_ONE_COLUMN, BlockedAlgorithm.GROUPED, full=False)
    with constants(blocked_strips, MOST_FLOATS=2**12, STRIP_FLOATS=0, FAR_FLOATS=0):
        check(target, OF_SMALL_GROUPS, BlockedAlgorithm.GROUPED, full=True)


@case("cpu")
def winograd(target: Target) -> None:
    check(target, PADDED, BlockedAlgorithm.WINOGRAD2, full=False)
    check(target, PADDED, BlockedAlgorithm.WINOGRAD4, full=True)
    check(target, LARGE, BlockedAlgorithm.WINOGRAD4, full=True)
    block = block_size(target.traits)
    assert block is not None
    with constants(streaming, PACKED_BYTES=0, LINE_BYTES=4 * block):
        check(target, PADDED, BlockedAlgorithm.WINOGRAD4, full=False)
