"""How a tensor lies on several ranks: whole on each, a part on each, or as parts of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .differentiable import gathered, parted, summed
from .mesh import DeviceMesh
from .world import Group

__all__ = [
    "Laid",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "axis_of",
    "placed_otherwise",
]


class Placement:
    """How a tensor lies on the ranks along an axis of a mesh."""

    def is_replicate(self) -> bool:
        """Whether each has the whole."""
        return isinstance(self, Replicate)

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each has a part, along an axis if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_partial(self) -> bool:
        """Whether it is the sum of what each has."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has the whole."""


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part along an axis, as ``chunk`` cuts it: the last ones may be smaller."""

    dim: int


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is the sum of what the ranks have, or with ``"avg"`` their mean.

    Raises:
        ArgumentError: if they are joined otherwise.
    """

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in ("sum", "avg"):
            raise ArgumentError("Partial", 'reduce_op is "sum" or "avg"', reduce_op=self.reduce_op)


def placed_otherwise(
    x: Tensor, source: Placement, target: Placement, group: Group, *, size: int | None = None
) -> Tensor:
    """What a rank has of a value, once it lies otherwise; differentiable.

    Args:
        x: what it has now.
        source: how it lies.
        target: how it shall lie.
        group: the ranks.
        size: of the whole along the axis that it is divided along; None: each rank has as much.

    Returns:
        What the rank has then.

    Raises:
        ArgumentError: if a whole is to become parts of a sum.
        ShapeError: if there is no such axis.
    """
    for placement in (source, target):
        if isinstance(placement, Shard):
            axis_of(placement, x)
    if isinstance(source, Shard) and isinstance(target, Shard):
        same = axis_of(source, x) == axis_of(target, x)
    else:
        same = source == target
    if same:
        return x
    if isinstance(target, Partial):
        raise ArgumentError("redistribute", "it becomes Replicate or Shard", placement=target)
    if isinstance(source, Partial):
        x = summed(x, group)
        if source.reduce_op == "avg":
            x = x / group.size()
    elif isinstance(source, Shard):
        dim = axis_of(source, x)
        x = gathered(x, dim, x.shape[dim] * group.size() if size is None else size, group)
    return parted(x, axis_of(target, x), group) if isinstance(target, Shard) else x


def axis_of(placement: Shard, x: Tensor) -> int:
    """The axis that a tensor is divided along, counted from the first.

    Raises:
        ShapeError: if it has no such axis.
    """
    if not -x.ndim <= placement.dim < x.ndim:
        raise ShapeError("Shard", "the tensor has the axis", dim=placement.dim, shape=x.shape)
    return placement.dim % x.ndim


class Laid:
    """What lies on the ranks of a mesh of one axis: what :mod:`.placed_calls` computes with.

    Args:
        local: what this rank has.
        device_mesh: the ranks.
        placements: how it lies, one for the axis.
        shape: of the whole.
    """

    def __init__(
        self,
        local: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement],
        shape: Sequence[int],
    ) -> None:
        self._local = local
        self.device_mesh = device_mesh
        self.placements = tuple(placements)
        self.shape = tuple(shape)

    @property
    def ndim(self) -> int:
        """Axes of the whole."""
        return len(self.shape)

    def to_local(self) -> Tensor:
        """What this rank has."""
        return self._local

    def placed(self, target: Placement) -> Tensor:
        """What this rank has once it lies otherwise; all call it."""
        (source,) = self.placements
        size = self.shape[source.dim] if isinstance(source, Shard) else None
        group = self.device_mesh.get_group()
        return placed_otherwise(self._local, source, target, group, size=size)
