"""Parameters of which each rank has a part, and how norms of their gradients are those of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ranks.differentiable import gathered
from ...ranks.placement import DTensor
from ...ranks.world import Group
from ...tensor import Tensor
from ..parameter import Parameter

__all__ = ["DividedParameter", "OfAllParts"]


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
