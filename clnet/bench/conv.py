"""How fast convolutions and their gradients are, beside PyTorch's where it is installed.

Every result is checked in float64 before it is timed; the two sides are timed in turns. The
launches are bound once, as in a compiled plan.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ..device import Device, device
from ..kernels.conv import Algorithm, ConvGeometry, Direction, choose, fits
from . import conv_blocked
from .bound_launches import placed, replaying
from .conv_layers import GROUPS, PRECISIONS, Layer
from .peer import Peer, peer_on
from .timing import seconds
from .workload import check_counts, selected


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
            f"{self.layer:19} {self.geometry.n:4} {self.direction.value:12}"
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
    ours = replaying(placed(launches, where), where)
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
    options = _parser().parse_args(argv)
    layers = _layers(options)
    where = device(options.device)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if options.layout == "blocked":
        conv_blocked.table(layers, where, peer, options.rounds, as_json=options.json)
        return
    if not options.json:
        print(f"{where.identity.name}; {peer.name if peer else 'PyTorch not compared'}")
        heads = f"{'layer':19} {'n':>4} {'direction':12} {'algorithm':9} {'ms':>9} {'GFLOP/s':>8}"
        print(heads + (f" {'torch ms':>9} {'GFLOP/s':>8} {'ratio':>6}" if peer else ""))
    results: list[Result] = []
    for name, geometry in layers.items():
        layer = Layer(geometry, where, options.precision)
        dtype = PRECISIONS[options.precision]
        for direction in Direction:
            if options.precision != "float32":
                algorithm = Algorithm.MATRIX
            elif options.algorithm is None:
                algorithm = choose(where.target, geometry, direction, dtype)
            else:
                algorithm = Algorithm(options.algorithm)
            if fits(where.target, geometry, direction, dtype, algorithm):
                result = measure(name, layer, direction, algorithm, options.rounds, peer)
                results.append(result)
                print(result.json(where) if options.json else result.row(), flush=True)
    if not options.json:
        _print_means(results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench conv", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--rounds", type=int, default=7, help="turns, of which the fastest counts")
    parser.add_argument("--layers", choices=GROUPS, default="networks", help="which (%(default)s)")
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--batch", type=int, metavar="N", help="images, instead of a layer's own")
    ways = [a.value for a in Algorithm]
    parser.add_argument("--algorithm", choices=ways, help="instead of the one chosen")
    precision = "all but float32: on matrix units, channels last on both sides; tf32x3: ours alone"
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help=precision)
    parser.add_argument("--json", action="store_true", help="one JSON line for each result")
    parser.add_argument(
        "--layout", choices=("plain", "blocked"), default="plain", help="of activations"
    )
    return parser


def _layers(options: argparse.Namespace) -> dict[str, ConvGeometry]:
    """The layers that are asked for, by name."""
    check_counts("bench conv", options, "batch", "rounds", "threads")
    group = GROUPS[options.layers]
    chosen = {name: group[name] for name in selected("bench conv", group, options.only)}
    if options.batch is None:
        return chosen
    return {name: geometry._replace(n=options.batch) for name, geometry in chosen.items()}


def _print_means(results: Sequence[Result]) -> None:
    """For each direction how the layers stand beside PyTorch's, where it was timed."""
    for direction in Direction:
        ratios = [
            r.peer_seconds / r.seconds
            for r in results
            if r.direction is direction and r.peer_seconds is not None
        ]
        if ratios:
            mean, least = statistics.geometric_mean(ratios), min(ratios)
            print(f"{direction.value:12} geometric mean of {len(ratios)}: {mean:.2f}", end="")
            print(f"; least {least:.2f}")


if __name__ == "__main__":
    main()
