"""Normalisation of groups of elements within an example: group, instance, local response."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import HostScalar, Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.moving import fill
from ..kernels.norm import group_norm as launch_group_norm
from ..kernels.norm import group_norm_sums, groups_grad, whole_groups
from ..values.dtypes import from_name
from .arithmetic import rsqrt, square
from .machinery.autocast import autocast_operands
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
)
from .machinery.pointwise import evaluate
from .machinery.update import update
from .norm import affine, batch_norm, blend
from .padding import pad
from .pool import avg_pool2d
from .shape import contiguous, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


class GroupNorm(Function):
    """Each ``(members, inner)`` of ``(n, groups, members, inner)`` by its own statistics.

    Its inputs are x and, where they are, weight and bias of ``(groups, members)``; its outputs y,
    and of each group the mean, ``1 / sqrt(variance + eps)`` and the unbiased variance.
    """

    repeats = True

    op_name: str
    weighted: bool
    biased: bool
    eps: float

    differentiable = (0,)

    def infer(self, x: Array, *affine: Array) -> tuple[Array, ...]:
        """``x``'s shape, and three statistics of each group."""
        acc = from_name(x.dtype.compute)
        groups = (x.shape[0] * x.shape[1],)
        statistics = (Array.abstract(groups, acc, x.device) for _ in range(3))
        return (Array.abstract(x.shape, x.dtype, x.device), *statistics)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Statistics in parts, their joining, the normalisation."""
        x, weight, bias = affine(self, inputs)
        y, mean, invstd, var = outputs
        return launch_group_norm(target, y, (mean, invstd, var), x, weight, bias, eps=self.eps)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The input, the weight and the statistics."""
        return ((0, 1) if self.weighted else (0,)), (1, 2)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One op where an item has a group; else sums, by which the input's is pointwise."""
        gy, x = contiguous(grads[0]), saved.inputs[0]
        mean, invstd = saved.outputs[1], saved.outputs[2]
        n, groups, members, inner = x.shape
        weight = [contiguous(saved.inputs[1])] if self.weighted else []
        if needs[0] and whole_groups(x.device.traits, x.shape):
            function = GroupNormBackward(self.weighted, any(needs[1:]))
            found = apply(function, gy, x, mean, invstd, *weight)
            gx, *rest = found if any(needs[1:]) else (found,)
            given = [gx, *rest[: self.weighted], *(rest[-1:] if self.biased else ())]
            given += [None] * (len(needs) - len(given))
            return tuple(g if need else None for g, need in zip(given, needs, strict=True))
        sums = apply(GroupNormSums(), gy, x, mean, invstd, *weight)
        out: list[Any] = [None] * len(needs)
        if needs[0]:
            spread = [reshape(v, (n, groups, 1, 1)) for v in (mean, invstd, *sums[2:])]
            spread += [reshape(w, (1, groups, members, 1)) for w in weight]
            share = 1 / (members * inner) if x.numel() else 1.0
            out[0] = evaluate(f"{self.op_name}_backward", _slope, [gy, x, *spread], [share])
        if self.weighted:
            out[1] = sums[0] if needs[1] else None
        if self.biased and needs[-1]:
            out[-1] = sums[1]
        return tuple(out)

    def decompose(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """In means, differences and products."""
        x, weight, bias = affine(self, inputs)
        mean = x.mean((2, 3), keepdim=True)
        distance = x - mean
        variance = (distance * distance).mean((2, 3), keepdim=True)
        invstd = rsqrt(variance + self.eps)
        y = distance * invstd
        if weight is not None:
            y = y * reshape(weight, (1, *weight.shape, 1))
        if bias is not None:
            y = y + reshape(bias, (1, *bias.shape, 1))
        count = prod(x.shape[2:])
        unbiased = variance * (count / max(count - 1, 1))
        groups = (x.shape[0] * x.shape[1],)
        return y, *(reshape(s, groups) for s in (mean, invstd, unbiased))


class GroupNormSums(Function):
    """Gradients to weight and bias, and two sums of each group, from gy, x, mean, invstd, weight.

    The input's gradient is a pointwise op, by these sums: a compiled function makes it one with
    others.
    """

    repeats = True

    op_name = "group_norm_sums"

    def infer(self, gy: Array, x: Array, mean: Array, *rest: Array) -> tuple[Array, ...]:
        """Two of ``(groups, members)``, two of the statistics' shape."""
        shapes = (x.shape[1:3],) * 2 + (mean.shape,) * 2
        return tuple(Array.abstract(shape, mean.dtype, x.device) for shape in shapes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Sums in parts, their joining."""
        gy, x, mean, invstd, *weight = inputs
        if not x.size:
            return [launch for y in outputs for launch in fill(target, y, 0)]
        scale = weight[0] if weight else None
        gweight, gbias, scaled, level = outputs
        written = (gweight, gbias, scaled, level)
        return group_norm_sums(target, written, gy, x, mean, invstd, scale)

    def decompose(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """In differences and products."""
        gy, x, mean, invstd, *weight = inputs
        n, groups, members, _ = x.shape
        distance = (x - reshape(mean, (n, groups, 1, 1))) * reshape(invstd, (n, groups, 1, 1))
        products = gy * distance
        channels = products.sum((0, 3)), gy.sum((0, 3))
        scales = [reshape(w, (1, groups, members, 1)) for w in weight]
        each = (y * scales[0] if scales else y for y in (products, gy))
        return (*channels, *(reshape(y.sum((2, 3)), mean.shape) for y in each))


class GroupNormBackward(Function):
    """Gradients to input and, if ``summed``, weight and bias, from gy, x, mean, invstd, weight."""

    repeats = True

    weighted: bool
    summed: bool
    op_name = "group_norm_backward"

    def infer(self, gy: Array, x: Array, mean: Array, *rest: Array) -> tuple[Array, ...]:
        """``x``'s shape and, of each sum, ``(groups, members)``."""
        shapes = (x.shape, *(x.shape[1:3],) * (2 * self.summed))
        return tuple(Array.abstract(shape, mean.dtype, x.device) for shape in shapes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Groups, and the joining of sums over examples."""
        gx, *sums = outputs
        gy, x, mean, invstd, *weight = inputs
        scale = weight[0] if weight else None
        return groups_grad(target, gx, tuple(sums), gy, x, mean, invstd, scale)


def _slope(gy: Any, x: Any, mean: Any, invstd: Any, scaled: Any, level: Any, *rest: Any) -> Any:
    *weight, share = rest
    g = gy * weight[0] if weight else gy
    return invstd * (g - level * share - (x - mean) * (invstd * (scaled * share)))


def normalized_groups(
    name: str,
    x: Tensor,
    shape: tuple[int, int, int, int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Any, Any, Any]:
    """``x`` normalised as an array of another shape.

    Args:
        name: the public op.
        x: floating.
        shape: ``(n, groups, members, inner)``.
        weight: as many elements as groups have members in all, or None.
        bias: the same, or None.
        eps: added to the variance.

    Returns:
        The result in ``x``'s own shape, mean and unbiased variance of each group.
    """
    require_floating(name, x.array)
    (x,) = autocast_operands(name, x)
    wide = from_name(x.dtype.compute)  # 16 bits are too few for the distances from the mean
    given = [contiguous(to_dtype(a, wide)) for a in (weight, bias) if a is not None]
    affine = [reshape(a, shape[1:3]) for a in given]
    function = GroupNorm(name, weight is not None, bias is not None, eps)
    y, mean, _, var = apply(function, reshape(contiguous(to_dtype(x, wide)), shape), *affine)
    return to_dtype(reshape(y, x.shape), x.dtype), mean, var


@op(Face.FUNCTIONAL | Face.FUNCTION)
def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over groups of channels (Wu and He 2018).

    Args:
        x: ``(n, c, ...)``, floating.
        num_groups: divides ``c``.
        weight: ``(c,)`` or None.
        bias: ``(c,)`` or None.
        eps: added to the variance.

    Returns:
        ``x``'s shape.

    Raises:
        ShapeError: if the shapes do not fit, or ``num_groups`` does not divide the channels.
        DtypeError: if ``x`` is not floating.
    """
    _check_channels("group_norm", x, {"weight": weight, "bias": bias})
    n, c = x.shape[:2]
    if num_groups < 1 or c % num_groups:
        raise ShapeError(
            "group_norm", "num_groups divides the channels", x=x.shape, num_groups=num_groups
        )
    shape = (n, num_groups, c // num_groups, prod(x.shape[2:]))
    if n * c // num_groups * shape[3] == 1:
        raise ShapeError("group_norm", "a group has more than one value", x=x.shape)
    return normalized_groups("group_norm", x, shape, weight, bias, eps)[0]


@op(Face.FUNCTIONAL)
def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | HostScalar = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each example by its own mean and variance (Ulyanov et al. 2016).

    Args:
        x: ``(n, c, ...)``, floating.
        running_mean: ``(c,)`` or None: updated in place, or, without input statistics, used.
        running_var: the same of the variance.
        weight: ``(c,)`` or None.
        bias: ``(c,)`` or None.
        use_input_stats: whether the statistics are ``x``'s own.
        momentum: share of ``x`` in the running statistics.
        eps: added to the variance.

    Returns:
        ``x``'s shape.

    Raises:
        ArgumentError: if running statistics, or one of them, are missing, or a channel has one
            element.
        ShapeError: if the shapes do not fit.
        DtypeError: if ``x`` is not floating.
    """
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    operands = {
        "running_mean": running_mean,
        "running_var": running_var,
        "weight": weight,
        "bias": bias,
    }
    _check_channels("instance_norm", x, operands)
    if (running_mean is None) != (running_var is None):
        raise ArgumentError(
            "instance_norm",
            "running_mean and running_var are both given, or neither is",
            missing="running_mean" if running_mean is None else "running_var",
        )
    n, c = x.shape[:2]
    inner = prod(x.shape[2:])
    if inner == 1:
        raise ArgumentError(
            "instance_norm", "a channel of an example has more than one value", x=x.shape
        )
    y, mean, var = normalized_groups("instance_norm", x, (n, c, 1, inner), weight, bias, eps)
    if running_mean is not None and running_var is not None:
        found = [reshape(s.detach(), (n, c)).mean(0) for s in (mean, var)]
        update(blend, [running_mean, running_var, *found], [momentum], once=True)
    return y


def _damped(x: Any, mean: Any, alpha: Any, beta: Any, k: Any) -> Any:
    return x / (mean * alpha + k) ** beta


@op(Face.FUNCTIONAL)
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha * mean(x * x)) ** beta`` over neighbouring channels (Krizhevsky 2012).

    Args:
        x: ``(n, c, ...)`` with three axes or more, floating.
        size: how many channels are neighbours; those beyond the ends count as 0.
        alpha: how much they count.
        beta: the power.
        k: what is added.

    Returns:
        ``x``'s shape.

    Raises:
        ShapeError: if ``x`` has fewer axes.
        ArgumentError: if ``size`` is below 1.
    """
    if x.ndim < 3:
        raise ShapeError("local_response_norm", "x is (n, channels, ...)", x=x.shape)
    if size < 1:
        raise ArgumentError("local_response_norm", "size is 1 or more", size=size)
    if x.numel() == 0:
        return x
    n, c = x.shape[:2]
    squares = reshape(square(x), (n, 1, c, prod(x.shape[2:])))
    padded = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = reshape(avg_pool2d(padded, (size, 1), 1), x.shape)
    return evaluate("local_response_norm", _damped, [x, mean], [alpha, beta, k])


def _check_channels(name: str, x: Tensor, operands: dict[str, Tensor | None]) -> None:
    if x.ndim < 2:
        raise ShapeError(name, "x has a batch and a channel axis", x=x.shape)
    for key, operand in operands.items():
        if operand is not None and operand.shape != (x.shape[1],):
            got: dict[str, Any] = {"x": x.shape, key: operand.shape}
            raise ShapeError(name, f"{key} has one element a channel", **got)
