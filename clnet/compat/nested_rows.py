"""Batches of tensors that differ in size: what ``torch.nested`` makes.

A jagged one is one tensor of all its elements' rows and where each begins; a strided one is a list
of tensors, which may differ in any axis. Both hold plain tensors, whose tape is theirs.
:mod:`.nested_calls` says what functions give of them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, GradientError, ShapeError
from ..tensor import Tensor, tensor
from ..values.dtypes import int64
from ..values.shapes import Size
from ..values.words import WORDS

__all__ = ["JAGGED", "STRIDED", "NestedTensor", "RaggedSize", "Rows"]

JAGGED, STRIDED = WORDS["jagged"], WORDS["strided"]
CALLS: list[Callable[..., Any]] = []
"""What gives a call with nested tensors its meaning; :mod:`.nested_calls` says it."""
_NUMBERS = itertools.count(1)


class RaggedSize(int):
    """The size of an axis that has another one for each element; equal to itself alone."""

    number: int

    def __new__(cls) -> RaggedSize:
        """Another one."""
        made = super().__new__(cls, -1)  # what reshapes take for a size that follows
        made.number = next(_NUMBERS)
        return made

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"j{self.number}"

    def __reduce__(self) -> Any:
        return RaggedSize, ()


class Rows:
    """Where the elements of a jagged tensor lie along its ragged axis.

    Args:
        bounds: the first row of each, and one past the last.
        lengths: how many rows each has; None: all up to the next.
    """

    def __init__(self, bounds: Sequence[int], lengths: Sequence[int] | None = None) -> None:
        self.bounds = [int(b) for b in bounds]
        steps = [b - a for a, b in itertools.pairwise(self.bounds)]
        self.whole = lengths is None
        self.lengths = steps if lengths is None else [int(n) for n in lengths]
        self.size = RaggedSize()

    def same(self, other: Rows) -> bool:
        """Whether elements lie in the same rows."""
        return self is other or (self.bounds, self.lengths) == (other.bounds, other.lengths)


class NestedTensor(Tensor):
    """A batch of tensors that differ in size.

    Args:
        values: of a jagged tensor, all rows; of a strided one, the list of its elements.
        rows: where elements lie; None: it is strided.
        ragged: the axis that is ragged, counted with the batch's.
    """

    __taking_over__ = True
    _parts: list[Tensor]

    def __new__(cls, *args: Any, **given: Any) -> NestedTensor:
        """An object that is not made yet."""
        return object.__new__(cls)

    def __init__(self, values: Any, rows: Rows | None = None, ragged: int = 1) -> None:
        if rows is None and not values:
            raise ArgumentError("nested_tensor", "there is an element")
        self.rows, self.ragged = rows, ragged
        self._values: Any = values if rows is not None else None
        if rows is None:
            self._parts = list(values)
        held = values if rows is not None else values[0]
        super().__init__(held.array)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What a function gives of nested tensors."""
        return CALLS[0](func, args, kwargs or {})

    # What it holds.

    def parts(self) -> list[Tensor]:
        """The elements."""
        if self.rows is None:
            return self._parts
        axis = self.ragged - 1
        begin = self.rows.bounds
        return [
            self._values.narrow(axis, b, n) for b, n in zip(begin, self.rows.lengths, strict=False)
        ]

    def held(self) -> list[Tensor]:
        """The plain tensors that it consists of."""
        return self._parts if self.rows is None else [self._values]

    def each(self, function: Callable[[Tensor], Tensor], ragged: int | None = None) -> NestedTensor:
        """A function of all that it holds, which leaves the ragged axis as it is.

        Args:
            function: of a tensor without the batch's axis.
            ragged: the ragged axis of the result; None: the same.
        """
        if self.rows is None:
            return NestedTensor([function(part) for part in self._parts])
        return NestedTensor(function(self._values), self.rows, ragged or self.ragged)

    def of_parts(self, parts: Sequence[Tensor]) -> NestedTensor:
        """One like this, of other elements of as many rows each."""
        if self.rows is None:
            return NestedTensor(parts)
        rows = self.rows if self.rows.whole else Rows([0, *np.cumsum(self.rows.lengths)])
        return NestedTensor(ops.cat(list(parts), self.ragged - 1), rows, self.ragged)

    def values(self) -> Tensor:
        """All rows, of a jagged tensor; all elements, of a strided one."""
        if self.rows is None:
            return ops.cat([part.reshape(-1) for part in self._parts])
        return self._values

    def offsets(self) -> Tensor:
        """The first row of each element, and one past the last."""
        return tensor(self._jagged("offsets").bounds, dtype=int64, device=self.device)

    def lengths(self) -> Tensor | None:
        """How many rows each element has; None: all up to the next one's."""
        rows = self._jagged("lengths")
        return None if rows.whole else tensor(rows.lengths, dtype=int64, device=self.device)

    def _jagged(self, name: str) -> Rows:
        if self.rows is None:
            raise ArgumentError(name, "the tensor is jagged", remedy="Ask for layout=clnet.jagged")
        return self.rows

    @property
    def _offsets(self) -> Tensor:
        return self.offsets()

    @property
    def _ragged_idx(self) -> int:
        return self.ragged

    @property
    def _lengths(self) -> Tensor | None:
        return self.lengths()

    @property
    def _max_seqlen(self) -> int:
        return max(self._jagged("_max_seqlen").lengths, default=0)

    @property
    def _min_seqlen(self) -> int:
        return min(self._jagged("_min_seqlen").lengths, default=0)

    # What it is.

    is_nested = True

    @property
    def layout(self) -> Any:
        """``clnet.jagged`` or ``clnet.strided``."""
        return STRIDED if self.rows is None else JAGGED

    @property
    def ndim(self) -> int:
        """Number of axes, with the batch's."""
        return len(self.held()[0].array.shape) + 1

    def dim(self) -> int:
        """Number of axes, with the batch's."""
        return self.ndim

    @property
    def shape(self) -> Size:
        """Sizes of the axes; the ragged one's is a :class:`RaggedSize`.

        Raises:
            ShapeError: if the tensor is strided.
        """
        if self.rows is None:
            raise ShapeError(
                "shape", "a strided nested tensor has no shape", remedy="Use size(dim)"
            )
        inner: list[int] = [*self._values.shape]
        inner[self.ragged - 1] = self.rows.size
        return tuple.__new__(Size, (len(self), *inner))  # pyrefly: ignore[bad-specialization] - a tuple

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis.

        Raises:
            ShapeError: if elements of a strided tensor differ in it.
        """
        if dim is None:
            return self.shape
        axis = dim % self.ndim
        if self.rows is not None:
            return self.shape[axis]
        found = {len(self)} if axis == 0 else {part.shape[axis - 1] for part in self._parts}
        if len(found) > 1:
            raise ShapeError("size", "all elements have one size", dim=dim, sizes=sorted(found))
        return found.pop()

    def numel(self) -> int:
        """The number of elements of all elements."""
        return sum(part.numel() for part in self.parts())

    def __len__(self) -> int:
        return len(self._parts if self.rows is None else self.rows.lengths)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.parts())

    def __repr__(self) -> str:
        if self.rows is None:
            inner = ",\n".join("  " + repr(p).replace("\n", "\n  ") for p in self._parts)
            return f"nested_tensor([\n{inner}\n])"
        offsets = self.offsets()
        return f"NestedTensor(size={tuple(self.shape)}, offsets={offsets}, contiguous=True)"

    __str__ = __repr__

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether rows are dense and lie one behind another."""
        return all(x.is_contiguous() for x in self.held()) and (
            self.rows is None or (self.rows.whole and self.ragged == 1)
        )

    # Its gradient, which is that of what it holds.

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it."""
        return any(x.requires_grad for x in self.held())

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:  # noqa: FBT001, FBT002 - PyTorch's
        """Let gradients flow to it, or no longer."""
        for x in self.held():
            x.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return all(x.is_leaf for x in self.held())

    @property
    def grad_fn(self) -> Any:
        """What made what it holds."""
        return self.held()[0].grad_fn

    @property
    def grad(self) -> Any:
        """Nested, as it is."""
        found = [x.grad for x in self.held()]
        if any(g is None for g in found):
            return None
        made = found if self.rows is None else found[0]
        return NestedTensor(made, self.rows, self.ragged)

    @grad.setter
    def grad(self, value: Any) -> None:
        for k, x in enumerate(self.held()):
            x.grad = None if value is None else value.held()[k]

    def retain_grad(self) -> None:
        """Keep its gradient, also if it is no leaf."""
        for x in self.held():
            x.retain_grad()

    def backward(self, gradient: Any = None, **given: Any) -> None:
        """Let gradients flow back from all its elements.

        Raises:
            GradientError: if no gradient is given.
        """
        if gradient is None:
            law, hint = "a gradient is given, nested as the tensor", "Pass one, or sum the tensor"
            raise GradientError("backward", law, remedy=hint)
        grads = gradient.held() if self.rows is not None else gradient.parts()
        total = ops.stack(
            [(x * g.detach()).sum() for x, g in zip(self.held(), grads, strict=True)]
        ).sum()
        total.backward(**given)

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """The elements in one dense tensor, with a number behind the end of each.

        Args:
            padding: the number.
            output_size: of the result; None: the least that holds all.

        Raises:
            ShapeError: if it does not hold all.
        """
        parts = self.parts()
        needed = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
        sizes = needed if output_size is None else list(output_size)[1:]
        if any(size < least for size, least in zip(sizes, needed, strict=True)):
            law = "the padded tensor holds all elements"
            raise ShapeError("to_padded_tensor", law, output_size=output_size, needed=needed)
        padded: list[Tensor] = []
        for part in parts:
            behind = [n - m for n, m in zip(sizes, part.shape, strict=True)]
            widths = [width for n in reversed(behind) for width in (0, n)]
            padded.append(ops.pad(part, widths, value=padding) if any(widths) else part)
        return ops.stack(padded)

    # What only plain tensors have.

    def numpy(self, *, force: bool = False) -> Any:
        """Refuse: arrays are not ragged.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError("numpy", "a nested tensor is no array", remedy="Call unbind() first")

    def tolist(self) -> Any:
        """Nested lists of numbers."""
        return [part.tolist() for part in self.parts()]

    def __copy__(self) -> NestedTensor:
        return NestedTensor(
            self.held() if self.rows is None else self._values, self.rows, self.ragged
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        held = copy.deepcopy(self.held(), memo)
        made = NestedTensor(held if self.rows is None else held[0], self.rows, self.ragged)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = self._parts if self.rows is None else self._values
        return NestedTensor, (made, self.rows, self.ragged)
