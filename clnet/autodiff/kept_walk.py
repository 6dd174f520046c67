"""Walks back along graphs that came before: what they launched is kept, and launched again.

A program's steps make graphs of one structure, whose backward calls the same ops each time: what
these launch follows from the graph's *key* alone. It names, newest node first, each node's op and
how what it read lay (:attr:`.tape.Node.kind`), where its edges go, and of what the walk begins.
A graph that comes for the third time is walked while a :class:`Recorder` looks on; from then on a
:class:`KeptWalk` takes memory, launches, and lets go as the walk does, in the same order: so bits,
memory and what stands in the queue are the same, and only Python's way from node to node is left
out. What the walk leaves to others (leaves, their hooks, what is added up) is none of this.

The plain walk goes wherever something asks for it: hooks of nodes, gradients of gradients or of
tensors inside, users' functions, ops that do not repeat or whose kernels check their data, traces,
batches, anomaly detection, somebody who observes the device; and a saved tensor that was changed,
for which it has the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from ..array import Array
from ..device import Device, HostScalar, Memory, OpAgain, OpSequence, Storage
from ..ops.machinery.constant import is_constant
from ..ops.machinery.execution import told_inputs
from ..ops.machinery.lowering import Kept, key_of
from ..values import mode
from ..values.dtypes import default_float
from ..values.record import NamedTuple

_MOST_NODES = 4096
_MOST_LAUNCHES = 16384  # of all that is kept on a device, of 1.5 KB
_MOST_SEEN = 1024
_RECORDED_AT = 3  # before, ops are lowered, then their kernels found
_REFUSED = -100  # so many times are let pass before it is tried again
# Where so many graphs in a row came for the first time, one in some is looked at; where there is no
# room, one in some is recorded, if the one that was used longest ago has let as many pass for each.
_PATIENCE, _EVERY, _IDLE = 64, 16, 8
_sequence = attrgetter("sequence")


class Graph(NamedTuple):
    """What a walk goes along.

    Attributes:
        nodes: newest first.
        leaves: in the order in which their edges come.
        key: equal for graphs whose walks do the same.
        device: where all of it lies.
    """

    nodes: list[Any]
    leaves: list[Any]
    key: tuple[Any, ...]
    device: Device

    def intact(self) -> bool:
        """Whether all that was saved is as it was, and nobody's hooks have it."""
        for node in self.nodes:
            for kept in node.kept_inputs.values():
                if kept.version is None or kept.version != kept.tensor.array.storage.seen_version:
                    return False
            for kept in node.kept_outputs.values():
                if kept.version is None or kept.version != kept.tensor.storage.seen_version:
                    return False
        return True


def is_plain(roots: Sequence[Any], grads: Sequence[Any]) -> bool:
    """Whether a walk from some tensors runs ops one by one, and nobody looks at each of them."""
    now = mode.current()
    if now.tracer is not None or now.anomaly is not None or now.batching:
        return False
    return not (now.abstract or now.debug or any(x.is_sparse for x in (*roots, *grads)))


def graph_of(
    roots: Sequence[Any], grads: Sequence[Any], targets: Sequence[Any] | None
) -> Graph | None:
    """The graph behind some tensors; None: it is walked plainly.

    Args:
        roots: where the walk begins.
        grads: the gradient of each.
        targets: leaves whose gradients are wanted; None: all.
    """
    known: dict[int, Any] = {id(root.node): root.node for root in roots}
    pending = [*known.values()]
    while pending:
        node = pending.pop()
        if node is None or node.hooks is not None or node.released:
            return None
        if node.kind is None and not node.function.views:
            return None
        for edge in node.edges:
            if edge is not None and (below := edge.node) is not None:
                place = id(below)
                if place not in known:
                    known[place] = below
                    pending.append(below)
    if len(known) > _MOST_NODES:
        return None
    nodes = sorted(known.values(), key=_sequence, reverse=True)
    ranks = dict(zip(map(id, nodes), range(len(nodes)), strict=True))
    leaves: list[Any] = []
    slots: dict[int, int] = {}
    key: list[Any] = []
    add = key.append
    for node in nodes:
        function, kind = node.function, node.kind
        if kind is None:
            key += (type(function), function.repeat_key, node.input_specs)
            if node.kept_inputs or node.kept_outputs:  # a result that was computed aside
                add(_saved_forms(node))
        else:  # held by whoever keeps the walk, so that no other has its id
            add(id(kind))
            add(function.gradient_key)
        for edge in node.edges:
            if edge is None:
                add(None)
                continue
            below, index, leaf = edge
            if below is not None:
                add(ranks[id(below)])
                add(index)
            else:
                slot = slots.setdefault(id(leaf), len(leaves))
                if slot == len(leaves):
                    leaves.append(leaf)
                add(~slot)
    key += [(ranks[id(x.node)], x.index, g.array.form) for x, g in zip(roots, grads, strict=True)]
    if targets is not None:
        key.append(tuple(slots.get(id(x)) for x in targets))
    now = mode.current()
    key += (now.float32_precision, now.winograd, now.conv_algorithm, default_float())
    return Graph(nodes, leaves, tuple(key), grads[0].array.storage.device)


def _saved_forms(node: Any) -> tuple[Any, ...]:
    """How what a node saved lies; of what hooks have packed nobody knows."""
    inputs = [k.tensor.array.form for k in node.kept_inputs.values() if k.version is not None]
    outputs = [k.tensor.form for k in node.kept_outputs.values() if k.version is not None]
    return (*inputs, *outputs)


class KeptWalk:
    """What a walk launches, where that lies, and what it finds.

    Args:
        graph: that it was recorded of.
        num_registers: how many pieces of memory it knows; the gradients' it begins with are first.
        saved: of what nodes saved: a register, the node's rank, the place, whether it is an output,
            and how it lies.
        constants: tables of ops: a register, and what lies there.
        cells: numbers of nodes' ops that launches are given: the rank, and which of its.
        visits: the rank of each node that is visited; None: before any.
        ops: what is launched at each visit.
        found: for each leaf its slot, and which result it gets.
        results: the place of a gradient that the walk begins with, or None; a register, its bytes
            if the walk made it, or -1; and how the gradient lies there.

    Attributes:
        num_launches: how many kernels it launches.
        used: when it last was, as :class:`KeptWalks` counts.
    """

    def __init__(
        self,
        graph: Graph,
        num_registers: int,
        saved: Sequence[tuple[int, int, int, bool, Any]],
        constants: Sequence[tuple[int, Storage]],
        cells: Sequence[tuple[int, int]],
        visits: Sequence[int | None],
        ops: OpSequence,
        found: Sequence[tuple[int, int]],
        results: Sequence[tuple[int | None, int, int, Any]],
    ) -> None:
        self._device = graph.device
        self._held = [node.kind for node in graph.nodes]  # the key has their ids
        self._num_registers, self._saved, self._cells = num_registers, saved, cells
        self._constants = constants
        self._visits, self._ops, self._found, self._results = visits, ops, found, results
        self._own = {each[1]: each[2] for each in results if each[2] >= 0}
        self.num_launches = ops.num_launches
        self.used = 0

    def run(
        self, graph: Graph, grads: Sequence[Any], *, retain: bool
    ) -> dict[int, tuple[Any, Any]] | None:
        """Do once more what was recorded.

        Args:
            graph: of the same key.
            grads: the gradients that it begins with.
            retain: keep what nodes saved.

        Returns:
            As :func:`.walk.run_backward`; None if nothing was done, since the plain walk has to.
        """
        with self._device.lock:
            return self._run(graph, grads, retain=retain)

    def _run(
        self, graph: Graph, grads: Sequence[Any], *, retain: bool
    ) -> dict[int, tuple[Any, Any]] | None:
        device, nodes, visits = self._device, graph.nodes, self._visits
        if device.queue.observed or device.first_uses is not None or not graph.intact():
            return None
        buffers: list[Any] = [None] * self._num_registers
        begins = [0] * self._num_registers
        for register, grad in enumerate(grads):
            storage = grad.array.storage
            buffers[register], begins[register] = storage.buffer, storage.begin
        for register, rank, place, output, form in self._saved:
            node = nodes[rank]
            kept: Any = (node.kept_outputs if output else node.kept_inputs).get(place)
            if kept is None:  # another thread's walk has let it go since
                return None
            array = kept.tensor if output else kept.tensor.array
            if array.form != form:
                return None
            storage = array.storage
            buffers[register], begins[register] = storage.buffer, storage.begin
        for register, storage in self._constants:
            buffers[register], begins[register] = storage.buffer, storage.begin
        cells = [nodes[rank].function.varying[k] for rank, k in self._cells]
        left = {register: Storage(device, nbytes) for register, nbytes in self._own.items()}

        def release(part: int) -> None:
            if (rank := visits[part]) is not None:
                nodes[rank].release()

        memory = Memory(buffers, begins, cells, left)
        device.queue.run_sequence(self._ops, memory, None if retain else release)
        made: list[Any] = []
        for whole, register, _, form in self._results:
            if whole is not None:
                made.append(grads[whole])
            else:
                storage = left.get(register) or grads[register].array.storage
                made.append(nodes[0].tensor_type(Array(storage, *form[2:])))
        leaves = graph.leaves
        return {id(leaf): (leaf, made[k]) for slot, k in self._found for leaf in (leaves[slot],)}


class _Seen(NamedTuple):
    """An op that a walk called: its visit, name, inputs, launches, registers, and numbers."""

    visit: int
    name: str
    inputs: str
    kept: Kept
    made: tuple[int, ...]
    read: tuple[int, ...]
    numbers: tuple[Any, ...]


class Recorder:
    """Looks on while a graph is walked, and writes down what the walk does.

    It stands where anomaly detection does, so that plain ops do not ask for it, and observes the
    device, so that it knows of whatever is no op.

    Args:
        graph: what is walked.
        grads: the gradients that the walk begins with.

    Attributes:
        refused: why nothing is kept, or "".
        joins: gradients of slices wait for each other, as in a plain walk.
    """

    joins = True
    profiling = False
    check_nan = False

    def __init__(self, graph: Graph, grads: Sequence[Any]) -> None:
        self._graph, self._grads = graph, grads
        self._ranks = {id(node): rank for rank, node in enumerate(graph.nodes)}
        self._registers: WeakKeyDictionary[Storage, int] = WeakKeyDictionary()
        self._nbytes: list[int] = []
        self._saved: list[tuple[int, int, int, bool, Any]] = []
        self._places: dict[tuple[int, int, bool], int] = {}
        self._constants: list[tuple[int, Storage]] = []
        self._scope: WeakKeyDictionary[Storage, tuple[int, bool, Any]] = WeakKeyDictionary()
        self._cells: list[tuple[int, int]] = []
        self._visits: list[int | None] = [None]
        self._seen: list[_Seen] = []
        self._kernels = 0
        self.refused = ""
        for grad in grads:
            if grad.is_sparse or grad.array.storage in self._registers:
                self.refused = "gradients given to the walk lie in one memory"
            else:
                self._new(grad.array.storage)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look on while the body walks."""
        with mode.using(anomaly=self), self._graph.device.queue.observe(self):
            yield

    def visit(self, node: Any) -> None:
        """From now the walk is at a node."""
        self._visits.append(self._ranks[id(node)])
        self._scope = WeakKeyDictionary()
        for i, kept in node.kept_outputs.items():
            self._scope[kept.tensor.storage] = (i, True, kept.tensor.form)
        for i, kept in node.kept_inputs.items():
            self._scope[kept.tensor.array.storage] = (i, False, kept.tensor.array.form)
        if any(storage in self._registers for storage in self._scope):
            self.refused = "a gradient lies where something was saved"

    def command(self, record: Any) -> None:
        """Count what the device is asked for; all of it must be ops'."""
        self._kernels += 1
        if record.kind != "kernel":
            self.refused = record.kind

    def look_before(self, function: Any, inputs: tuple[Array, ...]) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def look_back(self, node: Any, gradients: Any) -> None:
        """Nothing."""

    def look(
        self,
        function: Any,
        inputs: tuple[Array, ...],
        outputs: tuple[Array, ...],
        clean: tuple[int, ...],
    ) -> None:
        """Write down an op."""
        if self.refused:
            return
        read = tuple(map(self._register, inputs))
        if None in read:
            self.refused = f"{function.name} reads what no node saved"
        elif function.views:
            if None in map(self._register, outputs):
                self.refused = f"{function.name} is no view"
        else:
            self._look_at(function, inputs, outputs, read)

    def _look_at(
        self,
        function: Any,
        inputs: tuple[Array, ...],
        outputs: tuple[Array, ...],
        read: tuple[Any, ...],
    ) -> None:
        device, kept = self._graph.device, None
        if function.repeats:
            storages = [x.storage for x in inputs]
            key = key_of(function, inputs, storages, mode.current().float32_precision)
            kept = device.target.launches.get(key)
        if kept is None or kept.launches.enqueues is None or kept.launches.checks:
            self.refused = f"{function.name} is not kept"
            return
        given = len(self._grads)
        if any(read[k] < given or self._nbytes[read[k]] < 0 for k in kept.mutates):
            self.refused = f"{function.name} overwrites what is given"
            return
        numbers = tuple(map(self._number, function.varying))
        if None in numbers:
            self.refused = f"{function.name} is given a number that is no node's"
            return
        made = tuple(self._new(y.storage) for y in outputs)
        visit = len(self._visits) - 1
        name, told = function.name, told_inputs(inputs)
        self._seen.append(_Seen(visit, name, told, kept, made, read, numbers))

    def _new(self, storage: Storage) -> int:
        self._registers[storage] = len(self._nbytes)
        self._nbytes.append(storage.nbytes)
        return len(self._nbytes) - 1

    def _register(self, array: Array) -> int | None:
        """Where an array lies: in what the walk made, what the node saved, a table; else None."""
        register = self._registers.get(array.storage)
        if register is None and is_constant(array.storage):
            self._constants.append((self._new(array.storage), array.storage))
            register = self._constants[-1][0]
            self._nbytes[register] = -1  # as of what nodes saved
        if register is not None or len(self._visits) == 1:
            return register
        place, output, form = self._scope.get(array.storage, (0, False, None))
        rank = self._visits[-1]
        if form is None or rank is None:
            return None
        register = self._places.get((rank, place, output))
        if register is None:
            register = self._places[rank, place, output] = len(self._nbytes)
            self._nbytes.append(-1)  # somebody else's
            self._saved.append((register, rank, place, output, form))
        return register

    def _number(self, number: Any) -> Any:
        """A number that a launch is given: it, or which cell of the node's op; None: another's."""
        if type(number) is not HostScalar:
            return number
        rank = self._visits[-1]
        if rank is None:
            return None
        for k, cell in enumerate(self._graph.nodes[rank].function.varying):
            if cell is number:
                self._cells.append((rank, k))
                return (len(self._cells) - 1,)
        return None

    def plan(self, found: dict[int, tuple[Any, Any]]) -> KeptWalk | None:
        """What to do with the next graph of this key; None: it cannot be said.

        Args:
            found: what the walk gave.
        """
        launched = sum(len(each.kept.launches.parts) for each in self._seen)
        if not self.refused and launched != self._kernels:
            self.refused = "somebody else launched kernels"
        slots = {id(leaf): slot for slot, leaf in enumerate(self._graph.leaves)}
        tensors = {id(grad): grad for _, grad in found.values()}
        results: list[tuple[int | None, int, int, Any]] = []
        for grad in tensors.values():
            whole = next((k for k, g in enumerate(self._grads) if g is grad), None)
            register = None if grad.is_sparse else self._registers.get(grad.array.storage)
            if register is None:
                self.refused = self.refused or "a gradient is sparse, or somebody's"
                return None
            own = -1 if register < len(self._grads) else self._nbytes[register]
            results.append((whole, register, own, grad.array.form))
        if self.refused:
            return None
        which = {key: k for k, key in enumerate(tensors)}
        ends = [(slots[key], which[id(grad)]) for key, (_, grad) in found.items()]
        with self._graph.device.lock:
            ops = OpSequence(self._graph.device, self._parts({each[1] for each in results}))
        memory = len(self._nbytes), self._saved, self._constants, self._cells
        return KeptWalk(self._graph, *memory, self._visits, ops, ends, results)

    def _parts(self, results: set[int]) -> list[list[OpAgain]]:
        own = frozenset(register for each in self._seen for register in each.made)
        last: dict[int, int] = {}
        for k, each in enumerate(self._seen):
            last.update((register, k) for register in (*each.made, *each.read))
        parts = [list[OpAgain]() for _ in self._visits]
        for k, each in enumerate(self._seen):
            registers = (*each.made, *each.read)
            ends = [r for r in dict.fromkeys(registers) if r in own and last[r] == k]
            parts[each.visit].append(
                OpAgain(
                    each.name,
                    each.inputs,
                    each.kept.launches,
                    registers,
                    tuple((r, self._nbytes[r]) for r in each.made if r not in results),
                    tuple(r for r in each.made if r in results),
                    tuple((r, self._nbytes[r]) for r in ends if r not in results),
                    each.numbers,
                )
            )
        return parts


class KeptWalks:
    """The walks that are kept on a device.

    Where all there is room for are in use, and others come, these are walked plainly: to record
    takes longer than to walk, and pays only for what comes again while it is kept.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], KeptWalk] = {}
        self._seen: dict[int, int] = {}
        self._turn = 0
        self._new_in_a_row = 0

    @property
    def num_launches(self) -> int:
        """Of all that are kept."""
        return sum(walk.num_launches for walk in list(self._kept.values()))  # others may add

    def looks(self) -> bool:
        """Whether it pays to look at a graph: where all are new, seldom."""
        new = self._new_in_a_row = self._new_in_a_row + 1
        return new < _PATIENCE or new % _EVERY == 0

    def find(self, graph: Graph) -> KeptWalk | None:
        """The walk along such a graph, if it is kept."""
        self._turn += 1
        found = self._kept.get(graph.key)
        if found is not None:
            self._new_in_a_row = 0
            found.used = self._turn
        return found

    def wants(self, graph: Graph) -> bool:
        """Whether a graph has come often enough to be recorded, and there is room; it has come."""
        key = hash(graph.key)
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if count < _RECORDED_AT:
            return False
        if self.num_launches <= _MOST_LAUNCHES - _MOST_LAUNCHES // 4:
            return True
        idle = self._turn - self._oldest().used
        return self._turn % _EVERY == 0 and idle > _IDLE * len(self._kept)

    def keep(self, graph: Graph, walk: KeptWalk | None) -> None:
        """Keep what was recorded; None: it could not be."""
        if walk is None or walk.num_launches > _MOST_LAUNCHES // 4:
            self._seen[hash(graph.key)] = _REFUSED
            return
        with graph.device.lock:
            walk.used = self._turn
            self._kept[graph.key] = walk
            while self.num_launches > _MOST_LAUNCHES:
                oldest = self._oldest()
                self._kept = {key: each for key, each in self._kept.items() if each is not oldest}

    def _oldest(self) -> KeptWalk:
        return min(list(self._kept.values()), key=attrgetter("used"))


def walks_of(device: Device) -> KeptWalks:
    """What is kept of a device."""
    walks = device.target.walks
    if not walks:
        walks.append(KeptWalks())
    return walks[0]
