"""Quantised nodes found in a graph and given to the integer kernels, images in uint8 between them.

What is found: ``QLinearConv``, ``QLinearMatMul``, ``ConvInteger`` and ``MatMulInteger`` whose
filters stay, and their like between ``DequantizeLinear`` and ``QuantizeLinear``: a convolution or
product, with a sum and a ReLU behind it; maxima of windows; sums. Filters are int8 around 0, or
uint8 around 128; scales and zero points are constants, of activations one of each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from ..kernels.integer import Quantisation
from . import images
from .elements import Known
from .handlers import activation, conv, elementwise, pool, product, quantised
from .images import Layer, Sum, taken
from .program import Program, Step, bury, read_by_bodies
from .registry import described

__all__ = ["lower_integers"]

_LAYER = described(images.layer, 1)
_MAXIMA = described(images.maxima, 1)
_QUANTISE = described(images.quantise, 1)
_DEQUANTISE = described(images.dequantise, 1)
_QUANTISE_DYNAMICALLY = described(images.quantise_dynamically, 1)
_SUM = described(images.sum_of_two, 1)
_ADD = elementwise.BINARY["Add"]
_SHIFT = 128
_AXES_OF_IMAGES = 4
_SAME = 1e-5  # of two scales that are meant to be one


@dataclass(frozen=True)
class _Numbers:
    """A quantised activation: its name, what is stored for it, and whether it is int8."""

    name: str
    how: Quantisation
    signed: bool


@dataclass
class _Tail:
    """What follows a layer and is computed with it.

    Attributes:
        result: the name that the layer then gives.
        inside: the steps that it takes the place of.
        more: what is added: a quantised activation, or the name of floats.
        low, high: bounds.
        output: what is stored at the end, if that is quantised.
    """

    result: str
    inside: list[int]
    more: _Numbers | str | None = None
    low: float = -inf
    high: float = inf
    output: _Numbers | None = None


def lower_integers(program: Program) -> None:
    """Let the integer kernels compute what they can of a program's steps."""
    functions = {s.handler.function for s in program.steps if s.handler is not None}
    if not functions & _WORTH:
        return
    _Lowering(program).run()


class _Lowering:
    """Who makes and who reads the values of a program, and what takes the place of its steps."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps = [*program.steps]
        self._makers = {n: i for i, s in enumerate(self._steps) for n in s.outputs if n}
        self._readers: dict[str, list[int]] = {}
        for i, step in enumerate(self._steps):
            for name in step.inputs:
                self._readers.setdefault(name, []).append(i)
        self._kept = Counter([*program.outputs, *read_by_bodies(program)])
        self._made: dict[int, Step] = {}
        self._gone: set[int] = set()
        # Names of quantised tensors that lie as images, and whether in rows.
        self._images: dict[str, bool] = {}

    def run(self) -> None:
        """Find layers, then what lies between them."""
        for place, step in enumerate(self._steps):
            self._quantise_before_maxima(place, step)
        for place, step in enumerate(self._steps):
            rule = _RULES.get(step.handler.function) if step.handler is not None else None
            if rule is not None and place not in self._gone:
                rule(self, place, step)
        if not self._made:
            return
        for rule in (_Lowering._maxima, _Lowering._sum, _Lowering._between):
            for place, step in enumerate(self._steps):
                if place not in self._gone and place not in self._made:
                    rule(self, place, step)
        steps = [
            self._made.get(place, step)
            for place, step in enumerate(self._steps)
            if place not in self._gone
        ]
        self._program.steps = self._alive(steps)
        bury(self._program)

    def _alive(self, steps: list[Step]) -> list[Step]:
        """The steps without those that turn numbers nobody reads any more."""
        wanted, left = {*self._kept}, list[Step]()
        for step in reversed(steps):
            if _does(step, *_TURNING) and not wanted & {*step.outputs}:
                continue
            wanted |= {*step.inputs}
            left.append(step)
        return left[::-1]

    # What constants say.

    def _array(self, name: str) -> np.ndarray | None:
        held = self._program.constants.get(name)
        return held.array if isinstance(held, Known) else None

    def _numbers(self, name: str, scale: str, zero: str) -> _Numbers | None:
        """A quantised activation of one scale and one zero point, both constants."""
        factor, point = self._array(scale), self._array(zero)
        if factor is None or factor.size != 1 or factor.dtype != np.float32:
            return None
        if point is None or point.size != 1 or point.dtype.name not in {"uint8", "int8"}:
            return None
        signed = point.dtype == np.int8
        stored = int(point.reshape(())) + (_SHIFT if signed else 0)
        return _Numbers(name, Quantisation(float(factor.reshape(())), stored), signed)

    def _turned(self, place: int | None, function: Any) -> _Numbers | None:
        """What a step that quantises gives, or one that makes floats reads; None of others."""
        if place is None or not _does(self._steps[place], function):
            return None
        step = self._steps[place]
        if {*step.attributes} - {"axis", "saturate"} or len(step.inputs) < 3:
            return None
        name = step.outputs[0] if function is quantised.quantize_linear else step.inputs[0]
        return self._numbers(name, *step.inputs[1:3])

    def _activation(self, name: str) -> _Numbers | None:
        """The quantised tensor whose floats have a name."""
        found = self._turned(self._makers.get(name), quantised.dequantize_linear)
        return None if found is None or self._array(found.name) is not None else found

    def _zero_point(self, name: str) -> np.ndarray | None:
        """A constant zero point; 0 where none is named, None of one that is computed."""
        return self._array(name) if name else np.zeros((), np.uint8)

    def _filters(self, weight: str, zero: str) -> np.ndarray | None:
        """Constant filters as int8 around 0; None of others."""
        w, point = self._array(weight), self._zero_point(zero)
        if w is None or point is None:
            return None
        if w.dtype == np.int8 and not point.any():
            return w
        if w.dtype == np.uint8 and (point == _SHIFT).all():
            return (w.astype(np.int16) - _SHIFT).astype(np.int8)
        return None

    def _scaled_filters(
        self, weight: str, scale: str, zero: str
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Filters as int8 around 0, and their scales."""
        w, factor = self._filters(weight, zero), self._array(scale)
        if w is None or factor is None or factor.dtype != np.float32 or factor.ndim > 1:
            return None
        return w, factor

    def _weight(self, name: str, axis: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Filters between whose floats, scaled along an axis, a layer stands."""
        place = self._makers.get(name)
        if place is None or not _does(self._steps[place], quantised.dequantize_linear):
            return None
        step = self._steps[place]
        found = self._scaled_filters(*(*step.inputs, "")[:3])
        if found is None or {*step.attributes} - {"axis"}:
            return None
        along = int(step.attributes.get("axis", 1)) % max(found[0].ndim, 1)
        return found if found[1].size == 1 or along == axis else None

    def _bias(self, name: str, factor: np.ndarray) -> np.ndarray | None:
        """A bias in units of the sums; zeros for none."""
        if not name:
            return np.zeros(factor.size, np.int32)
        place = self._makers.get(name)
        if place is None or not _does(self._steps[place], quantised.dequantize_linear):
            return None
        step = self._steps[place]
        values, factors, zero = (*step.inputs, "")[:3]
        bias, scale, point = self._array(values), self._array(factors), self._zero_point(zero)
        if point is None or point.any():
            return None
        if bias is None or scale is None or bias.dtype != np.int32 or bias.shape != factor.shape:
            return None
        return bias if np.allclose(scale, factor, rtol=_SAME, atol=0) else None

    # Layers of floats between numbers.

    def _between_floats(
        self,
        place: int,
        x: str,
        weight: tuple[np.ndarray, np.ndarray] | None,
        bias: str,
        **how: Any,
    ) -> None:
        """A layer in the place of a step and what follows it."""
        given = self._activation(x)
        if given is None or weight is None:
            return
        w, scale = weight
        if scale.size not in (1, len(w)):
            return
        factor = np.broadcast_to(np.float32(given.how.scale) * scale.reshape(-1), (len(w),)).copy()
        added = self._bias(bias, factor)
        if added is None:
            return
        rows = bool(how.get("in_rows"))
        tail = self._tail(place)
        does = Layer(w, added, factor, given.how.zero, low=tail.low, high=tail.high, **how)
        inputs = [given.name]
        if isinstance(tail.more, _Numbers):
            does.added = tail.more.how
            inputs.append(tail.more.name)
        elif tail.more is not None:
            inputs.append(tail.more)
        if tail.output is not None:
            does.output, does.signed = tail.output.how, tail.output.signed
            self._images[tail.result] = rows
        for name in (given.name, *inputs[1:]):
            if name == given.name or does.added is not None:
                self._images.setdefault(name, rows)
        self._put(tail.inside, inputs, tail.result, _LAYER, {"does": does})

    def _tail(self, place: int) -> _Tail:
        """What follows a step and nothing else reads."""
        tail = _Tail(self._steps[place].outputs[0], [place])
        while tail.output is None:
            readers = self._readers.get(tail.result, [])
            if len(readers) != 1 or tail.result in self._kept or readers[0] in self._gone:
                return tail
            step = self._steps[readers[0]]
            bounded = (tail.low, tail.high) != (-inf, inf)
            bounds = self._bounds(step)
            if bounds is not None and not bounded:
                tail.low, tail.high = bounds
            elif _does(step, _ADD) and tail.more is None and not bounded:
                other = step.inputs[1 if step.inputs[0] == tail.result else 0]
                if other == tail.result or other not in self._makers:
                    return tail
                tail.more = self._activation(other) or other
            else:
                tail.output = self._turned(readers[0], quantised.quantize_linear)
                if tail.output is None:
                    return tail
            tail.inside.append(readers[0])
            tail.result = step.outputs[0]
        return tail

    def _bounds(self, step: Step) -> tuple[float, float] | None:
        """What a step keeps its operand within, or None of others."""
        if _does(step, activation.relu):
            return 0.0, inf
        if not _does(step, elementwise.clip):
            return None
        found: list[float] = []
        for name, none in zip((*step.inputs[1:], "", "")[:2], (-inf, inf), strict=True):
            array = self._array(name) if name else np.array(none)
            if array is None or array.size != 1:
                return None
            found.append(float(array.reshape(())))
        return (found[0], found[1]) if found[0] <= found[1] else None

    def _put(
        self, inside: list[int], inputs: list[str], result: str, handler: Any, settings: Any
    ) -> None:
        """One step where the last of some stood."""
        last = inside[-1]
        label = f"integer {self._steps[inside[0]].label}"
        self._gone.update(inside[:-1])
        self._made[last] = Step(label, handler, None, tuple(inputs), (result,), settings)

    def conv(self, place: int, step: Step) -> None:
        """A convolution of floats."""
        weight = self._weight(step.inputs[1], 0)
        if weight is not None and _is_taken(weight[0], step):
            bias = (*step.inputs, "")[2]
            self._between_floats(place, step.inputs[0], weight, bias, **_conv_settings(step))

    def gemm(self, place: int, step: Step) -> None:
        """A dense layer of floats."""
        settings = step.attributes
        if settings.get("transA") or settings.get("alpha", 1) != 1 or settings.get("beta", 1) != 1:
            return
        turned = bool(settings.get("transB"))
        weight = self._weight(step.inputs[1], 0 if turned else 1)
        bias = (*step.inputs, "")[2]
        self._between_floats(
            place, step.inputs[0], _rows_of(weight, turned=turned), bias, in_rows=True
        )

    def matmul(self, place: int, step: Step) -> None:
        """A product of floats with a matrix."""
        weight = _rows_of(self._weight(step.inputs[1], 1), turned=False)
        self._between_floats(place, step.inputs[0], weight, "", in_rows=True)

    # Nodes of integers.

    def qlinear(self, place: int, step: Step) -> None:
        """QLinearConv and QLinearMatMul."""
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = (*step.inputs, "")[:9]
        given = self._numbers(x, x_scale, x_zero)
        output = self._numbers(step.outputs[0], y_scale, y_zero)
        weight = self._scaled_filters(w, w_scale, w_zero)
        if given is None or output is None or weight is None or self._array(x) is not None:
            return
        fitted = _fitted(weight[0], step, convolves=_does(step, quantised.qlinear_conv))
        if fitted is None:
            return
        (filters, settings), scale = fitted, weight[1]
        count = len(filters)
        added = self._array(bias) if bias else np.zeros(count, np.int32)
        if added is None or added.shape != (count,) or scale.size not in (1, count):
            return
        factor = np.broadcast_to(np.float32(given.how.scale) * scale.reshape(-1), (count,)).copy()
        does = Layer(
            *(filters, added, factor, given.how.zero),
            output=output.how,
            signed=output.signed,
            **settings,
        )
        self._images.setdefault(x, does.in_rows)
        self._images[step.outputs[0]] = does.in_rows
        self._put([place], [x], step.outputs[0], _LAYER, {"does": does})

    def integers(self, place: int, step: Step) -> None:
        """ConvInteger and MatMulInteger: the sums themselves."""
        x, w, x_zero, w_zero = (*step.inputs, "", "")[:4]
        weight, point = self._filters(w, w_zero), self._zero_point(x_zero)
        computed = point is None and self._is_unsigned(x) and self._is_unsigned(x_zero)
        if computed:
            point = np.zeros((), np.uint8)
        if weight is None or point is None or point.size != 1 or self._array(x) is not None:
            return
        if not x_zero and not self._is_unsigned(x):  # it may be int8: nothing says so
            return
        fitted = _fitted(weight, step, convolves=_does(step, quantised.conv_integer))
        if fitted is None:
            return
        filters, settings = fitted
        count = len(filters)
        zero = int(point.reshape(())) + (_SHIFT if point.dtype == np.int8 else 0)
        does = Layer(
            *(filters, np.zeros(count, np.int32), np.ones(count, np.float32), zero),
            sums=True,
            computed=computed,
            **settings,
        )
        inputs = [x, x_zero] if computed else [x]
        if computed:
            self._images.setdefault(x, does.in_rows)
        self._put([place], inputs, step.outputs[0], _LAYER, {"does": does})

    def _is_unsigned(self, name: str) -> bool:
        """Whether a tensor, or the zero point of one, is known to be uint8."""
        place = self._makers.get(name)
        return place is not None and _does(self._steps[place], quantised.dynamic_quantize_linear)

    # What lies between layers.

    def _quantise_before_maxima(self, place: int, step: Step) -> None:
        """Let maxima that are quantised be those of numbers: no two floats change their order."""
        result = step.outputs[0]
        readers = self._readers.get(result, [])
        if not _does(step, pool.max_pool) or len(readers) != 1 or result in self._kept:
            return
        if self._activation(step.inputs[0]) is not None or not self._is_of_images(step):
            return
        last = self._steps[readers[0]]
        if self._turned(readers[0], quantised.quantize_linear) is None:
            return
        name = f"{result}/numbers"
        inputs = (step.inputs[0], *last.inputs[1:])
        self._steps[place] = replace(last, inputs=inputs, outputs=(name,))
        self._steps[readers[0]] = replace(step, inputs=(name,), outputs=last.outputs)
        self._makers |= {name: place, last.outputs[0]: readers[0]}
        self._readers[name] = [readers[0]]
        self._images[name] = False

    @staticmethod
    def _is_of_images(step: Step) -> bool:
        """Whether the kernels take windows: of two axes, which all have a pixel."""
        settings = step.attributes
        kernel, pads = settings["kernel_shape"], settings.get("pads") or (0, 0, 0, 0)
        plain = all(d == 1 for d in settings.get("dilations") or ())
        inside = all(p < k for p, k in zip(pads, [*kernel, *kernel], strict=False))
        return len(kernel) == 2 and plain and inside and len([n for n in step.outputs if n]) == 1

    def _maxima(self, place: int, step: Step) -> None:
        """Maxima of windows of numbers, or of floats between numbers of one kind."""
        if not _does(step, pool.max_pool) or not self._is_of_images(step):
            return
        settings = {k: v for k, v in step.attributes.items() if k in _OF_WINDOWS}
        if self._images.get(step.inputs[0]) is False:
            self._images[step.outputs[0]] = False
            self._put([place], [step.inputs[0]], step.outputs[0], _MAXIMA, settings)
            return
        given = self._activation(step.inputs[0])
        readers = self._readers.get(step.outputs[0], [])
        if given is None or len(readers) != 1 or step.outputs[0] in self._kept:
            return
        output = self._turned(readers[0], quantised.quantize_linear)
        if output is None or replace(output, name=given.name) != given:
            return
        self._images.setdefault(given.name, False)
        self._images[output.name] = False
        self._put([place, readers[0]], [given.name], output.name, _MAXIMA, settings)

    def _sum(self, place: int, step: Step) -> None:
        """A sum of two quantised tensors that is quantised."""
        if not _does(step, _ADD):
            return
        left, right = (self._activation(name) for name in step.inputs)
        tail = self._tail(place)
        if left is None or right is None or tail.more is not None or tail.output is None:
            return
        rows = self._images.get(left.name)
        if rows is None or self._images.get(right.name) is not rows:
            return
        output = tail.output
        does = Sum(left.how, right.how, output.how, tail.low, tail.high, output.signed)
        self._images[output.name] = rows
        self._put(tail.inside, [left.name, right.name], output.name, _SUM, {"does": does})

    def _between(self, place: int, step: Step) -> None:
        """Floats to images and back, where images are on the other side."""
        if _does(step, quantised.dynamic_quantize_linear) and step.outputs[0] in self._images:
            settings = {"in_rows": self._images[step.outputs[0]]}
            self._made[place] = replace(step, handler=_QUANTISE_DYNAMICALLY, attributes=settings)
            return
        made = self._turned(place, quantised.quantize_linear)
        if made is not None and made.name in self._images:
            settings = {"how": made.how, "signed": made.signed, "in_rows": self._images[made.name]}
            self._put([place], [step.inputs[0]], made.name, _QUANTISE, settings)
            return
        read = self._turned(place, quantised.dequantize_linear)
        if read is not None and read.name in self._images:
            settings = {"how": read.how, "in_rows": self._images[read.name]}
            self._put([place], [read.name], step.outputs[0], _DEQUANTISE, settings)


def _does(step: Step, *functions: Any) -> bool:
    return step.handler is not None and step.handler.function in functions


def _is_taken(w: np.ndarray, step: Step) -> bool:
    """Whether the kernels take a convolution."""
    return w.ndim == _AXES_OF_IMAGES and taken(w.shape, int(step.attributes.get("group", 1)))


def _fitted(
    filters: np.ndarray, step: Step, *, convolves: bool
) -> tuple[np.ndarray, dict[str, Any]] | None:
    """A node's filters as the kernels take them, and its settings; None where they do not."""
    if convolves:
        return (filters, _conv_settings(step)) if _is_taken(filters, step) else None
    return (_as_pixels(filters.T), {"in_rows": True}) if filters.ndim == 2 else None


def _as_pixels(rows: np.ndarray) -> np.ndarray:
    """A matrix, whose rows are those of the result, as filters of one pixel."""
    return np.ascontiguousarray(rows)[:, :, None, None]


def _conv_settings(step: Step) -> dict[str, Any]:
    given = step.attributes
    return {
        "auto_pad": given.get("auto_pad", "NOTSET"),
        "pads": given.get("pads"),
        "strides": tuple(given.get("strides") or (1, 1)),
        "dilations": tuple(given.get("dilations") or (1, 1)),
        "groups": int(given.get("group", 1)),
    }


def _rows_of(
    weight: tuple[np.ndarray, np.ndarray] | None, *, turned: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """A matrix as filters of one pixel; ``turned``: its rows are those of the result."""
    if weight is None or weight[0].ndim != 2:
        return None
    return _as_pixels(weight[0] if turned else weight[0].T), weight[1]


_TURNING = (
    *(quantised.quantize_linear, quantised.dequantize_linear),
    *(images.quantise, images.dequantise),
)
_OF_WINDOWS = {"kernel_shape", "strides", "pads", "auto_pad", "ceil_mode"}
_RULES = {
    conv.conv: _Lowering.conv,
    product.gemm: _Lowering.gemm,
    product.matmul: _Lowering.matmul,
    quantised.qlinear_conv: _Lowering.qlinear,
    quantised.qlinear_matmul: _Lowering.qlinear,
    quantised.conv_integer: _Lowering.integers,
    quantised.matmul_integer: _Lowering.integers,
}
_WORTH = {
    quantised.dequantize_linear,
    quantised.qlinear_conv,
    quantised.qlinear_matmul,
    quantised.conv_integer,
    quantised.matmul_integer,
}
