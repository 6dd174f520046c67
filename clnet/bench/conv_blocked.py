"""How fast convolutions between blocked arrays are, beside PyTorch's two layouts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from statistics import geometric_mean
from typing import NamedTuple

import numpy as np

from ..array import Array
from ..device import Device, Launch
from ..kernels.conv import ConvGeometry, Direction
from ..kernels.conv_blocked import (
    BlockedForm,
    blocked_forward,
    blocked_input_grad,
    blocked_weight_grad,
    choose_form,
    pack_filters,
    packed_size,
)
from ..kernels.moving import copy
from ..values.dtypes import float32
from .bound_launches import placed, replaying
from .conv_layers import Layer
from .peer import Peer
from .timing import Waits, seconds


class Measured(NamedTuple):
    """One layer and direction between blocked arrays.

    Attributes:
        layer: its name.
        direction: what was computed.
        algorithm: how.
        flops: operations.
        kernels: seconds of its kernels.
        packing: seconds to pack the filters, once per update.
        reorders: seconds to bring the operands into blocks and the result back, which a plan does
            at the edges of a network alone.
        default, channels_last: PyTorch's seconds, or None without it.
    """

    layer: str
    direction: Direction
    algorithm: str
    flops: int
    kernels: float
    packing: float
    reorders: float
    default: float | None
    channels_last: float | None

    def row(self) -> str:
        """One line of the table."""
        line = (
            f"{self.layer:19} {self.direction.value:12} {self.algorithm:9}"
            f" {self.kernels * 1e3:8.3f} {self.flops / self.kernels / 1e9:8.1f}"
            f" {self.packing * 1e3:8.3f} {self.reorders * 1e3:8.3f}"
        )
        for peer in (self.default, self.channels_last):
            if peer is not None:
                whole = self.kernels + self.packing
                line += f" {peer * 1e3:8.3f} {peer / self.kernels:6.2f} {peer / whole:6.2f}"
        return line


class Blocked:
    """A layer's direction in its blocked form: what computes it, packs and reorders.

    Args:
        layer: plain operands.
        direction: what is computed.
        form: how.
    """

    def __init__(self, layer: Layer, direction: Direction, form: BlockedForm) -> None:
        self.layer, self.direction, self.form = layer, direction, form
        target, g = layer.where.target, layer.geometry
        x = self._arranged(layer.x, plain=form.plain_x)
        gy = self._arranged(layer.gy, plain=False)
        self.packing: list[Launch] = []
        if direction is Direction.WEIGHT_GRAD:
            self.out = self._poisoned(layer.weight.shape)
            self.launches = blocked_weight_grad(target, self.out, gy, x, g, form)
            return
        weight = Array.from_numpy(layer.weight, layer.where)
        packed = self._poisoned((packed_size(g, direction, form),))
        self.packing = pack_filters(target, packed, weight, g, direction, form)
        if direction is Direction.FORWARD:
            self.out = self._poisoned(form.y_shape(g))
            self.launches = blocked_forward(target, self.out, x, packed, g, form)
        else:
            self.out = self._poisoned(form.x_shape(g))
            self.launches = blocked_input_grad(target, self.out, gy, packed, g, form)

    def result(self) -> np.ndarray:
        """The output, plain."""
        out = self.out.numpy()
        if out.ndim == 4:
            return out
        n, blocks, h, w, block = out.shape
        return out.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, h, w)

    def reorders(self) -> list[Launch]:
        """Copies that bring the operands into blocks, or as long ones out of them."""
        g = self.layer.geometry
        operands = {
            Direction.FORWARD: (self.form.x_shape(g), self.form.y_shape(g)),
            Direction.INPUT_GRAD: (self.form.y_shape(g), self.form.x_shape(g)),
            Direction.WEIGHT_GRAD: (self.form.y_shape(g), self.form.x_shape(g)),
        }[self.direction]
        launches: list[Launch] = []
        for shape in operands:
            if len(shape) == 5:
                launches += self._reorder(shape)
        return launches

    def _reorder(self, shape: tuple[int, ...]) -> list[Launch]:
        n, blocks, h, w, block = shape
        where = self.layer.where
        folded = Array.from_numpy(np.zeros((n, blocks, block, h, w), np.float32), where)
        strides = tuple(folded.strides[i] for i in (0, 1, 3, 4, 2))
        return copy(where.target, self._poisoned(shape), folded.view(shape, strides))

    def _arranged(self, values: np.ndarray, *, plain: bool) -> Array:
        if not plain:
            n, c, h, w = values.shape
            block = self.form.block
            folded = values.reshape(n, c // block, block, h, w)
            values = np.ascontiguousarray(folded.transpose(0, 1, 3, 4, 2))
        return Array.from_numpy(values, self.layer.where)

    def _poisoned(self, shape: tuple[int, ...]) -> Array:
        return Array.from_numpy(np.full(shape, np.nan, float32.numpy), self.layer.where)


def measure(
    name: str, layer: Layer, direction: Direction, form: BlockedForm, rounds: int, peer: Peer | None
) -> Measured:
    """Check and time one direction of a layer.

    Args:
        name: the layer's.
        layer: its operands.
        direction: what to compute.
        form: how.
        rounds: turns; the fastest counts.
        peer: PyTorch, or None.

    Returns:
        What was measured.

    Raises:
        ArithmeticError: if the result is wrong.
    """
    where = layer.where
    blocked = Blocked(layer, direction, form)
    ours = [
        replaying(placed(part, where), where)
        for part in (blocked.packing, blocked.launches, blocked.reorders())
    ]
    for part in ours:
        part()
    layer.check(direction, blocked.result())
    sides: list[tuple[Callable[[], object], Waits]] = [(part, where) for part in ours]
    if peer is not None:
        sides += [(layer.peer(peer, direction, channels_last=last), peer) for last in (False, True)]
    repeats = max(1, min(100, int(0.02 / seconds(ours[1], where, 1))))
    turns = [[seconds(run, at, repeats) for run, at in sides] for _ in range(rounds)]
    packing, kernels, reorders, *peers = (min(times) for times in zip(*turns, strict=True))
    default, channels_last = peers or (None, None)
    return Measured(
        name, direction, form.algorithm.value, layer.geometry.flops, kernels,
        packing if blocked.packing else 0.0, reorders, default, channels_last,
    )  # fmt: skip


def table(
    layers: Mapping[str, ConvGeometry],
    where: Device,
    peer: Peer | None,
    rounds: int,
    *,
    as_json: bool,
) -> None:
    """Print every layer and direction that has a blocked form, and geometric means.

    Args:
        layers: by name.
        where: the device.
        peer: PyTorch, or None.
        rounds: turns, of which the fastest counts.
        as_json: one JSON line for each instead.
    """
    if not as_json:
        print(f"{where.identity.name}; {peer.name if peer else 'PyTorch not compared'}")
        heads = f"{'layer':19} {'direction':12} {'algorithm':9} {'ms':>8} {'GFLOP/s':>8}"
        heads += f" {'packing':>8} {'reorders':>8}"
        for order in ("default", "ch.last") if peer else ():
            heads += f" {order:>8} {'ratio':>6} {'packed':>6}"
        print(heads)
    results: list[Measured] = []
    for name, geometry in layers.items():
        layer = Layer(geometry, where)
        for direction in Direction:
            form = choose_form(where.target, geometry, direction)
            if form is not None:
                result = measure(name, layer, direction, form, rounds, peer)
                results.append(result)
                fields = {"bench": "conv_blocked", "device": where.identity.key}
                fields |= result._asdict() | {"direction": direction.value}
                print(json.dumps(fields) if as_json else result.row(), flush=True)
    if peer is not None and results and not as_json:
        for direction in Direction:
            _print_means(direction, [r for r in results if r.direction is direction])


def _print_means(direction: Direction, results: list[Measured]) -> None:
    for label, peers in (
        ("default", [(r.default, r) for r in results]),
        ("channels_last", [(r.channels_last, r) for r in results]),
    ):
        ratios = [peer / r.kernels for peer, r in peers if peer is not None]
        if ratios:
            mean = geometric_mean(ratios)
            print(f"{direction.value:12} {label:14} mean {mean:5.2f}, least {min(ratios):5.2f}")
