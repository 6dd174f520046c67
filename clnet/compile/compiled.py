"""``clnet.compile``: trace once for each signature, then replay."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial, wraps
from threading import RLock, get_ident
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar

from ..array import Array
from ..device import Device, current_device
from ..errors import DtypeError, TraceError
from ..ops.machinery.first_use import LeftOut
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import is_sequence, shown
from ..values.changes import LIBRARY
from ..values.collector import paused_collector
from ..values.dtypes import default_float
from ..values.record import NamedTuple
from ..values.varying import lifted_math
from .arguments import given_place, looked_at
from .differentiable import Differentiable
from .finish import Finish
from .fuse_attention import fuse_attention
from .kept_plans import AnyPlan, KeptPlans
from .layout import layout
from .numbers import Numbers
from .outer import Outer
from .passes import PASSES, SAVING, Pass, rewrite
from .plan import Plan
from .record import Recorded, record
from .regions import alive_bytes, memory_is_short
from .renewal import Renewals
from .shared_objects import CLAIMS, Claim, claim_beside, wait_beside
from .spanning import SpanningPlan, devices_of, split
from .trace import Trace
from .tracer import Tracer
from .varied import Varied, is_refusal

_MOST_TURNS = 4
_MOST_EAGER = 64
_BESIDE = nullcontext()


class Compiled:
    """A function whose launches are recorded at its first call and replayed at later ones.

    A call with other shapes, dtypes, devices, plain arguments or mode, or after a module or
    optimiser changed, makes a new plan beside the old; the least recently used goes when there are
    many. Where nearly every call needs one, a warning says what differs, and calls that find none
    run uncompiled (:class:`.Renewals`). Numbers that differ from call to call, as arguments or
    where the function finds them by name, need no new plan while they only flow into arithmetic;
    the function's own counters are counted at every call. What else it does on the host beside ops
    (printing, appending) happens at the trace alone, once. A tensor that it assigns to an
    attribute, of a module or of an object that it finds by name, is there after each call; if it
    takes the place of a tensor of its form, it is written into that one's memory. What the program
    keeps of an earlier call, a gradient or a tensor that such an assignment takes the place of, or
    a view of one, stays as it was.

    Threads may share it. A call is a whole: no other thread's op or replay on the device comes
    between its launches, so training steps of one model from several threads follow one another,
    in some order. One thread at a time traces, or runs a call that nearly every call would trace
    anew, between whose ops others' come. Other threads replay meanwhile, unless a replay changes
    something on the host, as a counter: there a trace has what stands for it.

    Attributes:
        num_traces: how many plans were made so far.
        lenient: whether what cannot be traced runs uncompiled, with a warning.
    """

    lenient: ClassVar[bool] = False
    num_traces: int
    __wrapped__: Callable[..., Any]
    _function: Callable[..., Any]
    _module: Any
    _recompute: bool | None
    _passes: tuple[Pass, ...]
    _plans: KeptPlans
    _eager: set[Any]
    _varied: Varied
    _always: bool
    _renewals: Renewals
    _calling: Any
    _running: dict[object, int]
    _reach: frozenset[object]
    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        passes: Sequence[Pass] = PASSES,
        *,
        recompute: bool | None = None,
        always: bool = False,
    ) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        if not is_sequence(passes) or not all(map(callable, passes)):
            raise DtypeError("compile", "passes are functions of a trace", passes=shown(passes))
        own = getattr(function, "__self__", None)
        fields: dict[str, Any] = {
            "_function": function,
            "__wrapped__": function,
            "_module": next((m for m in (function, own) if hasattr(m, "named_parameters")), None),
            "_recompute": recompute,
            "_passes": tuple(passes),
            "_plans": KeptPlans(),
            "_eager": set(),  # of calls that run uncompiled
            "_varied": Varied(),
            "_always": always,  # whether every call is traced that finds no plan
            "_renewals": Renewals(name, always=always),
            "_calling": RLock(),
            "_running": {},  # threads of calls that cannot be traced
            "_reach": frozenset(),  # what was found at the last trace
            "num_traces": 0,
            "__name__": name,
            "__module__": getattr(function, "__module__", None),
            "__doc__": function.__doc__,
        }
        self.__dict__.update(fields)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function on these arguments.

        Args:
            *args: tensors (their elements may differ from call to call) and plain values (hashable;
                another value makes another plan, but for numbers that shapes do not follow), and
                tuples, lists and dicts of them.
            **kwargs: the same.

        Returns:
            What the function returns: tensors, or tuples, lists and dicts of them. Those that are
            on the tape inside are so outside: backward through them is compiled, too.

        Raises:
            TraceError: if the function reads a value on the host, a tensor from outside that has a
                graph, or changes a list or dict that it was given.
        """
        now = mode.current()
        # A part of what is being traced, or computed for a batch at once; or someone looks for a
        # NaN, op by op and line by line.
        if now.tracer is not None or now.anomaly is not None or now.batching is not None:
            return self._function(*args, **kwargs)
        if now.uncompiled:
            return self._function(*args, **kwargs)
        try:
            given, tensors, guards, numbers = looked_at(args, kwargs, self._varied.loose)
        except TraceError as error:
            if not self.lenient:
                raise
            self._give_up((), error)
            return self._as_written(args, kwargs)
        device = tensors[0].device if tensors else current_device()
        modes = (
            device,
            now.grad,
            now.float32_precision,
            default_float(),
            now.winograd,
            now.conv_algorithm,
            now.autocast and now.autocast.dtype,
        )
        key = (guards, modes)
        if self._eager and key in self._eager:
            return self._as_written(args, kwargs)
        try:
            done = self._replayed(key, tensors, given, numbers)
            if done is None:
                done = self._anew(key, (args, kwargs), tensors, given, numbers)
        except TraceError as error:
            if not self.lenient:
                raise
            self._give_up(key, error)
            return self._as_written(args, kwargs)
        if done is None:
            if self._running:
                return self._as_written(args, kwargs)
            with self._calling:
                wait_beside(self._reach)
                return self._function(*args, **kwargs)
        return done.result

    def _as_written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that cannot be traced: beside others, but beside no trace."""
        own = object()
        try:
            with self._calling:
                wait_beside(self._reach)
                self._running[own] = get_ident()
            return self._function(*args, **kwargs)
        finally:
            self._running.pop(own, None)

    def _give_up(self, key: Any, error: TraceError) -> None:
        """Leave calls of a signature uncompiled, and say so once."""
        if not self._eager:
            text = f"compile: {self.__name__} runs uncompiled, since it cannot be traced: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        if len(self._eager) < _MOST_EAGER:
            self._eager.add(key)
        else:
            self._renewals.give_up()

    # What a module or method is beside a function.

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:
            """The module's, so that it can stand where the module stood."""
            return Compiled if self._module is not self._function else type(self._function)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_function":
            raise AttributeError(name)
        function = self._function
        if name == "_orig_mod" and function is self._module:  # PyTorch's name of what is inside
            return function
        found = getattr(function, name)
        if function is not self._module or not callable(found) or isinstance(found, type):
            return found

        @wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is function else result  # eval(), to(device) ...

        return call if hasattr(found, "__self__") else found

    def __setattr__(self, name: str, value: Any) -> None:
        inside = self._function is self._module and name not in self.__dict__
        setattr(self._function, name, value) if inside else self.__dict__.update({name: value})

    def __dir__(self) -> list[str]:
        inside = dir(self._function) if self._function is self._module else ()
        return sorted({*vars(self), *dir(type(self)), *inside})

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the instance is an argument like others."""
        if instance is None or self._module is not None:
            return self
        return MethodType(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        function = deepcopy(self._function, memo)
        return type(self)(function, self._passes, recompute=self._recompute, always=self._always)

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = getattr(self._function, "__qualname__", "")
        named: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is self:  # decorated: what others find by that name is this
            return name
        made = partial(type(self), recompute=self._recompute, always=self._always)
        return made, (self._function, self._passes)

    def explain(self, form: str = "text") -> str:
        """The plan that ran last, for a reader.

        Args:
            form: ``"text"``: ops in order with kernels, shapes, places in memory and costs, then
                what was not fused and how convolutions are computed, and why; or a picture in the
                language of ``"mermaid"`` or ``"graphviz"``.

        Raises:
            TraceError: if the function was not called yet.
            ArgumentError: if there is no such form.
        """
        if not self.plans:
            raise TraceError(
                "explain", "there is no plan yet", remedy="Call the compiled function first"
            )
        return self.plans[-1].explain(form)

    @property
    def plans(self) -> list[AnyPlan]:
        """The plans that are kept, least recently used first."""
        return [plan for each in self._plans for plan, _ in each.entries]

    def _replayed(
        self, key: Any, tensors: list[Tensor], given: list[Tensor], numbers: list[Any]
    ) -> _Done | None:
        """What a plan gives that is there and valid; None if there is none.

        Args:
            key: what plans are kept by: the arguments' guards, and the modes of the call.
            tensors: of the call, with arrays that a plan can read.
            given: the same as they were passed.
            numbers: among the arguments, those that vary.
        """
        kept = self._plans.get(key)
        if kept is None:
            return None
        for plan, finish in kept.entries:
            acts = plan.acts or finish.assigns
            alone = self._calling if acts else _BESIDE
            with alone, plan.turn(), plan.lock:  # what made a plan valid stays so until it has run
                claim = claim_beside(finish.reach)
                if claim is None or not acts:
                    more = finish.gradients(given) if plan.valid(numbers) else None
                    if more is not None and finish.fits(whole := [*given, *more]):
                        kept.touch()
                        if self._renewals.owed:
                            self._renewals.repay()
                        finish.part(given)
                        arrays = _run(plan, [*tensors, *more], whole)
                        return _Done(finish.results(arrays, whole))
            if claim is not None:  # another function's trace changes what this one finds
                claim.wait()
                return self._replayed(key, tensors, given, numbers)
        return None

    def _anew(
        self,
        key: Any,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: list[Tensor],
        given: list[Tensor],
        numbers: list[Any],
    ) -> _Done | None:
        """What a call gives for which no plan was there; None: it runs uncompiled."""
        with self._calling:
            _, modes = key
            if numbers and self._varied.loosened(modes, *call):
                return _Done(self(*call[0], **call[1]))
            done = self._replayed(key, tensors, given, numbers)  # another thread's plan
            if done is not None or self._renewals.spares(stacklevel=3):
                return done
            if not {*self._running.values()} <= {get_ident()}:  # others see what a trace puts there
                return None
            return self._traced(key, call, tensors, given)

    def _traced(
        self,
        key: Any,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: list[Tensor],
        given: list[Tensor],
    ) -> _Done:
        """What a new plan gives."""
        claim = Claim()
        try:
            return self._traced_alone(key, call, tensors, given, claim)
        finally:
            CLAIMS.pop(claim, None)

    def _traced_alone(
        self,
        key: Any,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: list[Tensor],
        given: list[Tensor],
        claim: Claim,
    ) -> _Done:
        self._renewals.begin(self._drop_outdated(key), self._plans)
        _, modes = key
        device, *_ = modes
        plan, finish = self._trace(*call, device, claim)
        # What it must know of numbers that are arguments tells calls apart from now on.
        _, _, guards, _ = looked_at(*call, self._varied.loose)
        key = (guards, modes)
        with plan.turn(), plan.lock:
            # By another thread meanwhile: once more, undisturbed.
            more = finish.gradients(given)
            if more is None or not plan.gradients_unchanged():
                plan, finish = self._trace(*call, device, claim)
                more = finish.gradients(given)
            if more is None:
                law = "gradients that the function finds are others when it was traced"
                raise TraceError("compile", law, function=self.__name__, remedy="Use their clones")
            # Plans that differ in gradients take turns when a step accumulates them.
            self._drop_outdated(key)  # the trace changed modules, too
            before = self._plans.get(key)
            kept = () if before is None else before.entries[1 - _MOST_TURNS :]
            self._plans.put(key, (*kept, (plan, finish)))
            for each in plan.devices:
                each.pool.holders.add(self._plans)
            whole = [*given, *more]
            finish.part(given)
            return _Done(finish.results(_run(plan, [*tensors, *more], whole), whole))

    def _drop_outdated(self, key: Any) -> list[str]:
        """Let plans go that cannot become valid again, so that the next finds their memory free.

        Numbers for which they go vary from now on.

        Returns:
            The names of what lies outside for which they go.
        """
        before = self._plans.pop(key)
        entries = before.entries if before else []
        for plan, _ in entries:
            self._varied.differ(slot.name for slot in plan.differing_slots())
        if kept := [e for e in entries if not e[0].outdated()]:
            self._plans.put(key, kept)
        return [name for plan, _ in entries for name in plan.differing()]

    def _trace(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        device: Device,
        claim: Claim,
        *,
        stiff: bool = False,
    ) -> tuple[AnyPlan, Finish]:
        """The plan of a call.

        Numbers vary unless some code took none but Python's own: then the function is called once
        more, and is ``stiff`` ever after.
        """
        outer = claim.found(lambda: Outer(self._function, (*args, *kwargs.values())))
        self._reach = claim.reach
        numbers = self._varied.numbers(outer, stiff=stiff)
        varies = bool(numbers or numbers.loose)
        try:
            with paused_collector():
                recorded, plan = self._recorded(outer, numbers, args, kwargs, device)
        except LeftOut:  # each time less is left that could be
            outer.undo()
            return self._trace(args, kwargs, device, claim, stiff=stiff)
        except Exception as error:
            refused = varies and not stiff and is_refusal(error)
            if refused or isinstance(error, TraceError):
                outer.undo()
            if not refused:
                raise
        else:
            outer.settle()
            self.num_traces += 1
            back = recorded.backward
            on_tape = None if back is None else Differentiable(plan, back, self._planned_backward)
            return plan, Finish(recorded, on_tape, recorded.tracer.asked, claim.reach)
        found = self._trace(args, kwargs, device, claim, stiff=True)
        self._varied.stiff = True
        return found

    def _recorded(
        self,
        outer: Outer,
        numbers: Numbers,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        device: Device,
    ) -> tuple[Recorded, AnyPlan]:
        """What the function does with these arguments, and its plan."""
        before = outer._clnet_version  # pyrefly: ignore[protected-access]
        held = outer.held()
        try:
            jointly = fuse_attention if fuse_attention in self._passes else None
            run = partial(record, self._function, args, kwargs, device, rebind=outer.rebind)
            run = partial(run, jointly=jointly, tables=outer.tables)
            run = partial(run, keeps_bits=layout not in self._passes)
            with lifted_math(outer.bound()):
                recorded = run(numbers=numbers)
                if recorded.tracer.twofold:
                    recorded.tracer.take_back()
                    outer.take_back(held)
                    outer.undo()
                    numbers = self._varied.numbers(outer, stiff=numbers.stiff)
                    recorded = run(finds=False, numbers=numbers)
        finally:
            left = outer.take_back(held)
        try:
            if left:
                law = "the function leaves a tensor in a variable outside; later calls do not"
                hint = "Return it and assign it outside, or write it in place: y.copy_(x)"
                raise TraceError("compile", law, function=self.__name__, remedy=hint)
            recorded.tracer.refuse_parameters()
            self._watch(outer, recorded, self._varied.learn(outer, numbers, before), before, args)
            return recorded, self._planned(recorded.trace, recorded.tracer)
        except BaseException:
            recorded.tracer.take_back()
            raise

    def _watch(
        self,
        outer: Outer,
        recorded: Recorded,
        fresh: set[tuple[int, Any]],
        before: list[Any],
        args: tuple[Any, ...],
    ) -> None:
        """Let the trace depend on all that the function found and did not change."""
        tracer, watched = recorded.tracer, dict[int, Any](recorded.tracer.watched)
        outer.watch_below(tracer)
        tracer.watch(LIBRARY)
        used = recorded.trace.outside
        left = outer.leave_changed(before, tracer.changed, used, watched.keys(), fresh)
        tracer.watched[id(outer)] = (outer, left)  # pyrefly: ignore[unsupported-operation]
        self._renewals.end(outer.counted)
        if unseen := outer.unseen:
            text = f"compile: {self.__name__} does not see changes of {unseen}. Pass what it reads"
            warnings.warn(text, RuntimeWarning, stacklevel=6)
        for value in args:
            if hasattr(value, "named_parameters"):  # of a method that is decorated
                tracer.watch(value)

    def _planned(self, trace: Trace, tracer: Tracer) -> AnyPlan:
        """The plan of a trace, rewritten: of each device's part, if there are several."""
        devices = devices_of(trace)
        if len(devices) == 1:
            return self._planned_part(replace(trace, device=devices[0]), tracer)
        parts, meetings = split(trace, tracer, devices)
        plans = [self._planned_part(*part) for part in parts]
        return SpanningPlan(plans, meetings, trace, tracer)

    def _planned_part(self, trace: Trace, tracer: Tracer) -> Plan:
        with trace.device.arenas.expecting(alive_bytes(trace)):
            trace = rewrite(trace, self._passes)
            if memory_is_short(trace) if self._recompute is None else self._recompute:
                trace = rewrite(trace, SAVING)
            return Plan(trace, tracer)

    def _planned_backward(self, trace: Trace) -> AnyPlan:
        try:
            with paused_collector():
                return self._planned(trace, Tracer())
        except LeftOut:
            return self._planned_backward(trace)


class _Done(NamedTuple):
    """What a call gave; it may be None."""

    result: Any


def _run(plan: AnyPlan, tensors: list[Tensor], given: list[Tensor]) -> list[Array]:
    """Replay on dense ``tensors``; what it changes in place goes back to what was ``given``."""
    if plan.changed_arguments and len({t.array.storage for t in given}) < len(given):
        raise TraceError(
            "compile",
            "the function changes an argument in place, and two arguments share memory",
            shapes=[t.shape for t in given],
            remedy="Pass a clone() of one",
        )
    results = plan.run([t.array for t in tensors])
    if plan.changed_arguments:
        with mode.using(grad=False):
            for position, array in plan.changed_arguments:
                given_place(given[position]).copy_(Tensor(array))
    return results
