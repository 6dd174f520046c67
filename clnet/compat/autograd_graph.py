"""``autograd.graph``: what PyTorch's users do with what is kept for backward."""

from __future__ import annotations

from typing import Any

from ..autodiff.tape import Node as Node
from ..errors import ArgumentError

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """A block in which functions would see what is kept for backward.

    Args:
        pack_hook: PyTorch calls it with each tensor that is kept.
        unpack_hook: PyTorch calls it with what that gave.
    """

    def __init__(self, pack_hook: Any, unpack_hook: Any) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> Any:
        """Refuse.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(
            type(self).__name__,
            "what is kept for backward stays on the device",
            remedy="Use clnet.checkpoint, which computes it again instead",
        )

    def __exit__(self, *raised: object) -> None:
        """It was not entered."""


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """A block in which what is kept for backward would lie in the host's memory.

    Args:
        pin_memory: PyTorch's.
        device_type: PyTorch's.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:  # noqa: FBT001, FBT002
        super().__init__(pin_memory, device_type)
