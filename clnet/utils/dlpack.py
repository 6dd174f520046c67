"""``torch.utils.dlpack``: arrays of other libraries as tensors, and tensors for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ExchangeError
from ..tensor import Tensor
from ..tensor import tensor as made_of
from ..values.foreign import host_array, is_foreign

__all__ = ["from_dlpack", "to_dlpack"]


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of what an object with ``__dlpack__`` holds.

    Memory of other libraries is copied: a device's kernels read its own. A tensor of clnet's is
    shared.

    Args:
        ext_tensor: an array of NumPy, PyTorch, JAX or another, in host memory.
        device: as :func:`clnet.device` takes it; None: the current one.
        copy: True: also of clnet's tensors; False: no copy is allowed.

    Raises:
        ExchangeError: if a copy is needed and not allowed, or it is no such object.
    """
    if isinstance(ext_tensor, Tensor):
        x = ext_tensor.detach()
        moved = x if device is None else x.to(device=device)
        if copy is False and moved is not x:
            raise ExchangeError("from_dlpack", "another device has a copy", device=device)
        return moved.clone() if copy and moved is x else moved
    if copy is False:
        law, hint = "memory of other libraries is copied", "Leave copy out"
        raise ExchangeError("from_dlpack", law, type=type(ext_tensor).__name__, remedy=hint)
    if not hasattr(ext_tensor, "__dlpack__"):
        law, hint = "it takes an object with __dlpack__", "Use clnet.asarray"
        raise ExchangeError("from_dlpack", law, type=type(ext_tensor).__name__, remedy=hint)
    host = host_array(ext_tensor) if is_foreign(ext_tensor) else np.from_dlpack(ext_tensor)
    return made_of(host, device=device)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of a copy on the host."""
    return tensor.detach().__dlpack__()
