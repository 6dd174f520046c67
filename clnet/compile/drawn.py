"""Random numbers of Python's and NumPy's that a function may ask for: where they stand."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

__all__ = ["GENERATORS", "generators", "put_back", "stands"]

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
"""Types of objects that give random numbers."""


def stands(generator: Any) -> Any:
    """What tells where an object's random numbers stand; of the system's they never are again."""
    try:
        return hash(pickle.dumps(_state(generator)))
    except NotImplementedError:
        return object()


def put_back(generator: Any) -> Callable[[], Any]:
    """What lets an object's random numbers stand again where they do now."""
    try:
        state = _state(generator)
    except NotImplementedError:
        return lambda: None
    if isinstance(generator, random.Random):
        return partial(generator.setstate, state)
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, state)
    return partial(setattr, generator.bit_generator, "state", state)


def generators(modules: Iterable[Any], names: set[str]) -> Iterator[Any]:
    """The generators behind functions of modules that code names.

    Args:
        modules: what it finds by name.
        names: those in it.
    """
    found = [*modules]
    if any(value is random for value in found):
        yield random.seed.__self__
    if "random" in names and any(value is np for value in found):
        yield np.random.get_state.__self__


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state()
    return generator.bit_generator.state
