"""``clnet.cond``, ``clnet.while_loop`` and scans: PyTorch's control flow, as Python runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .. import ops
from ..autodiff.structure import put_together, taken_apart
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.shapes import normalize_dim

__all__ = ["associative_scan", "cond", "while_loop"]


def cond(
    pred: Tensor | float,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """What one of two functions gives; the host waits for ``pred``.

    Args:
        pred: a tensor of one element, or a number.
        true_fn: called with the operands where it is not 0.
        false_fn: called with them else.
        operands: of either.
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Call a function on its results as long as another says so; the host waits at each turn.

    Args:
        cond_fn: called with the values; gives a tensor of one element, or a bool.
        body_fn: called with the values; gives as many.
        carried_inputs: the first.

    Returns:
        The last.
    """
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        found = body_fn(*values)
        values = tuple(found) if isinstance(found, tuple | list) else (found,)
    return values


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    combine_mode: str = "pointwise",
) -> Any:
    """Running results of an associative function along an axis, in as many calls as it has bits.

    Args:
        combine_fn: called with what came before and what follows, in containers as ``xs``, whose
            tensors have the axis first: of elements, or of matrices in batches.
        xs: a tensor, or tuples, lists and dicts of some, of one shape.
        dim: the axis.
        reverse: from the end.
        combine_mode: ``"pointwise"`` or ``"generic"``, which are the same here.

    Returns:
        As ``xs``; the first along the axis are those of ``xs``.

    Raises:
        ArgumentError: if there is no tensor, their shapes differ, or there is no such mode.
        BoundsError: if they have no such axis.

    Example:
        >>> import clnet
        >>> clnet.associative_scan(lambda x, y: x * y, clnet.tensor([1, 2, 3, 4]), dim=0).tolist()
        [1, 2, 6, 24]
    """
    if combine_mode not in ("pointwise", "generic"):
        law = "combine_mode is 'pointwise' or 'generic'"
        raise ArgumentError("associative_scan", law, combine_mode=repr(combine_mode))
    leaves: list[Tensor] = []
    around = taken_apart(xs, leaves)
    if not leaves or len({x.shape for x in leaves}) > 1:
        law = "there are tensors, all of one shape"
        raise ArgumentError("associative_scan", law, shapes=[x.shape for x in leaves])
    axis = normalize_dim("associative_scan", dim, leaves[0].ndim)
    parts = [x.movedim(axis, 0) for x in leaves]
    parts = [x.flip(0) for x in parts] if reverse else parts
    reach, length = 1, parts[0].shape[0]
    while reach < length:  # each holds what the last `reach` elements give
        before = put_together(around, iter([x[:-reach] for x in parts]))
        behind = put_together(around, iter([x[reach:] for x in parts]))
        found: list[Tensor] = []
        taken_apart(combine_fn(before, behind), found)
        parts = [ops.cat([x[:reach], y]) for x, y in zip(parts, found, strict=True)]
        reach *= 2
    parts = [x.flip(0) for x in parts] if reverse else parts
    return put_together(around, iter([x.movedim(0, axis) for x in parts]))


class _Room(ModuleType):
    """A module that is called, too: PyTorch has a function under its name."""

    __call__ = staticmethod(associative_scan)


_higher_order_ops = ModuleType("torch._higher_order_ops", "Ops that take functions.")
_higher_order_ops.__dict__["associative_scan"] = _Room("torch._higher_order_ops.associative_scan")
_higher_order_ops.associative_scan.__dict__["associative_scan"] = associative_scan
_higher_order_ops.__dict__.update(cond=cond, while_loop=while_loop)
