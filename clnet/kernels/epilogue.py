"""What products and convolutions make of their sums before they store them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..array import Array
from ..device import HostScalar
from ..expr import Expr, Printed, flops, print_c
from ..values.record import NamedTuple
from .kernel import Named, by_name


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


class Activation(NamedTuple):
    """A function that is applied to a result, beside ``"relu"``.

    Attributes:
        name: for a reader.
        expr: its value; ``Input(0)`` is the result. It has no scalars.
    """

    name: str
    expr: Expr

    def __str__(self) -> str:
        return self.name

    def of_vectors(self, block: int) -> VectorActivation:
        """It as C of a blocked convolution's vectors."""
        exprs = (self.expr,)
        one = _printed(exprs, f"float{block}", 0, 0)
        two = _printed(exprs, f"float{2 * block}", 0, 0) if 2 * block <= _MOST_LANES else None
        return VectorActivation(one, two)


class VectorActivation(NamedTuple):
    """The parameter ``activation`` of blocked convolutions' templates, beside ``"relu"``.

    Attributes:
        one: its C of a block's vector.
        two: the same of two blocks' vectors in one, None where no vector is so wide.
    """

    one: Printed
    two: Printed | None


class Epilogue(NamedTuple):
    """``finish(activation(sum + bias + added))``, behind a product or a convolution.

    Attributes:
        bias: ``(oc,)`` of a convolution, one axis of a product; dense, or None.
        added: like the result, dense, or None; only blocked convolutions add one.
        activation: None, ``"relu"``, or behind a blocked convolution any other.
        bias_axis: of a product, ``"m"`` or ``"n"``: the axis that its bias lies along.
        finish: what is made of all that and stored instead, or None; only products make it.
    """

    bias: Array | None = None
    added: Array | None = None
    activation: str | Activation | None = None
    bias_axis: str = "n"
    finish: Finish | None = None

    @property
    def params(self) -> Named:
        """The parameters ``bias`` and ``activation`` of a convolution's templates."""
        return by_name("bias activation", self.bias is not None, self.activation)

    def blocked_params(self, block: int) -> Named:
        """The same of a blocked convolution's: another activation than ReLU as C of vectors."""
        activation = self.activation
        if isinstance(activation, Activation):
            activation = activation.of_vectors(block)
        return by_name("bias activation", self.bias is not None, activation)

    def told_activation(self, block: int) -> str | VectorActivation:
        """The same of a kernel that is told by an argument whether there is a ReLU."""
        if isinstance(self.activation, Activation):
            return self.activation.of_vectors(block)
        return "least"

    @property
    def axis(self) -> str | None:
        """What lies along ``bias``, if there is one: the parameter ``bias`` of a product's."""
        return None if self.bias is None else self.bias_axis

    @property
    def product_params(self) -> Named:
        """The parameters ``bias`` and ``activation`` of a product's templates."""
        return by_name("bias activation", self.axis, self.activation)

    @property
    def more_bytes(self) -> int:
        """Bytes of what is added."""
        return 0 if self.added is None else self.added.nbytes

    def transposed(self) -> Epilogue:
        """That of the same product with its axes exchanged."""
        return self._replace(bias_axis={"m": "n", "n": "m"}[self.bias_axis])


NO_EPILOGUE = Epilogue()
_MOST_LANES = 16  # of a vector of OpenCL


@lru_cache(maxsize=256)
def _printed(exprs: tuple[Expr, ...], ctype: str, reads: int, scalars: int) -> Printed:
    return print_c(
        exprs,
        ctype,
        inputs=["result", *(f"v_{j}" for j in range(reads))],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
