"""Tensors that lie on several ranks: whole on each, a part on each, or as parts of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..autodiff.tape import no_grad
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .differentiable import gathered, own_part, parted, summed
from .mesh import DeviceMesh
from .operations import broadcast
from .world import Group

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_tensor",
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
            _axis(placement, x)
    if isinstance(source, Shard) and isinstance(target, Shard):
        same = _axis(source, x) == _axis(target, x)
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
        dim = _axis(source, x)
        x = gathered(x, dim, x.shape[dim] * group.size() if size is None else size, group)
    return parted(x, _axis(target, x), group) if isinstance(target, Shard) else x


def _axis(placement: Shard, x: Tensor) -> int:
    """The axis that a tensor is divided along, counted from the first.

    Raises:
        ShapeError: if it has no such axis.
    """
    if not -x.ndim <= placement.dim < x.ndim:
        raise ShapeError("Shard", "the tensor has the axis", dim=placement.dim, shape=x.shape)
    return placement.dim % x.ndim


class DTensor:
    """A tensor that lies on the ranks of a mesh of one axis, and what this rank has of it.

    It is not computed with: :meth:`to_local` and :meth:`full_tensor` give tensors, with gradients,
    and :func:`.parallelize_module` makes layers that compute with parts.

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

    def __repr__(self) -> str:
        return f"DTensor(shape={self.shape}, placements={self.placements}, {self.device_mesh})"

    @property
    def ndim(self) -> int:
        """Axes of the whole."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self._local.dtype

    @property
    def device(self) -> Any:
        """Where this rank's part lies."""
        return self._local.device

    @classmethod
    def from_local(
        cls,
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] = (Replicate(),),
        *,
        shape: Sequence[int] | None = None,
    ) -> DTensor:
        """The tensor of which each rank gives what it has.

        Args:
            local_tensor: what this rank has.
            device_mesh: the ranks.
            placements: how it lies.
            shape: of the whole; None: all ranks have as much.
        """
        placement = _one("DTensor.from_local", device_mesh, placements)
        whole = list(local_tensor.shape)
        if shape is None and isinstance(placement, Shard):
            whole[_axis(placement, local_tensor)] *= device_mesh.size()
        return cls(local_tensor, device_mesh, (placement,), whole if shape is None else shape)

    def to_local(self) -> Tensor:
        """What this rank has."""
        return self._local

    def full_tensor(self) -> Tensor:
        """The whole, on every rank; all call it."""
        return self.redistribute(placements=(Replicate(),)).to_local()

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] = (Replicate(),),
    ) -> DTensor:
        """The tensor as it lies otherwise; all ranks call it.

        Args:
            device_mesh: None, or one of the same ranks' group.
            placements: how it shall lie.

        Raises:
            ArgumentError: if it cannot.
        """
        own = self.device_mesh.get_group()
        if device_mesh is not None and device_mesh.get_group() is not own:
            raise ArgumentError("DTensor.redistribute", "it stays on its mesh", mesh=device_mesh)
        target = _one("DTensor.redistribute", self.device_mesh, placements)
        (source,) = self.placements
        size = self.shape[source.dim] if isinstance(source, Shard) else None
        local = placed_otherwise(self._local, source, target, own, size=size)
        return DTensor(local, self.device_mesh, (target,), self.shape)


def _one(name: str, mesh: DeviceMesh, placements: Sequence[Placement]) -> Placement:
    if mesh.ndim != 1 or len(placements) != 1 or not isinstance(placements[0], Placement):
        raise ArgumentError(
            name,
            "a mesh of one axis has one placement, Replicate(), Shard(dim) or Partial()",
            mesh=mesh,
            placements=placements,
            remedy="Take one axis of the mesh: mesh['name']",
        )
    return placements[0]


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh, placements: Sequence[Placement] = (Replicate(),)
) -> DTensor:
    """The first rank's tensor, laid out over the ranks of a mesh; all call it.

    Args:
        tensor: of one shape and dtype on all ranks.
        device_mesh: of one axis.
        placements: ``(Replicate(),)`` or ``(Shard(dim),)``.

    Raises:
        ArgumentError: if it cannot lie so.
    """
    placement = _one("distribute_tensor", device_mesh, placements)
    if isinstance(placement, Partial):
        raise ArgumentError("distribute_tensor", "it is Replicate or Shard", placement=placement)
    if isinstance(placement, Shard):
        _axis(placement, tensor)
    group = device_mesh.get_group()
    with no_grad():
        whole = tensor.detach().contiguous().clone()
        broadcast(whole, group=group, group_src=0)
        if isinstance(placement, Shard):
            dim = _axis(placement, whole)
            whole, placement = own_part(whole, dim, group).contiguous().clone(), Shard(dim)
    whole.requires_grad_(tensor.requires_grad)
    return DTensor(whole, device_mesh, (placement,), tensor.shape)
