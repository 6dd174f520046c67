"""Two-dimensional convolution and its gradients: which algorithm computes what.

The algorithms are in :mod:`.im2col`, :mod:`.conv_direct`, :mod:`.conv_implicit` (with
:mod:`.conv_implicit_weight`), :mod:`.winograd` and :mod:`.conv_depthwise`. Every one of them adds
in a fixed order: the same inputs give the same bits.
"""

from __future__ import annotations

from enum import Enum

from ...array import Array
from ...device import Launch, Target
from ...errors import ArgumentError
from ...values.dtypes import DType
from . import (
    conv_depthwise,
    conv_direct,
    conv_im2col,
    conv_implicit,
    conv_implicit_weight,
    conv_winograd,
)
from .conv_geometry import ConvGeometry, Direction
from .conv_obstacle import ConvObstacle

__all__ = [
    "Algorithm",
    "ConvGeometry",
    "Direction",
    "choose",
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
    """

    IM2COL = "im2col"
    DIRECT = "direct"
    IMPLICIT = "implicit"
    WINOGRAD = "winograd"
    DEPTHWISE = "depthwise"


def conv_forward(
    target: Target,
    y: Array,
    x: Array,
    weight: Array,
    bias: Array | None,
    geometry: ConvGeometry,
    *,
    algorithm: Algorithm | None = None,
    winograd: bool = True,
    activation: str | None = None,
) -> list[Launch]:
    """``y[n, o] = activation(sum_c x[n, c] * weight[o, c] + bias[o])``, the cross-correlation.

    Args:
        target: what the device is like.
        y: ``(n, oc, oh, ow)``, dense.
        x: ``(n, ic, h, w)``, dense, same dtype.
        weight: ``(oc, ic / groups, kh, kw)``, dense, same dtype.
        bias: ``(oc,)``, dense, or None.
        geometry: the sizes.
        algorithm: how, or None to let :func:`choose` decide.
        winograd: whether the choice may be Winograd's conv_winograd.
        activation: None or ``"relu"``.

    Returns:
        The launches, in order; none if ``y`` is empty.

    Raises:
        ArgumentError: if ``algorithm`` is given and does not fit the workspace.
    """
    if y.size == 0:
        return []
    match _decide(target, geometry, Direction.FORWARD, y.dtype, algorithm, winograd):
        case Algorithm.IM2COL:
            return conv_im2col.forward(target, y, x, weight, bias, geometry, activation=activation)
        case Algorithm.DIRECT:
            layout = conv_direct.forward_layout(geometry)
            return conv_direct.convolve(target, layout, y, x, weight, bias, activation=activation)
        case Algorithm.IMPLICIT:
            return conv_implicit.forward(
                target, y, x, weight, bias, geometry, activation=activation
            )
        case Algorithm.WINOGRAD:
            return conv_winograd.forward(
                target, y, x, weight, bias, geometry, activation=activation
            )
        case Algorithm.DEPTHWISE:
            return conv_depthwise.forward(
                target, y, x, weight, bias, geometry, activation=activation
            )


def conv_input_grad(
    target: Target,
    gx: Array,
    gy: Array,
    weight: Array,
    geometry: ConvGeometry,
    *,
    algorithm: Algorithm | None = None,
    winograd: bool = True,
) -> list[Launch]:
    """``gx``: the gradient that arrives at ``x``; also the transposed convolution of ``gy``.

    Args:
        target: what the device is like.
        gx: ``(n, ic, h, w)``, dense.
        gy: ``(n, oc, oh, ow)``, dense, same dtype.
        weight: ``(oc, ic / groups, kh, kw)``, dense, same dtype.
        geometry: the sizes.
        algorithm: how, or None to let :func:`choose` decide.
        winograd: whether the choice may be Winograd's conv_winograd.

    Returns:
        The launches, in order; none if ``gx`` is empty.

    Raises:
        ArgumentError: if ``algorithm`` is given and does not fit the workspace.
    """
    if gx.size == 0:
        return []
    match _decide(target, geometry, Direction.INPUT_GRAD, gx.dtype, algorithm, winograd):
        case Algorithm.IM2COL:
            return conv_im2col.input_grad(target, gx, gy, weight, geometry)
        case Algorithm.DIRECT:
            layout = conv_direct.input_layout(geometry)
            return conv_direct.convolve(target, layout, gx, gy, weight, None, activation=None)
        case Algorithm.IMPLICIT:
            return conv_implicit.input_grad(target, gx, gy, weight, geometry)
        case Algorithm.WINOGRAD:
            return conv_winograd.input_grad(target, gx, gy, weight, geometry)
        case Algorithm.DEPTHWISE:
            return conv_depthwise.input_grad(target, gx, gy, weight, geometry)


def conv_weight_grad(
    target: Target,
    gw: Array,
    gy: Array,
    x: Array,
    geometry: ConvGeometry,
    *,
    algorithm: Algorithm | None = None,
    winograd: bool = True,
) -> list[Launch]:
    """``gw``: the gradient that arrives at ``weight``.

    Args:
        target: what the device is like.
        gw: ``(oc, ic / groups, kh, kw)``, dense.
        gy: ``(n, oc, oh, ow)``, dense, same dtype.
        x: ``(n, ic, h, w)``, dense, same dtype.
        geometry: the sizes.
        algorithm: how, or None to let :func:`choose` decide.
        winograd: whether the choice may be Winograd's conv_winograd.

    Returns:
        The launches, in order; none if ``gw`` is empty.

    Raises:
        ArgumentError: if ``algorithm`` is given and does not fit the workspace.
    """
    if gw.size == 0:
        return []
    match _decide(target, geometry, Direction.WEIGHT_GRAD, gw.dtype, algorithm, winograd):
        case Algorithm.IM2COL:
            return conv_im2col.weight_grad(target, gw, gy, x, geometry)
        case Algorithm.DIRECT:
            return conv_direct.weight_grad(target, gw, gy, x, geometry)
        case Algorithm.IMPLICIT:
            return conv_implicit_weight.weight_grad(target, gw, gy, x, geometry)
        case Algorithm.WINOGRAD:
            return conv_winograd.weight_grad(target, gw, gy, x, geometry)
        case Algorithm.DEPTHWISE:
            return conv_depthwise.weight_grad(target, gw, gy, x, geometry)


def choose(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    *,
    winograd: bool = True,
) -> Algorithm:
    """The algorithm a convolution takes when none is asked for; it always fits the workspace.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        dtype: of all operands.
        winograd: whether it may be Winograd's transforms, whose rounding errors are larger.
    """
    return next(
        algorithm
        for algorithm in _preferred(target, geometry, direction, dtype, winograd=winograd)
        if fits(target, geometry, direction, dtype, algorithm)
    )


def winograd_obstacle(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    *,
    winograd: bool = True,
) -> ConvObstacle | None:
    """What stands against Winograd's transforms of a plain convolution, on a GPU; None: nothing.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        dtype: of all operands.
        winograd: whether they may be used.
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
    """Whether an algorithm's scratch memory stays within the target's limit.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        dtype: of all operands.
        algorithm: the algorithm.
    """
    match algorithm:
        case Algorithm.IM2COL:
            return conv_im2col.fits(target, geometry, dtype.itemsize)
        case Algorithm.DIRECT:
            return conv_direct.fits(target, geometry, direction, dtype.itemsize)
        case Algorithm.IMPLICIT:
            return conv_implicit.fits(target, geometry, direction, dtype.itemsize)
        case Algorithm.WINOGRAD:
            return conv_winograd.obstacle(target, geometry, direction, dtype.itemsize) is None
        case Algorithm.DEPTHWISE:
            return True


def _preferred(
    target: Target, geometry: ConvGeometry, direction: Direction, dtype: DType, *, winograd: bool
) -> tuple[Algorithm, ...]:
    if target.traits.dedicated_local_memory:
        if min(geometry.icg, geometry.ocg) < 4 and geometry.groups > 1:
            return (Algorithm.DEPTHWISE,)
        direct = (Algorithm.IMPLICIT, Algorithm.DEPTHWISE)
        against = winograd_obstacle(target, geometry, direction, dtype, winograd=winograd)
        return (Algorithm.WINOGRAD, *direct) if against is None else direct
    return (Algorithm.DIRECT, Algorithm.IM2COL, Algorithm.DEPTHWISE)


def _decide(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    dtype: DType,
    algorithm: Algorithm | None,
    winograd: bool,  # noqa: FBT001 - one of what the choice depends on
) -> Algorithm:
    if geometry.flops == 0:  # sums of nothing: zeros, or the bias
        return Algorithm.DEPTHWISE
    if algorithm is None:
        return choose(target, geometry, direction, dtype, winograd=winograd)
    if not fits(target, geometry, direction, dtype, algorithm):
        raise ArgumentError(
            f"conv_{direction.value}",
            "the algorithm does not fit the workspace",
            algorithm=algorithm.value,
            workspace_limit=target.workspace_limit,
            remedy="Raise the device's limit with set_workspace_limit, or leave the choice open",
        )
    return algorithm
