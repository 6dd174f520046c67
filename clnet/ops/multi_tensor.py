"""What is done to many tensors together, in few launches: gradients measured and overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Device, HostScalar, Launch, Target
from ..kernels.pointwise import MOST_ELEMENTS, most_segments
from ..kernels.reduce import Measure, reduce_many
from ..values import mode
from ..values.dtypes import DType, from_name
from .complex_parts import view_as_real
from .join import stack
from .machinery.crossing import Crossed, on_device
from .machinery.function import Arrays, Function, apply, require_floating
from .machinery.fused import UpdateMany
from .machinery.promotion import result_type
from .machinery.update import Body, symbolic, update
from .reduce import widened
from .shape import contiguous, expand, reshape, to_dtype
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_MEASURES = {2: Measure.SUM_SQUARES, 1: Measure.SUM_MAGNITUDES, inf: Measure.MAX_MAGNITUDE}


class MeasureMany(Function):
    """One number of all elements of dense inputs of one dtype: a sum, or the largest."""

    kind: Measure

    differentiable = ()
    sixteen_bit = False
    repeats = True
    op_name = "norm"

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """A number."""
        for x in inputs:
            require_floating(self.name, x)
        return (Array.abstract((), inputs[0].dtype, inputs[0].device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch for up to 32 inputs, and one or two for all."""
        return reduce_many(target, outputs[0], inputs, self.kind)


def norm_of_all(tensors: Sequence[Tensor], p: float) -> Tensor:
    """The norm of all elements of all tensors, taken as one vector; without a gradient.

    Args:
        tensors: one at least, floating, of any shapes and dtypes.
        p: as for :func:`clnet.norm`; 0 counts the tensors that are not all 0.

    Returns:
        ``()``, in the promoted dtype.
    """
    given = [x.detach() for x in tensors if x.numel()] or tensors[:1]
    if p in _MEASURES and all(0 < x.numel() < 2**31 for x in given):
        alike: dict[tuple[DType, Device], list[Tensor]] = {}
        for x in map(widened, given):
            alike.setdefault((x.dtype, x.device), []).append(contiguous(x))
        found = [apply(MeasureMany(_MEASURES[p]), *some) for some in alike.values()]
        norms = [x.sqrt() for x in found] if p == 2 else found
    else:
        norms = [norm(x, p) for x in given]
    dtype = result_type(*tensors)
    norms = [_near(to_dtype(x, dtype), tensors[0].device) for x in norms]
    # Of p = 0 the norm of norms counts tensors, as PyTorch's does, also of a single one.
    return norms[0] if len(norms) == 1 and p != 0 else norm(stack(norms), p)


def update_many(
    body: Body,
    groups: Sequence[Sequence[Tensor]],
    scalars: Sequence[float | HostScalar] = (),
    *,
    shared: Sequence[Tensor] = (),
) -> None:
    """Overwrite the first tensors of each group with what ``body`` makes of all of it.

    While a function is traced each group is a step, since the passes have more to merge.

    Args:
        body: called with symbols of a group's tensors, of ``shared`` and of the scalars, as
            :func:`.update` does.
        groups: tensors of one shape each.
        scalars: run-time numbers, or cells whose value is read at each enqueue.
        shared: tensors of one element, which all groups read.
    """
    together: dict[Any, list[Sequence[Tensor]]] = {}
    traced = mode.current().tracer is not None
    for place, group in enumerate(groups):
        alone = traced or not _small(group)
        key = place if alone else (group[0].device, *(x.dtype for x in group))
        together.setdefault(key, []).append(group)
    near: dict[Device, list[Tensor]] = {}
    for alike in together.values():
        operands, there = len(alike[0]), alike[0][0].device
        if there not in near:
            near[there] = [_near(x, there) for x in shared]
        most = most_segments(operands, len(shared), len(scalars))
        for start in range(0, len(alike), most):
            _update_together(body, alike[start : start + most], scalars, near[there])


def accumulate_many(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """``total += x`` in place for each pair ``(total, x)``; no two lie in one memory."""
    update_many(_accumulate, pairs)


def overwrite_many(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """``x`` becomes what ``given`` holds, for each pair ``(x, given)`` of one shape and dtype."""
    update_many(_given, [tuple(map(_as_real, pair)) for pair in pairs])


def _as_real(x: Tensor) -> Tensor:
    return view_as_real(x) if x.dtype.is_complex else x


def _given(x: Any, given: Any) -> tuple[Any, ...]:
    del x
    return (given,)


def _accumulate(total: Any, x: Any) -> tuple[Any, ...]:
    return (total + x,)


def _update_together(
    body: Body,
    groups: Sequence[Sequence[Tensor]],
    scalars: Sequence[float | HostScalar],
    shared: Sequence[Tensor],
) -> None:
    """One launch."""
    first = groups[0]
    if len(groups) == 1:
        update(body, [*first, *(expand(x, first[0].shape) for x in shared)], scalars)
        return
    exprs = symbolic(body, len(first) + len(shared), len(scalars))
    compute, name = from_name(first[0].dtype.compute), body.__name__.strip("_")
    many = UpdateMany(name, exprs, tuple(scalars), compute, len(groups), len(first))
    ones = [reshape(x, (1,)) for x in shared]
    apply(many, *(x for group in groups for x in group), *ones)


def _near(x: Tensor, device: Device) -> Tensor:
    """A number on a device, copied there if it is on another; off the tape."""
    if x.device is device:
        return x
    return type(x)(on_device(contiguous(x).array, device, Crossed(device)))


def _small(group: Sequence[Tensor]) -> bool:
    """Whether a group has so little to do that a launch of its own would be more."""
    arrays = [x.array for x in group]
    apart = len({x.storage for x in arrays}) == len(arrays)
    return 0 < arrays[0].size <= MOST_ELEMENTS and apart and all(x.contiguous for x in arrays)
