"""The tape: nodes that remember how a tensor was made, and the walk back through them.

It knows tensors only by what it was handed; the ops' own gradients are in ``ops``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import chain, count
from operator import attrgetter
from typing import Any, NamedTuple

from ..device import users_line
from ..errors import DtypeError, GradientError
from ..ops.create import ones_like
from ..ops.machinery.function import Function
from ..ops.shape import alias
from ..values import mode
from ..values.arguments import checked_class, shown
from ..values.mode import change as _change
from .decorated import in_mode
from .graph_face import NodeFace
from .leaf import add_to_leaves
from .saved import Edge, Kept, edge_of, pack, unpacked
from .tensor_hook import GradientHooks, LeafHooks

_SEQUENCE = count()
_own_version = attrgetter("seen_version")


Finish = Callable[[Any, Any, set[int]], None]
"""Takes a leaf, its whole gradient, and the ``id`` of storages that somebody else may hold."""


class SavedTensors(NamedTuple):
    """What an op's backward reads; see :class:`clnet.ops.machinery.function.Saved`."""

    inputs: dict[int, Any]
    outputs: dict[int, Any]
    input_specs: tuple[tuple[tuple[int, ...], Any], ...]


class Node(NodeFace):
    """One application of an op on the tape.

    A node points to the nodes of its inputs, never to a tensor it made: tensors and nodes form no
    cycle, and memory is released by reference counts alone.
    """

    __slots__ = (
        "edges",
        "function",
        "hooks",
        "input_specs",
        "kept_inputs",
        "kept_outputs",
        "line",
        "module_path",
        "needs",
        "num_outputs",
        "released",
        "sequence",
        "tensor_type",
    )

    def __init__(
        self,
        function: Function,
        inputs: Sequence[Any],
        needs: tuple[bool, ...],
        outputs: Sequence[Any],
        tensor_type: type,
    ) -> None:
        self.function = function
        self.needs = needs
        self.tensor_type = tensor_type
        now = mode.current()
        version = _own_version if now.tracer is None else now.tracer.seen_version
        self.module_path = now.module_path
        self.line = "" if now.anomaly is None else users_line()
        self.sequence = next(_SEQUENCE)
        self.released = False
        self.hooks: dict[int, GradientHooks] | None = None
        self.num_outputs = len(outputs)
        self.input_specs = tuple([(t.array.shape, t.array.dtype) for t in inputs])
        self.edges = tuple(
            [edge_of(t) if need else None for t, need in zip(inputs, needs, strict=True)]
        )
        save_inputs, save_outputs = function.saves(needs)
        if function.decompose is not None:
            save_inputs = range(len(inputs))
        self.kept_inputs: dict[int, Any]
        self.kept_outputs: dict[int, Any]
        if now.saved_hooks is not None and function.packs_saved:
            self.kept_inputs = {i: pack(inputs[i]) for i in save_inputs}
            self.kept_outputs = {k: pack(tensor_type(outputs[k])) for k in save_outputs}
            return
        self.kept_inputs = {
            i: Kept(_without_source(inputs[i]), version(inputs[i].array.storage))
            for i in save_inputs
        }
        self.kept_outputs = {k: Kept(outputs[k], version(outputs[k].storage)) for k in save_outputs}

    def keep(self, place: int, tensor: Any) -> None:
        """Save one more tensor, as an input's place behind the inputs'."""
        if mode.current().saved_hooks is not None:
            self.kept_inputs[place] = pack(tensor)
        else:
            self.kept_inputs[place] = Kept(tensor, version_of(tensor.array.storage))

    def unpack(self) -> SavedTensors:
        """The saved tensors; outputs are made anew, on the tape where they were.

        Raises:
            GradientError: if the graph was freed, or a saved tensor was changed in place.
        """
        kept_inputs, kept_outputs = self.kept_inputs, self.kept_outputs
        if self.released:  # asked after they were taken, since another thread may release them
            raise GradientError(
                f"backward of {self.function.name}",
                "its saved tensors were freed by an earlier backward",
                remedy="Pass retain_graph=True to the earlier one",
            )
        tracer = mode.current().tracer
        version_of = _own_version if tracer is None else tracer.seen_version
        for kept in (*kept_inputs.values(), *kept_outputs.values()):
            if kept.version is None:  # packed: nobody else holds it
                continue
            array = getattr(kept.tensor, "array", kept.tensor)
            version = version_of(array.storage)
            if version != kept.version:
                raise GradientError(
                    f"backward of {self.function.name}",
                    "a tensor it saved was changed in place since",
                    shape=array.shape,
                    saved_version=kept.version,
                    version=version,
                    remedy="Change a clone() instead",
                )
        outputs = {
            k: self.tensor_type(
                kept.tensor if kept.version is not None else unpacked(kept).array, self, k
            )
            for k, kept in kept_outputs.items()
        }
        inputs = {
            i: kept.tensor if kept.version is not None else unpacked(kept)
            for i, kept in kept_inputs.items()
        }
        return SavedTensors(inputs, outputs, self.input_specs)

    def release(self) -> None:
        """Let the saved tensors go."""
        self.released = True
        self.kept_inputs = self.kept_outputs = {}


def _without_source(tensor: Any) -> Any:
    """A tensor to keep: a view holds what it is a view of, whose node may lead to the keeper."""
    if tensor.source is None:
        return tensor
    return type(tensor.detach())(tensor.array, tensor.node, tensor.index)


def version_of(storage: Any) -> int:
    """The version of a storage, as the function sees it that is traced, if one is.

    What was written through ``x.data`` is not counted.
    """
    tracer = mode.current().tracer
    return storage.seen_version if tracer is None else tracer.seen_version(storage)


def next_sequence() -> int:
    """A number larger than those of all nodes so far, and smaller than those of later ones."""
    return next(_SEQUENCE)


def leaves_behind(tensors: Sequence[Any]) -> list[Any]:
    """The leaves that a walk back from some tensors would reach."""
    found = {id(x): x for x in tensors if x.node is None and x.requires_grad}
    pending = [x.node for x in tensors if x.node is not None]
    known = {id(node) for node in pending}
    while pending:
        for edge in pending.pop().edges:
            if edge is None:
                continue
            if edge.node is None:
                found[id(edge.leaf)] = edge.leaf
            elif id(edge.node) not in known:
                known.add(id(edge.node))
                pending.append(edge.node)
    return list(found.values())


class no_grad:  # noqa: N801 - PyTorch's name
    """Context in which nothing is recorded on the tape; also a decorator."""

    _grad = False

    def __new__(cls, *given: Any, **settings: Any) -> Any:
        """The context; ``@clnet.no_grad`` without parentheses is the decorator, too."""
        if cls in _BARE and given and callable(given[0]):
            return cls()(given[0])
        return super().__new__(cls)

    def __enter__(self) -> None:
        self._scope = mode.using(grad=self._grad)
        self._scope.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._scope.__exit__(*exc)  # pyright: ignore[reportArgumentType] - the three of a with statement

    def __call__(self, function: Any) -> Any:
        """``function``, run in this context.

        Raises:
            DtypeError: if it is none.
        """
        if not callable(function):
            name = type(self).__name__
            raise DtypeError(name, "it decorates a function", function=shown(function))

        return in_mode(function, grad=self._grad)


class enable_grad(no_grad):  # noqa: N801 - PyTorch's name
    """Context in which ops are recorded, inside a :class:`no_grad` too."""

    _grad = True


_BARE = (no_grad, enable_grad)


class set_grad_enabled(no_grad):  # noqa: N801 - PyTorch's name
    """Context in which ops are recorded, or not, as a flag says; also a decorator.

    Args:
        mode: whether they are, from this call on: until the ``with`` block ends, or for good.
    """

    def __init__(self, mode: bool) -> None:  # noqa: FBT001 - PyTorch's
        self._grad, self._before = mode, is_grad_enabled()
        _change(grad=mode)

    def __enter__(self) -> None:
        _change(grad=self._grad)

    def __exit__(self, *exc: object) -> None:
        _change(grad=self._before)

    def __call__(self, function: Any) -> Any:
        """``function``, run in this context; around it all is as it was."""
        _change(grad=self._before)
        return super().__call__(function)


class inference_mode(no_grad):  # noqa: N801 - PyTorch's name
    """As :class:`no_grad`; with ``mode=False`` a context that changes nothing."""

    def __init__(self, mode: bool = True) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        self._grad = is_grad_enabled() and not mode


def is_grad_enabled() -> bool:
    """Whether ops are recorded on the tape just now."""
    return mode.current().grad


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
    inner = any(x.node is not None for x in inputs or ())
    wanted = None if inputs is None else {id(x) for x in inputs if not x.retains_grad}

    def finish(leaf: Any, whole: Any, shown: set[int]) -> None:
        seen.update(shown)
        add_to_leaves({id(leaf): (leaf, whole)}, wanted, seen, create_graph=create_graph)

    after: list[Callable[[], None]] = []
    with mode.using(after_backward=after):
        found = run_backward(
            roots,
            grads,
            targets=inputs if inner else None,
            retain_graph=retain_graph,
            create_graph=create_graph,
            shown=seen,
            finish=finish if GradientHooks.any_awaits else None,
        )
        with mode.using(grad=create_graph, phase="backward"):
            add_to_leaves(found, wanted, seen, create_graph=create_graph)
    for callback in after:
        callback()


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
    with mode.using(grad=create_graph, phase="backward", autocast=None):
        if finish is not None:
            walk.expect(roots)
        for root, grad in zip(roots, grads, strict=True):
            walk.deliver(edge_of(root), grad)
        walk.run()
        if not stop_at_targets:
            walk.call_hooks_of_leaves()
    if shown is not None:
        shown |= walk.shown
    return walk.found


class _Walk:
    """State of one backward pass."""

    def __init__(
        self,
        targets: Sequence[Any] | None,
        *,
        retain_graph: bool,
        create_graph: bool,
        stop_at_targets: bool = False,
        finish: Finish | None = None,
    ) -> None:
        self._stop = stop_at_targets
        self._finish = finish
        self._awaited: dict[int, int] = {}
        self._finished: list[Any] = []
        self.shown: set[int] = set()
        self.found: dict[int, tuple[Any, Any]] = {}
        self._retain = retain_graph
        self._create = create_graph
        self._pending: dict[int, list[Any]] = {}
        self._heap: list[tuple[int, int, Node]] = []
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
                    if edge.leaf.hooks is not None and edge.leaf.hooks.awaits:
                        self._awaited[id(edge.leaf)] = self._awaited.get(id(edge.leaf), 0) + 1
                elif id(edge.node) not in known:
                    known.add(id(edge.node))
                    pending.append(edge.node)

    def _arrived(self, node: Node) -> None:
        """Hand over the gradients of leaves that the node was the last way to."""
        for edge in node.edges:
            if edge is None or id(edge.leaf) not in self._awaited:
                continue
            self._awaited[id(edge.leaf)] -= 1
            if self._awaited[id(edge.leaf)] == 0 and id(edge.leaf) in self.found:
                leaf, grad = self.found.pop(id(edge.leaf))
                grad = leaf.hooks.run(grad, self.shown)
                if self._is_held(grad):
                    self.shown.add(id(grad.array.storage))
                self._finished.append(leaf)
                self._finish(leaf, grad, self.shown)  # pyright: ignore[reportOptionalCall] - something is awaited

    def _is_held(self, grad: Any) -> bool:
        """Whether other gradients that are on their way lie in the same memory."""
        storage = grad.array.storage
        slots = (g for arrived in self._pending.values() for g in arrived if g is not None)
        others = (g for _, g in self.found.values())
        return any(g.array.storage is storage for g in chain(slots, others))

    def deliver(self, edge: Edge, grad: Any) -> None:
        """Add ``grad`` to what has arrived at an edge."""
        node = edge.node
        if node is None:
            if self._all_leaves or id(edge.leaf) in self._leaves:
                self._collect(edge.leaf, grad)
            return
        slots = self._pending.get(id(node))
        if slots is None:
            slots = self._pending[id(node)] = [None] * node.num_outputs
            heapq.heappush(self._heap, (-node.sequence, id(node), node))
        before = slots[edge.index]
        slots[edge.index] = grad if before is None else before + grad

    def run(self) -> None:
        """Visit nodes until none is pending."""
        while self._heap:
            _, key, node = heapq.heappop(self._heap)
            grads = self._pending.pop(key)
            if node.hooks is not None:
                for index, hooks in node.hooks.items():
                    if grads[index] is not None:
                        grads[index] = hooks.run(grads[index], self.shown)
            inner = self._inner
            places = range(node.num_outputs) if inner else ()
            reached = [i for i in places if (key, i) in inner]
            for index in reached:
                if grads[index] is not None:
                    self._collect(self._inner[key, index], grads[index])
            if reached and self._stop:
                continue
            if self._create or node.module_path == mode.current().module_path:
                results = self._step(node, grads)
            else:
                with mode.using(module_path=node.module_path):
                    results = self._step(node, grads)
            del grads
            for edge, need, grad in zip(node.edges, node.needs, results, strict=True):
                if need and grad is not None and edge is not None:
                    self.deliver(edge, grad)
            if self._awaited:
                del results
                self._arrived(node)

    def call_hooks_of_leaves(self) -> None:
        """Let gradients of leaves pass their hooks; a trace depends on which there are."""
        leaves = [tensor for tensor, _ in self.found.values() if tensor.node is None]
        for leaf in leaves:
            if leaf.hooks is not None:
                grad = self.found[id(leaf)][1]
                self.found[id(leaf)] = (leaf, leaf.hooks.run(grad, self.shown))
        tracer = mode.current().tracer
        if tracer is not None:
            tracer.watch(LeafHooks([*self._finished, *leaves]))

    def _step(self, node: Node, grads: list[Any]) -> tuple[Any, ...]:
        saved = node.unpack()
        function = node.function
        if self._create and function.decompose is not None:
            return _through_decomposition(function, saved, grads, node.needs)
        results = function.backward(saved, tuple(grads), node.needs)
        anomaly = mode.current().anomaly
        if anomaly is not None:
            anomaly.look_back(node, results)
        if not self._retain:
            node.release()
        return results

    def _collect(self, tensor: Any, grad: Any) -> None:
        before = self.found.get(id(tensor))
        self.found[id(tensor)] = (tensor, grad if before is None else before[1] + grad)


def _through_decomposition(
    function: Function, saved: SavedTensors, grads: list[Any], needs: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Gradients of a fused op by differentiating the simpler ops it stands for, with a graph."""
    # Aliases, so that the walk ends there and one input's gradient does not run through another.
    inputs = [alias(saved.inputs[i]) for i in range(len(saved.input_specs))]
    outputs = function.decompose(*inputs)  # pyright: ignore[reportOptionalCall] - only ops that have one come here
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
    """The gradient a walk starts with at a tensor: the one given, or 1.

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
            raise GradientError(
                op_name, "a tensor of several elements needs a gradient", shape=root.shape
            )
        return ones_like(root.detach())
    if gradient.shape != root.shape:
        raise GradientError(
            op_name,
            "the gradient has the tensor's shape",
            shape=root.shape,
            gradient=gradient.shape,
        )
    return gradient


for _switch in (set_grad_enabled, inference_mode):
    checked_class(_switch)
