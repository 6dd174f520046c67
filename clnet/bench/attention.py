"""How fast attention and its gradients are, beside PyTorch's on the same device.

Results and gradients of two heads are compared with float64 before a time is taken; the two sides
are timed in turns, by the clock. Operations are two products forward and five more backward, half
of them where a row sees only the keys up to its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ..device import Device, DeviceKind, device
from ..errors import ArgumentError
from ..nn import functional
from ..tensor import tensor
from ..values import dtypes
from .peer import Peer, peer_on
from .timing import seconds
from .workload import check_counts, selected

_AGREE = {"float32": 2e-5, "bfloat16": 2e-2}  # of the largest element
_GPU_BATCH, _CPU_BATCH = 16, 1
_FEATURES = 2048  # of --rows, in all heads
_BACKENDS = {
    "default": "",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


class Case(NamedTuple):
    """A problem.

    Attributes:
        heads: of each of the batch.
        rows: queries, and as many keys.
        head: elements of each.
        causal: whether a key counts only for rows from its own number on.
        dtype: of the operands.
    """

    heads: int
    rows: int
    head: int
    causal: bool = False
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """What it is."""
        more = f", {self.dtype}" * (self.dtype != "float32")
        return f"{self.heads} x {self.rows} x {self.head}" + ", causal" * self.causal + more


CASES = (
    Case(12, 197, 64),
    Case(12, 1024, 64),
    Case(12, 1024, 64, causal=True),
    Case(16, 1024, 32),
    Case(8, 1024, 128),
    Case(8, 2048, 128, causal=True),
    Case(4, 1024, 256),
    Case(12, 1024, 64, causal=True, dtype="bfloat16"),
    Case(8, 2048, 128, dtype="bfloat16"),
    Case(8, 2048, 128, causal=True, dtype="bfloat16"),
)


class Result(NamedTuple):
    """One measured problem.

    Attributes:
        case: what was timed.
        flops: of the forward pass.
        forward: seconds of it, median.
        both: seconds of it and its gradients.
        peer_forward: PyTorch's, or None without it.
        peer_both: the same.
    """

    case: Case
    flops: int
    forward: float
    both: float
    peer_forward: float | None
    peer_both: float | None

    def row(self) -> str:
        """One line of the table."""
        line = f"{self.case.name:34}"
        for ours, theirs, times in (
            (self.forward, self.peer_forward, 1.0),
            (self.both, self.peer_both, 3.5),
        ):
            line += f" {ours * 1e3:9.3f} {times * self.flops / ours / 1e9:9.1f}"
            if theirs is not None:
                line += f" {theirs * 1e3:9.3f} {theirs / ours:6.2f}"
        return line


def measure(
    case: Case,
    where: Device,
    *,
    batch: int,
    rounds: int,
    peer: Peer | None,
    backend: str = "default",
) -> Result:
    """Check and time one problem.

    Args:
        case: the problem.
        where: the device.
        batch: examples.
        rounds: turns; medians count.
        peer: PyTorch, or None.
        backend: which of PyTorch's kernels; ``"default"``: what it chooses.

    Returns:
        What was measured.

    Raises:
        ArithmeticError: if a result or gradient deviates from float64 by more than rounding does.
    """
    shape = (batch, case.heads, case.rows, case.head)
    rng = np.random.default_rng(0)
    made = [tensor(rng.standard_normal(shape, dtype=np.float32), device=where) for _ in range(4)]
    operands = [x.to(getattr(dtypes, case.dtype)) for x in made]
    drawn = [x.float().numpy() for x in operands]
    ours = _runs(functional, case, operands)
    _check(case, drawn, ours[1]())
    theirs = None
    if peer is not None:
        dtype = getattr(peer.torch, case.dtype)
        others = [peer.tensor(x).to(dtype) for x in drawn]
        theirs = _runs(peer.torch.nn.functional, case, others)
    repeats = max(1, min(50, int(0.05 / max(seconds(ours[1], where), 1e-6))))
    own: list[list[float]] = [[], []]
    other: list[list[float]] = [[], []]
    with _chosen(peer, backend):
        for _ in range(rounds):
            for way in range(2):
                own[way].append(seconds(ours[way], where, repeats))
                if peer is not None and theirs is not None:
                    other[way].append(seconds(theirs[way], peer, repeats))
    flops = 4 * batch * case.heads * case.rows**2 * case.head // (1 + case.causal)
    beside = [statistics.median(turns) if turns else None for turns in other]
    return Result(case, flops, *map(statistics.median, own), *beside)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench attention", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--batch", type=int, help=f"examples ({_GPU_BATCH}; on a CPU {_CPU_BATCH})")
    parser.add_argument("--rounds", type=int, default=5, help="turns, of which the median counts")
    parser.add_argument(
        "--rows", help="lengths with commas, causal or not: instead of the problems"
    )
    parser.add_argument(
        "--head", default="64,128", help="of --rows: elements of a head, with commas"
    )
    parser.add_argument("--dtype", choices=tuple(_AGREE), default="float32", help="of --rows")
    parser.add_argument(
        "--torch-backend", choices=tuple(_BACKENDS), default="default", help="PyTorch's kernels"
    )
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--json", action="store_true", help="one JSON line for each problem")
    options = parser.parse_args(argv)
    check_counts("bench attention", options, "rounds", "threads", "batch")
    cases = _grid(options) if options.rows else CASES
    names = selected("bench attention", [case.name for case in cases], options.only)
    where = device(options.device)
    batch = options.batch or (_CPU_BATCH if where.traits.kind is DeviceKind.CPU else _GPU_BATCH)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if not options.json:
        backend = f", {options.torch_backend} kernels" * (options.torch_backend != "default")
        print(f"{where.identity.name}; {peer.name + backend if peer else 'PyTorch not compared'}")
        heads = f" {'ms':>9} {'GFLOP/s':>9}" + (f" {'torch ms':>9} {'ratio':>6}" if peer else "")
        print(f"{f'{batch} x heads x rows x head':34}{heads}{heads}   forward; with gradients")
    for case in cases:
        if case.name in names:
            rounds, kernels = options.rounds, options.torch_backend
            found = measure(case, where, batch=batch, rounds=rounds, peer=peer, backend=kernels)
            if options.json:
                fields = {"bench": "attention", "device": where.identity.key, "batch": batch}
                fields["torch_backend"] = kernels
                print(json.dumps(fields | found._asdict() | {"case": case.name}), flush=True)
            else:
                print(found.row(), flush=True)


def _chosen(peer: Peer | None, backend: str) -> Any:
    """In which PyTorch attends by one kind of kernels, or fails."""
    if peer is None or backend == "default":
        return nullcontext()
    attention = peer.torch.nn.attention
    return attention.sdpa_kernel(getattr(attention.SDPBackend, _BACKENDS[backend]))


def _grid(options: argparse.Namespace) -> list[Case]:
    """Of every length and size of head, causal or not; 2048 features in all heads together."""
    numbers = [options.rows.split(","), options.head.split(",")]
    if not all(n.isdecimal() and int(n) for n in (*numbers[0], *numbers[1])):
        given = {"rows": options.rows, "head": options.head}
        raise ArgumentError("bench attention", "--rows and --head are as 512,1024", **given)
    rows, heads = ([int(n) for n in given] for given in numbers)
    return [
        Case(max(1, _FEATURES // d), n, d, causal, options.dtype)
        for n in rows
        for d in heads
        for causal in (False, True)
    ]


def _runs(lib: Any, case: Case, operands: Sequence[Any]) -> tuple[Callable[[], Any], ...]:
    """What runs the forward pass, and with it the gradients, of a library's tensors."""
    *leaves, gy = operands
    graded = [x.detach().requires_grad_() for x in leaves]

    def forward() -> Any:
        return lib.scaled_dot_product_attention(*leaves, is_causal=case.causal)

    def both() -> Any:
        for x in graded:
            x.grad = None
        y = lib.scaled_dot_product_attention(*graded, is_causal=case.causal)
        y.backward(gy)
        return (y, *(x.grad for x in graded))

    return forward, both


def _check(case: Case, drawn: Sequence[np.ndarray], found: Sequence[Any]) -> None:
    """Compare the first and the last head of result and gradients with float64's."""
    got = [x.detach().float().numpy() for x in found]
    for at in ((0, 0), (-1, -1)):
        q, k, v, gy = (x[at].astype(np.float64) for x in drawn)
        s = q @ k.T / case.head**0.5
        if case.causal:
            s = np.where(np.tri(case.rows, dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        y = p @ v
        slope = p * (gy @ v.T - (gy * y).sum(-1, keepdims=True)) / case.head**0.5
        for one, wanted in zip(got, (y, slope @ k, slope.T @ q, p.T @ gy), strict=True):
            error = np.abs(one[at] - wanted).max() / np.abs(wanted).max()
            if not error <= _AGREE[case.dtype]:
                raise ArithmeticError(f"{case.name}: deviates from float64; got error={error:.1e}")


if __name__ == "__main__":
    main()
