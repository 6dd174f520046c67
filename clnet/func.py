"""``clnet.func``: gradients of functions as functions, by composition of :mod:`clnet.autograd`.

:func:`vmap` is in :mod:`clnet.autodiff.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from . import autograd, ops
from .autodiff.batched import is_tracked, leaf_of
from .autodiff.stateless import functional_call as functional_call
from .autodiff.tape import leaves_behind
from .autodiff.vmap import parts_of as _parts
from .autodiff.vmap import remade as _again
from .autodiff.vmap import vmap
from .errors import ArgumentError, DtypeError, ShapeError
from .tensor import Tensor
from .values import mode
from .values.arguments import checked, require_tensors, shown

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

Argnums = int | tuple[int, ...]


def _with_leaves(
    name: str, args: Sequence[Any], argnums: tuple[int, ...]
) -> tuple[list[Any], list[Tensor]]:
    """The arguments, those of some places (also in containers) as tensors to differentiate by.

    Raises:
        ArgumentError: if there are no such places, or one is named twice.
        DtypeError: if one of them holds something else than tensors, or all hold nothing.
    """
    given, leaves = list(args), list[Tensor]()

    def on_tape(x: Any) -> Any:
        require_tensors(name, argument=x)
        batching = mode.current().batching
        if batching is not None and not is_tracked(x):
            leaves.append(leaf_of(x, batching[-1]))
            return leaves[-1]
        leaves.append(x.view_as(x) if x.requires_grad else x.detach().requires_grad_())
        return leaves[-1]

    for k in argnums:
        if not -len(given) <= k < len(given):
            raise ArgumentError(name, "argnums are places of arguments", argnum=k, given=len(given))
    if len({k % len(given) for k in argnums}) < len(argnums):
        raise ArgumentError(name, "argnums name each argument once", argnums=argnums)
    for k in argnums:
        given[k] = _mapped(on_tape, given[k])
    if not leaves:
        raise DtypeError(name, "arguments hold a tensor to differentiate by", given=shown(args))
    return given, leaves


def _mapped(function: Callable[[Tensor], Any], tree: Any) -> Any:
    """What a function gives for each tensor in dicts, lists and tuples, in the same containers."""
    parts = _parts(tree, None)
    if parts is not None:
        return _again(tree, {k: _mapped(function, part) for k, part, _ in parts})
    return function(tree)


def _flat(tree: Any) -> list[Any]:
    """What is in dicts, lists and tuples, in order."""
    found: list[Any] = []
    _mapped(found.append, tree)
    return found


def _like(tree: Any, flat: Sequence[Any]) -> Any:
    """The containers of ``tree`` with other things in them."""
    rest = iter(flat)
    return _mapped(lambda _: next(rest), tree)


def _left(aux: Any, *, nested: bool) -> Any:
    """What a function gives beside its value: on the tape only where the arguments are."""
    if nested:
        return aux
    return _mapped(lambda x: x.detach() if isinstance(x, Tensor) else x, aux)


def _places(argnums: Argnums) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _is_nested(recording: bool, args: Any, results: list[Any], leaves: list[Tensor]) -> bool:  # noqa: FBT001
    """Whether what is derived is to be differentiated itself: by arguments, or what is read beside.

    Args:
        recording: whether gradients were recorded where the derivative was asked for.
        args: what the function is called with.
        results: what it gives.
        leaves: what it is differentiated by.
    """
    if not recording or _on_tape(args):
        return recording
    found: list[Any] = [y for y in results if isinstance(y, Tensor)]
    wholes = (y.array.whole for y in found)
    if any(whole is not None and whole.requires_grad for whole in wholes):
        return True
    own = set(map(id, leaves))
    return any(id(x) not in own for x in leaves_behind(found))


def _on_tape(args: Sequence[Any]) -> bool:
    """Whether gradients flow to a tensor among arguments, or in containers of them."""
    return any(isinstance(x, Tensor) and x.requires_grad for x in _flat(list(args)))


def _zeros(found: Any, like: list[Tensor]) -> list[Tensor]:
    return [ops.zeros_like(x) if g is None else g for g, x in zip(found, like, strict=True)]


def _slopes(
    outputs: list[Tensor], leaves: list[Tensor], arrived: Sequence[Any], *, nested: bool
) -> list[Tensor]:
    """The gradients of leaves; zeros where no output depends on them."""
    pairs = [(y, g) for y, g in zip(outputs, arrived, strict=True) if y.requires_grad]
    if not pairs:
        return _zeros([None] * len(leaves), leaves)
    ends, weights = map(list, zip(*pairs, strict=True))
    found = autograd.grad(
        ends, leaves, weights, create_graph=nested, retain_graph=True, allow_unused=True
    )
    return _zeros(found, leaves)


def _value_of(name: str, result: Any, *, has_aux: bool) -> Any:
    """What is derived of a function's result."""
    if not has_aux:
        return result
    if not isinstance(result, tuple) or len(result) != 2:
        raise DtypeError(
            name, "with has_aux the function gives (value, other)", result=shown(result)
        )
    return result[0]


@checked
def grad_and_value(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Callable[..., Any]:
    """A function that gives ``(gradient, value)`` of one that gives a tensor of one element.

    Args:
        func: of tensors.
        argnums: which arguments the gradient is of: a number, or a tuple of them.
        has_aux: whether ``func`` gives ``(value, other)``; the result is then
            ``(gradient, (value, other))``.
    """

    @wraps(func)
    def found(*args: Any, **kwargs: Any) -> Any:
        recording, places = autograd.is_grad_enabled(), _places(argnums)
        with autograd.enable_grad():
            given, leaves = _with_leaves("grad", args, places)
            result = func(*given, **kwargs)
            value = _value_of("grad", result, has_aux=has_aux)
            require_tensors("grad", result=value)
            if value.numel() != 1:
                raise ShapeError("grad", "the function gives one element", shape=value.shape)
            nested = _is_nested(recording, args, [value], leaves)
            grads = _slopes([value], leaves, [None], nested=nested)
        kept = _like(tuple(args[k] for k in places), grads)
        value = value if nested else value.detach()
        return (
            kept[0] if isinstance(argnums, int) else kept,
            (value, _left(result[1], nested=nested)) if has_aux else value,
        )

    return found


@checked
def grad(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Callable[..., Any]:
    """A function that gives the gradient; arguments as :func:`grad_and_value`'s."""
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def found(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return found


@checked
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """What ``func`` gives, and a function from the gradient of that to those of the arguments.

    Args:
        func: of tensors, gives one, or a container of them.
        *primals: its arguments: tensors, or containers of them.
        has_aux: whether ``func`` gives ``(value, other)``.

    Returns:
        The value and the function; with ``has_aux`` the other, too. All are on the tape where the
        arguments are.

    Raises:
        DtypeError: if the arguments, or the gradients, are not tensors, or not as many as results.
    """
    recording = autograd.is_grad_enabled()
    with autograd.enable_grad():
        given, leaves = _with_leaves("vjp", primals, tuple(range(len(primals))))
        result = func(*given)
        value = _value_of("vjp", result, has_aux=has_aux)
    outputs = _flat(value)
    for y in outputs:
        require_tensors("vjp", result=y)
    nested = _is_nested(recording, primals, outputs, leaves)

    def back(*cotangents: Any) -> tuple[Tensor, ...]:
        arrived = _flat(list(cotangents))
        if len(arrived) != len(outputs) or not all(isinstance(g, Tensor) for g in arrived):
            law = "there is a gradient for each result"
            raise DtypeError("vjp", law, gradients=shown(cotangents))
        more = autograd.is_grad_enabled() and (nested or _on_tape(arrived))
        with autograd.set_grad_enabled(more):
            found = _slopes(outputs, leaves, arrived, nested=more)
        return _like(primals, found)

    plain = _like(value, [y if nested else y.detach() for y in outputs])
    return (plain, back, _left(result[1], nested=nested)) if has_aux else (plain, back)


@checked
def jvp(
    func: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """What ``func`` gives, and how that changes along ``tangents``: two walks back.

    Args:
        func: of tensors, gives one, or a container of them.
        primals: its arguments: tensors, or containers of them.
        tangents: the direction, a tensor of the same shape for each of them.
        strict: refuse outputs that do not depend on the arguments; else their change is 0.
        has_aux: whether ``func`` gives ``(value, other)``.

    Returns:
        The value and its change; with ``has_aux`` the other, too. They are on the tape where the
        arguments are.

    Raises:
        ShapeError: if tangents are not as many as arguments, or of other shapes.
        ArgumentError: if it is strict, and an output does not depend on the arguments.
    """
    moved = _flat(list(tangents))
    for x in (*_flat(list(primals)), *moved):
        require_tensors("jvp", argument=x)
    shapes = [tuple(x.shape) for x in _flat(list(primals))], [tuple(t.shape) for t in moved]
    if shapes[0] != shapes[1]:
        law = "there is a tangent of its shape for each argument"
        raise ShapeError("jvp", law, primals=shapes[0], tangents=shapes[1])
    recording = autograd.is_grad_enabled()
    with autograd.enable_grad():
        given, leaves = _with_leaves("jvp", primals, tuple(range(len(primals))))
        result = func(*given)
        value = _value_of("jvp", result, has_aux=has_aux)
        outputs = _flat(value)
        for y in outputs:
            require_tensors("jvp", value=y)
        nested = _is_nested(recording, (*primals, *tangents), outputs, leaves)
        if strict and not all(y.requires_grad for y in outputs):
            law = "where strict, what the function gives depends on its arguments"
            raise ArgumentError("jvp", law, remedy="strict=False gives zeros")
        weights = [_probe(y) for y in outputs]
        pairs = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
        total: Any = 0
        if pairs:
            ends, ones = map(list, zip(*pairs, strict=True))
            back = autograd.grad(ends, leaves, ones, create_graph=True, allow_unused=True)
            parts = zip(back, moved, strict=True)
            # Gradients of complex numbers are conjugates of slopes.
            terms = (g * (t.conj() if t.dtype.is_complex else t) for g, t in parts if g is not None)
            total = sum((z.real if z.dtype.is_complex else z).sum() for z in terms)
        along = [ops.zeros_like(w.detach()) for w in weights]
        if isinstance(total, Tensor) and total.requires_grad:
            grads = autograd.grad(total, weights, create_graph=nested, allow_unused=True)
            along = _zeros(grads, weights)
    found = [outputs, along] if nested else [[x.detach() for x in y] for y in (outputs, along)]
    value, change = (_like(value, flat) for flat in found)
    return (value, change, _left(result[1], nested=nested)) if has_aux else (value, change)


@checked
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """What ``func`` gives, and a function from tangents of its arguments to its change.

    Each call of that function is one of :func:`jvp`.

    Args:
        func: of tensors, gives one, or a container of them.
        *primals: its arguments.
    """

    def along(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), along


@checked
def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian, ``(*output, *input)``: a walk back for all outputs.

    Args:
        func: of tensors, gives one, or a container of them: then there is a Jacobian of each.
        argnums: which arguments: a number, or a tuple of them; of containers there is one for each
            tensor, in the same containers.
        has_aux: whether ``func`` gives ``(value, other)``.
        chunk_size: of how many outputs at once; None: of all.

    Raises:
        ArgumentError: if it is not.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError("jacrev", "chunk_size is above 0", chunk_size=chunk_size)

    @wraps(func)
    def found(*args: Any, **kwargs: Any) -> Any:
        recording = autograd.is_grad_enabled()
        with autograd.enable_grad():
            given, leaves = _with_leaves("jacrev", args, _places(argnums))
            result = func(*given, **kwargs)
            value = _value_of("jacrev", result, has_aux=has_aux)
            _require_real("jacrev", (*leaves, *_flat(value)))
            nested = _is_nested(recording, args, _flat(value), leaves)
            every = [_rows(y, leaves, nested=nested, at_once=chunk_size) for y in _flat(value)]
        shown_as = tuple(args[k] for k in _places(argnums))
        kept = [_like(shown_as, of) for of in every]
        jacobian = _like(value, [of[0] if isinstance(argnums, int) else of for of in kept])
        return (jacobian, _left(result[1], nested=nested)) if has_aux else jacobian

    return found


def _rows(value: Any, leaves: list[Tensor], *, nested: bool, at_once: int | None) -> list[Tensor]:
    """The Jacobians of one result: a walk back with a first axis of the result's elements."""
    require_tensors("jacrev", result=value)
    shapes = [(*value.shape, *leaf.shape) for leaf in leaves]
    if not value.requires_grad or not value.numel():
        return [leaf.detach().new_zeros(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
    settings: dict[str, Any] = {"create_graph": nested, "retain_graph": True, "allow_unused": True}

    def row(weight: Tensor) -> list[Tensor]:
        return _zeros(autograd.grad(value, leaves, weight, **settings), leaves)

    rows = vmap(row, randomness="different", chunk_size=at_once)(_basis(value))
    return [ops.reshape(each, shape) for each, shape in zip(rows, shapes, strict=True)]


def _basis(x: Tensor) -> Tensor:
    """Along a first axis tensors like ``x``, each with a 1 at an element of its own."""
    n = x.numel()
    return ops.reshape(x.detach().new_ones(n).diag(), (n, *x.shape))


@checked
def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """As :func:`jacrev`, with a direction for each element of the arguments instead.

    So few arguments of many results cost less. All directions are one walk, the second of two (see
    :func:`jvp`).

    Args:
        func: as :func:`jacrev` takes it.
        argnums: the same.
        has_aux: the same.
        randomness: taken: the function runs once.
    """
    del randomness

    @wraps(func)
    def found(*args: Any, **kwargs: Any) -> Any:
        recording = autograd.is_grad_enabled()
        with autograd.enable_grad():
            given, leaves = _with_leaves("jacfwd", args, _places(argnums))
            result = func(*given, **kwargs)
            value = _value_of("jacfwd", result, has_aux=has_aux)
            outputs = _flat(value)
            _require_real("jacfwd", (*leaves, *outputs))
            nested = _is_nested(recording, args, outputs, leaves)
            columns = [_columns(outputs, leaf, nested=nested) for leaf in leaves]
        shown_as = tuple(args[k] for k in _places(argnums))
        kept = [_like(shown_as, of) for of in zip(*columns, strict=True)]
        jacobian = _like(value, [of[0] if isinstance(argnums, int) else of for of in kept])
        return (jacobian, _left(result[1], nested=nested)) if has_aux else jacobian

    return found


def _columns(outputs: list[Any], leaf: Tensor, *, nested: bool) -> list[Tensor]:
    """The Jacobians of all results by one leaf."""
    for y in outputs:
        require_tensors("jacfwd", result=y)
    found = [leaf.detach().new_zeros((*y.shape, *leaf.shape)) for y in outputs]
    places = [k for k, y in enumerate(outputs) if y.requires_grad and y.numel()]
    if not places or not leaf.numel():
        return found
    probes = [_probe(outputs[k]) for k in places]
    ends = [outputs[k] for k in places]
    (back,) = autograd.grad(ends, leaf, probes, create_graph=True, allow_unused=True)
    if back is None or not back.requires_grad:
        return found
    settings: dict[str, Any] = {"create_graph": nested, "retain_graph": True, "allow_unused": True}

    def along(direction: Tensor) -> list[Tensor]:
        return _zeros(autograd.grad(back, probes, direction, **settings), probes)

    for k, of in zip(places, vmap(along, randomness="different")(_basis(leaf)), strict=True):
        found[k] = ops.reshape(ops.movedim(of, 0, -1), (*outputs[k].shape, *leaf.shape))
    return found


def _probe(y: Tensor) -> Tensor:
    """A weight of a result, to differentiate by."""
    zeros = ops.zeros_like(y.detach())
    batching = mode.current().batching
    return zeros.requires_grad_() if batching is None else leaf_of(zeros, batching[-1])


def _require_real(name: str, tensors: Iterable[Any]) -> None:
    both = [x.dtype for x in tensors if isinstance(x, Tensor)]
    if any(dtype.is_complex for dtype in both):
        law, hint = "a Jacobian is of real numbers", "Take view_as_real of complex ones"
        raise DtypeError(name, law, dtypes=both, remedy=hint)


@checked
def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives second derivatives, ``(*output, *input, *input)``."""
    return jacrev(jacrev(func, argnums), argnums)


@checked
def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let a module's batch norms keep no running statistics, which ``vmap`` could not change.

    Args:
        root: a module; changed in place.

    Returns:
        It.

    Raises:
        DtypeError: if it is no module.
    """
    if not hasattr(root, "named_parameters"):
        raise DtypeError("replace_all_batch_norm_modules_", "root is a module", got=shown(root))
    for module in root.modules():
        if getattr(module, "keeps_averages", False):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


@checked
def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of modules of one kind, by name, each ``(len(models), ...)``.

    Args:
        models: one or more.

    Returns:
        Leaves that require gradients where parameters do, and buffers.

    Raises:
        ArgumentError: if there is no module, or their tensors have other names.
        DtypeError: if they are no modules.
    """
    name = "stack_module_state"
    if not models:
        raise ArgumentError(name, "there is a module", models=0)
    for model in models:
        if not hasattr(model, "named_parameters"):
            raise DtypeError(name, "models are modules", got=shown(model))
    if len({tuple(n for n, _ in model.named_parameters()) for model in models}) > 1:
        raise ArgumentError(name, "modules are of one kind", models=len(models))

    def stacked(every: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        return {
            n: ops.stack([own[n].detach() for own in every]).requires_grad_(x.requires_grad)
            for n, x in every[0].items()
        }

    return (
        stacked([dict(m.named_parameters()) for m in models]),
        stacked([dict(m.named_buffers()) for m in models]),
    )
