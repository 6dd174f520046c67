"""Windows as columns and back, where their largest elements are, and values put back there."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ops.patches import Fold, Unfold
from ...ops.pool import WindowMax
from ...ops.pool_nd import MaxUnpool
from .registry import Given, NotExported, exporter


def _each(given: Given) -> str:
    """A filter for each channel and place of a window, 1 at that place, 0 elsewhere."""
    g = given.function.geometry
    filters = np.tile(np.eye(g.kh * g.kw), (g.ic, 1)).reshape(-1, 1, g.kh, g.kw)
    return given.graph.constant(filters, given.step.inputs[0].dtype.numpy)


@exporter(Unfold, varies="geometry")
def unfold(given: Given) -> str:
    """The patches of images: what filters with a single 1 give."""
    g, graph = given.function.geometry, given.graph
    sizes = [g.h, g.w], [g.oh, g.ow], [g.kh, g.kw], [g.sh, g.sw], [g.ph, g.pw], [g.dh, g.dw]
    given.fixed(given.shape()[1:], "an image that is taken apart")
    behind = [
        max((out - 1) * step + gap * (k - 1) + 1 - n - pad, 0)
        for n, out, k, step, pad, gap in zip(*sizes, strict=True)
    ]
    columns = graph.add(
        "Conv",
        given.names[0],
        _each(given),
        kernel_shape=(g.kh, g.kw),
        strides=(g.sh, g.sw),
        pads=(g.ph, g.pw, *behind),
        dilations=(g.dh, g.dw),
        group=g.ic,
    )
    return graph.reshape(columns, given.made(), [])


@exporter(Fold, varies="geometry")
def fold(given: Given) -> str:
    """The sum of patches where they lie: the gradient of :func:`unfold`'s convolution."""
    g, graph = given.function.geometry, given.graph
    given.fixed(given.made()[1:], "an image that is put together")
    sizes = [g.h, g.w], [g.oh, g.ow], [g.kh, g.kw], [g.sh, g.sw], [g.ph, g.pw], [g.dh, g.dw]
    extra = [
        n - (out - 1) * step - gap * (k - 1) - 1 + 2 * pad
        for n, out, k, step, pad, gap in zip(*sizes, strict=True)
    ]
    shape = given.shape()
    flat = [shape[0], given.dynamic.size([g.ic * g.kh * g.kw] * len(given.steps)), *shape[4:]]
    return graph.add(
        "ConvTranspose",
        graph.reshape(given.names[0], flat, []),
        _each(given),
        kernel_shape=(g.kh, g.kw),
        strides=(g.sh, g.sw),
        pads=(g.ph, g.pw, g.ph, g.pw),
        dilations=(g.dh, g.dw),
        group=g.ic,
        output_padding=extra,
    )


@exporter(WindowMax)
def window_max(given: Given) -> str:
    """Where in its volume the largest of each window, or of each of equal parts, is."""
    of, graph, shape = given.function, given.graph, given.shape()
    volume = given.fixed(shape[-3:], "the size of what is pooled")
    if of.window is None:
        if any(n % k for n, k in zip(volume, of.size, strict=True)):
            raise NotExported(of.op_name, "parts of different sizes have no node")
        kernel = steps = [n // k for n, k in zip(volume, of.size, strict=True)]
        pads, gaps = (0, 0, 0), (1, 1, 1)
    else:
        kernel, steps, pads, gaps = of.window
    behind = [
        (out - 1) * step + gap * (k - 1) + 1 - n - pad
        for n, out, k, step, pad, gap in zip(
            volume, of.size, kernel, steps, pads, gaps, strict=True
        )
    ]
    if any(more > pad for more, pad in zip(behind, pads, strict=True)):
        raise NotExported(of.op_name, "windows that reach over the end are not counted")
    five = [given.dynamic.size([1] * len(given.steps))] * (5 - len(shape)) + shape
    _, found = graph.add_all(
        "MaxPool",
        [graph.reshape(given.names[0], five, [])],
        2,
        kernel_shape=kernel,
        strides=steps,
        pads=(*pads, *(max(more, 0) for more in behind)),
        dilations=gaps,
    )
    return graph.reshape(within(given, found, prod(volume)), given.made(), [])


def within(given: Given, found: str, elements: int) -> str:
    """Places within each plane or volume, of those among all elements that ``MaxPool`` tells."""
    return given.graph.add("Mod", found, given.graph.constant(elements, np.int64))


@exporter(MaxUnpool)
def max_unpool(given: Given) -> str:
    """Zeros with values at positions."""
    graph, x = given.graph, given.step.inputs[0]
    zeros = graph.constant(np.zeros((1, given.function.size, 1)), x.dtype.numpy)
    index = graph.add("Reshape", given.names[1], graph.integers([1, -1, 1]))
    return graph.add("ScatterElements", zeros, index, given.names[0], axis=1)
