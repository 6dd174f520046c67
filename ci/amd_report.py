"""Compiles the kernels that an AMD GPU would run, for GPUs that are not there: registers, waves.

    python ci/amd_report.py [--targets gfx906 gfx1030] [--only gemm] [--jobs 2]

Kernels are chosen by the traits of such a GPU (256 items a group, 64 or 32 KiB of local memory),
for products, convolutions, attention, recurrent layers and what surrounds them in training; each is
compiled by clang with libclc (Debian: clang-19, libclc-19). Behind the registers of an item stand
those spilled, and how many waves of such kernels a SIMD unit has room for, by registers and local
memory. Exit code 1 if one does not compile, breaks a limit or spills.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from typing import NamedTuple

from clnet.array import Array
from clnet.device import Launch, Target, device
from clnet.kernels.conv.conv import ConvGeometry, conv_forward, conv_input_grad, conv_weight_grad
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm.gemm import gemm
from clnet.kernels.norm.norm import batch_norm, batch_norm_grad
from clnet.kernels.softmax import Scores, attention, attention_grad
from clnet.kernels.softmax.softmax import softmax
from clnet.ops.recurrence import Recurrence, RecurrenceBackward
from clnet.ops.rnn import Cell
from clnet.values.dtypes import float32

TARGETS = ("gfx803", "gfx906", "gfx1030", "gfx1100")
# Of a SIMD unit: registers of a lane, how many are given at a time, the most waves; a wave's items,
# and local memory for four of them.
UNITS = {
    "gfx8": (256, 4, 10, 64, 65536),
    "gfx9": (256, 4, 10, 64, 65536),
    "gfx10": (1024, 8, 16, 32, 131072),
    "gfx11": (1536, 24, 16, 32, 131072),
}
CLANG = "clang-19"
LIBRARY = "/usr/lib/clc/amdgcn--amdhsa.bc"
GROUP, LOCAL = 256, {"64 KiB": 65536, "32 KiB": 32768}
FIELDS = (
    "vgpr_count",
    "sgpr_count",
    "vgpr_spill_count",
    "sgpr_spill_count",
    "group_segment_fixed_size",
)
# n, ic, size, oc, filter, stride and groups of each.
CONVOLUTIONS = (
    (64, 64, 56, 64, 1, 1, 1),
    (64, 64, 56, 64, 3, 1, 1),
    (64, 256, 56, 128, 1, 1, 1),
    (64, 128, 56, 128, 3, 2, 1),
    (64, 256, 14, 256, 3, 1, 1),
    (64, 1024, 14, 2048, 1, 2, 1),
    (64, 512, 7, 512, 3, 1, 1),
    (64, 3, 224, 64, 7, 2, 1),
    (128, 64, 27, 192, 5, 1, 1),
    (128, 16, 32, 16, 3, 1, 1),
    (32, 96, 28, 96, 3, 1, 96),
    (32, 96, 56, 96, 3, 2, 96),
    (32, 96, 28, 96, 5, 1, 96),
    (32, 96, 56, 96, 7, 1, 96),
    (64, 384, 14, 384, 7, 1, 384),
)
PRODUCTS = (
    (4096, 4096, 4096),
    (1024, 1024, 1024),
    (64, 2048, 2048),
    (128, 9216, 4096),
    (1023, 1025, 1027),
    (20, 2600, 650),
    (64, 10, 128),
)
# Examples, and elements of a state.
RECURRENCES = (
    (Cell.GRU, 64, 128),
    (Cell.LSTM, 64, 128),
    (Cell.GRU, 128, 512),
    (Cell.LSTM, 64, 1024),
)
# Rows, elements of a head, and whether a row sees only the keys up to its own.
ATTENTIONS = (
    (1024, 32, False),
    (1024, 64, False),
    (1024, 64, True),
    (197, 64, False),
    (1024, 80, True),
    (1024, 128, False),
    (1024, 256, False),
)


class Compiled(NamedTuple):
    """What the compiler said of one kernel on one GPU.

    Attributes:
        kernel: template, def and parameters.
        target: the GPU.
        items: of a group.
        numbers: registers, spills and local memory, by the names of ``FIELDS``; None if refused.
        problem: what is wrong, or None.
    """

    kernel: str
    target: str
    items: int
    numbers: dict[str, int] | None
    problem: str | None

    @property
    def waves(self) -> int | None:
        """Waves that a SIMD unit has room for; None where that is not known."""
        units = UNITS.get(self.target[:-2])
        if self.numbers is None or units is None:
            return None
        registers, at_once, most, lanes, local = units
        taken = -(-max(self.numbers["vgpr_count"], 1) // at_once) * at_once
        waves = min(registers // taken, most)
        if used := self.numbers["group_segment_fixed_size"]:
            waves = min(waves, max(local // used * -(-self.items // lanes) // 4, 1))
        return waves


def abstract(*shape: int) -> Array:
    """An array without memory."""
    return Array.abstract(shape, float32, device())


def transposed(array: Array) -> Array:
    """A matrix that lies transposed."""
    rows, columns = array.shape
    return abstract(columns, rows).view((rows, columns), (1, rows))


def products(target: Target) -> Iterator[Launch]:
    """Of matrices in three layouts, one with a bias."""
    for m, n, k in PRODUCTS:
        a, b, out = abstract(m, k), abstract(k, n), abstract(m, n)
        yield from gemm(target, out, a, b)
        epilogue = Epilogue(abstract(n), activation="relu")
        yield from gemm(target, out, a, transposed(b), epilogue=epilogue)
        yield from gemm(target, out, transposed(a), b)


def convolutions(target: Target) -> Iterator[Launch]:
    """Layers of networks, forward and both gradients."""
    for n, ic, size, oc, r, stride, groups in CONVOLUTIONS:
        pad = (r - 1) // 2
        out = (size + 2 * pad - r) // stride + 1
        g = ConvGeometry(
            n, ic, size, size, oc, r, r, out, out, stride, stride, pad, pad, 1, 1, groups
        )
        x, w, y = (
            abstract(n, ic, size, size),
            abstract(oc, ic // groups, r, r),
            abstract(n, oc, out, out),
        )
        yield from conv_forward(target, y, x, w, g, Epilogue(bias=abstract(oc), activation="relu"))
        yield from conv_input_grad(target, x, y, w, g)
        yield from conv_weight_grad(target, w, y, x, g)


def surroundings(target: Target) -> Iterator[Launch]:
    """Norms with their pointwise parts, and softmax."""
    for shape in ((64, 256, 14, 14), (64, 512, 7, 7), (128, 4096)):
        x, y = abstract(*shape), abstract(*shape)
        channels = [abstract(shape[1]) for _ in range(5)]
        yield from batch_norm(target, y, tuple(channels[:3]), x, *channels[3:], eps=1e-5)
        yield from batch_norm_grad(target, y, channels[3], channels[4], x, x, *channels[:3])
    yield from softmax(target, abstract(64, 1000), abstract(64, 1000), dim=1)


def attentions(target: Target) -> Iterator[Launch]:
    """Forward and gradients, of sequences that fill the GPU."""
    for rows, head, causal in ATTENTIONS:
        x, row = abstract(16, 8, rows, head), abstract(16, 8, rows)
        scores = Scores(head**-0.5, causal=causal)
        yield from attention(target, x, row, x, x, x, None, scores=scores)
        yield from attention_grad(target, (x, x, x), x, row, row, x, x, x, None, scores=scores)


def recurrences(target: Target) -> Iterator[Launch]:
    """Layers whose weights are small, and large, forward and back."""
    for cell, n, size in RECURRENCES:
        rows, states = cell.gates * size, cell.results
        own, first = abstract(4, n, rows), [abstract(n, size)] * states
        inputs = (own, *first, abstract(rows, size))
        made = [abstract(4, n, size)] * states
        yield from Recurrence(cell, backwards=False).lower(target, (*made, own), inputs)
        arrived = (True,) + (False,) * (states - 1)
        backward = RecurrenceBackward(cell, backwards=False, arrived=arrived)
        saved = (*inputs, *made, own, made[0])
        outputs = (own, *first, own)[: 2 + states - (cell is Cell.LSTM)]
        yield from backward.lower(target, outputs, saved)


FAMILIES = {
    "gemm": products,
    "conv": convolutions,
    "norm": surroundings,
    "attention": attentions,
    "recurrent": recurrences,
}


def chosen(
    families: Iterable[str],
    *,
    sizes: Iterable[int] = tuple(LOCAL.values()),
    item_registers: int = 256,
) -> dict[str, Launch]:
    """One launch of every kernel that a GPU with local memory of one of the sizes would run."""
    found: dict[str, Launch] = {}
    opened = device()
    for local_bytes in sizes:
        traits = replace(
            opened.traits,
            compute_units=60,
            simd_width=1,
            max_group_size=GROUP,
            local_memory_bytes=local_bytes,
            dedicated_local_memory=True,
            asynchronous_copies=False,
            large_local_memory_bytes=0,
            item_registers=item_registers,
        )
        target = Target(traits, 2**29)
        for family in families:
            for launch in FAMILIES[family](target):
                found.setdefault(launch.kernel.origin, launch)
    return found


def compiled(launch: Launch, target: str) -> Compiled:
    """Compile one kernel for one GPU."""
    options = ["-cl-std=CL1.2", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-O3", "-w"]
    library = ["-nogpulib", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", LIBRARY]
    done = subprocess.run(
        [CLANG, "-x", "cl", *options, *library, "-S", "-o", "-", "-"],
        input=launch.kernel.text(),
        capture_output=True,
        text=True,
    )
    items = prod(launch.local_size or (1,))
    if done.returncode:
        return Compiled(launch.kernel.origin, target, items, None, done.stderr.strip()[:400])
    numbers = {
        field: int(match[1]) if (match := re.search(rf"\.{field}:\s+(\d+)", done.stdout)) else 0
        for field in FIELDS
    }
    problem = None
    if items > GROUP:
        problem = f"{items} items a group"
    elif numbers["group_segment_fixed_size"] > max(LOCAL.values()):
        problem = f"{numbers['group_segment_fixed_size']} bytes of local memory"
    elif numbers["vgpr_spill_count"]:
        problem = f"spills {numbers['vgpr_spill_count']} registers"
    return Compiled(launch.kernel.origin, target, items, numbers, problem)


def registers(result: Compiled) -> str:
    """Vector registers, those spilled, and waves."""
    if result.numbers is None:
        return "-"
    spilled, waves = result.numbers["vgpr_spill_count"], result.waves
    taken = f"{result.numbers['vgpr_count']}" + (f"+{spilled}" if spilled else "")
    return taken + ("" if waves is None else f"/{waves}")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each kernel: registers on each GPU, then what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    launches = chosen(options.only)
    bad = 0
    print("vector registers (+ spilled) / waves on", *options.targets, "| local bytes | kernel")
    with ThreadPoolExecutor(options.jobs) as pool:
        for origin, launch in launches.items():
            results = list(pool.map(lambda t, x=launch: compiled(x, t), options.targets))
            cells = [registers(result) for result in results]
            local = max((r.numbers or {}).get("group_segment_fixed_size", 0) for r in results)
            print(f"{' '.join(f'{cell:>7}' for cell in cells)} | {local:6} | {origin}", flush=True)
            for result in results:
                if result.problem:
                    bad += 1
                    print(f"    {result.target}: {result.problem}", flush=True)
    print(f"{len(launches)} kernels for {len(options.targets)} GPUs, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
