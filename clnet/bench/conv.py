"""How fast convolutions and their gradients are, beside PyTorch's where it is installed.

Every result is checked in float64 before it is timed; the two sides are timed in turns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import NamedTuple

from ..device import Device, device
from ..dtypes import float32
from ..kernels.conv import Algorithm, ConvGeometry, Direction, choose, fits
from . import conv_blocked
from .conv_layers import LAYERS, Layer
from .peer import Peer, peer_on
from .timing import seconds


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
    parser.add_argument(
        "--layout", choices=("plain", "blocked"), default="plain", help="of activations"
    )
    options = parser.parse_args(argv)
    where = device(options.device)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if options.layout == "blocked":
        conv_blocked.table(where, peer, options.only, options.rounds, as_json=options.json)
        return
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
