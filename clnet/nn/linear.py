"""Dense layers, and layers that only reshape or pass on."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from .. import ops
from ..creation import empty
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.dtypes import DType
from . import init
from .module import Module, Parameter
from .op_layer import OpLayer

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Linear(Module):
    """``y = x @ weight.T + bias``.

    Args:
        in_features: size of the last axis of ``x``.
        out_features: size of the last axis of ``y``.
        bias: whether there is one.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        weight: ``(out_features, in_features)``, uniform within ``1 / sqrt(in_features)`` at first.
        bias: ``(out_features,)``, as the weight at first, or None.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        own = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.default_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., out_features)`` from ``(..., in_features)``."""
        return ops.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """What attention projects its heads' results by: a :class:`Linear` by PyTorch's name for it."""


class Bilinear(Module):
    """``y[o] = x1 @ weight[o] @ x2 + bias[o]``.

    Args:
        in1_features: size of the last axis of ``x1``.
        in2_features: size of the last axis of ``x2``.
        out_features: size of the last axis of ``y``.
        bias: whether there is one.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        weight: ``(out_features, in1_features, in2_features)``, uniform within ``1 /
            sqrt(in1_features)`` at first.
        bias: ``(out_features,)``, as the weight at first, or None.

    Raises:
        ArgumentError: if ``in1_features`` is below 1.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features < 1:
            raise ArgumentError("Bilinear", "in1_features is 1 or more", in1_features=in1_features)
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        own = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """``(..., out_features)`` from ``(..., in1_features)`` and ``(..., in2_features)``."""
        return ops.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Its argument, unchanged; takes and ignores the settings of the layer it stands for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:  # noqa: A002 - PyTorch's
        """``input``."""
        return input


class Flatten(OpLayer):
    """Axes ``start_dim`` to ``end_dim`` joined into one.

    Args:
        start_dim: the first, 1 by default: the axis of examples stays.
        end_dim: the last.
    """

    op = ops.flatten
    start_dim: int = 1
    end_dim: int = -1


class Unflatten(OpLayer):
    """An axis split into several.

    Args:
        dim: the axis.
        unflattened_size: the new sizes; one may be -1.
    """

    op = ops.unflatten
    dim: int
    unflattened_size: Sequence[int]

    def _check_settings(self) -> None:
        self.unflattened_size = tuple(self.unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        """A view where the strides allow it, else a copy."""
        return ops.unflatten(x, self.dim, self.unflattened_size)
