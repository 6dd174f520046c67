"""Tensors that lie on several ranks: whole on each, a part on each, or as parts of a sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..autodiff.tape import no_grad
from ..errors import ArgumentError
from ..tensor import Tensor
from .differentiable import own_part
from .layout import Laid, Partial, Placement, Replicate, Shard, axis_of, placed_otherwise
from .mesh import DeviceMesh
from .operations import broadcast
from .placed_calls import call

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_tensor",
    "placed_otherwise",
]


class DTensor(Laid):
    """A tensor that lies on the ranks of a mesh of one axis, and what this rank has of it.

    Functions and operators take it, beside others of its mesh and numbers, and give others; all
    ranks call them. :mod:`.placed_calls` says how what they give lies. Gradients go through, and
    lie as the tensor does: whole on each rank where it is.

    Args:
        local: what this rank has.
        device_mesh: the ranks.
        placements: how it lies, one for the axis.
        shape: of the whole.
    """

    __taking_over__ = True
    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What a function gives of tensors that lie on ranks."""
        return call(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        """A tensor's method."""
        method = None if name.startswith("_") else getattr(Tensor, name, None)
        if not callable(method):
            raise AttributeError(f"'DTensor' object has no attribute '{name}'")
        return partial(_method, method, self)

    def __repr__(self) -> str:
        return f"DTensor(shape={self.shape}, placements={self.placements}, {self.device_mesh})"

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __float__(self) -> float:
        return float(self.full_tensor())

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self._local.dtype

    @property
    def device(self) -> Any:
        """Where this rank's part lies."""
        return self._local.device

    @property
    def requires_grad(self) -> bool:
        """Whether it has a gradient."""
        return self._local.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> DTensor:  # noqa: FBT001, FBT002 - PyTorch's
        """Say whether it shall have one."""
        self._local.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> DTensor | None:
        """Its gradient, which lies as it does: that of parts of a sum is whole on each rank."""
        found, (place,) = self._local.grad, self.placements
        lies = Replicate() if isinstance(place, Partial) else place
        return None if found is None else DTensor(found, self.device_mesh, (lies,), self.shape)

    @grad.setter
    def grad(self, value: DTensor | None) -> None:
        self._local.grad = None if value is None else value.placed(self.placements[0])

    def backward(self, gradient: DTensor | None = None) -> None:
        """Gradients of all that it was computed of; all ranks call it.

        Args:
            gradient: its own; None: 1, of one element.
        """
        (place,) = self.placements
        lies = Replicate() if isinstance(place, Partial) else place
        self._local.backward(None if gradient is None else gradient.placed(lies))

    @property
    def T(self) -> DTensor:  # noqa: N802 - PyTorch's
        """Axes in the opposite order."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> DTensor:  # noqa: N802 - PyTorch's
        """Its matrices transposed."""
        return self.transpose(-2, -1)

    def size(self, dim: int | None = None) -> Any:
        """The shape of the whole, or along an axis."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Axes of the whole."""
        return self.ndim

    def numel(self) -> int:
        """Elements of the whole."""
        return math.prod(self.shape)

    def item(self) -> Any:
        """The one element of the whole; all ranks call it."""
        return self.full_tensor().item()

    def tolist(self) -> Any:
        """The elements of the whole; all ranks call it."""
        return self.full_tensor().tolist()

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
            whole[axis_of(placement, local_tensor)] *= device_mesh.size()
        return cls(local_tensor, device_mesh, (placement,), whole if shape is None else shape)

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
        return DTensor(self.placed(target), self.device_mesh, (target,), self.shape)


def _method(method: Callable[..., Any], x: DTensor, *args: Any, **given: Any) -> Any:
    return call(method, (x, *args), given)


def _operator(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)
    return lambda self, *others: call(method, (self, *others), {})


def _reflected(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)
    return lambda self, other: call(method, (other, self), {})


for _name in "add sub mul truediv floordiv mod pow matmul and or xor".split():
    setattr(DTensor, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(DTensor, f"__r{_name}__", _reflected(f"__{_name}__"))
for _name in "iadd isub imul itruediv lt le gt ge eq ne neg abs invert getitem".split():
    setattr(DTensor, f"__{_name}__", _operator(f"__{_name}__"))


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
        axis_of(placement, tensor)
    group = device_mesh.get_group()
    with no_grad():
        whole = tensor.detach().contiguous().clone()
        broadcast(whole, group=group, group_src=0)
        if isinstance(placement, Shard):
            dim = axis_of(placement, whole)
            whole, placement = own_part(whole, dim, group).contiguous().clone(), Shard(dim)
    whole.requires_grad_(tensor.requires_grad)
    return DTensor(whole, device_mesh, (placement,), tensor.shape)
