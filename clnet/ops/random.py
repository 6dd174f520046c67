"""Random tensors and dropout: Philox numbers from a generator's seed and counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, prod, sqrt
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..array import Array
from ..device import Device, HostScalar, Launch, Target
from ..errors import ArgumentError, GradientError
from ..expr import minimum
from ..kernels import pointwise as kernels
from ..kernels.reduce import Bad
from ..values import mode
from ..values.dtypes import DType, Kind, from_name
from ..values.generator import Generator
from ..values.shapes import Shape
from .check import of_value, require_elements
from .complex_parts import view_as_real
from .create import MakeInto, made
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    host_action,
    op,
    require_floating,
)
from .machinery.pointwise import evaluate
from .shape import contiguous, in_its_order, overwrite, settled

if TYPE_CHECKING:
    from ..tensor import Tensor

_WIDE = 2
"""float64 and whole numbers take two of the generator's numbers for an element."""


@dataclass(frozen=True)
class Counter:
    """Where a generator stood when numbers were drawn; read anew at every replay.

    Attributes:
        seed: the key.
        offset: the first block of four numbers.
    """

    seed: HostScalar
    offset: HostScalar

    @staticmethod
    def take(generator: Generator | None, count: int) -> Counter:
        """Reserve ``count`` numbers of a generator (None: the mode's), now and at every replay."""
        draws = mode.current().draws
        if draws is not None:
            return draws.next(lambda: Counter._new(generator, count))
        return Counter._new(generator, count)

    @staticmethod
    def _new(generator: Generator | None, count: int) -> Counter:
        source = generator or mode.current().generator
        for level in mode.current().batching or ():  # an element's numbers are its own
            count *= level.size if level.randomness == "different" else 1
        counter = Counter(HostScalar(0), HostScalar(0))

        def draw() -> None:
            counter.seed.value, counter.offset.value = source.take(count)

        host_action(draw)
        return counter


class Draws:
    """The counters that a checkpointed function takes, to give it the same when it runs again.

    Args:
        outer: those of the checkpoint around it, which remembers them, too.
        known: what to give, in order; None: remember what is taken.
    """

    def __init__(self, outer: Draws | None = None, known: Sequence[Counter] | None = None) -> None:
        self._outer = outer
        self._known = None if known is None else iter(known)
        self._taken: list[Counter] = []

    @property
    def repeating(self) -> bool:
        """Whether the function runs again."""
        return self._known is not None or (self._outer is not None and self._outer.repeating)

    def next(self, new: Callable[[], Counter]) -> Counter:
        """A counter: the next one known, else a new one.

        Raises:
            GradientError: if the function draws more than when it ran first.
        """
        if self._known is not None:
            counter = next(self._known, None)
            if counter is None:
                raise GradientError(
                    "checkpoint", "the function draws as many random numbers when it runs again"
                )
        elif self._outer is not None:
            counter = self._outer.next(new)
        else:
            counter = new()
        self._taken.append(counter)
        return counter

    def again(self) -> Draws:
        """The same draws once more."""
        return Draws(known=self._taken)


class Random(Function):
    """A dense array of random numbers of one kind.

    Attributes:
        draw: the kernel family's function.
        settings: its further arguments.
    """

    shape: Shape
    dtype: DType
    draw: Callable[..., list[Launch]]
    settings: tuple[tuple[str, float], ...]
    counter: Counter
    device: Device

    @property
    def name(self) -> str:
        """The kind of numbers."""
        return self.draw.__name__

    def infer(self) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        cells = {"seed": self.counter.seed, "offset": self.counter.offset}
        return self.draw(target, outputs[0], **cells, **dict(self.settings))


class Dropout(Function):
    """Elements dropped with probability ``p``, the others scaled; backward makes the mask anew."""

    sixteen_bit = False
    repeats = True

    p: float
    counter: Counter

    @property
    def repeat_key(self) -> Any:
        """All but where the generator stood."""
        return self.p

    @property
    def varying(self) -> tuple[HostScalar, ...]:
        """Where the generator stood."""
        return self.counter.seed, self.counter.offset

    @property
    def gradient_key(self) -> Any:
        """Nothing more: backward hands the counter on."""
        return ()

    def with_varying(self, numbers: tuple[Any, ...]) -> Dropout:
        return Dropout(self.p, Counter(*numbers))

    def infer(self, x: Array) -> tuple[Array, ...]:
        require_floating("dropout", x)
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        cells = {"seed": self.counter.seed, "offset": self.counter.offset}
        return kernels.dropout(target, outputs[0], inputs[0], **cells, p=self.p)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The same elements dropped from the gradient."""
        return (apply(self, contiguous(grads[0])),)


class DrawnFrom(Function):
    """Random numbers of a distribution; inputs are its parameters, of one shape and dtype.

    Attributes:
        draw: the kernel family's function.
        counter: where the generator stood.
    """

    sixteen_bit = False
    repeats = True

    draw: Callable[..., list[Launch]]
    counter: Counter

    @property
    def name(self) -> str:
        """The distribution."""
        return self.draw.__name__

    @property
    def repeat_key(self) -> Any:
        """All but where the generator stood."""
        return self.draw

    @property
    def varying(self) -> tuple[HostScalar, ...]:
        """Where the generator stood."""
        return self.counter.seed, self.counter.offset

    def with_varying(self, numbers: tuple[Any, ...]) -> DrawnFrom:
        return DrawnFrom(self.draw, Counter(*numbers))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        cells = {"seed": self.counter.seed, "offset": self.counter.offset}
        return self.draw(target, outputs[0], *inputs, **cells)


def drawn_from(draw: Callable[..., list[Launch]], *parameters: Tensor) -> Tensor:
    """Numbers of a distribution, without a gradient, from the mode's generator.

    Args:
        draw: of ``kernels.pointwise``.
        parameters: of one shape and floating dtype.
    """
    counter = Counter.take(None, parameters[0].numel() * kernels.DRAWN_NUMBERS)
    return apply(DrawnFrom(draw, counter), *(contiguous(x.detach()) for x in parameters))


@op(Face.FUNCTION | Face.FUNCTIONAL)
def dropout(
    x: Tensor,
    p: float = 0.5,
    training: bool = True,  # noqa: FBT001, FBT002 - PyTorch's signature
    inplace: bool = False,  # noqa: FBT001, FBT002
    *,
    generator: Generator | None = None,
) -> Tensor:
    """0 with probability ``p``, else ``x / (1 - p)``; ``x`` itself when not training.

    Args:
        x: any shape, floating.
        p: in ``[0, 1]``.
        training: whether anything is dropped.
        inplace: whether to overwrite ``x``, and return it.
        generator: where the random numbers come from; None: the mode's generator.

    Returns:
        The same shape and dtype, dense, its axes in memory in the order of those of ``x``.

    Raises:
        ArgumentError: if ``p`` lies outside ``[0, 1]``.
    """
    if not 0 <= p <= 1:
        raise ArgumentError("dropout", "p lies in [0, 1]", p=p)
    if not training or p == 0:
        return x
    dropped = Dropout(p, Counter.take(generator, x.numel()))
    y = in_its_order(x, lambda dense: apply(dropped, contiguous(dense)))
    return settled(x, y, inplace=inplace)


@op(Face.METHOD)
def uniform_(
    x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with uniform numbers in ``[low, high)``; returns the tensor.

    Raises:
        ArgumentError: if ``low > high``, or the range goes beyond the dtype's.
        DtypeError: if the tensor is not floating.
    """
    if not (isfinite(low) and isfinite(high) and low <= high):
        law = "low is at most high, and both are finite"
        raise ArgumentError("uniform_", law, low=low, high=high)
    if x.dtype.is_complex:
        uniform_(view_as_real(x), low, high, generator=generator)
        return x
    require_floating("uniform_", x.array)
    most = float(ml_dtypes.finfo(x.dtype.numpy).max)
    if high - low > most or max(abs(low), abs(high)) > most:
        raise ArgumentError(
            "uniform_", f"{x.dtype!r} holds both bounds and their distance", low=low, high=high
        )
    if x.dtype.compute == x.dtype.name:
        return _overwrite("uniform_", x, kernels.uniform, {"low": low, "high": high}, generator)
    # Of two bytes the largest below high stands for those that would be rounded to it.
    wide = x.new_empty(x.shape, dtype=from_name(x.dtype.compute))
    drawn = uniform_(wide, low, high, generator=generator)
    if not mode.current().undrawn:
        last = max(_last_below(x.dtype, high), low)
        overwrite(x, evaluate("uniform_", minimum, [drawn], [last]), "uniform_")
    return x


def _last_below(dtype: DType, high: float) -> float:
    """The largest number of a dtype below another."""
    last = dtype.numpy.type(high)
    below = np.nextafter(last, dtype.numpy.type(-np.inf))
    return float(last if float(last) < high else below)


@op(Face.METHOD)
def normal_(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with normally distributed numbers; returns the tensor.

    Raises:
        ArgumentError: if ``std < 0``.
        DtypeError: if the tensor is not floating.
    """
    if not std >= 0:
        raise ArgumentError("normal_", "std is 0 or more", std=std)
    if x.dtype.is_complex:  # of the number, not of each part
        if isinstance(mean, complex) and mean.imag:
            raise ArgumentError("normal_", "the mean is real", mean=mean)
        normal_(view_as_real(x), 0.0, std / sqrt(2), generator=generator)
        return x.add_(mean) if mean else x
    require_floating("normal_", x.array)
    return _overwrite("normal_", x, kernels.normal, {"mean": mean, "std": std}, generator)


def coins(name: str, p: Tensor, shape: Shape, generator: Generator | None) -> Tensor:
    """Booleans, true with probabilities that broadcast to the shape; for the op of that name."""
    require_floating(name, p.array)
    require_elements(p, of_value(name, "p", "it lies in [0, 1]"), Bad.OUTSIDE, 0, 1)
    return uniform_numbers(p, shape, generator) < p.detach()


def uniform_numbers(x: Tensor, shape: Sequence[int], generator: Generator | None) -> Tensor:
    """Uniform numbers for a tensor of probabilities, of 32 bits at least: few are equal."""
    dtype = from_name(x.dtype.compute)
    return uniform_(x.new_empty(tuple(shape), dtype=dtype), generator=generator)


@op(Face.METHOD)
def bernoulli_(x: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 with probability ``p``, else 0; returns the tensor.

    Args:
        x: any shape and dtype.
        p: a number, or floating probabilities that broadcast to ``x``.
        generator: where the numbers come from.

    Raises:
        ArgumentError: if a number ``p`` lies outside ``[0, 1]``.
        ShapeError: if ``p`` does not broadcast to ``x``.
        DtypeError: if a tensor ``p`` is not floating.
        DataDomainError: at the next synchronisation, if one of its elements lies outside.
    """
    if not isinstance(p, int | float):
        return overwrite(x, coins("bernoulli_", p, x.shape, generator), "bernoulli_")
    if not 0 <= p <= 1:
        raise ArgumentError("bernoulli_", "p lies in [0, 1]", p=p)
    return _overwrite("bernoulli_", x, kernels.bernoulli, {"p": p}, generator)


@op(Face.METHOD)
def random_(
    x: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Overwrite with whole numbers in ``[low, high)``; returns the tensor.

    Called as ``random_(high)``, in ``[0, high)``; as ``random_()``, up to the largest of a dtype of
    whole numbers, or up to that below which a floating one holds all whole numbers.

    Raises:
        ArgumentError: if the range is empty, or goes beyond the dtype's.
    """
    return random_whole("random_", x, low, high, generator)


def random_whole(
    name: str, x: Tensor, low: int | None, high: int | None, generator: Generator | None
) -> Tensor:
    """:func:`random_` under the name of the op that calls it."""
    least, most, exact = _whole_range(x.dtype)
    if high is None:
        low, high = 0, exact + 1 if low is None else low
    low = low or 0
    if low >= high:
        raise ArgumentError(name, "low is below high", low=low, high=high)
    if low < least or high - 1 > most:
        raise ArgumentError(
            name,
            f"{x.dtype!r} holds all numbers of the range",
            low=low,
            high=high,
            remedy=f"Stay between {least} and {most}",
        )
    high = min(high, 2**63 - 1)
    return _overwrite(name, x, kernels.integers, {"low": low, "high": high}, generator)


def _whole_range(dtype: DType) -> tuple[float, float, int]:
    """The least and largest number of a dtype, and up to where it holds all whole ones."""
    if dtype.kind is Kind.BOOL:
        return 0, 1, 1
    if dtype.kind is Kind.INTEGER:
        limits = np.iinfo(dtype.numpy)
        return int(limits.min), int(limits.max), int(limits.max)
    limits = ml_dtypes.finfo(dtype.real.numpy)
    return -float(limits.max), float(limits.max), 2 ** (limits.nmant + 1)


def random_like(x: Tensor, *, low: float, high: float, shape: Shape | None = None) -> Tensor:
    """Uniform numbers for ``x`` or for another shape, of its dtype, but of 32 bits at least."""
    size = x.shape if shape is None else shape
    dtype = from_name(x.dtype.compute)
    counter = Counter.take(None, prod(size) * (_WIDE if dtype.compute == "float64" else 1))
    settings = (("low", low), ("high", high))
    function = Random(size, dtype, kernels.uniform, settings, counter, x.device)
    return type(x).__apply_function__(function, ())[0]


def _overwrite(
    op_name: str,
    x: Tensor,
    draw: Callable[..., list[Launch]],
    settings: dict[str, float],
    generator: Generator | None,
) -> Tensor:
    wide = draw is kernels.integers or x.dtype.compute == "float64"
    counter = Counter.take(generator, x.numel() * (_WIDE if wide else 1))
    if mode.current().undrawn:
        return x
    dtype = from_name(x.dtype.compute)  # the copy rounds to 16 bits
    function = Random(x.shape, dtype, draw, tuple(settings.items()), counter, x.device)
    if x.array.contiguous and x.dtype is dtype:
        apply(MakeInto(op_name, function), x)
    else:
        overwrite(x, made(type(x), function), op_name)
    return x
