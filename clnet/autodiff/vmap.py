"""``clnet.func.vmap``: a function of one element, for a batch of them.

The function runs once, on tensors that stand for an element (:mod:`.batched`), so that a batch is
one set of launches. What that cannot do (a number is read on the host, ``backward`` is called) is
done by calling it for one element after another and stacking what it gives.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from functools import wraps
from typing import Any

from .. import ops
from ..errors import ArgumentError, DtypeError, ShapeError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked, require_tensors, shown
from ..values.containers import again
from ..values.generator import draws
from ..values.shapes import normalize_dim
from .batched import DIFFERENT, SAME, Level, LoopNeeded, element, whole_of

__all__ = ["parts_of", "remade", "vmap"]

_RANDOM = ("error", SAME, DIFFERENT)


@checked
def vmap(
    func: Callable[..., Any],
    in_dims: int | Sequence[Any] | dict[Any, Any] | None = 0,
    out_dims: int | Sequence[Any] | dict[Any, Any] | None = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function of batches, of which ``func`` sees one element, and computes all at once.

    Args:
        func: of tensors and plain values, gives a tensor or a container of them. Where it reads
            values on the host, it is called for each element.
        in_dims: the batch's axis of each argument, None where there is none; one number for all. An
            argument may be a dict, list or tuple, with one axis or as many axes as there are parts.
        out_dims: where results have it; None: they are the same for all elements.
        randomness: "different": each element draws numbers of its own; "same": all draw the same;
            "error": none may draw from the default generator.
        chunk_size: how many elements at once; None: all.

    Raises:
        ArgumentError: if no argument has a batch, ``randomness`` is none of these, numbers are
            drawn where none may be, or a result without the batch's axis depends on the element.
        DtypeError: if what has a batch is no tensor, or there is not an axis for each argument.
        ShapeError: if batches differ, or elements of an empty one are asked for one by one.
    """
    if randomness not in _RANDOM:
        law = "randomness is 'error', 'same' or 'different'"
        raise ArgumentError("vmap", law, randomness=randomness)
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError("vmap", "chunk_size is positive, or None", chunk_size=chunk_size)

    @wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        dims: tuple[Any, ...] = (
            (in_dims,) * len(args) if isinstance(in_dims, int | None) else tuple(in_dims)
        )
        if len(dims) != len(args):
            law = "in_dims has an axis or None for each argument"
            raise ArgumentError("vmap", law, in_dims=in_dims, arguments=len(args))
        size = _size(args, dims, in_dims)
        if chunk_size is None or chunk_size >= size:
            return _batch(func, args, kwargs, dims, out_dims, randomness, size)
        start, drawn, found = mode.current().generator.stands(), draws(), list[Any]()
        for begin in range(0, size, chunk_size):
            if randomness == SAME and draws() != drawn:
                mode.current().generator.set_state(start)
            length = min(chunk_size, size - begin)
            own = [_chosen(x, d, begin, length) for x, d in zip(args, dims, strict=True)]
            found.append(_batch(func, own, kwargs, dims, out_dims, randomness, length))
        return _joined(found, out_dims)

    return batched


def _size(args: Sequence[Any], dims: Sequence[Any], in_dims: Any) -> int:
    sizes = {n for x, d in zip(args, dims, strict=True) for n in _sizes(x, d)}
    if len(sizes) > 1:
        raise ShapeError("vmap", "batches have one size", sizes=sorted(sizes))
    if not sizes:
        raise ArgumentError("vmap", "one argument has a batch", in_dims=in_dims)
    return sizes.pop()


def _batch(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    dims: Sequence[Any],
    out_dims: Any,
    randomness: str,
    size: int,
) -> Any:
    """All elements at once, or else one after another."""
    now = mode.current()
    start, drawn, around = now.generator.stands(), draws(), now.batching or ()
    level = Level(size, randomness, len(around))
    try:
        given = [_element(x, d, level) for x, d in zip(args, dims, strict=True)]
        with mode.using(batching=(*around, level)):
            result = func(*given, **kwargs)
        if randomness == "error":
            _require_undrawn(drawn)
        return _whole(result, out_dims, level)
    except LoopNeeded:
        if draws() != drawn:  # else what other threads have drawn would come again
            now.generator.set_state(start)
            drawn = draws()
    if not size:
        law = "what is computed for one element after another has one"
        raise ShapeError("vmap", law, size=0)
    results: list[Any] = []
    for k in range(size):
        if randomness == SAME and draws() != drawn:
            now.generator.set_state(start)
        own = (_selected(x, d, k) for x, d in zip(args, dims, strict=True))
        results.append(func(*own, **kwargs))
        if randomness == "error":
            _require_undrawn(drawn)
    return _stacked(results, out_dims)


def _require_undrawn(before: int) -> None:
    if draws() != before:
        law, hint = "nothing is drawn", "Pass randomness='different', or 'same'"
        raise ArgumentError("vmap", law, randomness="error", remedy=hint)


def parts_of(tree: Any, dims: Any) -> list[tuple[Any, Any, Any]] | None:
    """Key, part and axis of each part of a container; None: it is none.

    Raises:
        ArgumentError: if there is not an axis for each part.
    """
    if not isinstance(tree, dict | list | tuple):
        return None
    keys: Any = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    own = isinstance(dims, dict | list | tuple)
    axes: Any = dims if not own or isinstance(dims, dict) else range(len(dims))
    if own and set(axes) != set(keys):
        law = "there is an axis for each part of an argument or result"
        raise ArgumentError("vmap", law, axes=dims, parts=len(tree))
    return [(k, tree[k], dims[k] if own else dims) for k in keys]


def remade(tree: Any, parts: dict[Any, Any]) -> Any:
    """A container of the kind of another, with other parts."""
    if type(tree) in (OrderedDict, defaultdict):
        found = copy(tree)
        found.update(parts)
        return found
    if isinstance(tree, dict):
        return parts
    return again(tree, parts.values())


def _mapped(function: Callable[[Any, Any], Any], tree: Any, dims: Any) -> Any:
    """What a function makes of the parts of a container and their axes."""
    parts = parts_of(tree, dims)
    if parts is None:
        return function(tree, dims)
    return remade(tree, {k: _mapped(function, part, d) for k, part, d in parts})


def _require_axis(axis: Any) -> None:
    if not isinstance(axis, int):
        raise DtypeError("vmap", "an axis is a whole number, or None", axis=shown(axis))


def _sizes(tree: Any, dims: Any) -> set[int]:
    parts = parts_of(tree, dims)
    if parts is None and dims is None:
        return set()
    if parts is None:
        require_tensors("vmap", argument=tree)
        _require_axis(dims)
        return {tree.shape[normalize_dim("vmap", dims, tree.ndim)]}
    return {n for _, part, d in parts for n in _sizes(part, d)}


def _element(tree: Any, dims: Any, level: Level) -> Any:
    """An argument as the function sees it."""

    def one(x: Any, axis: Any) -> Any:
        if axis is None:
            if isinstance(x, Tensor):
                level.common.add(id(x.array.storage))
            return x
        axis = normalize_dim("vmap", axis, x.ndim)
        return element(x if axis == 0 else ops.movedim(x, axis, 0), level)

    return _mapped(one, tree, dims)


def _selected(tree: Any, dims: Any, k: int) -> Any:
    return _mapped(lambda x, d: x if d is None else x.select(d, k), tree, dims)


def _chosen(tree: Any, dims: Any, start: int, length: int) -> Any:
    return _mapped(lambda x, d: x if d is None else x.narrow(d, start, length), tree, dims)


def _axis_of(dims: Any) -> Any:
    return dims[0] if isinstance(dims, tuple) and len(dims) == 1 else dims


def _whole(tree: Any, dims: Any, level: Level) -> Any:
    """What the function gave, for the whole batch."""

    def one(x: Any, axis: Any) -> Any:
        require_tensors("vmap", result=x)
        axis, (whole, stacked) = _axis_of(axis), whole_of(x, level)
        if axis is None:
            if stacked:
                law = "a result without the batch's axis does not depend on the element"
                raise ArgumentError("vmap", law, out_dims=None, shape=x.shape)
            return whole
        _require_axis(axis)
        axis = normalize_dim("vmap", axis, x.ndim + 1)
        if not stacked:
            whole = ops.shape.expand(whole[None], (level.size, *whole.shape))
        return whole if axis == 0 else ops.movedim(whole, 0, axis)

    return one(tree, dims) if parts_of(tree, None) is None else _mapped(one, tree, dims)


def _stacked(results: Sequence[Any], dims: Any) -> Any:
    parts = parts_of(results[0], dims if parts_of(results[0], None) is not None else None)
    if parts is None:
        require_tensors("vmap", result=results[0])
        axis: Any = _axis_of(dims)
        if axis is None:
            return results[0]
        _require_axis(axis)
        return ops.stack(results, axis)
    return remade(results[0], {k: _stacked([r[k] for r in results], d) for k, _, d in parts})


def _joined(results: Sequence[Any], dims: Any) -> Any:
    """The results of parts of a batch as those of all of it."""
    parts = parts_of(results[0], dims if parts_of(results[0], None) is not None else None)
    if parts is None:
        axis: Any = _axis_of(dims)
        return results[0] if axis is None else ops.cat(results, axis)
    return remade(results[0], {k: _joined([r[k] for r in results], d) for k, _, d in parts})
