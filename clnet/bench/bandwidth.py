"""How much of the speed of memory the ops reach that mostly move it, beside PyTorch's.

The bytes are what an op's kernels must read and write, the time is theirs alone; the limit is a
copy of the op's largest array, in turns with it. PyTorch, where it is installed, and both
directions of ours are timed by the clock for the ratio. Every result and gradient is compared with
the same op in float64 before it is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import nn, ops, optim
from ..device import Command, Device, device
from ..profiling import profile
from ..tensor import Tensor, tensor
from .peer import Peer, peer_on
from .timing import seconds
from .workload import check_counts, selected

_AGREE = 2e-5  # of the largest element, in float32 beside float64

Run = Callable[[], Any]


class _OURS:
    """What cases need of us, where PyTorch's module has it."""

    nn, optim, sin = nn, optim, staticmethod(ops.sin)


class Case(NamedTuple):
    """An op.

    Attributes:
        name: what it is.
        shapes: of its operands, drawn from a normal distribution.
        make: given a library and the operands, a function that runs the op; the names are those
            that we and PyTorch share.
        rows: indices below this, as many as ``count``, are the last operand; 0: none.
        count: how many.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    make: Callable[..., Run]
    rows: int = 0
    count: int = 0


def _calls(op: Callable[..., Any]) -> Callable[..., Run]:
    """A case's ``make`` of a function of ``nn.functional`` (or of the library) and operands."""
    return lambda lib, *operands: lambda: op(lib.nn.functional, *operands)


def _steps(name: str, **settings: Any) -> Callable[..., Run]:
    """A case's ``make`` of an optimiser's step."""

    def make(lib: Any, p: Any) -> Run:
        optimizer = getattr(lib.optim, name)([p], **settings)
        p.grad = lib.sin(3 * p.detach())

        def run() -> None:
            optimizer.step()

        return run

    return make


_IMAGES, _ROWS, _FLAT = (16, 256, 56, 56), (8192, 1024), (12_000_000,)


def _depthwise(size: int, stride: int = 1) -> Case:
    """A filter of its own for each channel, with borders of zeros."""
    settings = {"stride": stride, "padding": size // 2, "groups": _IMAGES[1]}
    name = f"depthwise {size}x{size}" + f"/{stride}" * (stride > 1)
    return Case(
        name,
        (_IMAGES, (_IMAGES[1], 1, size, size)),
        _calls(lambda f, x, w: f.conv2d(x, w, **settings)),
    )


CASES = (
    Case("relu", (_IMAGES,), _calls(lambda f, x: f.relu(x))),
    Case("add and relu", (_IMAGES, _IMAGES), _calls(lambda f, x, y: f.relu(x + y))),
    Case("sigmoid", (_IMAGES,), _calls(lambda f, x: f.sigmoid(x))),
    Case("tanh", (_IMAGES,), _calls(lambda f, x: f.tanh(x))),
    Case("gelu", (_IMAGES,), _calls(lambda f, x: f.gelu(x))),
    Case(
        "batch norm",
        (_IMAGES, (256,), (256,)),
        _calls(lambda f, x, w, b: f.batch_norm(x, None, None, w, b, training=True)),
    ),
    Case(
        "layer norm",
        (_ROWS, (1024,), (1024,)),
        _calls(lambda f, x, w, b: f.layer_norm(x, (1024,), w, b)),
    ),
    Case("RMS norm", (_ROWS, (1024,)), _calls(lambda f, x, w: f.rms_norm(x, (1024,), w))),
    _depthwise(3),
    _depthwise(3, stride=2),
    _depthwise(5),
    _depthwise(7),
    Case("softmax", (_ROWS,), _calls(lambda f, x: f.softmax(x, -1))),
    Case("log softmax", (_ROWS,), _calls(lambda f, x: f.log_softmax(x, -1))),
    Case("cross entropy", (_ROWS,), _calls(lambda f, x, t: f.cross_entropy(x, t)), 1024, 8192),
    Case("sum", (_IMAGES,), _calls(lambda f, x: x.sum())),
    Case("sum of rows", (_ROWS,), _calls(lambda f, x: x.sum(1))),
    Case("sum of columns", (_ROWS,), _calls(lambda f, x: x.sum(0))),
    Case("mean of planes", (_IMAGES,), _calls(lambda f, x: x.mean((2, 3)))),
    Case("largest of rows", (_ROWS,), _calls(lambda f, x: x.amax(1))),
    Case("cumulative sum", (_ROWS,), _calls(lambda f, x: x.cumsum(1))),
    Case("transpose", ((4096, 3072),), _calls(lambda f, x: x.t().contiguous())),
    Case("channels last", (_IMAGES,), _calls(lambda f, x: x.permute(0, 2, 3, 1).contiguous())),
    Case("max pool 2x2", (_IMAGES,), _calls(lambda f, x: f.max_pool2d(x, 2))),
    Case("max pool 3x3/2", (_IMAGES,), _calls(lambda f, x: f.max_pool2d(x, 3, 2, 1))),
    Case("average pool 2x2", (_IMAGES,), _calls(lambda f, x: f.avg_pool2d(x, 2))),
    Case("average pool 3x3/2", (_IMAGES,), _calls(lambda f, x: f.avg_pool2d(x, 3, 2, 1))),
    Case("global average pool", (_IMAGES,), _calls(lambda f, x: f.adaptive_avg_pool2d(x, 1))),
    Case("upsample", ((16, 64, 56, 56),), _calls(lambda f, x: f.interpolate(x, scale_factor=2))),
    Case("padding", (_IMAGES,), _calls(lambda f, x: f.pad(x, (1, 1, 1, 1)))),
    Case("embedding", ((20_000, 512),), _calls(lambda f, t, i: f.embedding(i, t)), 20_000, 16_384),
    Case("SGD, momentum", (_FLAT,), _steps("SGD", lr=0.01, momentum=0.9)),
    Case("Adam", (_FLAT,), _steps("Adam", lr=0.001)),
)


class _Drawn(NamedTuple):
    """What a case computes with."""

    values: list[np.ndarray]
    indices: np.ndarray | None


class Speed(NamedTuple):
    """One direction of an op.

    Attributes:
        seconds: of its kernels, median.
        gigabytes: a second, that they must move.
        of_copy: the same over a copy's in the same turn, median.
    """

    seconds: float
    gigabytes: float
    of_copy: float


class Result(NamedTuple):
    """One measured op.

    Attributes:
        case: what was timed.
        forward: the op, or an optimiser's step.
        backward: its gradients; None for a step.
        wall: seconds of both by the clock.
        peer_seconds: PyTorch's, or None without it.
    """

    case: Case
    forward: Speed
    backward: Speed | None
    wall: float
    peer_seconds: float | None

    def row(self) -> str:
        """One line of the table."""
        cells = [f"{self.case.name:20}"]
        for speed in (self.forward, self.backward):
            if speed is None:
                cells.append(" " * 24)
            else:
                cells.append(
                    f"{speed.seconds * 1e3:8.2f} {speed.gigabytes:7.1f} {speed.of_copy:7.2f}"
                )
        if self.peer_seconds is not None:
            ratio = self.peer_seconds / self.wall
            cells.append(f"{self.peer_seconds * 1e3:9.2f} {ratio:6.2f}")
        return " ".join(cells)

    def json(self, where: Device) -> str:
        """One line for a file of results."""
        backward = None if self.backward is None else self.backward._asdict()
        fields = {"bench": "bandwidth", "device": where.identity.key, "op": self.case.name}
        fields |= {"forward": self.forward._asdict(), "backward": backward}
        return json.dumps(fields | {"seconds": self.wall, "peer_seconds": self.peer_seconds})


def measure(case: Case, where: Device, *, rounds: int, peer: Peer | None) -> Result:
    """Check and time one op.

    Args:
        case: the op.
        where: the device.
        rounds: turns; medians count.
        peer: PyTorch, or None.

    Returns:
        What was measured.

    Raises:
        ArithmeticError: if a result or gradient deviates from float64 by more than rounding does.
    """
    drawn = _draw(case)
    ours = _Side(_OURS, case, drawn, lambda values: tensor(values, device=where))
    _check(case, ours, drawn, where)
    largest = max(ours.operands, key=lambda x: x.numel()).detach()
    theirs = None if peer is None else _Side(peer.torch, case, drawn, peer.tensor)
    found: dict[str, list[tuple[float, float, float]]] = {"forward": [], "backward": []}
    walls: list[float] = []
    peer_walls: list[float] = []
    for _ in range(rounds):
        walls.append(seconds(ours.run, where))
        with profile() as copied:
            largest.clone()
            where.synchronize()
        with profile() as seen:
            ours.run()
            where.synchronize()
        limit = _rate(copied.commands)[1]
        for way, turns in found.items():
            of_way = [c for c in seen.commands if (c.phase == "backward") == (way == "backward")]
            if of_way:
                time, rate = _rate(of_way)
                turns.append((time, rate, rate / limit))
        if peer is not None and theirs is not None:
            peer_walls.append(seconds(theirs.run, peer))
    speeds = {
        way: Speed(*map(statistics.median, zip(*turns, strict=True)))
        for way, turns in found.items()
        if turns
    }
    other = statistics.median(peer_walls) if peer_walls else None
    wall = statistics.median(walls)
    return Result(case, speeds["forward"], speeds.get("backward"), wall, other)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench bandwidth", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--rounds", type=int, default=7, help="turns, of which the median counts")
    parser.add_argument("--only", default="", help="ops whose name contains this")
    parser.add_argument("--json", action="store_true", help="one JSON line for each op")
    options = parser.parse_args(argv)
    check_counts("bench bandwidth", options, "rounds", "threads")
    names = selected("bench bandwidth", [case.name for case in CASES], options.only)
    where = device(options.device)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if not options.json:
        print(f"{where.identity.name}; {peer.name if peer else 'PyTorch not compared'}")
        way = f"{'ms':>8} {'GB/s':>7} {'of copy':>7}"
        print(f"{'':20} {'forward':24} backward")
        print(f"{'op':20} {way} {way}{'  torch ms  ratio' if peer else ''}")
    for case in CASES:
        if case.name in names:
            result = measure(case, where, rounds=options.rounds, peer=peer)
            print(result.json(where) if options.json else result.row(), flush=True)


class _Side:
    """A case in one library, on one device.

    Args:
        lib: the library.
        case: the op.
        drawn: its operands and indices.
        upload: a tensor of the library, on the device, from an array.

    Attributes:
        operands: those that get gradients.
    """

    def __init__(
        self, lib: Any, case: Case, drawn: _Drawn, upload: Callable[[np.ndarray], Any]
    ) -> None:
        self.operands = [upload(v).requires_grad_() for v in drawn.values]
        indices = () if drawn.indices is None else (upload(drawn.indices),)
        self._op = case.make(lib, *self.operands, *indices)
        self._upload = upload
        self._upstream: Any = None

    def run(self) -> Any:
        """The op and, unless it is an optimiser's step, its gradients; the result."""
        y = self._op()
        if y is None:
            return None
        if self._upstream is None:
            rng = np.random.default_rng(1)
            self._upstream = self._upload(rng.standard_normal(tuple(y.shape), dtype=np.float32))
        for x in self.operands:
            x.grad = None
        y.backward(self._upstream)
        return y


def _draw(case: Case) -> _Drawn:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape, dtype=np.float32) for shape in case.shapes]
    return _Drawn(values, rng.integers(0, case.rows, case.count) if case.rows else None)


def _check(case: Case, ours: _Side, drawn: _Drawn, where: Device) -> None:
    """Compare the result and the gradients with float64's."""

    def upload(values: np.ndarray) -> Tensor:
        exact = values.astype(np.float64) if values.dtype == np.float32 else values
        return tensor(exact, device=where)

    exact = _Side(_OURS, case, drawn, upload)
    y, wanted = ours.run(), exact.run()
    pairs = [] if y is None else [(y, wanted)]
    for a, b in zip(ours.operands, exact.operands, strict=True):
        pairs += [(a, b), (a.grad, b.grad)]
    for got, true in pairs:
        reference = true.detach().numpy()
        error = np.abs(got.detach().numpy() - reference).max() / np.abs(reference).max()
        if not error <= _AGREE:
            raise ArithmeticError(f"{case.name}: deviates from float64; got error={error:.1e}")


def _rate(commands: Sequence[Command]) -> tuple[float, float]:
    """Seconds of commands, and the gigabytes a second that they moved."""
    time = sum(c.seconds for c in commands)
    return time, sum(c.bytes for c in commands) / time / 1e9


if __name__ == "__main__":
    main()
