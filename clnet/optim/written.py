"""Optimisers that users write: a ``step`` of their own, its state in traces; hooks around steps.

Their step is Python, and what it keeps is what it likes. In a compiled function the numbers among
this vary (:class:`.Numbers`): a replay counts steps on, and computes rates and corrections anew.
What cannot be recorded is refused.
"""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..compile.numbers import Slot, is_number
from ..errors import CheckpointError, GradientError, TraceError
from ..ops.machinery.function import host_action
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.containers import again
from ..values.plain import shown
from ..values.varying import is_varying
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
            if mode.current().tracer is not None and self.written:
                result = traced_step(step, self, args, kwargs)
            else:
                result = step(self, *args, **kwargs)
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
        *("_shapeless", "_state_hooks", "_stepping", "_torn", "_unsettled"),
    )
)
"""Attributes of every optimiser, which say nothing of a user's step beyond groups and state."""
_MOST_DEPTH = 4


def version_of(optimizer: Any, but: Set[tuple[int, Any]] = frozenset()) -> tuple[Any, ...]:
    """What a trace of a user's step depends on: groups, state, plain values of attributes.

    Args:
        optimizer: the user's.
        but: names of slots whose numbers vary; see :class:`.Numbers`.
    """
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    told = [_told(g, but, own) for g, own in zip(groups, optimizer.param_groups, strict=True)]
    table = vars(optimizer)
    rest = {k: v for k, v in table.items() if k not in _OWN}
    kept = getattr(optimizer, "state", {})
    return tuple(told), _told(kept, but), _told(rest, but, table)


def _told(value: Any, but: Set[tuple[int, Any]] = frozenset(), own: Any = None) -> Any:
    """What a trace depends on in a user's state: its plain values, and which tensors there are."""
    if isinstance(value, Tensor):
        return id(value.array.storage)
    if isinstance(value, Mapping):
        table = id(value if own is None else own)
        return tuple(
            (k if not isinstance(k, Tensor) else id(k), _told(v, but))
            for k, v in value.items()
            if not but or (table, k) not in but
        )
    if isinstance(value, list | tuple | deque):
        table = id(value)
        return tuple([_told(v, but) for k, v in enumerate(value) if (table, k) not in but])
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if is_varying(value):
        return None
    return value if isinstance(value, bool | int | float | str | type(None)) else id(value)


def slots_of(optimizer: Any) -> Iterator[list[Slot]]:
    """Where a user's optimiser keeps numbers: those that go by one name and are one together.

    So parameters that have made the same steps share the scalars of their updates.
    """
    found: dict[Any, list[Slot]] = {}
    for table in tables_of(optimizer):
        for key, value in entries_of(table).items():
            if is_number(value) and not (table is vars(optimizer) and key in _OWN):
                kind = (key, type(value), repr(value), type(table) is dict)
                found.setdefault(kind, []).append(Slot(table, key))
    yield from found.values()


def traced_step(
    step: Callable[..., Any], optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Record a user's step.

    Tensors that it puts into its state, groups and attributes, and lists and dicts in these, are
    there after each replay, as those of modules are: where one of their form was they are copied
    into that; where none was, the next call is traced anew and finds them.

    Args:
        step: the function.
        optimizer: whose it is.
        args: its arguments.
        kwargs: the same by name.

    Raises:
        TraceError: if it keeps tensors that it made in tuples and the like within its state.
    """
    name = type(optimizer).__name__
    tracer = mode.current().tracer
    tracer.watch(optimizer)
    before = [(table, entries_of(table)) for table in tables_of(optimizer)]
    tracer.undoing.append(functools.partial(_put_back, before, vars(optimizer)))
    counted = _plain(getattr(optimizer, "state", {}))
    with mode.using(phase="update", module_path=name):
        result = step(optimizer, *args, **kwargs)
    known = {id(table): held for table, held in before}
    for table, held in before:
        _keep_containers(table, held, known)
    fresh, tables = False, tables_of(optimizer)
    own = {*map(id, tables)}
    for table in tables:
        held = known.get(id(table), {})
        for key, value in entries_of(table).items():
            if value is held.get(key):
                continue
            if _is_traced(value) or _take_turns(value, held.get(key)):
                fresh = fresh or key not in held
                tracer.rebind_entry(table, key, held)
            elif id(value) not in own and any(map(_is_traced, _parts(value))):
                raise TraceError(
                    f"{name}.step",
                    "it keeps tensors in tuples, inside a function that clnet.compile traces",
                    name=shown(key),
                    remedy="Write them in place, or keep them in a list",
                )
    if fresh:  # a plan that makes state is of use once
        optimizer._num_changes += 1
    elif _plain(getattr(optimizer, "state", {})) != counted:
        warnings.warn(
            f"{name}.step: its state holds numbers of Python that it changes, so every call is "
            "traced anew. Keep them in tensors, changed in place",
            stacklevel=4,
        )
    return result


@contextmanager
def plain_groups(groups: Sequence[dict[str, Any]]) -> Iterator[None]:
    """Let groups hold plain numbers while a step of clnet's own is recorded.

    Its host actions read them there at every replay: what the function has put there so far is put
    there then, before.

    Args:
        groups: the optimiser's.
    """
    tracer = mode.current().tracer
    found = [Slot(group, key) for group in groups for key in group] if tracer.numbers else []
    found = [slot for slot in found if is_varying(slot.value) or tracer.numbers.has(slot)]
    before = [(slot, slot.value) for slot in found]
    for slot, value in before:
        host_action(tracer.numbers.put(slot, value))
    try:
        yield
    finally:
        for slot, value in before:
            slot.write(value)


def _keep_containers(table: Any, held: Mapping[Any, Any], known: Mapping[int, Any]) -> None:
    """A list or dict that takes the place of one with as many entries is put into that one."""
    for key, value in entries_of(table).items():
        old: Any = held.get(key)
        if value is old or type(value) is not type(old) or id(old) not in known:
            continue
        parts = entries_of(value)
        if parts and parts.keys() == entries_of(old).keys():
            for place, part in parts.items():
                old[place] = part
            table[key] = old


def tables_of(optimizer: Any) -> list[Any]:
    """The dicts, lists and deques in which a user's step keeps what it likes.

    Of clnet's own optimisers they are the groups, whose settings programs read and write.
    """
    if not optimizer.written:
        return [*optimizer.param_groups]
    kept = getattr(optimizer, "state", {})  # a wrapper may have none
    found: dict[int, Any] = {}
    pending: list[tuple[Any, int]] = [(kept, _MOST_DEPTH), (vars(optimizer), _MOST_DEPTH)]
    pending += [(group, _MOST_DEPTH) for group in optimizer.param_groups]
    while pending:
        table, depth = pending.pop(0)
        if id(table) in found or not depth:
            continue
        found[id(table)] = table
        left = _OWN if table is vars(optimizer) else frozenset({"params"})
        for key, value in entries_of(table).items():
            holds = isinstance(value, dict | list | deque)
            if holds and not (isinstance(key, str) and key in left):
                pending.append((value, depth - 1))
    return list(found.values())


def entries_of(table: Any) -> dict[Any, Any]:
    """The entries of a dict, or of a list by their places."""
    return dict(table) if isinstance(table, Mapping) else dict(enumerate(table))


def _plain(value: Any) -> Any:
    """What of a user's state is neither a tensor nor varies."""
    if isinstance(value, dict):
        return [(id(k), _plain(v)) for k, v in value.items()]
    if isinstance(value, list | tuple | deque):
        return [*map(_plain, value)]
    return None if isinstance(value, Tensor) else _told(value)


def _put_back(tables: list[tuple[Any, dict[Any, Any]]], own: dict[str, Any]) -> None:
    """Let tables hold what they held; what every optimiser has for itself stays as it is."""
    for table, held in tables:
        if not isinstance(table, dict):
            table.clear()
            table.extend(held.values())
            continue
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


def _parts(value: Any, depth: int = _MOST_DEPTH) -> Iterator[Any]:
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
        order.get(id(key), key): dict(value) if isinstance(value, Mapping) else value
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
        law, hint = "not an optimiser's state", "Pass what state_dict() gave"
        raise CheckpointError(name, law, type=type(given).__name__, remedy=hint)
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
            state[p] = {k: copied(k, v, p) for k, v in values.items()}
    for own, group in zip(optimizer.param_groups, groups, strict=True):
        own.update({k: v for k, v in group.items() if k != "params"})
    optimizer.state.clear()
    optimizer.state.update(state)


def copied(name: str, value: Any, p: Tensor) -> Any:
    """A loaded value of a parameter's: tensors are copied to its device, floats to its dtype."""
    if isinstance(value, Mapping):
        return {k: copied(k, v, p) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return again(value, (copied(name, v, p) for v in value))
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
