"""Methods that overwrite their tensor: random numbers, and ops whose result is copied into it."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, DtypeError, ShapeError
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import complex128, float32, float64
from ..values.generator import Generator

__all__ = ["cauchy_", "exponential_", "geometric_", "log_normal_", "overwriting"]


def overwriting(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The method ``<name>_``: what a function gives is copied into its first argument.

    Args:
        name: the function's.
        function: of a tensor and further arguments; gives a tensor of the same shape.
    """

    def overwrite(x: Tensor, *args: Any, **given: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise DtypeError(f"{name}_", "what is overwritten is a tensor", type=type(x).__name__)
        if name == "float_power" and x.dtype not in (float64, complex128):
            law = "the result is float64 or complex128, and so is what it overwrites"
            raise DtypeError("float_power_", law, x=x.dtype, remedy="Use pow_, or x.double()")
        # What backward reads must not be what is overwritten.
        recorded = x.requires_grad and mode.current().grad
        result = function(ops.clone(x) if recorded else x, *args, **given)
        if result.shape != x.shape:
            law = "what is overwritten has the result's shape"
            raise ShapeError(f"{name}_", law, x=x.shape, result=result.shape)
        if result.dtype.kind > x.dtype.kind:
            law = "the result does not fit the dtype of what is overwritten"
            raise DtypeError(f"{name}_", law, x=x.dtype, result=result.dtype)
        return x.copy_(result)

    overwrite.__name__ = overwrite.__qualname__ = f"{name}_"
    overwrite.__doc__ = f"Overwrite ``x`` with its :func:`{name}`; returns ``x``."
    overwrite.__door__ = getattr(function, "__door__", None)  # pyrefly: ignore[missing-attribute] - for whoever looks at it
    return overwrite


def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers of density ``lambd exp(-lambd x)``."""
    if lambd <= 0:
        raise ArgumentError("exponential_", "lambd is above 0", lambd=lambd)
    return self.copy_(-ops.log(_uniform(self, generator)) / lambd)


def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with numbers whose logarithm is normal, of that mean and deviation."""
    if not std > 0:
        raise ArgumentError("log_normal_", "std is above 0", std=std)
    drawn = ops.normal_(ops.empty_like(self.detach()), generator=generator)
    return self.copy_(ops.exp(drawn * std + mean))


def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with numbers of Cauchy's density."""
    if not sigma > 0:
        raise ArgumentError("cauchy_", "sigma is above 0", sigma=sigma)
    return self.copy_(ops.tan((_uniform(self, generator) - 0.5) * pi) * sigma + median)


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with how many trials it takes to the first success of probability ``p``."""
    if not 0 < p < 1:
        raise ArgumentError("geometric_", "p lies between 0 and 1", p=p)
    like = ops.empty_like(self.detach(), dtype=float32)
    drawn = ops.log(_uniform(like, generator)) / float(np.log1p(-p))
    return self.copy_(ops.ceil(drawn).clamp(min=1))


def _uniform(x: Tensor, generator: Generator | None) -> Tensor:
    """Numbers in ``(0, 1)``: the least step stands for 0, which has no logarithm."""
    drawn = ops.uniform_(ops.empty_like(x.detach()), generator=generator)
    return ops.clamp(drawn, min=2.0 ** (-53 if x.dtype.itemsize == 8 else -24))
