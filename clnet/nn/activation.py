"""Activation layers: no parameters, one op each."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import ShapeError
from ..tensor import Tensor, full
from ..values.dtypes import DType, float32
from .module import Module, Parameter

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


class _Inplace(Module):
    """A layer that may overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Whether it was asked to work in place."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """``max(x, 0)``.

    Args:
        inplace: whether to overwrite the input, and give it back.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.relu(x, inplace=self.inplace)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.tanh(x)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.sigmoid(x)


class SiLU(_Inplace):
    """``x * sigmoid(x)``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.silu(x, inplace=self.inplace)


class GELU(Module):
    """``x`` times the normal distribution function.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for Hendrycks and Gimpel's approximation.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The approximation."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """``x`` above 0, ``negative_slope * x`` elsewhere.

    Args:
        negative_slope: the slope below 0.
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.leaky_relu(x, negative_slope=self.negative_slope, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere.

    Args:
        alpha: minus the limit at minus infinity.
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.elu(x, alpha=self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The limit."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, stable for large ``|x|``.

    Args:
        beta: how sharp the bend at 0 is.
        threshold: ``x`` itself is taken where ``beta * x`` is above it.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """Exponentials along an axis, divided by their sum.

    Args:
        dim: the axis.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``; sums to 1 along ``dim``."""
        return ops.softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis.

    Args:
        dim: the axis.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.log_softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class ReLU6(_Inplace):
    """``min(max(x, 0), 6)``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.relu6(x, inplace=self.inplace)


class SELU(_Inplace):
    """A scaled :class:`ELU` that keeps mean 0 and variance 1.

    Args:
        inplace: as for :class:`ReLU`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.selu(x, inplace=self.inplace)


class Mish(_Inplace):
    """``x * tanh(softplus(x))``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.mish(x, inplace=self.inplace)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.softsign(x)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.tanhshrink(x)


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``."""

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.logsigmoid(x)


class Hardsigmoid(Module):
    """``min(max(x + 3, 0), 6) / 6``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.hardsigmoid(x, inplace=self.inplace)


class Hardswish(Module):
    """``x * hardsigmoid(x)``.

    Args:
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.hardswish(x, inplace=self.inplace)


class CELU(Module):
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Args:
        alpha: minus the limit at minus infinity.
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.celu(x, alpha=self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The limit."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """``min(max(x, min_val), max_val)``.

    Args:
        min_val: the lower bound.
        max_val: the upper bound.
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.hardtanh(x, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        bounds = f"min_val={self.min_val}, max_val={self.max_val}"
        return bounds + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    """A layer with a bound ``lambd`` below which elements are 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The bound."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """0 where ``|x| <= lambd``, else ``x``.

    Args:
        lambd: the bound.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.hardshrink(x, self.lambd)


class Softshrink(_Shrink):
    """``x`` drawn towards 0 by ``lambd``.

    Args:
        lambd: by how much.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.softshrink(x, self.lambd)


class Threshold(Module):
    """``x`` above ``threshold``, ``value`` elsewhere.

    Args:
        threshold: the bound.
        value: what replaces the others.
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.threshold(x, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        text = f"threshold={self.threshold}, value={self.value}"
        return text + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """``a * sigmoid(b)`` for the halves ``a`` and ``b`` of an axis.

    Args:
        dim: the axis.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x`` with half of ``dim``."""
        return ops.glu(x, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


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
        dtype: DType = float32,
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


class RReLU(Module):
    """``x`` above 0, else times a slope: in training a random one for each element.

    Args:
        lower: the least slope.
        upper: the largest; in evaluation the mean of both is taken.
        inplace: as for :class:`ReLU`.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.rrelu(x, self.lower, self.upper, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The slopes."""
        slopes = f"lower={self.lower}, upper={self.upper}"
        return slopes + (", inplace=True" if self.inplace else "")


class Softmin(Module):
    """The softmax of ``-x`` along an axis.

    Args:
        dim: the axis.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``; sums to 1 along ``dim``."""
        return ops.softmin(x, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


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
