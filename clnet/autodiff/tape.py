"""The tape: nodes that remember how a tensor was made, and the walk back through them.

It knows tensors only by what it was handed; the ops' own gradients are in ``ops``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ..device import users_line
from ..errors import DtypeError, GradientError
from ..ops.machinery.function import Function
from ..values import mode
from ..values.arguments import checked_class, shown
from ..values.mode import change as _change
from ..values.record import NamedTuple
from .decorated import in_mode
from .graph_face import NodeFace
from .saved import Edge, Kept, pack, unpacked

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_SEQUENCE = count()
_new: Callable[..., Any] = tuple.__new__  # of a NamedTuple, without its constructor's frame
_own_version = attrgetter("seen_version")
_FORM = attrgetter("array.form")


class SavedTensors(NamedTuple):
    """What an op's backward reads; see :class:`clnet.ops.machinery.function.Saved`."""

    inputs: dict[int, Any]
    outputs: dict[int, Any]
    input_specs: tuple[tuple[tuple[int, ...], Any], ...]


class Node(NodeFace):
    """One application of an op on the tape.

    A node points to the nodes of its inputs, never to a tensor it made: tensors and nodes form no
    cycle, and memory is released by reference counts alone.

    Attributes:
        kind: as :func:`clnet.ops.machinery.lowering.kind_of` gives it; None: no walk through the
            node is kept, unless it is a view's.
    """

    __slots__ = (
        "_forms",
        "edges",
        "function",
        "hooks",
        "kept_inputs",
        "kept_outputs",
        "kind",
        "known",
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
        kind: Any = None,
    ) -> None:
        self.function = function
        self.kind = kind
        self.needs = needs
        self.tensor_type = tensor_type
        now = mode.current()
        version = None if now.tracer is None else now.tracer.seen_version
        self.module_path = now.module_path
        self.line = "" if now.anomaly is None else users_line()
        self.sequence = next(_SEQUENCE)
        self.released = False
        self.hooks: dict[int, Any] | None = None
        self.num_outputs = len(outputs)
        self._forms = tuple(map(_FORM, inputs))
        edges: list[Edge | None] = []
        for t, need in zip(inputs, needs, strict=True):
            if not need:
                edges.append(None)
                continue
            # As `edge_of`, in a tenth of the time of an op: what is no older view knows its node.
            node = t._node if t.version >= t.array.storage.recorded else t.node
            edges.append(_new(Edge, (None, 0, t) if node is None else (node, t.index, None)))
        self.edges = tuple(edges)
        save_inputs, save_outputs = function.saves(needs)
        if function.decompose is not None:
            save_inputs = range(len(inputs))
        self.kept_inputs: dict[int, Any]
        self.kept_outputs: dict[int, Any]
        if now.saved_hooks is not None and function.packs_saved:
            self.kept_inputs = {i: _packed(function, needs, i, inputs) for i in save_inputs}
            self.kept_outputs = {
                k: pack(tensor_type(outputs[k])) or Kept(outputs[k], version_of(outputs[k].storage))
                for k in save_outputs
            }
            return
        self.kept_inputs = kept_inputs = {}
        self.kept_outputs = kept_outputs = {}
        for i in save_inputs:
            t = inputs[i]
            storage = t.array.storage
            if storage.inference and not now.inference:
                _require_for_saving(function, needs, i, inputs)
            seen = storage.version - storage.unseen if version is None else version(storage)
            kept = t if t.source is None else _without_source(t)
            kept_inputs[i] = _new(Kept, (kept, seen))
        for k in save_outputs:
            array = outputs[k]
            storage = array.storage
            seen = storage.version - storage.unseen if version is None else version(storage)
            kept_outputs[k] = _new(Kept, (array, seen))

    @property
    def input_specs(self) -> tuple[tuple[tuple[int, ...], Any], ...]:
        """Shape and dtype of every input; asked for by plain walks alone."""
        return tuple([(form[2], form[5]) for form in self._forms])

    def keep(self, place: int, tensor: Any) -> None:
        """Save one more tensor, as an input's place behind the inputs'."""
        packed = pack(tensor) if mode.current().saved_hooks is not None else None
        self.kept_inputs[place] = packed or Kept(tensor, version_of(tensor.array.storage))

    def unpack(self, *, whole: bool = True) -> SavedTensors:
        """The saved tensors; outputs are made anew, on the tape where they were.

        Args:
            whole: whether what only gradients of gradients read is needed, too; where not, it may
                have been changed, and is left out.

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
        changed: list[int] = []
        for i, kept in (*kept_inputs.items(), *((-1, kept) for kept in kept_outputs.values())):
            if kept.version is None:  # packed: nobody else holds it
                continue
            array = getattr(kept.tensor, "array", kept.tensor)
            version = version_of(array.storage)
            if version != kept.version:
                if not whole and self._is_spare(i):
                    changed.append(i)
                    continue
                raise GradientError(
                    f"backward of {self.function.name}",
                    "a tensor it saved was changed in place since",
                    shape=array.shape,
                    saved_version=kept.version,
                    version=version,
                    remedy="Change a clone() instead",
                )
        outputs: dict[int, Any] = {}
        for k, kept in kept_outputs.items():
            array = kept.tensor if kept.version is not None else unpacked(kept).array
            outputs[k] = self.tensor_type(array, self, k)
        inputs: dict[int, Any] = {}
        for i, kept in kept_inputs.items():
            if i not in changed:
                inputs[i] = kept.tensor if kept.version is not None else unpacked(kept)
        return SavedTensors(inputs, outputs, self.input_specs)

    def _is_spare(self, place: int) -> bool:
        """Whether an input is saved for gradients of gradients alone."""
        return 0 <= place < len(self.needs) and place not in self.function.saves(self.needs)[0]

    def release(self) -> None:
        """Let the saved tensors go; a node without any may be walked through once more."""
        self.released = self.released or bool(self.kept_inputs or self.kept_outputs)
        self.kept_inputs = self.kept_outputs = {}


def _packed(function: Function, needs: tuple[bool, ...], place: int, inputs: Sequence[Any]) -> Any:
    """An input as it is saved, by the hooks that pack it."""
    tensor = inputs[place]
    if tensor.array.storage.inference and not mode.current().inference:
        _require_for_saving(function, needs, place, inputs)
    return pack(tensor) or _kept(tensor)


def _kept(tensor: Any) -> Kept:
    """An input as it is saved."""
    kept = tensor if tensor.source is None else _without_source(tensor)
    return Kept(kept, version_of(tensor.array.storage))


def _require_for_saving(
    function: Function, needs: tuple[bool, ...], place: int, inputs: Sequence[Any]
) -> None:
    """Refuse to save what ``inference_mode`` made, but for gradients of gradients alone.

    Raises:
        GradientError: if the op's gradient reads it.
    """
    if place in function.saves(needs)[0]:
        raise GradientError(
            function.name,
            "Inference tensors cannot be saved for backward: inference_mode made an operand",
            operand=place,
            shapes=[x.shape for x in inputs],
            remedy="Give a clone() of it, made outside, or make it under no_grad()",
        )


def _without_source(tensor: Any) -> Any:
    """A view to keep: it holds what it is a view of, whose node may lead to the keeper."""
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

    @overload
    def __new__(cls, function: F, /) -> F: ...
    @overload
    def __new__(cls, *given: Any, **settings: Any) -> Self: ...
    def __new__(cls, *given: Any, **settings: Any) -> Any:
        """The context; ``@clnet.no_grad`` without parentheses is the decorator, too."""
        if cls in _BARE and given and callable(given[0]):
            return cls()(given[0])
        return super().__new__(cls)

    def __enter__(self) -> None:
        mode.begin(self, grad=self._grad)

    def __exit__(self, *exc: object) -> None:
        mode.end(self)

    def __call__(self, function: F) -> F:
        """``function``, run in this context.

        Raises:
            DtypeError: if it is none.
        """
        self._check(function)
        return in_mode(function, grad=self._grad)

    def _check(self, function: object) -> None:
        if not callable(function):
            name = type(self).__name__
            raise DtypeError(name, "it decorates a function", function=shown(function))


class enable_grad(no_grad):  # noqa: N801 - PyTorch's name
    """Context in which ops are recorded, inside a :class:`no_grad` too."""

    _grad = True


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

    def __call__(self, function: F) -> F:
        """``function``, run in this context; around it all is as it was."""
        _change(grad=self._before)
        return super().__call__(function)


class inference_mode(no_grad):  # noqa: N801 - PyTorch's name
    """As :class:`no_grad`; with ``mode=False`` as :class:`enable_grad`, as in PyTorch."""

    def __init__(self, mode: bool = True) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        self._changes = {"grad": not mode, "inference": mode}

    def __enter__(self) -> None:
        mode.begin(self, **self._changes)

    def __call__(self, function: F) -> F:
        """``function``, run in this context; raises as :class:`no_grad`."""
        self._check(function)
        return in_mode(function, **self._changes)


def is_grad_enabled() -> bool:
    """Whether ops are recorded on the tape just now."""
    return mode.current().grad


_BARE = (no_grad, enable_grad, inference_mode)

for _switch in (set_grad_enabled, inference_mode):
    checked_class(_switch)
