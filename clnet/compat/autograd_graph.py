"""``autograd.graph``: what PyTorch's users do with what is kept for backward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from types import SimpleNamespace
from typing import Any, NamedTuple

from ..array import Array
from ..autodiff.graph_face import AccumulateGrad
from ..autodiff.tape import Node as Node
from ..errors import ArgumentError, GradientError
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.plain import shown

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """A block in which hooks see each tensor that is kept for backward.

    Only what ``pack_hook`` returns is kept. Both run without a tape. Of blocks within blocks the
    inner one's hooks are called. What a checkpointed function saves is not shown: it is computed
    again. Inside a compiled function hooks run while it is recorded.

    Args:
        pack_hook: called with each tensor, off the tape; returns what is kept in its place.
        unpack_hook: called with that when backward wants the tensor, which it returns; of the
            same shape and dtype.

    Raises:
        GradientError: as the block begins, inside :class:`disable_saved_tensors_hooks`.

    Example:
        >>> import clnet
        >>> x = clnet.tensor([1.0, 2.0], requires_grad=True)
        >>> hooks = clnet.autograd.graph.saved_tensors_hooks
        >>> with hooks(lambda x: x.numpy(), clnet.tensor):
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        """Begin."""
        refused = mode.current().refused_hooks
        if refused is not None:
            raise GradientError("saved_tensors_hooks", refused)
        mode.begin(self, saved_hooks=(self.pack_hook, self.unpack_hook))

    def __exit__(self, *exc: object) -> None:
        """The hooks of before."""
        mode.end(self)


class disable_saved_tensors_hooks(ContextDecorator):  # noqa: N801 - PyTorch's name
    """A block, or a function, in which :class:`saved_tensors_hooks` is refused.

    Args:
        error_message: what the error says.

    Raises:
        GradientError: as the block begins, inside a block of hooks.
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        """Begin."""
        if mode.current().saved_hooks is not None:
            raise GradientError("disable_saved_tensors_hooks", self.error_message)
        mode.begin(self, refused_hooks=self.error_message)

    def __exit__(self, *exc: object) -> None:
        """As before."""
        mode.end(self)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """A block in which what is kept for backward lies in the host's memory until then.

    Args:
        pin_memory: changes nothing.
        device_type: changes nothing: the tensors come back to where they were.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:  # noqa: FBT001, FBT002
        del pin_memory, device_type
        super().__init__(_to_host, _from_host)


def _to_host(x: Tensor) -> Any:
    return x.device, x.dtype, x.numpy().copy()


def _from_host(kept: Any) -> Tensor:
    device, dtype, values = kept
    return tensor(values, device=device, dtype=dtype)


class allow_mutation_on_saved_tensors:  # noqa: N801 - PyTorch's name
    """A block in which what is kept for backward may be overwritten: backward has it as it was.

    What is kept is copied.
    """

    def __init__(self) -> None:
        self._hooks = saved_tensors_hooks(lambda x: x.clone(), lambda x: x)

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        """Begin."""
        self._hooks.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        """End."""
        self._hooks.__exit__(*exc)

    def clear(self) -> None:
        """Nothing is held beside the graph."""


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes; ``autograd.grad`` and ``backward`` take it for the tensor.

    Attributes:
        node: the node that made it, or a leaf's.
        output_nr: which output of it.
        ownership_token: shape, dtype and device of the tensor; None: not known.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None

    def target(self) -> Any:
        """What a walk back knows the tensor by."""
        if isinstance(self.node, AccumulateGrad):
            return self.node.variable
        place = {"node": self.node, "index": self.output_nr}
        return SimpleNamespace(**place, requires_grad=True, retains_grad=True)

    def root(self, gradient: Any) -> Any:
        """What a walk back begins at in place of the tensor: one without memory.

        Args:
            gradient: that it begins with, whose shape the tensor has; None: the edge knows it.

        Raises:
            GradientError: if nothing tells the shape.
        """
        if isinstance(self.node, AccumulateGrad):
            return self.node.variable
        like = gradient if self.ownership_token is None else self.ownership_token
        if like is None:
            law, hint = "an edge made by hand has no shape", "Give the gradient that it begins with"
            raise GradientError("backward", law, edge=self.node.name(), remedy=hint)
        array = Array.abstract(like.shape, like.dtype, like.device)
        return Tensor(array, self.node, self.output_nr)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of a tensor goes.

    Raises:
        GradientError: if it requires none.
    """
    if not tensor.requires_grad:
        raise GradientError("get_gradient_edge", "the tensor requires a gradient")
    if tensor.node is None:
        return GradientEdge(AccumulateGrad(tensor), 0)
    form = SimpleNamespace(shape=tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return GradientEdge(tensor.node, tensor.index, form)


def increment_version(tensor: Any) -> None:
    """Count tensors, one or several, as overwritten."""
    for x in [tensor] if isinstance(tensor, Tensor) else tensor:
        with x.device.lock:
            x.array.storage.written()


class _Together:
    """The gradients of several tensors in one walk back."""

    def __init__(self, tensors: list[Tensor], fn: Callable[..., Any], *, every: bool) -> None:
        self._count, self._fn, self._every = len(tensors), fn, every
        self._awaited = sum(x.requires_grad for x in tensors)
        self._found: dict[int, Any] = {}
        self._called = False
        self._walk: list[Any] | None = None
        self.handles = [
            x.register_hook(self._hook(k)) for k, x in enumerate(tensors) if x.requires_grad
        ]

    def _hook(self, place: int) -> Callable[[Any], None]:
        def arrived(grad: Any) -> None:
            walk = mode.current().walk_ends
            if place in self._found or walk is not self._walk:  # another, or one before that failed
                self._walk = walk
                self._begin()
            after = mode.current().after_backward
            if not self._found and after is not None:
                after.append(self._over)
            self._found[place] = grad
            if not self._every and not self._called:
                self._called = True
                self._fn(grad)
            if len(self._found) == self._awaited:
                self._end()

        return arrived

    def _begin(self) -> None:
        self._found, self._called = {}, False

    def _end(self) -> None:
        """All have come that do."""
        if self._every and self._found and not self._called:
            self._called = True
            self._fn([self._found.get(k) for k in range(self._count)])
        if mode.current().after_backward is None or len(self._found) == self._awaited:
            self._begin()

    def _over(self) -> None:
        """The walk is."""
        self._end()
        self._begin()

    def remove(self) -> None:
        """Take the hook away."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Any, fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call a function when the gradients of several tensors are there.

    Args:
        tensors: some of which require gradients.
        fn: with ``mode="all"`` called with all gradients, once in a walk back, None for those that
            none arrives at; with ``"any"`` with the first.
        mode: one of these.

    Returns:
        A handle whose ``remove()`` takes it away again.

    Raises:
        ArgumentError: if the mode is another.
    """
    if mode not in ("all", "any"):
        law = "mode is 'all' or 'any'"
        raise ArgumentError("register_multi_grad_hook", law, mode=shown(mode))
    return _Together(list(tensors), fn, every=mode == "all")
