"""Optimisers that users write: a ``step`` of their own, its state in traces; hooks around steps.

Their step is Python, and what it keeps is what it likes. A compiled function records it once for
each value of the numbers among this, but for those that it counts and nobody looks at (the names in
``_counted``): these a replay counts on. What it cannot record it refuses.
"""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from ..compile.tracer import TracedAnew
from ..errors import CheckpointError, GradientError, TraceError
from ..ops.machinery.function import host_action
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.containers import again
from ..values.plain import shown
from .hook import EVERY_AFTER, EVERY_BEFORE, StateHooks


def around(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's ``step`` with the hooks around it, and recorded with care while one is traced."""

    @functools.wraps(step)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if "_before" not in vars(self):  # a wrapper that left super().__init__() out: no hooks
            if mode.current().tracer is None or not self.written:
                return step(self, *args, **kwargs)
            return traced_step(step, self, args, kwargs)
        if self._stepping:  # super().step() of a subclass that has hooks of its own around it
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            for hook in (*EVERY_BEFORE.values(), *self._before.values()):
                changed = hook(self, (self, *args), kwargs)  # PyTorch's: as the method gets them
                if changed is not None:
                    args, kwargs = _arguments(changed)
            traced = mode.current().tracer is not None and self.written
            taken = traced_step if traced else step
            result = (
                taken(self, *args, **kwargs) if taken is step else taken(step, self, args, kwargs)
            )
            for hook in (*self._after.values(), *EVERY_AFTER.values()):
                hook(self, (self, *args), kwargs)
        finally:
            self._stepping = False
        return result

    return whole


def _arguments(changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a hook gave instead of a step's own.

    Raises:
        GradientError: if it gave something else.
    """
    if not (isinstance(changed, tuple) and len(changed) == 2 and changed[0]):
        law = "a hook before a step gives None, or ((optimizer, *args), kwargs)"
        raise GradientError("step", law, given=shown(changed))
    return tuple(changed[0][1:]), changed[1]


_OWN = frozenset(
    (
        *("defaults", "param_groups", "state", "skips", "unless"),
        *("_after", "_before", "_last_updated", "_num_changes", "_opt_called", "_settled"),
        *("_shapeless", "_state_hooks", "_stepping", "_torn", "_unsettled", "_counted"),
    )
)
"""Attributes of every optimiser, which say nothing of a user's step beyond groups and state."""


def version_of(optimizer: Any) -> tuple[Any, ...]:
    """What a trace of a user's step depends on: groups, state, plain values of attributes."""
    counted = optimizer._counted or ()
    groups = [_but(g, ("params", *counted)) for g in optimizer.param_groups]
    kept = getattr(optimizer, "state", {})
    state = {
        k: _but(v, counted) if isinstance(v, dict) else v for k, v in _but(kept, counted).items()
    }
    return numbers(groups), numbers(state), numbers(_but(vars(optimizer), (*_OWN, *counted)))


def _but(table: Mapping[Any, Any], names: Collection[Any]) -> Mapping[Any, Any]:
    return {k: v for k, v in table.items() if k not in names} if names else table


def numbers(value: Any) -> Any:
    """What a trace depends on in a user's state: its plain values, and which tensors there are."""
    if isinstance(value, Tensor):
        return id(value.array.storage)
    if isinstance(value, Mapping):
        return tuple(
            (k if not isinstance(k, Tensor) else id(k), numbers(v)) for k, v in value.items()
        )
    if isinstance(value, list | tuple):
        return tuple(map(numbers, value))
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return value if isinstance(value, bool | int | float | str | type(None)) else id(value)


def traced_step(
    step: Callable[..., Any], optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Record a user's step.

    Tensors that it puts into its state, groups and attributes are there after each replay, as those
    of modules are: where one of their form was they are copied into that; where none was, the next
    call is traced anew and finds them.

    Args:
        step: the function.
        optimizer: whose it is.
        args: its arguments.
        kwargs: the same by name.

    Raises:
        TraceError: if it keeps tensors that it made in lists and the like within its state.
    """
    name = type(optimizer).__name__
    tracer = mode.current().tracer
    tracer.watch(optimizer)
    before = [(table, dict(table)) for table in _tables(optimizer)]
    tracer.undoing.append(functools.partial(_put_back, before, vars(optimizer)))
    counted, counts = _counted(optimizer), _begin_counts(optimizer, before)
    try:
        with mode.using(phase="update", module_path=name):
            result = step(optimizer, *args, **kwargs)
    except _LookedAt:
        optimizer._counted = None
        raise TracedAnew from None
    _end_counts(counts)
    known = {id(table): held for table, held in before}
    fresh, tables = False, _tables(optimizer)
    own = {*map(id, tables)}
    for table in tables:
        held = known.get(id(table), {})
        for key, value in [(k, v) for k, v in table.items() if v is not held.get(k)]:
            if _is_traced(value) or _take_turns(value, held.get(key)):
                fresh = fresh or key not in held
                tracer.rebind_entry(table, key, held)
            elif id(value) not in own and any(map(_is_traced, _parts(value))):
                raise TraceError(
                    f"{name}.step",
                    "it keeps tensors in containers, inside a function that clnet.compile traces",
                    name=shown(key),
                    remedy="Write them in place, or keep each under a name of its own",
                )
    if fresh:  # a plan that makes state is of use once
        optimizer._num_changes += 1
    elif _counted(optimizer) != counted:
        _require_counts(optimizer, before)
        warnings.warn(
            f"{name}.step: its state holds numbers of Python that it changes, so every call is "
            "traced anew. Keep them in tensors, changed in place",
            stacklevel=4,
        )
    return result


class _LookedAt(BaseException):
    """A number was not only counted."""


_REACHING = frozenset(("__dict__", "__getattribute__", "attrgetter", "getattr", "vars"))
"""By which a function reads attributes whose names do not stand in it."""


def _looks(name: str) -> Callable[..., Any]:
    def look(*_: Any) -> Any:
        raise _LookedAt

    look.__name__ = name
    return look


class _Count:
    """Stands for a number in a traced step: what counts it goes on, who looks at it is told.

    Args:
        value: what it is.
        added: what was counted so far.
    """

    __class__: Any = property(lambda self: int)

    def __init__(self, value: int, added: int = 0) -> None:
        self.value, self.added = value, added

    def __add__(self, other: Any) -> _Count:
        if type(other) is not int:
            raise _LookedAt
        return _Count(self.value, self.added + other)

    __radd__ = __add__


for _name in (
    *("abs", "bool", "ceil", "complex", "float", "floor", "format", "getattr", "hash", "index"),
    *("int", "invert", "neg", "pos", "reduce_ex", "repr", "round", "str", "trunc"),
    *("eq", "ge", "gt", "le", "lt", "ne", "sub", "rsub"),
    *(r + op for r in ("", "r") for op in ("and", "divmod", "floordiv", "lshift", "mod", "mul")),
    *(r + op for r in ("", "r") for op in ("or", "pow", "rshift", "truediv", "xor")),
):
    setattr(_Count, f"__{_name}__", _looks(_name))


def _begin_counts(
    optimizer: Any, before: list[tuple[dict[Any, Any], dict[Any, Any]]]
) -> list[tuple[dict[Any, Any], Any, int]]:
    """Let numbers that a step counts stand for any; gives where they lie, and what they were.

    Raises:
        TracedAnew: if the function may look at one outside of the step.
    """
    if not optimizer._counted or mode.current().tracer.anew is None:
        return []
    if any(_are_seen(optimizer, t, optimizer._counted & held.keys()) for t, held in before):
        optimizer._counted = None
        raise TracedAnew
    found = [
        (table, key, held[key])
        for table, held in before
        for key in optimizer._counted or ()
        if type(held.get(key)) is int
    ]
    for table, key, value in found:
        table[key] = _Count(value)
    return found


def _end_counts(counts: list[tuple[dict[Any, Any], Any, int]]) -> None:
    """Have every replay count, as the step did."""
    going: list[tuple[dict[Any, Any], Any, int]] = []
    for table, key, value in counts:
        now = table.get(key)
        if type(now) is _Count:
            going.append((table, key, now.added))
            table[key] = value
    if going:
        host_action(functools.partial(_count, going))


def _count(going: list[tuple[dict[Any, Any], Any, int]]) -> None:
    for table, key, added in going:
        table[key] += added


def _require_counts(optimizer: Any, before: list[tuple[dict[Any, Any], dict[Any, Any]]]) -> None:
    """Of numbers that a step has changed find out whether it only counts them, and nobody looks.

    Raises:
        TracedAnew: if that is not known yet.
    """
    if optimizer._counted is None or mode.current().tracer.anew is None:
        return
    more: set[Any] = set()
    for table, held in before:
        own = [k for k, v in held.items() if type(v) is int and type(table.get(k)) is int]
        changed = {k for k in own if table[k] != held[k]} - _OWN
        if _are_seen(optimizer, table, changed):
            return
        more |= changed
    if more - optimizer._counted:
        optimizer._counted = optimizer._counted | more
        raise TracedAnew


def _are_seen(optimizer: Any, table: dict[Any, Any], keys: Collection[Any]) -> bool:
    """Whether the function that is traced may look at these beside the step."""
    names = mode.current().tracer.anew or frozenset()
    by = keys if table is vars(optimizer) else ("state", "state_dict", "param_groups")
    return bool(keys) and not names.isdisjoint((*by, *_REACHING))


def _tables(optimizer: Any) -> list[dict[Any, Any]]:
    """The dicts in which a user's step keeps what it likes."""
    kept = getattr(optimizer, "state", {})  # a wrapper may have none
    inside = [v for v in kept.values() if isinstance(v, dict)]
    return [kept, *inside, *optimizer.param_groups, vars(optimizer)]


def _counted(optimizer: Any) -> Any:
    """What of its state is no tensor."""
    kept = getattr(optimizer, "state", {})
    dicts = {k: v if isinstance(v, dict) else {"": v} for k, v in kept.items()}
    plain = {
        key: {k: v for k, v in table.items() if not isinstance(v, Tensor)}
        for key, table in dicts.items()
    }
    return numbers(plain)


def _put_back(tables: list[tuple[dict[Any, Any], dict[Any, Any]]], own: dict[str, Any]) -> None:
    """Let tables hold what they held; what every optimiser has for itself stays as it is."""
    for table, held in tables:
        stays = _OWN if table is own else frozenset[str]()
        for key in table.keys() - held.keys() - stays:
            del table[key]
        table.update({k: v for k, v in held.items() if k not in stays})


def _is_traced(value: Any) -> bool:
    """Whether a tensor has no memory: it is of a trace."""
    return type(value) is Tensor and value.array.storage.buffer is None


def _take_turns(value: Any, before: Any) -> bool:
    """Whether a tensor stands where another one of its form was: ``s["a"], s["b"] = ...``."""
    both = type(value) is type(before) is Tensor
    return both and (value.shape, value.dtype, value.device) == (
        before.shape,
        before.dtype,
        before.device,
    )


def _parts(value: Any, depth: int = 4) -> Iterator[Any]:
    """What lies in containers within each other."""
    if depth and isinstance(value, list | tuple | deque | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield part
            yield from _parts(part, depth - 1)


def state_of(optimizer: Any) -> dict[str, Any]:
    """The state of a user's optimiser, in PyTorch's form: parameters by their position."""
    order = {id(p): k for k, p in enumerate(_parameters(optimizer))}
    groups = [
        {k: v for k, v in g.items() if k != "params"}
        | {"params": [order[id(p)] for p in g["params"]]}
        for g in optimizer.param_groups
    ]
    state = {
        order[id(key)] if isinstance(key, Tensor) else key: dict(value)
        for key, value in optimizer.state.items()
    }
    return {"state": state, "param_groups": groups}


def load_state(optimizer: Any, given: Mapping[str, Any]) -> None:
    """Continue from what :func:`state_of` gave, or PyTorch's optimiser of the same kind.

    Args:
        optimizer: the user's.
        given: the state; its tensors are copied, to the device and floating dtype of the parameter.

    Raises:
        CheckpointError: if groups or parameters do not fit.
    """
    name = type(optimizer).__name__
    if not isinstance(given, Mapping) or not {"state", "param_groups"} <= set(given):
        raise CheckpointError(name, "not an optimiser's state", type=type(given).__name__)
    groups = given["param_groups"]
    sizes = [len(g["params"]) for g in optimizer.param_groups]
    theirs = [len(g.get("params", ())) for g in groups]
    if sizes != theirs:
        law = "the state has other groups or parameters"
        raise CheckpointError(name, law, state=theirs, optimiser=sizes)
    places = [place for g in groups for place in g["params"]]
    by_place = dict(zip(places, _parameters(optimizer), strict=True))
    state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    for place, values in given["state"].items():
        p = by_place.get(place)
        if p is None:
            state[place] = values
        else:
            state[p] = {k: _copied(k, v, p) for k, v in values.items()}
    for own, group in zip(optimizer.param_groups, groups, strict=True):
        own.update({k: v for k, v in group.items() if k != "params"})
    optimizer.state.clear()
    optimizer.state.update(state)


def _copied(name: str, value: Any, p: Tensor) -> Any:
    if isinstance(value, Mapping):
        return {k: _copied(k, v, p) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return again(value, (_copied(name, v, p) for v in value))
    if not (isinstance(value, Tensor) or hasattr(value, "detach")):
        return value
    floating = str(value.dtype).rpartition(".")[2].startswith(("float", "bfloat"))
    dtype = p.dtype if floating and name != "step" else None
    return tensor(value, device=p.device, dtype=dtype)


def _parameters(optimizer: Any) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def by_place(optimizer: Any) -> dict[str, Any]:
    """The attributes of an optimiser to be copied or pickled, parameters known by their place."""
    kept = dict(vars(optimizer))
    if "_state_hooks" in kept:  # hooks are the original's, as in PyTorch
        kept["_state_hooks"] = StateHooks()
    order = [id(p) for p in _parameters(optimizer)]
    if "_shapeless" in kept:
        kept["_shapeless"] = [key in kept["_shapeless"] for key in order]
    return kept


def by_identity(optimizer: Any, kept: Mapping[str, Any]) -> None:
    """Give a new optimiser what :func:`by_place` took of another one."""
    vars(optimizer).update(kept)
    order = [id(p) for p in _parameters(optimizer)] if "param_groups" in kept else []
    if isinstance(kept.get("_shapeless"), list):
        chosen = zip(order, kept["_shapeless"], strict=True)
        optimizer._shapeless = {key for key, shapeless in chosen if shapeless}
