"""Softmax and its logarithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..array import Array
from ..device import Launch, Target
from ..kernels.softmax import log_softmax as launch_log_softmax
from ..kernels.softmax import log_softmax_grad, softmax_grad
from ..kernels.softmax import softmax as launch_softmax
from ..values.dtypes import DType
from ..values.shapes import normalize_dim
from .arithmetic import exp, log
from .machinery.function import (
    EVERYWHERE,
    Arrays,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
)
from .shape import contiguous, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


class Softmax(Function):
    """Softmax along ``dim``, or its logarithm."""

    repeats = True

    dim: int
    log: bool
    saved_outputs = (0,)

    @property
    def name(self) -> str:
        return "log_softmax" if self.log else "softmax"

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A dense output like the input."""
        require_floating(self.name, x)
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        launch = launch_log_softmax if self.log else launch_softmax
        return launch(target, outputs[0], inputs[0], dim=self.dim)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One fused launch."""
        function = SoftmaxBackward(self.dim, self.log)
        return (apply(function, contiguous(grads[0]), saved.outputs[0]),)

    def decompose(self, x: Tensor) -> Tensor:
        """In exponentials and sums; of no elements nothing."""
        if not x.shape[self.dim]:
            return exp(x)
        shifted = x - x.detach().amax(self.dim, keepdim=True)
        if self.log:
            return shifted - log(exp(shifted).sum(self.dim, keepdim=True))
        e = exp(shifted)
        return e / e.sum(self.dim, keepdim=True)


class SoftmaxBackward(Function):
    """The gradient of softmax (or its logarithm) from the gradient of its result and its result."""

    repeats = True

    dim: int
    log: bool

    @property
    def name(self) -> str:
        return "log_softmax_backward" if self.log else "softmax_backward"

    def infer(self, gy: Array, y: Array) -> tuple[Array, ...]:
        """A dense output like the result."""
        return (Array.abstract(y.shape, y.dtype, y.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        launch = log_softmax_grad if self.log else softmax_grad
        return launch(target, outputs[0], *inputs, dim=self.dim)


@op(EVERYWHERE)
def softmax(x: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``.

    Args:
        x: any shape, floating.
        dim: the axis that sums to 1; None, as PyTorch chose it once: the first of a tensor of 0, 1
            or 3 axes, else the second.
        dtype: what to convert ``x`` to first.

    Returns:
        ``x``'s shape.

    Raises:
        BoundsError: if ``x`` has no such axis.
        DtypeError: if ``x`` is not floating.
    """
    return _softmax(x, dim, dtype, log=False)


@op(EVERYWHERE)
def log_softmax(x: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """``x - log(sum(exp(x)))`` along ``dim``; otherwise as :func:`softmax`."""
    return _softmax(x, dim, dtype, log=True)


def _softmax(x: Tensor, dim: int | None, dtype: DType | None, *, log: bool) -> Tensor:
    x = contiguous(x if dtype is None else to_dtype(x, dtype))
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
    axis = normalize_dim("log_softmax" if log else "softmax", dim, x.ndim)
    if x.ndim == 0:
        y = reshape(apply(Softmax(0, log), reshape(x, (1,))), ())
    else:
        y = apply(Softmax(axis, log), x)
    return y if dtype is None else to_dtype(y, dtype)
