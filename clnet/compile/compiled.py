"""``clnet.compile``: trace once for each signature, then replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from threading import RLock
from typing import Any

from ..array import Array
from ..device import Device, current_device
from ..errors import DeviceError, TraceError
from ..ops import contiguous
from ..tensor import Tensor
from ..values import mode
from ..values.collector import paused_collector
from .passes import PASSES, SAVING, Pass, rewrite
from .plan import Plan
from .record import record
from .regions import alive_bytes, memory_is_short

_MOST_PLANS = 16
_MOST_TURNS = 4
_USES = count()


class _Kept:
    """Plans of one signature, with what makes results of their arrays.

    Attributes:
        entries: the plans; others are another object's.
        used: larger than that of plans that were used before.
    """

    def __init__(self, entries: Sequence[tuple[Plan, Callable[[list[Array]], Any]]]) -> None:
        self.entries = tuple(entries)
        self.used = next(_USES)


class Compiled:
    """A function whose launches are recorded at its first call and replayed at later ones.

    A call with other shapes, dtypes, devices, plain arguments or mode, or after a module or
    optimiser changed, makes a new plan beside the old; the least recently used goes when there are
    many.
    What the function does on the host beside ops (printing, counting) happens at the trace alone.

    Threads may share it. A call is a whole: no other thread's op or replay on the device comes
    between its launches, so training steps of one model from several threads follow one another,
    in some order. One thread at a time traces; others replay meanwhile.

    Attributes:
        num_traces: how many plans were made so far.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        passes: Sequence[Pass] = PASSES,
        *,
        recompute: bool | None = None,
    ) -> None:
        self._function = function
        self._recompute = recompute
        self._passes = tuple(passes)
        self._plans: dict[Any, _Kept] = {}  # entered and removed by who traces
        self._tracing = RLock()
        self.num_traces = 0
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on these arguments.

        Args:
            *args: tensors (their elements may differ from call to call) and plain values (hashable;
                another value makes another plan).
            **kwargs: the same.

        Returns:
            What the function returns: tensors, detached, or tuples, lists and dicts of them.

        Raises:
            TraceError: if the function reads a value on the host, or returns a tensor on the tape.
        """
        now = mode.current()
        if now.tracer is not None:  # a part of what is being traced
            return self._function(*args, **kwargs)
        names = (*range(len(args)), *kwargs)
        values = (*args, *kwargs.values())
        tensors = [contiguous(v.detach()) for v in values if isinstance(v, Tensor)]
        device = _one_device(tensors)
        key = (
            device,
            now.grad,
            now.autocast,
            now.float32_precision,
            now.winograd,
            tuple(_guard(n, v) for n, v in zip(names, values, strict=True)),
        )
        given = [v for v in values if isinstance(v, Tensor)]
        done = self._replayed(key, device, tensors, given)
        if done is None:
            with self._tracing:
                done = self._replayed(key, device, tensors, given)  # another thread's new plan
                if done is None:
                    done = self._traced(key, device, (args, kwargs), tensors, given)
        arrays, rebuild = done
        return rebuild(arrays)

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
    def plans(self) -> list[Plan]:
        """The plans that are kept, least recently used first."""
        kept = list(self._plans.values())  # another thread may be tracing
        kept.sort(key=lambda each: each.used)
        return [plan for each in kept for plan, _ in each.entries]

    def _replayed(
        self, key: Any, device: Device, tensors: list[Tensor], given: list[Tensor]
    ) -> _Done | None:
        """What a plan gives that is there and valid; None if there is none."""
        kept = self._plans.get(key)
        if kept is None:
            return None
        with device.lock:  # what made a plan valid stays so until it has run
            for plan, rebuild in kept.entries:
                if plan.valid():
                    kept.used = next(_USES)
                    return _run(plan, tensors, given), rebuild
        return None

    def _traced(
        self,
        key: Any,
        device: Device,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: list[Tensor],
        given: list[Tensor],
    ) -> _Done:
        """What a new plan gives."""
        plan, rebuild = self._trace(*call, device)
        with device.lock:
            # By another thread meanwhile: once more, undisturbed.
            if not plan.gradients_unchanged():
                plan, rebuild = self._trace(*call, device)
            # Plans that differ in gradients take turns when a step accumulates them.
            before = self._plans.get(key)
            kept = [e for e in (before.entries if before else ()) if not e[0].outdated()]
            self._plans[key] = _Kept([*kept[1 - _MOST_TURNS :], (plan, rebuild)])
            while len(self._plans) > _MOST_PLANS:
                self._plans.pop(min(self._plans, key=lambda key: self._plans[key].used))
            return _run(plan, tensors, given), rebuild

    def _trace(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device
    ) -> tuple[Plan, Callable[[list[Array]], Any]]:
        with paused_collector():
            recorded = record(self._function, args, kwargs, device)
            with device.arenas.expecting(alive_bytes(recorded.trace)):
                trace = rewrite(recorded.trace, self._passes)
                if memory_is_short(trace) if self._recompute is None else self._recompute:
                    trace = rewrite(trace, SAVING)
                plan = Plan(trace, recorded.tracer)
        self.num_traces += 1
        return plan, recorded.rebuild


_Done = tuple[list[Array], Callable[[list[Array]], Any]]


def compile(  # noqa: A001 - PyTorch's name
    function: Callable[..., Any],
    *,
    passes: Sequence[Pass] = PASSES,
    recompute: bool | None = None,
) -> Compiled:
    """A function that records its launches once and replays them.

    Args:
        function: of tensors and plain values; a whole training step, backward and update included,
            or a module.
        passes: what rewrites the trace before it is planned; with none, every op stays a launch of
            its own, as in eager.
        recompute: whether backward computes cheap values (a ReLU of a norm) once more instead of
            holding them from forward on; None: where the device has no room otherwise.

    Returns:
        The compiled function; it gives the same results. Any thread may call it; see
        :class:`Compiled`.

    Example:
        >>> import clnet
        >>> twice = clnet.compile(lambda x: x + x)
        >>> twice(clnet.ones(3)).tolist()
        [2.0, 2.0, 2.0]
    """
    return Compiled(function, passes, recompute=recompute)


def _run(plan: Plan, tensors: list[Tensor], given: list[Tensor]) -> list[Array]:
    """Replay on dense ``tensors``; what it changes in place goes back to what was ``given``."""
    if plan.changed_arguments and len({t.array.storage for t in given}) < len(given):
        raise TraceError(
            "compile",
            "the function changes an argument in place, and two arguments share memory",
            shapes=[t.shape for t in given],
            remedy="Pass a clone() of one",
        )
    results = plan.run([t.array for t in tensors])
    with mode.using(grad=False):
        for position, array in plan.changed_arguments:
            given[position].copy_(Tensor(array))
    return results


def _guard(name: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return (name, value.shape, value.dtype, value.requires_grad)
    if not _plain(value):
        raise TraceError(
            "compile",
            "arguments are tensors or hashable values without tensors",
            argument=name,
            type=type(value).__name__,
            remedy="Pass its tensors one by one",
        )
    return (name, type(value), value)


def _plain(value: Any) -> bool:
    if isinstance(value, tuple) and any(isinstance(v, Tensor) or not _plain(v) for v in value):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _one_device(tensors: list[Tensor]) -> Device:
    devices = {t.device for t in tensors}
    if not devices:
        return current_device()
    if len(devices) != 1:
        raise DeviceError(
            "compile",
            "the function is called with tensors of one device",
            devices=sorted(d.name for d in devices),
        )
    return devices.pop()
