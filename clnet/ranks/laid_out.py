"""Tensors that are made as they lie on the ranks of a mesh.

By PyTorch's names in ``distributed.tensor``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import creation, random
from ..autodiff.tape import no_grad
from ..errors import ArgumentError
from ..ops.shape import sizes_of
from ..tensor import Tensor
from ..tensor import full as filled
from .mesh import DeviceMesh
from .placement import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _checked(name: str, mesh: Any, placements: Any) -> tuple[DeviceMesh, Placement]:
    """A mesh of one axis, and how a tensor lies on it.

    Raises:
        ArgumentError: if it is none, or a tensor is to be made of parts of a sum.
    """
    places = [Replicate()] if placements is None else list(placements)
    fits = isinstance(mesh, DeviceMesh) and mesh.ndim == len(places) == 1
    if not fits or isinstance(places[0], Partial) or not isinstance(places[0], Placement):
        raise ArgumentError(
            name,
            "device_mesh has one axis, and placements are (Replicate(),) or (Shard(dim),)",
            device_mesh=mesh,
            placements=placements,
        )
    return mesh, places[0]


def _made(
    name: str,
    size: Sequence[Any],
    make: Callable[[tuple[int, ...]], Tensor],
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
    *,
    requires_grad: bool,
) -> DTensor:
    """A tensor of which each rank makes what it has."""
    mesh, place = _checked(name, device_mesh, placements)
    shape = sizes_of(name, tuple(size))
    own = list(shape)
    if isinstance(place, Shard):
        if not -len(shape) <= place.dim < len(shape):
            raise ArgumentError(name, "the tensor has the axis", dim=place.dim, shape=shape)
        place = Shard(place.dim % len(shape))
        whole = own[place.dim]
        step = -(-whole // mesh.size())  # as chunk cuts it
        begin = min(step * mesh.get_local_rank(), whole)
        own[place.dim] = min(step, whole - begin)
    local = make(tuple(own))
    local.requires_grad_(requires_grad)
    return DTensor(local, mesh, (place,), shape)


def zeros(
    *size: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Zeros, of which each rank makes its part.

    Args:
        *size: of the whole: numbers, or a list of them.
        dtype: of the elements; None: the default dtype of floats.
        requires_grad: of this rank's part.
        device_mesh: the ranks; of one axis.
        placements: how it lies, ``(Replicate(),)`` or ``(Shard(dim),)``; None: whole on each.

    Raises:
        ArgumentError: if it cannot lie so.
    """
    return _made(
        "zeros",
        size,
        lambda own: creation.zeros(own, dtype=dtype),
        device_mesh,
        placements,
        requires_grad=requires_grad,
    )


def ones(
    *size: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Ones, of which each rank makes its part; arguments as :func:`zeros`'s."""
    return _made(
        "ones",
        size,
        lambda own: creation.ones(own, dtype=dtype),
        device_mesh,
        placements,
        requires_grad=requires_grad,
    )


def empty(
    *size: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Elements of any value, of which each rank makes its part; arguments as :func:`zeros`'s."""
    return _made(
        "empty",
        size,
        lambda own: creation.empty(own, dtype=dtype),
        device_mesh,
        placements,
        requires_grad=requires_grad,
    )


def full(
    size: int | Sequence[int],
    fill_value: Any,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A tensor of one value, of which each rank makes its part.

    Args:
        size: of the whole.
        fill_value: the value.
        dtype: of the elements; None: that of the value.
        requires_grad: as for :func:`zeros`.
        device_mesh: as there.
        placements: as there.
    """
    return _made(
        "full",
        (size,),
        lambda own: filled(own, fill_value, dtype=dtype),
        device_mesh,
        placements,
        requires_grad=requires_grad,
    )


def _drawn(
    name: str,
    draw: Callable[..., Tensor],
    size: Sequence[Any],
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
    *,
    dtype: Any,
    requires_grad: bool,
) -> DTensor:
    """What the mesh's first rank draws, so that it is what one process would have drawn."""
    mesh, place = _checked(name, device_mesh, placements)
    with no_grad():
        whole = draw(sizes_of(name, tuple(size)), dtype=dtype)
    made = distribute_tensor(whole, mesh, (place,))
    made.to_local().requires_grad_(requires_grad)
    return made


def rand(
    *size: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Uniform numbers in ``[0, 1)``, the same however they lie: those of the mesh's first rank.

    Arguments as :func:`zeros`'s; all ranks draw, and all call it.
    """
    return _drawn(
        "rand",
        random.rand,
        size,
        device_mesh,
        placements,
        dtype=dtype,
        requires_grad=requires_grad,
    )


def randn(
    *size: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Normally distributed numbers of mean 0 and variance 1; else as :func:`rand`.

    Arguments as :func:`zeros`'s.
    """
    return _drawn(
        "randn",
        random.randn,
        size,
        device_mesh,
        placements,
        dtype=dtype,
        requires_grad=requires_grad,
    )
