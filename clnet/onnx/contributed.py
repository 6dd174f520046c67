"""Ops of onnxruntime's own domain, spelled as nodes of ONNX.

``QLinearAdd`` and the like are an op between ``DequantizeLinear`` and ``QuantizeLinear``, and so
they are read: what finds layers of integers (:mod:`.lowering`) needs to know no more ops. Those
that ONNX has no nodes for have handlers: :mod:`.handlers.fused`, ``heads`` and ``packed``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from . import protos
from .registry import OURS, find

__all__ = ["spelled"]

_DOMAIN = "com.microsoft"
_LAST = "channels_last"
_FLOAT = 1  # TensorProto.DataType
_OF_ONE_AXIS = 13  # the opset whose softmax is of an axis; before, it was of all from there on
_AXES_GIVEN = 18  # the opset whose means read axes from an input


class _Nodes:
    """Nodes that take the place of one, whose values are named after its result.

    Args:
        node: the one.
        opset: the version of ONNX's own ops.
    """

    def __init__(self, node: Any, opset: int) -> None:
        self.node = node
        self.opset = opset
        self.settings = {a.name: a for a in node.attribute}
        self.made: list[Any] = []
        self._count = 0

    @property
    def others(self) -> list[Any]:
        """The attributes, but for the one that says where channels are."""
        return [a for name, a in self.settings.items() if name != _LAST]

    def input(self, place: int) -> str:
        """The name of an input; ``""`` if it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def add(self, op: str, inputs: Sequence[str], settings: Sequence[Any] = (), **more: Any) -> str:
        """A node, and the name of its result; ``settings`` are attributes as protobuf has them."""
        self._count += 1
        result = f"{self.node.output[0]}/{op}{self._count}"
        given = [*inputs]
        while given and not given[-1]:
            given.pop()
        made = protos.library().helper.make_node(op, given, [result], name=self.node.name, **more)
        made.attribute.extend(settings)
        self.made.append(made)
        return result

    def moved(self, name: str, axis: int, to: int) -> str:
        """A tensor whose axis stands elsewhere, whatever its rank is."""
        return self.add("MoveAxis", [name], domain=OURS, axis=axis, to=to)

    def floats(self, first: int, **settings: Any) -> str:
        """What a number, its scale and its zero point, from an input on, stand for."""
        numbers = [self.input(first + i) for i in range(3)]
        return self.add("DequantizeLinear", numbers, **settings)

    def numbers(self, floats: str, scale: int) -> None:
        """The result: floats as numbers, by the scale and zero point from an input on."""
        self.add("QuantizeLinear", [floats, self.input(scale), self.input(scale + 1)])
        self.made[-1].output[0] = self.node.output[0]


def _of_one(op: str) -> Callable[[_Nodes], None]:
    """``op(x)``, with the node's attributes."""

    def spell(nodes: _Nodes) -> None:
        nodes.numbers(nodes.add(op, [nodes.floats(0)], nodes.others), 3)

    return spell


def _of_two(op: str) -> Callable[[_Nodes], None]:
    """``op(a, b)``."""

    def spell(nodes: _Nodes) -> None:
        nodes.numbers(nodes.add(op, [nodes.floats(0), nodes.floats(3)]), 6)

    return spell


def _softmax(nodes: _Nodes) -> None:
    """As of the opset that the node names, whatever the model's is."""
    named = nodes.settings
    axis = named["axis"].i if "axis" in named else -1
    opset = named["opset"].i if "opset" in named else nodes.opset
    x = nodes.floats(0)
    if opset >= _OF_ONE_AXIS:
        nodes.numbers(nodes.add("Softmax", [x], axis=axis), 3)
        return
    flat = nodes.add("Flatten", [x], axis=axis)
    y = nodes.add("Softmax", [flat], axis=1)
    nodes.numbers(nodes.add("Reshape", [y, nodes.add("Shape", [x])]), 3)


def _reduce_mean(nodes: _Nodes) -> None:
    settings = dict(nodes.settings)
    inputs = [nodes.floats(0)]
    if nodes.opset >= _AXES_GIVEN and "axes" in settings:
        axes = list(settings.pop("axes").ints)
        inputs.append(nodes.add("Constant", [], value_ints=axes))
    nodes.numbers(nodes.add("ReduceMean", inputs, list(settings.values())), 3)


def _concat(nodes: _Nodes) -> None:
    """Pieces with a scale each; the result's stands first."""
    parts = [nodes.floats(i) for i in range(2, len(nodes.node.input), 3)]
    nodes.numbers(nodes.add("Concat", parts, nodes.node.attribute), 0)


def _where(nodes: _Nodes) -> None:
    parts = [nodes.input(0), nodes.floats(1), nodes.floats(4)]
    nodes.numbers(nodes.add("Where", parts), 7)


def _gemm(nodes: _Nodes) -> None:
    """A dense layer; the bias is in units of the sums, and the result of floats without a scale."""
    named = nodes.settings
    turned = named["transB"].i if "transB" in named else 0
    inputs = [nodes.floats(0), nodes.floats(3, axis=0 if turned else 1)]
    if nodes.input(6):
        unit = nodes.add("Mul", [nodes.input(1), nodes.input(4)])
        if "alpha" in named:
            alpha = nodes.add("Constant", [], value_float=named["alpha"].f)
            unit = nodes.add("Mul", [unit, alpha])
        inputs.append(nodes.add("DequantizeLinear", [nodes.input(6), unit], axis=-1))
    y = nodes.add("Gemm", inputs, nodes.node.attribute)
    if nodes.input(7):
        nodes.numbers(y, 7)
    else:
        nodes.made[-1].output[0] = nodes.node.output[0]


def _same(nodes: _Nodes) -> None:
    """The op of ONNX's own that has the same name."""
    _renamed(nodes.node.op_type)(nodes)


def _renamed(op: str) -> Callable[[_Nodes], None]:
    """An op of ONNX's own with the same inputs and attributes."""

    def spell(nodes: _Nodes) -> None:
        nodes.add(op, list(nodes.node.input), nodes.others)
        nodes.made[-1].output[:] = nodes.node.output

    return spell


def _channels_first(nodes: _Nodes, spell: Callable[[_Nodes], None]) -> None:
    """What a node of tensors with channels last does, between nodes that move them."""
    inner = _Nodes(protos.library().NodeProto(), nodes.opset)
    inner.node.CopyFrom(nodes.node)
    result = nodes.node.output[0]
    inner.node.input[0] = nodes.moved(nodes.node.input[0], -1, 1)
    inner.node.output[0] = f"{result}/first"
    inner.settings = nodes.settings
    spell(inner)
    nodes.made += inner.made
    nodes.moved(inner.node.output[0], 1, -1)
    nodes.made[-1].output[0] = result


def _product(nodes: _Nodes, numbers: Sequence[str], units: Sequence[str], bias: int) -> None:
    """Sums of products of integers, in units of both scales, with a bias."""
    sums = nodes.add("Cast", [nodes.add("MatMulInteger", numbers)], to=_FLOAT)
    y = nodes.add("Mul", [sums, nodes.add("Mul", units)])
    if nodes.input(bias):
        nodes.add("Add", [y, nodes.input(bias)])
    nodes.made[-1].output[0] = nodes.node.output[0]


def _dynamic_product(nodes: _Nodes) -> None:
    """Floats, by numbers of 8 bits of their own range, and a quantised matrix."""
    x = nodes.add("DynamicQuantizeLinear", [nodes.input(0)])
    scale, zero = f"{x}/scale", f"{x}/zero"
    nodes.made[-1].output.extend([scale, zero])
    _product(nodes, [x, nodes.input(1), zero, nodes.input(3)], [scale, nodes.input(2)], 4)


def _product_of_floats(nodes: _Nodes) -> None:
    """Quantised matrices whose product is of floats."""
    numbers = [nodes.input(i) for i in (0, 1, 4, 5)]
    _product(nodes, numbers, [nodes.input(2), nodes.input(3)], 6)


_SPELLINGS: dict[str, Callable[[_Nodes], None]] = {
    **{f"QLinear{op}": _of_two(op) for op in ("Add", "Mul")},
    **{
        f"QLinear{op}": _of_one(op)
        for op in (*("Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool"),)
    },
    "QLinearSoftmax": _softmax,
    "QLinearReduceMean": _reduce_mean,
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QGemm": _gemm,
    "DynamicQuantizeMatMul": _dynamic_product,
    "MatMulIntegerToFloat": _product_of_floats,
    "NhwcMaxPool": _renamed("MaxPool"),
    "ExpandDims": _renamed("Unsqueeze"),
    **dict.fromkeys(
        "QuantizeLinear DequantizeLinear QLinearConv GatherND GridSample Pad Range Trilu".split(),
        _same,
    ),
}


def spelled(
    nodes: Iterable[Any], opset: int, functions: Container[tuple[str, str, str]]
) -> Iterator[Any]:
    """Nodes, those of onnxruntime's quantiser as others that do the same.

    One that has a handler (:func:`clnet.onnx.handler`) or is a function of the model's stays as it
    is.

    Args:
        nodes: of a graph.
        opset: the version of ONNX's own ops.
        functions: the model's, by domain, name and overload.
    """
    for node in nodes:
        spell = _SPELLINGS.get(node.op_type) if node.domain == _DOMAIN else None
        own = (node.domain, node.op_type, node.overload) in functions
        if spell is None or own or find(_DOMAIN, node.op_type, 1) is not None:
            yield node
            continue
        made = _Nodes(node, opset)
        if node.op_type.startswith("Nhwc") or any(a.name == _LAST and a.i for a in node.attribute):
            _channels_first(made, spell)
        else:
            spell(made)
        yield from made.made
