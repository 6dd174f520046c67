"""Parameters of which each rank has a part, and how norms of their gradients are those of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ranks.differentiable import gathered, own_part
from ...ranks.placement import DTensor
from ...ranks.world import Group
from ...tensor import Tensor
from ...values.foreign import host_array
from ..parameter import Parameter

__all__ = ["DividedParameter", "OfAllParts", "part_for"]


class DividedParameter(Parameter):
    """This rank's part of a parameter: a tensor of its own, which optimisers take as any other.

    Attributes:
        device_mesh: the ranks that have parts.
        placements: how the whole lies on them.
        whole: its shape.
    """

    __slots__ = ()

    def as_dtensor(self) -> DTensor:
        """The whole, of which this rank has its part; off the tape, in the same memory."""
        own: Any = self
        return DTensor(self.detach(), own.device_mesh, own.placements, own.whole)

    def to_local(self) -> Tensor:
        """This rank's part, off the tape."""
        return self.detach()

    def full_tensor(self) -> Tensor:
        """The whole, off the tape, on every rank; all call it."""
        return self.as_dtensor().full_tensor().detach()


@dataclass(frozen=True)
class OfAllParts:
    """Takes a number of this rank's part, and gives those of all parts, ``(ranks,)``."""

    group: Group

    def __call__(self, number: Tensor) -> Tensor:
        return gathered(number.reshape(1), 0, self.group.size(), self.group)


def part_for(own: DividedParameter, value: Any) -> Any:
    """This rank's part of what a state has for a parameter: parts, the whole, or this part."""
    placed: Any = own
    if isinstance(value, DTensor):
        if tuple(value.shape) != placed.whole or value.placements == placed.placements:
            return value.to_local()
        value = value.full_tensor()
    elif not isinstance(value, Tensor):
        value = host_array(value)
    if tuple(value.shape) != placed.whole:
        return value
    rows = placed.device_mesh.get_group()
    if isinstance(value, Tensor):
        return own_part(value.detach(), placed.placements[0].dim, rows)
    each = -(-value.shape[0] // rows.size())
    return value[rows.rank() * each : (rows.rank() + 1) * each]
