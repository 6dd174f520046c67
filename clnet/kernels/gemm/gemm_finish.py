"""Pointwise expressions that a product's kernel applies to its result where it stores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ...array import Array
from ...device import HostScalar
from ...expr import Expr, Printed, flops, print_c


class FinishParams(NamedTuple):
    """A template's parameter ``finish``; see ``lib/finish.mako``.

    Attributes:
        wide: the expressions as C, of vectors.
        single: the same, of one element.
        reads: arrays that are read.
        scalars: run-time numbers.
    """

    wide: Printed
    single: Printed
    reads: int
    scalars: int


@dataclass(frozen=True)
class Finish:
    """``written[j] = exprs[j](result, *reads)``, element by element, behind a product.

    Attributes:
        exprs: ``Input(0)`` is the product's result, ``Input(1 + i)`` is ``reads[i]``.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        written: of the result's size and dtype, all dense; the first is the product's ``out``.
        reads: of the same size and dtype, dense; one may be written, too.
    """

    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]
    written: tuple[Array, ...]
    reads: tuple[Array, ...]

    @property
    def flops(self) -> int:
        """Operations of all elements."""
        return flops(*self.exprs) * self.written[0].size

    @property
    def bytes(self) -> int:
        """Bytes moved beside those of ``out``."""
        return sum(array.nbytes for array in (*self.written[1:], *self.reads))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All it writes and reads."""
        return (*self.written, *self.reads)

    def params(self, ctype: str, width: int) -> FinishParams:
        """The template's parameter, for vectors of ``width`` lanes."""
        given, scalars = len(self.reads), len(self.scalars)
        wide = f"{ctype}{width}" if width > 1 else ctype
        return FinishParams(
            _printed(self.exprs, wide, given, scalars),
            _printed(self.exprs, ctype, given, scalars),
            given,
            scalars,
        )

    def args(self) -> dict[str, Sequence[Any]]:
        """The kernel's arguments; see ``lib/finish.mako``."""
        return {"y_{j}": self.written[1:], "x_{j}": self.reads, "s_{j}": self.scalars}


@lru_cache(maxsize=256)
def _printed(exprs: tuple[Expr, ...], ctype: str, reads: int, scalars: int) -> Printed:
    return print_c(
        exprs,
        ctype,
        inputs=["result", *(f"v_{j}" for j in range(reads))],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
