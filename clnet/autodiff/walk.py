"""The walk back along the tape: from outputs to the gradients of leaves.

It knows tensors only by what it was handed; the ops' own gradients are in ``ops``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from ..errors import GradientError
from ..ops.create import one_like
from ..ops.machinery.function import Function
from ..ops.shape import alias
from ..values import mode
from .graph_face import OF_NODE
from .kept_walk import Recorder, graph_of, is_plain, walks_of
from .leaf import add_to_leaves
from .parts import Parts, cut_of
from .saved import Edge, edge_of
from .tape import Node, SavedTensors
from .tensor_hook import GradientHooks, LeafHooks, called_by

Finish = Callable[[Any, Any, set[int]], None]
"""Takes a leaf, its whole gradient, and the ``id`` of storages that somebody else may hold."""


def walk_back(
    roots: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any] | None,
    seen: set[int],
    *,
    retain_graph: bool,
    create_graph: bool,
) -> None:
    """``backward``: add the gradients of tensors to those of leaves, in one walk.

    Args:
        roots: where the walk begins.
        grads: the gradient of each.
        inputs: the tensors that are meant; None: all leaves.
        seen: as :func:`.leaf.add_to_leaves` takes it.
        retain_graph: keep what the nodes saved.
        create_graph: record the walk itself.
    """
    wanted = None if inputs is None else {id(x) for x in inputs if not x.retains_grad}

    def finish(leaf: Any, whole: Any, shown: set[int]) -> None:
        seen.update(shown)
        add_to_leaves({id(leaf): (leaf, whole)}, wanted, seen, create_graph=create_graph)

    after: list[Callable[[], None]] = []
    before = mode.current()
    try:
        mode.change(after_backward=after)
        found = run_backward(
            roots,
            grads,
            targets=inputs,
            retain_graph=retain_graph,
            create_graph=create_graph,
            shown=seen,
            finish=finish if GradientHooks.any_awaits else None,
        )
        with mode.using(grad=create_graph, phase="backward"):
            add_to_leaves(found, wanted, seen, create_graph=create_graph)
        if after:
            mode.restore(before)
            mode.change(after_backward=after)
            for callback in after:  # which may queue others
                callback()
    finally:
        mode.restore(before)


def run_backward(
    roots: Sequence[Any],
    grads: Sequence[Any],
    *,
    targets: Sequence[Any] | None,
    retain_graph: bool,
    create_graph: bool,
    stop_at_targets: bool = False,
    shown: set[int] | None = None,
    finish: Finish | None = None,
) -> dict[int, tuple[Any, Any]]:
    """Walk back from ``roots``, newest node first.

    Args:
        roots: tensors to start from.
        grads: the gradient of each.
        targets: tensors whose gradients are wanted, or None for all leaves.
        retain_graph: keep what the nodes saved.
        create_graph: record the walk itself, so that its results can be differentiated.
        stop_at_targets: do not walk on behind a target, nor call the hooks of leaves: the walk is
            part of another, which will.
        shown: the ``id`` of every storage that a hook may hold is put here.
        finish: takes the gradient of a leaf for which hooks wait, as soon as it is whole.

    Returns:
        By the ``id`` of a leaf or target: the tensor and its gradient; not of leaves that
        ``finish`` took.
    """
    walk = _Walk(
        targets,
        retain_graph=retain_graph,
        create_graph=create_graph,
        stop_at_targets=stop_at_targets,
        finish=finish,
    )
    before = mode.current()
    ends = before.walk_ends if stop_at_targets else []
    waits = before.walk_waits if stop_at_targets else []
    try:
        mode.change(
            grad=create_graph, phase="backward", autocast=None, walk_ends=ends, walk_waits=waits
        )
        plain = create_graph or stop_at_targets
        if plain or not walk.go_again(roots, grads, targets):
            walk.go(roots, grads, targets)
        if not stop_at_targets:
            for wait in waits or ():
                wait()
            walk.call_hooks_of_leaves()
    finally:
        mode.restore(before)
        if ends and not stop_at_targets:
            for end in ends:
                end()
    if shown is not None:
        shown |= walk.shown
    return walk.found


class _Walk:
    """State of one backward pass: nodes that gradients have reached, visited newest first.

    Arguments as :func:`run_backward`'s.

    Attributes:
        found: by the ``id`` of a leaf or target: the tensor and its gradient so far.
        shown: the ``id`` of storages that a hook may hold.
        visited: is told of each node whose gradient is about to be computed, or None.
    """

    def __init__(
        self,
        targets: Sequence[Any] | None,
        *,
        retain_graph: bool,
        create_graph: bool,
        stop_at_targets: bool = False,
        finish: Finish | None = None,
    ) -> None:
        self._retain = retain_graph
        self._create = create_graph
        self._stop = stop_at_targets
        self._finish = finish
        self.found: dict[int, tuple[Any, Any]] = {}
        self.shown: set[int] = set()
        self.visited: Callable[[Node], None] | None = None
        # Of leaves whose hooks wait: the ways that have not arrived yet; and those handed over.
        self._awaited: dict[int, int] = {}
        self._finished: list[Any] = []
        # What has arrived at each output of a node, and the nodes that are to be visited.
        self._pending: dict[int, list[Any]] = {}
        self._heap: list[tuple[int, int, Node]] = []
        # Gradients of slices that are held until all of one tensor's have come.
        self._parts: dict[tuple[int, int], tuple[Edge, Parts]] = {}
        # Which edges of each node lead to a target; None: all that need a gradient are walked.
        self._ways: dict[int, tuple[bool, ...]] | None = None
        # The targets: leaves, and results of nodes.
        self._all_leaves = targets is None
        self._leaves = {id(t) for t in targets or () if t.node is None}
        self._inner: dict[tuple[int, int], Any] = {
            (id(t.node), t.index): t for t in targets or () if t.node is not None
        }

    def expect(self, roots: Sequence[Any]) -> None:
        """Count the ways to each leaf whose hooks wait for its gradient."""
        pending = [root.node for root in roots if root.node is not None]
        known = {id(node) for node in pending}
        while pending:
            for edge in pending.pop().edges:
                if edge is None:
                    continue
                if edge.node is None:
                    if _awaits(edge.leaf):
                        self._awaited[id(edge.leaf)] = self._awaited.get(id(edge.leaf), 0) + 1
                elif id(edge.node) not in known:
                    known.add(id(edge.node))
                    pending.append(edge.node)

    def look_ahead(self, roots: Sequence[Any]) -> None:
        """Find which edges lead to a target: no other gradient is computed, no other node freed."""
        nodes = {id(root.node): root.node for root in roots if root.node is not None}
        pending = [*nodes.values()]
        while pending:
            for edge in pending.pop().edges:
                if edge is not None and edge.node is not None and id(edge.node) not in nodes:
                    nodes[id(edge.node)] = edge.node
                    pending.append(edge.node)
        ways: dict[int, tuple[bool, ...]] = {}

        def leads(edge: Edge | None) -> bool:
            if edge is None:
                return False
            if edge.node is None:
                return id(edge.leaf) in self._leaves
            return _key(edge) in self._inner or any(ways[id(edge.node)])

        for node in sorted(nodes.values(), key=lambda node: node.sequence):
            ways[id(node)] = tuple(map(leads, node.edges))
        self._ways = ways

    def _arrived(self, node: Node) -> None:
        """Hand over the gradients of leaves that the node was the last way to."""
        for edge in node.edges:
            if edge is None or (place := id(edge.leaf)) not in self._awaited:
                continue
            self._awaited[place] -= 1
            if self._awaited[place]:
                continue
            self._join(_key(edge))
            if place in self.found:
                leaf, grad = self.found.pop(place)
                grad = leaf.hooks.run(grad, self.shown)
                if not grad.is_sparse and self._is_held(grad):
                    self.shown.add(id(grad.array.storage))
                self._finished.append(leaf)
                self._finish(leaf, grad, self.shown)  # pyrefly: ignore[not-callable] - something is awaited

    def _is_held(self, grad: Any) -> bool:
        """Whether other gradients that are on their way lie in the same memory."""
        storage = grad.array.storage
        slots = (g for arrived in self._pending.values() for g in arrived if g is not None)
        others = (g for _, g in self.found.values())
        parts = (g for _, held in self._parts.values() for g in held.grads)
        every = (g for g in chain(slots, others, parts) if not g.is_sparse)
        return any(g.array.storage is storage for g in every)

    def deliver(self, edge: Edge, grad: Any) -> None:
        """Add ``grad`` to what has arrived at an edge."""
        self._join(_key(edge))
        node = edge.node
        if node is None:
            if self._all_leaves or id(edge.leaf) in self._leaves:
                self._collect(edge.leaf, grad)
            return
        if grad.is_sparse:  # who goes on from here computes with all elements
            grad = grad.to_dense()
        slots = self._slots(node)
        before = slots[edge.index]
        slots[edge.index] = grad if before is None else before + grad

    def _slots(self, node: Node) -> list[Any]:
        """What has arrived at a node, which will be visited."""
        slots = self._pending.get(id(node))
        if slots is None:
            slots = self._pending[id(node)] = [None] * node.num_outputs
            heapq.heappush(self._heap, (-node.sequence, id(node), node))
        return slots

    def _hold(self, node: Node, axis: int, grad: Any) -> None:
        """Keep the gradient of a slice until those of others have come."""
        (edge, *_), ((shape, _), *_) = node.edges, node.input_specs
        if edge is None:
            return
        starts, key = node.function.starts, _key(edge)
        held = self._parts.get(key)
        if held is not None and held[1].takes(axis, starts, grad):
            return
        self._join(key)
        if edge.node is not None:
            self._slots(edge.node)
        elif not self._all_leaves and id(edge.leaf) not in self._leaves:
            return
        parts = Parts(axis, shape)
        parts.takes(axis, starts, grad)
        self._parts[key] = (edge, parts)

    def _join(self, key: tuple[int, int]) -> None:
        """Deliver what is held of slices."""
        held = self._parts.pop(key, None)
        if held is not None:
            self.deliver(held[0], held[1].joined())

    def go_again(
        self, roots: Sequence[Any], grads: Sequence[Any], targets: Sequence[Any] | None
    ) -> bool:
        """Do what a walk along an equal graph did before; False: nothing was done."""
        if self._inner or not roots or not is_plain(roots, grads):
            return False
        kept = walks_of(roots[0].array.storage.device)
        graph = graph_of(roots, grads, targets) if kept.looks() else None
        if graph is None or (self._finish is not None and any(map(_awaits, graph.leaves))):
            return False
        again = kept.find(graph)
        if again is not None:
            found = again.run(graph, grads, retain=self._retain)
            if found is not None:
                self.found = found
            return found is not None
        if not graph.intact() or not kept.wants(graph):
            return False
        recorder = Recorder(graph, grads)
        self.visited = recorder.visit
        with recorder.watching():
            self.go(roots, grads, targets)
        kept.keep(graph, recorder.plan(self.found))
        return True

    def go(self, roots: Sequence[Any], grads: Sequence[Any], targets: Sequence[Any] | None) -> None:
        """Walk from some tensors with their gradients."""
        if self._finish is not None:
            self.expect(roots)
        elif targets is not None:
            self.look_ahead(roots)
        for root, grad in zip(roots, grads, strict=True):
            self.deliver(edge_of(root), grad)
        self.run()

    def run(self) -> None:
        """Visit nodes until none is pending."""
        while self._heap:
            _, key, node = heapq.heappop(self._heap)
            if self._parts:
                for index in range(node.num_outputs):
                    self._join((key, index))
            grads = self._pending.pop(key)
            if node.hooks is not None:
                self._pass_hooks(node.hooks, grads)
            if self._inner and self._reach(key, node, grads) and self._stop:
                continue
            ways = node.needs if self._ways is None else self._ways[key]
            if not any(ways):
                continue
            if node.hooks is not None and (own := node.hooks.get(OF_NODE)) is not None:
                grads = own.before(grads, self.shown)
            results = self._results(node, grads, ways)
            del grads  # their memory is free for what follows
            for edge, need, grad in zip(node.edges, ways, results, strict=False):
                if need and grad is not None and edge is not None:
                    self.deliver(edge, grad)
            if self._awaited:
                del results
                self._arrived(node)
        for key in [*self._parts]:
            self._join(key)

    def _pass_hooks(self, hooks: dict[int, Any], grads: list[Any]) -> None:
        """Let the gradients of a node's results pass the hooks of these."""
        for index, of_result in hooks.items():
            if index != OF_NODE and grads[index] is not None:
                grads[index] = of_result.run(grads[index], self.shown)

    def _reach(self, key: int, node: Node, grads: list[Any]) -> bool:
        """Collect the gradients of those of a node's results that are targets; whether some are."""
        reached = [i for i in range(node.num_outputs) if (key, i) in self._inner]
        for index in reached:
            if grads[index] is not None:
                self._collect(self._inner[key, index], grads[index])
        return bool(reached)

    def _results(self, node: Node, grads: list[Any], ways: tuple[bool, ...]) -> Sequence[Any]:
        """The gradients of a node's inputs; none of a slice, whose gradient waits for others."""
        own = None if node.hooks is None else node.hooks.get(OF_NODE)
        if self.visited is not None:
            self.visited(node)
        anomaly = mode.current().anomaly
        axis = cut_of(node) if own is None and (anomaly is None or anomaly.joins) else None
        if axis is not None:
            node.unpack(whole=False)  # which raises if it was released
            self._hold(node, axis, grads[0])
            if not self._retain:
                node.release()
            return ()
        now = mode.current()
        path = now.module_path if self._create else node.module_path
        waits = now.walk_waits if own is None else None  # its hooks look at the gradients
        if path == now.module_path and waits is now.walk_waits:
            results = self._step(node, grads, ways)
        else:
            with mode.using(module_path=path, walk_waits=waits):
                results = self._step(node, grads, ways)
        return results if own is None else own.after(results, grads, self.shown)

    def call_hooks_of_leaves(self) -> None:
        """Let gradients of leaves pass their hooks; a trace depends on which there are."""
        leaves = [tensor for tensor, _ in self.found.values() if tensor.node is None]
        for leaf in leaves:
            if leaf.hooks is not None:
                grad = self.found[id(leaf)][1]
                self.found[id(leaf)] = (leaf, leaf.hooks.run(grad, self.shown))
        tracer = mode.current().tracer
        if tracer is not None:
            for leaf in leaves:
                if tracer.is_given(leaf):
                    tracer.ask(leaf, called_by)
            own = [x for x in (*self._finished, *leaves) if not tracer.is_given(x)]
            tracer.watch(LeafHooks(own))

    def _step(self, node: Node, grads: list[Any], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        function = node.function
        decomposed = self._create and function.decompose is not None
        saved = node.unpack(whole=decomposed)
        if decomposed:
            results = _through_decomposition(function, saved, grads, needs)
        else:
            results = function.backward(saved, tuple(grads), needs)
            anomaly = mode.current().anomaly  # of what is decomposed, inner nodes are looked at
            if anomaly is not None:
                anomaly.look_back(node, results)
        if not self._retain:
            node.release()
        return results

    def _collect(self, tensor: Any, grad: Any) -> None:
        before = self.found.get(id(tensor))
        if before is not None:
            for wait in mode.current().walk_waits or ():
                wait()
        self.found[id(tensor)] = (tensor, grad if before is None else before[1] + grad)


def _awaits(leaf: Any) -> bool:
    """Whether hooks wait for a leaf's gradient."""
    return leaf.hooks is not None and leaf.hooks.awaits


def _key(edge: Edge) -> tuple[int, int]:
    return id(edge.leaf if edge.node is None else edge.node), edge.index


def _through_decomposition(
    function: Function, saved: SavedTensors, grads: list[Any], needs: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Gradients of a fused op by differentiating the simpler ops it stands for, with a graph."""
    # Aliases, so that the walk ends there and one input's gradient does not run through another.
    inputs = [alias(saved.inputs[i]) for i in range(len(saved.input_specs))]
    outputs = function.decompose(*inputs)  # pyrefly: ignore[not-callable] - only ops that have one come here
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None]
    wanted = [t for t, need in zip(inputs, needs, strict=True) if need]
    walk = _Walk(wanted, retain_graph=True, create_graph=True, stop_at_targets=True)
    for output, grad in pairs:
        walk.deliver(edge_of(output), grad)
    walk.run()
    found = walk.found
    return tuple(
        found[id(t)][1] if need and id(t) in found else None
        for t, need in zip(inputs, needs, strict=True)
    )


def root_gradient(op_name: str, root: Any, gradient: Any) -> Any:
    """The gradient a walk starts with at a tensor, of its dtype: the one given, or 1.

    Raises:
        GradientError: if the tensor requires none, or what is given does not fit.
    """
    if not root.requires_grad:
        raise GradientError(
            op_name,
            "the tensor requires no gradient",
            shape=root.shape,
            remedy="Call requires_grad_() on a leaf it is made of, outside clnet.no_grad()",
        )
    if gradient is None:
        if root.array.size != 1:
            law = "a tensor of several elements needs a gradient"
            hint = "Pass one of its shape, or make it one number, as with mean()"
            raise GradientError(op_name, law, shape=root.shape, remedy=hint)
        if root.dtype.is_complex:
            law = "a complex number needs a gradient: in which direction"
            raise GradientError(op_name, law, dtype=root.dtype, remedy="Take the real part")
        return one_like(root)
    if gradient.shape != root.shape:
        raise GradientError(
            op_name,
            "the gradient has the tensor's shape",
            shape=root.shape,
            gradient=gradient.shape,
        )
    if gradient.dtype is not root.dtype and not (gradient.dtype.is_complex or root.is_complex()):
        return gradient.to(dtype=root.dtype)  # as PyTorch: ops below take gradients of their dtype
    return gradient
