"""What is done to many tensors together, in few launches: gradients measured and overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from .. import mode
from ..array import Array
from ..device import Launch, Target
from ..dtypes import DType, from_name
from ..kernels.pointwise_many import MOST_ELEMENTS, most_segments
from ..kernels.reduce_many import Measure, reduce_many
from .function import Function, apply, require_floating
from .fused import UpdateMany
from .pointwise import result_type
from .reduce import widened
from .shape import contiguous, expand, reshape, stack, to_dtype
from .update import Body, symbolic, update
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_MEASURES = {2: Measure.SUM_SQUARES, 1: Measure.SUM_MAGNITUDES, inf: Measure.MAX_MAGNITUDE}


class MeasureMany(Function):
    """One number of all elements of dense inputs of one dtype: a sum, or the largest."""

    kind: Measure

    differentiable = ()
    sixteen_bit = False

    @property
    def name(self) -> str:
        """What its users call it."""
        return "norm"

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """A number."""
        for x in inputs:
            require_floating(self.name, x)
        return (Array.abstract((), inputs[0].dtype, inputs[0].device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch for up to 32 inputs, and one or two for all."""
        return reduce_many(target, outputs[0], inputs, self.kind)


def norm_of_all(tensors: Sequence[Tensor], p: float) -> Tensor:
    """The norm of all elements of all tensors, taken as one vector; without a gradient.

    Args:
        tensors: one at least, floating, of any shapes and dtypes.
        p: as for :func:`clnet.norm`.

    Returns:
        ``()``, in the promoted dtype.
    """
    given = [x.detach() for x in tensors if x.numel()] or tensors[:1]
    if p in _MEASURES and all(0 < x.numel() < 2**31 for x in given):
        alike: dict[DType, list[Tensor]] = {}
        for x in map(widened, given):
            alike.setdefault(x.dtype, []).append(contiguous(x))
        found = [apply(MeasureMany(_MEASURES[p]), *some) for some in alike.values()]
        norms = [x.sqrt() for x in found] if p == 2 else found
    else:
        norms = [norm(x, p) for x in given]
    dtype = result_type(*tensors)
    norms = [to_dtype(x, dtype) for x in norms]
    return norms[0] if len(norms) == 1 else norm(stack(norms), p)


def update_many(body: Body, groups: Sequence[Sequence[Tensor]], shared: Tensor) -> None:
    """Overwrite the first tensors of each group with what ``body`` makes of all of it.

    While a function is traced each group is a step, since the passes have more to merge.

    Args:
        body: called with symbols of a group's tensors and of ``shared``, as :func:`.update` does.
        groups: tensors of one shape each.
        shared: one element, which all read.
    """
    together: dict[Any, list[Sequence[Tensor]]] = {}
    traced = mode.current().tracer is not None
    for group in groups:
        if traced or not _small(group):
            update(body, [*group, expand(shared, group[0].shape)])
        else:
            together.setdefault(tuple(x.dtype for x in group), []).append(group)
    name, one = body.__name__.strip("_"), reshape(shared, (1,))
    for dtypes, alike in together.items():
        exprs, compute = symbolic(body, len(dtypes) + 1, 0), from_name(dtypes[0].compute)
        most = most_segments(len(dtypes), 1, 0)
        for start in range(0, len(alike), most):
            some = alike[start : start + most]
            many = UpdateMany(name, exprs, (), compute, len(some), len(dtypes))
            apply(many, *(x for group in some for x in group), one)


def _small(group: Sequence[Tensor]) -> bool:
    """Whether a group has so little to do that a launch of its own would be more."""
    arrays = [x.array for x in group]
    apart = len({x.storage for x in arrays}) == len(arrays)
    return 0 < arrays[0].size <= MOST_ELEMENTS and apart and all(x.contiguous for x in arrays)
