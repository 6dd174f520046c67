"""Convolutions, products, norms, pooling, softmax and attention."""

from __future__ import annotations

from math import prod

import numpy as np

from ...compile.tracer import Step
from ...ops.attention import Attention
from ...ops.axis_map import AxisMap
from ...ops.conv import Conv2d, ConvInputGrad
from ...ops.group_norms import GroupNorm
from ...ops.matmul import Linear, MatMul
from ...ops.pool import AdaptiveAvgPool, AvgPool, MaxPool
from ...ops.row_norm import RowNorm
from ...ops.softmax import Softmax
from ...values.dtypes import from_name, int64
from ..protos import library
from ..sizes import Size
from .registry import Given, NotExported, exporter
from .windows import within


@exporter(Conv2d)
def conv2d(given: Given) -> str:
    """Filters that move over images."""
    of = given.function.settings
    return given.graph.add(
        "Conv",
        *given.names,
        kernel_shape=given.step.inputs[1].shape[2:],
        strides=of.stride,
        pads=(*of.before, *of.after),
        dilations=of.dilation,
        group=of.groups,
    )


@exporter(ConvInputGrad, varies="x_shape")
def conv_transpose(given: Given) -> str:
    """A convolution's gradient to its input, taken forward."""
    of = given.function.settings
    places = range(2)

    def extra(step: Step) -> list[int]:
        function: ConvInputGrad = step.function  # pyrefly: ignore[bad-assignment] - the exporter's
        gy, weight = step.inputs
        return [
            function.x_shape[2 + i]
            - (gy.shape[2 + i] - 1) * of.stride[i]
            - of.dilation[i] * (weight.shape[2 + i] - 1)
            - 1
            + of.before[i]
            + of.after[i]
            for i in places
        ]

    return given.graph.add(
        "ConvTranspose",
        *given.names,
        kernel_shape=given.step.inputs[1].shape[2:],
        strides=of.stride,
        pads=(*of.before, *of.after),
        dilations=of.dilation,
        group=of.groups,
        output_padding=given.fixed(given.sizes(extra), "what is added behind"),
    )


@exporter(MatMul)
def matmul(given: Given) -> str:
    """Products of stacks of matrices."""
    return given.graph.add("MatMul", *given.names)


@exporter(Linear)
def linear(given: Given) -> str:
    """``x @ weight.T + bias``."""
    return given.graph.add("Gemm", *given.names, transB=1)


@exporter(RowNorm)
def row_norm(given: Given) -> tuple[str | None, ...]:
    """Rows by their mean and deviation, of which opset 17 has a node, or by their root mean square.

    (This has one from opset 23 on, which few programs know.)
    """
    of, graph, x = given.function, given.graph, given.step.inputs[0]
    (n,) = given.fixed(given.shape()[1:], "the length of a normalised row")
    wide = from_name(x.dtype.compute)
    name, *affine = _widened(given)
    weight = affine[0] if of.weighted else graph.constant(np.ones(n, wide.numpy))
    bias = affine[-1] if of.biased else None
    if of.centred and graph.opset >= 17:
        y = graph.add("LayerNormalization", name, weight, bias, axis=-1, epsilon=of.eps)
        return (_narrowed(given, y), None, None)
    if of.centred:
        name = graph.add("Sub", name, graph.reduced("ReduceMean", name, [1], keepdims=True))
    mean = graph.reduced("ReduceMean", graph.add("Mul", name, name), [1], keepdims=True)
    root = graph.add("Sqrt", graph.add("Add", mean, graph.constant(of.eps, wide.numpy)))
    y = graph.add("Div", name, root)
    y = graph.add("Mul", y, weight) if of.weighted else y
    y = y if bias is None else graph.add("Add", y, bias)
    return (_narrowed(given, y), *[None] * (1 + of.centred))


def _widened(given: Given) -> list[str]:
    """The inputs; 16-bit floats in what their arithmetic is done in."""
    graph, kinds = given.graph, [from_name(x.dtype.compute) for x in given.step.inputs]
    return [
        name if x.dtype is kind else graph.cast(name, kind)
        for name, x, kind in zip(given.names, given.step.inputs, kinds, strict=True)
    ]


def _narrowed(given: Given, name: str) -> str:
    """A result in the dtype of the first output."""
    dtype = given.step.outputs[0].dtype
    return name if dtype.compute == dtype.name else given.graph.cast(name, dtype)


@exporter(GroupNorm)
def group_norm(given: Given) -> tuple[str | None, ...]:
    """Groups of channels as the channels of an instance norm, then weight and bias."""
    of, graph, x = given.function, given.graph, given.step.inputs[0]
    name, *affine = given.names
    groups, members = given.fixed(given.shape()[1:3], "the number of channels")
    own = members == 1 and of.weighted and of.biased
    ones, zeros = (graph.constant(np.full(groups, v, x.dtype.numpy)) for v in (1, 0))
    scales = [graph.unreshaped(v, (groups,)) for v in affine] if own else [ones, zeros]
    shape = given.shape()
    flat = graph.add("Reshape", name, graph.integers([0, groups, -1]))
    flat = graph.add("InstanceNormalization", flat, *scales, epsilon=of.eps)
    y = graph.reshape(flat, shape, [])
    if not own:
        each = graph.integers([1, groups, members, 1])
        for op, value in zip(["Mul"] * of.weighted + ["Add"] * of.biased, affine, strict=True):
            y = graph.add(op, y, graph.add("Reshape", value, each))
    return (y, None, None, None)


def _planes(given: Given, op: str, **settings: object) -> str:
    """A pooling of planes, which ONNX has of four axes."""
    return _all_of_planes(given, op, 1, **settings)[0]


def _all_of_planes(given: Given, op: str, count: int, **settings: object) -> list[str]:
    """The results of a pooling of planes."""
    graph, name, shape = given.graph, given.names[0], given.shape()
    if len(shape) == 4:
        return graph.add_all(op, [name], count, **settings)
    four = [given.dynamic.size([1] * len(given.steps))] * (4 - len(shape)) + shape
    flat = graph.reshape(name, four, [])
    made = graph.add_all(op, [flat], count, **settings)
    return [graph.reshape(y, given.made(), []) for y in made]


def _pads(given: Given, reach: tuple[int, int], *, counted: bool) -> tuple[int, ...]:
    """Paddings before and behind, so that there are as many windows as the op has."""
    window = given.function.window
    before = (window.ph, window.pw)
    steps, behind = (window.sh, window.sw), []
    for i in range(2):
        pads = set()
        for step in given.steps:
            n, wanted = step.inputs[0].shape[i - 2], step.outputs[0].shape[i - 2]
            same = (n + 2 * before[i] - reach[i]) // steps[i] + 1 == wanted
            more = (wanted - 1) * steps[i] + reach[i] - n - before[i]
            pads.add(before[i] if same else more)
        if len(pads) > 1 or (counted and pads != {before[i]}):
            raise NotExported(
                given.function.name,
                "windows that reach over the end are not counted, nor at some sizes alone",
            )
        behind.append(pads.pop())
    return (*before, *behind)


@exporter(MaxPool, varies="size")
def max_pool(given: Given) -> tuple[str | None, ...]:
    """Maxima of windows, and where in planes of known sizes they were."""
    w, shape = given.function.window, given.shape()
    reach = (w.dh * (w.kh - 1) + 1, w.dw * (w.kw - 1) + 1)
    plane = [size.number for size in shape[-2:]]
    told = len(given.step.outputs) > 1 and None not in plane
    y, *places = _all_of_planes(
        given,
        "MaxPool",
        1 + told,
        kernel_shape=(w.kh, w.kw),
        strides=(w.sh, w.sw),
        pads=_pads(given, reach, counted=False),
        dilations=(w.dh, w.dw),
    )
    if not told:
        return (y, None)[: len(given.step.outputs)]
    index = within(given, places[0], prod(n for n in plane if n is not None))
    dtype = given.function.index_dtype
    return y, index if dtype is int64 else given.graph.cast(index, dtype)


@exporter(AvgPool, varies="size")
def avg_pool(given: Given) -> str:
    """Means of windows."""
    of, w = given.function, given.function.window
    padded = bool(w.ph or w.pw)
    if of.divisor:
        raise NotExported(of.name, "a divisor of its own has no node")
    return _planes(
        given,
        "AveragePool",
        kernel_shape=(w.kh, w.kw),
        strides=(w.sh, w.sw),
        pads=_pads(given, (w.kh, w.kw), counted=padded and of.include_pad),
        count_include_pad=int(padded and of.include_pad),
    )


@exporter(AdaptiveAvgPool)
def adaptive_avg_pool(given: Given) -> str:
    """Means of parts: of all, of equal windows, or by a product with a matrix on each side."""
    size = given.function.size
    if size == (1, 1):
        return _planes(given, "GlobalAveragePool")
    planes = given.fixed(given.shape()[-2:], "the size of planes")
    if all(n % k == 0 for n, k in zip(planes, size, strict=True)):
        window = tuple(n // k for n, k in zip(planes, size, strict=True))
        return _planes(given, "AveragePool", kernel_shape=window, strides=window)
    graph, kind = given.graph, given.step.inputs[0].dtype.numpy
    down, across = (_shares(n, k) for n, k in zip(planes, size, strict=True))
    rows = graph.add("MatMul", graph.constant(down, kind), given.names[0])
    return graph.add("MatMul", rows, graph.constant(across.T, kind))


def _shares(n: int, parts: int) -> np.ndarray:
    """``(parts, n)``: of each part what every element counts."""
    shares = np.zeros((parts, n))
    for i in range(parts):
        low, high = i * n // parts, -(-(i + 1) * n // parts)
        shares[i, low:high] = 1 / (high - low)
    return shares


@exporter(AxisMap, varies="table")
def axis_map(given: Given) -> str:
    """A sparse map along the middle axis: rows that are picked, or a product with its matrix."""
    graph, x = given.graph, given.step.inputs[0]
    given.fixed([given.shape()[1]], "an axis that is resized")
    table = given.function.table
    if table.weight is None and table.terms == 1:
        return graph.add("Gather", given.names[0], graph.integers(table.index), axis=1)
    matrix = np.zeros((table.n, table.rows))
    rows = np.repeat(np.arange(table.n), np.diff(table.starts))
    np.add.at(matrix, (rows, table.index), 1 if table.weight is None else table.weight)
    return graph.add("MatMul", graph.constant(matrix, x.dtype.numpy), given.names[0])


@exporter(Softmax)
def softmax(given: Given) -> str:
    """Softmax along an axis, or its logarithm."""
    of = given.function
    (name,) = _widened(given)
    return _narrowed(
        given, given.graph.add("LogSoftmax" if of.log else "Softmax", name, axis=of.dim)
    )


@exporter(Attention)
def attention(given: Given) -> tuple[str | None, ...] | None:
    """Products and a softmax; with a mask as the op itself says, which knows rows without keys."""
    of, graph = given.function, given.graph
    q, k, _, *mask = given.step.inputs
    if mask or of.counter is not None or q.shape[1] != k.shape[1]:
        return None
    query, key, value = given.names
    kind = q.dtype.numpy
    turned = graph.add("Transpose", key, perm=(0, 1, 3, 2))
    scaled = graph.add("Mul", query, graph.constant(of.scores.scale, kind))
    scores = graph.add("MatMul", scaled, turned)
    if of.scores.causal:
        sizes = [given.shape(0)[2], given.shape(1)[2]]
        scores = graph.add("Add", scores, _ahead(given, sizes))
    return (graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value), None)


def _ahead(given: Given, sizes: list[Size]) -> str:
    """Minus infinity where a key lies behind a row's own place, else 0."""
    graph, kind = given.graph, given.step.inputs[0].dtype.numpy
    known = [size.number for size in sizes if size.number is not None]
    if len(known) == len(sizes):
        return graph.constant(np.triu(np.full(known, -np.inf), 1), kind)
    value = library().numpy_helper.from_array(np.array([-np.inf], kind))
    whole = graph.add("ConstantOfShape", graph.shape(sizes), value=value)
    return graph.add("Trilu", whole, graph.constant(1, np.int64), upper=1)
