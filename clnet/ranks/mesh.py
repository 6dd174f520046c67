"""Processes laid out in a grid, with a group along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DistributedError
from .membership import GroupMember, get_rank, get_world_size, new_group
from .world import Group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks in a grid; all ranks of the world make it, and one that is in none of it is told so.

    Args:
        device_type: taken: a tensor lies where it lies.
        mesh: ranks, nested for several axes.
        mesh_dim_names: what the axes are called.

    Attributes:
        mesh: the ranks.
        mesh_dim_names: the names, or None.

    Raises:
        DistributedError: if the processes are not joined, or a rank is not one of the world.
        ArgumentError: if the names are not as many as the axes.
    """

    def __init__(
        self, device_type: Any, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        self.device_type = device_type
        self.mesh = np.asarray(mesh, dtype=np.int64)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.ndim:
            raise ArgumentError(
                "DeviceMesh", "each axis has a name", names=mesh_dim_names, axes=self.mesh.ndim
            )
        if self.mesh_dim_names and len(set(self.mesh_dim_names)) < self.mesh.ndim:
            raise ArgumentError("DeviceMesh", "names of axes differ", names=mesh_dim_names)
        self._groups: list[Group | None] = []
        for axis in range(self.mesh.ndim):
            lines: Any = np.moveaxis(self.mesh, axis, -1).reshape(-1, self.mesh.shape[axis])
            made = [new_group(line.tolist()) for line in lines]
            own = [g for g in made if g is not GroupMember.NON_GROUP_MEMBER]
            self._groups.append(own[0] if own else None)

    @classmethod
    def from_group(cls, group: Group, device_type: Any = None) -> DeviceMesh:
        """A group's ranks as a mesh of one axis.

        Args:
            group: this rank is in it.
            device_type: taken.
        """
        made = cls.__new__(cls)
        made.device_type, made.mesh_dim_names = device_type, None
        made.mesh = np.asarray(group.ranks)
        made._groups = [group]
        return made

    def __repr__(self) -> str:
        return f"DeviceMesh({self.mesh.tolist()}, mesh_dim_names={self.mesh_dim_names})"

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks along each axis."""
        return self.mesh.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """Ranks along an axis, or of all."""
        return self.mesh.size if mesh_dim is None else self.mesh.shape[mesh_dim]

    def _axis(self, name: int | str | None) -> int:
        if name is None and self.ndim == 1:
            return 0
        if isinstance(name, int) and -self.ndim <= name < self.ndim:
            return name % self.ndim
        if self.mesh_dim_names is not None and name in self.mesh_dim_names:
            return self.mesh_dim_names.index(str(name))
        raise ArgumentError("DeviceMesh", "it has such an axis", axis=name, mesh=self)

    def get_group(self, mesh_dim: int | str | None = None) -> Group:
        """The ranks of the line along an axis that this one is in.

        Raises:
            ArgumentError: if there is no such axis.
            DistributedError: if this rank is not in the mesh.
        """
        group = self._groups[self._axis(mesh_dim)]
        if group is None:
            raise DistributedError("DeviceMesh", "this rank is in the mesh", rank=get_rank())
        return group

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's place along an axis."""
        return self.get_group(mesh_dim).rank()

    def get_rank(self) -> int:
        """This rank's number in the world."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This rank's places along all axes; None: it is not in the mesh."""
        found = np.argwhere(self.mesh == get_rank())
        return tuple(found[0].tolist()) if len(found) else None

    def __getitem__(self, name: str) -> DeviceMesh:
        """The line along an axis that this rank is in, as a mesh of one axis."""
        axis = self._axis(name)
        line = DeviceMesh.__new__(DeviceMesh)
        line.device_type, line.mesh_dim_names = self.device_type, (name,)
        line.mesh = np.asarray(self.get_group(axis).ranks)
        line._groups = [self._groups[axis]]
        return line


def init_device_mesh(
    device_type: Any, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """All ranks of the world in a grid.

    Args:
        device_type: taken.
        mesh_shape: sizes of the axes, whose product is the number of ranks.
        mesh_dim_names: what they are called.

    Raises:
        DistributedError: if the processes are not joined, or are others.
    """
    size = get_world_size()
    sizes = (mesh_shape,) if isinstance(mesh_shape, int) else tuple(mesh_shape)
    if int(np.prod(sizes)) != size or min(sizes, default=1) < 1:
        raise DistributedError(
            "init_device_mesh",
            "the axes' sizes multiply to the number of ranks",
            mesh_shape=sizes,
            ranks=size,
        )
    grid = np.arange(size).reshape(sizes)
    return DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names)
