"""What a walk back leaves at the leaves: their gradients, added to those that were there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..array import Array
from ..ops.machinery.update import accumulate
from ..ops.multi_tensor import accumulate_many
from ..ops.shape import copy_like
from ..values import mode


def add_to_leaves(
    found: dict[int, tuple[Any, Any]],
    wanted: set[int] | None,
    seen: set[int],
    *,
    create_graph: bool,
) -> None:
    """Add what a walk found to the gradients of leaves, all those of a device as a whole.

    Threads that share leaves add to their gradients one after another: none is lost.

    Args:
        found: the leaves and their gradients, by the leaf's ``id``.
        wanted: the ``id`` of the leaves that are meant; None: all.
        seen: the ``id`` of storages that hold a gradient of this walk; others are put there.
        create_graph: whether the sums are recorded.
    """
    chosen = [pair for key, pair in found.items() if wanted is None or key in wanted]
    for device in dict.fromkeys([leaf.device for leaf, _ in chosen]):
        here = [pair for pair in chosen if pair[0].device is device]
        with device.lock:
            for leaf, grad in here if create_graph else _not_summed(here):
                _add_to_leaf(leaf, grad, seen, create_graph=create_graph)
    for leaf, grad in chosen:  # without the lock: a hook may wait for a thread that takes it
        if leaf.hooks is not None:
            leaf.hooks.accumulated(leaf, grad)


def make_dense(leaves: Iterable[Any]) -> None:
    """Let sparse gradients of leaves be dense, for what goes over all their elements."""
    for leaf in leaves:
        if leaf.grad is not None and leaf.grad.is_sparse:
            leaf.grad = leaf.grad.to_dense()


def _not_summed(pairs: Sequence[tuple[Any, Any]]) -> Sequence[tuple[Any, Any]]:
    """Add to the gradients that are there, many at once; gives the leaves that are left."""
    if mode.current().tracer is not None:  # its passes join them
        return pairs
    sums = [(leaf.grad, grad) for leaf, grad in pairs if leaf.grad is not None]
    if any(grad.is_sparse for _, grad in pairs) or any(total.is_sparse for total, _ in sums):
        return pairs
    storages = [x.array.storage for pair in sums for x in pair]
    apart = len({*storages}) == len(storages)
    if len(sums) < 2 or not apart or any(total.dtype.is_complex for total, _ in sums):
        return pairs
    left = [pair for pair in pairs if pair[0].grad is None]
    if not {*storages}.isdisjoint(grad.array.storage for _, grad in left):
        return pairs
    accumulate_many(sums)
    return left


def _add_to_leaf(leaf: Any, grad: Any, seen: set[int], *, create_graph: bool) -> None:
    """Add a gradient to a leaf's; one that shares memory with another's is copied first.

    So is one that lies otherwise than its leaf, where updates of both would go across.
    """
    before = leaf.grad
    if before is None and grad.is_sparse:
        leaf.grad = grad if create_graph else grad.detach()
        return
    if before is not None:
        if create_graph or before.is_sparse:
            leaf.grad = before + grad
        elif grad.is_sparse:
            accumulate(before, grad.to_dense())
        else:
            accumulate(before, grad)
        return
    shared = id(grad.array.storage) in seen or not _lies_as(grad.array, leaf.array)
    seen.add(id(grad.array.storage))
    if shared:
        grad = copy_like(grad, leaf)
    elif grad.node is None and not grad.requires_grad:  # the walk's own
        leaf.grad = grad
        return
    leaf.grad = grad if create_graph else grad.detach()


def _lies_as(grad: Array, leaf: Array) -> bool:
    """Whether a gradient is dense in its leaf's order; in any, if the leaf is not dense."""
    if leaf.contiguous or grad.contiguous:
        return leaf.contiguous and grad.contiguous
    return grad.strides == leaf.strides and leaf.dense_order is not None
