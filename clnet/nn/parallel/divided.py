"""Parameters of which each rank has a part, and how norms of their gradients are those of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import ref

from ...errors import DistributedError
from ...face.subclass import disabled
from ...ranks.differentiable import gathered, own_part
from ...ranks.placement import DTensor, Shard
from ...ranks.world import Group
from ...tensor import Tensor
from ...values import mode
from ...values.foreign import host_array
from ..parameter import Parameter

__all__ = ["DividedParameter", "GradientOfPart", "OfAllParts", "part_for"]

_GRAD: Any = Tensor.grad  # the property


class GradientOfPart(Tensor):
    """What ``grad`` of a :class:`DividedParameter` is: of this rank's part, as any tensor."""

    __slots__ = ()
    __torch_function__ = staticmethod(disabled)

    def to_local(self) -> Tensor:
        """This rank's part: itself."""
        return self

    def full_tensor(self) -> Tensor:
        """The gradient of the whole, off the tape, on every rank; all call it.

        Raises:
            DistributedError: if the parameter is there no more.
        """
        owner = vars(self)["part_of"]()
        if owner is None:
            raise DistributedError("full_tensor", "the parameter is still there", shape=self.shape)
        return owner.whole_of(self.detach())


class DividedParameter(Parameter):
    """This rank's part of a parameter: a tensor of its own, which optimisers take as any other.

    Its gradient is of this part, and has ``full_tensor()``, too.

    Attributes:
        device_mesh: the ranks that have parts.
        placements: how the whole lies on them.
        whole: its shape.
        beyond: the same three of a part of which this is one, of ``parallelize_module``; or None.
    """

    __slots__ = ()
    beyond: tuple[Any, Any, Any] | None = None

    @property
    def grad(self) -> Tensor | None:
        """As of any tensor, with ``to_local()`` and ``full_tensor()``."""
        found = super().grad
        if type(found) is Tensor and mode.current().tracer is None:
            object.__setattr__(found, "__class__", GradientOfPart)
            vars(found)["part_of"] = ref(self)
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        _GRAD.fset(self, value)

    @grad.deleter
    def grad(self) -> None:
        _GRAD.fset(self, None)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """Of the whole, also of one that lies in parts of parts."""
        own: Any = self
        return tuple(own.whole if self.beyond is None else self.beyond[2])

    def as_dtensor(self) -> DTensor:
        """The whole, of which this rank has its part; off the tape, in the same memory."""
        own: Any = self
        return DTensor(self.detach(), own.device_mesh, own.placements, own.whole)

    def placed(self, value: Any) -> Any:
        """What lies as the parameter does, as such: parts of parts are whole.

        Args:
            value: a tensor of the part's shape; any other stays as it is.
        """
        if not isinstance(value, Tensor) or not value.ndim or value.shape != self.shape:
            return value
        if self.beyond is not None:
            return self.whole_of(value)
        own: Any = self
        return DTensor(value, own.device_mesh, own.placements, own.whole)

    def own_of(self, value: Any) -> Any:
        """This rank's part of parts or of a whole tensor; any other stays as it is."""
        fits = isinstance(value, DTensor) or getattr(value, "ndim", 0)
        return part_for(self, value) if fits else value

    def to_local(self) -> Tensor:
        """This rank's part, off the tape."""
        return self.detach()

    def full_tensor(self) -> Tensor:
        """The whole, off the tape, on every rank; all call it."""
        return self.whole_of(self.detach())

    def whole_of(self, value: Tensor) -> Tensor:
        """The whole of what lies as the parameter does; all call it.

        Args:
            value: this rank's part.
        """
        own: Any = self
        found = DTensor(value, own.device_mesh, own.placements, own.whole).full_tensor().detach()
        if self.beyond is None:
            return found
        mesh, placements, whole = self.beyond
        return DTensor(found, mesh, placements, whole).full_tensor().detach()


@dataclass(frozen=True)
class OfAllParts:
    """Takes a number of this rank's part, and gives those of all parts, ``(parts,)``.

    Attributes:
        group: the ranks that have parts.
        beyond: of parts of which each lies in such parts; or None.
    """

    group: Group
    beyond: OfAllParts | None = None

    def __call__(self, number: Tensor) -> Tensor:
        every = number.reshape(1) if self.beyond is None else self.beyond(number)
        return gathered(every, 0, every.shape[0] * self.group.size(), self.group)


def part_for(own: DividedParameter, value: Any) -> Any:
    """This rank's part of what a state has for a parameter: parts, the whole, or this part."""
    placed: Any = own
    if isinstance(value, DTensor):
        if own.beyond is None and value.placements == placed.placements:
            return value.to_local()
        value = value.full_tensor()
    elif not isinstance(value, Tensor):
        value = host_array(value)
    if own.beyond is not None:
        mesh, (placement,), whole = own.beyond
        value = _cut(value, placement, whole, mesh.get_group())
    return _cut(value, placed.placements[0], placed.whole, placed.device_mesh.get_group())


def _cut(value: Any, placement: Any, whole: tuple[int, ...], group: Group) -> Any:
    """A rank's part of a tensor or an array of the whole's shape; any other as it is."""
    if tuple(value.shape) != tuple(whole) or not isinstance(placement, Shard):
        return value
    dim = placement.dim % len(whole)
    if isinstance(value, Tensor):
        return own_part(value.detach(), dim, group)
    each = -(-whole[dim] // group.size())
    return value[(slice(None),) * dim + (slice(group.rank() * each, (group.rank() + 1) * each),)]
