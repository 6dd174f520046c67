"""Random permutations: positions sorted by random keys."""

from __future__ import annotations

from ..array import Array
from ..device import Device, Launch, Scratch, Target
from ..kernels.index import sort
from ..kernels.moving import arange
from ..kernels.pointwise import integers
from ..values.dtypes import DType, int32
from .machinery.function import Arrays, Function
from .random import Counter
from .shape import copy_launches

_LARGEST_KEY = 2**31 - 1
NUMBERS_PER_ELEMENT = 2
"""Of the generator: a key is a whole number, which takes two."""


class Permutation(Function):
    """The numbers 0 to ``n - 1`` in random order.

    Elements with the same key of 31 bits keep their order, which is so rare that no order is
    likelier than another by more than ``n**2 / 2**32``.
    """

    n: int
    dtype: DType
    counter: Counter
    device: Device

    @property
    def name(self) -> str:
        """The public function."""
        return "randperm"

    def infer(self) -> tuple[Array, ...]:
        """``(n,)``."""
        return (Array.abstract((self.n,), self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Keys, positions, a sort of both, and the positions converted."""
        memory = Scratch(self.device)
        keys = Array.scratch(memory, (self.n,), int32)
        order = Array.scratch(memory, (self.n,), int32)
        cells = {"seed": self.counter.seed, "offset": self.counter.offset}
        launches = integers(target, keys, **cells, low=0, high=_LARGEST_KEY + 1)
        launches += arange(target, order, 0, 1)
        found = sort(target, memory, keys, order, limit=_LARGEST_KEY)
        return [
            *launches,
            *found.launches,
            *copy_launches(target, outputs[0], found.order),
        ]
