"""A place on the tape where the host looks at gradients on their way back, or replaces them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...array import Array
from .function import Function, Grads, Needs, Saved, apply

if TYPE_CHECKING:
    from ...tensor import Tensor


class Boundary(Function):
    """The inputs themselves, as views; their gradients pass through ``passing``, all at once."""

    takes_complex = True

    passing: Callable[[Grads], Grads]

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """A view of each."""
        return tuple(x.view(x.shape, x.strides) for x in inputs)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What ``passing`` makes of the gradients."""
        return self.passing(grads)


def boundary(tensors: Sequence[Tensor], passing: Callable[[Grads], Grads]) -> tuple[Tensor, ...]:
    """Aliases of tensors on the tape, behind which gradients come out of ``passing``.

    Args:
        tensors: any, all of which require gradients.
        passing: called once in a walk back with the aliases' gradients (None where nothing
            arrived); gives those of ``tensors``.
    """
    found = apply(Boundary(passing), *tensors)
    return found if isinstance(found, tuple) else (found,)
