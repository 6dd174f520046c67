"""Calls a function with abstract tensors and keeps what it did: nothing runs, nothing compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

from ..array import Array
from ..autodiff.structure import holds_made, opaque, put_together, taken_apart
from ..autodiff.tape import next_sequence, set_grad_enabled
from ..autodiff.tensor_hook import add_hooks, called_by, hooks_of
from ..device import Device, Storage
from ..errors import TraceError
from ..ops.chosen import Chosen
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType
from ..values.record import NamedTuple
from .arguments import contents, is_copied, placed, same_contents, seen
from .differentiable import Backward, Joint, is_whole, record_backward
from .found_gradients import found_by, unknown
from .numbers import Numbers
from .trace import Trace
from .tracer import Tracer


@dataclass(frozen=True)
class Recorded:
    """What one call of a function was.

    Attributes:
        trace: the ops and actions, over abstract arrays.
        tracer: what the trace depends on, and which gradients it leaves.
        template: the structure of what the function returned, with ``Tensor`` in the place of
            tensors.
        backward: of results that stay on the tape; what it saves are the trace's last results.
        shared: of results that are an argument or something outside, or lie in its memory, what
            gives them for the tensors of a call.
        assigned: modules and other objects, and names of attributes that get the last results; and
            the dict in which they are put, if it is one, or that is no change that a plan depends
            on.
        twins: of results that are one tensor, the later ones and the first.
        kinds: classes of results that are of a subclass, or leaves that the function made, and
            whether they are such leaves.
        flags: what gives tensors that the function asked for gradients, and whether it wants them.
        written: dicts and names of tensors that it assigns, copied to those that were there.
        filled: puts the numbers of a call in the place of those that vary in a result, if any do.
        known: of gradients that calls found, for :func:`.found_by`.
        hooks: hooks that it registered with its arguments' gradients: the position of the argument,
            the function, whether it waits for ``grad``, and the handle that the function has made,
            which stands for the hook of the last call.
    """

    trace: Trace
    tracer: Tracer
    template: Any
    backward: Backward | None = None
    shared: Mapping[int, Callable[[Sequence[Tensor]], Tensor | None]] = field(
        default_factory=dict[int, Any]
    )
    assigned: tuple[tuple[Any, str, dict[str, Any] | None], ...] = ()
    twins: Mapping[int, int] = field(default_factory=dict[int, int])
    kinds: Mapping[int, tuple[type[Tensor], bool]] = field(default_factory=dict[int, Any])
    flags: tuple[tuple[Callable[[Sequence[Tensor]], Tensor], bool], ...] = ()
    hooks: tuple[tuple[int, Callable[..., Any], bool, Any], ...] = ()
    written: tuple[tuple[dict[Any, Any], Any], ...] = ()
    filled: Callable[[Any], Any] | None = None
    known: list[Any] = field(default_factory=list[Any])

    def require_apart(self, given: Sequence[Tensor]) -> None:
        """Refuse an argument that the function finds by name, too, where that makes a difference.

        The trace takes it for two tensors: an argument that is written, or one of both that is
        differentiated, is not the other. Where the other is written the argument is as it was.

        Args:
            given: those of the call.

        Raises:
            TraceError: if there is one.
        """
        outside, writers = self.trace.outside, self.trace.writers
        for k, x in enumerate(given):
            storage = x.array.storage
            if storage not in outside or k >= len(self.trace.arguments):
                continue
            written = self.trace.arguments[k].storage in writers
            targets = self.tracer.targets if x.requires_grad else ()
            if written or k in targets or storage in targets:
                law = "an argument is found by name, too, and is written or differentiated"
                hint = "Use it as the argument alone, or pass its detach().clone()"
                raise TraceError("compile", law, argument=k, x=x.shape, remedy=hint)

    def gradients(self, given: Sequence[Tensor]) -> list[Tensor] | None:
        """The gradients that a call finds, behind its tensors; None if the plan takes others.

        Args:
            given: those of the call.
        """
        sources = self.tracer.sources
        if not sources:
            return []
        if not self.known:
            self.known.extend([unknown] * len(sources))
        return found_by(sources, given, self.trace.outside, self.known)

    def flag(self, given: Sequence[Tensor]) -> None:
        """Let tensors require gradients, or stop, and have hooks, as the function asks of them.

        Args:
            given: those of the call.
        """
        for find, value in self.flags:
            x = find(given)
            if x.requires_grad is not value:
                x.requires_grad_(value)
        for place, hook, waits, handle in self.hooks:
            own = add_hooks("register_hook", given[place])
            made = own.add_accumulated(hook) if waits else own.add(hook)
            if handle is not None:
                handle.follow(made)

    def rebuild(self, tensors: Iterable[Tensor], given: Sequence[Tensor]) -> Any:
        """What the function returns.

        Args:
            tensors: they stand in the place of the trace's results.
            given: those of the call, whose memory some results share, as they do in eager.
        """
        found = list(tensors)
        for place, (kind, leaf) in self.kinds.items():
            if type(found[place]) is not kind:
                found[place] = found[place].as_subclass(kind)
            if leaf:
                found[place].requires_grad_()
        for place, share in self.shared.items():
            own = share(given)
            found[place] = found[place] if own is None else own
        for place, first in self.twins.items():
            found[place] = found[first]
        last = found[len(found) - len(self.assigned) :]
        for (owner, name, table), value in zip(self.assigned, last, strict=True):
            if table is None:
                setattr(owner, name, value)
            else:
                table[name] = value
        result = put_together(self.template, iter(found))
        return result if self.filled is None else self.filled(result)


def record(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    device: Device,
    *,
    keeps_state: bool = True,
    as_called: bool = True,
    finds: bool = True,
    rebind: Callable[[Tracer], None] | None = None,
    jointly: Callable[[Trace], Trace] | None = None,
    numbers: Numbers | None = None,
    tables: Callable[[], Iterable[Any]] = tuple,
    keeps_bits: bool = False,
) -> Recorded:
    """Call a function once with abstract tensors in the place of its tensors.

    Args:
        function: of tensors and plain values.
        args: its arguments; of tensors only shape, dtype and ``requires_grad`` matter.
        kwargs: further ones, by name.
        device: where it makes what it makes without naming a device.
        keeps_state: whether tensors that it assigns to attributes of modules are theirs after
            each replay; else the attributes stay as they are.
        as_called: whether tensors are laid out as the arguments are, and one that is given twice is
            one; else they are dense.
        finds: whether gradients that it finds are further arguments; else they stay what they are.
        rebind: tells the tracer of attributes of other objects that became tensors of the trace.
        numbers: those that vary from call to call.
        tables: gives dicts and lists outside in which the function may leave such.
        jointly: a pass over the function and the backward of its results, before they are apart.
        keeps_bits: whether ops are those of eager execution, also where passes know others better.

    Returns:
        The recording; nothing was run, and gradients and versions are what they were.

    Raises:
        TraceError: if the function reads a value on the host, changes a list or dict that it was
            given, or returns a tensor made of one outside that has a graph.
    """
    tracer, start = Tracer(rebind), next_sequence()
    tracer.keeps_bits = keeps_bits
    varying = tracer.begin(Numbers() if numbers is None else numbers)
    placeholders = _Placeholders(tracer, as_called)
    tracer.place = placeholders if as_called and finds else None
    try:
        with _tracing(tracer, device):
            # In the order of a call's tensors: of f(*generator, **made) Python asks made first.
            place = partial(placed, place=placeholders, vary=varying.next_argument, known={})
            called = [place(a) for a in args]
            named = {k: place(v) for k, v in kwargs.items()}
            hooked = [called_by(p) for p in placeholders.tensors]
            result = _called(function, called, named, varying, tables)
            for end in tracer.ends:
                end()
            left = _left(result, placeholders, start, keeps_state=keeps_state, jointly=jointly)
        _refuse_gradients(tracer, placeholders.tensors)
        hooks = _hooks(placeholders.tensors, hooked)
        tracer.forget_leaves({p.array.storage for p in placeholders.tensors})
    except BaseException:
        tracer.take_back()
        raise
    finally:
        tracer.restore()
        tracer.undo()
        varying.end()
    return Recorded(
        _trace(placeholders, left, device),
        tracer,
        left.template,
        left.backward,
        left.shared,
        assigned=tuple(each[:3] for each in left.assigned),
        twins=left.twins,
        kinds=left.kinds,
        flags=_flags(tracer, placeholders.tensors),
        hooks=hooks,
        written=left.written,
        filled=varying.filled if varying.are_in(left.template) else None,
    )


def _tracing(tracer: Tracer, device: Device) -> AbstractContextManager[Any]:
    """The mode while a function is traced; autocast's copies are made anew, and stay inside."""
    outside = mode.current().autocast
    return mode.using(tracer=tracer, device=device, autocast=outside and outside.apart())


def _called(
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    numbers: Numbers,
    tables: Callable[[], Iterable[Any]],
) -> Any:
    before = contents([args, kwargs])
    # Also where there are none yet: a scheduler's step inside sets some.
    numbers.begin(tables())
    numbers.tracer.ends.append(lambda: numbers.leave(tables()))
    grad = mode.current().grad
    result = function(*args, **kwargs)
    if mode.current().grad is not grad:  # for good, by set_grad_enabled(...)
        numbers.tracer.record_action(partial(set_grad_enabled, not grad))
    if not same_contents(before, contents([args, kwargs])):
        law = "the function changes a list or dict that it was given"
        raise TraceError("compile", law, remedy="Change a copy, or return what is new")
    return result


class _Placeholders:
    """Makes what a function gets in the place of tensors.

    Args:
        tracer: is told which stands for which.
        as_called: whether they are laid out as those are, and one for each.

    Attributes:
        tracer: the same.
        tensors: those that were made.
        memory: where each lies.
    """

    def __init__(self, tracer: Tracer, as_called: bool) -> None:  # noqa: FBT001 - of record alone
        self.tensors: list[Tensor] = []
        self.memory: list[Array] = []
        self.tracer = tracer
        self._as_called = as_called
        self._known: dict[int, Tensor] = {}

    def __call__(self, value: Tensor) -> Tensor:
        """What the function gets in the place of a tensor."""
        if self._as_called and id(value) in self._known:
            return self._known[id(value)]
        array = view = Array.abstract(value.shape, value.dtype, value.device)
        if self._as_called:
            array, view = seen(value)
        made = Tensor(view)
        if self._as_called and type(value) is not Tensor:
            made = made.as_subclass(type(value))
        self._known[id(value)] = made.requires_grad_(value.requires_grad)
        hooks = hooks_of(value) if self._as_called else None
        made.hooks = None if hooks is None else hooks.copied()
        copied = self._as_called and is_copied(value)
        self.tracer.give(len(self.tensors), made, value, copied=copied)
        self.tensors.append(made)
        self.memory.append(array)
        if self._as_called and vars(value):
            vars(made).update(vars(value))
        return made


_Assigned = tuple[Any, str, dict[str, Any] | None, Tensor]


class _Left(NamedTuple):
    """What a call gave and left, in the names of :class:`Recorded`.

    Attributes:
        tensors: of the result, then those that are assigned.
    """

    tensors: list[Tensor]
    template: Any
    backward: Backward | None
    shared: Mapping[int, Callable[[Sequence[Tensor]], Tensor | None]]
    assigned: Sequence[_Assigned]
    twins: Mapping[int, int]
    kinds: Mapping[int, tuple[type[Tensor], bool]]
    written: tuple[tuple[Any, Any], ...]


def _left(
    result: Any,
    placeholders: _Placeholders,
    start: int,
    *,
    keeps_state: bool,
    jointly: Callable[[Trace], Trace] | None,
) -> _Left:
    """Look at what a function returned and assigned; its states' writes are recorded last."""
    tracer, given, memory = placeholders.tracer, placeholders.tensors, placeholders.memory
    found: list[Tensor] = []
    template = _taken_apart(result, found, tracer)
    twins, kinds = _twins(found), _kinds(tracer, found)
    copied, assigned, written = _state(tracer, found) if keeps_state else ((), (), ())
    found += [value for _, _, _, value in assigned]
    shared = _shared(found, given, kinds)
    lost = {before.array.storage: before for before, _ in copied}
    seen_later = [value for _, value in copied]
    joint = None if jointly is None else Joint(jointly, (*found, *seen_later))
    backward = record_backward(tracer, found, given, memory, start, lost, joint)
    _overwrite(copied)
    return _Left(found, template, backward, shared, assigned, twins, kinds, written)


def _trace(placeholders: _Placeholders, left: _Left, device: Device) -> Trace:
    """The trace of a call that has ended."""
    tracer, saved = placeholders.tracer, () if left.backward is None else left.backward.saved
    return Trace(
        tuple(tracer.steps),
        tuple(placeholders.memory),
        (*(t.array for t in left.tensors), *saved),
        tuple(_kept(tracer)),
        device,
        num_saved=len(saved),
        passed=frozenset(k for k, share in left.shared.items() if not _may_be_copied(share)),
    )


def _state(
    tracer: Tracer, results: list[Tensor]
) -> tuple[list[tuple[Tensor, Tensor]], tuple[_Assigned, ...], tuple[tuple[Any, Any], ...]]:
    """What becomes of tensors that the function assigned to attributes.

    One that takes the place of a tensor of its form is to be copied there, so that the next replay
    reads it where this one did. Others are further results, assigned after each replay, with which
    the owner has changed: the next call is traced anew, and finds a tensor there. So are those on
    the tape (``self.auxiliary = ...``, which a loss outside adds), unseen if nobody reads what was
    there.

    Args:
        tracer: the recording.
        results: what the function returned; what would change with the copies is replaced.

    Returns:
        Tensors that are to be overwritten, with what; then owners, names, dicts (None: the owner is
        told) and values of those that are to be assigned; then dicts and names of the first.
    """
    copied: list[tuple[Tensor, Tensor]] = []
    others: list[_Assigned] = []
    written: list[tuple[Any, Any]] = []
    tracer.keep_cleared()
    for (_, name), (owner, table, before) in tracer.rebound.items():
        kept: Tensor = table[name]
        value = kept.detach()
        form = (value.shape, value.dtype, value.device)
        same = type(before) is Tensor and (before.shape, before.dtype, before.device) == form
        read = same and before.array.storage in tracer.outside
        if mode.current().grad and kept.node is not None and is_whole(kept.node) and not read:
            told = not same and owner is not table
            others.append((owner, name, None if told else table, kept.clone()))
        elif same and not before.requires_grad:  # what is on the tape stays what it was
            copied.append((before.detach(), value))
            written.append((table, name))
        else:  # in memory of its own, where the next call writes: not a result's, not an argument's
            others.append((owner, name, table if owner is table else None, value.clone()))
    targets = {before.array.storage for before, _ in copied}
    for k, result in enumerate(results):
        if result.array.storage in targets:
            results[k] = result.clone()
    values = [value.clone() if value.array.storage in targets else value for _, value in copied]
    targeted = [before for before, _ in copied]
    return list(zip(targeted, values, strict=True)), tuple(others), tuple(written)


def _refuse_gradients(tracer: Tracer, arguments: Sequence[Tensor]) -> None:
    if any(id(p) in tracer.grads_after for p in arguments):
        raise TraceError(
            "compile",
            "backward collects the gradient of an argument, which stays inside",
            remedy="Ask for it with clnet.autograd.grad and return it; where nobody wants it, "
            "begin with x = x.detach().requires_grad_()",
        )


def _overwrite(copied: Iterable[tuple[Tensor, Tensor]]) -> None:
    with mode.using(grad=False):
        for before, value in copied:
            before.copy_(value)


def _taken_apart(result: Any, tensors: list[Tensor], tracer: Tracer) -> Any:
    """What a function returned, without its tensors.

    An object to which it assigned tensors, and that it was given or found, stays that very one.

    Raises:
        TraceError: if it is an iterator, or has one: that gives its tensors once; so is what
            ``async def`` gives. If it is what a mask picked.
    """
    for value in contents(result):
        if isinstance(value, Chosen):
            value.refuse_as_result()
        tensors_of_set = isinstance(value, set | frozenset) and any(
            isinstance(x, Tensor) for x in value
        )
        kind = type(value)
        once = hasattr(kind, "__next__") or hasattr(kind, "__await__") or hasattr(kind, "__anext__")
        if hasattr(kind, "__await__") and hasattr(kind, "close"):
            value.close()  # who is never awaited is warned of
        if once or tensors_of_set:
            law = "results are tensors, and tuples, lists and dicts of them"
            hint = "Return a list of what it gives"
            raise TraceError("compile", law, type=kind.__name__, remedy=hint)
    known = {id(owner) for owner, _, _ in tracer.rebound.values()}
    template = taken_apart(result, tensors, known)
    for value in opaque(template):
        if id(value) not in known and holds_made(value):
            law = "what the function returns holds tensors of it, which later calls cannot replace"
            hint = "Return the tensors, and make a function or an object of them outside"
            raise TraceError("compile", law, type=type(value).__name__, remedy=hint)
    return template


def _twins(results: Sequence[Tensor]) -> dict[int, int]:
    """Which results are an earlier one, and which."""
    first = {id(x): k for k, x in reversed([*enumerate(results)])}
    return {k: first[id(x)] for k, x in enumerate(results) if first[id(x)] != k}


def _kinds(tracer: Tracer, results: Sequence[Tensor]) -> dict[int, tuple[type[Tensor], bool]]:
    """Of results that are more than tensors without a gradient; see :class:`Recorded`."""
    found: dict[int, tuple[type[Tensor], bool]] = {}
    for k, x in enumerate(results):
        leaf = x.node is None and x.requires_grad and id(x) in tracer.flagged
        if (leaf and not tracer.is_given(x)) or type(x) is not Tensor:
            found[k] = (type(x), leaf)
    return found


def _flags(tracer: Tracer, arguments: Sequence[Tensor]) -> tuple[tuple[Any, bool], ...]:
    """What gives tensors of outside that were asked for gradients, and whether they have them."""
    found: list[tuple[Any, bool]] = []
    place = {id(x): k for k, x in enumerate(arguments)}
    for key, x in tracer.flagged.items():
        if key in place:
            found.append((itemgetter(place[key]), x.requires_grad))
        elif x.array.storage.buffer is not None:
            found.append((partial(_itself, x), x.requires_grad))
    return tuple(found)


def _kept(tracer: Tracer) -> Iterator[Storage]:
    """Memory of gradients that leaves keep, but for what the call has brought."""
    for _, g in tracer.grads_after.values():
        if g is not None and g.array.storage not in tracer.hidden:
            yield g.array.storage


def _hooks(
    arguments: Sequence[Tensor], before: Sequence[tuple[Any, ...]]
) -> tuple[tuple[int, Any, bool, Any], ...]:
    """Hooks that the function registered with its arguments; see :class:`Recorded`.

    Raises:
        TraceError: if one holds a tensor that the function made: it is called when all is over.
    """
    found: list[tuple[int, Any, bool, Any]] = []
    for k, (x, known) in enumerate(zip(arguments, before, strict=False)):
        found += [(k, *each) for each in (x.hooks.added(known) if x.hooks is not None else ())]
    for _, hook, *_ in found:
        held = [getattr(c, "cell_contents", None) for c in getattr(hook, "__closure__", None) or ()]
        if any(type(v) is Tensor and v.array.storage.buffer is None for v in held):
            law = "a hook of an argument is called after the function, and holds a tensor of it"
            hint = "Register it with x * 1, or remove() it before the function ends"
            raise TraceError("register_hook", law, remedy=hint)
    return tuple(found)


def _itself(x: Tensor, given: Sequence[Tensor]) -> Tensor:
    del given
    return x


def _shared(
    results: Sequence[Tensor], arguments: Sequence[Tensor], kinds: Mapping[int, tuple[Any, bool]]
) -> dict[int, Callable[[Sequence[Tensor]], Tensor | None]]:
    """Which results lie in memory of the caller's, and what gives them; see :class:`Recorded`."""
    places = {p.array.storage: i for i, p in enumerate(arguments)}
    shared: dict[int, Callable[[Sequence[Tensor]], Tensor | None]] = {}
    for k, result in enumerate(results):
        storage = result.array.storage
        place = places.get(storage)
        if result.node is not None or kinds.get(k, (Tensor, False))[1]:
            continue
        if place is not None and result is arguments[place]:
            shared[k] = itemgetter(place)
        elif result.requires_grad:
            shared[k] = partial(_itself, result)
        elif place is not None:
            shared[k] = partial(_view_of, result.array, place, arguments[place].dtype)
        elif storage.buffer is not None:
            shared[k] = partial(_as_it_is, result.array)
    return shared


def _view_of(view: Array, place: int, dtype: DType, given: Sequence[Tensor]) -> Tensor | None:
    """A view of an argument; None if that was copied for the plan."""
    array = given[place].array
    if is_copied(given[place]) or view.dtype is not dtype:
        return None
    return Tensor(array.view(view.shape, view.strides, array.offset + view.offset))


def _may_be_copied(share: Any) -> bool:
    return getattr(share, "func", None) is _view_of


def _as_it_is(result: Array, given: Sequence[Tensor]) -> Tensor:
    del given
    return Tensor(result)
