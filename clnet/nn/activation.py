"""Activation layers: no parameters, one op each."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from .. import ops
from ..tensor import Tensor
from .module import Module

__all__ = [
    "ELU",
    "GELU",
    "LeakyReLU",
    "LogSoftmax",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
]


class _Inplace(Module):
    """A layer that PyTorch may let overwrite its input; the result is a new tensor all the same."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Whether it was asked to work in place."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """``max(x, 0)``.

    Args:
        inplace: taken as PyTorch does, and shown; the result is a new tensor all the same.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.relu(x)


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
        return ops.silu(x)


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
        return ops.leaky_relu(x, negative_slope=self.negative_slope)

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
        return ops.elu(x, alpha=self.alpha)

    def extra_repr(self) -> str:
        """The limit."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, stable for large ``|x|``.

    Args:
        beta: how sharp the bend at 0 is.
        threshold: taken as PyTorch does, and shown; the stable formula needs none.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.softplus(x) if self.beta == 1 else ops.softplus(x * self.beta) / self.beta

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """Exponentials along an axis, divided by their sum.

    Args:
        dim: the axis.
    """

    def __init__(self, dim: int) -> None:
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

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.log_softmax(x, dim=self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"
