"""``torch.utils.dlpack``: arrays of other libraries as tensors, by a copy on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor, tensor

__all__ = ["from_dlpack", "to_dlpack"]


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor with a copy of what an object with ``__dlpack__`` holds in host memory."""
    return tensor(np.from_dlpack(ext_tensor))


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of a copy on the host."""
    return tensor.detach().numpy().__dlpack__()
