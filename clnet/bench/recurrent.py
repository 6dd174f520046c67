"""How fast recurrent layers and their gradients are, beside PyTorch's (on NVIDIA's GPUs cuDNN's).

A layer with as many inputs as states, compiled, over a whole sequence: asked, and with the
gradients of its weights. Outputs are compared with float64 before a time is taken, and gradients
with PyTorch's where it is there; the two sides are timed in turns, by the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .. import nn
from ..autodiff.tape import no_grad
from ..compile import compile as compiled
from ..device import Device, device
from ..errors import ArgumentError
from ..tensor import tensor
from .peer import Peer, peer_on
from .timing import seconds
from .workload import check_counts, selected

_AGREE = 1e-5  # of the largest element
_STATES, _BATCHES = "128,512,1024", "16,128"
_KINDS = {"GRU": 3, "LSTM": 4}  # and their gates

Run = Callable[[Any, Any], Any]


class Case(NamedTuple):
    """A layer.

    Attributes:
        kind: ``"GRU"`` or ``"LSTM"``.
        size: of a state, and of an input.
        batch: sequences.
        ways: directions.
    """

    kind: str
    size: int
    batch: int
    ways: int

    @property
    def name(self) -> str:
        """What it is."""
        return f"{self.kind} {self.size}, batch {self.batch}, {('one', 'two')[self.ways - 1]}"


class Result(NamedTuple):
    """One measured layer.

    Attributes:
        case: what was timed.
        asked: seconds of the forward pass, median.
        trained: seconds of it and its gradients.
        peer_asked: PyTorch's, or None without it.
        peer_trained: the same.
    """

    case: Case
    asked: float
    trained: float
    peer_asked: float | None
    peer_trained: float | None

    def row(self) -> str:
        """One line of the table."""
        line = f"{self.case.name:28}"
        for ours, theirs in ((self.asked, self.peer_asked), (self.trained, self.peer_trained)):
            line += f" {ours * 1e3:9.3f}"
            if theirs is not None:
                line += f" {theirs * 1e3:9.3f} {theirs / ours:6.2f}"
        return line


def measure(case: Case, where: Device, *, steps: int, rounds: int, peer: Peer | None) -> Result:
    """Check and time one layer.

    Args:
        case: the layer.
        where: the device.
        steps: of a sequence.
        rounds: turns; medians count.
        peer: PyTorch, or None.

    Returns:
        What was measured.

    Raises:
        ArithmeticError: if an output or gradient deviates by more than rounding does.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((steps, case.batch, case.size), dtype=np.float32)
    gy = rng.standard_normal((steps, case.batch, case.ways * case.size), dtype=np.float32)
    layer = _made(nn, case).to(where)
    weights = {name: value.numpy() for name, value in layer.state_dict().items()}
    ask, train = _runs(compiled(layer), compiled(_trained(layer)), no_grad)
    own = [tensor(values, device=where) for values in (x, gy)]
    for found in (ask(*own), train(*own)):
        _agree(case, "outputs", found.numpy(), _reference(case, x, weights))
    sides: list[tuple[Any, Sequence[Any], Any]] = [((ask, train), own, where)]
    if peer is not None:
        twin = _made(peer.torch.nn, case).to(peer.device)
        twin.load_state_dict({name: peer.tensor(value) for name, value in weights.items()})
        theirs = [peer.tensor(values) for values in (x, gy)]
        runs = _runs(twin, _trained(twin), peer.torch.no_grad)
        runs[1](*theirs)
        for (name, mine), other in zip(layer.named_parameters(), twin.parameters(), strict=True):
            _agree(case, f"gradients of {name}", mine.grad.numpy(), other.grad.cpu().numpy())
        sides.append((runs, theirs, peer))
    repeats = max(1, min(50, int(0.05 / max(seconds(lambda: train(*own), where), 1e-6))))
    turns: list[list[list[float]]] = [[[], []] for _ in sides]
    for _, way, (times, (runs, given, waited)) in product(
        range(rounds), range(2), list(zip(turns, sides, strict=True))
    ):
        times[way].append(seconds(partial(runs[way], *given), waited, repeats))
    medians = [[statistics.median(times) for times in side] for side in turns]
    return Result(case, *medians[0], *(medians[1] if peer else (None, None)))


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench recurrent", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--states", default=_STATES, help=f"sizes with commas ({_STATES})")
    parser.add_argument("--batch", default=_BATCHES, help=f"sequences, with commas ({_BATCHES})")
    parser.add_argument("--steps", type=int, default=64, help="of a sequence (64)")
    parser.add_argument("--rounds", type=int, default=5, help="turns, of which the median counts")
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--json", action="store_true", help="one JSON line for each layer")
    options = parser.parse_args(argv)
    check_counts("bench recurrent", options, "rounds", "threads", "steps")
    cases = _grid(options)
    names = selected("bench recurrent", [case.name for case in cases], options.only)
    where = device(options.device)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if not options.json:
        print(f"{where.identity.name}; {peer.name if peer else 'PyTorch not compared'}")
        heads = f" {'ms':>9}" + (f" {'torch ms':>9} {'ratio':>6}" if peer else "")
        title = f"{options.steps} steps, directions"
        print(f"{title:28}{heads}{heads}   asked; with gradients")
    for case in (case for case in cases if case.name in names):
        found = measure(case, where, steps=options.steps, rounds=options.rounds, peer=peer)
        if options.json:
            fields = {"bench": "recurrent", "device": where.identity.key, "steps": options.steps}
            print(json.dumps(fields | found._asdict() | {"case": case.name}), flush=True)
        else:
            print(found.row(), flush=True)


def _grid(options: argparse.Namespace) -> list[Case]:
    """Of every size and batch, one direction or two."""
    numbers = [options.states.split(","), options.batch.split(",")]
    if not all(n.isdecimal() and int(n) for n in (*numbers[0], *numbers[1])):
        given = {"states": options.states, "batch": options.batch}
        raise ArgumentError("bench recurrent", "--states and --batch are as 128,512", **given)
    sizes, batches = ([int(n) for n in given] for given in numbers)
    return [Case(*each) for each in product(_KINDS, sizes, batches, (1, 2))]


def _made(library: Any, case: Case) -> Any:
    return getattr(library, case.kind)(case.size, case.size, bidirectional=case.ways == 2)


def _runs(layer: Any, trained: Run, no_grad: Any) -> tuple[Run, Run]:
    """What asks a layer, and what trains it, of an input and a gradient."""

    def ask(x: Any, gy: Any) -> Any:
        with no_grad():
            return layer(x)[0]

    return ask, trained


def _trained(layer: Any) -> Run:
    """Its output; the gradients of its weights lie in them afterwards."""

    def run(x: Any, gy: Any) -> Any:
        layer.zero_grad()
        y = layer(x)[0]
        y.backward(gy)
        return y

    return run


def _reference(case: Case, x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The layer's outputs in float64."""
    ways = [_walk(case, x, weights, "")]
    if case.ways == 2:
        ways.append(_walk(case, x[::-1], weights, "_reverse")[::-1])
    return np.concatenate(ways, -1)


def _walk(case: Case, x: np.ndarray, weights: dict[str, np.ndarray], end: str) -> np.ndarray:
    wide = {name: value.astype(float) for name, value in weights.items()}
    into = x.astype(float) @ wide[f"weight_ih_l0{end}"].T + wide[f"bias_ih_l0{end}"]
    h = c = np.zeros((case.batch, case.size))
    made = []
    for share in into:
        last = h @ wide[f"weight_hh_l0{end}"].T + wide[f"bias_hh_l0{end}"]
        own, old = (np.split(gates, _KINDS[case.kind], -1) for gates in (share, last))
        if case.kind == "LSTM":
            c = _sigmoid(own[1] + old[1]) * c + _sigmoid(own[0] + old[0]) * np.tanh(own[2] + old[2])
            h = _sigmoid(own[3] + old[3]) * np.tanh(c)
        else:
            update = _sigmoid(own[1] + old[1])
            h = update * h + (1 - update) * np.tanh(own[2] + _sigmoid(own[0] + old[0]) * old[2])
        made.append(h)
    return np.stack(made)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _agree(case: Case, what: str, found: np.ndarray, expected: np.ndarray) -> None:
    worst = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not worst <= _AGREE:
        raise ArithmeticError(f"{case.name}: {what} deviate by {worst:.1e} of the largest")


if __name__ == "__main__":
    main()
