"""How fast matrix products are, beside PyTorch's on the same device where it is installed.

Every product is compared with float64 before it is timed; the two sides are timed in turns. The
launches are bound once, as in a compiled plan: what is timed is enqueueing and running them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..device import Device, DeviceKind, Target, device
from ..errors import ArgumentError
from ..kernels.gemm import gemm, multiplies, pack_for
from ..tensor import Tensor, tensor
from ..values.dtypes import DType, bfloat16, float16, float32
from .bound_launches import placed, replaying
from .peer import Peer, peer_on
from .timing import seconds
from .workload import check_counts, selected


class Case(NamedTuple):
    """One product to time.

    Attributes:
        name: what it is.
        m, n, k: its sizes.
        layout: ``"N"`` or ``"T"`` (stored transposed) for a, then for b.
        batch: products in all.
    """

    name: str
    m: int
    n: int
    k: int
    layout: str = "NN"
    batch: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


def _linear(name: str, batch: int, inputs: int, outputs: int, *, first: bool = False) -> list[Case]:
    """A linear layer's product, and the gradients of its weight and, behind others, its input."""
    return [
        Case(name, batch, outputs, inputs, "NT"),
        *([] if first else [Case(f"{name}, input gradient", batch, inputs, outputs)]),
        Case(f"{name}, weight gradient", outputs, inputs, batch, "TN"),
    ]


SQUARES = tuple(Case(f"square {n}", n, n, n) for n in (256, 512, 1024, 2048))
LARGE = tuple(Case(f"square {n}", n, n, n) for n in (4096, 8192))
LAUNCH = (Case("one element", 1, 1, 1),)
TRANSPOSED = tuple(Case("square", 1024, 1024, 1024, layout) for layout in ("NT", "TN", "TT"))
NETWORKS = (
    Case("linear 784-128", 64, 128, 784, "NT"),
    Case("  its input gradient", 64, 784, 128),
    Case("  its weight gradient", 128, 784, 64, "TN"),
    Case("linear 3136-128", 64, 128, 3136, "NT"),
    Case("  its input gradient", 64, 3136, 128),
    Case("  its weight gradient", 128, 3136, 64, "TN"),
    Case("linear 3136-128 stored NN", 64, 128, 3136),
    Case("linear 784-128 stored NN", 64, 128, 784),
    Case("linear 128-10", 64, 10, 128, "NT"),
    Case("conv 16-32 3x3 as gemm", 32, 25088, 144),
    Case("  its input gradient", 144, 25088, 32, "TN"),
    Case("  its weight gradient", 32, 144, 25088, "NT"),
    Case("conv 64-64 3x3 as gemm", 64, 3136, 576),
    Case("weight gradient, long k", 64, 32, 100000, "NT"),
    Case("one row", 1, 4096, 4096),
    Case("one row, transposed", 1, 4096, 4096, "NT"),
    Case("one column", 4096, 1, 4096),
    Case("attention scores", 128, 128, 64, "NT", batch=96),
    Case("small batch items", 16, 16, 16, batch=4096),
)
# Every product of the seven networks of Shi et al. at their batch sizes, convolutions left out.
SHI = (
    *_linear("FCN-S 1", 64, 26752, 2048, first=True),
    *_linear("FCN-S 2, 3", 64, 2048, 2048),
    *_linear("FCN-S 4", 64, 2048, 26752),
    *_linear("AlexNet-S 1", 16, 9216, 4096),
    *_linear("AlexNet-S 2", 16, 4096, 4096),
    *_linear("AlexNet-S 3", 16, 4096, 1000),
    *_linear("ResNet-50", 16, 2048, 1000),
    *_linear("FCN-R 1", 1024, 784, 2048, first=True),
    *_linear("FCN-R 2", 1024, 2048, 4096),
    *_linear("FCN-R 3", 1024, 4096, 1024),
    *_linear("FCN-R 4", 1024, 1024, 10),
    *_linear("AlexNet-R", 1024, 1024, 10),
    *_linear("ResNet-56", 128, 64, 10),
    *_linear("LSTM inputs", 4096, 256, 1024),
    *_linear("LSTM states", 128, 256, 1024),
    *_linear("LSTM words", 4096, 256, 10000),
)
# Of GPT-2 124M with eight texts of 1024 words.
GPT2 = (
    *_linear("GPT-2 queries, keys, values", 8192, 768, 2304),
    *_linear("GPT-2 attention's result", 8192, 768, 768),
    *_linear("GPT-2 hidden", 8192, 768, 3072),
    *_linear("GPT-2 behind it", 8192, 3072, 768),
)
GROUPS = {
    "launch": LAUNCH,
    "squares": SQUARES,
    "large": LARGE,
    "transposed": TRANSPOSED,
    "others": NETWORKS,
    "shi2016": SHI,
    "gpt2": GPT2,
}
"""What ``--cases`` names, those for GPUs last. One element is what a launch costs alone."""
_FOR_GPUS = ("large", "gpt2")


class Precision(NamedTuple):
    """What both sides multiply.

    Attributes:
        dtype: of operands and result.
        error: allowed, in units of the largest element; of float32 it grows with k.
        tf32: float32 may be rounded to TF32, on both sides.
        split: it may be split in two that TF32 holds, on our side.
    """

    dtype: DType = float32
    error: float = 1e-6
    tf32: bool = False
    split: bool = False


PRECISIONS = {
    "fp32": Precision(),
    "tf32": Precision(error=2e-3, tf32=True),
    "tf32x3": Precision(split=True),
    "bf16": Precision(bfloat16, error=1e-2),
    "fp16": Precision(float16, error=2e-3),
}


class Result(NamedTuple):
    """One measured product.

    Attributes:
        case: what was timed.
        error: largest deviation from float64, in units of the largest element.
        seconds: median of one product.
        peer_seconds: PyTorch's, or None without it.
    """

    case: Case
    error: float
    seconds: float
    peer_seconds: float | None

    def row(self) -> str:
        """One line of the table."""
        case = self.case
        size = (
            f"{case.batch}x " * (case.batch > 1) + f"{case.m} x {case.n} x {case.k} {case.layout}"
        )
        rate = case.flops / self.seconds / 1e9
        line = f"{case.name:29} {size:26} {self.seconds * 1e6:10.1f} {rate:9.1f}"
        if self.peer_seconds is None:
            return line
        peer_rate = case.flops / self.peer_seconds / 1e9
        ratio = self.peer_seconds / self.seconds
        return f"{line} {self.peer_seconds * 1e6:10.1f} {peer_rate:9.1f} {ratio:6.2f}"

    def json(self, where: Device) -> str:
        """One line for a file of results."""
        rate = self.case.flops / self.seconds / 1e9
        fields = {"bench": "gemm", "device": where.identity.key, **self.case._asdict()}
        fields |= {"error": self.error, "seconds": self.seconds, "gflops": rate}
        return json.dumps(fields | {"peer_seconds": self.peer_seconds})


def measure(
    case: Case,
    where: Device,
    target: Target,
    *,
    rounds: int,
    peer: Peer | None,
    packed: bool = False,
    precision: Precision = PRECISIONS["fp32"],
) -> Result:
    """Check and time one product.

    Args:
        case: the product.
        where: the device.
        target: what kernels are chosen for: the device's own, or one that can do less.
        rounds: turns; the median counts.
        peer: PyTorch, or None.
        packed: ``b`` is packed before, as the weights of a compiled plan are.
        precision: what is multiplied.

    Returns:
        What was measured.

    Raises:
        ArithmeticError: if the product deviates from float64 by more than its rounding explains.
    """
    rng = np.random.default_rng(0)
    lead = (case.batch,) if case.batch > 1 else ()
    a = _operand(rng, (*lead, case.m, case.k), transposed=case.layout[0] == "T")
    b = _operand(rng, (*lead, case.k, case.n), transposed=case.layout[1] == "T")
    left, right = (_upload(x, where, precision.dtype) for x in (a, b))
    a, b = left.float().numpy(), right.float().numpy()
    made = tensor(np.full((*lead, case.m, case.n), np.nan, np.float32), device=where)
    made = made.to(precision.dtype)
    out, operands = made.array, (left.array, right.array)
    packing, panels = pack_for(target, out, *operands) if packed else ([], None)
    rounded = precision.tf32
    product = gemm(target, out, *operands, panels=panels, tf32=rounded, split=precision.split)
    launches = placed([*packing, *product], where)
    for launch in launches[: len(packing)]:
        where.queue.launch(launch)
    ours = replaying(launches[len(packing) :], where)
    ours()
    error = _check(case, made.float().numpy(), a, b, precision)
    theirs = None if peer is None else _peer(peer, out.shape, a, b, precision)
    repeats = max(1, min(200, int(0.02 / max(seconds(ours, where, 1), 1e-6))))
    own_times: list[float] = []
    peer_times: list[float] = []
    for _ in range(rounds):
        own_times.append(seconds(ours, where, repeats))
        if peer is not None and theirs is not None:
            peer_times.append(seconds(theirs, peer, repeats))
    other = statistics.median(peer_times) if peer_times else None
    return Result(case, error, statistics.median(own_times), other)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="clnet bench gemm", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="PyTorch's threads on a CPU (as many as we)")
    against = ("torch", "nothing")
    parser.add_argument("--against", choices=against, default="torch", help="where it is installed")
    parser.add_argument("--rounds", type=int, default=11, help="turns, of which the median counts")
    parser.add_argument("--cases", help=f"with commas, of {', '.join(GROUPS)} (all that suit)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument(
        "--precision", choices=tuple(PRECISIONS), default="fp32", help="tf32x3 is ours alone"
    )
    parser.add_argument("--packed", action="store_true", help="b is packed before, for all turns")
    parser.add_argument("--portable", action="store_true", help="in plain OpenCL C alone")
    parser.add_argument("--json", action="store_true", help="one JSON line for each case")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    options = _options(argv)
    where = device(options.device)
    target = where.target
    if options.portable:
        target = replace(target, traits=replace(target.traits, asynchronous_copies=False))
    check_counts("bench gemm", options, "rounds", "threads")
    precision = PRECISIONS[options.precision]
    if precision.dtype is not float32 and not multiplies(target, precision.dtype):
        raise ArgumentError(
            "--precision",
            "the device has no matrix units for it: it is computed in float32",
            found=options.precision,
            device=where.name,
        )
    cases = list(_cases(options.cases, where))
    names = selected("bench gemm", [case.name for case in cases], options.only)
    peer = None if options.against == "nothing" else peer_on(where, options.threads)
    if not options.json:
        _print_heads(where, peer)
    how = {"rounds": options.rounds, "packed": options.packed, "precision": precision}
    ratios: list[float] = []
    for case in cases:
        if case.name in names:
            result = measure(case, where, target, peer=peer, **how)
            print(result.json(where) if options.json else result.row(), flush=True)
            if result.peer_seconds is not None:
                ratios.append(result.peer_seconds / result.seconds)
    if ratios and not options.json:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}", end="")
        print(f"; least {min(ratios):.2f}")


def _print_heads(where: Device, peer: Peer | None) -> None:
    print(f"{where.identity.name}; {peer.name if peer else 'PyTorch not compared'}")
    heads = ("us", "GFLOP/s") + ("torch us", "GFLOP/s", "ratio") * (peer is not None)
    print(f"{'product':29} {'m x n x k':26} {heads[0]:>10} {heads[1]:>9}", end="")
    print("".join(f" {h:>{w}}" for h, w in zip(heads[2:], (10, 9, 6), strict=False)))


def _cases(names: str | None, where: Device) -> Iterator[Case]:
    """The cases of the groups that are named."""
    suit = [g for g in GROUPS if g not in _FOR_GPUS or where.traits.kind is DeviceKind.GPU]
    for name in suit if names is None else names.split(","):
        if name not in GROUPS:
            raise ArgumentError(
                "--cases", "no such group of products", found=repr(name), have=list(GROUPS)
            )
        yield from GROUPS[name]


def _operand(rng: np.random.Generator, shape: tuple[int, ...], *, transposed: bool) -> np.ndarray:
    if transposed:
        shape = (*shape[:-2], shape[-1], shape[-2])
    values = rng.standard_normal(shape, dtype=np.float32)
    return values.swapaxes(-1, -2) if transposed else values


def _upload(values: np.ndarray, where: Device, dtype: DType) -> Tensor:
    """The values in device memory, rounded, laid out as on the host."""
    if values.flags.c_contiguous:
        return tensor(values, device=where).to(dtype)
    return tensor(values.swapaxes(-1, -2), device=where).to(dtype).transpose(-1, -2)


def _check(
    case: Case, got: np.ndarray, a: np.ndarray, b: np.ndarray, precision: Precision
) -> float:
    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = float(np.abs(got - expected).max() / np.abs(expected).max())
    plain = precision.dtype is float32 and not precision.tf32
    if not error <= precision.error * (max(1.0, case.k**0.5 / 4) if plain else 1.0):
        raise ArithmeticError(f"{case}: deviates from float64; got error={error:.1e}")
    return error


def _peer(
    peer: Peer, shape: tuple[int, ...], a: np.ndarray, b: np.ndarray, precision: Precision
) -> Callable[[], object]:
    torch = peer.torch
    torch.backends.cuda.matmul.allow_tf32 = precision.tf32
    dtype = getattr(torch, precision.dtype.name)
    left, right, out = (x.to(dtype) for x in (peer.tensor(a), peer.tensor(b), peer.empty(shape)))
    return lambda: torch.matmul(left, right, out=out)


if __name__ == "__main__":
    main()
