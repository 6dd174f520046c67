"""Convolutions: every algorithm and direction, strides, padding, dilation, groups, chunks."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from clnet.array import Array
from clnet.device import Target
from clnet.kernels import tile
from clnet.kernels.conv import (
    conv_depthwise,
    conv_depthwise_strip,
    conv_depthwise_tile,
    conv_direct,
    conv_im2col,
    conv_implicit,
    conv_implicit_weight,
    conv_lines,
    conv_matrix,
    conv_matrix_weight,
    conv_parts,
    conv_planes,
    conv_split,
    conv_volume,
    conv_warpgroup,
    conv_warpgroup_weight,
    conv_winograd,
)
from clnet.kernels.conv.conv import Algorithm, conv_forward, conv_input_grad, conv_weight_grad
from clnet.kernels.conv.conv_geometry import ConvGeometry
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm_tiled, gemm_warpgroup

from .convolution import taps
from .harness import (
    REALS,
    SMALLEST_TILE,
    case,
    constants,
    emulated_warpgroups,
    given,
    near,
    normal,
    output,
    run,
)

MODULES = (
    conv_depthwise,
    conv_depthwise_strip,
    conv_depthwise_tile,
    conv_direct,
    conv_implicit,
    conv_implicit_weight,
    conv_lines,
    conv_matrix,
    conv_matrix_weight,
    conv_parts,
    conv_planes,
    conv_im2col,
    conv_volume,
    conv_warpgroup,
    conv_warpgroup_weight,
    conv_winograd,
)

PLAIN = ConvGeometry(2, 3, 5, 6, 5, 3, 3, 5, 6, ph=1, pw=1)
STRIDED = ConvGeometry(1, 4, 7, 6, 6, 3, 2, 3, 4, sh=2, sw=2, ph=1, pw=1, dh=2, groups=2)
LARGE_FILTER = ConvGeometry(1, 2, 6, 5, 3, 4, 3, 3, 3)
POINTWISE = ConvGeometry(2, 5, 3, 3, 4, 1, 1, 3, 3)
CHANNELS = ConvGeometry(1, 9, 4, 4, 8, 3, 3, 4, 4, ph=1, pw=1)
WIDE_FILTER = ConvGeometry(1, 2, 3, 13, 3, 2, 8, 2, 6)
SKIPPING = ConvGeometry(1, 2, 5, 5, 2, 1, 1, 2, 2, sh=3, sw=3)
LARGE_DEPTHWISE = ConvGeometry(3, 2, 7, 8, 2, 4, 5, 8, 9, ph=2, pw=3, groups=2)
VECTORS = ConvGeometry(2, 2, 7, 8, 2, 3, 3, 7, 8, ph=1, pw=1, groups=2)
ROLLED = ConvGeometry(1, 2, 6, 8, 2, 9, 8, 4, 8, ph=3, pw=4, groups=2)
DEPTHWISE = ConvGeometry(1, 4, 5, 4, 8, 3, 3, 5, 4, ph=1, pw=1, groups=4)


def check(
    target: Target,
    g: ConvGeometry,
    algorithm: Algorithm,
    dtype: Any,
    *,
    full: bool,
    before: int = 3,
    terms: int = 256,
) -> None:
    """The convolution and both gradients; ``full``: with bias and activation."""
    x, w = normal(g.n, g.ic, g.h, g.w, dtype=dtype), normal(g.oc, g.icg, g.kh, g.kw, dtype=dtype)
    bias, gy = normal(g.oc, dtype=dtype), normal(g.n, g.oc, g.oh, g.ow, dtype=dtype)
    reads, dense = taps(g), np.zeros((g.oc, g.ic, g.kh, g.kw))
    for o in range(g.oc):
        first = o // g.ocg * g.icg
        dense[o, first : first + g.icg] = w[o]
    y = np.einsum("nihw,oirs,yxrshw->noyx", x, dense, reads, optimize=True)
    gx = np.einsum("noyx,oirs,yxrshw->nihw", gy, dense, reads, optimize=True)
    dense_gw = np.einsum("noyx,nihw,yxrshw->oirs", gy, x, reads, optimize=True)
    gw = np.stack([dense_gw[o, o // g.ocg * g.icg :][: g.icg] for o in range(g.oc)])
    if full:
        y = np.maximum(y + bias[:, None, None], 0)
    arrays = [given(a, before=before) for a in (x, w, bias, gy)]
    x_, w_, bias_, gy_ = arrays
    out, gx_, gw_ = (output(a.shape, dtype) for a in (y, gx, gw))
    how: dict[str, Any] = {"algorithm": algorithm, "tf32": algorithm is Algorithm.MATRIX}
    run(
        conv_forward(
            target, out, x_, w_, g, Epilogue(bias_, None, "relu") if full else Epilogue(), **how
        )
    )
    near(out, y, terms=terms)
    run(conv_input_grad(target, gx_, gy_, w_, g, **how))
    near(gx_, gx, terms=terms)
    run(conv_weight_grad(target, gw_, gy_, x_, g, **how))
    near(gw_, gw, terms=2 * terms)


@case("cpu")
def direct(target: Target) -> None:
    with constants(conv_direct, SMALL_FLOPS=0):
        for dtype in REALS:
            check(target, PLAIN, Algorithm.DIRECT, dtype, full=True)
            check(target, STRIDED, Algorithm.DIRECT, dtype, full=False)
        check(target, LARGE_FILTER, Algorithm.DIRECT, np.float32, full=True)
        for stride in (1, 2, 3):
            wide = WIDE_FILTER._replace(sw=stride, ow=5 // stride + 1)
            check(target, wide, Algorithm.DIRECT, np.float32, full=False)
        check(target, SKIPPING, Algorithm.DIRECT, np.float32, full=False)
        check(target, POINTWISE, Algorithm.DIRECT, np.float32, full=False)
        check(target, DEPTHWISE, Algorithm.DIRECT, np.float32, full=False)
    check(target, PLAIN, Algorithm.DIRECT, np.float32, full=True)


@case("cpu")
def direct_in_chunks_of_images(target: Target) -> None:
    with constants(conv_direct, _CHUNK_BYTES=1, SMALL_FLOPS=0):
        check(target, PLAIN, Algorithm.DIRECT, np.float32, full=False)


def check_volumes(
    target: Target, g: conv_volume.VolumeGeometry, dtype: Any, *, biased: bool
) -> None:
    """A convolution of volumes and both gradients."""
    p = g.plane
    x = normal(p.n, p.ic, g.d, p.h, p.w, dtype=dtype)
    w = normal(p.oc, p.icg, g.kd, p.kh, p.kw, dtype=dtype)
    bias, gy = normal(p.oc, dtype=dtype), normal(p.n, p.oc, g.od, p.oh, p.ow, dtype=dtype)
    reads, deep = taps(p), np.zeros((g.od, g.d, g.kd))
    for depth in range(g.od):
        for tap in range(g.kd):
            at = depth * g.sd - g.pd + tap * g.dd
            if 0 <= at < g.d:
                deep[depth, at, tap] = 1
    dense = np.zeros((p.oc, p.ic, g.kd, p.kh, p.kw))
    for o in range(p.oc):
        first = o // p.ocg * p.icg
        dense[o, first : first + p.icg] = w[o]
    y = np.einsum("nidhw,oitrs,zdt,yxrshw->nozyx", x, dense, deep, reads, optimize=True)
    gx = np.einsum("nozyx,oitrs,zdt,yxrshw->nidhw", gy, dense, deep, reads, optimize=True)
    full = np.einsum("nozyx,nidhw,zdt,yxrshw->oitrs", gy, x, deep, reads, optimize=True)
    gw = np.stack([full[o, o // p.ocg * p.icg :][: p.icg] for o in range(p.oc)])
    x_, w_, bias_, gy_ = (given(a, before=3) for a in (x, w, bias, gy))
    out, gx_, gw_ = (output(a.shape, dtype) for a in (y, gx, gw))
    run(conv_volume.volume_forward(target, out, x_, w_, g, bias_ if biased else None))
    near(out, y + bias[:, None, None, None] if biased else y, terms=512)
    run(conv_volume.volume_input_grad(target, gx_, gy_, w_, g))
    near(gx_, gx, terms=512)
    run(conv_volume.volume_weight_grad(target, gw_, gy_, x_, g))
    near(gw_, gw, terms=1024)


@case("cpu")
def volumes(target: Target) -> None:
    with constants(conv_direct, SMALL_FLOPS=0), constants(conv_volume, SMALL_FLOPS=0):
        for dtype in REALS:
            padded = conv_volume.VolumeGeometry(PLAIN, 4, 3, 4, 1, 1, 1)
            check_volumes(target, padded, dtype, biased=True)
            apart = conv_volume.VolumeGeometry(STRIDED, 6, 2, 3, 2, 1, 2)
            check_volumes(target, apart, dtype, biased=False)
        wide = WIDE_FILTER._replace(sw=2, ow=3)
        for plane in (wide, SKIPPING, POINTWISE, DEPTHWISE):
            g = conv_volume.VolumeGeometry(plane, 3, 3, 1, 1, 0, 1)
            check_volumes(target, g, np.float32, biased=False)
    few = conv_volume.VolumeGeometry(PLAIN, 2, 1, 2, 1, 0, 1)
    check_volumes(target, few, np.float32, biased=True)


@case("cpu")
def volumes_in_chunks(target: Target) -> None:
    with constants(conv_direct, _CHUNK_BYTES=1, SMALL_FLOPS=0):
        g = conv_volume.VolumeGeometry(PLAIN, 3, 3, 3, 1, 1, 1)
        check_volumes(target, g, np.float32, biased=True)


SMALL_TILE = tile.Tile(32, 32, 16, 4, 4, 4)


def in_tiles(shape: tile.Tile) -> Any:
    """Convolutions in one tile, whatever the size."""
    stack = ExitStack()
    for module in (conv_implicit, conv_implicit_weight):
        stack.enter_context(constants(module, TILINGS=((shape, 1.0),), _SHORTEST_SLICE=8))
    stack.enter_context(constants(tile, _LAUNCH_FLOPS=0))
    return stack


@case("gpu")
def implicit(target: Target) -> None:
    for dtype in REALS:
        with in_tiles(SMALL_TILE if dtype is np.float32 else SMALLEST_TILE):
            check(target, PLAIN, Algorithm.IMPLICIT, dtype, full=True)
        with in_tiles(SMALLEST_TILE):
            check(target, STRIDED, Algorithm.IMPLICIT, dtype, full=False)
    check(target, SKIPPING, Algorithm.IMPLICIT, np.float32, full=True)
    aligned = POINTWISE._replace(h=4, w=4, oh=4, ow=4)
    with in_tiles(SMALLEST_TILE):
        check(target, CHANNELS, Algorithm.IMPLICIT, np.float32, full=True)
        check(target, aligned, Algorithm.IMPLICIT, np.float32, full=False, before=4)


@case("gpu")
def implicit_in_a_ring_of_tiles(target: Target) -> None:
    with in_tiles(SMALLEST_TILE._replace(stages=3, copy="direct", ahead=True)):
        check(target, PLAIN, Algorithm.IMPLICIT, np.float32, full=False)
        check(target, CHANNELS, Algorithm.IMPLICIT, np.float32, full=False)


@case("gpu")
def transformed(target: Target) -> None:
    # Of 36 products, each has a few rows and columns.
    with constants(gemm_tiled, TILINGS=((SMALLEST_TILE, 1.0),)):
        check(target, PLAIN, Algorithm.WINOGRAD, np.float64, full=True)
        check(target, PLAIN._replace(w=8, ow=8), Algorithm.WINOGRAD, np.float32, full=False)


@case()
def columns(target: Target) -> None:
    with constants(gemm_tiled, TILINGS=((SMALLEST_TILE, 1.0),)):
        for dtype in REALS:
            check(target, STRIDED, Algorithm.IM2COL, dtype, full=True)
        check(target, POINTWISE, Algorithm.IM2COL, np.float32, full=True)
        with constants(conv_im2col, _CHUNK_BYTES=1):
            check(target, PLAIN, Algorithm.IM2COL, np.float32, full=False)


@case("cpu")
def depthwise(target: Target) -> None:
    for dtype in REALS:
        check(target, DEPTHWISE, Algorithm.DEPTHWISE, dtype, full=True)
    check(target, STRIDED, Algorithm.DEPTHWISE, np.float32, full=False)


@case("gpu")
def depthwise_in_strips(target: Target) -> None:
    with constants(conv_depthwise_strip, _RESIDENT_ITEMS=1, _SUMS=6):
        for dtype in REALS:
            check(target, DEPTHWISE, Algorithm.DEPTHWISE, dtype, full=True)
        check(target, STRIDED, Algorithm.DEPTHWISE, np.float32, full=False)


@case("gpu")
def depthwise_in_tiles(target: Target) -> None:
    few = {"_RESULTS": 8, "_WIDEST": 8}
    with constants(conv_depthwise_tile, **few):
        for dtype in REALS:
            check(target, LARGE_DEPTHWISE, Algorithm.DEPTHWISE, dtype, full=True)
        for g in (VECTORS, VECTORS._replace(oh=4, ow=4, sh=2, sw=2), ROLLED):
            check(target, g, Algorithm.DEPTHWISE, np.float32, full=False)
    whole = LARGE_DEPTHWISE._replace(h=4, oh=5, w=4, ow=5, n=5)
    traits = replace(target.traits, compute_units=1)
    with constants(conv_depthwise_tile, _GROUPS_PER_UNIT=1):
        one = replace(target, traits=traits)
        check(one, whole, Algorithm.DEPTHWISE, np.float32, full=False)


IN_GROUPS = ConvGeometry(1, 8, 7, 6, 8, 3, 2, 3, 4, sh=2, sw=2, ph=1, pw=1, dh=2, groups=2)


@case("gpu")
def emulated_matrix_units(target: Target) -> None:
    traits = replace(target.traits, matrix_units="emulated ptx")
    units = replace(target, traits=traits)
    for g, full in ((IN_GROUPS, False), (PLAIN, True)):
        check(units, g, Algorithm.MATRIX, np.float32, full=full, terms=2**17)  # of TF32
    for oc in (5, 8):
        g = POINTWISE._replace(oc=oc)
        x, w = normal(g.n, g.h, g.w, g.ic), normal(oc, g.ic, 1, 1)
        out = output((g.n, g.oh, g.ow, oc))
        last = out.view((g.n, oc, g.oh, g.ow), tuple(out.strides[axis] for axis in (0, 3, 1, 2)))
        images = given(x)
        turned = images.view(
            (g.n, g.ic, g.h, g.w), tuple(images.strides[axis] for axis in (0, 3, 1, 2))
        )
        how = Algorithm.MATRIX
        run(conv_forward(units, last, turned, given(w), g, algorithm=how, tf32=True))
        near(out, x @ w[:, :, 0, 0].T, terms=2**17)


def last(array: Array) -> Array:
    """Images whose channels lie last in memory."""
    n, h, w, c = array.shape
    return array.view((n, c, h, w), tuple(array.strides[axis] for axis in (0, 3, 1, 2)))


@case("gpu")
def convolutions_by_128_emulated_items(target: Target) -> None:
    """Rows of five channels do not come in whole runs; filters' gradients of 16 bits alone."""
    units = emulated_warpgroups(target, 2**16)
    # Few taps: each is a stage of a whole tile, which takes Oclgrind a second and more. The floats
    # are one team's; two have the others here, and the floats' products in gemm_cases.
    one = constants(gemm_warpgroup, SMALL=gemm_warpgroup.WarpgroupTile(64, 64, 2))
    for dtype, oc, full, tiles in (
        (np.float32, 5, True, one),
        (np.float16, 8, False, nullcontext()),
    ):
        g = ConvGeometry(1, 8, 3, 2, oc, 2, 1, 2, 2, sh=2, ph=1)
        x, w = normal(1, 3, 2, 8, dtype=dtype), normal(oc, 8, 2, 1, dtype=dtype)
        gy, bias = normal(1, 2, 2, oc, dtype=dtype), normal(oc, dtype=dtype)
        wide = [a.astype(np.float64) for a in (x, w, gy)]
        reads = taps(g)
        y = np.einsum("nhwi,oirs,yxrshw->nyxo", *wide[:2], reads, optimize=True)
        gw = np.einsum("nyxo,nhwi,yxrshw->oirs", wide[2], wide[0], reads, optimize=True)
        out, gw_ = output(y.shape, dtype), output(gw.shape, dtype)
        epilogue = Epilogue(given(bias), None, "relu") if full else Epilogue()
        with tiles:
            run(conv_forward(units, last(out), last(given(x)), given(w), g, epilogue, tf32=True))
        near(out, np.maximum(y + bias, 0) if full else y, terms=2**17 if full else 16)
        if not full:  # those of float32 are below
            run(conv_weight_grad(units, gw_, last(given(gy)), last(given(x)), g))
            near(gw_, gw, terms=16)


@case("gpu")
def convolutions_by_128_emulated_items_in_two_parts(target: Target) -> None:
    """Images that lie either way, strides, and channels that do not come in whole runs."""
    units, how = emulated_warpgroups(target, 2**17), {"algorithm": Algorithm.MATRIX, "split": True}
    g = ConvGeometry(2, 5, 3, 2, 3, 2, 1, 2, 2, sh=2, ph=1)
    x, w, gy = normal(2, 3, 2, 5), normal(3, 5, 2, 1), normal(2, 2, 2, 3)
    wide, reads = [a.astype(np.float64) for a in (x, w, gy)], taps(g)
    y = np.einsum("nhwi,oirs,yxrshw->nyxo", *wide[:2], reads, optimize=True)
    gw = np.einsum("nyxo,nhwi,yxrshw->oirs", wide[2], wide[0], reads, optimize=True)
    out, gw_ = output(y.shape), output(gw.shape)
    run(conv_forward(units, last(out), last(given(x)), given(w), g, **how))
    near(out, y, terms=16)
    first = given(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    from_pixels = conv_split._from_pixels
    for pixels in (from_pixels, lambda *_: None):  # and from lines
        with constants(conv_split, _from_pixels=pixels):
            run(conv_weight_grad(units, gw_, last(given(gy)), first, g, **how))
        near(gw_, gw, terms=16)
