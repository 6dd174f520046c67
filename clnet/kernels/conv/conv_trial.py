"""Convolutions with random operands, on which ways to compute them are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...array import Array
from ...device import Device, Launch, Target
from ...values.dtypes import float32
from ..epilogue import NO_EPILOGUE
from . import conv_depthwise, conv_im2col
from .conv_geometry import ConvProblem, Direction

# Copies of the operands take so many bytes together: more than most caches hold.
ROTATED_BYTES = 64 * 2**20
MOST_TURNS = 8
# Winograd's transforms of 6x6 tiles stay below this, relative to the largest result.
_ERROR = 5e-5


class Layout(Protocol):
    """Which operands are blocked, and how, as far as a comparison has to know."""

    @property
    def block(self) -> int:
        """Channels of a block."""
        ...

    @property
    def plain_x(self) -> bool:
        """Whether ``x`` is plain."""
        ...


class Operands:
    """The arrays of one convolution, one of which is its result.

    Args:
        problem: what is computed.
        x, weight, y: the arrays, or their gradients.

    Attributes:
        problem, x, weight, y: as given.
        geometry, direction: of the problem.
    """

    def __init__(self, problem: ConvProblem, x: Array, weight: Array, y: Array) -> None:
        self.problem = problem
        self.geometry, self.direction = problem.geometry, Direction(problem.direction)
        self.x, self.weight, self.y = x, weight, y
        self._packed: dict[int, Array] = {}

    @property
    def result(self) -> Array:
        """The array that is computed."""
        return {
            Direction.FORWARD: self.y,
            Direction.INPUT_GRAD: self.x,
            Direction.WEIGHT_GRAD: self.weight,
        }[self.direction]

    def packed(self, size: int) -> Array:
        """Memory for so many elements of packed filters; the same for the same size."""
        if size not in self._packed:
            array = self._packed[size] = Array.abstract((size,), float32, self.x.device)
            array.storage.materialize()
        return self._packed[size]


class ConvTrial:
    """A convolution in float32, and what the explicit columns' product says it is.

    Args:
        where: the device.
        problem: what is computed.
        form: which of the arrays are blocked, and how; None: none is.
        lower: the launches on operands with a choice.

    Attributes:
        turns: copies of the operands.
    """

    def __init__(
        self,
        where: Device,
        problem: ConvProblem,
        form: Layout | None,
        lower: Callable[[Target, Operands, Any], list[Launch]],
    ) -> None:
        self._where, self._lower = where, lower
        g, direction = problem.geometry, Direction(problem.direction)
        rng = np.random.default_rng(0)
        shapes = ((g.n, g.ic, g.h, g.w), (g.oc, g.icg, g.kh, g.kw), (g.n, g.oc, g.oh, g.ow))
        x, weight, y = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
        expected = _reference(where, problem, x, weight, y)
        if form is not None:
            y = _blocked(y, form.block)
            x = x if form.plain_x else _blocked(x, form.block)
            result = {Direction.FORWARD: y, Direction.INPUT_GRAD: x}.get(direction, weight)
            expected = expected if result.ndim == 4 else _blocked(expected, form.block)
        self._expected = expected
        self._bound = _ERROR * float(np.abs(expected).max())
        nbytes = x.nbytes + weight.nbytes + y.nbytes
        self.turns = max(1, min(MOST_TURNS, -(-ROTATED_BYTES // nbytes)))
        self._operands = [
            Operands(problem, *(Array.from_numpy(v, where) for v in (x, weight, y)))
            for _ in range(self.turns)
        ]

    def launches(self, choice: Any, turn: int) -> list[Launch]:
        """What computes one of the copies."""
        return self._lower(self._where.target, self._operands[turn], choice)

    def poison(self) -> None:
        """Overwrite the first copy's result with NaN."""
        out = self._operands[0].result
        out.write(np.full(out.shape, np.nan, np.float32))

    def fault(self) -> str | None:
        """How far the first copy's result is from the reference, if rounding is not the reason."""
        got = self._operands[0].result.numpy()
        error = float(np.abs(got - self._expected).max())
        if error <= self._bound:
            return None
        return f"wrong results: {error:.2g} off, where rounding explains {self._bound:.2g}"


def _reference(
    where: Device, problem: ConvProblem, x: np.ndarray, weight: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The result between plain arrays, by explicit columns, or item by item where memory lacks."""
    target, g, direction = where.target, problem.geometry, Direction(problem.direction)
    operands = Operands(problem, *(Array.from_numpy(v, where) for v in (x, weight, y)))
    x_, weight_, y_ = operands.x, operands.weight, operands.y
    columns = conv_im2col.fits(target, g, direction, x.itemsize)
    match direction:
        case Direction.FORWARD if columns:
            launches = conv_im2col.forward(target, y_, x_, weight_, g, NO_EPILOGUE)
        case Direction.FORWARD:
            launches = conv_depthwise.forward(target, y_, x_, weight_, g, NO_EPILOGUE)
        case Direction.INPUT_GRAD if columns:
            launches = conv_im2col.input_grad(target, x_, y_, weight_, g)
        case Direction.INPUT_GRAD:
            launches = conv_depthwise.input_grad(target, x_, y_, weight_, g)
        case Direction.WEIGHT_GRAD if columns:
            launches = conv_im2col.weight_grad(target, weight_, y_, x_, g)
        case Direction.WEIGHT_GRAD:
            launches = conv_depthwise.weight_grad(target, weight_, y_, x_, g)
    for launch in launches:
        where.queue.launch(launch)
    return operands.result.numpy()


def _blocked(values: np.ndarray, block: int) -> np.ndarray:
    """``(n, c, h, w)`` as ``(n, c / block, h, w, block)``."""
    n, c, h, w = values.shape
    return np.ascontiguousarray(values.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))
