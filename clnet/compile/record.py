"""Calls a function with abstract tensors and keeps what it did: nothing runs, nothing compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..array import Array
from ..autodiff.tape import next_sequence
from ..device import Device
from ..errors import TraceError
from ..ops.shape import alias
from ..tensor import Tensor
from ..values import mode
from ..values.containers import again
from .differentiable import Backward, record_backward
from .trace import Trace
from .tracer import Tracer


@dataclass(frozen=True)
class Recorded:
    """What one call of a function was.

    Attributes:
        trace: the ops and actions, over abstract arrays.
        tracer: what the trace depends on, and which gradients it leaves.
        template: the structure of what the function returned, with ``Tensor`` in the place of
            tensors.
        backward: of results that stay on the tape; what it saves are the trace's last results.
    """

    trace: Trace
    tracer: Tracer
    template: Any
    backward: Backward | None = None

    def rebuild(self, tensors: Iterable[Tensor]) -> Any:
        """What the function returns, for tensors in the place of the trace's results."""
        return _unflatten(self.template, iter(tensors))


def record(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], device: Device
) -> Recorded:
    """Call a function once with abstract tensors in the place of its tensors.

    Args:
        function: of tensors and plain values.
        args: its arguments; of tensors only shape, dtype and ``requires_grad`` matter.
        kwargs: further ones, by name.
        device: where it makes what it makes without naming a device.

    Returns:
        The recording; nothing was run, and gradients and versions are what they were.

    Raises:
        TraceError: if the function reads a value on the host, or returns a tensor made of one
            outside that has a graph.
    """
    placeholders: list[Tensor] = []

    def placeholder(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        array = Array.abstract(value.shape, value.dtype, value.device)
        placeholders.append(Tensor(array).requires_grad_(value.requires_grad))
        return placeholders[-1]

    tracer, start = Tracer(), next_sequence()
    try:
        outside = mode.current().autocast
        own = outside and outside.apart()  # no tensor of the trace is left for others to find
        with mode.using(tracer=tracer, device=device, autocast=own):
            # In the order of a call's tensors: of f(*generator, **made) Python asks made first.
            placed = [placeholder(a) for a in args]
            named = {k: placeholder(v) for k, v in kwargs.items()}
            result = function(*placed, **named)
            for end in tracer.ends:
                end()
            found: list[Tensor] = []
            template = _flatten(result, found)
            results = [_on_tape(t, placeholders) for t in found]
            backward = record_backward(tracer, results, placeholders, start)
        if any(id(p) in tracer.grads_after for p in placeholders):
            raise TraceError(
                "compile",
                "backward collects the gradient of an argument, which stays inside",
                remedy="Ask for it with clnet.autograd.grad and return it",
            )
        tracer.forget_leaves({p.array.storage for p in placeholders})
    finally:
        tracer.undo()
    grads = [grad for _, grad in tracer.grads_after.values() if grad is not None]
    trace = Trace(
        tuple(tracer.steps),
        tuple(p.array for p in placeholders),
        (*(t.array for t in results), *(backward.saved if backward is not None else ())),
        tuple(grad.array.storage for grad in grads),
        device,
    )
    return Recorded(trace, tracer, template, backward)


def _on_tape(result: Tensor, arguments: Sequence[Tensor]) -> Tensor:
    """A result; an argument or a parameter given back as it came gets a node, as its copy has."""
    leaf = result.requires_grad and result.node is None
    outside = result.array.storage.buffer is not None
    return alias(result) if leaf and (outside or any(result is a for a in arguments)) else result


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """The structure of a result, with the tensors' positions in place of tensors."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return Tensor
    if isinstance(value, tuple | list):
        return again(value, (_flatten(v, tensors) for v in value))
    if isinstance(value, dict):
        return {k: _flatten(v, tensors) for k, v in value.items()}
    return value


def _unflatten(template: Any, tensors: Iterator[Tensor]) -> Any:
    if template is Tensor:
        return next(tensors)
    if isinstance(template, tuple | list):
        return again(template, (_unflatten(v, tensors) for v in template))
    if isinstance(template, dict):
        return {k: _unflatten(v, tensors) for k, v in template.items()}
    return template
