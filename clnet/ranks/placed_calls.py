"""What functions give of tensors that lie on the ranks of a mesh, and how it lies.

Each rank computes with its parts where parts are enough, and what lies otherwise is brought to lie
so before: of elements and along other axes than the one that is divided there are no exchanges,
sums along it and products over it are parts of a sum, and the rest is made whole on each rank. A
whole tensor of which each rank uses a part, or uses it for its part, has the sum of their
gradients (:func:`.differentiable.copied`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..errors import ArgumentError, DistributedError
from ..ops.chosen import is_of_elements
from ..tensor import Tensor
from ..values.containers import again
from .differentiable import copied
from .layout import Laid, Partial, Placement, Replicate, Shard
from .loss_in_parts import cross_entropy, in_parts

__all__ = ["call"]

Given = dict[str, Any]
_WHOLE = Replicate()


def call(func: Callable[..., Any], args: Sequence[Any], given: Given) -> Any:
    """What a function gives, of whose arguments at least one lies on ranks.

    Args:
        func: a function or a method of clnet's.
        args: its arguments.
        given: those by name.

    Raises:
        ArgumentError: if a tensor beside them lies nowhere, or the function has no rule.
        DistributedError: if they are of several meshes.
    """
    door: Any = getattr(func, "__door__", None)
    op = func.__name__
    if op == "forward" and door is not None:  # a layer runs as it is written
        return door.function(*args, **given)
    laid = [v for value in (*args, *given.values()) for v in _inside(value) if _lies(v)]
    if op == "cross_entropy" and in_parts():  # whose targets may be any tensors
        return _made(laid[0], cross_entropy(laid[0], args[1:], given), _WHOLE)
    _check(op, laid, [v for value in (*args, *given.values()) for v in _inside(value)])
    rule = _RULES.get(op)
    if rule is None and (op in _OF_ELEMENTS or is_of_elements(_plain(op))):
        rule = _elementwise
    if rule is None and all(v.placements == (_WHOLE,) for v in laid) and op not in _DRAWING:
        rule = _as_a_whole
    if rule is None:
        raise ArgumentError(
            op,
            "the function has a rule for tensors that lie on ranks",
            placements=[v.placements for v in laid],
            remedy="Call it with x.to_local(), or with x.redistribute(placements=[Replicate()])",
        )
    return rule(op, func, list(args), dict(given))


def _inside(value: Any) -> Sequence[Any]:
    return value if type(value) in (list, tuple) else (value,)


def _lies(value: Any) -> bool:
    return isinstance(value, Laid)


def _plain(op: str) -> str:
    """An op's name without the sign that it writes into its first operand."""
    return op[:-1] if op.endswith("_") and not op.endswith("__") else op


def _check(op: str, laid: Sequence[Laid], values: Sequence[Any]) -> None:
    group = laid[0].device_mesh.get_group()
    if any(v.device_mesh.get_group() is not group for v in laid):
        meshes = [v.device_mesh for v in laid]
        raise DistributedError(op, "all tensors lie on one mesh", meshes=meshes)
    for value in values:
        if isinstance(value, Tensor) and value.ndim:
            raise ArgumentError(
                op,
                "tensors beside a DTensor are DTensors, or numbers",
                shape=value.shape,
                remedy="DTensor.from_local(x, mesh, [Replicate()]), or distribute_tensor(x, mesh)",
            )


def _made(like: Laid, local: Any, place: Placement, size: int = 0) -> Any:
    """What a rule gives: tensors become such as lie so.

    Args:
        like: of the same kind and mesh.
        local: what this rank has; also several.
        place: how it lies.
        size: of the whole along the axis that is divided.
    """
    if type(local) in (tuple, list) or hasattr(local, "_fields"):
        return again(local, [_made(like, each, place, size) for each in local])
    if not isinstance(local, Tensor):
        return local
    shape = list(local.shape)
    if isinstance(place, Shard):
        shape[place.dim] = size
    return type(like)(local, like.device_mesh, (place,), shape)


def _place(x: Any) -> Placement:
    """How it lies, axes counted from the front; a number is whole on each rank."""
    if not _lies(x):
        return _WHOLE
    (place,) = x.placements
    return Shard(place.dim % x.ndim) if isinstance(place, Shard) else place


def _whole(x: Any) -> Any:
    return x.placed(_WHOLE) if _lies(x) else x


def _used_in_parts(x: Any) -> Any:
    """The whole tensor, as each rank uses it for its part of the result."""
    local = _whole(x)
    if not isinstance(local, Tensor) or not local.requires_grad or not _lies(x):
        return local
    return copied(local, x.device_mesh.get_group())


def _dim_of(op: str, dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise ArgumentError(op, "the tensor has the axis", dim=dim, ndim=ndim)
    return dim % ndim


def _taken(rest: list[Any], given: Given, name: str, default: Any = None) -> Any:
    """An argument by its name, or the next by place; it is used up."""
    if name in given:
        return given.pop(name)
    return rest.pop(0) if rest else default


# Elements.


def _elementwise(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Of elements: as the first that is divided lies; sums stay in parts where that is the same."""
    laid = [v for v in (*args, *given.values()) if _lies(v)]
    shape = [
        max((v.shape[v.ndim + axis] for v in laid if v.ndim + axis >= 0), default=1)
        for axis in range(-max(v.ndim for v in laid), 0)
    ]
    own = args[0] if _plain(op) != op and op not in _OF_ELEMENTS else None
    if _stays_in_parts(_plain(op), args, given):
        found = func(*(v.to_local() if _lies(v) else v for v in args), **given)
        return own if own is not None else _made(laid[0], found, laid[0].placements[0])
    target: Placement = _WHOLE if own is None else _place(own)
    if isinstance(target, Partial):
        law = "what is written into is no sum in parts"
        raise ArgumentError(op, law, placement=target, remedy="Redistribute it before")
    for v in laid if own is None else ():
        place = _place(v)
        if isinstance(place, Shard) and v.shape[place.dim] == shape[place.dim - v.ndim]:
            target = Shard(place.dim - v.ndim + len(shape))
            break

    def held(v: Any) -> Any:
        if not _lies(v):
            return v
        if not isinstance(target, Shard):
            return _whole(v)
        axis = target.dim - len(shape) + v.ndim
        if axis >= 0 and v.shape[axis] == shape[target.dim]:
            return v.placed(Shard(axis))
        return _used_in_parts(v)

    found = func(*(held(v) for v in args), **{name: held(v) for name, v in given.items()})
    size = shape[target.dim] if isinstance(target, Shard) else 0
    return own if own is not None else _made(laid[0], found, target, size)


def _stays_in_parts(op: str, args: list[Any], given: Given) -> bool:
    """Whether a function of sums in parts is the sum of what it gives of the parts."""
    places = [_place(v) for v in args if _lies(v)]
    if not places or not isinstance(places[0], Partial) or any(map(_lies, given.values())):
        return False
    if len(places) == 1:
        alone = op in _LINEAR and len(args) == 1
        scaled = op == "mul" or (op == "div" and _lies(args[0]))
        return alone or (scaled and not given and len(args) == 2)
    same = op in ("add", "sub") and len(args) == len(places) == 2 and places[0] == places[1]
    return same and args[0].shape == args[1].shape


def _as_a_whole(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Of whole tensors, on each rank."""
    laid = [v for value in (*args, *given.values()) for v in _inside(value) if _lies(v)]

    def held(value: Any) -> Any:
        return again(value, map(_whole, value)) if type(value) in (list, tuple) else _whole(value)

    found = func(*map(held, args), **{name: held(v) for name, v in given.items()})
    return _made(laid[0], found, _WHOLE)


# Reductions.


def _reduced(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Along axes: a sum over the one that is divided is in parts, another needs the whole."""
    x, *rest = args
    if rest and _lies(rest[0]):  # the larger of two
        return _elementwise(op, func, args, given)
    place, dim = _place(x), given.get("dim", given.get("axis", rest[0] if rest else None))
    if op in ("norm", "vector_norm") or not isinstance(dim, int | list | tuple | None):
        return _as_a_whole(op, func, args, given)
    chosen = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = {_dim_of(op, d, x.ndim) for d in chosen} or set(range(x.ndim))
    if isinstance(place, Partial):
        if op not in ("sum", "mean"):
            return _as_a_whole(op, func, args, given)
        return _made(x, func(x.to_local(), *rest, **given), place)
    if not isinstance(place, Shard):
        return _as_a_whole(op, func, args, given)
    if place.dim in dims:
        if op not in ("sum", "mean"):
            return _as_a_whole(op, func, args, given)
        total = ops.sum(x.to_local(), *rest, **given)
        if op == "mean":  # parts may be of unequal sizes
            total = total / math.prod(x.shape[d] for d in dims)
        return _made(x, total, Partial())
    keep = given.get("keepdim", rest[1] if len(rest) > 1 else False)
    axis = place.dim - (0 if keep else sum(d < place.dim for d in dims))
    return _made(x, func(x.to_local(), *rest, **given), Shard(axis), x.shape[place.dim])


# Products.


def _product(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """``a @ b``: by rows, by columns, or over what both are divided along, in parts of a sum."""
    a, b = args[:2]
    if not (_lies(a) and _lies(b)):
        raise ArgumentError(op, "both are DTensors", a=type(a).__name__, b=type(b).__name__)
    pa, pb = _place(a), _place(b)
    divided = isinstance(pa, Shard) or isinstance(pb, Shard)
    if not divided or min(a.ndim, b.ndim) < 2 or given or len(args) > 2:
        return _as_a_whole(op, func, args, given)
    if isinstance(pa, Partial):
        pa = _WHOLE
    batched = max(a.ndim, b.ndim)
    over = pa == Shard(a.ndim - 1) or (pb == Shard(b.ndim - 2) and not isinstance(pa, Shard))
    if over:
        found = func(a.placed(Shard(a.ndim - 1)), b.placed(Shard(b.ndim - 2)))
        return _made(a, found, Partial())
    if isinstance(pa, Shard):  # rows, or one of the axes before
        own, other, axis = a, b, pa.dim - a.ndim
    else:
        own, other, axis = b, a, pb.dim - b.ndim  # pyrefly: ignore[missing-attribute] - a Shard
    size = own.shape[axis]
    beside = other.ndim + axis if axis < -2 else -1
    if beside >= 0 and other.shape[beside] == size:
        second = other.placed(Shard(beside))
    else:
        second = _used_in_parts(other)
    first = own.placed(_place(own))
    found = func(first, second) if own is a else func(second, first)
    return _made(a, found, Shard(batched + axis), size)


def _linear(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    x, weight, bias = [*args, *(given.get(n) for n in ("weight", "bias")[len(args) - 1 :])][:3]
    if not (_lies(x) and _lies(weight)):
        raise ArgumentError(
            op,
            "input and weight are DTensors",
            input=type(x).__name__,
            weight=type(weight).__name__,
            remedy="Divide the layer by parallelize_module, or distribute its parameters",
        )
    y = call(ops.matmul, (x, call(ops.transpose, (weight, 0, 1), {})), {})
    return y if bias is None else call(ops.add, (y, bias), {})


# Shapes.


def _moved(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Axes in another order: found by moving the numbers of the axes."""
    x = args[0]
    place = _place(x)
    found = func(x.to_local(), *args[1:], **given)
    if not isinstance(place, Shard):
        return _made(x, found, place)
    shape = [1] * x.ndim
    shape[place.dim] = 2
    marked = func(ops.zeros_like(x.to_local()[:0].sum()).expand(shape), *args[1:], **given)
    return _made(x, found, Shard(list(marked.shape).index(2)), x.shape[place.dim])


def _reshaped(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Another shape: in parts where an axis begins where the divided one does, else as a whole."""
    x = args[0]
    place = _place(x)
    if isinstance(place, Partial):
        return _made(x, func(x.to_local(), *args[1:], **given), place)
    wanted = func(ops.expand(x.to_local().detach().sum(), x.shape), *args[1:], **given).shape
    ranks = x.device_mesh.size()
    if isinstance(place, Shard) and x.shape[place.dim] % ranks == 0:
        before = math.prod(x.shape[: place.dim])
        for axis, size in enumerate(wanted):
            if math.prod(wanted[:axis]) == before and size % ranks == 0 and size:
                own = [*wanted[:axis], size // ranks, *wanted[axis + 1 :]]
                return _made(x, x.to_local().reshape(own), Shard(axis), size)
    return _made(x, _whole(x).reshape(wanted), _WHOLE)


def _along(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Along an axis: in parts if another one is divided; ``dim`` is the argument behind."""
    x, *rest = args
    tensors = list(x) if type(x) in (list, tuple) else [x]
    if not all(map(_lies, tensors)):
        raise ArgumentError(op, "all are DTensors", kinds=[type(v).__name__ for v in tensors])
    first = tensors[0]
    place, number = _place(first), _DIM_BEHIND.get(op, 0)
    dim = given.get("dim", rest[number] if len(rest) > number else _DIM_OF.get(op))
    if not isinstance(place, Shard) or not isinstance(dim, int):
        return _as_a_whole(op, func, args, given)
    if _dim_of(op, dim, first.ndim) == place.dim or any(v.ndim != first.ndim for v in tensors):
        return _as_a_whole(op, func, args, given)
    own = [v.placed(place) for v in tensors]
    found = func(own if type(x) in (list, tuple) else own[0], *rest, **given)
    return _made(first, found, place, first.shape[place.dim])


def _normalized(op: str, func: Callable[..., Any], args: list[Any], given: Given) -> Any:
    """Of the last axes: in parts if another one is divided."""
    x, shape, *rest = [*args, *([given.pop("normalized_shape")] if len(args) < 2 else [])]
    place, count = _place(x), 1 if isinstance(shape, int) else len(shape)
    if not isinstance(place, Shard) or place.dim >= x.ndim - count:
        return _as_a_whole(op, func, [x, shape, *rest], given)
    held = [_used_in_parts(v) for v in rest]
    found = func(x.to_local(), shape, *held, **{n: _used_in_parts(v) for n, v in given.items()})
    return _made(x, found, place, x.shape[place.dim])


_OF_ELEMENTS = frozenset(
    "compare gelu lerp addcmul addcdiv threshold round nan_to_num zeros_like ones_like full_like "
    "contiguous to_float to_half to_double to_bfloat16 to_long to_int to_bool".split()
)
_WRITTEN = frozenset("lerp addcmul addcdiv zero fill copy".split())
_LINEAR = frozenset("neg clone detach contiguous to to_float to_double".split())
_DRAWING = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout "
    "bernoulli bernoulli_ multinomial normal normal_ uniform_ random_ exponential_ geometric_ "
    "rand_like randn_like randint_like rrelu gumbel_softmax".split()
)
_DIM_BEHIND = {"chunk": 1, "split": 1, "narrow": 0, "stack": 0}
_DIM_OF = {"chunk": 0, "split": 0, "cat": 0, "concat": 0, "argmax": None}

_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_OF_ELEMENTS, _elementwise),
    **dict.fromkeys((f"{name}_" for name in _WRITTEN), _elementwise),
    **dict.fromkeys(
        "sum mean amax amin max min prod std var argmax argmin any all norm logsumexp".split(),
        _reduced,
    ),
    **dict.fromkeys(("matmul", "mm", "bmm"), _product),
    "linear": _linear,
    **dict.fromkeys(("t", "transpose", "permute", "movedim", "swapaxes"), _moved),
    **dict.fromkeys("view reshape flatten unflatten unsqueeze squeeze".split(), _reshaped),
    **dict.fromkeys(
        "softmax log_softmax cumsum cumprod chunk split narrow cat concat sort unbind".split(),
        _along,
    ),
    **dict.fromkeys(("layer_norm", "rms_norm"), _normalized),
    **dict.fromkeys(
        "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
        "binary_cross_entropy_with_logits kl_div expand getitem topk select index_select gather "
        "stack equal allclose".split(),
        _as_a_whole,
    ),
}
