"""Normalisation within an example: layer, group, instance, RMS and local response."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..creation import empty
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from ..values.dtypes import DType
from . import init
from .module import Module, Parameter
from .norm import Normalization
from .op_layer import OpLayer

__all__ = [
    "CrossMapLRN2d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


class _Affine(Module):
    """A layer with a weight and a bias of one shape, either of which may be None."""

    weight: Parameter | None
    bias: Parameter | None

    def _make_affine(self, shape: Any, like: dict[str, Any], *, weight: bool, bias: bool) -> None:
        self.register_parameter("weight", Parameter(empty(shape, **like)) if weight else None)
        self.register_parameter("bias", Parameter(empty(shape, **like)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last axes.

    Args:
        normalized_shape: their sizes.
        eps: added to the variance.
        elementwise_affine: whether there is a weight.
        bias: whether there is a bias beside it.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        weight: ``normalized_shape``, at first 1, or None.
        bias: ``normalized_shape``, at first 0, or None.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        several = isinstance(normalized_shape, Sequence)
        self.normalized_shape = tuple(normalized_shape) if several else (normalized_shape,)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        affine = elementwise_affine
        self._make_affine(self.normalized_shape, like, weight=affine, bias=affine and bias)

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(_Affine):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over groups of channels.

    Args:
        num_groups: divides ``num_channels``.
        num_channels: the size of axis 1.
        eps: added to the variance.
        affine: whether there is a weight.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.
        bias: whether there is a bias beside it.

    Attributes:
        weight: ``(num_channels,)``, at first 1, or None.
        bias: ``(num_channels,)``, at first 0, or None.

    Raises:
        ArgumentError: if ``num_groups`` does not divide the channels.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                "GroupNorm",
                "num_groups divides the channels",
                num_groups=num_groups,
                num_channels=num_channels,
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self._make_affine(num_channels, like, weight=affine, bias=affine and bias)

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """``x / sqrt(mean(x * x) + eps) * weight`` over the last axes.

    Args:
        normalized_shape: their sizes.
        eps: added to the mean square; None: the spacing at 1 of the dtype it is computed in.
        elementwise_affine: whether there is a weight.
        device: where it is; None: the current device.
        dtype: of the weight.

    Attributes:
        weight: ``normalized_shape``, at first 1, or None.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        several = isinstance(normalized_shape, Sequence)
        self.normalized_shape = tuple(normalized_shape) if several else (normalized_shape,)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        own = Parameter(empty(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return ops.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class LocalResponseNorm(OpLayer):
    """``x / (k + alpha * mean(x * x)) ** beta`` over neighbouring channels.

    Args:
        size: how many are neighbours.
        alpha: how much they count.
        beta: the power.
        k: what is added.
    """

    op = ops.local_response_norm
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """As :class:`LocalResponseNorm`, over as many channels before a channel as behind it.

    Of an even ``size`` these are one less, whose sum is divided by ``size`` all the same. PyTorch's
    layer keeps the first channel in the sums of all channels behind; here sums are of neighbours.
    """

    def forward(self, x: Tensor) -> Tensor:
        neighbours = self.size - 1 + self.size % 2
        share = self.alpha * neighbours / self.size
        return ops.local_response_norm(x, neighbours, alpha=share, beta=self.beta, k=self.k)


class _InstanceNorm(Normalization):
    """What the instance norms share; ``ndims`` are the axes of one example and of a batch."""

    ndims: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``, a batch or one example.

        Without weights and running statistics any number of channels will do, with a warning.

        Raises:
            ShapeError: if ``x`` has another number of axes than the layer takes, or of channels.
        """
        alone = x.ndim == self.ndims[0]
        batch = ops.unsqueeze(x, 0) if alone else x
        counted = self.affine or self.running_mean is not None
        if x.ndim not in self.ndims or (counted and batch.shape[1] != self.num_features):
            raise ShapeError(
                type(self).__name__,
                f"x has {' or '.join(map(str, self.ndims))} axes, and {self.num_features} channels",
                x=x.shape,
            )
        if batch.shape[1] != self.num_features:
            text = f"{type(self).__name__}: x has {batch.shape[1]} channels, not the"
            warnings.warn(f"{text} {self.num_features} of the layer, which uses none", stacklevel=2)
        y = ops.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return ops.squeeze(y, 0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """As :class:`InstanceNorm2d`, for rows ``(n, c, length)`` or ``(c, length)``."""

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each image by its own mean and variance.

    Settings and attributes are those of :class:`.norm.BatchNorm2d`, but that neither running
    averages nor weights are kept unless they are asked for.
    """

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """As :class:`InstanceNorm2d`, for volumes ``(n, c, d, h, w)`` or ``(c, d, h, w)``."""

    ndims = (4, 5)
