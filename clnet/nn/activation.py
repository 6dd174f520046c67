"""Activation layers: no parameters, one op each."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor, full
from ..values.dtypes import DType
from .module import Module, Parameter
from .op_layer import OpLayer

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class ReLU(OpLayer):
    """``max(x, 0)``.

    Args:
        inplace: whether to overwrite the input, and give it back.
    """

    op = ops.relu
    inplace: bool = False


class Tanh(OpLayer):
    """The hyperbolic tangent."""

    op = ops.tanh


class Sigmoid(OpLayer):
    """``1 / (1 + exp(-x))``."""

    op = ops.sigmoid


class SiLU(OpLayer):
    """``x * sigmoid(x)``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    op = ops.silu
    inplace: bool = False


class GELU(OpLayer):
    """``x`` times the normal distribution function.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for Hendrycks and Gimpel's approximation.
    """

    op = ops.gelu
    approximate: str = "none"


class LeakyReLU(OpLayer):
    """``x`` above 0, ``negative_slope * x`` elsewhere.

    Args:
        negative_slope: the slope below 0.
        inplace: as for :class:`ReLU`.
    """

    op = ops.leaky_relu
    negative_slope: float = 1e-2
    inplace: bool = False


class ELU(OpLayer):
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere.

    Args:
        alpha: minus the limit at minus infinity.
        inplace: as for :class:`ReLU`.
    """

    op = ops.elu
    alpha: float = 1.0
    inplace: bool = False


class Softplus(OpLayer):
    """``log(1 + exp(beta * x)) / beta``, stable for large ``|x|``.

    Args:
        beta: how sharp the bend at 0 is.
        threshold: ``x`` itself is taken where ``beta * x`` is above it.
    """

    op = ops.softplus
    beta: float = 1.0
    threshold: float = 20.0


class Softmax(OpLayer):
    """Exponentials along an axis, divided by their sum.

    Args:
        dim: the axis.
    """

    op = ops.softmax
    dim: int | None = None


class LogSoftmax(OpLayer):
    """The logarithm of the softmax along an axis.

    Args:
        dim: the axis.
    """

    op = ops.log_softmax
    dim: int | None = None


class ReLU6(OpLayer):
    """``min(max(x, 0), 6)``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    op = ops.relu6
    inplace: bool = False


class SELU(OpLayer):
    """A scaled :class:`ELU` that keeps mean 0 and variance 1.

    Args:
        inplace: as for :class:`ReLU`.
    """

    op = ops.selu
    inplace: bool = False


class Mish(OpLayer):
    """``x * tanh(softplus(x))``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    op = ops.mish
    inplace: bool = False


class Softsign(OpLayer):
    """``x / (1 + |x|)``."""

    op = ops.softsign


class Tanhshrink(OpLayer):
    """``x - tanh(x)``."""

    op = ops.tanhshrink


class LogSigmoid(OpLayer):
    """``log(1 / (1 + exp(-x)))``."""

    op = ops.logsigmoid


class Hardsigmoid(OpLayer):
    """``min(max(x + 3, 0), 6) / 6``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    op = ops.hardsigmoid
    inplace: bool = False
    _shown = ()


class Hardswish(OpLayer):
    """``x * hardsigmoid(x)``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    op = ops.hardswish
    inplace: bool = False
    _shown = ()


class CELU(OpLayer):
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Args:
        alpha: minus the limit at minus infinity.
        inplace: as for :class:`ReLU`.
    """

    op = ops.celu
    alpha: float = 1.0
    inplace: bool = False


class Hardtanh(OpLayer):
    """``min(max(x, min_val), max_val)``.

    Args:
        min_val: the lower bound.
        max_val: the upper bound, greater than the lower.
        inplace: as for :class:`ReLU`.
    """

    op = ops.hardtanh
    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False

    def _check_settings(self) -> None:
        if not self.max_val > self.min_val:
            raise ArgumentError(
                "Hardtanh",
                "max_val is greater than min_val",
                min_val=self.min_val,
                max_val=self.max_val,
            )


class Hardshrink(OpLayer):
    """0 where ``|x| <= lambd``, else ``x``.

    Args:
        lambd: the bound.
    """

    op = ops.hardshrink
    lambd: float = 0.5

    def extra_repr(self) -> str:
        """The bound alone, as PyTorch has it."""
        return str(self.lambd)


class Softshrink(OpLayer):
    """``x`` drawn towards 0 by ``lambd``.

    Args:
        lambd: by how much.
    """

    op = ops.softshrink
    lambd: float = 0.5

    def extra_repr(self) -> str:
        """The bound alone, as PyTorch has it."""
        return str(self.lambd)


class Threshold(OpLayer):
    """``x`` above ``threshold``, ``value`` elsewhere.

    Args:
        threshold: the bound.
        value: what replaces the others.
        inplace: as for :class:`ReLU`.
    """

    op = ops.threshold
    threshold: float
    value: float
    inplace: bool = False


class GLU(OpLayer):
    """``a * sigmoid(b)`` for the halves ``a`` and ``b`` of an axis.

    Args:
        dim: the axis.
    """

    op = ops.glu
    dim: int = -1


class PReLU(Module):
    """``x`` above 0, ``weight * x`` elsewhere.

    Args:
        num_parameters: 1, or the size of axis 1: a slope for each channel.
        init: the slopes at first.
        device: where they are; None: the current device.
        dtype: of the slopes.

    Attributes:
        weight: ``(num_parameters,)``.
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full(num_parameters, float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """The slopes as at first."""
        self.weight.detach().fill_(self.init)

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """How many slopes there are."""
        return f"num_parameters={self.num_parameters}"


class RReLU(OpLayer):
    """``x`` above 0, else times a slope: in training a random one for each element.

    Args:
        lower: the least slope.
        upper: the largest; in evaluation the mean of both is taken.
        inplace: as for :class:`ReLU`.
    """

    op = ops.rrelu
    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.rrelu(x, training=self.training, **self._settings())


class Softmin(OpLayer):
    """The softmax of ``-x`` along an axis.

    Args:
        dim: the axis.
    """

    op = ops.softmin
    dim: int | None = None


class Softmax2d(Module):
    """The softmax over the channels at each pixel of images."""

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``, ``(n, c, h, w)`` or ``(c, h, w)``.

        Raises:
            ShapeError: if it has another number of axes.
        """
        if x.ndim not in (3, 4):
            raise ShapeError("Softmax2d", "x is (n, c, h, w) or (c, h, w)", x=x.shape)
        return ops.softmax(x, -3)
