"""Pointwise expressions that overwrite inputs: updates, and what compiled functions fuse of ops."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...expr import Expr
from ...kernels.pointwise import pointwise as launch_pointwise
from ...kernels.pointwise import pointwise_many
from ...values.dtypes import DType
from ...values.shapes import Shape
from .function import Arrays, Function

_MOST_NAMES = 6


class Fused(Function):
    """Expressions of the inputs' elements, some of which overwrite inputs.

    Attributes:
        parts: names of the ops that were fused, in order.
        exprs: first those that overwrite inputs, then those of the outputs.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        compute: the dtype of the arithmetic.
        shape: of all that is written.
        changed: how many inputs, the first ones, are overwritten.
        dtypes: of the outputs.
    """

    parts: tuple[str, ...]
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]
    compute: DType
    shape: Shape
    changed: int
    dtypes: tuple[DType, ...]

    elementwise = True
    repeats = True

    @property
    def repeat_key(self) -> Any:
        """The names decide about no kernel."""
        return self.exprs, self.compute, self.shape, self.changed, self.dtypes, len(self.scalars)

    @property
    def varying(self) -> tuple[float | HostScalar, ...]:
        """Its scalars."""
        return self.scalars

    @property
    def name(self) -> str:
        """The names of its parts."""
        if len(self.parts) == 1:  # an update's, which is asked for at every step of eager training
            return self.parts[0]
        names = list(dict.fromkeys(self.parts))
        return "+".join(names[:_MOST_NAMES]) + ("+..." if len(names) > _MOST_NAMES else "")

    @property
    def mutates(self) -> tuple[int, ...]:
        """The first inputs."""
        return tuple(range(self.changed))

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        return tuple(Array.abstract(self.shape, d, inputs[0].device) for d in self.dtypes)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        written = (*inputs[: self.changed], *outputs)
        return launch_pointwise(
            target, written, inputs, self.exprs, scalars=self.scalars, compute=self.compute
        )


class UpdateMany(Function):
    """The same update of many small groups of arrays, each group of one size, in one launch.

    Its inputs are the arrays of the first group, of the second ..., then those that all read.

    Attributes:
        op_name: the update's name.
        exprs: new values of the first arrays of a group.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        compute: the dtype of the arithmetic.
        groups: how many.
        operands: arrays of a group.
    """

    op_name: str
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]
    compute: DType
    groups: int
    operands: int

    repeats = True

    @property
    def repeat_key(self) -> Any:
        """The name decides about no kernel."""
        return self.exprs, self.compute, self.groups, self.operands, len(self.scalars)

    @property
    def varying(self) -> tuple[float | HostScalar, ...]:
        """Its scalars."""
        return self.scalars

    @property
    def mutates(self) -> tuple[int, ...]:
        """The first arrays of each group."""
        starts = range(0, self.groups * self.operands, self.operands)
        return tuple(start + k for start in starts for k in range(len(self.exprs)))

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """No outputs."""
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        end = self.groups * self.operands
        segments = [inputs[at : at + self.operands] for at in range(0, end, self.operands)]
        return pointwise_many(
            target, segments, inputs[end:], self.exprs, scalars=self.scalars, compute=self.compute
        )
