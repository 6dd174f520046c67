"""What a training step costs, layer by layer: of a device that is here, or of one's figures.

Times are straight lines over the number of examples, through two batches: a compiled step is
planned for both (on a device that is not here, nothing is computed), or run; more than 64
examples go by the line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

from ..autodiff.tape import no_grad
from ..autodiff.tensor_hook import HookHandle
from ..compile import compile as compiled
from ..creation import zeros
from ..device import AbsentDevice, Device, DeviceTraits, Launch, Recorder
from ..errors import ArgumentError
from ..nn import Conv2d, LayerNorm, Linear, Module, ModuleList, RMSNorm, Sequential, Softmax
from ..nn.functional import cross_entropy
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType, float32, int64
from ..values.generator import Generator
from .memory_plan import Loss, Make

__all__ = ["Launching", "Layer", "Line", "StepCost", "Task", "figured", "measured"]

# Of a step that is soon done so many; of one that takes long, those that begin within the seconds.
_ROUNDS, _LEAST_ROUNDS, _ROUNDS_SECONDS = 9, 4, 4.0
_FIRST_ROUNDS = 3  # which trace, build and bind
_MOST_EXAMPLES, _FEW_EXAMPLES = 64, 2
_PHASES = ("forward", "backward")
_OVER_FEATURES = (LayerNorm, RMSNorm, Softmax)


@dataclass(frozen=True)
class Task:
    """What a model is trained with.

    Attributes:
        shape: of a batch.
        dtype: of the batch.
        loss: of outputs and classes.
        each_place: whether each element of the batch has a class; else each example, or pixel.
    """

    shape: Sequence[int]
    dtype: DType = float32
    loss: Loss = cross_entropy
    each_place: bool = False

    def batch(self, size: int) -> Tensor:
        """So many examples."""
        return zeros(size, *self.shape[1:], dtype=self.dtype)

    def classes(self, size: int, outputs: Sequence[int]) -> Tensor:
        """Theirs, of a model with outputs of a shape."""
        places = self.shape[1:] if self.each_place else outputs[2:]
        return zeros(size, *places, dtype=int64)


class Line(NamedTuple):
    """A figure of so many examples: what it is without any, and what each adds."""

    fixed: float = 0.0
    each: float = 0.0

    def at(self, n: float) -> float:
        """Of ``n`` examples."""
        return self.fixed + self.each * n


_NONE = Line()


class Launching(NamedTuple):
    """Seconds of the host for a model that is compiled, its loss and its backward outside.

    A stage of a pipeline is called so for each part of a batch, however few examples that has.
    """

    forward: float = 0.0
    backward: float = 0.0


_AT_ONCE = Launching()


def _through(points: Sequence[tuple[int, float]]) -> Line:
    """A line through two points that does not fall, and is not below 0 at 0."""
    (n, low), (m, high) = points
    each = max((high - low) / (m - n), 0.0)
    fixed = high - each * m
    return Line(fixed, each) if fixed >= 0 else Line(0.0, high / m)


@dataclass
class Layer:
    """A module without others inside, in the order of the forward pass.

    Attributes:
        path: its name in the model.
        block: which of the model's parts it belongs to; a stage of a pipeline holds whole ones.
        kind: ``"conv"``, ``"dense"``, ``"features"`` if it joins all features of an example, or "".
        outputs, inputs: filters and channels, or features, of a convolution or dense layer.
        parameter_bytes: of its own parameters, but of those that a layer before has, too.
        output_bytes, input_bytes: of one example's.
        forward, backward: seconds.
        frozen_bytes: of its parameters those without gradients.
    """

    path: str
    block: int
    kind: str = ""
    outputs: int = 0
    inputs: int = 0
    parameter_bytes: int = 0
    output_bytes: float = 0.0
    input_bytes: float = 0.0
    forward: Line = _NONE
    backward: Line = _NONE
    frozen_bytes: int = 0

    @property
    def trained_bytes(self) -> int:
        """Of its parameters that have gradients."""
        return self.parameter_bytes - self.frozen_bytes


@dataclass
class StepCost:
    """What :func:`figured` and :func:`measured` found.

    Attributes:
        layers: in order.
        rest: seconds of forward and backward that belong to no layer: the loss.
        update: seconds of the optimiser.
        memory: bytes at the peak of a compiled step.
        parameter_bytes: of all parameters.
        state_bytes: of the optimiser's state.
        buffer_bytes: of running statistics, which every forward pass takes from the first device.
        source: where the times come from, in words.
        frozen_bytes: of the parameters without gradients.
        launching: what the host takes for a part of a batch.
    """

    layers: list[Layer]
    rest: Line
    update: float
    memory: Line
    parameter_bytes: int
    state_bytes: int
    buffer_bytes: int
    source: str
    frozen_bytes: int = 0
    launching: Launching = _AT_ONCE

    @property
    def trained_bytes(self) -> int:
        """Of the parameters that have gradients, and of these."""
        return self.parameter_bytes - self.frozen_bytes

    def held(self, parameters: float, trained: float) -> float:
        """Bytes of some parameters, of the gradients of those that are trained, and their state."""
        return parameters + trained * (1 + self.state_bytes / (self.trained_bytes or 1))

    def seconds(self, n: float) -> float:
        """Of a step on one device."""
        layers = sum(x.forward.at(n) + x.backward.at(n) for x in self.layers)
        return layers + self.rest.at(n) + self.update

    def bucketing(self, share: float) -> float:
        """Seconds in which gradients are put in a row and divided by the number of devices.

        They are read and written twice, at the rate at which the update reads parameters, gradients
        and state, and writes parameters and state.

        Args:
            share: of all gradients.
        """
        passes = 3 + 2 * self.state_bytes / (self.trained_bytes or 1)
        return share * self.update * 4 / passes


def figured(
    make: Callable[[], Module],
    task: Task,
    traits: DeviceTraits,
    optimizer: Make,
    *,
    gflops: float,
    gbytes: float,
    launch_us: float = 0.0,
) -> StepCost:
    """The cost on a device of which figures are known; it need not be here.

    Each launch takes the longer of its operations and its bytes, as its kernel declares them.

    Args:
        make: makes the model.
        task: what it is trained with.
        traits: of the device.
        optimizer: makes the optimiser of the parameters.
        gflops: 10^9 operations a second that kernels reach.
        gbytes: 10^9 bytes a second.
        launch_us: microseconds that each launch takes at least.

    Raises:
        ArgumentError: if a rate is not above 0, or a launch takes less than nothing.
    """
    if not (gflops > 0 and gbytes > 0 and 0 <= launch_us < inf):
        law = "a device has rates, and a launch takes 0 us or more"
        raise ArgumentError("plan", law, gflops=gflops, gbytes=gbytes, launch_us=launch_us)
    whole = 2**62  # what does not fit into one device may fit into each of several
    absent = AbsentDevice(replace(traits, global_memory_bytes=whole, max_allocation_bytes=whole))
    absent.pool.limit = None

    def seconds(launch: Launch) -> float:
        return max(launch.flops / gflops, launch.bytes / gbytes, launch_us * 1e3) * 1e-9

    def run(calls: Sequence[_Call]) -> list[_Ran]:
        found: list[_Ran] = []
        for step, x, y in calls:
            step(x, y)
            (plan,) = step.plans
            launches = (launch for e in plan.entries for launch in getattr(e, "launches", ()))
            times = _grouped((x.module_path, x.phase, seconds(x)) for x in launches)
            found.append(_Ran(times, plan.peak_bytes))
        return found

    source = f"kernels at {gflops:,.0f} GFLOP/s, {gbytes:,.0f} GB/s, {launch_us:g} us a launch"
    return _cost(make, task, absent, optimizer, run, source)


def measured(make: Callable[[], Module], task: Task, device: Device, optimizer: Make) -> StepCost:
    """The cost on a device that is here: a compiled step is run on two batches.

    Args:
        make: makes the model.
        task: what it is trained with.
        device: where.
        optimizer: makes the optimiser of the parameters.
    """

    def run(calls: Sequence[_Call]) -> list[_Ran]:
        found: list[_Ran] = []
        for call, rounds in zip(calls, zip(*_rounds(device, calls), strict=True), strict=True):
            (plan,) = call.step.plans
            found.append(_Ran(_least(rounds), plan.peak_bytes))
        return found

    cost = _cost(make, task, device, optimizer, run, f"kernels measured on {device.name}")
    cost.launching = _launching(make, task, device)
    return cost


def _launching(make: Callable[[], Module], task: Task, device: Device) -> Launching:
    """The least of some calls, behind those that trace and bind; nobody waits for the device.

    Who enqueues more than a queue takes waits for kernels; few examples keep that below what
    kernels take for any part.
    """
    found: list[Launching] = []
    size = min(_sizes(task)[0], _FEW_EXAMPLES)
    with mode.using(device=device, generator=Generator(), tracer=None):
        model = make()
        stage, x = compiled(model), task.batch(size)
        for _ in range(_FIRST_ROUNDS + _LEAST_ROUNDS):
            device.queue.finish()
            begin = perf_counter()
            y = stage(x)
            computed = perf_counter()
            task.loss(y, task.classes(size, y.shape)).backward()
            found.append(Launching(computed - begin, perf_counter() - computed))
        device.queue.finish()
    return Launching(*map(min, zip(*found[_FIRST_ROUNDS:], strict=True)))


class _Call(NamedTuple):
    """A compiled step, and the batch that it is called with."""

    step: Any
    x: Tensor
    y: Tensor


class _Round(NamedTuple):
    """A call's seconds, and those of its commands, by module and phase, when they were observed."""

    wall: float
    commands: Mapping[tuple[str, str], float]


def _rounds(device: Device, calls: Sequence[_Call]) -> list[list[_Round]]:
    """Times of all calls, in turns."""
    for _ in range(_FIRST_ROUNDS):
        for call in calls:
            _timed(device, call)
    found: list[list[_Round]] = []
    begin = perf_counter()
    while len(found) < _LEAST_ROUNDS or (
        len(found) < _ROUNDS and perf_counter() - begin < _ROUNDS_SECONDS
    ):
        found.append([_Round(_timed(device, call), _observed(device, call)) for call in calls])
    return found


def _timed(device: Device, call: _Call) -> float:
    begin = perf_counter()
    call.step(call.x, call.y)
    device.queue.finish()
    return perf_counter() - begin


def _observed(device: Device, call: _Call) -> dict[tuple[str, str], float]:
    seen = Recorder(device)
    with device.queue.observe(seen):
        _timed(device, call)
    return _grouped((c.module_path, c.phase, c.seconds) for c in seen.commands())


def _least(rounds: Sequence[_Round]) -> dict[tuple[str, str], float]:
    """Seconds by module and phase, of rounds of one call.

    Observed launches go one by one: their shares are taken, and the time without an observer; the
    shortest of each, since others who use the machine only lengthen it.
    """
    keys = dict.fromkeys(key for each in rounds for key in each.commands)
    best = {key: min(each.commands.get(key, 0.0) for each in rounds) for key in keys}
    scale = min(each.wall for each in rounds) / (sum(best.values()) or 1.0)
    return {key: seconds * scale for key, seconds in best.items()}


class _Ran(NamedTuple):
    """Seconds by module and phase, and bytes at the peak."""

    seconds: Mapping[tuple[str, str], float]
    peak: int


def _grouped(commands: Iterable[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = defaultdict(float)
    for path, phase, seconds in commands:
        found["" if phase == "update" else path.partition(".")[2], phase] += seconds
    return found


def _cost(
    make: Callable[[], Module],
    task: Task,
    device: Device,
    optimizer: Make,
    run: Callable[[Sequence[_Call]], list[_Ran]],
    source: str,
) -> StepCost:
    sizes = _sizes(task)
    with mode.using(device=device, generator=Generator(), tracer=None):
        model = make()
        update = optimizer([p for p in model.parameters() if p.requires_grad])

        def step(x: Tensor, target: Tensor) -> Tensor:
            update.zero_grad()
            loss = task.loss(model(x), target)
            loss.backward()
            update.step()
            return loss.detach()

        layers, called, outputs = _layers(model, task.batch(1))
        calls = [_Call(compiled(step), task.batch(k), task.classes(k, outputs)) for k in sizes]
        points = list(zip(sizes, run(calls), strict=True))
        parameters = sum(p.array.nbytes for p in model.parameters())
        frozen = sum(p.array.nbytes for p in model.parameters() if not p.requires_grad)
        buffers = sum(b.array.nbytes for b in model.buffers())
        tensors = [t for s in update.state.values() for t in s.values() if isinstance(t, Tensor)]
    rest = _share_out(layers, called, points)
    peaks = _through([(size, ran.peak) for size, ran in points])
    last = points[-1][1].seconds
    updates = sum(s for (_, phase), s in last.items() if phase not in _PHASES)
    state = sum(t.array.nbytes for t in tensors)
    return StepCost(layers, rest, updates, peaks, parameters, state, buffers, source, frozen)


def _sizes(task: Task) -> tuple[int, int]:
    """Examples of the two batches.

    Raises:
        ArgumentError: if a batch has none.
    """
    n = min(task.shape[0], _MOST_EXAMPLES)
    if n < 1:
        raise ArgumentError("plan", "a batch has examples", shape=tuple(task.shape))
    return (n // 2, n) if n > 1 else (1, 2)


def _share_out(
    layers: Sequence[Layer],
    called: Mapping[str, Sequence[str]],
    points: Sequence[tuple[int, _Ran]],
) -> Line:
    """Give each layer its lines; what belongs to none is left."""
    known = {layer.path: layer for layer in layers}
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    keys = dict.fromkeys(key for _, ran in points for key in ran.seconds)
    for path, phase in keys:
        names = called.get(path, (path,)) if phase in _PHASES else ()
        for name in names:
            owner = _owner(name, known)
            of_key = found.setdefault((owner, phase), [(size, 0.0) for size, _ in points])
            found[owner, phase] = [
                (size, before + ran.seconds.get((path, phase), 0.0) / len(names))
                for (size, before), (_, ran) in zip(of_key, points, strict=True)
            ]
    lines = {key: _through(times) for key, times in found.items()}
    for path, layer in known.items():
        layer.forward = lines.get((path, "forward"), Line())
        layer.backward = lines.get((path, "backward"), Line())
    rest = [line for (owner, _), line in lines.items() if owner not in known]
    return Line(sum(x.fixed for x in rest), sum(x.each for x in rest))


def _owner(path: str, known: Mapping[str, Layer]) -> str:
    """The layer of a module: itself, or of one around layers the last inside; "": there is none."""
    while path and path not in known:
        inside = [name for name in known if name.startswith(f"{path}.")]
        path = inside[-1] if inside else path.rpartition(".")[0]
    return path


def _layers(model: Module, x: Tensor) -> tuple[list[Layer], dict[str, list[str]], tuple[int, ...]]:
    """The layers in the order of the forward pass, and the shape of the model's output.

    Between both, the modules' names by the path that their launches tell: it leaves out lists,
    which nobody calls, so that items of several may share one.
    """
    seen = _Seen(model)
    hooks: list[HookHandle] = []
    for path, module in model.named_modules():
        hooks.append(module.register_forward_hook(partial(seen.call, path)))
        if next(module.children(), None) is None:
            hooks.append(module.register_forward_hook(partial(seen.layer, path)))
    try:
        with no_grad(), mode.using(abstract=True):
            output = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(output, Tensor):
        raise ArgumentError(
            "plan", "a model divided over devices gives a tensor", gives=type(output).__name__
        )
    return list(seen.layers.values()), seen.called, tuple(output.shape)


class _Seen:
    """What a forward pass shows of a model.

    Attributes:
        layers: by path, in order.
        called: modules' names by the path that their launches tell.
    """

    def __init__(self, model: Module) -> None:
        self.layers: dict[str, Layer] = {}
        self.called: dict[str, list[str]] = {}
        self._blocks = list(_blocks(model, ""))
        self._counted: set[int] = set()  # parameters, of which several layers may have one

    def call(self, path: str, module: Module, args: Any, output: Any) -> None:
        """Behind each module's ``forward``."""
        del module, args, output
        names = self.called.setdefault(mode.current().module_path.partition(".")[2], [])
        if path not in names:
            names.append(path)

    def layer(self, path: str, module: Module, args: Any, output: Any) -> None:
        """Behind the ``forward`` of one that has no modules inside."""
        if path in self.layers:  # one ReLU for all
            return
        within = (i for i, block in enumerate(self._blocks) if f"{path}.".startswith(f"{block}."))
        own = {id(p): p for p in module.parameters() if id(p) not in self._counted}
        self._counted.update(own)
        layer = self.layers[path] = _layer(path, next(within, 0), module, args, output)
        layer.parameter_bytes = sum(p.array.nbytes for p in own.values())
        layer.frozen_bytes = sum(p.array.nbytes for p in own.values() if not p.requires_grad)


def _layer(path: str, block: int, module: Module, args: Any, output: Any) -> Layer:
    layer = Layer(path, block, "features" if isinstance(module, _OVER_FEATURES) else "")
    if isinstance(module, Conv2d) and module.groups == 1:
        layer.kind, layer.outputs, layer.inputs = "conv", module.out_channels, module.in_channels
    elif isinstance(module, Linear):
        layer.kind, layer.outputs, layer.inputs = "dense", module.out_features, module.in_features
    layer.output_bytes = sum(t.array.nbytes for t in (output,) if isinstance(t, Tensor))
    layer.input_bytes = sum(t.array.nbytes for t in args if isinstance(t, Tensor))
    return layer


def _blocks(module: Module, path: str) -> Iterable[str]:
    """The parts of a model one behind the other: what stands in rows, and children of the model."""
    for name, child in vars(module)["_modules"].items():  # one at several places, at each
        inside = f"{path}{name}"
        if child is None:
            continue
        if isinstance(child, Sequential | ModuleList):
            yield from _blocks(child, f"{inside}.")
        else:
            yield inside
