"""``autograd.graph``: what PyTorch's users do with what is kept for backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autodiff.tape import Node as Node
from ..tensor import Tensor, tensor
from ..values import mode

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """A block in which hooks see each tensor that is kept for backward.

    Only what ``pack_hook`` returns is kept. Both run without a tape. Of blocks within blocks the
    inner one's hooks are called. What a checkpointed function saves is not shown: it is computed
    again. Inside a compiled function hooks run while it is recorded.

    Args:
        pack_hook: called with each tensor, off the tape; returns what is kept in its place.
        unpack_hook: called with that when backward wants the tensor, which it returns; of the
            same shape and dtype.

    Example:
        >>> import clnet
        >>> x = clnet.tensor([1.0, 2.0], requires_grad=True)
        >>> hooks = clnet.autograd.graph.saved_tensors_hooks
        >>> with hooks(lambda x: x.numpy(), clnet.tensor):
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        """Begin."""
        self._scope = mode.using(saved_hooks=(self.pack_hook, self.unpack_hook))
        self._scope.__enter__()

    def __exit__(self, *exc: object) -> None:
        """The hooks of before."""
        self._scope.__exit__(*exc)  # pyright: ignore[reportArgumentType] - the three of a with statement


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """A block in which what is kept for backward lies in the host's memory until then.

    Args:
        pin_memory: changes nothing.
        device_type: changes nothing: the tensors come back to where they were.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:  # noqa: FBT001, FBT002
        del pin_memory, device_type
        super().__init__(_to_host, _from_host)


def _to_host(x: Tensor) -> Any:
    return x.device, x.dtype, x.numpy().copy()


def _from_host(kept: Any) -> Tensor:
    device, dtype, values = kept
    return tensor(values, device=device, dtype=dtype)
