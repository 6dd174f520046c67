"""``autograd.forward_ad``: tensors with tangents, which ops carry along."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autodiff.dual import DualLevel, dual, parts_of_dual
from ..errors import ArgumentError, GradientError, ShapeError
from ..values import mode
from ..values.arguments import require_tensors

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


_current_level = -1  # of PyTorch's blocks; there is none
_ENTER = "Use dual_level()"


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, or None."""

    primal: Any
    tangent: Any


def _level() -> DualLevel | None:
    found = [one for one in mode.current().batching or () if isinstance(one, DualLevel)]
    return found[-1] if found else None


def enter_dual_level() -> int:
    """Begin a block in which tensors carry tangents; returns its number.

    Raises:
        GradientError: within another.
    """
    if _level() is not None:
        law = "levels of tangents are not within each other"
        hint = "Leave the outer one, or take clnet.func.jvp, whose are"
        raise GradientError("forward_ad", law, remedy=hint)
    around = mode.current().batching or ()
    mode.change(batching=(*around, DualLevel(len(around))))
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End it; tangents are forgotten.

    Raises:
        GradientError: where none was begun.
    """
    del level
    if _level() is None:
        raise GradientError("forward_ad", "a level of tangents was entered", remedy=_ENTER)
    rest = tuple(o for o in mode.current().batching or () if not isinstance(o, DualLevel))
    mode.change(batching=rest or None)


class dual_level:  # noqa: N801 - PyTorch's name
    """A block in which tensors carry tangents.

    Example:
        >>> import clnet
        >>> import clnet.autograd.forward_ad as fwAD
        >>> x, t = clnet.tensor([1.0, 2.0]), clnet.tensor([1.0, 10.0])
        >>> with fwAD.dual_level():
        ...     y = fwAD.make_dual(x, t) ** 2
        ...     fwAD.unpack_dual(y).tangent.tolist()
        [2.0, 40.0]
    """

    def __enter__(self) -> int:
        """Begin."""
        return enter_dual_level()

    def __exit__(self, *raised: object) -> None:
        """End."""
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with a tangent.

    Args:
        tensor: floating or complex.
        tangent: of its shape and dtype.
        level: taken: there is one.

    Raises:
        GradientError: outside of :class:`dual_level`, or if one of the two has a tangent already.
        ArgumentError: of whole numbers, or if the dtypes differ.
        ShapeError: if the shapes differ.
    """
    del level
    name, own = "forward_ad.make_dual", _level()
    require_tensors(name, tensor=tensor, tangent=tangent)
    if own is None:
        raise GradientError(name, "a level of tangents was entered", remedy=_ENTER)
    if not tensor.dtype.differentiable or tangent.dtype is not tensor.dtype:
        law = "floating tensors have tangents, of their dtype"
        raise ArgumentError(name, law, tensor=tensor.dtype, tangent=tangent.dtype)
    if tensor.shape != tangent.shape:
        law = "a tangent has the tensor's shape"
        raise ShapeError(name, law, tensor=tensor.shape, tangent=tangent.shape)
    primal, before = parts_of_dual(tensor, own)
    if before is not None or parts_of_dual(tangent, own)[1] is not None:
        law = "neither the tensor nor its tangent has a tangent yet"
        raise GradientError(name, law, shape=tensor.shape)
    return dual(primal, tangent, own)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor, and its tangent; None where it has none."""
    del level
    require_tensors("forward_ad.unpack_dual", tensor=tensor)
    return UnpackedDualTensor(*parts_of_dual(tensor, _level()))
