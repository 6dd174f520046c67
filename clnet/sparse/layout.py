"""Sparse tensors: where elements are and what they are, as dense tensors.

A :class:`SparseTensor` is a :class:`clnet.Tensor` without an array. What works on it is said here;
any other op refuses it by name and says to take ``to_dense()``.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

from .. import ops
from ..device import Device
from ..errors import ArgumentError, BoundsError, GradientError, ShapeError
from ..expr import Input, Scalar
from ..face.attribute import destination
from ..face.text import closed, elements_of
from ..ops.create import positions
from ..ops.machinery.function import Function
from ..tensor import Tensor
from ..values.dtypes import DType, bool_, int64
from ..values.shapes import Size, contiguous_strides, normalize_dim
from ..values.words import WORDS, Layout

__all__ = [
    "COO",
    "CSC",
    "CSR",
    "OPERATORS",
    "SparseTensor",
    "flat_places",
    "places_of",
    "summed_rows",
]

COO, CSR, CSC = (WORDS[f"sparse_{name}"] for name in ("coo", "csr", "csc"))


OPERATORS: dict[str, Callable[..., Any]] = {}
"""What ops of two tensors, and ``cat``, are by their names; filled by ``product`` and others."""
# What sums and differences with ``alpha`` compute.
_SCALED_SUM = Input(0) + Scalar(0) * Input(1)
_UNSAID = ("float32", "int64", "bool", "complex64")
"""Dtypes that a text leaves out."""
_INDENT = len("tensor(")


def flat_places(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Where elements lie in a dense tensor's order: ``(n,)`` of indices ``(axes, n)``."""
    found = indices.new_zeros(indices.shape[1])
    for axis, step in enumerate(contiguous_strides(tuple(sizes))):
        found = found + indices[axis] * step
    return found


def places_of(flat: Tensor, sizes: Sequence[int]) -> Tensor:
    """The indices ``(axes, n)`` of places in a dense tensor's order."""
    if not sizes:
        return flat.new_zeros(0, flat.shape[0])
    steps = contiguous_strides(tuple(sizes))
    pairs = zip(steps, sizes, strict=True)
    places: Any = [flat // step % max(n, 1) for step, n in pairs]
    return ops.stack(places)


def summed_rows(values: Tensor, places: Tensor, count: int) -> Tensor:
    """``y[places[j]] += values[j]``, ``(count, ...)``, in the order of ``j``."""
    if values.dtype is bool_:
        return summed_rows(values.to(int64), places, count).to(bool_)
    empty = values.new_zeros((count, *values.shape[1:]))
    return ops.index_add(empty, 0, places, values) if count and places.shape[0] else empty


class SparseTensor(Tensor):
    """Elements that are not 0 by their indices; all others are 0.

    Made by :func:`clnet.sparse_coo_tensor` and its like. Gradients flow to ``values``, by sums and
    products with dense tensors and back from :meth:`to_dense`.

    Args:
        indices: ``(sparse axes, n)``, int64.
        values: ``(n, *dense sizes)``.
        size: the shape.
        coalesced: whether indices ascend and none comes twice.
        layout: coordinates, compressed rows or compressed columns: how ``indices`` are shown.
        pointers: of compressed ones: where each row (or column) begins, ``(rows + 1,)``.
    """

    __slots__ = ("_coalesced", "_elements", "_layout", "_places", "_pointers", "_sizes")

    def __init__(
        self,
        indices: Tensor,
        values: Tensor,
        size: Sequence[int],
        *,
        coalesced: bool = False,
        layout: Any = COO,
        pointers: Tensor | None = None,
    ) -> None:
        self._places, self._elements, self._sizes = indices, values, Size(size)
        self._coalesced, self._layout, self._pointers = coalesced, layout, pointers
        self.hooks, self.index, self.source, self.version = None, 0, None, -1

    @classmethod
    def __apply_function__(cls, function: Function, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Products and sums by the function's name; anything else is refused."""
        if function.name == "linear":
            x, weight, *bias = inputs
            product = OPERATORS["matmul"](x, weight.t())
            return (product + bias[0] if bias else product,)
        if function.name == "cat":
            axis: Any = function
            return (OPERATORS["cat"](inputs, axis.dim),)
        exprs: Any = getattr(function, "exprs", ())
        rounded = function.name == "div" and exprs != (Input(0) / Input(1),)
        if function.name not in OPERATORS or len(inputs) != 2 or rounded:
            raise _dense_only(function.name)
        if exprs == (_SCALED_SUM,):
            factors: Any = function
            return (OPERATORS["add"](*inputs, alpha=factors.scalars[0]),)
        return (OPERATORS[function.name](*inputs),)

    @property
    def array(self) -> Any:
        """None: refused."""
        raise _dense_only("a sparse tensor")

    # What it is.

    @property
    def shape(self) -> Size:
        """Sizes of all axes, the sparse ones first."""
        return self._sizes

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._sizes)

    @property
    def dtype(self) -> DType:
        """The values'."""
        return self._elements.dtype

    @property
    def device(self) -> Device:
        """Where the values are."""
        return self._elements.device

    @property
    def layout(self) -> Layout:
        """``clnet.sparse_coo``, ``clnet.sparse_csr`` or ``clnet.sparse_csc``."""
        return self._layout

    is_sparse = property(lambda self: self._layout is COO, doc="Whether it has coordinates.")
    is_sparse_csr = property(lambda self: self._layout is CSR, doc="Whether rows are compressed.")
    is_cuda = property(lambda self: self._elements.is_cuda, doc="Whether values are on ``cuda``.")
    grad_fn = property(lambda self: self._elements.node, doc="What made the values.")
    data = property(lambda self: self.detach(), doc="The same elements, off the tape.")
    node = property(lambda self: None)  # its values are on the tape, not itself

    def numel(self) -> int:
        """Number of elements, with those that are 0."""
        return prod(self._sizes)

    nelement = numel

    def sparse_dim(self) -> int:
        """Axes that have indices."""
        return self._places.shape[0]

    def dense_dim(self) -> int:
        """Axes of a value."""
        return self.ndim - self.sparse_dim()

    def is_coalesced(self) -> bool:
        """Whether indices ascend and none comes twice."""
        return self._coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:  # for programs
        """Say whether they do, which nobody looks at; returns it."""
        self._coalesced = coalesced
        return self

    def _nnz(self) -> int:
        return self._elements.shape[0]

    def indices(self) -> Tensor:
        """``(sparse axes, n)``.

        Raises:
            ArgumentError: if it is not coalesced, or compressed.
        """
        self._require("indices", COO, coalesced=True)
        return self._places

    def values(self) -> Tensor:
        """``(n, *dense sizes)``; on the tape.

        Raises:
            ArgumentError: if it is not coalesced.
        """
        self._require("values", self._layout, coalesced=True)
        return self._elements

    def _indices(self) -> Tensor:
        return self._places

    def _values(self) -> Tensor:
        return self._elements

    def places(self) -> Tensor:
        """``(sparse axes, n)``, of any layout, coalesced or not."""
        return self._places

    def elements(self) -> Tensor:
        """The values in the order of :meth:`places`, on the tape; of equal places several."""
        return self._elements

    def crow_indices(self) -> Tensor:
        """Where each row begins, ``(rows + 1,)``."""
        return self._compressed("crow_indices", CSR)

    def ccol_indices(self) -> Tensor:
        """Where each column begins, ``(columns + 1,)``."""
        return self._compressed("ccol_indices", CSC)

    def col_indices(self) -> Tensor:
        """The column of each value."""
        self._require("col_indices", CSR)
        return self._places[1]

    def row_indices(self) -> Tensor:
        """The row of each value."""
        self._require("row_indices", CSC)
        return self._places[0]

    def _compressed(self, name: str, layout: Any) -> Tensor:
        self._require(name, layout)
        pointers: Any = self._pointers
        return pointers

    def _require(self, name: str, layout: Any, *, coalesced: bool = False) -> None:
        if self._layout is not layout:
            law = f"the tensor's layout is {layout!r}"
            raise ArgumentError(name, law, layout=self._layout, remedy="Convert it with to_sparse")
        if coalesced and not self._coalesced:
            raise ArgumentError(name, "the tensor is coalesced", remedy="Use x.coalesce() first")

    # Gradients.

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self._elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Ask for (or stop) gradients to the values; returns it."""
        self._elements.requires_grad_(requires_grad)
        return self

    is_leaf = property(lambda self: self._elements.is_leaf, doc="Whether no op made the values.")

    @property
    def grad(self) -> Tensor | None:
        """The gradient of the values, at their indices; None: there is none."""
        found = self._elements.grad
        return None if found is None else self.with_values(found)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, SparseTensor):
            raise GradientError("grad", "the gradient of a sparse tensor is sparse")
        self._elements.grad = None if value is None else value._elements

    def retain_grad(self) -> None:
        """Have ``backward`` leave the values' gradient, though they are no leaf."""
        self._elements.retain_grad()

    def detach(self) -> SparseTensor:
        """The same elements, off the tape."""
        return self.with_values(self._elements.detach())

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: take the sum, or ``to_dense()``."""
        raise _dense_only("backward")

    # Other tensors of it.

    def with_values(self, values: Tensor) -> SparseTensor:
        """Others at the same places."""
        return SparseTensor(
            self._places,
            values,
            (*self._sizes[: self.sparse_dim()], *values.shape[1:]),
            coalesced=self._coalesced,
            layout=self._layout,
            pointers=self._pointers,
        )

    def clone(self, *, memory_format: Any = None) -> SparseTensor:
        """A copy; on the tape."""
        return self.with_values(self._elements.clone())

    def zero_(self) -> SparseTensor:
        """All elements become 0: none is kept. Returns it."""
        if self._layout is not COO:
            raise _dense_only("zero_")
        self._places, self._elements = self._places[:, :0], self._elements.detach()[:0]
        self._coalesced = True
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if not self.is_leaf:
            raise GradientError("deepcopy", "only leaves are copied deeply", remedy="Use clone()")
        copied = self.with_values(self._elements.detach().clone())
        memo[id(self)] = copied
        return copied.requires_grad_(self.requires_grad)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self._places, self._elements, tuple(self._sizes), self._coalesced)
        return _unpickled, (*parts, self._layout, self._pointers)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """As :meth:`Tensor.to`: another dtype of the values, another device of all."""
        device, dtype = destination("to", args, kwargs)
        values = self._elements.to(device=device, dtype=dtype)
        moved = self.with_values(values)
        if device is not None:
            moved._places = self._places.to(device=device)
            pointers = self._pointers
            moved._pointers = None if pointers is None else pointers.to(device=device)
        return moved

    def cpu(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """On the host's processor, as :meth:`Tensor.cpu`."""
        return self.to(device=self._elements.cpu().device)

    def cuda(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """On the device that is called ``cuda``."""
        return self.to(device=self._elements.cuda(*args).device)

    def flat(self) -> Tensor:
        """Where each value's sparse axes lie in a dense tensor's order, ``(n,)``."""
        return flat_places(self._places, self._sizes[: self.sparse_dim()])

    def coalesce(self) -> SparseTensor:
        """Values of equal indices added up, indices ascending; the host waits for their number."""
        if self._coalesced:
            return self
        sizes = self._sizes[: self.sparse_dim()]
        kept, inverse = ops.unique(self.flat(), return_inverse=True)
        values = summed_rows(self._elements, inverse, kept.shape[0])
        return SparseTensor(places_of(kept, sizes), values, self._sizes, coalesced=True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """All elements, on the tape.

        Args:
            dtype: converted to this one, if it is given.
            masked_grad: taken; the gradient is that of the values in any case.
        """
        sizes = self._sizes[: self.sparse_dim()]
        found = summed_rows(self._elements, self.flat(), prod(sizes)).reshape(self._sizes)
        return found if dtype is None else found.to(dtype)

    def to_sparse(
        self,
        sparse_dim: Any = None,
        *,
        layout: Any = None,
        blocksize: Any = None,
        dense_dim: Any = None,
    ) -> SparseTensor:
        """In another layout: coordinates, unless one is named."""
        wanted = COO if layout is None else layout
        if blocksize is not None or wanted not in (COO, CSR, CSC):
            law = "the layout is sparse_coo, sparse_csr or sparse_csc"
            raise ArgumentError("to_sparse", law, layout=wanted, blocksize=blocksize)
        if wanted is COO:
            return self.to_sparse_coo()
        return self.to_sparse_csr() if wanted is CSR else self.to_sparse_csc()

    def to_sparse_coo(self) -> SparseTensor:
        """With coordinates."""
        if self._layout is COO:
            return self
        ordered = self._layout is CSR and self._coalesced
        return SparseTensor(self._places, self._elements, self._sizes, coalesced=ordered)

    def to_sparse_csr(self, dense_dim: int | None = None) -> SparseTensor:
        """With compressed rows."""
        return self if self._layout is CSR else _compressed(self.to_sparse_coo(), CSR)

    def to_sparse_csc(self, dense_dim: int | None = None) -> SparseTensor:
        """With compressed columns."""
        return self if self._layout is CSC else _compressed(self.to_sparse_coo(), CSC)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two sparse axes exchanged; compressed rows become compressed columns."""
        axes = [normalize_dim("transpose", d, self.ndim) for d in (dim0, dim1)]
        if max(axes) >= self.sparse_dim():
            raise ArgumentError("transpose", "both axes are sparse", dims=(dim0, dim1))
        order = list(range(self.ndim))
        order[axes[0]], order[axes[1]] = axes[1], axes[0]
        if order == sorted(order):
            return self
        return SparseTensor(
            ops.stack([self._places[axis] for axis in order[: self.sparse_dim()]]),
            self._elements,
            [self._sizes[axis] for axis in order],
            coalesced=self._layout is not COO and self._coalesced,
            layout={COO: COO, CSR: CSC, CSC: CSR}[self._layout],
            pointers=self._pointers,
        )

    def t(self) -> SparseTensor:
        """A matrix transposed."""
        if self.ndim != 2:
            raise ShapeError("t", "the tensor is a matrix", shape=self.shape)
        return self.transpose(0, 1)

    T = mT = property(t, doc="A matrix transposed.")  # noqa: N815

    def index_select(self, dim: int, index: Tensor) -> SparseTensor:
        """The slices that an index names, along a sparse axis; each may be named once."""
        axis = normalize_dim("index_select", dim, self.ndim)
        if axis >= self.sparse_dim():
            raise ArgumentError("index_select", "the axis is sparse", dim=dim)
        size = index.shape[0]
        if ops.unique(index).shape[0] != size:
            law, hint = "each slice is named once", "Use to_dense()"
            raise ArgumentError("index_select", law, index=index.shape, remedy=hint)
        number = index.new_full((self._sizes[axis],), -1)
        number = number.scatter(0, index, positions(Tensor, size, index.device))
        places = number[self._places[axis]]
        kept = ops.nonzero(places >= 0)[:, 0]
        rows = [places if k == axis else p for k, p in enumerate(self._places)]
        sizes = [size if k == axis else n for k, n in enumerate(self._sizes)]
        return SparseTensor(ops.stack(rows)[:, kept], self._elements[kept], sizes)

    def select(self, dim: int, index: int) -> Any:
        """What lies at one place of an axis: without the last sparse axis a dense tensor.

        Raises:
            BoundsError: if the place lies outside the axis.
        """
        at, sparse = normalize_dim("select", dim, self.ndim), self.sparse_dim()
        n = self._sizes[at] if self.ndim else 0
        if not -n <= index < n:
            raise BoundsError("select", "the index lies inside the axis", x=self.shape, index=index)
        index, sizes = index % n, (*self._sizes[:at], *self._sizes[at + 1 :])
        if at >= sparse:
            values = self._elements.select(at - sparse + 1, index)
            return SparseTensor(self._places, values, sizes, coalesced=self._coalesced)
        kept = ops.nonzero(self._places[at] == index)[:, 0]
        values = self._elements[kept]
        if sparse == 1:
            return summed_rows(values, ops.zeros_like(kept), 1)[0]
        rows = ops.stack([p for k, p in enumerate(self._places) if k != at])
        return SparseTensor(rows[:, kept], values, sizes, coalesced=self._coalesced)

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """What lies at each place of an axis, as of :meth:`select`."""
        n = self._sizes[normalize_dim("unbind", dim, self.ndim)]
        return tuple([self.select(dim, i) for i in range(n)])

    def unsqueeze(self, dim: int) -> SparseTensor:
        """The same with an axis of one place: a sparse one up to the sparse axes' end."""
        at, sparse = normalize_dim("unsqueeze", dim, self.ndim + 1), self.sparse_dim()
        sizes = (*self._sizes[:at], 1, *self._sizes[at:])
        places, values = self._places, self._elements
        if at > sparse:
            values = values.unsqueeze(at - sparse + 1)
        else:
            nothing = places.new_zeros(1, places.shape[1])
            places = ops.cat([places[:at], nothing, places[at:]])
        return SparseTensor(places, values, sizes, coalesced=self._coalesced)

    def __getitem__(self, index: Any) -> Any:
        """Places of axes by whole numbers; ``:`` leaves an axis, None adds one.

        Raises:
            ArgumentError: of any other key.
        """
        found, at = self, 0
        for part in index if isinstance(index, tuple) else (index,):
            if part is None:
                found, at = found.unsqueeze(at), at + 1
            elif isinstance(part, slice) and part == slice(None):
                at += 1
            elif isinstance(part, bool) or not hasattr(part, "__index__") or _axes(part):
                law, hint = "places are whole numbers, and : and None", "Convert it with to_dense()"
                raise ArgumentError("index of a sparse tensor", law, index=index, remedy=hint)
            else:
                found = found.select(at, operator.index(part))
        return found

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __len__(self) -> int:
        return self._sizes[0]

    def __repr__(self) -> str:
        def inside(name: str, x: Tensor) -> str:
            start = f"{name}=tensor("
            return f"{start}{elements_of(x.detach(), _INDENT + len(start))})"

        first = [inside("indices", self._places)]
        if self._layout is not COO and self._pointers is not None:
            names = ("crow", "col") if self._layout is CSR else ("ccol", "row")
            other = self._places[1 if self._layout is CSR else 0]
            first = [inside(f"{names[0]}_indices", self._pointers)]
            first += [inside(f"{names[1]}_indices", other)]
        parts = [*first, inside("values", self._elements)]
        ending = [f"size={tuple(self._sizes)}", f"nnz={self._nnz()}"]
        ending += [] if self.dtype.name in _UNSAID else [f"dtype={self.dtype!r}"]
        ending += [f"layout={str(self._layout).replace('clnet', 'torch')}"]
        ending += ["requires_grad=True"] if self.requires_grad else []
        text = "tensor(" + (",\n" + " " * _INDENT).join(parts)
        return closed(text, ending, apart=self._layout is COO)

    __str__ = __repr__


def _compressed(x: SparseTensor, layout: Any) -> SparseTensor:
    """Sorted by rows (or columns), with where each begins."""
    if x.ndim != 2 or x.sparse_dim() != 2:
        raise ShapeError("to_sparse", "what is compressed is a matrix of numbers", shape=x.shape)
    if layout is CSR:
        x = x.coalesce()
        places, values = x.places(), x.elements()
    else:
        turned = x.t().coalesce()
        places, values = turned.places().flip(0), turned.elements()
    axis = 0 if layout is CSR else 1
    ends = positions(Tensor, x.shape[axis] + 1, x.device)
    pointers = ops.searchsorted(places[axis].contiguous(), ends)
    return SparseTensor(places, values, x.shape, coalesced=True, layout=layout, pointers=pointers)


def _axes(part: Any) -> int:
    return getattr(part, "ndim", 0)


def _unpickled(
    places: Tensor, values: Tensor, size: Any, coalesced: bool, layout: Any, pointers: Any
) -> SparseTensor:
    return SparseTensor(places, values, size, coalesced=coalesced, layout=layout, pointers=pointers)


def _dense_only(name: str) -> ArgumentError:
    return ArgumentError(name, "it takes dense tensors", remedy="Convert it with x.to_dense()")
