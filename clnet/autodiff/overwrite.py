"""Writes in place on the tape: the tensor becomes the result of an op, in the memory it had.

A view knows what it is a view of. So what it was taken from takes part in a write, and a view that
was taken before one gets its history anew. Nothing here knows tensors but by what it is handed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..errors import ClnetError, DtypeError, GradientError, TraceError
from ..ops.complex_parts import AsComplex, AsReal, Part, PutPart
from ..ops.create import MakeInto, zeros_like
from ..ops.machinery.execution import execute
from ..ops.machinery.function import Function
from ..ops.machinery.lowering import kind_in_place
from ..ops.machinery.pointwise import Overwrite
from ..ops.rearrange import Diagonal, PutDiagonal, Windows
from ..ops.shape import Copy, CopyInto, Permute, PutSlice, Reshape, Slice, alias, expand, to_dtype
from ..ops.strided import PutStrided, Strided
from ..values import mode
from .data import place_anew
from .tape import Node, enable_grad

_WRITTEN = Slice | Reshape | Permute | Diagonal | Windows | Strided | AsReal | AsComplex | Part
"""Views through which what they are of may be written on the tape."""


def overwrite(function: Function, inputs: tuple[Any, ...]) -> None:
    """Run an op that overwrites its first input, and let the tape know what that became.

    Args:
        function: a pointwise op in the memory of one of its operands, a copy, or what is made of
            nothing.
        inputs: what is overwritten, and the operands.

    Raises:
        GradientError: if the first one is a leaf that requires gradients or a view of one, a view
            of repeated elements, or not among the operands; or for any other op.
        TraceError: if it lies outside the function that ``clnet.compile`` traces.
    """
    target, *operands = inputs
    _check_target(function, target)
    retained = target.retains_grad
    if isinstance(function, CopyInto):
        before = _forgotten(target)
        target.node, target.index = _after(before, *_copied(function, target, operands[0]), target)
    elif isinstance(function, MakeInto):
        before = _forgotten(target)
        execute(function, (target.array,))
        target.node, target.index = _after(before, None, 0, target)
    elif isinstance(function, Overwrite) and any(x is target for x in operands):
        target.node, target.index = _computed(function, target, operands)
    else:
        raise GradientError(
            function.name,
            "a tensor on the tape is not changed in place",
            shapes=[x.shape for x in inputs],
            remedy="Do it under clnet.no_grad(), or use the op that returns a new tensor",
        )
    if retained:
        target.retain_grad()
    spread(target)


def become(target: Any, node: Any, index: int) -> None:
    """Let a tensor be a node's output that was written into its memory beside the tape.

    Raises:
        GradientError: as of :func:`overwrite`, for what it is a view of.
        TraceError: as there.
    """
    _check_target(node.function, target)
    target.node, target.index = node, index
    spread(target)


def spread(target: Any) -> None:
    """Tell what a tensor is a view of, and other views of that, that it has a new history."""
    storage = target.array.storage
    storage.recorded = target.version = storage.version
    while target.source is not None:
        base, taken = _whole(target)
        base.version = storage.version  # first, or it would be taken again when it is looked at
        base.node, base.index = _put_back(taken, base, target)
        target = base


def refresh(function: Function, x: Any) -> None:
    """Give an operand whose memory was written on the tape since, through another, its history.

    A view is taken again from what it is a view of; what was detached stays so.

    Raises:
        GradientError: if nobody knows what it is a view of.
    """
    if mode.current().grad and not _taken_again(x):
        raise GradientError(
            function.name,
            "an operand shares memory with a tensor that was changed in place on the tape",
            shape=x.shape,
            remedy="Take the view again",
        )


def node_of(x: Any) -> Any:
    """What made a tensor on the tape; of a view of what was written since, taken again."""
    if x.version < x.array.storage.recorded:
        _taken_again(x)
    return x._node


def set_node(x: Any, node: Any) -> None:
    """Say what made a tensor."""
    x._node = node


def _taken_again(x: Any) -> bool:
    """Give a tensor the history of its elements, which may be older; whether that is known."""
    storage = x.array.storage
    if x.version >= storage.recorded:
        return True
    if x.source is None:
        if x._node is None:
            x.version = storage.version
        return x._node is None
    base, taken = _source(x)
    if not _taken_again(base):
        return False
    x.version = storage.version
    retained = x.retains_grad
    kind = type(x.detach())
    x.node = Node(taken, (base,), (True,), (x.array,), kind) if base.requires_grad else None
    x.index = 0
    if retained and x.node is not None:
        x.retain_grad()
    return True


def turn(x: Any, take: Callable[[Any], Any], name: str) -> None:
    """Let a tensor itself become a view of what it was, as ``x.unsqueeze_(0)`` does.

    What is on the tape stays there, also where nothing is recorded: its elements are what they were
    and the gradient, of its new shape, has a way back.
    """
    before = type(x.detach())(x.array, x.node, x.index)
    before.source, before.version, before._turned = x.source, x.version, x._turned
    with nullcontext() if x.node is None else enable_grad():
        view = take(before)
    if view is not before:
        place_anew(x, view.array, name=name)
        x.node, x.index = view.node, view.index
        x.source, x.version, x._turned = view.source, view.version, True


def _source(view: Any) -> tuple[Any, Function]:
    """What a tensor is a view of, and the op that took it.

    A tensor that turned is not what its views were taken of: that is what it was.
    """
    base, taken = view.source
    while base._turned and base.source is not None and not _gives(taken, base.array, view.array):
        base = base.source[0]
    return base, taken


def _whole(view: Any) -> tuple[Any, Function]:
    """What a tensor is a part of, and how, for a write.

    A part of windows is one of what these are of: where they overlap, each would be written.
    """
    found = above, _ = _source(view)
    while above.source is not None:
        above, taken = _source(above)
        if isinstance(taken, Strided | Windows) and above.dtype == view.dtype:
            found = (above, taken)
    return found


def _gives(taken: Function, base: Any, view: Any) -> bool:
    """Whether an op takes this view of an array."""
    try:
        (found,) = execute(taken, (base,))
    except (ClnetError, IndexError, ValueError):
        return False  # of another number of axes
    same = (found.shape, found.strides) == (view.shape, view.strides)
    return same and found.offset == view.offset


def _check_target(function: Function, target: Any) -> None:
    """Refuse what cannot be given a value on the tape.

    Raises:
        GradientError: of a view that is no part of another tensor, and of a leaf.
        TraceError: of a tensor from outside a function that is traced.
    """
    viewed = target
    while viewed.source is not None:
        viewed, taken = _source(viewed)
        if not isinstance(taken, _WRITTEN):
            raise GradientError(
                function.name,
                "only slices, diagonals and other shapes are views changed in place on the tape",
                view=taken.name,
                shape=target.shape,
                remedy="Change a clone() instead",
            )
    if viewed.node is None and viewed.requires_grad:
        raise GradientError(
            function.name,
            "a leaf that requires gradients is not changed in place while they are recorded",
            shape=viewed.shape,
            remedy="Do it under clnet.no_grad(), or use the op that returns a new tensor",
        )
    if mode.current().tracer is not None and target.array.storage.buffer is not None:
        raise TraceError(
            function.name,
            "a tensor from outside the traced function is given a value on its tape",
            shape=target.shape,
            remedy="Detach the value first",
        )


class Forget(Function):
    """What was written over a whole tensor; what was there gets zeros, as PyTorch gives it."""

    takes_complex = True
    repeats = True

    def backward(self, saved: Any, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> Any:
        """Zeros for the old elements; the gradient is the new ones'."""
        return tuple(
            (grads[0] if place else zeros_like(grads[0])) if need else None
            for place, need in enumerate(needs)
        )


def _forgotten(target: Any) -> Any:
    """What a tensor is now, if a write that asks for none of it leaves no other way there.

    Where a part of another tensor is written, that one's node knows the way.
    """
    if not target.requires_grad:
        return None
    viewed = target
    while viewed.source is not None:
        viewed, taken = _source(viewed)
        if not isinstance(taken, Reshape | Permute | AsReal | AsComplex):
            return None
    return type(target.detach())(target.array, target.node, target.index)


def _after(before: Any, node: Node | None, index: int, target: Any) -> tuple[Node | None, int]:
    """The node of a tensor that was written over, which its old elements' gradient is zero from."""
    if before is None:
        return node, index
    value = type(before)(target.array, node, index)
    return _written(Forget(), (before, value), (True, node is not None), target.array), 0


def _written(function: Function, inputs: Any, needs: tuple[bool, ...], array: Any) -> Node:
    """The node of what was written over something."""
    kind = type(inputs[0].detach())
    return Node(function, inputs, needs, (array,), kind, kind_in_place(function, inputs))


def _copied(function: CopyInto, target: Any, source: Any) -> tuple[Node | None, int]:
    """Copy; what was there is forgotten, and the tensor is the source, broadcast and converted."""
    function.infer(target.array, source.array)
    if not source.requires_grad or not target.dtype.differentiable:
        execute(function, (target.array, source.array))
        return None, 0
    value = alias(expand(to_dtype(source, target.dtype), target.shape))
    execute(function, (target.array, value.array))
    return value.node, value.index


def _computed(function: Overwrite, target: Any, operands: list[Any]) -> tuple[Node, int]:
    """Compute in place; operands in that memory which backward reads are copied first."""
    if not target.dtype.differentiable:
        raise DtypeError(
            function.name, "what is overwritten on the tape is floating", dtype=target.dtype
        )
    made = function.function
    needs = tuple(x.requires_grad for x in operands)
    read, _ = made.saves(needs)
    kept = [_as_it_was(function, x, target, copied=k in read) for k, x in enumerate(operands)]
    execute(function, (target.array, *(x.array for x in operands)))
    return _written(made, kept, needs, target.array), 0


def _as_it_was(function: Function, x: Any, target: Any, *, copied: bool) -> Any:
    """An operand for the tape: apart from the tensor, whose own node will be another."""
    if x.array.storage is not target.array.storage:
        return x
    _check_target(function, x)
    array = execute(Copy(), (x.array,))[0] if copied else x.array
    return type(x.detach())(array, x.node, x.index)


def _put_back(taken: Function, base: Any, view: Any) -> tuple[Node | None, int]:
    """What ``base`` is, now that a view of it has new elements; they are there already."""
    function: Function
    if isinstance(taken, Slice):
        function, inputs = PutSlice(taken.starts, taken.steps), (base, view)
    elif isinstance(taken, Diagonal):
        function, inputs = PutDiagonal(taken.offset, taken.dims), (base, view)
    elif isinstance(taken, Part):
        function, inputs = PutPart(taken.which), (base, view)
    elif isinstance(taken, Strided | Windows):
        x, seen = base.array, view.array
        parts = (seen.shape, seen.strides, seen.offset - x.offset, tuple(x.shape), tuple(x.strides))
        function, inputs = PutStrided(*parts), (base, view)
    else:
        function = taken.inverse(base.shape)  # pyrefly: ignore[missing-attribute] - _check_target lets no others pass
        inputs = (view,)
    needs = tuple(x.requires_grad for x in inputs)
    return (_written(function, inputs, needs, base.array) if any(needs) else None), 0
