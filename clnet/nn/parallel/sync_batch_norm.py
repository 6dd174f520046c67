"""Batch normalisation over the batches of several processes."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from typing import Any

from ... import ops
from ...ranks.differentiable import all_reduce
from ...ranks.membership import get_world_size, is_initialized
from ...tensor import Tensor
from ...values.dtypes import DType, float32
from ..module import Module
from ..norm import BatchNorm

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm):
    """Batch normalisation over the batches of all processes that are joined, with gradients.

    In training mean and variance are those of all ranks' elements (of any numbers of them); without
    other processes, and in evaluation, it is :class:`BatchNorm2d`. ``x`` is ``(n, num_features,
    ...)``. Settings and attributes are those of :class:`BatchNorm2d`, beside ``process_group``: who
    takes part, None: all.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    ndims = (2, 3, 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        if not (self.training and is_initialized() and get_world_size(self.process_group) > 1):
            return super().forward(x)
        self._check(x)
        axes = [0, *range(2, x.ndim)]
        shape = [1, self.num_features, *(1 for _ in x.shape[2:])]
        wide = x.to(float32) if x.dtype.itemsize < float32.itemsize else x
        number = wide.detach().new_full((1,), x.numel() // self.num_features)
        sums = all_reduce(ops.cat([wide.sum(axes), number]), group=self.process_group)
        total = sums[self.num_features :].detach()
        mean = sums[: self.num_features] / total
        centred = wide - mean.reshape(shape)
        var = all_reduce((centred * centred).sum(axes), group=self.process_group) / total
        self._track(mean.detach(), (var * total / (total - 1)).detach())
        y = centred * (var + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            y = y * self.weight.reshape(shape)
        if self.bias is not None:
            y = y + self.bias.reshape(shape)
        return y.to(x.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch norm in it replaced by one of this class.

        Args:
            module: a batch norm, for which its replacement is given, or what holds some.
            process_group: who takes part; None: all.

        Returns:
            The module; parameters and buffers are the same objects.
        """
        found = module
        if isinstance(module, BatchNorm) and not isinstance(module, SyncBatchNorm):
            found = cls.__new__(cls)
            found.__dict__.update(module.__dict__)
            found.__dict__["process_group"] = process_group
        for name, child in list(module._modules.items()):  # one at several places, at each
            if child is None:
                continue
            converted = cls.convert_sync_batchnorm(child, process_group)
            if converted is not child:
                found.add_module(name, converted)
        return found
