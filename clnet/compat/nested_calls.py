"""What functions give of nested tensors: of all rows at once, or of one element after another.

Axes are counted with the batch's, which no row has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..ops.chosen import is_of_elements
from ..tensor import Tensor, tensor
from ..values.dtypes import int64
from .nested_rows import CALLS, NestedTensor, RaggedSize

__all__: list[str] = []

Given = dict[str, Any]


def _axis(op: str, x: NestedTensor, dim: int, more: int = 0) -> int:
    """An axis counted from the front, which is not the batch's."""
    ndim = x.ndim + more
    if not -ndim <= dim < ndim or dim % ndim == 0:
        raise ArgumentError(op, "dim is an axis behind the batch's", dim=dim, ndim=ndim)
    return dim % ndim


def _inner(op: str, x: NestedTensor, dim: int) -> int:
    """An axis along which all elements are alike, as those of a jagged tensor; counted in rows."""
    axis = _axis(op, x, dim)
    if x.rows is not None and axis == x.ragged:
        raise ArgumentError(op, "the axis is not the ragged one", dim=dim)
    return axis - 1


def _taken(rest: list[Any], given: Given, name: str, default: Any = None) -> Any:
    """An argument by its name, or the next by place; it is used up."""
    if name in given:
        return given.pop(name)
    return rest.pop(0) if rest else default


def _needed(op: str, rest: list[Any], given: Given, name: str) -> Any:
    """The same of an argument without a default.

    Raises:
        ArgumentError: if it is not given, or None.
    """
    found = _taken(rest, given, name)
    if found is None:
        raise ArgumentError(op, f"{name} is given")
    return found


def _listed(places: list[Any], given: Given, name: str) -> list[Any]:
    """Whole numbers that are given one by one, as one sequence, or by its name."""
    if name in given:
        return list(given.pop(name))
    alone = len(places) == 1 and not isinstance(places[0], int)
    return list(places[0]) if alone else places


def _refuse(op: str) -> Any:
    raise ArgumentError(
        op, "the function takes no nested tensors", remedy="Call it with each of x.unbind()"
    )


def _alike(op: str, x: NestedTensor, y: NestedTensor) -> bool:
    """Whether all of two tensors are held alike, so that what they hold can be taken together."""
    if len(x) != len(y) or (x.rows is None) != (y.rows is None):
        raise ShapeError(op, "nested tensors have elements of equal sizes", x=len(x), y=len(y))
    if x.rows is None or y.rows is None:
        return False
    return x.rows.same(y.rows) and x.ragged == y.ragged


def _dense(op: str, x: NestedTensor, y: Tensor) -> list[Tensor]:
    """A dense operand beside what a nested one holds."""
    if y.ndim < x.ndim:
        return [y] * len(x.held())
    if y.ndim > x.ndim or y.shape[0] not in (1, len(x)):
        raise ShapeError(op, "the operand broadcasts to the batch", shape=y.shape, batch=len(x))
    if y.shape[0] == 1:
        return [y[0]] * len(x.held())
    if x.rows is None:
        return [*y.unbind(0)]
    if y.shape[x.ragged] != 1 or not x.rows.whole:
        law = "the operand has one row where the batch is ragged"
        raise ShapeError(op, law, shape=y.shape, axis=x.ragged)
    owner = np.repeat(np.arange(len(x)), x.rows.lengths)
    rows = y.squeeze(x.ragged).index_select(0, tensor(owner, dtype=int64, device=y.device))
    return [rows.movedim(0, x.ragged - 1)]


def _elementwise(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    """A function of single elements."""
    nested = [v for v in (*args, *given.values()) if isinstance(v, NestedTensor)]
    x = max(nested, key=lambda v: v.ndim)
    if x.rows is not None and any(not _alike(op, x, v) for v in nested):
        parts = [v.parts() for v in nested]
        if any(p.shape != q.shape for ps in parts for p, q in zip(ps, parts[0], strict=True)):
            raise ShapeError(op, "nested tensors have elements of equal sizes", elements=len(x))
        x = x.of_parts(x.parts())

    def held(value: Any) -> list[Any]:
        if isinstance(value, NestedTensor):
            same = x.rows is None or value.rows is x.rows or _alike(op, x, value)
            return value.held() if same else value.of_parts(value.parts()).held()
        return _dense(op, x, value) if isinstance(value, Tensor) else [value] * len(x.held())

    places = [held(v) for v in args]
    named = {k: held(v) for k, v in given.items()}
    found = [
        func(*(p[k] for p in places), **{n: v[k] for n, v in named.items()})
        for k in range(len(x.held()))
    ]
    if all(y is h for y, h in zip(found, x.held(), strict=True)):
        return x  # in place
    return NestedTensor(found if x.rows is None else found[0], x.rows, x.ragged)


def _of_rows(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    """A function of the last axes of rows, or of none; further arguments stay as they are."""
    x, *rest = args
    return x.each(lambda v: func(v, *rest, **given))


def _normalized(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x = args[0]
    shape = args[1] if len(args) > 1 else given["normalized_shape"]
    count = 1 if isinstance(shape, int) else len(shape)
    for k in range(count):
        _inner(op, x, -1 - k)
    return _of_rows(op, func, args, given)


def _along(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    """A function along one axis, which keeps it."""
    x, *rest = args
    axis = _axis(op, x, _needed(op, rest, given, "dim"))
    if x.rows is not None and axis == x.ragged:
        return x.of_parts([func(part, axis - 1, *rest, **given) for part in x.parts()])
    return x.each(lambda v: func(v, axis - 1, *rest, **given))


def _reduced(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *rest = args
    dim = _taken(rest, given, "dim")
    keep = _taken(rest, given, "keepdim", False)
    if dim is None:
        return func(ops.cat([part.reshape(-1) for part in x.parts()]), **given)
    dims = tuple(d % x.ndim for d in (dim if isinstance(dim, list | tuple) else (dim,)))
    if 0 in dims:
        raise ArgumentError(op, "dim is an axis behind the batch's", dim=dim)
    inside: Any = tuple(d - 1 for d in dims)
    inside = inside if isinstance(dim, list | tuple) else inside[0]

    def of(part: Tensor) -> Any:
        return func(part, inside, keepdim=keep, **given)

    if x.rows is None or x.ragged in dims:
        parts = [of(part) for part in x.parts()]
        return NestedTensor(parts) if x.rows is None else ops.stack(parts)
    before = 0 if keep else sum(d < x.ragged for d in dims)
    return x.each(of, x.ragged - before)


def _product(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, y = args
    one = isinstance(x, NestedTensor) and not isinstance(y, NestedTensor) and y.ndim == 2
    if one and (x.rows is None or x.ragged != x.ndim - 1):
        return x.each(lambda v: v @ y)
    if len(x) != len(y):
        raise ShapeError(op, "both have one number of elements", x=len(x), y=len(y))
    like = x if isinstance(x, NestedTensor) else y
    pairs = zip(
        *(v.parts() if isinstance(v, NestedTensor) else v.unbind(0) for v in (x, y)), strict=True
    )
    found = [a @ b for a, b in pairs]
    if like.rows is None:
        return NestedTensor(found)
    axis = like.ragged - 1
    if [f.shape[axis] for f in found] != like.rows.lengths:
        return ops.stack(found) if len({f.shape for f in found}) == 1 else _refuse(op)
    return like.of_parts(found)


def _attention(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {**dict(zip(names, args, strict=False)), **given}
    q, k, v = (given.pop(name) for name in names[:3])
    if given.get("attn_mask") is not None:
        raise ArgumentError(
            op, "nested tensors have no attn_mask; rows beyond an end are not there"
        )
    if not all(isinstance(x, NestedTensor) for x in (q, k, v)):
        raise ArgumentError(op, "query, key and value are nested")
    triples = zip(q.parts(), k.parts(), v.parts(), strict=True)
    found = [func(*(x[None] for x in triple), **given)[0] for triple in triples]
    return q.of_parts(found)


# Shapes.


def _transpose(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *dims = args
    dims += [given[n] for n in ("dim0", "dim1") if n in given]
    a, b = (_axis(op, x, d) for d in dims)
    ragged = {a: b, b: a}.get(x.ragged, x.ragged)
    return x.each(lambda v: v.transpose(a - 1, b - 1), ragged)


def _permute(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *dims = args
    dims = _listed(dims, given, "dims")
    order = [d % x.ndim for d in dims]
    if order[0] != 0:
        raise ArgumentError(op, "the batch's axis stays the first", dims=dims)
    inside = [d - 1 for d in order[1:]]
    return x.each(lambda v: v.permute(inside), order.index(x.ragged))


def _reshape(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *sizes = args
    sizes = _listed(sizes, given, "shape")
    if x.rows is None:
        if sizes[0] not in (-1, len(x)):
            raise ShapeError(op, "the batch's axis stays", sizes=sizes, batch=len(x))
        return x.each(lambda v: v.reshape(sizes[1:]))
    if sizes[0] != len(x):
        raise ShapeError(op, "the batch's axis stays", sizes=sizes, batch=len(x))
    own = [k for k, n in enumerate(sizes) if isinstance(n, RaggedSize)]
    places = own or [k for k, n in enumerate(sizes) if n == -1]
    if len(places) != 1:
        raise ShapeError(op, "one axis is ragged", sizes=sizes)
    ragged, total = places[0], x._values.shape[x.ragged - 1]
    sizes[ragged] = total
    before = np.prod([1, *sizes[1:ragged]])
    if -1 not in sizes[1:ragged] and before != np.prod([1, *x._values.shape[: x.ragged - 1]]):
        raise ShapeError(op, "the ragged axis stays as it is", sizes=sizes)
    return x.each(lambda v: v.reshape(sizes[1:]), ragged)


def _expand(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *sizes = args
    sizes = _listed(sizes, given, "size")
    return x.each(
        lambda v: v.expand([-1 if n == -1 or isinstance(n, RaggedSize) else n for n in sizes[1:]])
    )


def _unflatten(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *rest = args
    axis = _inner(op, x, _needed(op, rest, given, "dim"))
    sizes = _needed(op, rest, given, "sizes")
    ragged = x.ragged + (len(sizes) - 1 if axis + 1 < x.ragged else 0)
    return x.each(lambda v: v.unflatten(axis, sizes), ragged)


def _flatten(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *rest = args
    start, end = _taken(rest, given, "start_dim", 0), _taken(rest, given, "end_dim", -1)
    a, b = _inner(op, x, start), _inner(op, x, end)
    if x.rows is not None and a < x.ragged - 1 < b:
        raise ArgumentError(op, "the axes are not the ragged one", start_dim=start, end_dim=end)
    ragged = x.ragged - (b - a if b + 1 < x.ragged else 0)
    return x.each(lambda v: v.flatten(a, b), ragged)


def _unsqueeze(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *rest = args
    axis = _axis(op, x, _needed(op, rest, given, "dim"), more=1)
    return x.each(lambda v: v.unsqueeze(axis - 1), x.ragged + (axis <= x.ragged))


def _squeeze(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *rest = args
    axis = _inner(op, x, _needed(op, rest, given, "dim"))
    gone = all(v.shape[axis] == 1 for v in x.held())
    ragged = x.ragged - (gone and axis + 1 < x.ragged)
    return x.each(lambda v: v.squeeze(axis), ragged)


def _pieces(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, how, *rest = args
    axis = _inner(op, x, _taken(rest, given, "dim", 0))
    found = zip(*(func(v, how, axis) for v in x.held()), strict=True)
    whole = x.rows is None
    return tuple(NestedTensor(p if whole else p[0], x.rows, x.ragged) for p in map(list, found))


def _narrow(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, dim, start, length = args
    if dim == 0:
        return x.of_parts(x.parts()[start : start + length]) if x.rows is None else _refuse(op)
    axis = _inner(op, x, dim)
    return x.each(lambda v: v.narrow(axis, start, length))


def _select(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, dim, index = args
    if dim % x.ndim == 0:
        return x.parts()[index]
    axis = _inner(op, x, dim)
    return x.each(lambda v: v.select(axis, index), x.ragged - (axis + 1 < x.ragged))


def _item(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, key = args
    if isinstance(key, int):
        return x.parts()[key]
    if isinstance(key, tuple) and key and isinstance(key[0], int):
        return x.parts()[key[0]][key[1:]]
    if isinstance(key, tuple) and key and key[0] is Ellipsis:
        x = x if isinstance(x, NestedTensor) else _refuse(op)
        for k, one in enumerate(reversed(key[1:])):
            if one != slice(None):
                _inner(op, x, -1 - k)
        if all(isinstance(one, slice) for one in key[1:]):
            return x.each(lambda v: v[key])
    return _refuse(op)


def _cat(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    tensors, *rest = args
    listed, dim = list(tensors), _taken(rest, given, "dim", 0)
    x = listed[0]
    if not all(isinstance(y, NestedTensor) for y in listed):
        return _refuse(op)
    if dim % x.ndim == 0:
        if x.rows is not None:
            return _refuse(op)
        return x.of_parts([part for y in listed for part in y.parts()])
    axis = _inner(op, x, dim)
    if x.rows is not None and not all(_alike(op, x, y) for y in listed):
        return _refuse(op)
    found = [func(list(parts), axis) for parts in zip(*(y.held() for y in listed), strict=True)]
    return NestedTensor(found if x.rows is None else found[0], x.rows, x.ragged)


def _equal(op: str, func: Callable[..., Any], args: Any, given: Given) -> bool:
    x, y = args
    pairs = zip(x.parts(), y.parts(), strict=False)
    return len(x) == len(y) and all(func(a, b) for a, b in pairs)


def _unbind(op: str, func: Callable[..., Any], args: Any, given: Given) -> Any:
    x, *rest = args
    dim = _taken(rest, given, "dim", 0)
    if dim != 0:
        raise ArgumentError(op, "dim is 0", dim=dim)
    return tuple(x.parts())


_HANDLERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("where", "masked_fill", "masked_fill_", "copy_", "lerp"), _elementwise),
    **dict.fromkeys(
        (
            *("linear", "embedding", "clone", "detach", "to", "contiguous", "dropout", "type"),
            *("alpha_dropout", "feature_dropout", "zero_", "fill_", "bernoulli", "nan_to_num"),
            *("ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like"),
            *("float", "half", "double", "bfloat16", "long", "int", "bool", "cpu", "cuda"),
            *("type_as", "gelu", "softplus", "silu", "relu"),
        ),
        _of_rows,
    ),
    **dict.fromkeys(("layer_norm", "rms_norm"), _normalized),
    **dict.fromkeys(("softmax", "log_softmax", "glu", "softmin"), _along),
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "all", "any", "argmax", "argmin", "prod", "std", "var"),
        _reduced,
    ),
    **dict.fromkeys(("matmul", "bmm", "mm"), _product),
    "scaled_dot_product_attention": _attention,
    "transpose": _transpose,
    "permute": _permute,
    **dict.fromkeys(("view", "reshape"), _reshape),
    "expand": _expand,
    "unflatten": _unflatten,
    "flatten": _flatten,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    **dict.fromkeys(("chunk", "split"), _pieces),
    "narrow": _narrow,
    "select": _select,
    "__getitem__": _item,
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "equal": _equal,
    "unbind": _unbind,
}


def _call(func: Callable[..., Any], args: Any, given: Given) -> Any:
    """A function called with nested tensors; layers run as they are written."""
    door: Any = getattr(func, "__door__", None)
    name = getattr(func, "__name__", "")
    if name == "forward" and door is not None:
        return door.function(*args, **given)
    op = name if name in _HANDLERS or door is None else door.op
    handler = _HANDLERS.get(op)
    if handler is None and is_of_elements(op.rstrip("_")):
        handler = _elementwise
    if handler is None:
        return _refuse(op)
    return handler(op, func, args, dict(given))


CALLS.append(_call)
