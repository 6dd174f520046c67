"""Batch normalisation."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..creation import empty
from ..errors import ShapeError
from ..ops.machinery.update import update
from ..ops.norm import counted, counted_batch_norm
from ..tensor import Tensor
from ..values.dtypes import DType, int64
from . import init
from .module import Module, Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


class Normalization(Module):
    """Parameters and buffers of batch and instance norms."""

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        weight = Parameter(empty(num_features, **like)) if affine else None
        self.register_parameter("weight", weight)
        own = Parameter(empty(num_features, **like)) if affine and bias else None
        self.register_parameter("bias", own)
        kept = track_running_stats
        self.register_buffer("running_mean", empty(num_features, **like) if kept else None)
        self.register_buffer("running_var", empty(num_features, **like) if kept else None)
        count = empty((), dtype=int64, device=device) if kept else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        for buffer, value in (
            (self.running_mean, 0),
            (self.running_var, 1),
            (self.num_batches_tracked, 0),
        ):
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, no batches seen."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # States from before PyTorch 0.4.1, and dicts without metadata, may have no count.
        key, count = prefix + "num_batches_tracked", self.num_batches_tracked
        if local_metadata.get("version", 1) < 2 and count is not None and key not in state_dict:
            state_dict[key] = count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(Normalization):
    """What the layers of this file share; ``ndims`` is how many axes their input may have."""

    ndims: ClassVar[tuple[int, ...]]
    keeps_averages: ClassVar[bool] = True  # of batches; ``func`` asks modules for it

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``.

        Raises:
            ShapeError: if ``x`` has another number of axes than the layer takes, or of channels.
        """
        self._check(x)
        mean, var, count = self.running_mean, self.running_var, self.num_batches_tracked
        if self.training and not self.track_running_stats:  # switched off: averages stay
            return self._normalized(x, None, None, 0.0)
        if not self.training or mean is None or var is None or count is None:
            return self._normalized(x, mean, var, 0.0)
        operands = (mean, var, count), self.weight, self.bias
        y = counted_batch_norm(x, *operands, self.momentum, self.eps)
        if y is not None:
            return y
        if self.momentum is not None:
            y = self._normalized(x, mean, var, self.momentum)
            update(counted, [count], once=True)
            return y
        batch_mean, batch_var = ops.zeros_like(mean), ops.zeros_like(var)
        y = self._normalized(x, batch_mean, batch_var, 1.0)
        self._track(batch_mean, batch_var)
        return y

    def _check(self, x: Tensor) -> None:
        if x.ndim not in self.ndims or x.shape[1] != self.num_features:
            raise ShapeError(
                type(self).__name__,
                f"x has {' or '.join(map(str, self.ndims))} axes, and {self.num_features} channels",
                x=x.shape,
            )

    def _normalized(
        self, x: Tensor, mean: Tensor | None, var: Tensor | None, momentum: float
    ) -> Tensor:
        return ops.batch_norm(
            x,
            mean,
            var,
            weight=self.weight,
            bias=self.bias,
            training=self.training or mean is None,
            momentum=momentum,
            eps=self.eps,
        )

    def _track(self, mean: Tensor, var: Tensor) -> None:
        """Let the running averages know of a batch."""
        count = self.num_batches_tracked
        if not self.track_running_stats:
            return
        if self.running_mean is None or self.running_var is None or count is None:
            return
        update(counted, [count], once=True)
        for average, value in ((self.running_mean, mean), (self.running_var, var)):
            if self.momentum is None:
                counts = count.expand(self.num_features)
                update(_averaged, [average, value.to(average.dtype), counts], once=True)
            else:
                update(_moved, [average, value.to(average.dtype)], [self.momentum], once=True)


class BatchNorm1d(BatchNorm):
    """Batch normalisation of vectors ``(n, num_features)`` or rows ``(n, num_features, length)``.

    Settings and attributes are those of :class:`BatchNorm2d`.
    """

    ndims = (2, 3)


class BatchNorm2d(BatchNorm):
    """Normalise each channel of images: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    In training the batch's own statistics are taken, and a part of them goes into running averages,
    which are taken in evaluation. ``x`` is ``(n, num_features, h, w)``.

    Args:
        num_features: channels, the size of axis 1.
        eps: added to the variance.
        momentum: the batch's part in the running averages; None: equal parts of all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: whether running averages are kept; without, evaluation takes the
            batch's statistics too. The attribute set to False later, training leaves them as
            they are.
        device: where parameters and buffers are; None: the current device.
        dtype: of the parameters.
        bias: whether there is one, if ``affine``.

    Attributes:
        weight, bias: ``(num_features,)``, at first 1 and 0, or None.
        running_mean, running_var: ``(num_features,)``, at first 0 and 1, or None.
        num_batches_tracked: ``()``, int64: batches seen in training, or None.
    """

    ndims = (4,)


class BatchNorm3d(BatchNorm):
    """Batch normalisation of volumes ``(n, num_features, d, h, w)``; as :class:`BatchNorm2d`."""

    ndims = (5,)


def _averaged(average: Any, value: Any, count: Any) -> tuple[Any, ...]:
    return (average + (value - average) / count,)


def _moved(average: Any, value: Any, momentum: Any) -> tuple[Any, ...]:
    return (average + (value - average) * momentum,)


# PyTorch's names, by which programs tell them
_NormBase, _BatchNorm = Normalization, BatchNorm
