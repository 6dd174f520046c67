"""Norms, pooling and reorders of blocked arrays: what the layout pass puts in the place of ops.

A blocked array is ``(n, c / b, h, w, b)`` where a plain one is ``(n, c, h, w)``; ``b`` is how many
floats a vector of the CPU holds. A pointwise op on blocked arrays needs nothing new.
"""

from __future__ import annotations

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...expr import Expr
from ...kernels import norm, pool
from ...kernels.conv_blocked import reorder
from ...kernels.pool import Means, Window
from ...values.dtypes import int32
from ...values.shapes import Shape
from ..machinery.function import Function

Arrays = tuple[Array, ...]


class Reorder(Function):
    """A plain array as a blocked one of so many ``lanes``, or (0) a blocked one as a plain one."""

    lanes: int

    def infer(self, x: Array) -> Arrays:
        """The same elements in the other layout."""
        if self.lanes:
            n, c, h, w = x.shape
            shape = (n, c // self.lanes, h, w, self.lanes)
        else:
            n, groups, h, w, lanes = x.shape
            shape = (n, groups * lanes, h, w)
        return (Array.abstract(shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return reorder(outputs[0], inputs[0])


class BlockedMoments(Function):
    """Mean, ``1 / sqrt(variance + eps)`` and unbiased variance of each channel."""

    eps: float
    op_name = "batch_norm"

    def infer(self, x: Array) -> Arrays:
        """Three values for each channel."""
        channels = (x.shape[1] * x.shape[4],)
        return tuple(Array.abstract(channels, x.dtype, x.device) for _ in range(3))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Parts, and their joining."""
        mean, invstd, var = outputs
        return norm.blocked_moments((mean, invstd, var), inputs[0], eps=self.eps)


class BlockedSums(Function):
    """Sums of expressions over images and pixels, for each channel.

    Attributes:
        op_name: the op it is a part of.
        exprs: of the inputs, each blocked or a value for each channel, ``(c,)``.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        made: how many expressions, the first ones, are not summed: outputs as they are.
    """

    op_name: str
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...] = ()
    made: int = 0

    def infer(self, *inputs: Array) -> Arrays:
        """Blocked arrays, then a value for each channel and sum."""
        x = next(a for a in inputs if a.ndim == 5)
        shapes = [x.shape] * self.made
        shapes += [(x.shape[1] * x.shape[4],)] * (len(self.exprs) - self.made)
        return tuple(Array.abstract(shape, x.dtype, x.device) for shape in shapes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Parts, and their joining."""
        made, sums = outputs[: self.made], outputs[self.made :]
        return norm.blocked_sums(sums, inputs, self.exprs, scalars=self.scalars, made=made)


class BlockedMaxPool(Function):
    """Maxima over windows and, where they are asked for, their positions."""

    window: Window
    size: tuple[int, int]
    indexed: bool
    op_name = "max_pool2d"

    def infer(self, x: Array) -> Arrays:
        """Maxima, and positions within planes."""
        n, groups, _, _, lanes = x.shape
        shape = (n, groups, *self.size, lanes)
        dtypes = (x.dtype, int32) if self.indexed else (x.dtype,)
        return tuple(Array.abstract(shape, dtype, x.device) for dtype in dtypes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        index = outputs[1] if self.indexed else None
        return pool.blocked_max_pool(outputs[0], inputs[0], window=self.window, index=index)


class BlockedMaxPoolBackward(Function):
    """Gradients added up at the positions of the maxima."""

    window: Window
    size: tuple[int, int]
    op_name = "max_pool_backward"

    def infer(self, gy: Array, index: Array) -> Arrays:
        """Planes of ``size``."""
        return (_sized(gy, self.size),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return pool.blocked_max_pool_gradient(outputs[0], *inputs, window=self.window)


class BlockedAvgPool(Function):
    """Means over windows or over nearly equal parts."""

    means: Means
    size: tuple[int, int]

    @property
    def name(self) -> str:
        return "adaptive_avg_pool2d" if self.means.window is None else "avg_pool2d"

    def infer(self, x: Array) -> Arrays:
        """Planes of ``size``."""
        return (_sized(x, self.size),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return pool.blocked_avg_pool(outputs[0], inputs[0], means=self.means)


class BlockedAvgPoolBackward(Function):
    """The transpose of :class:`BlockedAvgPool`; ``size`` is of the planes that were pooled."""

    means: Means
    size: tuple[int, int]
    op_name = "avg_pool_backward"

    def infer(self, gy: Array) -> Arrays:
        """Planes of ``size``."""
        return (_sized(gy, self.size),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        how = (target, outputs[0], inputs[0])
        return pool.blocked_avg_pool_gradient(*how, means=self.means)


def _sized(x: Array, size: Shape) -> Array:
    n, groups, _, _, lanes = x.shape
    return Array.abstract((n, groups, *size, lanes), x.dtype, x.device)
