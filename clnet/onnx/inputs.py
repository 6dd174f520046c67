"""What a model says of its inputs, and arrays drawn for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..nn.module import Module
from ..tensor import Tensor
from ..values.dtypes import from_numpy
from .elements import by_number
from .module import ImportedModule

__all__ = ["FirstInput", "InputSpec", "drawn", "input_specs", "read_sizes"]

_DYNAMIC_AXES = "a size that the model leaves open is given"


@dataclass(frozen=True)
class InputSpec:
    """An input of a model.

    Attributes:
        name: what callers give it by.
        dtype: NumPy's, or None of what is no tensor.
        sizes: of its axes: numbers, names, or None of those without; None if it says nothing.
    """

    name: str
    dtype: np.dtype | None
    sizes: tuple[int | str | None, ...] | None

    def shape(self, sizes: Mapping[str, int], batch: int = 1) -> tuple[int, ...]:
        """Its shape.

        Args:
            sizes: of axes by name; ``NAME:AXIS`` of those without one.
            batch: the first axis, if neither the model nor ``sizes`` say it.

        Raises:
            ArgumentError: if the size of an axis is not known.
        """
        if self.sizes is None:
            raise ArgumentError("onnx", "the model tells the axes of its inputs", input=self.name)
        made: list[int] = []
        for axis, size in enumerate(self.sizes):
            names = [size] if isinstance(size, str) else []
            found = next((sizes[n] for n in [*names, f"{self.name}:{axis}"] if n in sizes), None)
            if isinstance(size, int):
                found = size
            if found is None and axis == 0:
                found = batch
            if found is None:
                wanted = size or f"{self.name}:{axis}"
                raise ArgumentError(
                    "onnx",
                    _DYNAMIC_AXES,
                    input=self.name,
                    sizes=self.sizes,
                    remedy=f"Give --size {wanted}=N",
                )
            made.append(found)
        return tuple(made)


def input_specs(values: Sequence[Any], asked: Sequence[str]) -> tuple[InputSpec, ...]:
    """What a graph says of inputs.

    Args:
        values: its ``ValueInfoProto``s.
        asked: names of those that a caller gives, in order.
    """
    by_name = {value.name: value.type for value in values}
    found: list[InputSpec] = []
    for name in asked:
        kind = by_name[name]
        if not kind.HasField("tensor_type"):
            found.append(InputSpec(name, None, None))
            continue
        tensor = kind.tensor_type
        dtype = by_number(tensor.elem_type).numpy if tensor.elem_type else None
        sizes = None
        if tensor.HasField("shape"):
            sizes = tuple(
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                for dim in tensor.shape.dim
            )
        found.append(InputSpec(name, dtype, sizes))
    return tuple(found)


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Sizes of axes as a command has them, ``NAME=N`` each.

    Raises:
        ArgumentError: if one is written otherwise.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal() or int(size) < 1:
            raise ArgumentError("onnx", "--size is given as NAME=N", size=text)
        found[name] = int(size)
    return found


def drawn(
    model: ImportedModule, sizes: Mapping[str, int], *, batch: int = 1, seed: int = 0
) -> dict[str, np.ndarray]:
    """Inputs of a model: floats of a normal distribution, whole numbers 0 or 1, truth values true.

    Args:
        model: the model.
        sizes: of axes that it leaves open.
        batch: the first axis, where nothing says it.
        seed: of the numbers.

    Raises:
        ArgumentError: if a size is open, fixed otherwise or of no axis, or an input is no tensor of
            numbers.
    """
    named = [(s.name, axis, n) for s in model.input_specs for axis, n in enumerate(s.sizes or ())]
    known = {n for _, _, n in named if isinstance(n, str)} | {f"{s}:{axis}" for s, axis, _ in named}
    if not {*sizes} <= known:
        unknown = sorted({*sizes} - known)
        law = "a size is that of an axis of an input"
        raise ArgumentError("onnx", law, unknown=unknown, sizes=sorted(known))
    fixed = {f"{s}:{axis}": n for s, axis, n in named if isinstance(n, int)}
    for axis in sorted({*sizes} & {*fixed}):
        if sizes[axis] != fixed[axis]:
            law = "the size is given of an axis that the model leaves open"
            raise ArgumentError("onnx", law, axis=axis, size=sizes[axis], fixed=fixed[axis])
    rng = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for spec in model.input_specs:
        if spec.dtype is None or spec.dtype.kind == "O":
            raise ArgumentError("onnx", "tensors of numbers can be drawn", input=spec.name)
        shape = spec.shape(sizes, batch)
        if spec.dtype.kind == "b":
            made[spec.name] = np.ones(shape, bool)
        elif spec.dtype.kind in "iu":
            made[spec.name] = rng.integers(0, 2, shape).astype(spec.dtype)
        else:
            made[spec.name] = rng.standard_normal(shape, np.float32).astype(spec.dtype)
    return made


class FirstInput(Module):
    """A model as a module of its first input, with zeros for the others; for its cost alone.

    Args:
        model: the model.
        sizes: of axes that it leaves open.
        batch: the first axis, where nothing says it.
    """

    def __init__(self, model: ImportedModule, sizes: Mapping[str, int], batch: int) -> None:
        super().__init__()
        self.model = model
        given = drawn(model, sizes, batch=batch)
        if not given:
            raise ArgumentError("onnx", "the model has an input")
        self._others = [(a.shape, from_numpy(a.dtype)) for a in given.values()][1:]

    def forward(self, x: Tensor) -> Any:
        """The first output."""
        others = [x.new_zeros(shape, dtype=dtype) for shape, dtype in self._others]
        made = self.model(x, *others)
        return made[0] if isinstance(made, tuple) else made
