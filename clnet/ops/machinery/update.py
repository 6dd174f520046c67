"""In-place pointwise updates: gradient accumulation, optimiser steps; one fused launch each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...errors import ShapeError
from ...expr import Expr, Input, Scalar
from ...kernels.pointwise import pointwise as launch_pointwise
from ...values import mode
from ...values.dtypes import from_name
from .function import Function, apply

if TYPE_CHECKING:
    from ...tensor import Tensor

Body = Callable[..., tuple[Any, ...]]


class Update(Function):
    """Overwrite the first inputs, in place, with expressions of all of them.

    Attributes:
        op_name: the update's name.
        exprs: the new value of input 0, 1, ...
        scalars: values of ``Scalar(i)``, read at each enqueue.
    """

    op_name: str
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]

    @property
    def name(self) -> str:
        """The update's name."""
        return self.op_name

    @property
    def mutates(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride] - it depends on the settings
        """As many inputs as there are expressions."""
        return tuple(range(len(self.exprs)))

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """No outputs; the inputs have one shape."""
        if any(x.shape != inputs[0].shape for x in inputs):
            raise ShapeError(
                self.op_name, "operands have one shape", shapes=[x.shape for x in inputs]
            )
        return ()

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch."""
        written = inputs[: len(self.exprs)]
        compute = from_name(inputs[0].dtype.compute)
        return launch_pointwise(
            target, written, inputs, self.exprs, scalars=self.scalars, compute=compute
        )


def update(
    body: Body,
    tensors: Sequence[Tensor],
    scalars: Sequence[float | HostScalar] = (),
    *,
    once: bool = False,
) -> None:
    """Overwrite the first tensors with what ``body`` makes of all of them, in one pass.

    Args:
        body: called once with symbols of the tensors and scalars; gives the new values of the first
            tensors, in order. Its name is the op's.
        tensors: of one shape.
        scalars: run-time numbers, or cells whose value is read at each enqueue.
        once: not again when a checkpointed function runs again in backward (statistics, counts).
    """
    if once and mode.current().recomputing:
        return
    exprs = symbolic(body, len(tensors), len(scalars))
    apply(Update(body.__name__.strip("_"), exprs, tuple(scalars)), *tensors)


def accumulate(total: Tensor, x: Tensor) -> None:
    """``total += x`` in place."""
    if total.dtype.is_complex:
        total.add_(x)
        return
    update(_accumulate, [total, x])


def _accumulate(total: Expr, x: Expr) -> tuple[Expr, ...]:
    return (total + x,)


@lru_cache(maxsize=256)
def symbolic(body: Body, tensors: int, scalars: int) -> tuple[Expr, ...]:
    """What a body makes of symbols of so many tensors and scalars."""
    return tuple(body(*map(Input, range(tensors)), *map(Scalar, range(scalars))))
