"""Random numbers of distributions whose parameters differ from element to element.

An element takes numbers from :data:`DRAWN_NUMBERS` of its own, in an order of its own, until one is
accepted: so numbers are the same on every device, and an element's do not depend on the others.

All functions write a dense ``y`` from dense parameters of its shape and dtype, float32 or float64,
by the key ``seed`` from the counter ``offset`` on, and give their launches: none for no elements.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..grid import items
from ..kernel import Kernel, by_name, joined
from .random_numbers import Cell

_BLOCKS = 16
DRAWN_NUMBERS = 4 * _BLOCKS
"""How many of the generator's numbers an element has; few take them all."""
_FLOPS = 200

_POISSON = Kernel("draw_poisson", "pointwise/draws.mako")
_BINOMIAL = Kernel("draw_binomial", "pointwise/draws.mako")
_GAMMA = Kernel("draw_gamma", "pointwise/draws.mako")


def draw_poisson(
    target: Target, y: Array, rate: Array, *, seed: Cell, offset: Cell
) -> list[Launch]:
    """Counts of events that come at a rate, 0 or more."""
    return _launches(target, _POISSON, "rate", y, (rate,), seed, offset)


def draw_binomial(
    target: Target, y: Array, trials: Array, p: Array, *, seed: Cell, offset: Cell
) -> list[Launch]:
    """Successes of whole numbers of trials, each of probability ``p``."""
    return _launches(target, _BINOMIAL, "trials p", y, (trials, p), seed, offset)


def draw_gamma(target: Target, y: Array, shape: Array, *, seed: Cell, offset: Cell) -> list[Launch]:
    """Gamma variables of a shape above 0, and of rate 1."""
    return _launches(target, _GAMMA, "shape", y, (shape,), seed, offset)


def _launches(
    target: Target,
    kernel: Kernel,
    names: str,
    y: Array,
    given: tuple[Array, ...],
    seed: Cell,
    offset: Cell,
) -> list[Launch]:
    if y.size == 0:
        return []
    return [
        kernel.launch(
            {"ctype": y.dtype.ctype, "blocks": _BLOCKS},
            joined(
                by_name("n y", y.size, y),
                by_name(names, *given),
                by_name("seed offset", seed, offset),
            ),
            **items(target, y.size),
            flops=_FLOPS * y.size,
            bytes=y.nbytes * (1 + len(given)),
        )
    ]
