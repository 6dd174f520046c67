"""Attention recognised from the nodes that it is exported as: its scores need not be stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .. import ops
from ..nn import functional
from ..tensor import Tensor
from .elements import Known
from .handlers import activation, product
from .handlers.elementwise import BINARY
from .program import Program, Step, bury, read_by_bodies
from .registry import described

__all__ = ["recognise"]


def attention(
    query: Tensor,
    keys: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float = 1.0,
    axis: int = -1,
) -> Tensor:
    """``softmax(scale * query @ keys + mask) @ value``, fused where shapes are those of heads.

    Rows for which no key counts are 0, as in PyTorch's.
    """
    n = query.ndim
    lead = query.shape[:-2]
    heads = n in (3, 4) and keys.shape[:-2] == lead and value.shape[:-2] == lead
    fits = mask is None or (mask.dtype is query.dtype and _spreads(mask, query, keys))
    if heads and fits and axis in (-1, n - 1) and query.dtype.is_floating_point:
        turned = ops.transpose(keys, -1, -2)
        return functional.scaled_dot_product_attention(
            query, turned, value, attn_mask=mask, scale=scale
        )
    scores = ops.matmul(query if scale == 1 else query * scale, keys)
    scores = scores if mask is None else ops.add(scores, mask)
    return ops.matmul(ops.softmax(scores, axis), value)


def _spreads(mask: Tensor, query: Tensor, keys: Tensor) -> bool:
    """Whether a mask is repeated to the scores' shape, and not these to its."""
    scores = (*query.shape[:-1], keys.shape[-1])
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    return mask.ndim <= len(scores) and all(n in (1, of) for n, of in sizes)


_ATTENTION = described(attention, 1)
_ADD, _MUL, _DIV = (BINARY[name] for name in ("Add", "Mul", "Div"))


def recognise(program: Program) -> None:
    """Make one step of each attention: a product, factors, a mask, a softmax, a product.

    Values between them that something else reads stay what they are.
    """
    graph = _Graph(program)
    made = {}
    gone: set[int] = set()
    for place, step in enumerate(program.steps):
        found = graph.attention(place) if graph.does(step, product.matmul) else None
        if found is not None:
            made[place] = found.step(step)
            gone.update(found.inside)
    if made:
        program.steps = [
            made.get(place, step) for place, step in enumerate(program.steps) if place not in gone
        ]
        bury(program)


@dataclass
class _Found:
    """What an attention is made of.

    Attributes:
        inputs: queries, keys turned, values, and the mask or ``""``.
        scale: of the scores.
        axis: of the softmax.
        inside: the steps that it takes the place of, but for the last.
    """

    inputs: tuple[str, str, str, str]
    scale: float
    axis: int
    inside: list[int]

    def step(self, last: Step) -> Step:
        """The one step."""
        settings = {"scale": self.scale, "axis": self.axis}
        label = f"attention of {last.label}"
        return Step(label, _ATTENTION, None, self.inputs, last.outputs, settings)


class _Graph:
    """Who makes and who reads the values of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        steps = program.steps
        self._makers = {name: i for i, s in enumerate(steps) for name in s.outputs if name}
        readers = [name for s in steps for name in s.inputs]
        self._reads = Counter([*readers, *program.outputs, *read_by_bodies(program)])

    @staticmethod
    def does(step: Step, *functions: Any) -> bool:
        """Whether one of these computes a step."""
        return step.handler is not None and step.handler.function in functions

    def attention(self, place: int) -> _Found | None:
        """The attention that a product ends, if it ends one."""
        last = self._program.steps[place]
        weights = self._inner(last.inputs[0], activation.softmax)
        if weights is None:
            return None
        softmax = self._program.steps[weights]
        inside, scale, mask = [weights], 1.0, ""
        name = softmax.inputs[0]
        added = self._inner(name, _ADD)
        if added is not None:
            pair = self._program.steps[added].inputs
            side = next((i for i in (0, 1) if self._is_scores(pair[i])), None)
            if side is None:
                return None
            inside.append(added)
            name, mask = pair[side], pair[1 - side]
        name, factor, steps = self._unscaled(name)
        inside += steps
        scores = self._inner(name, product.matmul)
        if scores is None:
            return None
        inside.append(scores)
        query, keys = self._program.steps[scores].inputs
        scale *= factor
        operands: list[str] = []
        for operand in (query, keys):
            plain, factor, steps = self._unscaled(operand)
            operands.append(plain)
            inside += steps
            scale *= factor
        axis = int(softmax.attributes.get("axis", -1))
        return _Found((operands[0], operands[1], last.inputs[1], mask), scale, axis, inside)

    def _is_scores(self, name: str) -> bool:
        """Whether a value is a product, perhaps scaled."""
        plain, _, _ = self._unscaled(name)
        return self._inner(plain, product.matmul) is not None

    def _inner(self, name: str, *functions: Any) -> int | None:
        """The step of one of these functions that makes a value which nothing else reads."""
        place = self._makers.get(name)
        if place is None or self._reads[name] != 1:
            return None
        return place if self.does(self._program.steps[place], *functions) else None

    def _unscaled(self, name: str) -> tuple[str, float, list[int]]:
        """A value before it was multiplied by numbers, their product, and those steps."""
        factor, steps = 1.0, []
        while True:
            place = self._inner(name, _MUL, _DIV)
            if place is None:
                return name, factor, steps
            step = self._program.steps[place]
            left, right = (self._number(n) for n in step.inputs)
            dividing = self.does(step, _DIV)
            if right is not None and not (dividing and right == 0):
                name, number = step.inputs[0], 1 / right if dividing else right
            elif left is not None and not dividing:
                name, number = step.inputs[1], left
            else:
                return name, factor, steps
            factor *= number
            steps.append(place)

    def _number(self, name: str) -> float | None:
        """A constant of one element and no more axes than scores have."""
        held = self._program.constants.get(name)
        if not isinstance(held, Known) or held.array.size != 1 or held.array.ndim > 1:
            return None
        return float(held.array.reshape(())) if held.array.dtype.kind == "f" else None
