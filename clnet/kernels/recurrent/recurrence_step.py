"""A step of a recurrent layer in one launch: its product and its gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from ...array import Array
from ...device import DeviceTraits, Launch, Target
from ...expr import Expr, flops
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..kernel import Kernel, Named, by_name, joined, nbytes_of
from .recurrence import Layers, printed, printed_back
from .recurrence_ring import KERNEL as RING
from .recurrence_ring import Ring

__all__ = ["Share", "Step", "recurrence_step", "recurrence_step_backward"]

FORWARD = Kernel("recurrence_step", "recurrent/recurrence_step.mako")
BACKWARD = Kernel("recurrence_step_backward", "recurrent/recurrence_step.mako")

_FOUR = 4
_ROWS, _COLUMNS = (8, 16, 32, 64), (8, 16, 32)
# Sums of an item, terms of a tile, tiles on their way and an item's registers for them: measured
# (docs/notes/recurrent.md). Where a result has one part, NVIDIA's GPUs take four columns an item;
# AMD's have not the registers.
_DOWN, _ACROSS, _ACROSS_ALONE, _CHUNKS = 8, 2, 4, (64, 32)
_MOST_AHEAD, _COMING_REGISTERS = 2, 64
# Registers that clang for AMD's GPUs takes beside them, the sums and what an item keeps of its
# results.
_OTHER_REGISTERS = 106
_SLICES, _ITEMS = (16, 8, 4, 2), 256
# What a unit multiplies and reads from the caches at a time, in elements.
_MULTIPLIES, _READS = 128, 6
# Of more products a step and unit, larger tiles gain more than a launch costs; and those of which
# rings are taken, where they are reckoned to take but little longer: of so many they are faster.
_MOST_PRODUCTS, _RING_PRODUCTS, _LITTLE = 4_500_000, (3_000_000, 17_000_000), 1.2


class Share(NamedTuple):
    """What a group makes of a product, and how its items do.

    Attributes:
        rows, columns: of the result, the latter of each of its parts.
        runs: parts.
        down, across: sums of an item, of each part.
        slices: items that share a sum.
        chunk: terms of a tile.
        coming: registers of an item for tiles on their way.
        patches: as ``lib/step_tiles.mako`` has it.
    """

    rows: int
    columns: int
    runs: int
    down: int
    across: int
    slices: int
    chunk: int
    coming: int = _COMING_REGISTERS
    patches: bool = False

    @classmethod
    def of(
        cls,
        traits: DeviceTraits,
        layers: int,
        n: int,
        size: int,
        *,
        terms: int,
        runs: int,
        kept: int = 0,
    ) -> Share | None:
        """That which takes the least time, by operations and elements read; None if none fits.

        Args:
            traits: what the device is like.
            layers: products that know nothing of each other.
            n: rows of a product.
            size: columns of each of its parts.
            terms: of a sum.
            runs: parts of the result.
            kept: numbers that wait in registers for each column of the result to be there.
        """

        def cost(share: Share) -> float:
            return share.cost(traits, layers, n, size, terms)

        share = min(cls._fitting(traits, runs), key=cost, default=None)
        if share is None or traits.large_local_memory_bytes:  # what is fastest was measured
            return share
        waiting = ceil_div(share.rows * share.columns, share.group) * kept
        spare = traits.item_registers - _OTHER_REGISTERS - share.down * share.across * runs
        return share._replace(coming=min(spare - waiting, share.coming))

    @classmethod
    def _fitting(cls, traits: DeviceTraits, runs: int) -> Iterator[Share]:
        """Of each size of a group's part of the product the first that the device can hold."""
        most, room = min(_ITEMS, traits.max_group_size), traits.static_local_bytes
        alone = _ACROSS_ALONE if traits.large_local_memory_bytes else _ACROSS
        for rows, columns in product(_ROWS, _COLUMNS):
            down = min(_DOWN, rows // 2)
            across = _ACROSS if runs > 1 else min(alone, columns // 4)
            shares = (
                cls(rows, columns, runs, down, across, slices, chunk)
                for chunk, slices in product(_CHUNKS, _SLICES)
                if chunk % (_FOUR * slices) == 0
            )
            fitting = (s for s in shares if s.group <= most and s.room * float32.itemsize <= room)
            yield from islice(fitting, 1)

    def cost(self, traits: DeviceTraits, layers: int, n: int, size: int, terms: int) -> float:
        """Time, in cycles of a unit."""
        rows, wide = self.rows, self.runs * self.columns
        groups = layers * ceil_div(n, rows) * ceil_div(size, self.columns)
        once = terms * (rows * wide / _MULTIPLIES + (rows + wide) / _READS)
        return ceil_div(groups, traits.compute_units) * once

    @property
    def group(self) -> int:
        """Work-items."""
        return self.rows // self.down * (self.columns // self.across) * self.slices

    @property
    def ahead(self) -> int:
        """Tiles that are on their way while one is multiplied: what registers hold beside sums."""
        tiles = (self.rows * self.chunk, self.chunk * self.runs * self.columns)
        fours = sum(ceil_div(elements, _FOUR * self.group) for elements in tiles)
        return max(1, min(_MOST_AHEAD, self.coming // (_FOUR * fours)))

    @property
    def room(self) -> int:
        """Elements of local memory: two tiles, their lines a little apart, or half of the sums."""
        wide = self.runs * self.columns
        tiles = 2 * (self.rows * (self.chunk + _FOUR) + self.chunk * wide)
        return max(tiles, self.slices // 2 * self.rows * wide)

    @property
    def params(self) -> Named:
        """The template's parameters."""
        own = {n: value for n, value in self._asdict().items() if n not in ("runs", "coming")}
        return joined(own, by_name("ahead group room", self.ahead, self.group, self.room))


class Step(NamedTuple):
    """How a step is shared out, and that of the walk back.

    Attributes:
        layers: that know nothing of each other.
        n: examples.
        size: of a state.
        gates, states: of a cell.
        aligned: whether all arrays begin at multiples of four elements.
        forward, backward: their groups' shares.
    """

    layers: int
    n: int
    size: int
    gates: int
    states: int
    aligned: bool
    forward: Share | Ring
    backward: Share

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
    ) -> Step | None:
        """None where a product and a launch over the gates are better, or all there is.

        Args:
            target: what the device is like.
            x: the gates' shares of the sequence, ``(steps, [layers,] n, gates * size)``.
            weight: ``([layers,] gates * size, size)``.
            states: of a cell.
            others: further operands and results, which have to be dense as ``x`` has.
            back: whether it is the walk back.
        """
        known = Layers.of(target, x, weight, others)
        if known is None:
            return None
        traits, (layers, n, size, gates) = target.traits, known
        arrays = [x, weight, *(a for a in others if a is not None)]
        aligned = all(a.offset % _FOUR == 0 for a in arrays)
        share = Share.of(traits, layers, n, size, terms=size, runs=gates, kept=gates + 1)
        kept = 2 * gates + states + 2
        backward = Share.of(traits, layers, n, size, terms=gates * size, runs=1, kept=kept)
        if share is None or backward is None:
            return None
        forward: Share | Ring = share
        products = layers * n * gates * size**2 / traits.compute_units
        least, most = _RING_PRODUCTS
        if traits.large_local_memory_bytes:  # that it is faster was measured there
            forward = share = share._replace(patches=True)
        if aligned and not back and least <= products <= most:
            forward = cls._faster(share, traits, layers, n, size)
        if products > _MOST_PRODUCTS and not isinstance(forward, Ring):
            return None
        return cls(layers, n, size, gates, states, aligned, forward, backward)

    @staticmethod
    def _faster(share: Share, traits: DeviceTraits, layers: int, n: int, size: int) -> Share | Ring:
        ring = Ring.of(traits, layers, n, size, share.runs)
        most = _LITTLE * share.cost(traits, layers, n, size, size)
        return ring if ring and ring.cost(traits, layers, n, size) < most else share

    def params(self, share: Share | Ring) -> Named:
        """The template's parameters."""
        own = by_name("size gates states", self.size, self.gates, self.states)
        if isinstance(share, Ring):
            return joined(own, by_name("ring", share))
        return joined(own, by_name("aligned", self.aligned), share.params)

    def sizes(self, share: Share | Ring) -> dict[str, tuple[int, ...]]:
        """Global and local size."""
        down, across = ceil_div(self.n, share.rows), ceil_div(self.size, share.columns)
        group = share.group
        return {"global_size": (down * group, across, self.layers), "local_size": (group, 1, 1)}


def recurrence_step(
    step: Step, outputs: Sequence[Array], inputs: Sequence[Array], exprs: tuple[Expr, ...]
) -> Launch:
    """The states after a step, and the gates' shares of the hidden one before it.

    Args:
        step: how it is shared out.
        outputs: the states, ``([layers,] n, size)`` each, and the shares; dense.
        inputs: the gates' shares of the sequence, the states, the recurrent weight turned over,
            ``([layers,] size, gates * size)``, and its bias or none.
        exprs: a state each, of both shares' gates and of the last state.
    """
    x, *last = inputs[: 1 + step.states]
    columns, *bias = inputs[1 + step.states :]
    text, share = printed(exprs, step.gates), step.forward
    return (RING if isinstance(share, Ring) else FORWARD).launch(
        joined(step.params(share), by_name("biased", bool(bias)), text),
        joined(
            by_name("n x columns bias", step.n, x, columns, bias[0] if bias else None),
            by_name("last_{k} y_{k} shares", last, outputs[:-1], outputs[-1]),
        ),
        **step.sizes(share),
        flops=outputs[0].size * (2 * step.gates * step.size + flops(*exprs)),
        bytes=nbytes_of((*inputs, *outputs)),
    )


def recurrence_step_backward(
    step: Step,
    outputs: Sequence[Array],
    inputs: Sequence[Array],
    arriving: Sequence[Array | None],
    exprs: tuple[Expr, ...],
) -> Launch:
    """Gradients of a step's gates, of those of the step behind it.

    Args:
        step: how it is shared out.
        outputs: of the sequence's shares, of the last state (what runs back to it past the gates:
            the step behind left its own there), and, where they differ from the sequence's, of the
            hidden states' shares; dense.
        inputs: the gradients of the hidden states' shares of the step behind, the weight, the
            sequence's shares, the hidden states', and the last of the states that the step read.
        arriving: gradients of the states that it made, or None.
        exprs: the gates' gradients, the others' where they differ, and the last state's; of both
            shares' gates, the last state, and for each state of what arrived and what ran back.
    """
    slopes, weight, x, shares, before = inputs
    gx, back, *others = outputs
    arrived = tuple(g is not None for g in arriving)
    grads = [g for g in arriving if g is not None]
    params, text = (
        by_name("arrived apart", arrived, bool(others)),
        printed_back(exprs, step.gates, arrived),
    )
    return BACKWARD.launch(
        joined(step.params(step.backward), params, text),
        joined(
            by_name("n slopes weight x shares before", step.n, slopes, weight, x, shares, before),
            by_name("gy_{k} back gx", grads, back, gx),
            by_name("gshares", others[0] if others else None),
        ),
        **step.sizes(step.backward),
        flops=before.size * (2 * step.gates * step.size + flops(*exprs)),
        bytes=nbytes_of((*inputs, *grads, *outputs)),
    )
