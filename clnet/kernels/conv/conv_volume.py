"""Direct convolution of volumes: planes of all depths, and sums over taps in depth.

A volume's channels and depths are channels of one image of padded planes (:mod:`.conv_planes`),
packed once; a result in a depth adds up what the planes of those depths give that its taps see.
Register tiles and the rest are :mod:`.conv_direct`'s.
"""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups, lanes_of
from ..kernel import Constraint, Kernel, by_name, joined
from .conv_direct import (
    SMALL_FLOPS,
    Layout,
    chunk_of,
    fits,
    flops_of,
    forward_layout,
    images_of,
    input_layout,
    pack_channels,
    part_launch,
    room_for,
    slack_of,
    slices_of,
    weight_params,
)
from .conv_geometry import MOST_PIXELS, ConvGeometry, Direction
from .conv_parts import add_slices
from .conv_planes import pack

VOLUME = Kernel(
    "conv_volume",
    "conv/conv_volume.mako",
    constraints=(Constraint("strip % (simd * vectors) == 0", "whole tiles in a strip"),),
)
WEIGHT = Kernel("conv_volume_weight", "conv/conv_volume.mako")


class VolumeGeometry(NamedTuple):
    """Sizes of a convolution of volumes.

    Attributes:
        plane: of its planes; ``n`` counts volumes.
        d, kd, od: depth of ``x``, of filters and of ``y``.
        sd: stride in depth.
        pd: planes of zeros before the first.
        dd: dilation in depth.
    """

    plane: ConvGeometry
    d: int
    kd: int
    od: int
    sd: int
    pd: int
    dd: int

    @property
    def flops(self) -> int:
        """Operations of the forward convolution, counted with those of taps that see zeros."""
        return self.plane.flops * self.od * self.kd


class _Walk(NamedTuple):
    """Which depths a result's taps see: ``(depth * step + first + tap * gap) / phases``."""

    depths: int
    x_depths: int
    step: int
    first: int
    gap: int
    phases: int


def volume_forward(
    target: Target,
    y: Array,
    x: Array,
    weight: Array,
    g: VolumeGeometry,
    bias: Array | None = None,
) -> list[Launch]:
    """``y[n, o] = sum_c x[n, c] * weight[o, c] + bias[o]``.

    Args:
        target: what the device is like.
        y: ``(n, oc, od, oh, ow)``, dense.
        x: ``(n, ic, d, h, w)``, dense, same dtype.
        weight: ``(oc, ic / groups, kd, kh, kw)``, dense, same dtype.
        g: the sizes.
        bias: ``(oc,)``, or None.
    """
    walk = _Walk(g.od, g.d, g.sd, -g.pd, g.dd, 1)
    return _convolve(target, forward_layout(g.plane), walk, g, (y, x, weight, bias))


def volume_input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: VolumeGeometry
) -> list[Launch]:
    """``gx``: the gradient that arrives at ``x``; the rest is :func:`volume_forward`'s."""
    walk = _Walk(g.d, g.od, 1, g.pd, -g.dd, g.sd)
    return _convolve(target, input_layout(g.plane), walk, g, (gx, gy, weight, None))


def _convolve(
    target: Target,
    layout: Layout,
    walk: _Walk,
    g: VolumeGeometry,
    operands: tuple[Array, Array, Array, Array | None],
) -> list[Launch]:
    y, x, weight, bias = operands
    planes, item, volumes = layout.planes, x.dtype.itemsize, x.shape[0]
    group, out, channel = layout.filter_strides
    layout = layout._replace(filter_strides=(group * g.kd, out * g.kd, channel * g.kd))
    deep = walk.x_depths * planes.channel
    each = layout.groups * layout.ins * deep
    step = chunk_of(target, planes, volumes, each * item, item)
    packed = Array.scratch(Scratch(x.device), (step * each + slack_of(planes),), x.dtype)
    launches: list[Launch] = []
    for first in range(0, volumes, step):
        some_x, some_y = (images_of(a, first, min(step, volumes - first)) for a in (x, y))
        launches.append(pack(packed, some_x, planes, slack=slack_of(planes)))
        images = some_y.shape[0] * walk.depths
        for part in layout.parts:
            if not (part.height and part.width):
                continue
            some = (some_y, packed, weight, bias)
            made = part_launch(target, layout, part, some, images, depths=walk.x_depths)
            launches.append(
                VOLUME.launch(
                    made.params,
                    joined(
                        made.args,
                        by_name("depths x_depths step begin gap phases", *walk),
                        by_name("kd w_deep", g.kd, g.plane.taps),
                        by_name("x_deep", planes.channel),
                    ),
                    global_size=made.global_size,
                    flops=flops_of(layout, part, images) * g.kd,
                    bytes=some_x.nbytes + some_y.nbytes // len(layout.parts) + weight.nbytes,
                )
            )
    return launches


def volume_weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: VolumeGeometry
) -> list[Launch]:
    """``gw``: the gradient that arrives at ``weight``; the rest is :func:`volume_forward`'s."""
    plane, item = g.plane, x.dtype.itemsize
    layout = forward_layout(plane)
    planes = layout.planes
    small = g.flops <= SMALL_FLOPS
    params = weight_params(target, x.dtype.ctype, item, layout, small=small)
    width = params.simd * params.vectors
    blocks, volumes = ceil_div(plane.ocg, width), x.shape[0]
    deep, pixels = g.d * planes.channel, g.od * plane.oh * plane.ow
    each_x, each_gy = plane.ic * deep, plane.groups * blocks * width * pixels
    step = chunk_of(target, planes, volumes, 2 * (each_x + each_gy) * item, item)
    memory = Scratch(x.device)
    packed_x = Array.scratch(memory, (step * each_x,), x.dtype)
    packed_gy = Array.scratch(memory, (step * each_gy,), x.dtype)
    rows = ceil_div(plane.kh, params.rows)
    tiles = (blocks * ceil_div(plane.icg, params.channels), rows * g.kd, plane.groups)
    slices = slices_of(target, prod(tiles), step, gw.nbytes)
    parts = gw if slices == 1 else Array.scratch(memory, (slices, *gw.shape), gw.dtype)
    launches: list[Launch] = []
    for first in range(0, volumes, step):
        count = min(step, volumes - first)
        launches.append(pack(packed_x, images_of(x, first, count), planes))
        launches.append(pack_channels(packed_gy, images_of(gy, first, count), plane.groups, params))
        launches.append(
            WEIGHT.launch(
                params,
                joined(
                    by_name("gw planes packed", parts, packed_x, packed_gy),
                    by_name("volumes groups outs ins", count, plane.groups, plane.ocg, plane.icg),
                    by_name("pitch plane ins_step", planes.pitch, planes.plane, deep),
                    plane.sizes("oh ow kh sh dh sw dw"),
                    by_name("wide x_deep", planes.phases[1], planes.channel),
                    by_name("d kd od sd pd dd", g.d, g.kd, g.od, g.sd, g.pd, g.dd),
                    by_name("slices accumulate", slices, int(first > 0)),
                ),
                global_size=(*tiles[:2], plane.groups * slices),
                flops=g.flops * count // volumes,
                bytes=((each_x + each_gy) * count + gw.size) * item,
            )
        )
    return launches if slices == 1 else [*launches, add_slices(target, gw, parts, shared=False)]


def volumes_pay(target: Target, g: VolumeGeometry, itemsize: int) -> bool:
    """Whether volumes are convolved so in all directions: on CPUs whose scratch memory suffices.

    Args:
        target: what the device is like.
        g: the sizes.
        itemsize: bytes of an element.
    """
    if in_groups(target.traits) or g.flops == 0:
        return False
    plane, ahead, back = g.plane, forward_layout(g.plane), input_layout(g.plane)
    # A gradient's channels are padded to two vectors at most.
    channels = plane.groups * round_up(plane.ocg, 2 * lanes_of(target, itemsize))
    needed = (
        (ahead, plane.ic * g.d * ahead.planes.channel + channels * g.od * plane.oh * plane.ow),
        (back, plane.oc * g.od * back.planes.channel),
    )
    return all(fits(target, plane, way, itemsize) for way in Direction) and all(
        elements < MOST_PIXELS and elements * itemsize <= room_for(target, layout.planes, itemsize)
        for layout, elements in needed
    )
