"""How sparse tensors are made: of indices and values, of pointers, of dense tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..creation import as_tensor
from ..errors import ArgumentError, ShapeError
from ..ops.create import positions
from ..tensor import Tensor, tensor
from ..values.arguments import checked
from ..values.dtypes import DType, int64
from .layout import COO, CSC, CSR, OPERATORS, SparseTensor, places_of

__all__ = [
    "dense_to_coo",
    "dense_to_csc",
    "dense_to_csr",
    "dense_to_sparse",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_mask",
]


@checked
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A tensor of values at coordinates, 0 elsewhere; values of equal coordinates add up.

    Args:
        indices: ``(sparse axes, n)``; or a shape alone (``size``, too), for a tensor of zeros.
        values: ``(n, *dense sizes)``; gradients flow to them.
        size: the shape; None: the least that holds all indices, for which the host waits.
        dtype: of the values; None: their own.
        device: as :func:`clnet.device` takes it; None: that of the values, or the current one.
        requires_grad: whether the new tensor is a leaf that gradients flow to.
        check_invariants: whether indices are compared with the shape now; else what lies outside
            is reported by the first op, at the next synchronisation.
        is_coalesced: whether the indices ascend and none comes twice.

    Raises:
        ShapeError: if indices, values and size do not fit.
        ArgumentError: if an index is outside (with ``check_invariants``).

    Example:
        >>> import clnet
        >>> x = clnet.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> clnet.sparse.mm(x, clnet.ones(3, 2)).tolist()
        [[3.0, 3.0], [4.0, 4.0]]
    """
    if indices is None and values is None:
        indices, size = size, None
    if values is None and size is None and not isinstance(indices, Tensor):  # of a shape
        if indices is None:
            law = "it takes indices and values, or a size"
            raise ArgumentError("sparse_coo_tensor", law, size=size)
        sizes = tuple(indices)
        places = tensor([], dtype=int64, device=device).reshape(0, 0)
        places = places.new_zeros((len(sizes), 0))
        held = places.new_zeros(0, dtype=dtype or tensor(0.0).dtype)
        return SparseTensor(places, held.requires_grad_(requires_grad), sizes, coalesced=True)
    held = _values(values, dtype, device, requires_grad=requires_grad)
    places = as_tensor(indices, dtype=int64, device=held.device)
    if places.ndim != 2 or held.ndim < 1 or held.shape[0] != places.shape[1]:
        law = "indices are (axes, n), and values (n, ...)"
        raise ShapeError("sparse_coo_tensor", law, indices=places.shape, values=held.shape)
    if size is None:
        least: Any = (places.amax(1) + 1).tolist() if places.shape[1] else [0] * places.shape[0]
        size = (*least, *held.shape[1:])
    shape, axes = tuple(size), places.shape[0]
    if len(shape) != axes + held.ndim - 1 or shape[axes:] != tuple(held.shape[1:]):
        law = "size is that of the sparse axes, then the values'"
        raise ShapeError(
            "sparse_coo_tensor", law, size=shape, indices=places.shape, values=held.shape
        )
    if check_invariants and places.shape[1]:
        ends = tensor(shape[:axes], device=held.device).reshape(-1, 1)
        if bool(((places < 0) | (places >= ends)).any()):
            raise ArgumentError("sparse_coo_tensor", "indices lie in the shape", size=shape)
    return SparseTensor(places, held, shape, coalesced=bool(is_coalesced) or places.shape[1] == 0)


def _values(values: Any, dtype: DType | None, device: Any, *, requires_grad: bool) -> Tensor:
    held = as_tensor(values, dtype=dtype, device=device)
    if requires_grad and not held.requires_grad:
        held = held.detach().requires_grad_()
    return held


@checked
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix by compressed rows.

    Args:
        crow_indices: where each row's values begin, ``(rows + 1,)``, ascending from 0 to ``n``.
        col_indices: ``(n,)``, ascending within a row.
        values: ``(n,)``; gradients flow to them.
        size: the shape; None: as many columns as indices need, for which the host waits.
        dtype: as :func:`sparse_coo_tensor`'s.
        device: as :func:`sparse_coo_tensor`'s.
        requires_grad: as :func:`sparse_coo_tensor`'s.
        check_invariants: as :func:`sparse_coo_tensor`'s.

    Raises:
        ShapeError: if the parts do not fit.
        ArgumentError: if pointers or indices are outside (with ``check_invariants``).
    """
    return sparse_compressed_tensor(
        crow_indices,
        col_indices,
        values,
        size,
        dtype=dtype,
        layout=CSR,
        device=device,
        requires_grad=requires_grad,
        check_invariants=check_invariants,
    )


@checked
def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix by compressed columns; as :func:`sparse_csr_tensor`, rows and columns exchanged."""
    return sparse_compressed_tensor(
        ccol_indices,
        row_indices,
        values,
        size,
        dtype=dtype,
        layout=CSC,
        device=device,
        requires_grad=requires_grad,
        check_invariants=check_invariants,
    )


@checked
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A matrix by compressed rows or columns, as the layout says (there are no blocks)."""
    if layout not in (CSR, CSC):
        law = "the layout is sparse_csr or sparse_csc"
        raise ArgumentError("sparse_compressed_tensor", law, layout=layout)
    held = _values(values, dtype, device, requires_grad=requires_grad)
    pointers = as_tensor(compressed_indices, dtype=int64, device=held.device)
    plain = as_tensor(plain_indices, dtype=int64, device=held.device)
    if pointers.ndim != 1 or pointers.shape[0] < 1 or held.ndim != 1 or plain.shape != held.shape:
        law = "pointers are (rows + 1,), indices and values (n,)"
        raise ShapeError(
            "sparse_compressed_tensor",
            law,
            pointers=pointers.shape,
            indices=plain.shape,
            values=held.shape,
        )
    axis, lines = (0 if layout is CSR else 1), pointers.shape[0] - 1
    if size is None:
        least = int(plain.amax().item()) + 1 if plain.shape[0] else 0
        size = (lines, least) if axis == 0 else (least, lines)
    shape = tuple(size)
    if len(shape) != 2 or shape[axis] != lines:
        law = "the shape is that of a matrix with a pointer for each line, and one more"
        raise ShapeError("sparse_compressed_tensor", law, size=shape, pointers=pointers.shape)
    count = held.shape[0]
    if check_invariants:
        steps = pointers[1:] - pointers[:-1]
        wrong = bool((steps < 0).any()) or pointers[0].item() != 0 or pointers[-1].item() != count
        if wrong or (count and bool(((plain < 0) | (plain >= shape[1 - axis])).any())):
            law = "pointers ascend from 0 to n, and indices lie in the shape"
            raise ArgumentError("sparse_compressed_tensor", law, size=shape)
    line = ops.searchsorted(pointers, positions(Tensor, count, held.device), right=True) - 1
    places = ops.stack([line, plain] if axis == 0 else [plain, line])
    return SparseTensor(places, held, shape, coalesced=True, layout=layout, pointers=pointers)


@checked
def dense_to_sparse(
    x: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """The elements of a dense tensor that are not 0; the host waits for their number.

    Args:
        x: any shape; gradients flow to it.
        sparse_dim: axes that get indices; None: all.
        layout: ``clnet.sparse_coo``, ``sparse_csr`` or ``sparse_csc``; None: the first.
        blocksize: None: there are no blocks.
        dense_dim: axes of a value; ``sparse_dim`` says it, too.

    Raises:
        ArgumentError: if the layout is another, or there are not as many axes.
    """
    axes = x.ndim - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if not 0 <= axes <= x.ndim or (x.ndim and not axes):
        law = f"sparse_dim lies in [1, {x.ndim}]"
        raise ArgumentError("to_sparse", law, sparse_dim=axes, shape=x.shape)
    sizes = tuple(x.shape[:axes])
    rows = x.reshape(-1, *x.shape[axes:])
    other = rows.detach() != 0
    if other.ndim > 1:
        other = other.flatten(1).any(1)
    flat = ops.nonzero(other)[:, 0]
    found = SparseTensor(places_of(flat, sizes), rows[flat], x.shape, coalesced=True)
    return found.to_sparse(layout=layout, blocksize=blocksize)


@checked
def dense_to_coo(x: Tensor) -> SparseTensor:
    """:func:`dense_to_sparse` with coordinates."""
    return dense_to_sparse(x)


@checked
def dense_to_csr(x: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """:func:`dense_to_sparse` with compressed rows."""
    return dense_to_sparse(x, layout=CSR, dense_dim=dense_dim)


@checked
def dense_to_csc(x: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """:func:`dense_to_sparse` with compressed columns."""
    return dense_to_sparse(x, layout=CSC, dense_dim=dense_dim)


@checked
def sparse_mask(x: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements of a dense tensor where a sparse one has values; gradients flow to it.

    Raises:
        ShapeError: if the shapes differ.
    """
    if x.shape != mask.shape:
        raise ShapeError("sparse_mask", "both have one shape", x=x.shape, mask=mask.shape)
    axes = mask.sparse_dim()
    return mask.with_values(x.reshape(-1, *x.shape[axes:])[mask.flat()])


def joined(tensors: Sequence[Any], dim: int) -> SparseTensor:
    """Sparse tensors one after another along an axis: ``cat`` of them.

    Args:
        tensors: coordinates, with as many sparse axes, whose shapes agree but for the axis.
        dim: the axis, from 0; along a dense one the elements get zeros before and behind.

    Raises:
        ArgumentError: if one is dense or compressed.
        ShapeError: if the shapes disagree.
    """
    if any(getattr(x, "layout", None) != COO for x in tensors):
        law, hint = "all are sparse tensors of coordinates", "Use to_sparse_coo() or to_dense()"
        raise ArgumentError("cat", law, layouts=[x.layout for x in tensors], remedy=hint)
    first, sparse = tensors[0], tensors[0].sparse_dim()
    others = {(x.sparse_dim(), *x.shape[:dim], -1, *x.shape[dim + 1 :]) for x in tensors}
    if len(others) > 1:
        law = "shapes agree but for one axis"
        raise ShapeError("cat", law, shapes=[x.shape for x in tensors], dim=dim)
    total, start = sum(x.shape[dim] for x in tensors), 0
    places, values = [], []
    for x in tensors:
        indices, elements, n = x.places(), x.elements(), x.shape[dim]
        if dim < sparse:
            moved = indices.new_zeros(sparse, 1)
            moved[dim] = start
            indices = indices + moved
        else:
            at = dim - sparse + 1
            sizes = [list(elements.shape) for _ in range(2)]
            sizes[0][at], sizes[1][at] = start, total - start - n
            around = [elements.new_zeros(size) for size in sizes]
            elements = ops.cat([around[0], elements, around[1]], at)
        places.append(indices)
        values.append(elements)
        start += n
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return SparseTensor(ops.cat(places, 1), ops.cat(values), shape)


OPERATORS["cat"] = joined
