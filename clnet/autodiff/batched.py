"""Tensors that stand for an element of a batch while all of it is computed at once.

Inside :func:`.vmap.vmap` a function sees tensors of an element's shape. Their array is a
:class:`Batched`, which knows the tensor of the whole batch (of the same, if an element of it is
meant by all). An op on them is applied to the whole batch by a rule of :mod:`clnet.ops.batched`.

There are two tapes. The whole tensors are on that of whoever called ``vmap``, if gradients flow
through. What differentiates inside (``vmap(grad(f))``) has *tracked* tensors, whose nodes hold
tensors of elements: their gradients are an element's, by ops on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..array import Array
from ..errors import ArgumentError
from ..ops.attention import Attention
from ..ops.batched import rule_for
from ..ops.create import Full, MakeInto
from ..ops.index import PutRows, ReplaceRows
from ..ops.join import stack
from ..ops.machinery.autocast import cast
from ..ops.machinery.boundary import Boundary
from ..ops.machinery.derived import Derived
from ..ops.machinery.function import Function, apply, results_of
from ..ops.machinery.fused import Fused
from ..ops.machinery.pointwise import Overwrite
from ..ops.random import DrawnFrom, Dropout, Random
from ..ops.shape import CopyInto, contiguous, expand, reshape, to_dtype
from ..ops.sort import Permutation
from ..tensor import Tensor
from ..values import mode
from .tape import Node

__all__ = [
    "DIFFERENT",
    "SAME",
    "Batched",
    "Level",
    "LoopNeeded",
    "applied",
    "element",
    "gradient_of_whole",
    "is_tracked",
    "leaf_of",
    "whole_of",
]

_ERROR, SAME, DIFFERENT = "error", "same", "different"


class LoopNeeded(BaseException):
    """Something is asked for that elements have, and batches have not: a number on the host.

    It is no ``Exception``, so that nothing but :func:`.vmap.vmap` catches it, which then calls its
    function for one element after another.
    """


class Level:
    """One ``vmap`` under way.

    Args:
        size: of the batch.
        randomness: as ``vmap`` takes it.
        depth: how many are around it.

    Attributes:
        common: memory of arguments that have no batch.
    """

    __slots__ = ("common", "depth", "randomness", "size")

    @staticmethod
    def applied(function: Function, inputs: tuple[Any, ...]) -> tuple[Tensor, ...] | None:
        """See :func:`applied`."""
        return applied(function, inputs)

    def of_elements(self, function: Function, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """What an op gives, at least one of whose inputs is an element of this batch."""
        return _of_elements(self, function, inputs)

    def __init__(self, size: int, randomness: str, depth: int) -> None:
        self.size, self.randomness, self.depth = size, randomness, depth
        self.common: set[int] = set()


class Batched(Array):
    """An element of a batch, as ops see it; its memory is the whole batch's.

    Attributes:
        whole: the tensor of all elements, along its first axis.
        level: which batch.
        stacked: whether there is that axis; else all elements are ``whole``.
        tracked: whether what is made of it is to be differentiated within the level.
        shared: whether others look at the same memory: a list, common to all of them.
    """

    __slots__ = ("level", "shared", "stacked", "tracked", "whole")
    whole: Tensor
    level: Level
    stacked: bool
    tracked: bool
    shared: list[bool]

    @staticmethod
    def of(
        whole: Tensor,
        level: Level,
        *,
        stacked: bool = True,
        tracked: bool = False,
        shared: list[bool] | None = None,
    ) -> Batched:
        """The array of an element of ``whole``."""
        made, inner = object.__new__(Batched), whole.array
        shape, strides = inner.shape, inner.strides
        if stacked:
            shape, strides = shape[1:], strides[1:]
        Array.__init__(made, inner.storage, shape, strides, inner.offset, inner.dtype)
        made.whole, made.level, made.stacked, made.tracked = whole, level, stacked, tracked
        made.shared = [False] if shared is None else shared
        return made

    def off_tape(self) -> Batched:
        self.shared[0] = True
        whole = self.whole.detach()
        return Batched.of(whole, self.level, stacked=self.stacked, shared=self.shared)

    def require_alone(self, *args: Any, **kwargs: Any) -> Any:
        """An element by itself is asked for."""
        raise LoopNeeded

    numpy = write = moved = map = place = on_host = visit = uncounted = require_alone


def element(whole: Tensor, level: Level, *, stacked: bool = True) -> Tensor:
    """A tensor that stands for an element of ``whole``, which others hold."""
    return _flagged(Tensor(Batched.of(whole, level, stacked=stacked, shared=[True])))


def leaf_of(x: Tensor, level: Level) -> Tensor:
    """A leaf to differentiate by within a level, of what any tensor holds."""
    array: Any = x.array
    if array.whole is not None and array.level is level:
        own = Batched.of(array.whole, level, stacked=array.stacked, tracked=True, shared=[True])
    else:
        own = Batched.of(x, level, stacked=False, tracked=True, shared=[True])
    return _flagged(Tensor(own))


def is_tracked(x: Tensor) -> bool:
    """Whether a tensor is differentiated within the level that it is of."""
    array: Any = x.array
    return type(array) is Batched and (x.node is not None or array.tracked)


def whole_of(x: Tensor, level: Level) -> tuple[Tensor, bool]:
    """What a tensor is in terms of those outside a level, and whether it has the batch's axis."""
    array: Any = x.array
    if array.whole is None or array.level is not level:
        return x, False
    return array.whole, array.stacked


def applied(function: Function, inputs: tuple[Any, ...]) -> tuple[Tensor, ...] | None:
    """Apply an op to the whole batch; None: no input is an element of one.

    Raises:
        LoopNeeded: if elements have to be computed one after another.
    """
    level: Any = None
    for x in inputs:
        array = getattr(x, "array", None)
        if array is None:
            return None  # refused by whoever asked
        if array.whole is not None and (level is None or array.level.depth > level.depth):
            level = array.level
    if level is None:
        return _drawn(mode.current().batching or (), function, inputs)
    return level.of_elements(function, inputs)


def _of_elements(level: Level, function: Function, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    now = mode.current()
    if any(x.dtype.is_complex for x in inputs) and not function.takes_complex:
        found = function.of_complex(*inputs)
        return found if isinstance(found, tuple) else (found,)
    if now.autocast is not None:
        function, inputs = cast(now.autocast, function, inputs)
    tracked = now.grad and any(map(is_tracked, inputs))
    if function.mutates:
        _overwritten(level, function, inputs, tracked=tracked)
        return ()
    function.infer(*(x.array for x in inputs))  # its errors are an element's
    arrays = _outputs(now, level, function, inputs)
    for x in inputs:
        for y in arrays:
            if y.storage is x.array.storage and type(x.array) is Batched:
                y.shared = x.array.shared
                y.shared[0] = True
    if not tracked:
        return tuple(_flagged(Tensor(y)) for y in arrays)
    needs = tuple(map(is_tracked, inputs))
    node, flows = Node(function, inputs, needs, arrays, Tensor), function.differentiable
    return tuple(
        Tensor(y, node, k)
        if y.dtype.differentiable and (flows is None or k in flows)
        else _flagged(Tensor(y))
        for k, y in enumerate(arrays)
    )


def _flagged(x: Tensor) -> Tensor:
    """Ops ask whether gradients flow to their operands: here, to the whole ones."""
    array: Any = x.array
    x._requires_grad = array.tracked or array.whole.requires_grad
    return x


def _outputs(now: Any, level: Level, function: Function, inputs: Sequence[Any]) -> list[Batched]:
    """What a function gives, for all elements."""
    pairs = [whole_of(x, level) for x in inputs]
    wholes, flags = [w for w, _ in pairs], tuple(f for _, f in pairs)
    if level.randomness == _ERROR and now.autocast is None:
        return _computed(level, function, flags, wholes)
    outer = tuple(one for one in now.batching if one is not level) or None
    with mode.using(batching=outer if level.randomness == DIFFERENT else now.batching,
                    autocast=None):  # fmt: skip
        return _computed(level, function, flags, wholes)


def _computed(
    level: Level, function: Function, flags: tuple[bool, ...], wholes: list[Tensor]
) -> list[Batched]:
    if not any(flags):
        return [Batched.of(y, level, stacked=False) for y in results_of(function, *wholes)]
    if type(function) is Dropout and level.randomness == SAME:
        mask = apply(function, wholes[0].detach().new_ones(wholes[0].shape[1:]))
        return [Batched.of(wholes[0] * mask, level)]
    if level.randomness == SAME and _draws(function):
        raise LoopNeeded
    if type(function) is Derived:
        function = replace(function, rule=_rule_of(level, function, flags))
        return [
            Batched.of(y, level)
            for y in results_of(
                function,
                *(
                    w if f or k < function.count else _repeated(w, level)
                    for k, (w, f) in enumerate(zip(wholes, flags, strict=True))
                ),
            )
        ]
    own = rule_for(type(function))
    found = None if own is None else own(function, flags, wholes, level.size)
    if found is not None:
        return [Batched.of(y, level) for y in found]
    if function.decompose is not None:
        parts = [element(w, level, stacked=f) for w, f in zip(wholes, flags, strict=True)]
        made = function.decompose(*parts)
        return [_array_of(y, level) for y in (made if isinstance(made, tuple) else (made,))]
    return _one_by_one(level, function, flags, wholes)


def _draws(function: Function) -> bool:
    attends = isinstance(function, Attention) and function.counter is not None
    return isinstance(function, DrawnFrom) or attends


def _array_of(y: Tensor, level: Level) -> Batched:
    whole, stacked = whole_of(y, level)
    return Batched.of(whole, level, stacked=stacked)


def _repeated(x: Tensor, level: Level) -> Tensor:
    return expand(reshape(x, (1, *x.shape)), (level.size, *x.shape))


def _one_by_one(
    level: Level, function: Function, flags: tuple[bool, ...], wholes: list[Tensor]
) -> list[Batched]:
    """Of a function without a rule: elements one after another, stacked.

    Raises:
        LoopNeeded: if there are none, or it is one that knows more than its inputs.
    """
    place = type(function).__module__.rpartition(".ops.")[1]
    if not level.size or not place or isinstance(function, Boundary):
        raise LoopNeeded
    every = [
        results_of(
            function,
            *(contiguous(w[k]) if f else w for w, f in zip(wholes, flags, strict=True)),
        )
        for k in range(level.size)
    ]
    return [Batched.of(stack(outputs), level) for outputs in zip(*every, strict=True)]


def _rule_of(level: Level, function: Derived, flags: tuple[bool, ...]) -> Any:
    """The rule of a derivative for whole batches, by that for elements."""

    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        stacked = [True] * len(results)
        held = [element(x, level, stacked=f) for x, f in zip(inputs, flags, strict=False)]
        made, arrived = (
            [None if x is None else element(x, level, stacked=f) for x, f in pairs]
            for pairs in (zip(results, stacked, strict=True), zip(grads, stacked, strict=True))
        )
        batching = mode.current().batching or ()
        with mode.using(batching=(*batching, level)):
            found = function.rule(held, made, arrived)
        return [
            None if g is None else gradient_of_whole(g, level, stacked=f)
            for g, f in zip(found, flags, strict=False)
        ]

    return rule


def gradient_of_whole(g: Tensor, level: Level, *, stacked: bool) -> Tensor:
    """A gradient of elements as one of what they were taken from."""
    whole, own = whole_of(g, level)
    if stacked:
        return whole if own else _repeated(whole, level)
    return whole.sum(0) if own else whole * level.size


def _drawn(
    levels: tuple[Level, ...], function: Function, inputs: tuple[Any, ...]
) -> tuple[Tensor, ...] | None:
    """Random numbers that are others for each element; None: they are the same."""
    if not isinstance(function, Random | Permutation | Dropout | DrawnFrom | MakeInto):
        return None
    if not levels:
        return None
    if levels[-1].randomness != DIFFERENT:
        return _drawn(levels[:-1], function, inputs)
    level = levels[-1]
    outer = levels[:-1] or None
    with mode.using(batching=outer):
        if isinstance(function, Random):
            own = replace(function, shape=(level.size, *function.shape))
            (whole,) = Tensor.__apply_function__(own, ())
            return (Tensor(Batched.of(whole, level)),)
        if isinstance(function, Dropout | DrawnFrom):
            wholes = [contiguous(_repeated(x, level)) for x in inputs]
            made = results_of(function, *wholes)
            return tuple(_flagged(Tensor(Batched.of(y, level))) for y in made)
    if isinstance(function, Permutation) or isinstance(function.function, Random):
        raise LoopNeeded
    return None


def _overwritten(
    level: Level, function: Function, inputs: tuple[Any, ...], *, tracked: bool
) -> None:
    """Overwrite the first input: the whole batch's, or what the tensor holds.

    Raises:
        LoopNeeded: if all elements would write the same memory, or others look at it whose
            gradients are asked for.
        ArgumentError: if an argument without the batch would hold what differs among elements.
    """
    target, *operands = inputs
    array = target.array
    if id(array.storage) in level.common and any(whole_of(x, level)[1] for x in operands):
        law = "an argument without the batch is not overwritten by what has it"
        hint = "Overwrite a clone() of an element, or give the argument a batch"
        raise ArgumentError("vmap", law, shape=target.shape, remedy=hint)
    if type(array) is not Batched or array.level is not level or not array.stacked:
        raise LoopNeeded
    if tracked:
        if array.shared[0] or not isinstance(function, Overwrite):
            raise LoopNeeded
        function.infer(array, *(x.array for x in operands))
        before = Tensor(array, target.node, target.index)  # what nodes hold stays what it was
        operands = [before if x is target else x for x in operands]
        made = to_dtype(apply(function.function, *operands), target.dtype)
        if type(made.array) is not Batched:
            raise LoopNeeded
        target.array, target.node, target.index = made.array, made.node, made.index
        return
    pairs = [whole_of(x, level) for x in inputs]
    wholes, flags = [w for w, _ in pairs], [f for _, f in pairs]
    _write(level, function, flags, wholes, array)


def _write(
    level: Level, function: Function, flags: list[bool], wholes: list[Tensor], array: Batched
) -> None:
    (whole, *others), size = wholes, level.size
    if isinstance(function, Overwrite | CopyInto):
        lined = []
        for x, f in zip(others, flags[1:], strict=True):
            between = (1,) * (whole.ndim - x.ndim) if f else ()
            lined.append(reshape(x, (size, *between, *x.shape[1:])) if between else x)
        apply(function, whole, *lined)
    elif isinstance(function, Fused) and all(flags[: function.changed]):
        own = replace(function, shape=(size, *function.shape))
        rest = [w if f else _repeated(w, level) for w, f in zip(others, flags[1:], strict=True)]
        apply(own, whole, *rest)
    elif isinstance(function, MakeInto) and isinstance(function.function, Full | Random):
        if isinstance(function.function, Random) and level.randomness != DIFFERENT:
            raise LoopNeeded
        inner = replace(function.function, shape=(size, *array.shape))
        apply(replace(function, function=inner), whole)
    elif isinstance(function, PutRows):
        own = ReplaceRows(function.wrap, function.check)
        (made,) = _computed(level, own, tuple(flags), wholes)
        apply(CopyInto(), whole, made.whole)
    else:
        raise LoopNeeded
