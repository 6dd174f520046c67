"""``nn.parallel``: wrappers for several devices, of which a model here uses one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, DeviceError
from .module import Module

__path__: list[str] = []  # ``import clnet.nn.parallel.distributed`` is found
__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """A module as it is: all of a batch is computed on the module's device.

    Args:
        module: what is called.
        device_ids: one device, if any.
        output_device: taken as PyTorch does.
        dim: taken as PyTorch does.

    Raises:
        DeviceError: if there are several devices.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        del output_device, dim
        super().__init__()
        if not isinstance(device_ids, list | tuple | None):
            raise ArgumentError("DataParallel", "device_ids is a list", device_ids=device_ids)
        if device_ids is not None and len(device_ids) > 1:
            raise DeviceError(
                "DataParallel",
                "a model runs on one device",
                device_ids=list(device_ids),
                remedy="Pass one device, or leave the wrapper out",
            )
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*args, **kwargs)


class DistributedDataParallel(Module):
    """Training in several processes, which there is not.

    Raises:
        DeviceError: always.
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        del module, args, kwargs
        super().__init__()
        raise DeviceError(
            "DistributedDataParallel",
            "clnet trains on one device of one process",
            remedy="Leave the wrapper out where distributed.is_initialized() is False",
        )


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What the module gives for ``inputs``: a tensor, or a tuple of arguments."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))


distributed = sys.modules[__name__]  # where PyTorch has the second
