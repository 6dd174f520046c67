"""All steps of a recurrent layer in one launch, where that beats a product in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...array import Array
from ...device import DeviceTraits, Launch, Scratch, Target
from ...expr import Expr, flops, print_c
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups
from ..kernel import Kernel, Named, by_name, joined, nbytes_of
from ..moving import copy

__all__ = ["Steps", "recurrence", "recurrence_backward"]

FORWARD = Kernel("recurrence", "recurrent/recurrence.mako")
BACKWARD = Kernel("recurrence_backward", "recurrent/recurrence.mako")

_FOUR = 4
# Every group reads all weights in each step, so they must stay in its caches.
_NEAR_BYTES = 2**20
# Of many rows, an item's sums take the registers that more items would need.
_MOST_ROWS, _FEW_ROWS, _WARP = 16, 8, 32
_MOST_ITEMS, _FEW_ITEMS = 1024, 512
# Of a unit of NVIDIA's GPUs, and of an item at most; how many it needs beside weights, sums and
# what it has read.
_REGISTERS, _MOST_REGISTERS, _OWN_REGISTERS = 65_536, 255, 25
# Of more rows, forward and on the walk back, all the registers are wanted for sums; and where not
# all other weights are near, less than an eighth of them gains nothing.
_MOST_ROWS_HELD, _MOST_ROWS_HELD_BACK, _LEAST_HELD = 4, 2, 8


class Layers(NamedTuple):
    """Layers whose steps a GPU's kernels take.

    Attributes:
        layers: that know nothing of each other.
        n: examples.
        size: of a state.
        gates: of a cell.
    """

    layers: int
    n: int
    size: int
    gates: int

    @classmethod
    def of(
        cls, target: Target, x: Array, weight: Array, others: Sequence[Array | None]
    ) -> Layers | None:
        """None where the device is no GPU, or arrays are not dense, of float32, and of fours.

        Args:
            target: what the device is like.
            x: the gates' shares of the sequence, ``(steps, [layers,] n, gates * size)``.
            weight: ``([layers,] gates * size, size)``.
            others: further arrays.
        """
        size, arrays = weight.shape[-1], [x, weight, *(a for a in others if a is not None)]
        if not in_groups(target.traits) or size % _FOUR:
            return None
        if not all(a.contiguous and a.dtype is float32 and a.size for a in arrays):
            return None
        return cls(x.shape[1] if x.ndim > 3 else 1, x.shape[-2], size, x.shape[-1] // size)


class Steps(NamedTuple):
    """How the steps of a layer are shared out.

    Attributes:
        layers: that know nothing of each other.
        n: examples.
        size: of a state.
        gates, states: of a cell.
        rows: examples of a group.
        slices: parts of each sum, which different items make.
        group: work-items of a group.
        near: whether the weights lie in local memory, but for those held.
        held: terms of an item's sum whose weights are in its registers.
    """

    layers: int
    n: int
    size: int
    gates: int
    states: int
    rows: int
    slices: int
    group: int
    near: bool
    held: int

    @classmethod
    def of(
        cls,
        target: Target,
        x: Array,
        weight: Array,
        states: int,
        others: Sequence[Array | None],
        *,
        back: bool = False,
    ) -> Steps | None:
        """None where a product in each step is better, or all there is.

        Args:
            target: what the device is like.
            x: the gates' shares of the sequence, ``(steps, [layers,] n, gates * size)``.
            weight: ``([layers,] gates * size, size)``.
            states: of a cell.
            others: further operands, which have to be dense as ``x`` has.
            back: whether it is the walk back.
        """
        known = Layers.of(target, x, weight, others)
        if known is None:
            return None
        traits, (layers, n, size, gates) = target.traits, known
        if weight.nbytes // layers > _NEAR_BYTES:
            return None
        row, room = gates * size, traits.static_local_bytes // float32.itemsize
        wanted = min(ceil_div(layers * n, traits.compute_units), _MOST_ROWS, room // (2 * row))
        if wanted < 1:
            return None
        rows = 1 << (wanted - 1).bit_length() if 2 * row * 2 * wanted <= room else wanted
        most = min(_MOST_ITEMS if rows <= _FEW_ROWS else _FEW_ITEMS, traits.max_group_size)
        fitting = (s for s in (8, 4, 2) if size % (_FOUR * s) == 0 and s * row // 2 <= most)
        slices = next((s for s in fitting if (1 + s) * rows * row <= room), 1)
        group = min(round_up(slices * row // 2, _WARP), most)
        bare = cls(layers, n, size, gates, states, rows, slices, group, near=False, held=0)
        steps = bare._replace(held=bare._most_held(traits, back=back))
        if not steps._fits(room) and _LEAST_HELD * steps.held < size // slices:
            steps = bare
        steps = steps._replace(near=steps._fits(room))
        if back and not steps.near and weight.offset % 2:  # its rows are read in twos
            return None
        return steps

    def _most_held(self, traits: DeviceTraits, *, back: bool) -> int:
        """Terms of a sum whose weights an item's registers have room for beside all else."""
        items = self.slices * self.gates * self.size // 2
        rows = _MOST_ROWS_HELD_BACK if back else _MOST_ROWS_HELD
        if not traits.large_local_memory_bytes or items > self.group or self.rows > rows:
            return 0
        read = (2 * self.gates + 3) * ceil_div(self.rows * self.size, self.group)
        own = _OWN_REGISTERS + 2 * self.rows + read
        left = min(_REGISTERS // self.group, _MOST_REGISTERS) - own
        return min(max(left // 2, 0) // _FOUR * _FOUR, self.size // self.slices)

    def _fits(self, room: int) -> bool:
        """Whether local memory of so many elements holds the weights that are in no registers."""
        row = self.gates * self.size
        far = row * (self.size - self.slices * self.held)
        return (1 + self.slices) * self.rows * row + far <= room

    @property
    def params(self) -> Named:
        """The templates' parameters."""
        return by_name("size gates states rows slices group near held", *self[2:])

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Global and local size."""
        groups = ceil_div(self.n, self.rows)
        return {"global_size": (groups * self.group, self.layers), "local_size": (self.group, 1)}


def recurrence(
    target: Target,
    steps: Steps,
    outputs: Sequence[Array],
    inputs: Sequence[Array],
    exprs: tuple[Expr, ...],
    *,
    backwards: bool,
) -> list[Launch]:
    """The states after every step, and the gates' shares of the hidden ones.

    Args:
        target: what the device is like.
        steps: how they are shared out.
        outputs: the states, ``(steps, [layers,] n, size)`` each, and the shares; dense.
        inputs: the gates' shares of the sequence, the first states, the recurrent weight,
            ``([layers,] gates * size, size)``, and its bias or none.
        exprs: a state each, of both shares' gates and of the last state.
        backwards: whether the last step comes first.

    Returns:
        The launches: the weight turned over, and all steps.
    """
    x, *first = inputs[: 1 + steps.states]
    weight, *bias = inputs[1 + steps.states :]
    turn, columns = turned_over(target, weight, x)
    work = outputs[0].size * (2 * steps.gates * steps.size + flops(*exprs))
    return [
        *turn,
        FORWARD.launch(
            joined(steps.params, by_name("biased", bool(bias)), printed(exprs, steps.gates)),
            joined(
                by_name("steps n backwards", x.shape[0], steps.n, int(backwards)),
                by_name("x columns bias", x, columns, bias[0] if bias else None),
                by_name("first_{k} y_{k} shares", first, outputs[:-1], outputs[-1]),
            ),
            **steps.sizes,
            flops=work,
            bytes=nbytes_of((*inputs, *outputs)),
        ),
    ]


def recurrence_backward(
    steps: Steps,
    outputs: Sequence[Array],
    inputs: Sequence[Array],
    arriving: Sequence[Array | None],
    exprs: tuple[Expr, ...],
    *,
    backwards: bool,
) -> list[Launch]:
    """Gradients of the gates' shares, and of the first states.

    Args:
        steps: how they are shared out.
        outputs: of the sequence's shares, of the first states, and, where they differ from the
            sequence's, of the hidden states' shares; dense.
        inputs: the sequence's shares, the last of the first states, the weight, the states that
            were made of it, the hidden states' shares.
        arriving: gradients of all states made, or None.
        exprs: the gates' gradients, the others' where they differ, and the last state's; of both
            shares' gates, the last state, and for each state of what arrived and what ran back.
        backwards: as it was.

    Returns:
        One launch.
    """
    x, first, weight, made, shares = inputs
    gx, running, others = outputs[0], outputs[1 : 1 + steps.states], outputs[1 + steps.states :]
    arrived = tuple(g is not None for g in arriving)
    grads = [g for g in arriving if g is not None]
    params = by_name("arrived apart", arrived, bool(others))
    return [
        BACKWARD.launch(
            joined(steps.params, params, printed_back(exprs, steps.gates, arrived)),
            joined(
                by_name("steps n backwards", x.shape[0], steps.n, int(backwards)),
                by_name("x weight shares first made", x, weight, shares, first, made),
                by_name("gy_{k} gx g_{k}", grads, gx, running),
                by_name("gshares", others[0] if others else None),
            ),
            **steps.sizes,
            flops=made.size * (2 * steps.gates * steps.size + flops(*exprs)),
            bytes=nbytes_of((*inputs, *grads, *outputs)),
        )
    ]


def turned_over(target: Target, weight: Array, beside: Array) -> tuple[list[Launch], Array]:
    """``([layers,] size, gates * size)`` of a weight ``([layers,] gates * size, size)``.

    Args:
        target: what the device is like.
        weight: dense.
        beside: an array of the same plan.

    Returns:
        The launches that make it, and scratch memory that holds it.
    """
    *layers, rows, size = weight.shape
    turned = (*layers, size, rows)
    columns = Array.scratch(Scratch.beside(beside.storage), turned, weight.dtype)
    strides = (*weight.strides[:-2], 1, size)
    return copy(target, columns, weight.view(turned, strides)), columns


def printed(exprs: tuple[Expr, ...], gates: int) -> dict[str, Any]:
    """The templates' text of a step's states, of both shares' gates and of the last state."""
    names = [*_names("g", gates), *_names("s", gates), "c"]
    return print_c(exprs, "float", inputs=names)._asdict()


def printed_back(exprs: tuple[Expr, ...], gates: int, arrived: Sequence[bool]) -> dict[str, Any]:
    """The templates' text of gradients, which read those of the states, too.

    Args:
        exprs: as :func:`recurrence_backward` takes them.
        gates: of a cell.
        arrived: for each state, whether a gradient of it arrived.
    """
    ran = [[f"a_{k}_"] * given + [f"r_{k}_"] for k, given in enumerate(arrived)]
    own = [*_names("g", gates, "_"), *_names("s", gates, "_"), "c_"]
    names = [*own, *(name for names in ran for name in names)]
    return print_c(exprs, "float", inputs=names)._asdict()


def _names(letter: str, count: int, end: str = "") -> list[str]:
    return [f"{letter}_{k}{end}" for k in range(count)]
