"""What programs read of the tape: names of nodes, and where their gradients go."""

from __future__ import annotations

from typing import Any


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

    def name(self) -> str:
        """As PyTorch calls it."""
        return "struct torch::autograd::AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash(("AccumulateGrad", id(self.variable)))

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


class NodeFace:
    """What a node says of itself; :class:`.tape.Node` is one."""

    __slots__ = ()
    edges: tuple[Any, ...]
    function: Any

    def name(self) -> str:
        """``"MulBackward0"``: the op's name, as in a tensor's text."""
        return shown_name(self.function)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input the node that its gradient goes to, or None, and the output of it."""
        return tuple(
            (None, 0)
            if edge is None
            else (AccumulateGrad(edge.leaf) if edge.node is None else edge.node, edge.index)
            for edge in self.edges
        )

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
