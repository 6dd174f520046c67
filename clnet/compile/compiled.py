"""``clnet.compile``: trace once for each signature, then replay."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
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


class Compiled:
    """A function whose launches are recorded at its first call and replayed at later ones.

    A call with other shapes, dtypes, devices, plain arguments or mode, or after a module or
    optimiser changed, makes a new plan beside the old; the least recently used goes when there are
    many.
    What the function does on the host beside ops (printing, counting) happens at the trace alone.

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
        self._plans: OrderedDict[Any, list[tuple[Plan, Callable[[list[Array]], Any]]]] = (
            OrderedDict()
        )
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
        for plan, rebuild in self._plans.get(key, ()):
            if plan.valid():
                self._plans.move_to_end(key)
                return rebuild(_run(plan, tensors, given))
        plan, rebuild = self._trace(args, kwargs, device)
        # Plans that differ in gradients take turns when a step accumulates them.
        kept = [entry for entry in self._plans.get(key, ()) if not entry[0].outdated()]
        self._plans[key] = [*kept[1 - _MOST_TURNS :], (plan, rebuild)]
        self._plans.move_to_end(key)
        while len(self._plans) > _MOST_PLANS:
            self._plans.popitem(last=False)
        return rebuild(_run(plan, tensors, given))

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
        return [plan for entries in self._plans.values() for plan, _ in entries]

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
        The compiled function; it gives the same results.

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
