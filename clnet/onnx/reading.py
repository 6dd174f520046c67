"""From a file to a module."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, OnnxError, refusal
from ..values.arguments import shown
from . import protos
from .contributed import spelled
from .elements import Known
from .inputs import input_specs
from .lowering import lower_integers
from .module import ImportedModule
from .program import Context, Missing, build, missing_text
from .rewriting import recognise

__all__ = ["load"]

_LARGEST = 2**31 - 1  # bytes of a protobuf message
# Inputs that no training changes: sizes, bounds, running statistics, scales.
_SETTINGS = {
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "OneHot": (1, 2),
    "Pad": (1, 2, 3),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
}


def load(path: Any) -> ImportedModule:
    """Read a model.

    Initialisers of floating types are parameters, trainable as they are; numbers without axes,
    running statistics of batch norms, scales, bounds, paddings and masks (with infinities, or
    numbers beyond 1e30) are constants. Nothing runs before all nodes are known to have a handler
    (:func:`clnet.onnx.handler` adds them).

    Args:
        path: a file, one open to read bytes, its bytes, or an ``onnx.ModelProto``. External
            data is read from the file's own folder alone.

    Returns:
        The module, in evaluation or training alike.

    Raises:
        OnnxError: if it is no model, damaged, or has nodes that clnet does not compute: all of
            them are named, with counts.
        ArgumentError: if the package ``onnx`` is not installed, or ``path`` is nothing of these.
    """
    model, folder = _model(path)
    graph = model.graph
    arrays = protos.initialisers(graph, folder)
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    missing = Missing()
    context = Context(protos.opsets(model), functions, missing)
    nodes = list(spelled(graph.node, context.opsets.get("", 1), functions))
    settings = _settings(nodes)
    weights = {
        n: a
        for n, a in arrays.items()
        if a.dtype.name in _TRAINABLE and a.ndim and n not in settings and not _masks(a)
    }
    constants = {n: Known(a) for n, a in arrays.items() if n not in weights}
    names = [value.name for value in graph.input]
    if len({*names}) < len(names):
        raise OnnxError("onnx.load", "inputs have different names", inputs=names)
    outputs = [value.name for value in graph.output]
    # Older models list initialisers among the inputs: they are defaults that a caller may replace.
    asked = tuple(n for n in names if n not in arrays)
    replaced = {n: c for n, c in constants.items() if n not in names}
    defaults = {n: c for n, c in constants.items() if n in names}
    known = frozenset({*names, *weights, *defaults})
    program = build(nodes, (), outputs, {**replaced}, context, known)
    if missing.counts:
        raise OnnxError(
            "onnx.load",
            f"clnet does not compute all of it: {missing_text(missing)}",
            remedy="clnet.onnx.handler registers a function for an op",
        )
    recognise(program)
    lower_integers(program)
    specs = input_specs(graph.input, asked)
    optional = frozenset(names) & {*arrays}
    return ImportedModule(program, weights, asked, optional, specs, defaults)


_TRAINABLE = {"float16", "float32", "float64", "bfloat16"}


def _settings(nodes: Any) -> set[str]:
    """Names of what nodes read as a setting."""
    return {
        node.input[place]
        for node in nodes
        for place in _SETTINGS.get(node.op_type, ())
        if place < len(node.input)
    }


def _masks(array: np.ndarray) -> bool:
    """Whether an initialiser excludes something, as no weight could."""
    most = 6e4 if array.dtype.name == "float16" else 1e30
    return array.size > 0 and bool(array.max() > most or array.min() < -most)


def _model(path: Any) -> tuple[Any, Path | None]:
    onnx = protos.library()
    if isinstance(path, onnx.ModelProto):
        return path, None
    data = path.read() if hasattr(path, "read") else path
    if isinstance(data, bytes):
        return protos.parsed(data, "bytes"), None
    if not isinstance(path, (str, PathLike)):
        law = "a model is a file, its bytes or an onnx.ModelProto"
        raise ArgumentError("onnx.load", law, path=shown(path))
    file = Path(path)
    try:
        size = file.stat().st_size
        if size > _LARGEST:
            raise OnnxError("onnx.load", "a model has less than 2 GiB", file=path, size=size)
        return protos.parsed(file.read_bytes(), str(path)), file.parent
    except OSError as error:
        raise OnnxError(
            "onnx.load", "the file can be read", file=path, reason=refusal(error)
        ) from error
