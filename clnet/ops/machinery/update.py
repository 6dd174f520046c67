"""In-place pointwise updates: gradient accumulation, optimiser steps; one fused launch each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...device import HostScalar
from ...errors import ShapeError
from ...expr import Expr, Input, Scalar
from ...values import mode
from ...values.dtypes import from_name
from .function import apply
from .fused import Fused

if TYPE_CHECKING:
    from ...tensor import Tensor

Body = Callable[..., tuple[Any, ...]]


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

    Raises:
        ShapeError: if they have several shapes.
    """
    if once and mode.current().recomputing:
        return
    name, shape = body.__name__.strip("_"), tensors[0].shape
    if [x for x in tensors if x.shape != shape]:  # a generator would cost every step more
        raise ShapeError(name, "operands have one shape", shapes=[x.shape for x in tensors])
    exprs = symbolic(body, len(tensors), len(scalars))
    compute = from_name(tensors[0].dtype.compute)
    apply(Fused((name,), exprs, tuple(scalars), compute, shape, len(exprs), ()), *tensors)


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
