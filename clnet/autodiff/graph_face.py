"""What programs read of the tape: names of nodes, and where their gradients go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import GradientError
from ..values import mode
from .tensor_hook import HookHandle, Table, add_hooks

OF_NODE = -1
"""Where a node's hooks hold those that see all its gradients, beside those of its outputs."""


class NodeHooks:
    """Functions that see what a node is given in a walk back, and what it gives."""

    def __init__(self) -> None:
        self.first, self.last = Table(), Table()

    def before(self, grads: list[Any], shown: set[int]) -> list[Any]:
        """What arrives at the node, once the hooks have seen it."""
        for hook in list(self.first.values()):
            given = hook(tuple(grads))
            if given is not None:
                grads = _several("register_prehook", given, len(grads))
        _show(grads, shown)
        return grads

    def after(self, results: Any, grads: list[Any], shown: set[int]) -> Any:
        """What the node gives, once the hooks have seen it."""
        for hook in list(self.last.values()):
            given = hook(tuple(results), tuple(grads))
            if given is not None:
                results = _several("register_hook", given, len(results))
        _show([*results, *grads], shown)
        return results


def _several(name: str, given: Any, count: int) -> list[Any]:
    found = list(given) if isinstance(given, tuple | list) else [given]
    if len(found) != count:
        law = "a node's hook gives None, or as many gradients as it was given"
        raise GradientError(name, law, given=len(found), gradients=count)
    return found


def _show(grads: list[Any], shown: set[int]) -> None:
    shown.update(id(g.array.storage) for g in grads if g is not None)


def _unchanged() -> None:
    """Nothing has to know that the hooks are others."""


class AccumulateGrad:
    """Stands in a graph where a gradient is added to a leaf's.

    Attributes:
        variable: the leaf.
    """

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """None: the graph ends here."""
        return ()

    @property
    def metadata(self) -> dict[Any, Any]:
        """What programs note of the place."""
        return add_hooks("metadata", self.variable).known

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Call ``fn((), (gradient,))`` when that gradient was added to the leaf's."""
        hooks = add_hooks("register_hook", self.variable)

        def behind(leaf: Any) -> None:
            fn((), (leaf.hooks.incoming,))

        return hooks.add_accumulated(behind)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Call ``fn((gradient,))`` before, behind the leaf's hooks; it may give another."""

        def one(grad: Any) -> Any:
            given = fn((grad,))
            return given[0] if isinstance(given, tuple) else given

        return add_hooks("register_prehook", self.variable).add_last(one)

    def name(self) -> str:
        """As PyTorch calls it."""
        return "struct torch::autograd::AccumulateGrad"

    def __call__(self, grad: Any) -> tuple[Any, ...]:
        """Add a gradient to the leaf's, without its hooks; there is nothing behind it."""
        before = self.variable.grad
        with mode.using(grad=False):
            self.variable.grad = grad.detach() if before is None else before + grad
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash(("AccumulateGrad", id(self.variable)))

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


_OPERANDS: dict[str, tuple[str, ...]] = {
    "": ("self", "other"),
    "pow": ("self", "exponent"),
    "matmul": ("self", "mat2"),
    "addmm": ("self", "mat1", "mat2"),
    "where": ("condition", "self", "other"),
    "conv2d": ("input", "weight", "bias"),
}
"""What PyTorch calls the operands of an op that its node may save."""


class NodeFace:
    """What a node says of itself; :class:`.tape.Node` is one."""

    __slots__ = ()
    edges: tuple[Any, ...]
    function: Any
    hooks: Any
    known: dict[Any, Any]
    needs: tuple[bool, ...]
    kept_inputs: dict[int, Any]
    kept_outputs: dict[int, Any]
    num_outputs: int
    released: bool
    unpack: Callable[..., Any]

    def name(self) -> str:
        """``"MulBackward0"``: the op's name, as in a tensor's text."""
        return shown_name(self.function)

    def __call__(self, *grads: Any) -> Any:
        """Gradients of the inputs from those of the outputs, as a walk back gets them.

        Nothing is freed, hooks are not called, and of a fused op the results are off the tape.

        Args:
            *grads: one of each output's shape; None: nothing arrived.

        Returns:
            The gradient of the one input, or a tuple, with None for what needs none.

        Raises:
            GradientError: if there are more or fewer, or what was saved was freed or changed.
        """
        if len(grads) != self.num_outputs:
            law, hint = "each output has a gradient, or None", "Pass as many"
            found, wanted = len(grads), self.num_outputs
            raise GradientError(self.name(), law, given=found, outputs=wanted, remedy=hint)
        if all(g is None for g in grads):
            return None if len(self.needs) == 1 else (None,) * len(self.needs)
        fused = self.function.decompose is not None
        with mode.using(grad=mode.current().grad and not fused):
            found = self.function.backward(self.unpack(whole=False), grads, self.needs)
        return found[0] if len(found) == 1 else tuple(found)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input the node that its gradient goes to, or None, and the output of it."""
        return tuple(
            (None, 0)
            if edge is None
            else (AccumulateGrad(edge.leaf) if edge.node is None else edge.node, edge.index)
            for edge in self.edges
        )

    @property
    def metadata(self) -> dict[Any, Any]:
        """What programs note of the node."""
        try:
            return self.known
        except AttributeError:
            self.known = {}
            return self.known

    def register_hook(self, fn: Callable[..., Any]) -> HookHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` when a walk back has come through the node.

        Args:
            fn: gives None, or other gradients of the inputs, in a tuple.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return HookHandle(self._own_hooks().last, fn, _unchanged)

    def register_prehook(self, fn: Callable[..., Any]) -> HookHandle:
        """Call ``fn(grad_outputs)`` when a walk back has come to the node.

        Args:
            fn: gives None, or other gradients of the outputs, in a tuple.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return HookHandle(self._own_hooks().first, fn, _unchanged)

    def _places_of_saved(self) -> dict[str, tuple[bool, int]]:
        """What the node saved, by PyTorch's names: whether it is an input, and which."""
        names = _OPERANDS.get(self.function.name, _OPERANDS[""])
        found = {f"_saved_{n}": (True, k) for k, n in enumerate(names) if k in self.kept_inputs}
        several = self.num_outputs > 1
        for k in self.kept_outputs:
            found[f"_saved_result{k if several else ''}"] = (False, k)
        return found

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._places_of_saved()]

    def __getattr__(self, name: str) -> Any:
        """``_saved_self`` and its like: a tensor that backward will read.

        Raises:
            AttributeError: if there is none of that name.
            GradientError: if they were freed, or changed in place.
        """
        if name.startswith("_saved_"):
            if self.released:
                self.unpack()
            if (place := self._places_of_saved().get(name)) is not None:
                saved = self.unpack(whole=False)
                return (saved.inputs if place[0] else saved.outputs)[place[1]]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _own_hooks(self) -> NodeHooks:
        if self.hooks is None:
            self.hooks = {}
        return self.hooks.setdefault(OF_NODE, NodeHooks())

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def shown_name(function: Any) -> str:
    """An op's name in the text of a tensor that it made: ``"MulBackward0"``.

    A program's own functions have none of PyTorch's numbers behind it.
    """
    own = getattr(function, "own", None)
    if own is not None:
        return f"{own.__name__}Backward"
    return f"{''.join(word.capitalize() for word in function.name.split('_'))}Backward0"
