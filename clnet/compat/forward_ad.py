"""``autograd.forward_ad``: gradients forward are ``clnet.func.jvp``'s; no tensor carries one."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import ArgumentError

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]


_current_level = -1  # of PyTorch's blocks; there is none


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, which is None."""

    primal: Any
    tangent: Any


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor, and None: it carries no tangent."""
    return UnpackedDualTensor(tensor, None)


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Refuse.

    Raises:
        ArgumentError: always.
    """
    hint = "Use clnet.func.jvp(function, primals, tangents)"
    raise ArgumentError("forward_ad.make_dual", "tensors carry no tangents", remedy=hint)


class dual_level:  # noqa: N801 - PyTorch's name
    """A block in which tensors would carry tangents."""

    def __enter__(self) -> None:
        """Nothing changes until :func:`make_dual` is called."""

    def __exit__(self, *raised: object) -> None:
        """Nothing was changed."""
