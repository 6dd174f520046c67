"""A graph of ONNX while it is written: nodes, initialisers, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import OnnxError
from ..values.dtypes import DType
from . import protos
from .elements import by_numpy
from .sizes import Size

__all__ = ["Graph", "NotExported"]

_AXES_GIVEN = 18  # the opset from which on all reductions read their axes from an input
_ZERO_SIZES = 14  # the opset from which on a shape of ``Reshape`` may say 0
_SHAPE_CUT = 15  # the opset from which on ``Shape`` takes a part of the axes


class NotExported(OnnxError):
    """ONNX has no node for what an op does with these settings."""


class Graph:
    """What exporters write nodes into.

    Args:
        opset: the version of ONNX's own ops.
        sources: for each dynamic size an input and the axis that has it.

    Attributes:
        opset: as above.
        nodes: in order.
        initialisers: arrays by name.
    """

    def __init__(self, opset: int, sources: dict[str, tuple[str, int]]) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initialisers: dict[str, np.ndarray] = {}
        self._sources = sources
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._sizes: dict[str, str] = {}
        self._reshaped: dict[str, tuple[str, tuple[int, ...]]] = {}

    def name(self, wanted: str) -> str:
        """A name that nothing else has."""
        name = wanted
        while name in self._taken:
            self._counts[wanted] = self._counts.get(wanted, 0) + 1
            name = f"{wanted}_{self._counts[wanted]}"
        self._taken.add(name)
        return name

    def add(self, op: str, *inputs: str | None, **attributes: Any) -> str:
        """A node with one output; None and ``""`` are inputs left out.

        Returns:
            The output's name.
        """
        return self.add_all(op, inputs, 1, **attributes)[0]

    def add_all(
        self, op: str, inputs: Sequence[str | None], count: int, **attributes: Any
    ) -> list[str]:
        """A node with several outputs.

        Raises:
            NotExported: if the model's opset has no such node.
        """
        outputs = [self.name(op.lower()) for _ in range(count)]
        names = [name or "" for name in inputs]
        while names and not names[-1]:
            names.pop()
        given = {k: v for k, v in attributes.items() if v is not None}
        self._known(op, given)
        helper = protos.library().helper
        self.nodes.append(helper.make_node(op, names, outputs, name=outputs[0], **given))
        return outputs

    def has(self, op: str) -> bool:
        """Whether the model's opset has an op."""
        return protos.library().defs.has(op, max_inclusive_version=self.opset, domain="")

    def _known(self, op: str, attributes: Mapping[str, Any]) -> None:
        """Refuse an op or attribute that came with a newer opset."""
        law = f"not in opset {self.opset}, but with a newer opset_version"
        if not self.has(op):
            raise NotExported(op, law)
        known = protos.library().defs.get_schema(op, self.opset, "").attributes
        if newer := sorted(attributes.keys() - known):
            raise NotExported(f"{op} with {', '.join(newer)}", law)

    def reduced(self, op: str, name: str, axes: Sequence[int] | None, *, keepdims: bool) -> str:
        """A reduction over axes.

        Args:
            op: ``ReduceSum`` or the like.
            name: of the value.
            axes: None: it has none, and each element is reduced alone.
            keepdims: whether the axes stay, of size 1.
        """
        own = None if axes is not None else 1
        if self.opset >= _AXES_GIVEN or op == "ReduceSum":
            given = None if axes is None else self.integers(axes)
            return self.add(op, name, given, keepdims=int(keepdims), noop_with_empty_axes=own)
        return self.add(op, name, axes=axes, keepdims=int(keepdims))

    def split(self, name: str, count: int, *, axis: int) -> list[str]:
        """As many equal parts of an axis."""
        told = count if self.opset >= _AXES_GIVEN else None
        return self.add_all("Split", [name], count, axis=axis, num_outputs=told)

    def initialiser(self, wanted: str, array: np.ndarray) -> str:
        """A tensor of the model; the name that it got."""
        name = self.name(wanted)
        self.initialisers[name] = array
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A tensor that the function has, not the module; equal ones are written once."""
        array = np.asarray(value, dtype)
        key = (array.shape, array.dtype.str, array.dtype.name, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.initialiser("constant", array)
        return self._constants[key]

    def integers(self, values: Sequence[int]) -> str:
        """A constant vector of int64."""
        return self.constant(np.array(values, np.int64).reshape(-1))

    def shape(self, sizes: Sequence[Size], *, counted: bool = False) -> str:
        """A vector of sizes: a constant, or computed of the inputs' shapes.

        Args:
            sizes: its elements.
            counted: whether what runs the model counts elements, and so finds a wrong size.

        Raises:
            OnnxError: if a size is the polynomial at some sizes alone, and nobody would notice.
        """
        other = next((size for size in sizes if size.odd is not None), None)
        if other is not None and not counted:
            raise OnnxError(
                "onnx.export",
                "a size inside the model is another at odd sizes of its dynamic axes",
                computed={" * ".join(k) or "1": str(v) for k, v in other.terms.items()},
                remedy="Let fewer axes be dynamic",
            )
        numbers = [size.number for size in sizes]
        known = [n for n in numbers if n is not None]
        if len(known) == len(sizes):
            return self.integers(known)
        parts = [
            self.size(s) if n is None else self.integers([n])
            for s, n in zip(sizes, numbers, strict=True)
        ]
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)

    def size(self, size: Size) -> str:
        """A size as a vector of one element."""
        total: str | None = None
        for product, factor in size.terms.items():
            if product:
                term = self._symbol(product[0])
                for name in product[1:]:
                    term = self.add("Mul", term, self._symbol(name))
                if factor.numerator != 1:
                    term = self.add("Mul", term, self.integers([factor.numerator]))
                if factor.denominator != 1:
                    term = self.add("Div", term, self.integers([factor.denominator]))
            else:
                term = self.integers([int(factor)])
            total = term if total is None else self.add("Add", total, term)
        return self.integers([0]) if total is None else total

    def _symbol(self, name: str) -> str:
        if name not in self._sizes:
            source, axis = self._sources[name]
            if self.opset >= _SHAPE_CUT:
                self._sizes[name] = self.add("Shape", source, start=axis, end=axis + 1)
            else:
                whole = self.add("Shape", source)
                self._sizes[name] = self.add("Gather", whole, self.integers([axis]))
        return self._sizes[name]

    def cast(self, name: str, dtype: DType) -> str:
        """A value in another dtype."""
        return self.add("Cast", name, to=number(dtype))

    def reshape(self, name: str, sizes: Sequence[Size], before: Sequence[Size]) -> str:
        """A value in another shape.

        Args:
            name: of the value.
            sizes: the new shape.
            before: the old one.
        """
        wanted: list[int] = []
        rest = 0
        for place, size in enumerate(sizes):
            if size.number is not None:
                wanted.append(size.number)
            elif place < len(before) and before[place] == size:
                wanted.append(0)
            else:
                wanted.append(-1)
                rest += 1
        empty = any(size.number == 0 for size in (*sizes, *before))
        plain = rest <= 1 and not empty
        shape = self.integers(wanted) if plain else self.shape(sizes, counted=True)
        zeros = not plain and (empty or self.opset >= _ZERO_SIZES)
        made = self.add("Reshape", name, shape, allowzero=1 if zeros else None)
        self._reshaped[made] = (name, tuple(size.number or 0 for size in before))
        return made

    def unreshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """What a value was reshaped from, if that has a shape; else it, in that shape."""
        found = name
        while found in self._reshaped:
            found, before = self._reshaped[found]
            if before == shape:
                return found
        return self.add("Reshape", name, self.integers(shape))


def number(dtype: DType) -> int:
    """ONNX's number of a dtype."""
    return by_numpy(dtype.numpy).number
