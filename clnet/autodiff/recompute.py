"""``clnet.checkpoint``: inner values are computed again in backward instead of kept until then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..array import Array
from ..errors import ArgumentError
from ..ops.machinery.function import Function
from ..ops.random import Draws
from ..ops.shape import alias
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from .structure import put_together, taken_apart
from .tape import Node, next_sequence
from .walk import run_backward

__all__ = ["checkpoint", "checkpoint_sequential"]


@checked
def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)``, run once more in backward instead of keeping what it needs.

    Only the arguments, the parameters that the function uses and its results are held until
    then: memory is paid for with the time of a second forward pass. Random numbers are the same in
    both runs, running statistics are updated in the first alone, and gradients are those without a
    checkpoint, bit for bit.

    Args:
        function: a module or a function of tensors and other values; it does the same when it runs
            again.
        *args: its arguments; tensors among them, also in tuples, lists, dicts and data classes, may
            be on the tape.
        **kwargs: further ones, by name.

    Returns:
        What the function returns: tensors, also in tuples, lists, dicts and data classes.

    Example:
        >>> import clnet
        >>> x = clnet.ones(2, requires_grad=True)
        >>> clnet.checkpoint(lambda v: (v * v).exp(), x).sum().backward()
        >>> x.grad.shape
        (2,)
    """
    now = mode.current()
    if not now.grad:
        return function(*args, **kwargs)
    tensors: list[Tensor] = []
    called, named = taken_apart([list(args), kwargs], tensors)
    segment = _Segment(function, called, named, Draws(now.draws), now)
    start = next_sequence()
    inside = [x.detach().requires_grad_(x.requires_grad) for x in tensors]
    apart = now.autocast and now.autocast.apart()
    with mode.using(draws=segment.draws, autocast=apart, saved_hooks=None):
        result = segment.run(inside)
    outputs: list[Tensor] = []
    template = taken_apart(result, outputs)
    known = {id(x): given for x, given in zip(inside, tensors, strict=True)}
    found = [o for o in outputs if _is_made_since(o.node, start)]
    if not found:
        return put_together(template, (known.get(id(o), o) for o in outputs))
    inputs = (*tensors, *_captured(found, start, exclude=inside))
    needs = tuple(x.requires_grad for x in inputs)
    node = Node(
        Recomputed(segment, len(tensors)), inputs, needs, [o.array for o in outputs], Tensor
    )
    made = [  # what the function gives back as it came is that
        Tensor(o.array, node, k) if _is_made_since(o.node, start) else known.get(id(o), o)
        for k, o in enumerate(outputs)
    ]
    return put_together(template, iter(made))


@checked
def checkpoint_sequential(functions: Iterable[Callable[[Any], Any]], segments: int, x: Any) -> Any:
    """Apply functions one after another, in segments that are checkpointed; the last one is not.

    About as many segments as the square root of the number of layers hold the least.

    Args:
        functions: modules or functions of one argument, such as an ``nn.Sequential``.
        segments: how many, of about equal length.
        x: what the first one gets: a tensor, or tensors in tuples, lists, dicts and data classes.

    Returns:
        What the last one gives.

    Raises:
        ArgumentError: if there are fewer functions than segments, or no segment.
    """
    layers = list(functions)
    if not 1 <= segments <= len(layers):
        raise ArgumentError(
            "checkpoint_sequential",
            "segments lies between 1 and the number of functions",
            segments=segments,
            functions=len(layers),
        )
    bounds = [i * len(layers) // segments for i in range(segments + 1)]
    for number in range(segments):
        part = _Row(tuple(layers[bounds[number] : bounds[number + 1]]))
        x = part(x) if number == segments - 1 else checkpoint(part, x)
    return x


@dataclass(frozen=True)
class _Row:
    """Functions one after another."""

    functions: tuple[Callable[[Any], Any], ...]

    def __call__(self, x: Any) -> Any:
        for function in self.functions:
            x = function(x)
        return x


@dataclass(frozen=True, eq=False)
class _Segment:
    """A function with its plain arguments, and how it was run first.

    Attributes:
        args, kwargs: the arguments; tensors among them only mark their places.
        draws: the random numbers it drew.
        forward: the mode it ran in.
    """

    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    draws: Draws
    forward: mode.Mode

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """The function on these tensors."""
        args, kwargs = put_together([self.args, self.kwargs], iter(tensors))
        return self.function(*args, **kwargs)

    def run_again(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The function on these tensors, as it ran before."""
        before = self.forward
        with mode.using(
            grad=True,
            draws=self.draws.again(),
            device=before.device,
            float32_precision=before.float32_precision,
            winograd=before.winograd,
            conv_algorithm=before.conv_algorithm,
            autocast=before.autocast and before.autocast.apart(),
        ):
            found: list[Tensor] = []
            taken_apart(self.run(tensors), found)
            return found


class Recomputed(Function):
    """A checkpointed function on the tape: tensors it was given, then others that it uses."""

    takes_complex = True
    packs_saved = False  # leaves are known again by who they are

    segment: _Segment
    num_tensors: int
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        """``checkpoint``."""
        return "checkpoint"

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The inputs, and nothing that was made of them."""
        return range(len(needs)), ()

    def backward(
        self, saved: Any, grads: tuple[Any, ...], needs: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        """The function once more, and back through it."""
        create_graph = mode.current().grad
        inputs = [saved.inputs[i] for i in range(len(needs))]
        # Where the walk is recorded, the gradients' graph goes on through the aliases.
        tensors = [
            alias(x) if create_graph and need else x.detach().requires_grad_(need)
            for x, need in zip(inputs[: self.num_tensors], needs, strict=False)
        ]
        outputs = self.segment.run_again(tensors)
        arrived = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None]
        targets = [*tensors, *inputs[self.num_tensors :]]
        found = run_backward(
            [o for o, _ in arrived],
            [g for _, g in arrived],
            targets=[t for t, need in zip(targets, needs, strict=True) if need],
            retain_graph=create_graph,
            create_graph=create_graph,
            stop_at_targets=True,
        )
        return tuple(
            found[id(t)][1] if need and id(t) in found else None
            for t, need in zip(targets, needs, strict=True)
        )


def _is_made_since(node: Node | None, start: int) -> bool:
    return node is not None and node.sequence >= start


def _captured(outputs: Sequence[Tensor], start: int, *, exclude: Sequence[Tensor]) -> list[Tensor]:
    """What the function used besides its arguments, in the order of first use.

    Leaves, and tensors on the tape that stand for those it found: of the same place there.
    """
    nodes: dict[int, Node] = {}
    pending = [o.node for o in outputs if o.node is not None]
    while pending:
        node = pending.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            inner = (e.node for e in node.edges if e is not None)
            pending += [n for n in inner if n is not None and n.sequence >= start]
    known = {id(x) for x in exclude}
    found: dict[Any, Tensor] = {}
    device = outputs[0].device
    for node in sorted(nodes.values(), key=lambda n: n.sequence):
        for edge, (shape, dtype) in zip(node.edges, node.input_specs, strict=True):
            if edge is None:
                continue
            if edge.node is None and id(edge.leaf) not in known:
                found.setdefault(id(edge.leaf), edge.leaf)
            elif edge.node is not None and edge.node.sequence < start:
                place = Array.abstract(shape, dtype, device)
                found.setdefault((edge.node, edge.index), Tensor(place, edge.node, edge.index))
    return list(found.values())
