"""``torch._utils``: a few private functions of PyTorch's that packages call."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ops import cat
from ..values.dtypes import DType
from . import cuda

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An exception of a thread or a process, to be raised in another.

    Args:
        exc_info: what ``sys.exc_info()`` gave; None: what it gives now.
        where: where it was raised, for the message.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))

    def reraise(self) -> None:
        """Raise an error of its class that tells where it came from, with its traceback as text.

        Raises:
            RuntimeError: if its class is made of something else than a message.
        """
        kind: Any = self.exc_type
        text = f"Caught {kind.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = kind(message=text) if getattr(kind, "message", None) else kind(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


def _get_device_index(  # for packages
    device: Any,
    optional: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    allow_cpu: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> int:
    """The number of a device; 0 where none is said."""
    if isinstance(device, int):
        return device
    named = str(device).partition(":")[2] if device is not None else ""
    return int(named) if named.isdecimal() else 0


def _element_size(dtype: DType) -> int:  # for packages
    """Bytes of an element."""
    return dtype.itemsize


def _flatten_dense_tensors(  # for packages
    tensors: Sequence[Tensor],
) -> Tensor:
    """All elements of tensors of one dtype, behind each other."""
    return cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(  # for packages
    flat: Tensor, tensors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Parts of ``flat`` in the shapes of ``tensors``, the inverse of the above."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _get_available_device_type() -> str | None:  # for packages
    """The accelerator that programs mean: ``"cuda"`` if there is one, else None."""
    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:  # for packages
    """``torch.cuda``, by its name.

    Raises:
        RuntimeError: if it is another.
    """
    if device_type != "cuda":
        raise RuntimeError(f"Device {device_type!r} does not have a corresponding module")
    return cuda
