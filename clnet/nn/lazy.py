"""Layers that find the size of their input at the first forward."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from ..errors import ArgumentError, ShapeError, TraceError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from ..values.dtypes import DType
from ..values.process import process_lock
from .conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Sizes,
)
from .group_norm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .linear import Linear
from .module import Module
from .norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]

_LOCK = process_lock()
"""Held while parameters get their shapes: a server's threads may all bring the first input."""


class LazyModuleMixin(Module):
    """A module whose parameters get their shapes at the first forward.

    Subclasses define ``initialize_parameters(*args)``, which is given what ``forward`` is and calls
    ``materialize`` of :class:`UninitializedParameter`.

    Attributes:
        cls_to_become: the class of the module from then on; None: it stays what it is.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(
            LazyModuleMixin._infer_parameters, with_kwargs=True
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of its own has no shape yet."""
        return any(is_lazy(x) for x in (*self._parameters.values(), *self._buffers.values()))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes; subclasses define it.

        Raises:
            NotImplementedError: here.
        """
        raise NotImplementedError(f"{type(self).__name__}.initialize_parameters")

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if they have shapes."""
        if not self._of_no_size() and not self.has_uninitialized_params():
            super().reset_parameters()

    def _of_no_size(self) -> bool:
        """Whether the size that is to be found is 0, which stands for none."""
        return False

    def _infer_parameters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the first forward: shapes, values, and the class of what it stands for."""
        if mode.current().tracer is not None:
            raise TraceError(
                type(self).__name__,
                "a lazy layer has its shapes before it is compiled",
                remedy="Call the module once with an example first",
            )
        with _LOCK:
            if "_initialize_hook" not in vars(self):  # another thread was first
                return
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise ArgumentError(
                    type(self).__name__, "initialize_parameters gives all parameters their shapes"
                )
            self._initialize_hook.remove()
            del self._initialize_hook
            if self.cls_to_become is not None:
                object.__setattr__(self, "__class__", self.cls_to_become)


def _axis(module: Module, x: Tensor, axis: int, least: int) -> int:
    """The size of an axis of what a layer is given.

    Raises:
        ShapeError: if there are fewer axes.
    """
    if x.ndim < least:
        raise ShapeError(type(module).__name__, f"x has {least} axes or more", x=x.shape)
    return x.shape[axis]


class LazyLinear(LazyModuleMixin, Linear):
    """:class:`Linear` whose ``in_features`` are found at the first forward.

    Args:
        out_features: size of the last axis of ``y``.
        bias: whether there is one.
        device: where the parameters will be; None: the current device.
        dtype: of the parameters.
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**like)
        self.register_parameter("bias", UninitializedParameter(**like) if bias else None)

    def _of_no_size(self) -> bool:
        return self.in_features == 0

    @partial(checked, skip=1)
    def initialize_parameters(self, x: Tensor) -> None:
        """Shapes from the last axis of ``x``."""
        self.in_features = _axis(self, x, -1, 1)
        if self.has_uninitialized_params():
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize(self.out_features)
            self.reset_parameters()


class _LazyFilters(LazyModuleMixin):
    """What lazy convolutions share."""

    in_channels: int
    out_channels: int
    groups: int
    axes: ClassVar[int]
    kernel_size: tuple[int, ...]
    weight: Any
    bias: Any

    def _postpone(self, out_channels: int, bias: bool, like: dict[str, Any]) -> None:
        if self.groups < 1 or out_channels % self.groups:
            raise ArgumentError(
                type(self).__name__,
                "groups divides the channels",
                out_channels=out_channels,
                groups=self.groups,
            )
        self.out_channels = out_channels
        self.weight = UninitializedParameter(**like)
        self.register_parameter("bias", UninitializedParameter(**like) if bias else None)

    def _of_no_size(self) -> bool:
        return self.in_channels == 0

    def _shape(self) -> tuple[int, ...]:
        """The filters'."""
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    @partial(checked, skip=1)
    def initialize_parameters(self, x: Tensor, output_size: Any = None) -> None:
        """Shapes from the channels of ``x``, batched or not."""
        del output_size  # of transposed convolutions
        channels = _axis(self, x, -self.axes - 1, self.axes + 1)
        if channels % self.groups:
            raise ArgumentError(
                type(self).__name__,
                "groups divides the channels",
                in_channels=channels,
                groups=self.groups,
            )
        self.in_channels = channels
        if self.has_uninitialized_params():
            self.weight.materialize(self._shape())
            if self.bias is not None:
                self.bias.materialize(self.out_channels)
            self.reset_parameters()


class _LazyConv(_LazyFilters):
    """Lazy convolutions; arguments as the layer's they become, without ``in_channels``."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        rest = (padding_mode, device, dtype)
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, *rest)
        self._postpone(out_channels, bias, like)


class _LazyTransposed(_LazyFilters):
    """Lazy transposed convolutions; arguments as the layer's they become."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        sizes = (kernel_size, stride, padding, output_padding)
        super().__init__(0, 0, *sizes, groups, False, dilation, padding_mode, device, dtype)
        self._postpone(out_channels, bias, like)

    def _shape(self) -> tuple[int, ...]:
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)


class _LazyNorm(LazyModuleMixin):
    """Lazy norms; arguments as the layer's they become, without ``num_features``."""

    num_features: int
    affine: bool
    track_running_stats: bool
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=False)
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        if self.affine:
            self.weight = UninitializedParameter(**like)
            self.register_parameter("bias", UninitializedParameter(**like) if bias else None)
        if self.track_running_stats:
            self.running_mean = UninitializedBuffer(**like)
            self.running_var = UninitializedBuffer(**like)

    def _of_no_size(self) -> bool:
        return self.num_features == 0

    def _channel_axis(self, x: Tensor) -> int:
        return 1

    @partial(checked, skip=1)
    def initialize_parameters(self, x: Tensor) -> None:
        """Shapes from the channels of ``x``."""
        self.num_features = _axis(self, x, self._channel_axis(x), 2)
        if self.has_uninitialized_params():
            for held in (self.weight, self.bias, self.running_mean, self.running_var):
                if held is not None:
                    held.materialize(self.num_features)
            self.reset_parameters()


class _LazyInstanceNorm(_LazyNorm):
    """Lazy instance norms: of examples without a batch, too."""

    ndims: ClassVar[tuple[int, ...]]

    def _channel_axis(self, x: Tensor) -> int:
        return 0 if x.ndim == self.ndims[0] else 1


class LazyConv1d(_LazyConv, Conv1d):
    """:class:`Conv1d` whose ``in_channels`` are found at the first forward."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """:class:`Conv2d` whose ``in_channels`` are found at the first forward."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """:class:`Conv3d` whose ``in_channels`` are found at the first forward."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """:class:`ConvTranspose1d` whose ``in_channels`` are found at the first forward."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """:class:`ConvTranspose2d` whose ``in_channels`` are found at the first forward."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """:class:`ConvTranspose3d` whose ``in_channels`` are found at the first forward."""

    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """:class:`BatchNorm1d` whose ``num_features`` are found at the first forward."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """:class:`BatchNorm2d` whose ``num_features`` are found at the first forward."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """:class:`BatchNorm3d` whose ``num_features`` are found at the first forward."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """:class:`InstanceNorm1d` whose ``num_features`` are found at the first forward."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """:class:`InstanceNorm2d` whose ``num_features`` are found at the first forward."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """:class:`InstanceNorm3d` whose ``num_features`` are found at the first forward."""

    cls_to_become = InstanceNorm3d
