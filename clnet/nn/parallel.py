"""``nn.parallel``: a module on several devices. clnet uses one, so the module runs as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """The module in ``module``, called as it is; its state's names begin with ``module.``.

    Args:
        module: what is called.
        device_ids: taken: there is one device.
        output_device: taken.
        dim: taken.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


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
    return module(*given, **(module_kwargs or {}))
