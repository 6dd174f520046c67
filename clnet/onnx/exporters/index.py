"""Picking, sorting and reducing."""

from __future__ import annotations

import numpy as np

from ...array import Array
from ...kernels.reduce import Pairing, Reduction, Scan
from ...ops.embedding import Embedding
from ...ops.index import (
    FoldIndices,
    Gather,
    GatherBackward,
    GatherRows,
    GatherRowsBackward,
    ReplaceRows,
    Scatter,
)
from ...ops.reduce import ArgExtreme, ArgReduce, PairSum, Reduce
from ...ops.scan import Cumulate
from ...ops.sort import Sort
from ...ops.statistic import Spread
from ...values.dtypes import bool_, int32, int64
from ...values.shapes import contiguous_strides
from ..protos import library
from .registry import Given, NotExported, exporter

_REDUCED = {
    Reduction.SUM: "ReduceSum",
    Reduction.MEAN: "ReduceMean",
    Reduction.SUM_SQUARES: "ReduceSumSquare",
    Reduction.PROD: "ReduceProd",
    Reduction.MAX: "ReduceMax",
    Reduction.MIN: "ReduceMin",
    Reduction.ANY: "ReduceMax",
    Reduction.ALL: "ReduceMin",
}


def _index(given: Given, place: int = 1) -> str:
    """Indices as ONNX takes them."""
    name, index = given.names[place], given.step.inputs[place]
    return name if index.dtype in (int32, int64) else given.graph.cast(name, int64)


@exporter(Embedding, GatherRows)
def gather_rows(given: Given) -> str:
    """Rows of the middle axis by one list of indices."""
    index = _index(given)
    if given.step.inputs[1].ndim != 1:
        index = given.graph.add("Reshape", index, given.graph.integers([-1]))
    return given.graph.add("Gather", given.names[0], index, axis=1)


@exporter(Gather)
def gather(given: Given) -> str:
    """An element of the axis for each index."""
    x, index = given.shape(0), given.shape(1)
    dim = given.function.dim
    graph, name = given.graph, given.names[0]
    if any(a != b for d, (a, b) in enumerate(zip(x, index, strict=True)) if d != dim):
        axes = [d for d in range(len(x)) if d != dim]  # PyTorch's index may be smaller there
        ends = graph.shape([index[d] for d in axes])
        name = graph.add("Slice", name, graph.integers([0] * len(axes)), ends, graph.integers(axes))
    return graph.add("GatherElements", name, _index(given), axis=dim)


@exporter(Scatter)
def scatter(given: Given) -> str:
    """The first input with the second at indices."""
    x, source, _ = given.names
    return given.graph.add("ScatterElements", x, _index(given, 2), source, axis=given.function.dim)


def _added(given: Given, index: str, source: str, axis: int) -> str:
    """Zeros with elements added at indices."""
    y = given.step.outputs[0].dtype
    held = int32 if y is bool_ else y
    zero = library().numpy_helper.from_array(np.zeros(1, held.numpy))
    zeros = given.graph.add("ConstantOfShape", given.graph.shape(given.made()), value=zero)
    return given.graph.add("ScatterElements", zeros, index, source, axis=axis, reduction="add")


@exporter(GatherBackward, varies="shape")
def scatter_add(given: Given) -> str:
    """Zeros with elements added along an axis, as :func:`gather` picks them."""
    return _added(given, _index(given), given.names[0], given.function.dim)


@exporter(GatherRowsBackward)
def add_rows(given: Given) -> str:
    """Zeros with rows added, as :func:`gather_rows` picks them; those of no row are left out."""
    of, graph, source = given.function, given.graph, given.names[0]
    index = graph.add("Reshape", graph.cast(given.names[1], int64), graph.integers([1, -1, 1]))
    nowhere: list[str] = []
    if not of.wrap:
        below = graph.add("Less", index, graph.constant(0, np.int64))
        nowhere += [below, graph.add("GreaterOrEqual", index, graph.constant(of.rows, np.int64))]
    if of.skip >= 0:
        nowhere.append(graph.add("Equal", index, graph.constant(of.skip, np.int64)))
    for left in nowhere:
        zero = graph.constant(0, given.step.inputs[0].dtype.numpy)
        source = graph.add("Where", left, zero, source)
        index = graph.add("Where", left, graph.constant(0, np.int64), index)
    whole = graph.add("Expand", index, graph.shape(given.shape()))
    return _added(given, whole, source, 1)


@exporter(ReplaceRows)
def replace_rows(given: Given) -> str:
    """The first input with rows of the second: of rows behind each other, by their numbers."""
    if given.step.inputs[0].shape[0] != 1:
        raise NotExported(given.function.name, "rows within several tables have no node")
    graph = given.graph
    x, value, _ = given.names
    flat = [graph.add("Squeeze", name, graph.integers([0])) for name in (x, value)]
    rows = graph.add("Unsqueeze", graph.cast(_index(given, 2), int64), graph.integers([1]))
    made = graph.add("ScatterND", flat[0], rows, flat[1])
    return graph.add("Unsqueeze", made, graph.integers([0]))


@exporter(FoldIndices)
def fold_indices(given: Given) -> str:
    """Several indices as one into the flattened axes."""
    graph, sizes = given.graph, given.function.sizes
    total: str | None = None
    for name, size, stride in zip(given.names, sizes, contiguous_strides(sizes), strict=True):
        wide = graph.cast(name, int64)
        inside = graph.add("Mod", wide, graph.constant(size, np.int64))
        part = graph.add("Mul", inside, graph.constant(stride, np.int64))
        total = part if total is None else graph.add("Add", total, part)
    return graph.cast(total or graph.constant(0, np.int64), int32)


@exporter(Reduce)
def reduce(given: Given) -> str:
    """Sums, products, means and extremes over axes."""
    of, graph = given.function, given.graph
    (name,), x, y = given.names, given.step.inputs[0], given.step.outputs[0]
    dtype = y.dtype
    if of.kind in (Reduction.ANY, Reduction.ALL):
        name = name if x.dtype is bool_ else graph.cast(name, bool_)
        name, dtype = graph.cast(name, int32), int32
    elif x.dtype is not y.dtype:
        name = graph.cast(name, y.dtype)
    elif x.dtype is bool_:
        name, dtype = graph.cast(name, int32), int32
    made = graph.reduced(_REDUCED[of.kind], name, of.dims or None, keepdims=of.keepdim)
    return made if dtype is y.dtype else graph.cast(made, y.dtype)


@exporter(PairSum)
def pair_sum(given: Given) -> str:
    """Sums over axes of products, or of squares or exponentials of differences."""
    of, graph = given.function, given.graph
    if of.kind is Pairing.PRODUCT:
        made = graph.add("Mul", *given.names)
    else:
        apart = graph.add("Sub", *given.names)
        squared = of.kind is Pairing.SQUARED_DISTANCE
        made = graph.add("Mul", apart, apart) if squared else graph.add("Exp", apart)
    return graph.reduced("ReduceSum", made, of.dims or None, keepdims=of.keepdim)


@exporter(Spread)
def spread(given: Given) -> tuple[str, str]:
    """The mean of squared distances from the mean, or its root, and the mean."""
    of, graph, (x,) = given.function, given.graph, given.names
    axes, keep = of.dims or None, of.keepdim
    apart = graph.add("Sub", x, graph.reduced("ReduceMean", x, axes, keepdims=True))
    total = graph.reduced("ReduceSum", graph.add("Mul", apart, apart), axes, keepdims=keep)
    made = graph.add("Div", total, graph.constant(of.divisor, given.step.outputs[0].dtype.numpy))
    mean = graph.reduced("ReduceMean", x, axes, keepdims=keep)
    return graph.add("Sqrt", made) if of.root else made, mean


def _plain(given: Given, x: Array) -> str:
    """An operand whose extremes ONNX finds."""
    return given.graph.cast(given.names[0], int32) if x.dtype is bool_ else given.names[0]


def _found(given: Given, name: str) -> str:
    of = given.function
    op = "ArgMax" if of.kind is Reduction.MAX else "ArgMin"
    return given.graph.add(op, name, axis=of.dim, keepdims=int(of.keepdim))


@exporter(ArgExtreme)
def arg_extreme(given: Given) -> str:
    """Where the first extreme is."""
    return _found(given, _plain(given, given.step.inputs[0]))


@exporter(ArgReduce)
def arg_reduce(given: Given) -> tuple[str, str]:
    """The extreme, and where the first one is."""
    of, graph, x = given.function, given.graph, given.step.inputs[0]
    name = _plain(given, x)
    value = graph.reduced(_REDUCED[of.kind], name, [of.dim], keepdims=of.keepdim)
    value = graph.cast(value, bool_) if x.dtype is bool_ else value
    return value, _found(given, name)


@exporter(Cumulate)
def cumulate(given: Given) -> str:
    """Running sums."""
    of = given.function
    if of.kind is not Scan.SUM:
        raise NotExported(of.name, "running products have no node")
    axis = given.graph.constant(of.dim, np.int64)
    return given.graph.add("CumSum", given.names[0], axis, reverse=int(of.reverse))


@exporter(Sort)
def sort(given: Given) -> tuple[str, ...]:
    """The last axis in order, and where its elements were."""
    graph = given.graph
    count = graph.shape(given.shape()[-1:])
    inputs = [given.names[0], count]
    largest = int(given.function.descending)
    return tuple(graph.add_all("TopK", inputs, 2, axis=-1, largest=largest, sorted=1))
