"""How fast convolutions and their gradients are, beside PyTorch's where it is installed.

Every result is checked in float64 before it is timed; the two sides are timed in turns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..array import Array
from ..device import Device, Launch, device
from ..dtypes import float32
from ..kernels.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    choose,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
    fits,
)
from ..shapes import window_size
from .peer import Peer, peer_on
from .timing import seconds


def _layer(n: int, ic: int, oc: int, size: int, k: int, stride: int, padding: int) -> ConvGeometry:
    out = window_size(size, k, stride, padding, 1)
    return ConvGeometry(n, ic, size, size, oc, k, k, out, out, stride, stride, padding, padding)


LAYERS = {
    "7x7/2 3-64 @224": _layer(8, 3, 64, 224, 7, 2, 3),
    "1x1 64-256 @56": _layer(8, 64, 256, 56, 1, 1, 0),
    "1x1 256-64 @56": _layer(8, 256, 64, 56, 1, 1, 0),
    "3x3 64-64 @56": _layer(8, 64, 64, 56, 3, 1, 1),
    "3x3 128-128 @28": _layer(8, 128, 128, 28, 3, 1, 1),
    "3x3/2 128-128 @56": _layer(8, 128, 128, 56, 3, 2, 1),
    "3x3 256-256 @14": _layer(8, 256, 256, 14, 3, 1, 1),
    "1x1 1024-256 @14": _layer(8, 1024, 256, 14, 1, 1, 0),
    "1x1/2 256-512 @56": _layer(8, 256, 512, 56, 1, 2, 0),
    "3x3 512-512 @7": _layer(8, 512, 512, 7, 3, 1, 1),
    "3x3 16-16 @32": _layer(128, 16, 16, 32, 3, 1, 1),
    "3x3 32-32 @16": _layer(128, 32, 32, 16, 3, 1, 1),
    "3x3 64-64 @8": _layer(128, 64, 64, 8, 3, 1, 1),
    "3x3 32-32 @14": _layer(64, 32, 32, 14, 3, 1, 1),
    "3x3 1-32 @28": _layer(64, 1, 32, 28, 3, 1, 1),
    "5x5 1-32 @28": _layer(64, 1, 32, 28, 5, 1, 2),
    "3x3 32-64 @14": _layer(64, 32, 64, 14, 3, 1, 1),
}


class Result(NamedTuple):
    """One measured layer and direction.

    Attributes:
        layer: its name.
        geometry: its sizes.
        direction: what was computed.
        algorithm: how.
        seconds: of the fastest turn.
        peer_seconds: PyTorch's, or None without it.
    """

    layer: str
    geometry: ConvGeometry
    direction: Direction
    algorithm: Algorithm
    seconds: float
    peer_seconds: float | None

    def row(self) -> str:
        """One line of the table."""
        flops = self.geometry.flops
        line = (
            f"{self.layer:18} {self.geometry.n:4} {self.direction.value:12}"
            f" {self.algorithm.value:9} {self.seconds * 1e3:9.3f} {flops / self.seconds / 1e9:8.1f}"
        )
        if self.peer_seconds is None:
            return line
        rate = flops / self.peer_seconds / 1e9
        ratio = self.peer_seconds / self.seconds
        return f"{line} {self.peer_seconds * 1e3:9.3f} {rate:8.1f} {ratio:6.2f}"

    def json(self, where: Device) -> str:
        """One line for a file of results."""
        fields = {"bench": "conv", "device": where.identity.key, "layer": self.layer}
        fields |= {"geometry": self.geometry._asdict(), "direction": self.direction.value}
        rate = self.geometry.flops / self.seconds / 1e9
        fields |= {"algorithm": self.algorithm.value, "seconds": self.seconds, "gflops": rate}
        return json.dumps(fields | {"peer_seconds": self.peer_seconds})


class Layer:
    """A convolution with random operands: its launches, its checks and PyTorch's side.

    Args:
        geometry: the sizes.
        where: the device.
    """

    def __init__(self, geometry: ConvGeometry, where: Device) -> None:
        self.geometry, self.where = geometry, where
        g = geometry
        rng = np.random.default_rng(0)
        shapes = ((g.n, g.ic, g.h, g.w), (g.oc, g.icg, g.kh, g.kw), (g.n, g.oc, g.oh, g.ow))
        self.x, self.weight, self.gy = (rng.standard_normal(s, dtype=np.float32) for s in shapes)

    def launches(self, direction: Direction, algorithm: Algorithm) -> tuple[Array, list[Launch]]:
        """The poisoned output of a direction, and what computes it."""
        target, g = self.where.target, self.geometry
        x, weight, gy = (Array.from_numpy(v, self.where) for v in (self.x, self.weight, self.gy))
        like = {
            Direction.FORWARD: self.gy,
            Direction.INPUT_GRAD: self.x,
            Direction.WEIGHT_GRAD: self.weight,
        }[direction]
        out = Array.from_numpy(np.full_like(like, np.nan), self.where)
        if direction is Direction.FORWARD:
            return out, conv_forward(target, out, x, weight, None, g, algorithm=algorithm)
        if direction is Direction.INPUT_GRAD:
            return out, conv_input_grad(target, out, gy, weight, g, algorithm=algorithm)
        return out, conv_weight_grad(target, out, gy, x, g, algorithm=algorithm)

    def check(self, direction: Direction, out: np.ndarray) -> None:
        """Compare ``out`` with float64.

        All three directions are parts of one trilinear form: ``<conv(x, weight), gy>`` equals
        ``<x, gx>`` and ``<weight, gw>``. The form's value is computed tap by tap.

        Raises:
            ArithmeticError: if it deviates by more than rounding explains.
        """
        other = {
            Direction.FORWARD: self.gy,
            Direction.INPUT_GRAD: self.x,
            Direction.WEIGHT_GRAD: self.weight,
        }[direction]
        got = float(np.vdot(out.astype(np.float64), other.astype(np.float64)))
        scale = float(np.linalg.norm(out) * np.linalg.norm(other))
        if not abs(got - self._form()) <= 1e-6 * scale:
            raise ArithmeticError(
                f"{direction.value}: deviates from float64; got {got}, expected {self._form()}"
            )

    def _form(self) -> float:
        g = self.geometry
        below = max((g.oh - 1) * g.sh + (g.kh - 1) * g.dh + 1 - g.ph - g.h, 0)
        right = max((g.ow - 1) * g.sw + (g.kw - 1) * g.dw + 1 - g.pw - g.w, 0)
        x = np.pad(self.x, ((0, 0), (0, 0), (g.ph, below), (g.pw, right))).astype(np.float64)
        gy = self.gy.transpose(1, 0, 2, 3).reshape(g.oc, -1).astype(np.float64)
        total = 0.0
        for r in range(g.kh):
            for s in range(g.kw):
                rows = slice(r * g.dh, r * g.dh + g.sh * (g.oh - 1) + 1, g.sh)
                columns = slice(s * g.dw, s * g.dw + g.sw * (g.ow - 1) + 1, g.sw)
                patch = x[:, :, rows, columns].transpose(1, 0, 2, 3).reshape(g.ic, -1)
                total += float(np.sum((gy @ patch.T) * self.weight[:, :, r, s]))
        return total

    def peer(self, peer: Peer, direction: Direction) -> Callable[[], object]:
        """PyTorch's side of a direction."""
        g = self.geometry
        torch = peer.torch
        x, weight, gy = (peer.tensor(v) for v in (self.x, self.weight, self.gy))
        window = ([g.sh, g.sw], [g.ph, g.pw], [g.dh, g.dw])
        if direction is Direction.FORWARD:
            return lambda: torch.nn.functional.conv2d(x, weight, None, *window, g.groups)
        wanted = [direction is Direction.INPUT_GRAD, direction is Direction.WEIGHT_GRAD, False]
        backward = torch.ops.aten.convolution_backward
        return lambda: backward(gy, x, weight, [0], *window, False, [0, 0], g.groups, wanted)


def measure(
    name: str,
    layer: Layer,
    direction: Direction,
    algorithm: Algorithm,
    rounds: int,
    peer: Peer | None,
) -> Result:
    """Check and time one direction of a layer.

    Args:
        name: the layer's.
        layer: its operands.
        direction: what to compute.
        algorithm: how.
        rounds: turns; the fastest counts: a busy processor slows the two sides unequally.
        peer: PyTorch, or None.

    Returns:
        What was measured.

    Raises:
        ArithmeticError: if the result is wrong.
    """
    where = layer.where
    out, launches = layer.launches(direction, algorithm)

    def ours() -> None:
        for launch in launches:
            where.queue.launch(launch)

    ours()
    layer.check(direction, out.numpy())
    theirs = None if peer is None else layer.peer(peer, direction)
    repeats = max(1, min(200, int(0.02 / seconds(ours, where, 1))))
    own: list[float] = []
    others: list[float] = []
    for _ in range(rounds):
        own.append(seconds(ours, where, repeats))
        if peer is not None and theirs is not None:
            others.append(seconds(theirs, peer, repeats))
    other = min(others) if others else None
    return Result(name, layer.geometry, direction, algorithm, min(own), other)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench conv", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--rounds", type=int, default=7, help="turns, of which the fastest counts")
    parser.add_argument("--only", default="", help="layers whose name contains this")
    ways = [a.value for a in Algorithm]
    parser.add_argument("--algorithm", choices=ways, help="instead of the one chosen")
    parser.add_argument("--json", action="store_true", help="one JSON line for each result")
    options = parser.parse_args(argv)
    where = device(options.device)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if not options.json:
        print(f"{where.identity.name}; {peer.name if peer else 'PyTorch not compared'}")
        heads = f"{'layer':18} {'n':>4} {'direction':12} {'algorithm':9} {'ms':>9} {'GFLOP/s':>8}"
        print(heads + (f" {'torch ms':>9} {'GFLOP/s':>8} {'ratio':>6}" if peer else ""))
    for name, geometry in LAYERS.items():
        if options.only not in name:
            continue
        layer = Layer(geometry, where)
        for direction in Direction:
            algorithm = (
                choose(where.target, geometry, direction, float32)
                if options.algorithm is None
                else Algorithm(options.algorithm)
            )
            if fits(where.target, geometry, direction, float32, algorithm):
                result = measure(name, layer, direction, algorithm, options.rounds, peer)
                print(result.json(where) if options.json else result.row(), flush=True)


if __name__ == "__main__":
    main()
