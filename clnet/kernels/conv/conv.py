"""Two-dimensional convolution and its gradients: which algorithm computes what.

Each algorithm is a module with ``forward``, ``input_grad``, ``weight_grad`` and ``fits``, in the
table ``_WAYS``. Every one of them adds in a fixed order: the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...errors import ArgumentError
from ...values.dtypes import DType, float32
from ...values.record import NamedTuple
from ..epilogue import NO_EPILOGUE, Epilogue
from ..grid import in_groups
from . import (
    conv_depthwise,
    conv_direct,
    conv_im2col,
    conv_implicit,
    conv_implicit_weight,
    conv_matrix,
    conv_matrix_weight,
    conv_split,
    conv_split_choice,
    conv_whole,
    conv_winograd,
)
from .conv_geometry import MOST_PIXELS, ConvGeometry, Direction
from .conv_log import log_choice
from .conv_obstacle import ConvObstacle
from .conv_split import is_dense_last
from .conv_split_choice import Order

__all__ = [
    "Algorithm",
    "ConvGeometry",
    "Direction",
    "Order",
    "choose",
    "computes_on_units",
    "conv_forward",
    "conv_input_grad",
    "conv_weight_grad",
    "fits",
    "winograd_obstacle",
]


class Algorithm(Enum):
    """How a convolution is computed.

    Attributes:
        IM2COL: explicit columns and a matrix product; a plain product for 1x1 with stride 1.
        DIRECT: padded planes with vectors along the pixels; CPU-shaped.
        IMPLICIT: a product in local-memory tiles that gathers its columns; GPU-shaped.
        WINOGRAD: transforms around a batch of products, for 3x3 with stride 1; GPU-shaped.
        DEPTHWISE: one work-item per result; for groups of few channels, needs no workspace.
        MATRIX: a product on matrix units that gathers pixels of dense channels; of float32, which
            it rounds to TF32 or splits in two that TF32 holds, only where that was allowed.
        WHOLE: filters as large as the images: a product of the two.
    """

    IM2COL = "im2col"
    DIRECT = "direct"
    IMPLICIT = "implicit"
    WINOGRAD = "winograd"
    DEPTHWISE = "depthwise"
    MATRIX = "matrix"
    WHOLE = "whole"


class _Way(NamedTuple):
    """What an algorithm does.

    Attributes:
        forward: the launches of :func:`conv_forward`, from the same arguments.
        input_grad: those of :func:`conv_input_grad`.
        weight_grad: those of :func:`conv_weight_grad`.
        fits: whether the target's scratch memory suffices, of target, geometry, direction and
            bytes of an element.
    """

    forward: Callable[..., list[Launch]]
    input_grad: Callable[..., list[Launch]]
    weight_grad: Callable[..., list[Launch]]
    fits: Callable[[Target, ConvGeometry, Direction, int], bool]


def _way_of(module: Any, weight_module: Any = None) -> _Way:
    weight_grad = (weight_module or module).weight_grad
    return _Way(module.forward, module.input_grad, weight_grad, module.fits)


_WAYS = {
    Algorithm.IM2COL: _way_of(conv_im2col),
    Algorithm.DIRECT: _way_of(conv_direct),
    Algorithm.IMPLICIT: _way_of(conv_implicit, conv_implicit_weight),
    Algorithm.WINOGRAD: _way_of(conv_winograd),
    Algorithm.DEPTHWISE: _way_of(conv_depthwise),
    Algorithm.MATRIX: _way_of(conv_matrix, conv_matrix_weight),
    Algorithm.WHOLE: _way_of(conv_whole),
}
# Matrix units, of float32 as three products of TF32.
_SPLIT = _Way(
    conv_split.forward,
    conv_split.input_grad,
    conv_split.weight_grad,
    lambda target, g, direction, itemsize: (
        itemsize == 4 and conv_split_choice.fits(target, g, direction)
    ),
)


def conv_forward(
    target: Target,
    y: Array,
    x: Array,
    weight: Array,
    geometry: ConvGeometry,
    epilogue: Epilogue = NO_EPILOGUE,
    *,
    algorithm: Algorithm | None = None,
    winograd: bool = True,
    tf32: bool = False,
    split: bool = False,
    dot: str | None = None,
) -> list[Launch]:
    """``y[n, o] = epilogue(sum_c x[n, c] * weight[o, c])``, the cross-correlation.

    Args:
        target: what the device is like.
        y: ``(n, oc, oh, ow)``, dense.
        x: ``(n, ic, h, w)``, dense, same dtype.
        weight: ``(oc, ic / groups, kh, kw)``, dense, same dtype.
        geometry: the sizes.
        epilogue: what is made of the sums: a bias, an activation.
        algorithm: how, or None to let :func:`choose` decide.
        winograd: whether the choice may be Winograd's transforms.
        tf32: whether float32 may be rounded to TF32 where matrix units multiply that.
        split: whether products of float32 may be sums of three of TF32, likewise.
        dot: a name of ``BFLOAT16_DOTS``, by which a processor multiplies columns of bfloat16 that
            :func:`pairs_pay`; None: it does not.

    Returns:
        The launches, in order; none if ``y`` is empty.

    Raises:
        ArgumentError: if ``algorithm`` is given and does not fit the workspace, or a channel of an
            image has more pixels than an int counts.
    """
    if y.size == 0:
        return []
    if dot is not None:
        return conv_im2col.forward(target, y, x, weight, geometry, epilogue, dot=dot)
    order = order_of(y) if split else None
    way = _decide(target, geometry, Direction.FORWARD, y.dtype, algorithm, winograd, tf32, order)
    return way.forward(target, y, x, weight, geometry, epilogue)


def conv_input_grad(
    target: Target,
    gx: Array,
    gy: Array,
    weight: Array,
    geometry: ConvGeometry,
    *,
    algorithm: Algorithm | None = None,
    winograd: bool = True,
    tf32: bool = False,
    split: bool = False,
    dot: str | None = None,
) -> list[Launch]:
    """``gx``: the gradient that arrives at ``x``; also the transposed convolution of ``gy``.

    ``gx`` is shaped as ``x``, ``gy`` as ``y``; the rest is :func:`conv_forward`'s.
    """
    if gx.size == 0:
        return []
    if dot is not None:
        return conv_im2col.input_grad(target, gx, gy, weight, geometry, dot=dot)
    order = order_of(gx) if split else None
    way = _decide(
        target, geometry, Direction.INPUT_GRAD, gx.dtype, algorithm, winograd, tf32, order
    )
    return way.input_grad(target, gx, gy, weight, geometry)


def conv_weight_grad(
    target: Target,
    gw: Array,
    gy: Array,
    x: Array,
    geometry: ConvGeometry,
    *,
    algorithm: Algorithm | None = None,
    winograd: bool = True,
    tf32: bool = False,
    split: bool = False,
    dot: str | None = None,
) -> list[Launch]:
    """``gw``: the gradient that arrives at ``weight``.

    ``gw`` is shaped as ``weight``, ``gy`` as ``y``; the rest is :func:`conv_forward`'s.
    """
    if gw.size == 0:
        return []
    if dot is not None:
        return conv_im2col.weight_grad(target, gw, gy, x, geometry, dot=dot)
    order = order_of(gy) if split else None
    way = _decide(
        target, geometry, Direction.WEIGHT_GRAD, gw.dtype, algorithm, winograd, tf32, order
    )
    return way.weight_grad(target, gw, gy, x, geometry)


def choose(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    *,
    winograd: bool = True,
    tf32: bool = False,
    split: Order | None = None,
) -> Algorithm:
    """The algorithm a convolution takes when none is asked for; it always fits the workspace.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        dtype: of all operands.
        winograd: whether it may be Winograd's transforms, whose rounding errors are larger.
        tf32: as in :func:`conv_forward`.
        split: how images lie where products of float32 may be three of TF32; None: they may not.
    """
    if computes_on_units(
        target, geometry, direction, dtype, winograd=winograd, tf32=tf32, split=split
    ):
        return Algorithm.MATRIX
    return next(
        algorithm
        for algorithm in _preferred(target, geometry, direction, dtype, winograd=winograd)
        if fits(target, geometry, direction, dtype, algorithm)
    )


def computes_on_units(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    *,
    winograd: bool = True,
    tf32: bool = False,
    split: Order | None = None,
) -> bool:
    """Whether :func:`choose` gives matrix units: of 16 bits, and of float32 that may be rounded.

    Of float32 as three products, where that should be faster. The arguments are those of
    :func:`choose`.
    """
    if split is not None and dtype is float32:
        return conv_split_choice.fits(target, geometry, direction) and conv_split_choice.pays(
            target, geometry, direction, split, winograd=winograd
        )
    allowed = dtype.itemsize == 2 or (dtype is float32 and tf32)
    return allowed and conv_matrix.fits(target, geometry, direction, dtype.itemsize)


def pairs_pay(
    target: Target, geometry: ConvGeometry, direction: Direction, algorithm: Algorithm | None
) -> bool:
    """Whether columns of bfloat16 should be multiplied, if a processor multiplies its pairs.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        algorithm: the one that is asked for, or None.
    """
    free = algorithm in (None, Algorithm.IM2COL) and not in_groups(target.traits)
    return free and conv_im2col.pairs_pay(target, geometry, direction)


def order_of(result: Array) -> Order:
    """How images lie around a convolution whose result, or the gradient of that, is given."""
    return Order.LAST if is_dense_last(result) else Order.FIRST


def winograd_obstacle(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    *,
    winograd: bool = True,
) -> ConvObstacle | None:
    """What stands against Winograd's transforms of a plain convolution, on a GPU; None: nothing.

    The arguments are those of :func:`choose`.
    """
    if not winograd:
        return ConvObstacle.FORBIDDEN
    found = conv_winograd.obstacle(target, geometry, direction, dtype.itemsize)
    if found is not None:
        return found
    return None if conv_winograd.pays(geometry, direction) else ConvObstacle.PIXELS


def fits(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    algorithm: Algorithm,
) -> bool:
    """Whether an algorithm's scratch memory stays within the target's limit."""
    return _WAYS[algorithm].fits(target, geometry, direction, dtype.itemsize)


def _preferred(
    target: Target, geometry: ConvGeometry, direction: Direction, dtype: DType, *, winograd: bool
) -> tuple[Algorithm, ...]:
    """What suits a convolution, best first; the last fits any workspace."""
    if in_groups(target.traits):
        if min(geometry.icg, geometry.ocg) < 4 and geometry.groups > 1:
            return (Algorithm.DEPTHWISE,)
        direct = (Algorithm.IMPLICIT, Algorithm.DEPTHWISE)
        against = winograd_obstacle(target, geometry, direction, dtype, winograd=winograd)
        return (Algorithm.WINOGRAD, *direct) if against is None else direct
    plain = (Algorithm.DIRECT, Algorithm.IM2COL)
    # Images that are the matrix need no planes, and a product packs filters. Those of a few groups
    # would be products one after another, and filters' gradients one for each image.
    if geometry.pointwise and geometry.groups == 1 and direction is not Direction.WEIGHT_GRAD:
        plain = (Algorithm.IM2COL, Algorithm.DIRECT)
    return (Algorithm.WHOLE, *plain, Algorithm.DEPTHWISE)


def _decide(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    algorithm: Algorithm | None,
    winograd: bool,  # noqa: FBT001 - one of what the choice depends on
    tf32: bool,  # noqa: FBT001 - likewise
    split: Order | None,
) -> _Way:
    """The way that was asked for, or that :func:`choose` gives.

    Where ``split`` allows it, matrix units take float32 as three products of TF32.

    Raises:
        ArgumentError: as :func:`conv_forward`.
    """
    if geometry.flops == 0:  # sums of nothing: zeros, or the bias
        return _WAYS[Algorithm.DEPTHWISE]
    if geometry.plane > MOST_PIXELS:
        raise ArgumentError(
            f"conv_{direction.value}",
            "a channel of an image has no more pixels than an int counts",
            x=(geometry.h, geometry.w),
            y=(geometry.oh, geometry.ow),
            most=MOST_PIXELS,
            remedy="Cut images into parts that overlap by the filter",
        )
    found = algorithm
    if found is None:
        found = choose(
            target, geometry, direction, dtype, winograd=winograd, tf32=tf32, split=split
        )
    way = _WAYS[found]
    if found is Algorithm.MATRIX and split is not None and dtype is float32:
        way = _SPLIT
    if algorithm is not None and not (
        way is _SPLIT and way.fits(target, geometry, direction, dtype.itemsize)
    ):
        _refuse(target, geometry, direction, dtype, algorithm, tf32)
    log_choice(geometry, direction, dtype, found.value)
    return way


def _refuse(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    algorithm: Algorithm,
    tf32: bool,  # noqa: FBT001 - as in _decide
) -> None:
    """Refuse an algorithm that was asked for and cannot serve."""
    what, wanted = f"conv_{direction.value}", algorithm.value
    if algorithm is Algorithm.MATRIX and dtype is float32 and not tf32:
        law = "matrix units would round float32 to TF32"
        remedy = 'Allow it with clnet.set_float32_matmul_precision("tf32")'
        raise ArgumentError(what, law, algorithm=wanted, remedy=remedy)
    if fits(target, geometry, direction, dtype, algorithm):
        return
    ample = replace(target, workspace_limit=2**62)
    if fits(ample, geometry, direction, dtype, algorithm):
        raise ArgumentError(
            what,
            "the algorithm does not fit the workspace",
            algorithm=wanted,
            workspace_limit=target.workspace_limit,
            remedy="Raise the device's limit with set_workspace_limit, or leave the choice open",
        )
    serving = [a.value for a in Algorithm if fits(target, geometry, direction, dtype, a)]
    g = geometry
    raise ArgumentError(
        what,
        "the algorithm cannot compute this convolution here",
        algorithm=wanted,
        window=(g.kh, g.kw),
        stride=(g.sh, g.sw),
        dilation=(g.dh, g.dw),
        groups=g.groups,
        remedy=f"Take one of {', '.join(serving)}, or leave the choice open",
    )
