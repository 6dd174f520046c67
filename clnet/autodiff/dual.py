"""Tensors that carry a tangent: forward mode, op by op.

A dual tensor's array is a :class:`Dual`: the same elements, and how they move. An op on such gives
dual results; their tangents are the op's gradient applied twice, since that is linear in what
arrives: no op needs a rule of its own. Writes in place give a tensor another tangent; others that
share its memory have none any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..array import Array
from ..errors import GradientError
from ..ops.create import MakeInto, zeros_like
from ..ops.machinery.function import Function, results_of
from ..ops.machinery.pointwise import Overwrite
from ..ops.shape import CopyInto, alias, expand, to_dtype
from ..tensor import Tensor
from ..values import mode
from .batched import SAME, applied
from .tape import version_of
from .walk import run_backward

__all__ = ["Dual", "DualLevel", "dual", "parts_of_dual", "tangents_of"]


class DualLevel:
    """One ``dual_level`` under way.

    Args:
        depth: how many levels, and batches, are around it.
    """

    randomness, size = SAME, 1
    applied = staticmethod(applied)

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def of_elements(self, function: Function, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """An op's results and their tangents.

        Raises:
            GradientError: if it overwrites something else than what carries a tangent.
        """
        if any(x.dtype.is_complex for x in inputs) and not function.takes_complex:
            found = function.of_complex(*inputs)
            return found if isinstance(found, tuple) else (found,)
        pairs = [parts_of_dual(x, self) for x in inputs]
        if function.mutates:
            self._overwrite(function, inputs, pairs)
            return ()
        made, moved = tangents_of(
            lambda *xs: results_of(function, *xs), [p for p, _ in pairs], [t for _, t in pairs]
        )
        return tuple(y if t is None else dual(y, t, self) for y, t in zip(made, moved, strict=True))

    def _overwrite(
        self, function: Function, inputs: tuple[Any, ...], pairs: list[tuple[Tensor, Any]]
    ) -> None:
        """Write a tensor and its tangent.

        What shares the memory, a view or what it is a view of, has a tangent of its own, which is
        not written: that is refused when it is used (:func:`parts_of_dual`).
        """
        (target, *_), ((primal, before), *operands) = inputs, pairs
        made: Any = None
        hint = "Use the op that returns a new tensor"
        if before is None:
            law = "a tensor without a tangent is not overwritten by what has one"
            raise GradientError(function.name, law, remedy=hint)
        if isinstance(function, Overwrite):
            op, (values, moves) = function.function, zip(*operands, strict=True)
            _, (made,) = tangents_of(lambda *xs: results_of(op, *xs), values, moves)
        elif isinstance(function, CopyInto):
            made = operands[0][1]
        elif not isinstance(function, MakeInto):
            law = "a tensor with a tangent is not changed in place"
            raise GradientError(function.name, law, remedy=hint)
        moved = zeros_like(before) if made is None else to_dtype(made, primal.dtype)
        results_of(function, primal, *(x for x, _ in operands))
        target.array = dual(primal, expand(moved, primal.shape), self).array


class Dual(Array):
    """The elements of a tensor, and how they move.

    Attributes:
        seen: the version of the memory that the tangent belongs to.
        whole: the tensor without its tangent.
        tangent: a tensor of its shape.
        level: which level.
    """

    __slots__ = ("level", "seen", "tangent", "whole")
    seen: int
    whole: Tensor
    tangent: Tensor
    level: DualLevel

    def off_tape(self) -> Array:
        return self.whole.detach().array

    def require_alone(self) -> None:
        """Refuse to walk back from, or to, what carries a tangent.

        Raises:
            GradientError: always.
        """
        hint = "Take unpack_dual(x).primal, or .tangent"
        raise GradientError("backward", "the tensor carries no tangent", remedy=hint)


def dual(primal: Tensor, tangent: Tensor, level: DualLevel) -> Tensor:
    """A tensor with a tangent."""
    made, inner = object.__new__(Dual), primal.array
    Array.__init__(made, inner.storage, inner.shape, inner.strides, inner.offset, inner.dtype)
    made.whole, made.tangent, made.level = primal, tangent, level
    made.seen = version_of(inner.storage)
    x = Tensor(made)
    x._requires_grad = True  # ops keep what gradients need
    return x


def parts_of_dual(x: Tensor, level: Any) -> tuple[Tensor, Tensor | None]:
    """A tensor without its tangent, and that, if it has one of a level.

    Raises:
        GradientError: if its memory was written through another tensor since.
    """
    array: Any = x.array
    if type(array) is Dual and array.level is level:
        if array.seen != version_of(array.storage):
            law = "the memory of a tensor with a tangent was written through another"
            raise GradientError("forward_ad", law, shape=x.shape, remedy="Take the view again")
        return array.whole, array.tangent
    return x, None


def tangents_of(
    call: Callable[..., Sequence[Tensor]],
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor | None],
) -> tuple[Sequence[Tensor], list[Tensor | None]]:
    """What a function gives, and for each result its tangent, or None.

    Args:
        call: of tensors, gives several; differentiable twice.
        primals: its arguments.
        tangents: how they move; None: not at all.
    """
    with mode.using(grad=True):
        given = [
            x if t is None else (alias(x) if x.requires_grad else x.detach().requires_grad_())
            for x, t in zip(primals, tangents, strict=True)
        ]
        made = call(*given)
        places = [k for k, y in enumerate(made) if y.requires_grad and y.node is not None]
        probes = {k: zeros_like(made[k].detach()).requires_grad_() for k in places}
        pairs = [(x, t) for x, t in zip(given, tangents, strict=True) if t is not None]
        back = _walked([made[k] for k in places], [*probes.values()], [x for x, _ in pairs])
        ends = [
            (g, t) for (x, t) in pairs if (g := back.get(id(x))) is not None and g.requires_grad
        ]
        moved = _walked([g for g, _ in ends], [t for _, t in ends], [*probes.values()])
    nested = mode.current().grad and any(
        x is not None and x.requires_grad for x in (*primals, *tangents)
    )
    if nested:
        return made, [_moved(moved, probes, k) for k in range(len(made))]
    found = [_moved(moved, probes, k) for k in range(len(made))]
    return [y.detach() for y in made], [None if t is None else t.detach() for t in found]


def _moved(moved: dict[int, Any], probes: dict[int, Tensor], place: int) -> Tensor | None:
    probe = probes.get(place)
    if probe is None:
        return None
    found = moved.get(id(probe))
    return zeros_like(probe.detach()) if found is None else found


def _walked(roots: list[Any], grads: list[Any], targets: list[Any]) -> dict[int, Any]:
    """Gradients by the ``id`` of a target, recorded."""
    if not roots:
        return {}
    found = run_backward(roots, grads, targets=targets, retain_graph=True, create_graph=True)
    return {key: grad for key, (_, grad) in found.items()}
