"""Batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import HostScalar, Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.grid import in_groups
from ..kernels.norm import Running, Statistics, batch_norm_grad, batch_norm_statistics
from ..kernels.norm import batch_norm as launch_batch_norm
from ..values import mode
from ..values.dtypes import DType, from_name, int64
from ..values.shapes import Shape, Strides, is_contiguous
from .arithmetic import rsqrt
from .create import new_zeros
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
from .shape import contiguous, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

_STORAGE, _WANTED = attrgetter("array.storage"), attrgetter("requires_grad")
_LAID = attrgetter("array.shape", "array.strides", "array.dtype")


class _OwnStatistics(Function):
    """What batch norms share whose first inputs are ``x`` and, where they are, weight and bias.

    Its first outputs are y, the mean, ``1 / sqrt(variance + eps)`` and the unbiased variance.
    """

    sixteen_bit = False
    repeats = True

    if TYPE_CHECKING:
        weighted: bool
        biased: bool
        eps: float

    differentiable = (0,)
    op_name = "batch_norm"

    def infer(self, x: Array, *affine: Array) -> tuple[Array, ...]:
        """``x``'s shape, and three statistics of each channel."""
        acc = from_name(x.dtype.compute)
        channel = (x.shape[1],)
        statistics = (Array.abstract(channel, acc, x.device) for _ in range(3))
        return (Array.abstract(x.shape, x.dtype, x.device), *statistics)

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Statistics are those of 16-bit floats, too, but on CPUs of channels side by side."""
        return in_groups(target.traits) or prod(inputs[0].shape[2:]) > 1

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The input, the weight and the statistics."""
        return ((0, 1) if self.weighted else (0,)), (1, 2)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One op for all gradients."""
        weight = (saved.inputs[1],) if self.weighted else ()
        statistics = (saved.outputs[1], saved.outputs[2])
        function = BatchNormBackward(self.weighted, needs[0])
        found = apply(function, contiguous(grads[0]), saved.inputs[0], *statistics, *weight)
        gweight, gbias, *gx = found
        parts = [gx[0] if gx else None]
        if self.weighted:
            parts.append(gweight)
        if self.biased:
            parts.append(gbias)
        return tuple(g if need else None for g, need in zip(parts, needs, strict=True))

    def decompose(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """In means, differences and products."""
        x, weight, bias = affine(self, inputs)
        dims = (0, *range(2, x.ndim))
        mean = x.mean(dims, keepdim=True)
        distance = x - mean
        variance = (distance * distance).mean(dims, keepdim=True)
        invstd = rsqrt(variance + self.eps)
        y = distance * invstd
        if weight is not None:
            y = y * per_channel(weight, x.ndim)
        if bias is not None:
            y = y + per_channel(bias, x.ndim)
        count = x.numel() // max(x.shape[1], 1)
        unbiased = variance * (count / max(count - 1, 1))
        channel = (x.shape[1],)
        return y, *(reshape(s, channel) for s in (mean, invstd, unbiased))


class BatchNorm(_OwnStatistics):
    """``x`` normalised by its own statistics."""

    weighted: bool
    biased: bool
    eps: float

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Statistics in parts, their joining, the normalisation."""
        x, weight, bias = affine(self, inputs)
        y, mean, invstd, var = outputs
        statistics: Statistics = (mean, invstd, var)
        return launch_batch_norm(target, y, statistics, x, weight, bias, eps=self.eps)


class TrackedBatchNorm(_OwnStatistics):
    """A batch norm whose last inputs are running statistics, which it moves as well.

    They are mean and variance and, if ``counted``, the number of batches. It is what a network asks
    for that is not compiled: each of what it does beside costs the host an op more. Compiled
    functions merge those of all layers, and hold none of these.

    Attributes:
        momentum: the batch's share in them; None: 1 / the number of batches.
        counted: whether there is one, which becomes one more unless it is the share.
    """

    weighted: bool
    biased: bool
    eps: float
    momentum: float | HostScalar | None
    counted: bool

    @property
    def repeat_key(self) -> Any:
        """All but the momentum, a number; but whether there is one."""
        return self.weighted, self.biased, self.eps, self.momentum is None, self.counted

    @property
    def gradient_key(self) -> Any:
        """Nothing: no gradient follows from the momentum."""
        return ()

    @property
    def varying(self) -> tuple[Any, ...]:
        """The momentum."""
        return () if self.momentum is None else (self.momentum,)

    def with_varying(self, numbers: tuple[Any, ...]) -> TrackedBatchNorm:
        """With another momentum."""
        (momentum,) = numbers
        return TrackedBatchNorm(self.weighted, self.biased, self.eps, momentum, self.counted)

    @property
    def beside(self) -> int:
        """Running statistics are no operands of the gradient."""
        return 2 + self.counted

    @property
    def mutates(self) -> tuple[int, ...]:
        """The last inputs; a count that is the share is read alone."""
        first = 1 + self.weighted + self.biased
        return tuple(range(first, first + 2 + (self.counted and self.momentum is not None)))

    def infer(self, x: Array, *rest: Array) -> tuple[Array, ...]:
        """Without the variance."""
        return super().infer(x, *rest)[:3]

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """As many launches as without running statistics."""
        x, weight, bias = affine(self, inputs[: -self.beside])
        y, mean, invstd = outputs
        moved, var, *count = inputs[-self.beside :]
        running = Running(moved, var, self.momentum, count[0] if count else None)
        statistics = (mean, invstd, running)
        return launch_batch_norm(target, y, statistics, x, weight, bias, eps=self.eps)

    def decompose(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs alone, of the inputs that the tape knows."""
        return super().decompose(*inputs)[:3]


def affine(norm: Any, inputs: Sequence[Any]) -> tuple[Any, Any, Any]:
    """What a function that is ``weighted`` and ``biased``, or not, gets: x, weight and bias."""
    weight = inputs[1] if norm.weighted else None
    bias = inputs[-1] if norm.biased else None
    return inputs[0], weight, bias


class BatchNormStatistics(Function):
    """The statistics of :class:`BatchNorm` alone; compiled functions normalise in another step."""

    sixteen_bit = False
    repeats = True

    eps: float
    op_name = "batch_norm"

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Mean, ``1 / sqrt(variance + eps)`` and unbiased variance of each channel."""
        acc = from_name(x.dtype.compute)
        return tuple(Array.abstract((x.shape[1],), acc, x.device) for _ in range(3))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Statistics in parts, their joining."""
        mean, invstd, var = outputs
        return batch_norm_statistics(target, (mean, invstd, var), inputs[0], eps=self.eps)


class BatchNormBackward(Function):
    """Gradients to weight, bias and (if ``wanted``) input, from gy, x, mean, invstd, weight."""

    sixteen_bit = False
    repeats = True

    weighted: bool
    wanted: bool
    op_name = "batch_norm_backward"

    def infer(self, gy: Array, x: Array, mean: Array, *rest: Array) -> tuple[Array, ...]:
        """Two vectors and ``x``'s shape."""
        vectors = [Array.abstract(mean.shape, mean.dtype, x.device) for _ in range(2)]
        return (*vectors, *([Array.abstract(x.shape, x.dtype, x.device)] if self.wanted else []))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Sums in parts, their joining, the gradient of the input."""
        gweight, gbias, *gx = outputs
        gy, x, mean, invstd, *weight = inputs
        scale = weight[0] if weight else None
        first = gx[0] if gx else None
        return batch_norm_grad(target, first, gweight, gbias, gy, x, mean, invstd, scale)

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """As :class:`BatchNorm`'s, of two arrays of one dtype."""
        alike = inputs[0].dtype is inputs[1].dtype
        return alike and (in_groups(target.traits) or prod(inputs[1].shape[2:]) > 1)


def per_channel(values: Any, ndim: int) -> Any:
    """A vector as axis 1 of ``ndim`` axes."""
    return reshape(values, (1, values.shape[0], *(1,) * (ndim - 2)))


@op(Face.FUNCTIONAL)
def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,  # noqa: FBT001, FBT002 - PyTorch takes it by position
    momentum: float | HostScalar = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` in each channel (Ioffe and Szegedy 2015).

    Args:
        x: ``(n, c, ...)``, floating.
        running_mean: ``(c,)``: the mean to use; in training it (if given) is updated in place
            instead, ``running += momentum * (batch's - running)``.
        running_var: the same of the variance, whose unbiased estimate is taken in.
        weight: ``(c,)`` or None.
        bias: ``(c,)`` or None.
        training: normalise by the statistics of the batch.
        momentum: share of the batch in the running statistics.
        eps: added to the variance.

    Returns:
        ``x``'s shape.

    Raises:
        ArgumentError: if running statistics, or one of them, are missing, or a channel has one
            element in training.
        DtypeError: if ``x`` or an operand is not floating.
        ShapeError: if ``x`` has no channels, or an operand has another number of them.
    """
    operands = (running_mean, running_var, weight, bias)
    if not _fits(*map(_kind, (x, *operands)), training=training):
        _require_fitting(x, *operands, training=training)
    if not training and running_mean is not None and running_var is not None:
        return _given(x, running_mean, running_var, weight, bias, eps)
    if 0 in (x.shape[0], prod(x.shape[2:])):  # a mean of nothing would be NaN, and stay
        mean = new_zeros(x.detach(), (x.shape[1],))
        return _given(x, mean, mean + 1, weight, bias, eps)
    if x.array.whole is not None and running_mean is not None and running_mean.array.whole is None:
        law = "vmap: statistics that are not of the batch are written by all of its elements"
        hint = "Let them be of the batch, or set track_running_stats to False, or call eval()"
        raise ArgumentError("batch_norm", law, x=x.shape, remedy=hint)
    if running_mean is None or running_var is None:
        function = BatchNorm(weight is not None, bias is not None, eps)
        return apply(function, contiguous(x), *_affine(x, weight, bias))[0]
    if moves_beside(x, weight, bias, running_mean, running_var):
        return _tracked(x, (running_mean, running_var), weight, bias, momentum, eps)
    function = BatchNorm(weight is not None, bias is not None, eps)
    y, mean, _, var = apply(function, contiguous(x), *_affine(x, weight, bias))
    update(blend, [running_mean, running_var, mean.detach(), var.detach()], [momentum], once=True)
    return y


def counted_batch_norm(
    x: Tensor,
    running: tuple[Tensor, Tensor, Tensor],
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float | None,
    eps: float,
) -> Tensor | None:
    """:func:`batch_norm` in training, with a count of the batches that goes on with the rest.

    Args:
        x: as there.
        running: mean, variance and ``num_batches_tracked``.
        weight: as there.
        bias: as there.
        momentum: as there; None: equal shares of all batches.
        eps: as there.

    Returns:
        ``x``'s shape; None: nothing was done, and ops of their own are to do it.

    Raises:
        ArgumentError: as there, and so of the other errors.
    """
    operands = (*running[:2], weight, bias)
    if not _fits(*map(_kind, (x, *operands)), training=True):
        _require_fitting(x, *operands, training=True)
    if 0 in x.shape or not moves_beside(x, weight, bias, *running):
        return None
    if momentum is None:
        update(counted, [running[2]], once=True)
    return _tracked(x, running, weight, bias, momentum, eps)


def counted(count: Any) -> tuple[Any, ...]:
    """One batch more, for :func:`.update.update`."""
    return (count + 1,)


def moves_beside(x: Tensor, weight: Tensor | None, bias: Tensor | None, *running: Tensor) -> bool:
    """Whether the launches that find a batch's statistics may write the running ones as well.

    Traces hold updates, which are merged over all layers; what is differentiated, computed again
    or looked at op by op has them apart, too. And kernels take those of their own dtype that lie
    densely, each in its own memory.
    """
    now = mode.current()
    if now.tracer is not None or now.batching or now.recomputing or now.anomaly is not None:
        return False
    every = (x, *running)
    if weight is not None:
        every += (weight,)
    if bias is not None:
        every += (bias,)
    if len({*map(_STORAGE, every)}) < len(every) or any(map(_WANTED, running)):
        return False
    return _lie_densely(x.array.dtype, *map(_LAID, running))


@lru_cache(maxsize=4096)
def _lie_densely(x: DType, *running: tuple[Shape, Strides, DType]) -> bool:
    """Whether running statistics are of the dtype that kernels find, and lie as these take them."""
    acc = from_name(x.compute)
    for (shape, strides, dtype), own in zip(running, (acc, acc, int64), strict=False):
        if dtype is not own or not is_contiguous(shape, strides):
            return False
    return True


def _tracked(
    x: Tensor,
    running: Sequence[Tensor],
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float | HostScalar | None,
    eps: float,
) -> Tensor:
    """A batch norm that moves running statistics; :func:`moves_beside`."""
    given = weight is not None, bias is not None
    function = TrackedBatchNorm(*given, eps, momentum, len(running) > 2)
    return apply(function, contiguous(x), *_affine(x, weight, bias), *running)[0]


def _affine(x: Tensor, *operands: Tensor | None) -> list[Tensor]:
    """Weight and bias, those that there are, in the dtype of the arithmetic."""
    acc = from_name(x.dtype.compute)
    return [to_dtype(a, acc) for a in operands if a is not None]


def _kind(x: Tensor | None) -> tuple[Shape, DType] | None:
    return None if x is None else (x.array.shape, x.array.dtype)


@lru_cache(maxsize=4096)
def _fits(x: tuple[Shape, DType], *operands: tuple[Shape, DType] | None, training: bool) -> bool:
    """Whether a batch norm's operands fit ``x``; a network asks for the same at every step."""
    shape, dtype = x
    fit = all(o is None or (o[0] == shape[1:2] and o[1].is_floating_point) for o in operands)
    running = [o is not None for o in operands[:2]]
    if not (fit and dtype.is_floating_point and len(shape) > 1 and running[0] == running[1]):
        return False
    return (shape[0] != 1 or prod(shape[2:]) != 1) if training else running[0]


def _require_fitting(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    training: bool,
) -> None:
    """Refuse operands of :func:`batch_norm` that do not fit ``x``; arguments as there."""
    require_floating("batch_norm", x.array)
    _require_channels(
        x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if (running_mean is None) != (running_var is None):
        raise ArgumentError(
            "batch_norm",
            "running_mean and running_var are both given, or neither is",
            missing="running_mean" if running_mean is None else "running_var",
        )
    if training and x.shape[0] == 1 and prod(x.shape[2:]) == 1:
        raise ArgumentError("batch_norm", "training needs more than one value a channel", x=x.shape)
    if not training and running_mean is None:
        raise ArgumentError(
            "batch_norm",
            "evaluation needs running statistics",
            running_mean=running_mean,
            running_var=running_var,
            remedy="Pass training=True to use those of the batch",
        )


def _require_channels(x: Tensor, **operands: Tensor | None) -> None:
    """Refuse operands of :func:`batch_norm` that have not a number for each channel of ``x``."""
    if x.ndim < 2:
        raise ShapeError("batch_norm", "x has a batch and a channel axis", x=x.shape)
    channels = x.shape[1:2]
    for name, operand in operands.items():
        if operand is None:
            continue
        if operand.shape != channels:
            got: dict[str, Any] = {"x": x.shape, name: operand.shape}
            raise ShapeError("batch_norm", f"{name} has one element a channel", **got)
        require_floating("batch_norm", operand.array)


def blend(
    running_mean: Any, running_var: Any, mean: Any, var: Any, momentum: Any
) -> tuple[Any, ...]:
    """Running statistics with a share of a batch's, for :func:`.update.update`."""
    return (
        running_mean + momentum * (mean - running_mean),
        running_var + momentum * (var - running_var),
    )


def by_statistics(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """The element of a channel, normalised by given statistics, as an expression."""
    return (x - mean) * (e.rsqrt(var + eps) * weight) + bias


def _given(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """By given statistics: one expression, whose gradients follow from it."""
    vectors = [mean, var, 1.0 if weight is None else weight, 0.0 if bias is None else bias]
    operands = [v if isinstance(v, float) else per_channel(v, x.ndim) for v in vectors]
    return evaluate("batch_norm", by_statistics, [x, *operands], [eps])
