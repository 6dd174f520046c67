"""A module made to compute in 8 bits: its graph, the ranges of its activations, its filters.

The graph is what the exporter writes, batch norms folded into filters; ranges are what a loader's
batches give; what is made is a model of ONNX with ``QuantizeLinear`` and ``DequantizeLinear``
around its layers, which is read as any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..creation import as_tensor
from ..device import DOTS, current_device
from ..errors import ArgumentError, OnnxError
from ..nn.module import Module
from ..tensor import Tensor
from ..values import mode
from . import protos
from .exporting import export
from .filters import fold_batch_norms, quantised_filters
from .images import taken
from .module import ImportedModule
from .reading import load
from .saving import save

__all__ = ["quantize"]

_TOP = 255
_MATRIX, _IMAGES = 2, 4


def quantize(
    model: Module,
    loader: Iterable[Any],
    *,
    num_batches: int | None = None,
    reduce_range: bool | None = None,
    per_channel: bool = True,
    exclude: Sequence[str] = (),
    path: Any = None,
) -> ImportedModule:
    """A module that computes in 8 bits what another computes in evaluation.

    Static quantisation after training: convolutions and dense layers get int8 filters and uint8
    activations, whose ranges are the least and largest numbers seen while ``loader``'s batches run
    through the model. Batch norms are folded into filters, sums and ReLUs are computed with the
    layer before them. Depthwise convolutions, attention and all else stay float32.

    Args:
        model: in float32, with a first axis of examples in its inputs and result.
        loader: batches: tensors or arrays, or tuples of which the first are the model's inputs.
        num_batches: how many of them; None: all.
        reduce_range: whether the scales of filters are coarser, by 1.8 usually, so that sums of
            four products fit in 16 bits, which processors without instructions for 32 (AVX2) are
            faster with; None: where the model's device is one of those.
        per_channel: whether each output channel has a scale of its own.
        exclude: names of layers that stay float32, with all in them: ``("fc",)``.
        path: a file that the quantised model is written to, for :func:`clnet.onnx.load` or another
            runtime.

    Returns:
        The module, for evaluation, of batches of any size; of the first one's where the model
        computes no other. It has no parameters of quantised layers.

    Raises:
        ArgumentError: if the loader gives nothing, the model has no layer to quantise, or the
            package ``onnx`` is not installed.
        OnnxError: if the model cannot be exported.

    Example:
        >>> import clnet
        >>> model = clnet.nn.Sequential(clnet.nn.Linear(4, 8), clnet.nn.ReLU())
        >>> batches = [clnet.randn(16, 4) for _ in range(3)]
        >>> quantised = clnet.quantize(model, batches)
        >>> quantised(batches[0]).shape
        (16, 8)
    """
    if isinstance(exclude, str):
        raise ArgumentError("quantize", "exclude is a list of names", exclude=exclude)
    if num_batches is not None and num_batches < 1:
        raise ArgumentError("quantize", "num_batches is at least 1", num_batches=num_batches)
    where = next((p.device for p in model.parameters()), current_device())
    with mode.using(device=where), no_grad():
        names = _input_names(model)
        batches = islice((_inputs(b, len(names)) for b in loader), num_batches)
        first = next(batches, None)
        if first is None:
            raise ArgumentError("quantize", "the loader gives a batch")
        proto = _exported(model, first, names[: len(first)])
        graph = _Graph(proto)
        layers = graph.layers(tuple(exclude))
        if not layers:
            raise ArgumentError("quantize", "the model has a convolution or dense layer")
        tensors = graph.tensors(layers)
        ranges = _ranges(proto, tensors, [first], batches)
        if reduce_range is None:
            reduce_range = bool(DOTS[first[0].device.integer_dot].narrow)
        graph.quantise(layers, ranges, per_channel=per_channel, narrow=reduce_range)
        save(proto, path, external=None)
        return load(proto)


def _exported(model: Module, first: tuple[Tensor, ...], names: list[str]) -> Any:
    """The model for batches of any size, or of one, where it is for one."""
    axes = {name: {0: "batch"} for name in names}
    try:
        return export(model, first, input_names=names, dynamic_axes=axes)
    except OnnxError:
        return export(model, first, input_names=names)


def _input_names(model: Module) -> list[str]:
    """Parameters of ``forward`` that have no default; inputs of a model of ONNX."""
    if isinstance(model, ImportedModule):
        return list(model.input_names)
    found = inspect.signature(model.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in kinds and p.default is p.empty] or ["input"]


def _inputs(batch: Any, count: int) -> tuple[Tensor, ...]:
    """The model's inputs of what a loader gives."""
    parts = tuple(batch)[:count] if isinstance(batch, tuple | list) else (batch,)
    return tuple(part if isinstance(part, Tensor) else as_tensor(part) for part in parts)


def _ranges(
    proto: Any, tensors: dict[str, str], first: list[Any], batches: Iterable[Any]
) -> dict[str, tuple[float, float]]:
    """The least and largest number of tensors over all batches, by whose they are."""
    helper = protos.library().helper
    looking = type(proto)()
    looking.CopyFrom(proto)
    made: list[str] = []
    for name in tensors:
        for op in ("ReduceMin", "ReduceMax"):
            made.append(f"{name}/{op}")
            looking.graph.node.append(helper.make_node(op, [name], [made[-1]], keepdims=0))
    del looking.graph.output[:]
    looking.graph.output.extend(helper.make_tensor_value_info(name, 1, []) for name in made)
    model = load(looking)
    found = dict.fromkeys(tensors.values(), (inf, -inf))
    for batch in (*first, *batches):
        seen = [float(value.numpy()) for value in model(*batch)]
        for i, like in enumerate(tensors.values()):
            low, high = found[like]
            found[like] = min(low, seen[2 * i]), max(high, seen[2 * i + 1])
    return found


class _Graph:
    """An exported graph that is rewritten."""

    def __init__(self, proto: Any) -> None:
        self._onnx = protos.library()
        self._graph = proto.graph
        fold_batch_norms(self._graph)
        self._arrays = protos.initialisers(self._graph)
        self._makers = {name: node for node in self._graph.node for name in node.output}
        self._before: list[Any] = []
        self._readers: dict[str, list[Any]] = {}
        for node in self._graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def layers(self, exclude: tuple[str, ...]) -> list[Any]:
        """Nodes that the kernels compute."""
        return [node for node in self._graph.node if self._is_layer(node, exclude)]

    def _is_layer(self, node: Any, exclude: tuple[str, ...]) -> bool:
        if node.op_type not in {"Conv", "Gemm", "MatMul"} or node.input[0] in self._arrays:
            return False
        weight = self._arrays.get(node.input[1])
        if weight is None or weight.dtype != np.float32:
            return False
        if any(node.input[1] == n or node.input[1].startswith(f"{n}.") for n in exclude):
            return False
        given = {a.name: self._onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv":
            return weight.ndim == _IMAGES and taken(weight.shape, given.get("group", 1))
        scaled = given.get("alpha", 1) != 1 or given.get("beta", 1) != 1 or given.get("transA")
        known = all(name in self._arrays for name in node.input[2:])
        return weight.ndim == _MATRIX and not scaled and known

    def tensors(self, layers: list[Any]) -> dict[str, str]:
        """What is quantised: names, and of each the tensor whose range it has."""
        found = {node.input[0]: node.input[0] for node in layers}
        makers = {node.output[0] for node in layers}
        for node in self._graph.node:
            if node.op_type == "Add" and not any(n in self._arrays for n in node.input):
                made = [name for name in node.input if name in makers]
                if made and not any(name in found for name in node.input):
                    other = next((n for n in node.input if n != made[0]), made[0])
                    found.setdefault(other, other)
        for node in reversed(self._graph.node):
            if node.op_type == "MaxPool" and node.output[0] in found and len(node.output) == 1:
                found.setdefault(node.input[0], node.input[0])
                found[node.output[0]] = node.input[0]
        for name in found:  # a pool behind a pool has the range of the first
            while found[found[name]] != found[name]:
                found[name] = found[found[name]]
        return found

    def quantise(
        self,
        layers: list[Any],
        ranges: dict[str, tuple[float, float]],
        *,
        per_channel: bool,
        narrow: bool,
    ) -> None:
        """Put nodes that quantise around the layers."""
        tensors = self.tensors(layers)
        scales = {name: _scale(*ranges[like]) for name, like in tensors.items()}
        for node in layers:
            self._filters(node, scales[node.input[0]][0], per_channel=per_channel, narrow=narrow)
        nodes = list[Any]()
        for name in tensors:
            if name not in self._makers:
                nodes += self._around(name, *scales[name])
        for node in self._graph.node:
            nodes.append(node)
            for name in node.output:
                if name in tensors:
                    nodes += self._around(name, *scales[name])
        del self._graph.node[:]
        self._graph.node.extend(self._before + nodes)
        used = {name for node in self._graph.node for name in node.input}
        left = [i for i in self._graph.initializer if i.name in used]
        del self._graph.initializer[:]
        self._graph.initializer.extend(left)

    def _add(self, name: str, array: np.ndarray) -> str:
        self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def _around(self, name: str, scale: np.float32, zero: np.uint8) -> list[Any]:
        """Nodes that quantise a tensor, whose readers then read what these make."""
        numbers = (
            self._add(f"{name}/scale", np.array(scale)),
            self._add(f"{name}/zero", np.array(zero)),
        )
        make = self._onnx.helper.make_node
        for node in self._readers.get(name, []):
            node.input[:] = [f"{name}/floats" if n == name else n for n in node.input]
        return [
            make("QuantizeLinear", [name, *numbers], [f"{name}/numbers"]),
            make("DequantizeLinear", [f"{name}/numbers", *numbers], [f"{name}/floats"]),
        ]

    def _filters(self, node: Any, given: np.float32, *, per_channel: bool, narrow: bool) -> None:
        """A layer's filters and bias as integers, and the nodes that make floats of them."""
        weight, *bias = node.input[1:]
        w = self._arrays[weight]
        transposed = node.op_type != "Conv" and not any(
            a.name == "transB" and a.i for a in node.attribute
        )
        axis = 1 if transposed else 0
        filters, scale = quantised_filters(
            w.T if transposed else w, per_channel=per_channel, narrow=narrow
        )
        held = filters.T if transposed else filters
        place = f"{node.output[0]}/filters"
        names = self._add(place, np.ascontiguousarray(held)), self._add(f"{place}/scale", scale)
        zero = self._add(f"{place}/zero", np.zeros(scale.shape, np.int8))
        make = self._onnx.helper.make_node
        self._before.append(
            make("DequantizeLinear", [*names, zero], [f"{place}/floats"], axis=axis)
        )
        node.input[1] = f"{place}/floats"
        if bias and bias[0]:
            factor = given * scale
            low, high = np.iinfo(np.int32).min // 2, np.iinfo(np.int32).max // 2
            whole = np.clip(np.rint(self._arrays[bias[0]] / factor.astype(np.float64)), low, high)
            place = f"{node.output[0]}/bias"
            names = self._add(place, whole.astype(np.int32)), self._add(f"{place}/scale", factor)
            zero = self._add(f"{place}/zero", np.zeros(scale.shape, np.int32))
            self._before.append(
                make("DequantizeLinear", [*names, zero], [f"{place}/floats"], axis=0)
            )
            node.input[2] = f"{place}/floats"


def _scale(low: float, high: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point of a range, which 0 is within."""
    low, high = min(low, 0.0), max(high, 0.0)
    span = high - low
    if not 0 < span < inf:
        return np.float32(1), np.uint8(0)
    scale = np.float32(span / _TOP)
    return scale, np.uint8(min(max(round(-low / float(scale)), 0), _TOP))
