"""A user's function of elements of a batch, for all of it: by its own ``vmap``, or by what it says.

``forward`` and ``backward`` run on tensors that stand for an element, so that one node holds the
batch; with a ``vmap`` of its own a function computes the whole itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from ..values.record import NamedTuple
from .batched import Batched, Level, LoopNeeded, element, gradient_of_whole, is_tracked, whole_of
from .dual import Dual, DualLevel, dual, parts_of_dual, tangents_of

__all__ = ["VmapInfo", "applied_to_batch"]


class VmapInfo(NamedTuple):
    """What a function's ``vmap`` is told.

    Attributes:
        batch_size: how many elements.
        randomness: as :func:`clnet.vmap` was told.
    """

    batch_size: int
    randomness: str


def applied_to_batch(
    cls: Any, args: tuple[Any, ...], new_context: Callable[[tuple[bool, ...]], Any], base: Any
) -> Any:
    """The results for all elements; ``NotImplemented``: the function runs as on any tensors.

    Args:
        cls: the user's class.
        args: what it is applied to.
        new_context: makes a context of which gradients are wanted.
        base: the class of all users' functions.

    Raises:
        ArgumentError: if a class has a ``vmap`` and wants one made.
        LoopNeeded: if gradients within and outside of the batch are asked for.
    """
    arrays: list[Any] = [x.array for x in args if isinstance(x, Tensor)]
    found: list[Any] = [array.level for array in arrays if type(array) is Batched]
    found += [array.level for array in arrays if type(array) is Dual]
    if not found:
        return NotImplemented
    level = max(found, key=lambda one: one.depth)
    if type(level) is DualLevel:
        return _with_tangents(cls, level, args, new_context)
    if cls.vmap is not None and cls.generate_vmap_rule:
        law = "a function has a vmap, or generate_vmap_rule, not both"
        raise ArgumentError(cls.__name__, law)
    recording = mode.current().grad
    tracked = recording and any(isinstance(x, Tensor) and is_tracked(x) for x in args)
    pairs = [whole_of(x, level) if isinstance(x, Tensor) else (x, False) for x in args]
    outside = recording and any(isinstance(w, Tensor) and w.requires_grad for w, _ in pairs)
    if tracked and (outside or cls.vmap is not None):
        raise LoopNeeded
    if cls.vmap is not None:
        return _own(cls, level, pairs)
    return _generated(cls, level, pairs, new_context, base) if outside else NotImplemented


class _Moved(NamedTuple):
    """Results of a function, how they move with its arguments, and whether it gave a tuple."""

    results: list[Any]
    tangents: list[Any]
    several: bool


def _with_tangents(cls: Any, level: DualLevel, args: tuple[Any, ...], new_context: Any) -> Any:
    """Results and their tangents: by ``jvp``, or twice by ``backward``."""
    pairs = [parts_of_dual(x, level) if isinstance(x, Tensor) else (x, None) for x in args]
    primals, tangents = [x for x, _ in pairs], [t for _, t in pairs]
    if cls.jvp is None:
        found = _by_backward(cls, primals, tangents)
    else:
        found = _by_jvp(cls, primals, tangents, new_context((False,) * len(args)))
    both = tuple(
        y if t is None or not isinstance(y, Tensor) else dual(y, t, level)
        for y, t in zip(found.results, found.tangents, strict=True)
    )
    return both if found.several else both[0]


def _by_backward(cls: Any, primals: list[Any], tangents: list[Any]) -> _Moved:
    several: list[bool] = []

    def call(*given: Any) -> list[Tensor]:
        rest = iter(given)
        result = cls.apply(*(next(rest) if isinstance(x, Tensor) else x for x in primals))
        several.append(isinstance(result, tuple))
        return _listed(result)

    places = [k for k, x in enumerate(primals) if isinstance(x, Tensor)]
    made, moved = tangents_of(call, [primals[k] for k in places], [tangents[k] for k in places])
    return _Moved(list(made), list(moved), several[0])


def _by_jvp(cls: Any, primals: list[Any], tangents: list[Any], ctx: Any) -> _Moved:
    with mode.using(grad=False):
        if cls.setup_context is None:
            result = cls.forward(ctx, *primals)
        else:
            result = cls.forward(*primals)
            cls.setup_context(ctx, tuple(primals), result)
        ctx.to_save = ctx.for_forward or ctx.to_save
    moved = _listed(cls.jvp(ctx, *_materialized(primals, tangents, ctx)))
    if mode.current().grad and any(isinstance(x, Tensor) and x.requires_grad for x in primals):
        result = cls.apply(*primals)
    return _Moved(_listed(result), moved, isinstance(result, tuple))


def _materialized(primals: list[Any], tangents: list[Any], ctx: Any) -> list[Any]:
    """Tangents as ``jvp`` gets them: zeros for tensors without one, unless the context says not."""
    if not ctx.materialize_grads:
        return tangents
    return [
        ops.zeros_like(x) if t is None and isinstance(x, Tensor) and x.dtype.differentiable else t
        for x, t in zip(primals, tangents, strict=True)
    ]


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _own(cls: Any, level: Level, pairs: list[tuple[Any, bool]]) -> Any:
    info = VmapInfo(level.size, level.randomness)
    in_dims = tuple(0 if stacked else None for _, stacked in pairs)
    outputs, out_dims = cls.vmap(info, in_dims, *(x for x, _ in pairs))
    if not isinstance(outputs, tuple):
        return _placed(outputs, out_dims, level)
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
    return tuple(_placed(y, d, level) for y, d in zip(outputs, dims, strict=True))


def _placed(y: Any, dim: int | None, level: Level) -> Any:
    if dim is None or not isinstance(y, Tensor):
        return y
    return element(y if dim == 0 else ops.movedim(y, dim, 0), level)


class _Call:
    """One application: what both directions know."""

    def __init__(self, cls: Any, level: Level, stacked: list[bool], context: Any) -> None:
        self.cls, self.level, self.stacked, self.context = cls, level, stacked, context
        self.saved: list[bool | None] = []

    def within(self) -> Any:
        """The mode in which elements are seen."""
        around = mode.current().batching or ()
        around = tuple(one for one in around if one is not self.level)
        return mode.using(batching=(*around, self.level))

    def forward(self, args: Sequence[Any]) -> Any:
        """The function's, on elements."""
        given = [
            element(x, self.level, stacked=f) if isinstance(x, Tensor) else x
            for x, f in zip(args, self.stacked, strict=True)
        ]
        with self.within():
            if self.cls.setup_context is None:
                return self.cls.forward(self.context, *given)
            result = self.cls.forward(*given)
            self.cls.setup_context(self.context, tuple(given), result)
        return result

    def whole(self, y: Any) -> Any:
        """A result for all elements."""
        return gradient_of_whole(y, self.level, stacked=True) if isinstance(y, Tensor) else y


def _generated(
    cls: Any, level: Level, pairs: list[tuple[Any, bool]], new_context: Any, base: Any
) -> Any:
    call = _Call(cls, level, [f for _, f in pairs], None)

    class Whole(base):
        """The function of the whole batch."""

        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            """The function's results for all elements."""
            call.context = inner = new_context(ctx.needs_input_grad)
            result = call.forward(args)
            if inner.dirty:
                raise LoopNeeded
            several = result if isinstance(result, tuple) else (result,)
            wholes = {id(y): call.whole(y) for y in several if isinstance(y, Tensor)}
            kept = [None if x is None else whole_of(x, level) for x in inner.to_save]
            call.saved = [None if each is None else each[1] for each in kept]
            ctx.save_for_backward(*(None if each is None else each[0] for each in kept))
            inner.to_save = ()
            without = [wholes[id(y)] for y in inner.non_differentiable if id(y) in wholes]
            ctx.mark_non_differentiable(*without)
            ctx.set_materialize_grads(inner.materialize_grads)
            given = tuple(wholes.get(id(y), y) for y in several)
            return given if isinstance(result, tuple) else given[0]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            """Its gradients for all elements."""
            inner = call.context
            inner.to_save = [
                x if x is None or f is None else element(x, level, stacked=f)
                for x, f in zip(ctx.saved_tensors, call.saved, strict=True)
            ]
            arrived = [element(g, level) if isinstance(g, Tensor) else g for g in grads]
            try:
                with call.within():
                    given = cls.gradient()(inner, *arrived)
            finally:
                inner.to_save = ()
            found = given if isinstance(given, tuple) else (given,)
            return tuple(
                gradient_of_whole(g, level, stacked=f) if isinstance(g, Tensor) else g
                for g, f in zip(found, call.stacked, strict=False)
            )

    Whole.__name__ = cls.__name__
    result = Whole.apply(*(x for x, _ in pairs))
    if isinstance(result, tuple):
        return tuple(element(y, level) if isinstance(y, Tensor) else y for y in result)
    return element(result, level) if isinstance(result, Tensor) else result
