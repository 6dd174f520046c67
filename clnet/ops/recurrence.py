"""All steps of a recurrent layer as one op: a product and a fused launch over the gates in each.

A GPU takes a step, or where the weights are small all, in one launch (:mod:`..kernels.recurrent`).

The gradient walks back over the steps; that of the weights is one product over all of them. Both
directions of a layer may go side by side, each step of the two in the same launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..kernels.epilogue import Epilogue
from ..kernels.gemm import gemm, pack_for
from ..kernels.moving import copy
from ..kernels.pointwise import pointwise as launch_pointwise
from ..kernels.recurrent import (
    Step,
    Steps,
    recurrence_step,
    recurrence_step_backward,
    turned_over,
)
from ..kernels.recurrent import recurrence as launch_recurrence
from ..kernels.recurrent import recurrence_backward as launch_recurrence_backward
from ..values.dtypes import from_name
from ..values.record import NamedTuple
from .join import cat, stack
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply
from .matmul import MatMul, linear, matmul
from .rearrange import flip, select
from .rnn import Cell, gate_gradients, gate_results, gate_views, gru_gates, lstm_gates
from .shape import contiguous, narrow, reshape, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


class Recurrence(Function):
    """The states after every step, in one direction or several layers' at once.

    Inputs are the gates' shares of the sequence, ``(steps, n, gates * hidden)``, the first states,
    ``(n, hidden)``, the recurrent weight, and its bias or none. Outputs are the hidden states, of
    an LSTM the cell states, and the gates' shares of the hidden states, which backward reads. All
    but the sequence may begin with an axis of layers that know nothing of each other; the
    sequence's follows its steps.
    """

    sixteen_bit = False
    repeats = True

    cell: Cell
    backwards: bool

    @property
    def name(self) -> str:
        """The cell's, for a sequence."""
        return self.cell.value[0].replace("cell", "sequence")

    @property
    def differentiable(self) -> tuple[int, ...]:
        """The states."""
        return tuple(range(self.cell.results))

    def infer(self, x: Array, *rest: Array) -> tuple[Array, ...]:
        """Dense outputs; saved shares of 16-bit gates stay wide."""
        states = (
            Array.abstract((x.shape[0], *rest[0].shape), x.dtype, x.device)
            for _ in range(self.cell.results)
        )
        shares = Array.abstract(x.shape, from_name(x.dtype.compute), x.device)
        return (*states, shares)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch, or one for each step, or a product and one over the gates for each."""
        count, exprs = self.cell.results, gate_results(self.cell)
        x, (weight, *_) = inputs[0], inputs[1 + count :]
        together = Steps.of(target, x, weight, count, inputs[1:])
        if together is not None:
            return launch_recurrence(
                target, together, outputs, inputs, exprs, backwards=self.backwards
            )
        alone = Step.of(target, x, weight, count, (*inputs[1:], *outputs))
        if alone is not None:
            return self._by_steps(target, alone, outputs, inputs)
        return self._by_products(target, outputs, inputs)

    def _by_steps(
        self, target: Target, alone: Step, outputs: Arrays, inputs: Arrays
    ) -> list[Launch]:
        count, exprs = self.cell.results, gate_results(self.cell)
        x, states, (weight, *bias) = inputs[0], inputs[1 : 1 + count], inputs[1 + count :]
        launches, columns = turned_over(target, weight, x)
        for t in order(x.shape[0], backwards=self.backwards):
            made = tuple(step(y, t) for y in outputs)
            read = (step(x, t), *states, columns, *bias)
            launches.append(recurrence_step(alone, made, read, exprs))
            states = made[:-1]
        return launches

    def _by_products(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """For each step a product, then a launch that reads every gate in place."""
        count = self.cell.results
        x, (weight, *bias) = inputs[0], inputs[1 + count :]
        columns = _turned(weight)
        compute, exprs = from_name(x.dtype.compute), gate_results(self.cell)
        states = inputs[1 : 1 + count]
        launches, panels = pack_for(target, step(outputs[-1], 0), states[0], columns)
        own = bias[0] if bias else None
        several = False
        if own is not None and own.ndim > 1:
            # Each product adds to what lies there, since its items' biases differ.
            several = True
            strides = (0, own.strides[0], 0, own.strides[1])
            launches += copy(target, outputs[-1], own.view(x.shape, strides))
        epilogue = Epilogue(None if several else own)
        for t in order(x.shape[0], backwards=self.backwards):
            share = step(outputs[-1], t)
            launches += gemm(
                target, share, states[0], columns, beta=float(several), epilogue=epilogue,
                panels=panels,
            )  # fmt: skip
            gates = (*gate_views(step(x, t), self.cell), *gate_views(share, self.cell))
            made = tuple(step(y, t) for y in outputs[:-1])
            launches += launch_pointwise(target, made, (*gates, states[-1]), exprs, compute=compute)
            states = made
        return launches

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The inputs and the outputs."""
        return range(len(needs)), range(self.cell.results + 1)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The walk back as one op, then a product and a sum over all steps."""
        count = self.cell.results
        arrived = tuple(g is not None for g in grads[:count])
        operands = [saved.inputs[i] for i in range(2 + count)]
        operands += [saved.outputs[k] for k in range(count + 1)]
        operands += [contiguous(g) for g in grads[:count] if g is not None]
        function = RecurrenceBackward(self.cell, self.backwards, arrived)
        gx, *found = apply(function, *operands)
        gshares = found.pop() if len(found) > count else gx
        gweight = gbias = None
        if needs[1 + count]:
            gweight = self._of_weight(gshares, saved.outputs[0], saved.inputs[1])
        if needs[-1]:
            gbias = gshares.sum((0, gshares.ndim - 2))
        return (gx, *found, gweight, gbias)[: len(needs)]

    def _of_weight(self, gshares: Tensor, y: Tensor, first: Tensor) -> Tensor:
        """One product of what each step gave back with the state that it read."""
        begin, steps = unsqueeze(first, 0), y.shape[0]
        others = narrow(y, 0, 1 if self.backwards else 0, steps - 1)
        read = cat([others, begin] if self.backwards else [begin, others])
        rows, given = (_over_steps(t) for t in (gshares, read))
        return apply(MatMul(f"{self.name}_weight"), rows.transpose(-1, -2), given)

    def decompose(self, x: Tensor, *rest: Tensor) -> tuple[Any, ...]:
        """Step by step."""
        count = self.cell.results
        states: tuple[Any, ...] = rest[:count]
        weight, *bias = rest[count:]
        made: list[tuple[Any, ...]] = []
        for t in order(x.shape[0], backwards=self.backwards):
            share = _share(states[0], weight, bias[0] if bias else None)
            if self.cell is Cell.LSTM:
                states = lstm_gates(x[t], share, states[1])  # pyrefly: ignore[bad-index] - with two states
            else:
                states = (gru_gates(x[t], share, states[0]),)
            made.append((*states, share))
        in_time = made[::-1] if self.backwards else made
        return tuple(stack([each[k] for each in in_time]) for k in range(count + 1))


class RecurrenceBackward(Function):
    """Gradients of the gates' shares and of the first states of :class:`Recurrence`.

    Its inputs are those of :class:`Recurrence` but the bias, its outputs, and the gradients of the
    states that ``arrived``. Its outputs are the gradients of the sequence's shares, of the first
    states, and, where they differ from the sequence's, of the hidden states' shares.
    """

    sixteen_bit = False
    repeats = True

    cell: Cell
    backwards: bool
    arrived: tuple[bool, ...]

    @property
    def name(self) -> str:
        """The cell's, for a sequence, and that it is its gradient."""
        return self.cell.value[0].replace("cell", "sequence_backward")

    def infer(self, x: Array, *rest: Array) -> tuple[Array, ...]:
        """Dense outputs shaped as what they are gradients of."""
        exprs = gate_gradients(self.cell, self.arrived)
        of = [x, *rest[: self.cell.results]]
        of += [x] if len(exprs) > self.cell.gates + 1 else []
        return tuple(Array.abstract(a.shape, a.dtype, a.device) for a in of)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch; or for each step, the last first, one over the gates, and a product.

        The gradients of the first states hold those of each step's on the way. The product of one
        step and the gates of the next are one launch where :class:`.Step` says so.
        """
        cell, own = self.cell, _Saved.of(self.cell, self.arrived, inputs)
        together = Steps.of(target, own.x, own.weight, cell.results, inputs[1:], back=True)
        if together is not None:
            return launch_recurrence_backward(
                together,
                outputs,
                (own.x, own.first[-1], own.weight, own.made[-1], own.shares),
                own.arriving,
                gate_gradients(cell, tuple(1 + arrived for arrived in self.arrived)),
                backwards=self.backwards,
            )
        others = (*inputs[1:], *outputs)
        alone = Step.of(target, own.x, own.weight, cell.results, others, back=True)
        written = (outputs[0], *outputs[1 + cell.results :])  # of the sequence's, the states' share
        panels, launches = None, []
        if alone is None:
            running = outputs[1]
            launches, panels = pack_for(target, running, step(written[-1], 0), own.weight)
        walk = order(own.x.shape[0], backwards=not self.backwards)
        for behind, t, before in zip([None, *walk], walk, [*walk[1:], None], strict=False):
            if behind is None or alone is None:
                launches += self._gates(target, own, outputs, t, before, first=behind is None)
            else:
                launches.append(self._step(alone, own, outputs, behind, t, before))
            if before is None or alone is None:
                # With one state, the gradient that does not run through the gates is there already.
                launches += gemm(
                    target, outputs[1], step(written[-1], t), own.weight,
                    beta=float(cell.results == 1), panels=panels,
                )  # fmt: skip
        return launches

    def _gates(
        self,
        target: Target,
        own: _Saved,
        outputs: Arrays,
        t: int,
        before: int | None,
        *,
        first: bool,
    ) -> list[Launch]:
        """Gradients of a step's gates, of what arrived and, but at the first, of what ran back."""
        cell = self.cell
        running = outputs[1 : 1 + cell.results]
        written = (outputs[0], *outputs[1 + cell.results :])
        terms = [
            ([] if g is None else [step(g, t)]) + ([] if first else [held])
            for g, held in zip(own.arriving, running, strict=True)
        ]
        gates = (*gate_views(step(own.x, t), cell), *gate_views(step(own.shares, t), cell))
        into = [g for share in written for g in gate_views(step(share, t), cell)]
        return launch_pointwise(
            target,
            (*into, running[-1]),
            (*gates, own.read_by(before), *(a for term in terms for a in term)),
            gate_gradients(cell, tuple(map(len, terms))),
            compute=from_name(own.x.dtype.compute),
        )

    def _step(
        self, alone: Step, own: _Saved, outputs: Arrays, behind: int, t: int, before: int | None
    ) -> Launch:
        """The product of the step behind, and the gradients of this step's gates."""
        cell = self.cell
        gx, back, others = outputs[0], outputs[cell.results], outputs[1 + cell.results :]
        slopes = step(others[0] if others else gx, behind)
        return recurrence_step_backward(
            alone,
            (step(gx, t), back, *(step(share, t) for share in others)),
            (slopes, own.weight, step(own.x, t), step(own.shares, t), own.read_by(before)),
            [None if g is None else step(g, t) for g in own.arriving],
            gate_gradients(cell, tuple(1 + arrived for arrived in self.arrived)),
        )


class _Saved(NamedTuple):
    """The inputs of :class:`RecurrenceBackward` by name.

    Attributes:
        x: the gates' shares of the sequence.
        first: the first states.
        weight: the recurrent one.
        made: the states after every step.
        shares: the hidden states' shares of the gates.
        arriving: gradients of ``made``, None where none arrived.
    """

    x: Array
    first: Arrays
    weight: Array
    made: Arrays
    shares: Array
    arriving: list[Array | None]

    def read_by(self, before: int | None) -> Array:
        """The last of the states that a step read: of the step before it, or of none."""
        return self.first[-1] if before is None else step(self.made[-1], before)

    @classmethod
    def of(cls, cell: Cell, arrived: tuple[bool, ...], inputs: Arrays) -> _Saved:
        """What lies where: ``x, *first, weight, *made, shares`` and the gradients that arrived."""
        left = iter(inputs)

        def states() -> Arrays:
            return tuple(next(left) for _ in range(cell.results))

        x, first, weight, made, shares = next(left), states(), next(left), states(), next(left)
        return cls(x, first, weight, made, shares, [next(left) if a else None for a in arrived])


def recurrence(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    weight: Tensor,
    bias: Tensor | None,
    *,
    backwards: bool,
) -> tuple[Tensor, ...]:
    """The states after every step, ``(steps, n, hidden)`` each.

    Args:
        cell: its kind.
        x: the gates' shares of the sequence, ``(steps, n, gates * hidden)``, one step or more.
        states: the first ones, ``(n, hidden)``.
        weight: ``(gates * hidden, hidden)``.
        bias: ``(gates * hidden,)`` or None.
        backwards: whether the last step comes first.

    All but the steps may have another axis before theirs: layers that know nothing of each other.
    """
    operands = [contiguous(x), *map(contiguous, states), weight, *([] if bias is None else [bias])]
    return apply(Recurrence(cell, backwards), *operands)[: cell.results]


def both_directions(
    cell: Cell, x: Tensor, states: Sequence[Tensor], weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The hidden states of a layer that reads a sequence in both directions, and the last states.

    The two directions go side by side, the second over the sequence turned round.

    Args:
        cell: its kind.
        x: the gates' shares of the sequence, ``(steps, n, 2 * gates * hidden)``, the forward
            direction's first.
        states: the first ones, ``(2, n, hidden)``.
        weight: ``(2, gates * hidden, hidden)``.
        bias: ``(2, gates * hidden)`` or None.

    Returns:
        ``(steps, n, 2 * hidden)``, and ``(2, n, hidden)`` each.
    """
    rows = x.shape[-1] // 2
    forth, back = narrow(x, 2, 0, rows), flip(narrow(x, 2, rows, rows), 0)
    made = recurrence(cell, stack([forth, back], 1), states, weight, bias, backwards=False)
    ways = [select(made[0], 1, way) for way in range(2)]
    return cat([ways[0], flip(ways[1], 0)], -1), tuple(select(y, 0, -1) for y in made)


def side_by_side(x: Tensor) -> bool:
    """Whether a device gains by :func:`both_directions`: where launches are what steps cost."""
    return x.device.traits.dedicated_local_memory


def step(x: Array, t: int) -> Array:
    """A view of one step."""
    return x.view(x.shape[1:], x.strides[1:], x.offset + t * x.strides[0])


def order(steps: int, *, backwards: bool) -> list[int]:
    """The steps in the order they are taken."""
    return list(range(steps))[:: -1 if backwards else 1]


def _turned(weight: Array) -> Array:
    (*lead, rows, columns), (*steps, down, across) = weight.shape, weight.strides
    return weight.view((*lead, columns, rows), (*steps, across, down))


def _over_steps(x: Tensor) -> Tensor:
    """All steps' rows one after the other, of each layer if there are several."""
    if x.ndim == 3:
        return reshape(x, (-1, x.shape[-1]))
    return reshape(x.transpose(0, 1), (x.shape[1], -1, x.shape[-1]))


def _share(state: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.ndim == 2:
        return linear(state, weight, bias)
    product = matmul(state, weight.transpose(-1, -2))
    return product if bias is None else product + unsqueeze(bias, -2)
