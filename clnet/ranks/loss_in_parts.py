"""Cross entropy of scores of which each rank has some classes: PyTorch's ``loss_parallel``.

A rank exchanges a number for each example instead of the scores of all classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import ops
from ..autodiff.tape import no_grad
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .differentiable import summed
from .layout import Laid, Replicate, Shard
from .operations import ReduceOp, all_reduce

__all__ = ["cross_entropy", "in_parts", "loss_parallel"]

_ENTERED: list[bool] = []


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which ``F.cross_entropy`` takes scores that are divided along the classes.

    The targets, and the weights of classes, are the same on all ranks: tensors or ``DTensor``s. The
    loss is whole on each rank. ``backward`` is called in the block, as in PyTorch.
    """
    _ENTERED.append(True)
    try:
        yield
    finally:
        _ENTERED.pop()


def in_parts() -> bool:
    """Whether this is inside of :func:`loss_parallel`."""
    return bool(_ENTERED)


def cross_entropy(x: Laid, args: Sequence[Any], given: dict[str, Any]) -> Tensor:
    """The loss, whole on each rank.

    Args:
        x: the scores.
        args: what follows them by place.
        given: what follows by name.

    Raises:
        ArgumentError: if the scores are not divided along the classes, or targets are not classes.
        ShapeError: if targets are not as many as the examples.
    """
    names = "target weight size_average ignore_index reduce reduction label_smoothing".split()
    said = {**dict(zip(names, args, strict=False)), **given}
    axis = 0 if x.ndim == 1 else 1
    place = x.placements[0]
    if not isinstance(place, Shard) or place.dim % x.ndim != axis:
        raise ArgumentError(
            "loss_parallel",
            "scores are divided along the classes",
            placement=place,
            remedy=f"redistribute(placements=[Shard({axis})]), or call it outside of the block",
        )
    if said.get("label_smoothing"):
        law = "there is no label_smoothing"
        raise ArgumentError("loss_parallel", law, label_smoothing=said["label_smoothing"])
    reduction = said.get("reduction", "mean")
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError("loss_parallel", "reduction is mean, sum or none", reduction=reduction)
    target, weight = _whole(said.get("target")), _whole(said.get("weight"))
    if not isinstance(target, Tensor) or target.dtype.is_floating_point:
        raise ArgumentError("loss_parallel", "targets are numbers of classes", target=target)
    if tuple(target.shape) != (*x.shape[:axis], *x.shape[axis + 1 :]):
        law = "each example has a target"
        raise ShapeError("loss_parallel", law, scores=x.shape, target=target.shape)
    ignored = target == said.get("ignore_index", -100)
    target = ops.where(ignored, ops.zeros_like(target), target)
    lost = ops.where(ignored, ops.zeros_like(target).to(x.to_local().dtype), _lost(x, target, axis))
    counted = (~ignored).to(lost.dtype)
    if weight is not None:
        counted = counted * weight.to(lost.dtype)[target]
        lost = lost * counted
    if reduction == "none":
        return lost
    return lost.sum() if reduction == "sum" else lost.sum() / counted.sum()


def _whole(value: Any) -> Any:
    return value.placed(Replicate()) if isinstance(value, Laid) else value


def _lost(x: Laid, target: Tensor, axis: int) -> Tensor:
    """``log(sum(exp(x))) - x[target]`` of each example; the largest score is taken off before."""
    group, local = x.device_mesh.get_group(), x.to_local()
    each = -(-x.shape[axis] // group.size())
    first, held = min(group.rank() * each, x.shape[axis]), local.shape[axis]
    with no_grad():
        shape = target.shape
        most = local.new_full(shape, float("-inf")) if not held else local.detach().amax(axis)
        most = most.contiguous().clone()
        all_reduce(most, ReduceOp.MAX, group=group)
    moved = local - most.unsqueeze(axis)
    total = summed(moved.exp().sum(axis), group).log()
    own = (target >= first) & (target < first + held)
    if held:
        places = ops.where(own, target - first, ops.zeros_like(target))
        picked = moved.gather(axis, places.unsqueeze(axis)).squeeze(axis)
        picked = ops.where(own, picked, ops.zeros_like(picked))
    else:
        picked = moved.sum(axis)
    return total - summed(picked, group)
