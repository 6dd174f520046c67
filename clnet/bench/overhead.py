"""What the host costs: microseconds of an op, of a replayed launch, and seconds to a first step.

One-element tensors, so that the kernels themselves cost next to nothing; programs of small ones,
whose ops are many. The first step is timed in processes of its own, with an empty and with a filled
kernel cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from .. import nn, ops, optim
from ..compile import compile as compiled
from ..device import Device, device
from ..tensor import Tensor, full
from ..values.dtypes import int64
from .peer import Peer, peer_on
from .timing import Waits, seconds

_CHAIN = 200
_CALLS = 1000
_PROGRAM_CALLS = 100
_FIRST_STEP = """
import os, sys, time
folder, os.environ["CLNET_DEVICE"] = sys.argv[1:]
os.environ["CLNET_CACHE_DIR"] = os.environ["POCL_CACHE_DIR"] = folder
start = time.perf_counter()
import clnet
from clnet.models import CNN
from clnet.nn import functional as F
model = CNN((1, 8, 8), 10)
optimizer = clnet.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()
x, y = clnet.zeros(64, 1, 8, 8), clnet.zeros(64, dtype=clnet.int64)
clnet.compile(step)(x, y).item()
print(time.perf_counter() - start)
"""


def _chain(x: Tensor) -> Tensor:
    for _ in range(_CHAIN):
        x = x * 1.5
    return x


def host_costs(where: Device) -> dict[str, float]:
    """Microseconds of single ops and of launches in a chain.

    Args:
        where: the device.

    Returns:
        By what was timed.
    """
    x = full((1,), 1.0, device=where)
    leaf = full((1,), 1.0, device=where, requires_grad=True)
    replayed = compiled(_chain, passes=())  # which would make it one launch
    cases: dict[str, tuple[Callable[[], object], int, int]] = {
        "relu": (lambda: ops.relu(x), _CALLS, 1),
        "add": (lambda: x + x, _CALLS, 1),
        "add, on the tape": (lambda: leaf + x, _CALLS, 1),
        "reshape (no launch)": (lambda: x.reshape(1, 1), _CALLS, 1),
        "chain, eager": (lambda: _chain(x), 5, _CHAIN),
        "chain, compiled": (lambda: replayed(x), 20, _CHAIN),
    }
    return {name: _microseconds(*case, where) for name, case in cases.items()}


def peer_costs(peer: Peer) -> dict[str, float]:
    """The same of PyTorch; its compiled chain is a CUDA graph.

    Args:
        peer: PyTorch on the same device.

    Returns:
        By what was timed.
    """
    torch = peer.torch
    x = torch.ones(1, device=peer.device)
    leaf = torch.ones(1, device=peer.device, requires_grad=True)
    cases: dict[str, tuple[Callable[[], object], int, int]] = {
        "relu": (lambda: torch.relu(x), _CALLS, 1),
        "add": (lambda: x + x, _CALLS, 1),
        "add, on the tape": (lambda: leaf + x, _CALLS, 1),
        "reshape (no launch)": (lambda: x.reshape(1, 1), _CALLS, 1),
        "chain, eager": (lambda: _chain(x), 5, _CHAIN),
    }
    if peer.device == "cuda":
        cases["chain, compiled"] = (_graph(torch, lambda: _chain(x)), 20, _CHAIN)
    return {name: _microseconds(*case, peer) for name, case in cases.items()}


def programs(nn: Any, optim: Any, x: Any, labels: Any) -> dict[str, Callable[[], object]]:
    """Programs of many small eager ops, of clnet or of PyTorch.

    Args:
        nn: the library's layers.
        optim: its optimisers.
        x: ``(8, 16)``.
        labels: ``(8,)``, int64, below 4.

    Returns:
        By name what runs each.
    """
    layers = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)]
    network, norm = (nn.Sequential(*each).to(x.device) for each in (layers, [nn.LayerNorm(16)]))
    optimizer = optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def differentiate() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), labels).backward()

    def train() -> None:
        differentiate()
        optimizer.step()

    return {
        "x[1:3] (no launch)": lambda: x[1:3],
        "layer norm": lambda: norm(x),
        "MLP": lambda: network(x),
        "MLP, backward too": differentiate,
        "MLP, a step of SGD too": train,
    }


def program_costs(where: Device, calls: int = _PROGRAM_CALLS) -> dict[str, float]:
    """Microseconds of a call of each of :func:`programs`.

    Args:
        where: the device.
        calls: over which the time is averaged.
    """
    x = full((8, 16), 1.0, device=where)
    cases = programs(nn, optim, x, full((8,), 1, dtype=int64, device=where))
    return {name: _microseconds(run, calls, 1, where) for name, run in cases.items()}


def peer_program_costs(peer: Peer, calls: int = _PROGRAM_CALLS) -> dict[str, float]:
    """The same of PyTorch.

    Args:
        peer: PyTorch on the same device.
        calls: over which the time is averaged.
    """
    torch = peer.torch
    x = torch.ones(8, 16, device=peer.device)
    labels = torch.ones(8, dtype=torch.int64, device=peer.device)
    cases = programs(torch.nn, torch.optim, x, labels)
    return {name: _microseconds(run, calls, 1, peer) for name, run in cases.items()}


def _graph(torch: Any, run: Callable[[], object]) -> Callable[[], object]:
    """What replays as a CUDA graph what something does."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def first_step(where: Device) -> dict[str, float]:
    """Seconds from ``import clnet`` to the end of the digits CNN's first training step.

    Args:
        where: the device.

    Returns:
        With a cold and with a warm kernel cache, the start of Python excluded.
    """
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            float(
                subprocess.run(
                    [sys.executable, "-c", _FIRST_STEP, folder, where.name],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                ).stdout
            )
            for _ in range(4)
        ]
    return {"cold": runs[0], "warm": statistics.median(runs[1:])}


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench overhead", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--json", action="store_true", help="one JSON line instead of a table")
    options = parser.parse_args(argv)
    where = device(options.device)
    peer = None if options.against == "nothing" else peer_on(where, 1)
    ours = {**host_costs(where), **program_costs(where)}
    theirs = {} if peer is None else {**peer_costs(peer), **peer_program_costs(peer)}
    start = first_step(where)
    if options.json:
        line = {"bench": "overhead", "device": where.identity.key, "us": ours, "peer_us": theirs}
        print(json.dumps({**line, "first_step_s": start}))
        return
    print(f"{where.identity.name}; microseconds a launch on one element, or a call")
    for name, value in ours.items():
        beside = f"   PyTorch {theirs[name]:8.2f}" if name in theirs else ""
        print(f"{name:22} {value:8.2f}{beside}")
    print(f"import to first training step: cold {start['cold']:.2f} s, warm {start['warm']:.2f} s")


def _microseconds(run: Callable[[], object], calls: int, launches: int, where: Waits) -> float:
    run()
    turns = [seconds(run, where, calls) for _ in range(7)]
    return 1e6 * statistics.median(turns) / launches


if __name__ == "__main__":
    main()
