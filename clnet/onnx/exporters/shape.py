"""Views, copies, paddings, and tensors made of nothing."""

from __future__ import annotations

import numpy as np

from ...compile.tracer import Step
from ...ops.create import Arange, Eye, Full
from ...ops.join import Cat
from ...ops.machinery.boundary import Boundary
from ...ops.padding import ConstantPad
from ...ops.placed import Placed
from ...ops.rearrange import Diagonal, Flip, Roll, Windows
from ...ops.rnn import Steps
from ...ops.shape import Copy, Expand, Permute, Reshape, Slice
from ...values.dtypes import bool_, int32, int64
from ..protos import library
from ..sizes import Size
from .registry import Given, exporter

_FEW = 4096  # numbers in a row that are written rather than made
_FAR = 2**62


@exporter(Reshape, varies="shape")
def reshape(given: Given) -> str:
    """The same elements in another shape."""
    return given.graph.reshape(given.names[0], given.made(), given.shape())


@exporter(Permute)
def permute(given: Given) -> str:
    """Axes in another order."""
    return given.graph.add("Transpose", given.names[0], perm=given.function.dims)


@exporter(Expand, varies="shape")
def expand(given: Given) -> str:
    """Repeated along axes."""
    return given.graph.add("Expand", given.names[0], given.graph.shape(given.made()))


@exporter(Steps)
def steps(given: Given) -> tuple[str, ...]:
    """Each step along the first axis."""
    graph, count = given.graph, len(given.step.outputs)
    parts = graph.split(given.names[0], count, axis=0)
    return tuple(graph.add("Squeeze", part, graph.integers([0])) for part in parts)


@exporter(Diagonal)
def diagonal(given: Given) -> str:
    """The diagonal of two axes as the last axis: elements of both behind each other."""
    of, graph, shape = given.function, given.graph, given.shape()
    first, second = (d % len(shape) for d in of.dims)
    rows, columns = given.fixed([shape[first], shape[second]], "an axis of a diagonal")
    (count,) = given.fixed(given.made()[-1:], "the length of a diagonal")
    others = [d for d in range(len(shape)) if d not in (first, second)]
    x = graph.add("Transpose", given.names[0], perm=(*others, first, second))
    both = given.dynamic.size([rows * columns] * len(given.steps))
    x = graph.reshape(x, [*(shape[d] for d in others), both], [])
    start = of.offset if of.offset >= 0 else -of.offset * columns
    places = start + np.arange(count) * (columns + 1)
    return graph.add("Gather", x, graph.integers(places.tolist()), axis=-1)


@exporter(Copy, Boundary)
def copy(given: Given) -> tuple[str, ...]:
    """Nothing: ONNX knows no strides."""
    return given.names


@exporter(Slice, varies="starts shape")
def part(given: Given) -> str:
    """Every so-many-th element from a start."""

    def ends(step: Step) -> list[int]:
        of: Slice = step.function  # pyrefly: ignore[bad-assignment] - the exporter's
        return [
            start + (n - 1) * step + 1 if n else start
            for start, step, n in zip(of.starts, of.steps, of.shape, strict=True)
        ]

    steps = given.function.steps
    starts = given.sizes(lambda step: step.function.starts)  # pyrefly: ignore[missing-attribute] - a Slice
    stops, sizes = given.sizes(ends), given.shape()
    cut = [
        axis
        for axis, (a, b, n) in enumerate(zip(starts, stops, sizes, strict=True))
        if a.number != 0 or b != n or steps[axis] != 1
    ]
    if not cut:
        return given.names[0]
    graph = given.graph
    return graph.add(
        "Slice",
        given.names[0],
        graph.shape([starts[axis] for axis in cut]),
        graph.shape([stops[axis] for axis in cut]),
        graph.integers(cut),
        graph.integers([steps[axis] for axis in cut]),
    )


@exporter(Cat)
def cat(given: Given) -> str:
    """One behind the other."""
    return given.graph.add("Concat", *given.names, axis=given.function.dim)


@exporter(Flip)
def flip(given: Given) -> str:
    """Axes read backwards."""
    dims = given.function.dims
    if not dims:
        return given.names[0]
    graph = given.graph
    return graph.add(
        "Slice",
        given.names[0],
        graph.integers([-1] * len(dims)),
        graph.integers([-_FAR] * len(dims)),
        graph.integers(dims),
        graph.integers([-1] * len(dims)),
    )


@exporter(Roll)
def roll(given: Given) -> str:
    """Elements moved along axes; those that leave come in again."""
    graph, name = given.graph, given.names[0]
    for axis, step in enumerate(given.function.steps):
        if step:
            at, axes = graph.integers([-step]), graph.integers([axis])
            behind = graph.add("Slice", name, at, graph.integers([_FAR]), axes)
            before = graph.add("Slice", name, graph.integers([0]), at, axes)
            name = graph.add("Concat", behind, before, axis=axis)
    return name


@exporter(Windows)
def windows(given: Given) -> str:
    """Picked by their places, then with these behind all axes."""
    of: Windows = given.function
    (count,) = given.fixed(given.made()[of.axis : of.axis + 1], "the number of windows")
    places = np.arange(count)[:, None] * of.step + np.arange(of.size)
    index = given.graph.constant(places, np.int64)
    picked = given.graph.add("Gather", given.names[0], index, axis=of.axis)
    axes = [d for d in range(given.step.outputs[0].ndim) if d != of.axis + 1]
    return given.graph.add("Transpose", picked, perm=[*axes, of.axis + 1])


@exporter(ConstantPad, varies="shape")
def constant_pad(given: Given) -> str:
    """One value around."""

    def ends(step: Step) -> list[int]:
        of: ConstantPad = step.function  # pyrefly: ignore[bad-assignment] - the exporter's
        sizes = zip(of.shape, of.starts, step.inputs[0].shape, strict=True)
        return [whole - start - n for whole, start, n in sizes]

    graph, x = given.graph, given.step.inputs[0]
    starts = given.sizes(lambda step: step.function.starts)  # pyrefly: ignore[missing-attribute] - a ConstantPad
    pads = graph.shape([*starts, *given.sizes(ends)])
    value = graph.constant(given.function.value, x.dtype.numpy)
    return graph.add("Pad", given.names[0], pads, value)


@exporter(Placed)
def placed(given: Given) -> str:
    """The sum of all inputs, each among zeros."""
    of, graph = given.function, given.graph
    whole = given.fixed(given.made(), "the size of what is put together")
    dtype = given.step.outputs[0].dtype
    kind = int32 if dtype is bool_ else dtype
    zero, parts = graph.constant(0, kind.numpy), list[str]()
    for place, (name, starts) in enumerate(zip(given.names, of.starts, strict=True)):
        sizes = given.fixed(given.shape(place), "the size of a part")
        ends = [n - a - b for n, a, b in zip(whole, starts, sizes, strict=True)]
        part = name if kind is dtype else graph.cast(name, kind)
        parts.append(graph.add("Pad", part, graph.integers([*starts, *ends]), zero))
    total = parts[0]
    for part in parts[1:]:
        total = graph.add("Add", total, part)
    return total if kind is dtype else graph.cast(total, dtype)


@exporter(Full, varies="shape")
def full(given: Given) -> str:
    """One value everywhere."""
    dtype, value = given.function.dtype, given.function.value
    held = np.array([getattr(value, "value", value)]).astype(dtype.numpy)
    if not given.function.shape:
        return given.graph.constant(held.reshape(()))
    shape = given.graph.shape(given.made())
    tensor = library().numpy_helper.from_array(held)
    return given.graph.add("ConstantOfShape", shape, value=tensor)


@exporter(Arange, varies="n")
def arange(given: Given) -> str:
    """``start, start + step, ...``."""
    of, graph = given.function, given.graph
    size: Size = given.made()[0]
    if size.number is not None and size.number <= _FEW:
        whole = np.arange(of.n) * of.step + of.start
        return graph.constant(whole.astype(of.dtype.numpy))
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    count = graph.add("Reshape", graph.shape([size]), graph.integers([]))
    numbers = graph.add("Range", zero, count, one)
    numbers = numbers if of.dtype is int64 else graph.cast(numbers, of.dtype)
    if of.step != 1:
        numbers = graph.add("Mul", numbers, graph.constant(of.step, of.dtype.numpy))
    if of.start != 0:
        numbers = graph.add("Add", numbers, graph.constant(of.start, of.dtype.numpy))
    return numbers


@exporter(Eye)
def eye(given: Given) -> str:
    """1 on the main diagonal."""
    of, graph = given.function, given.graph
    kind = np.int32 if of.dtype is bool_ else of.dtype.numpy
    whole = graph.constant(np.eye(of.rows, of.columns, dtype=kind))
    return graph.cast(whole, of.dtype) if of.dtype is bool_ else whole
