"""How a step is best divided over devices: what each way would take, and which is taken.

Each way is one that clnet has (``nn.parallel``, ``distributed``), with the exchanges that it makes.
Times are those of :mod:`.step_cost`, exchanges those of :mod:`.exchange_cost`. What overlaps is
simulated: buckets of gradients go while backward goes on, and parts of a batch go through stages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import ArgumentError
from ..nn.parallel.bucket import FIRST_BYTES, usual_bytes
from .exchange_cost import Link
from .step_cost import Layer, StepCost

__all__ = ["Way", "best_of", "reason", "ways"]

_MIB = 2**20


@dataclass(frozen=True)
class Way:
    """A step, divided in one way.

    Attributes:
        name: of the way.
        seconds: of a step.
        waiting: of them those in which a device waits for an exchange, or for another's stage.
        moved_bytes: that each device sends and gets in a step, about.
        memory_bytes: of the device that needs most, about.
        problem: why it cannot be, or "".
        note: how it is divided.
    """

    name: str
    seconds: float
    waiting: float
    moved_bytes: float
    memory_bytes: float
    problem: str = ""
    note: str = ""


@dataclass(frozen=True)
class _Job:
    """What all ways are asked for.

    Attributes:
        overlap: whether a device computes while it exchanges; processors do both themselves.
        busy: the link of devices that compute meanwhile.
    """

    cost: StepCost
    workers: int
    batch: int
    link: Link
    overlap: bool
    busy: Link
    parts: int | None

    @property
    def share(self) -> float:
        """Examples of a device, where the batch is divided."""
        return self.batch / self.workers

    @property
    def activation_bytes(self) -> float:
        """Of each example, in a step."""
        return self.cost.memory.each


def ways(
    cost: StepCost,
    workers: int,
    batch: int,
    link: Link,
    *,
    overlap: bool = True,
    busy: Link | None = None,
    parts: int | None = None,
) -> list[Way]:
    """All ways to divide a step, in a fixed order.

    Args:
        cost: of the step, on one device.
        workers: how many devices.
        batch: examples of a step, all devices together.
        link: between them.
        overlap: whether a device computes while it exchanges.
        busy: the link while it does; None: as ``link``.
        parts: of the batch, in stages; None: as many as take least.

    Returns:
        One way for a single device, else all; those with a ``problem`` cannot be.

    Raises:
        ArgumentError: if there is no device, or no example.
    """
    if workers < 1 or batch < 1:
        raise ArgumentError(
            "plan", "there are a device and an example at least", devices=workers, batch=batch
        )
    if workers == 1:
        held = cost.memory.at(batch)
        return [Way("one device", cost.seconds(batch), 0.0, 0.0, held)]
    job = _Job(cost, workers, batch, link, overlap, busy or link, parts)
    makers: tuple[Callable[[_Job], Way], ...] = (
        _data,
        _sharded_optimizer,
        _filters,
        _channels,
        _row_column,
        _hybrid,
        _pipeline,
    )
    return [make(job) for make in makers]


def best_of(found: Sequence[Way], memory: float) -> Way | None:
    """The fastest way that can be and fits into the memory of a device; None: none does."""
    can = [w for w in found if not w.problem and w.memory_bytes <= memory]
    return min(can, key=lambda way: way.seconds, default=None)


def reason(found: Sequence[Way], best: Way, memory: float) -> str:
    """Why it is taken, beside the fastest of the others."""
    others = [w for w in found if w is not best and not w.problem]
    said = f"{best.name}: {best.seconds * 1e3:,.2f} ms, of which {best.waiting * 1e3:,.2f} waiting"
    if not others:
        return f"{said}; no other way can be"
    next_best = min(others, key=lambda way: way.seconds)
    if next_best.memory_bytes > memory:
        return f"{said}; {next_best.name} does not fit into the memory"
    share = next_best.seconds / best.seconds
    more = next_best.waiting - best.waiting
    why = (
        f"waits {more * 1e3:,.2f} ms longer, for {next_best.moved_bytes / _MIB:,.1f} MiB where "
        f"this moves {best.moved_bytes / _MIB:,.1f}"
        if more > 0
        else "divides less of the computation"
    )
    return f"{said}; {next_best.name} takes {share:.2f} times as long: it {why}"


def _data(job: _Job) -> Way:
    seconds, waiting = _buckets(job, job.cost.layers, job.share)
    moved = _ring_bytes(job, job.cost.trained_bytes)
    memory = job.cost.memory.at(job.share)
    name = job.link.fastest(
        job.workers, min(job.cost.trained_bytes, usual_bytes(job.cost.trained_bytes))
    )
    return Way("data", seconds, waiting, moved, memory, _too_few(job), f"all-reduce: {name}")


def _sharded_optimizer(job: _Job) -> Way:
    """As by data; each device updates a part of the parameters, and sends it to the others."""
    p, cost = job.workers, job.cost
    seconds, waiting = _buckets(job, cost.layers, job.share)
    sent = job.link.all_gather(p, cost.trained_bytes)
    saved = cost.update * (1 - 1 / p)
    moved = _ring_bytes(job, 1.5 * cost.trained_bytes)
    memory = cost.memory.at(job.share) - cost.state_bytes * (1 - 1 / p)
    return Way(
        "data, sharded optimiser",
        seconds - saved + sent,
        waiting + sent,
        moved,
        memory,
        _too_few(job),
        "state of a part each",
    )


def _buckets(job: _Job, layers: Sequence[Layer], n: float) -> tuple[float, float]:
    """A step in which gradients of layers are averaged, while backward goes on where it can.

    Returns:
        Its seconds, and how many of them were spent waiting.
    """
    # Parameters of modules around layers, such as positions, mostly stand where backward ends.
    outside = job.cost.trained_bytes - sum(x.trained_bytes for x in job.cost.layers)
    waiting = job.link.broadcast(job.workers, job.cost.buffer_bytes)
    now = waiting + sum(x.forward.at(n) for x in layers) + job.cost.rest.at(n)
    begun: list[tuple[float, float]] = []
    held, most = 0.0, FIRST_BYTES
    for layer in reversed(layers):
        now += layer.backward.at(n)
        held += layer.trained_bytes
        last = layer is layers[0]
        held += outside if last else 0.0
        if held < most and not (last and held):
            continue
        now += job.cost.bucketing(held / job.cost.trained_bytes)
        if job.overlap:
            begun.append((now, held))
        else:
            took = job.link.all_reduce(job.workers, held)
            now, waiting = now + took, waiting + took
        held, most = 0.0, usual_bytes(job.cost.trained_bytes)
    link_free = 0.0
    for ready, nbytes in begun:
        link_free = _averaged(job, max(ready, link_free), nbytes, now)
    waiting += max(link_free - now, 0.0)
    return max(now, link_free) + job.cost.update, waiting


def _averaged(job: _Job, begin: float, nbytes: float, computed: float) -> float:
    """When a sum is there that begins at a time, of devices that compute until another."""
    busy = job.busy.all_reduce(job.workers, nbytes)
    beside = max(computed - begin, 0.0)
    if busy <= beside:
        return begin + busy
    return begin + beside + (1 - beside / busy) * job.link.all_reduce(job.workers, nbytes)


def _filters(job: _Job) -> Way:
    """Each device computes some filters of every layer, of all examples; all get all outputs."""
    return _divided(job, "filter", lambda layers: {x.path: "outputs" for x in layers})


def _channels(job: _Job) -> Way:
    """Each device sums over some of every layer's channels, of all examples."""
    return _divided(job, "channel", lambda layers: {x.path: "inputs" for x in layers})


def _row_column(job: _Job) -> Way:
    """Filters of one layer and channels of the next, with no exchange between both."""
    return _divided(job, "row-column", lambda layers: _pairs(layers, job.workers))


def _divided(job: _Job, name: str, choose: Callable[[Sequence[Layer]], dict[str, str]]) -> Way:
    cost, n = job.cost, job.batch
    chosen = choose(cost.layers)
    seconds, waiting, moved, divided = _of_layers(job, cost.layers, chosen)
    shared = _parameters(divided)
    saved = 1 - 1 / job.workers
    trained = cost.trained_bytes - _trained(divided) * saved
    update = cost.update * trained / (cost.trained_bytes or 1)
    memory = cost.held(cost.parameter_bytes - shared * saved, trained) + job.activation_bytes * n
    problem = "" if shared else "no layer divides by so many"
    total = seconds + waiting + cost.rest.at(n) + update
    share = shared / (cost.parameter_bytes or 1)
    return Way(name, total, waiting, moved, memory, problem, f"{share:.0%} of parameters divided")


def _of_layers(
    job: _Job, layers: Sequence[Layer], chosen: dict[str, str]
) -> tuple[float, float, float, list[Layer]]:
    """Layers of which some are divided, with a whole batch on every device.

    Returns:
        Seconds of computing, seconds of exchanging, bytes moved, and the layers divided.
    """
    p, n = job.workers, job.batch
    seconds = waiting = moved = 0.0
    divided: list[Layer] = []
    between = False  # a column's outputs lie divided until a row takes them
    for place, layer in enumerate(layers):
        how = chosen.get(layer.path, "")
        if how and layer.kind in {"conv", "dense"} and _divides(layer, how, p):
            divided.append(layer)
            seconds += (layer.forward.at(n) + layer.backward.at(n)) / p
            gathered, summed = _exchanged(layer, how, n, first=place == 0)
            waiting += job.link.all_gather(p, gathered) if gathered else 0.0
            waiting += job.link.all_reduce(p, summed) if summed else 0.0
            moved += gathered + 2 * summed
            between = how == "column"
        else:
            parts = p if between else 1
            seconds += (layer.forward.at(n) + layer.backward.at(n)) / parts
    return seconds, waiting, moved * (p - 1) / p, divided


def _exchanged(layer: Layer, how: str, n: float, *, first: bool) -> tuple[float, float]:
    """Bytes that a divided layer has collected, and bytes that it has summed, forward and back.

    Of divided filters (``"outputs"``, ``"column"``) gradients to what they read are summed, of
    divided channels (``"inputs"``, ``"row"``) the outputs. What a column makes stays divided, and a
    row takes it so. The first layer has no gradient to what it reads.
    """
    out, into = layer.output_bytes * n, layer.input_bytes * n
    back = 0.0 if first else into
    if how in {"outputs", "column"}:
        return (out if how == "outputs" else 0.0), back
    return (back if how == "inputs" else 0.0), out


def _parameters(layers: Sequence[Layer]) -> float:
    return sum(x.parameter_bytes for x in layers)


def _trained(layers: Sequence[Layer]) -> float:
    return sum(x.trained_bytes for x in layers)


def _divides(layer: Layer, how: str, workers: int) -> bool:
    count = layer.outputs if how in {"outputs", "column"} else layer.inputs
    return count > 0 and count % workers == 0


def _pairs(layers: Sequence[Layer], workers: int) -> dict[str, str]:
    """Which layers are columns, and which the rows behind them.

    A row follows its column in the same module, with nothing between that joins all features.
    """
    chosen: dict[str, str] = {}
    column: Layer | None = None
    for layer in layers:
        if layer.kind == "features":
            column = None
        if layer.kind not in {"conv", "dense"}:
            continue
        beside = column is not None and _parent(column) == _parent(layer)
        fits = column is not None and column.kind == layer.kind and column.outputs == layer.inputs
        if column is not None and beside and fits:
            chosen[column.path], chosen[layer.path] = "column", "row"
            column = None
        else:
            column = layer if _divides(layer, "column", workers) else None
    return chosen


def _parent(layer: Layer) -> str:
    return layer.path.rpartition(".")[0]


def _hybrid(job: _Job) -> Way:
    """Convolutions by data, dense layers behind them by filters: "one weird trick"."""
    cost, p, n = job.cost, job.workers, job.batch
    convolved = [i for i, x in enumerate(cost.layers) if x.kind == "conv"]
    dense = [i for i, x in enumerate(cost.layers) if x.kind == "dense"]
    behind = [i for i in dense if not convolved or i > convolved[-1]]
    if not convolved or not behind:
        law = "no dense layers behind convolutions"
        return Way("hybrid", 0.0, 0.0, 0.0, 0.0, law)
    first = behind[0]
    trunk, head = cost.layers[:first], cost.layers[first:]
    chosen = _pairs(head, p) or {x.path: "outputs" for x in head}
    computing, exchanging, moved, divided = _of_layers(job, head, chosen)
    seconds, waiting = _buckets(job, trunk, job.share)
    border = head[0].input_bytes * n
    gathered = job.link.all_gather(p, border) + job.link.reduce_scatter(p, border)
    shared, saved = _parameters(divided), 1 - 1 / p
    trained = cost.trained_bytes - _trained(divided) * saved
    of_trunk = cost.trained_bytes - _trained(head)
    # The loss is of all rows, beside the part of them that _buckets has counted.
    total = (
        seconds
        - cost.update * (1 - trained / (cost.trained_bytes or 1))
        + computing
        + exchanging
        + gathered
    )
    total += cost.rest.at(n) - cost.rest.at(job.share)
    waiting += exchanging + gathered
    moved += _ring_bytes(job, of_trunk) + 2 * border * (p - 1) / p
    held = cost.held(cost.parameter_bytes - shared * saved, trained)
    held += job.activation_bytes * job.share + border
    problem = _too_few(job) or ("" if shared else "no dense layer divides by so many")
    return Way("hybrid", total, waiting, moved, held, problem, f"dense from {head[0].path} on")


def _pipeline(job: _Job) -> Way:
    """Stages one behind the other; the batch goes through in parts."""
    cost, p = job.cost, job.workers
    blocks = _blocks(cost.layers)
    if len(blocks) < p:
        law = f"{len(blocks)} parts one behind the other are fewer than devices"
        return Way("pipeline", 0.0, 0.0, 0.0, 0.0, law)
    numbers = (p, 2 * p, 4 * p, 8 * p) if job.parts is None else (job.parts,)
    tries = [m for m in numbers if m <= job.batch]
    if not tries:
        return Way("pipeline", 0.0, 0.0, 0.0, 0.0, "fewer examples than stages")
    return min((_piped(job, blocks, m) for m in tries), key=lambda way: way.seconds)


def _piped(job: _Job, blocks: Sequence[Sequence[Layer]], parts: int) -> Way:
    cost, n = job.cost, job.batch / parts
    stages = _stages(blocks, job.workers, n)
    forward = [sum(x.forward.at(n) for x in stage) for stage in stages]
    backward = [sum(x.backward.at(n) for x in stage) for stage in stages]
    backward[-1] += cost.rest.at(n)
    # The host takes its time for each part, by layers, and the device computes meanwhile.
    launched = [len(stage) / len(cost.layers) for stage in stages]
    forward = [max(t, cost.launching.forward * s) for t, s in zip(forward, launched, strict=True)]
    backward = [
        max(t, cost.launching.backward * s) for t, s in zip(backward, launched, strict=True)
    ]
    borders = [stage[0].input_bytes * n for stage in stages[1:]]
    hops = [job.link.send(border) for border in borders]
    share = max(_trained(stage) for stage in stages) / (cost.trained_bytes or 1)
    update = cost.update * share
    total = _schedule(forward, backward, hops, parts) + update
    computing = [f + b for f, b in zip(forward, backward, strict=True)]
    waiting = max(total - parts * max(computing) - update, 0.0)
    moved = 2 * max(borders, default=0.0) * parts
    held = max(_stage_bytes(job, stages, k, parts) for k in range(len(stages)))
    mean = sum(computing) / len(stages)
    note = f"{parts} parts, slowest stage {max(computing) / mean if mean else 1:.2f} of the mean"
    return Way("pipeline", total, waiting, moved, held, "", note)


def _stages(blocks: Sequence[Sequence[Layer]], count: int, n: float) -> list[list[Layer]]:
    """So many stages of whole blocks, of which the slowest takes least for ``n`` examples."""
    times = [sum(x.forward.at(n) + x.backward.at(n) for x in block) for block in blocks]
    ends = _balanced(times, count)
    return [
        [x for block in blocks[a:b] for x in block] for a, b in zip((0, *ends), ends, strict=False)
    ]


def _stage_bytes(job: _Job, stages: Sequence[Sequence[Layer]], k: int, parts: int) -> float:
    """Bytes that a stage holds; in 1F1B activations of a part for each stage from it on."""
    stage = stages[k]
    made = sum(x.output_bytes for x in job.cost.layers) or 1.0
    activations = job.activation_bytes * sum(x.output_bytes for x in stage) / made
    examples = job.batch / parts * min(job.workers - k, parts)
    return job.cost.held(_parameters(stage), _trained(stage)) + activations * examples


def _schedule(
    forward: Sequence[float], backward: Sequence[float], hops: Sequence[float], parts: int
) -> float:
    """Seconds until the last part has gone forward and back through all stages, as 1F1B goes.

    Each stage does in order: some parts forward, then one back and one forward in turns.
    """
    stages = len(forward)
    left = [deque(_order(parts, min(stages - k, parts))) for k in range(stages)]
    done: dict[tuple[str, int, int], float] = {}
    clock = [0.0] * stages
    while any(left):
        for k, waiting in enumerate(left):
            while waiting:
                kind, i = waiting[0]
                before = _needed(kind, k, i, stages)
                if before is not None and before not in done:
                    break
                ready = 0.0 if before is None else done[before]
                if before is not None and before[1] != k:
                    ready += hops[min(before[1], k)]
                took = forward[k] if kind == "f" else backward[k]
                clock[k] = done[kind, k, i] = max(clock[k], ready) + took
                waiting.popleft()
    return max(clock)


def _order(parts: int, ahead: int) -> list[tuple[str, int]]:
    """What a stage does that takes so many parts forward before the first goes back."""
    order = [("f", i) for i in range(ahead)]
    for i in range(parts):
        order.append(("b", i))
        if ahead + i < parts:
            order.append(("f", ahead + i))
    return order


def _needed(kind: str, stage: int, part: int, stages: int) -> tuple[str, int, int] | None:
    """What a stage waits for, before it takes a part."""
    if kind == "f":
        return None if stage == 0 else ("f", stage - 1, part)
    return ("f", stage, part) if stage == stages - 1 else ("b", stage + 1, part)


def _balanced(times: Sequence[float], stages: int) -> list[int]:
    """Where stages end, so that the slowest takes least; each has something."""
    sums = [0.0]
    for seconds in times:
        sums.append(sums[-1] + seconds)
    best = [sums[:]]
    cuts: list[list[int]] = []
    for stage in range(1, stages):
        row, cut = [float("inf")] * len(sums), [0] * len(sums)
        for end in range(stage + 1, len(sums)):
            for begin in range(end - 1, stage - 1, -1):
                last = sums[end] - sums[begin]
                if last >= row[end]:
                    break
                slowest = max(best[-1][begin], last)
                if slowest < row[end]:
                    row[end], cut[end] = slowest, begin
        best.append(row)
        cuts.append(cut)
    ends = [len(times)]
    for cut in reversed(cuts):
        ends.append(cut[ends[-1]])
    return ends[::-1]


def _blocks(layers: Sequence[Layer]) -> list[list[Layer]]:
    found: dict[int, list[Layer]] = {}
    for layer in layers:
        found.setdefault(layer.block, []).append(layer)
    return list(found.values())


def _too_few(job: _Job) -> str:
    return "" if job.share >= 1 else "fewer examples than devices"


def _ring_bytes(job: _Job, nbytes: float) -> float:
    return 2 * nbytes * (job.workers - 1) / job.workers
