"""What is overwritten as a whole becomes a value of its own: later passes may move and fuse it.

``x.relu_()`` behind a convolution is then the ReLU it would be out of place. The memory plan puts
the one in the other's place again, where nobody needs that any more.
"""

from __future__ import annotations

from dataclasses import replace

from ..array import Array
from ..device import Storage
from ..ops.create import MakeInto
from ..ops.machinery.function import Function
from ..ops.machinery.pointwise import Overwrite
from .simplify import Places, moved, with_places
from .trace import Trace
from .tracer import Action, Step


def as_values(trace: Trace) -> Trace:
    """The trace with ops in place done out of place, where the memory is its own."""
    places: Places = {}
    steps: list[Step | Action] = []
    lasting = trace.outside | trace.given | frozenset(trace.kept)
    for step in trace.steps:
        if isinstance(step, Action):
            steps.append(step)
            continue
        new = moved(step, places)
        if isinstance(new.function, Overwrite | MakeInto) and _is_whole(new.inputs[0]):
            overwritten = step.inputs[0].storage
            if overwritten not in lasting and not _widens(new):
                new = _out_of_place(new, new.function)
                places[overwritten] = (_made(new), 0)
        steps.append(new)
    return with_places(trace, steps, places)


def _is_whole(array: Array) -> bool:
    return array.contiguous and array.nbytes == array.storage.nbytes


def _widens(step: Step) -> bool:
    """Whether a real result overwrites complex numbers."""
    of = step.function
    wide = step.inputs[0].dtype.is_complex
    return isinstance(of, Overwrite) and wide and not of.function.dtypes[0].is_complex


def _out_of_place(step: Step, function: Overwrite | MakeInto) -> Step:
    target, *operands = step.inputs
    made = Array.abstract(target.shape, target.dtype, target.device)
    of: Function = function.function
    if isinstance(function, Overwrite):
        of = replace(function.function, dtypes=(target.dtype,))
    return replace(step, function=of, inputs=tuple(operands), outputs=(made,))


def _made(step: Step) -> Storage:
    (output,) = step.outputs
    return output.storage
