"""Tensors brought to common shapes, put beside each other, and cut along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..values.arguments import require_tensors
from ..values.shapes import broadcast_shapes
from .complex_parts import conj
from .create import meshgrid
from .join import cat, split, stack, tensor_split
from .machinery.another import as_another
from .machinery.function import Face, apply, op
from .machinery.promotion import result_type
from .placed import Placed
from .rearrange import diag
from .shape import contiguous, expand, permute, reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


def _each(name: str, tensors: tuple[Any, ...], function: Any) -> Any:
    """A function of one tensor, of several, or of a sequence of them."""
    alone = len(tensors) == 1
    several = alone and isinstance(tensors[0], list | tuple)
    given = tensors[0] if several else tensors
    for x in given:
        require_tensors(name, tensors=x)
    return function(given[0]) if alone and not several else tuple(map(function, given))


@op(Face.FUNCTION)
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Tensors with an axis at least; of several a tuple."""
    return _each("atleast_1d", tensors, lambda x: x if x.ndim else reshape(x, (1,)))


@op(Face.FUNCTION)
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Tensors with two axes at least, new ones in front; of several a tuple."""
    return _each("atleast_2d", tensors, lambda x: reshape(x, (*(1,) * (2 - x.ndim), *x.shape)))


@op(Face.FUNCTION)
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Tensors with three axes at least: a vector becomes ``(1, n, 1)``; of several a tuple."""

    def raised(x: Tensor) -> Tensor:
        if x.ndim < 2:
            return reshape(x, (1, x.numel(), 1))
        return unsqueeze(x, -1) if x.ndim == 2 else x

    return _each("atleast_3d", tensors, raised)


@op(Face.FUNCTION)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All in their common shape, without copies.

    Raises:
        ShapeError: if they have none.
    """
    shape = broadcast_shapes("broadcast_tensors", *(x.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


@op(Face.METHOD, seen=as_another)
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """``x`` expanded to the shape of ``other``."""
    return expand(x, other.shape)


@op(Face.METHOD)
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """``x`` viewed in the shape of ``other``."""
    return x.view(other.shape)


@op(Face.METHOD, seen=as_another)
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """``x`` in the shape of ``other``."""
    return reshape(x, other.shape)


@op(seen=as_another)
def ravel(x: Tensor) -> Tensor:
    """All elements in one row, side by side, without a copy where they lie so."""
    return contiguous(reshape(x, (x.numel(),)))


@op()
def t(x: Tensor) -> Tensor:
    """A matrix with its axes exchanged; a vector or a number as it is.

    Raises:
        ShapeError: if it has more axes.
    """
    if x.ndim > 2:
        raise ShapeError("t", "x has two axes at most", x=x.shape)
    return permute(x, tuple(range(x.ndim))[::-1])


@op()
def adjoint(x: Tensor) -> Tensor:
    """The last two axes exchanged; of complex numbers the conjugates."""
    if x.ndim < 2:
        raise ShapeError("adjoint", "x has two axes or more", x=x.shape)
    return conj(x.transpose(-2, -1))


@op(Face.FUNCTION)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Columns beside each other; a vector is one column."""
    return cat([reshape(x, (x.numel(), 1)) if x.ndim < 2 else x for x in tensors], 1)


@op(Face.FUNCTION)
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with matrices along its diagonal, 0 elsewhere.

    Args:
        *tensors: matrices; vectors are rows.

    Returns:
        ``(sum of the rows, sum of the columns)``, in the promoted dtype.

    Raises:
        ShapeError: if one has more axes.
    """
    if any(x.ndim > 2 for x in tensors):
        raise ShapeError("block_diag", "two axes at most", shapes=[x.shape for x in tensors])
    dtype = result_type(*tensors)
    blocks = [to_dtype(atleast_2d(x), dtype) for x in tensors]
    down, right = (list(accumulate((x.shape[d] for x in blocks), initial=0)) for d in (0, 1))
    starts = tuple(zip(down[:-1], right[:-1], strict=True))
    return apply(Placed(starts, (down[-1], right[-1])), *blocks)


@op(Face.FUNCTION)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of elements of vectors, one a row; of one vector itself.

    Raises:
        ShapeError: if one is no vector.
    """
    if any(x.ndim != 1 for x in tensors):
        raise ShapeError("cartesian_prod", "each is (n,)", shapes=[x.shape for x in tensors])
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(x, (x.numel(),)) for x in meshgrid(*tensors)], 1)


@op()
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the elements on a diagonal, 0 elsewhere."""
    return diag(reshape(x, (x.numel(),)), offset)


@op()
def hsplit(x: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Pieces along the second axis, of a vector along its only one; as :func:`tensor_split`."""
    return _cut("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1, 1)


@op()
def vsplit(x: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Pieces along the first axis of two or more."""
    return _cut("vsplit", x, indices_or_sections, 0, 2)


@op()
def dsplit(x: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Pieces along the third axis."""
    return _cut("dsplit", x, indices_or_sections, 2, 3)


def _cut(
    name: str, x: Tensor, sections: int | Sequence[int], axis: int, least: int
) -> tuple[Tensor, ...]:
    if x.ndim < least:
        raise ShapeError(name, f"x has {least} axes or more", x=x.shape)
    if isinstance(sections, int) and (sections < 1 or x.shape[axis] % sections):
        law = "the axis divides into the sections"
        raise ArgumentError(name, law, size=x.shape[axis], sections=sections)
    return tensor_split(x, sections, axis)


@op()
def split_with_sizes(x: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of given sizes, as :func:`split`."""
    return split(x, list(split_sizes), dim)
