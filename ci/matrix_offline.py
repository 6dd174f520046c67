"""Compile kernels on matrix units for every target, and look at the code.

Usage: python ci/matrix_offline.py [--targets gfx1100 dg2 ...] [--write]

A kernel counts if the unit's instruction stands in the assembly, however the compiler exits. The
compilers: ``clang-19`` and ``libclc-19`` (AMD, NVIDIA's PTX), ``ptxas`` (of the wheel
nvidia-cuda-nvcc, or CUDA), ``ocloc`` (of intel-opencl-icd). A target whose compiler is not there
is listed so. ``--write`` puts the table into docs/notes/matrix-offline.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from clnet.device import DeviceKind, DeviceTraits, Launch, Target, matrix_units
from clnet.device.matrix_units import trial
from clnet.device.warpgroups import MARK
from clnet.kernels.conv import (
    Algorithm,
    ConvGeometry,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
)
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm, gemm_warpgroup
from clnet.kernels.softmax import Scores, attention, attention_grad

PAGE = Path(__file__).parents[1] / "docs/notes/matrix-offline.md"
BEGIN, END = "<!-- begin: ci/matrix_offline.py -->", "<!-- end -->"
CLC = Path("/usr/lib/clc")
HEADER = ["-Xclang", "-finclude-default-header", "-Xclang", "-mlink-builtin-bitcode", "-Xclang"]
# What these versions of the compilers do not know: ocloc 22.43 takes it for a function elsewhere.
UNKNOWN = {("dpas_16_tf32", "float")}
DTYPES = {"half": clnet.float16, "bfloat16": clnet.bfloat16, "float": clnet.float32}


class Built(NamedTuple):
    """What a compiler made of a kernel.

    Attributes:
        opcodes: instructions of the unit; 0 is a failure.
        registers: of an item.
        spilled: bytes, or registers where the compiler counts those.
        local: bytes of local memory.
        error: the compiler's last words, if nothing came out.
    """

    opcodes: int = 0
    registers: int = 0
    spilled: int = 0
    local: int = 0
    error: str = ""


class Card(NamedTuple):
    """A target: its row of the units' table, its compiler, and whether 128 items multiply."""

    name: str
    unit: str
    local: int
    tools: tuple[str, ...]
    build: Callable[[str, str, Path], Built]
    warpgroups: bool = False


class Problem(NamedTuple):
    """A product; ``turned`` names operands that lie transposed, ``gap`` elements behind rows."""

    m: int
    n: int
    k: int
    turned: str = ""
    gap: int = 0
    bias: str = ""
    activation: str | None = None


PROBLEMS = (
    Problem(4096, 4096, 4096),
    Problem(4096, 4096, 4096, "b"),
    Problem(4096, 4096, 4096, "a", 0, "n", "relu"),
    Problem(512, 512, 512),
    Problem(512, 512, 512, "ab"),
    Problem(4001, 4003, 77, "", 1, "m"),
    Problem(301, 203, 77, "ab", 1, "n", "relu"),
)


def main() -> int:
    """Compile, print the table; 1 if an instruction is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", nargs="*", default=[card.name for card in CARDS])
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    given = parser.parse_args()
    lines, failed = [], 0
    for card in CARDS:
        if card.name not in given.targets:
            continue
        absent = [tool for tool in card.tools if shutil.which(tool) is None]
        if absent:
            lines.append(f"| {card.name} | {card.unit} | not compiled: no {', '.join(absent)} |")
            print(lines[-1], flush=True)
            continue
        found = _compiled(card)
        failed += sum(
            not each.opcodes
            for kind, group in found.items()
            for each in group
            if (card.unit, kind.split(",")[0]) not in UNKNOWN
        )
        lines += _rows(card, found)
        print("\n".join(lines[-len(found) :]), flush=True)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        table = "\n".join([*_HEAD, *lines])
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")
    return 1 if failed else 0


_HEAD = (
    "| target | unit | type, tile | kernels with the instruction | instructions | registers "
    "| spilled | local bytes |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def kernels(card: Card) -> Iterator[tuple[str, str, str]]:
    """Type and tile, the kernel's name, and its text, of all products of a target's unit."""
    traits = DeviceTraits(
        kind=DeviceKind.GPU,
        compute_units=132 if card.warpgroups else 64,
        simd_width=1,
        max_group_size=1024,
        local_memory_bytes=card.local,
        dedicated_local_memory=True,
        global_memory_bytes=2**34,
        max_allocation_bytes=2**34,
        base_align_bytes=128,
        unified_memory=False,
        float16=True,
        float64=True,
        matrix_units=card.unit,
        warpgroup_units=card.warpgroups,
    )
    target = Target(traits, 2**30)
    if card.warpgroups:
        yield from _by_warpgroups(target)
        return
    for ctype, unit in matrix_units(card.unit).items():
        if unit.way == "builtin":
            yield f"{ctype}, probe", "probe_unit", trial(unit, ctype)
        texts: set[str] = set()
        for problem in PROBLEMS:
            tile, text = _product(target, problem, ctype)
            if text not in texts:
                yield f"{ctype}, {tile}", "gemm_matrix", text
            texts.add(text)


def _by_warpgroups(target: Target) -> Iterator[tuple[str, str, str]]:
    """The same of kernels in which 128 items multiply, in every tile: the driver's text."""
    listed = ("TILES", "SIDED_TILES", "SPLIT_TILES", "WHOLE_TILES")
    tiles = [(tile, name) for name in listed for tile in getattr(gemm_warpgroup, name)]
    tiles += [(t, "TURNED_TILES") for some in gemm_warpgroup.TURNED_TILES.values() for t in some]
    for (tile, name), ctype in product(tiles, DTYPES):
        split = tile.parts > 1
        if (split or tile.whole) and ctype != "float":
            continue
        only = {tile.parts: (tile,)} if tile.turned else (tile,)
        with patch.object(gemm_warpgroup, name, only), clnet.abstract():
            launches = []
            if tile.sided or not tile.whole:
                launches += _products(target, DTYPES[ctype], split=split)
            if not tile.sided and (tile.whole or not split):
                launches += _convolutions(target, DTYPES[ctype], split=split)
        texts: set[str] = set()
        for launch in launches:
            kernel: Any = launch.kernel
            text, name = kernel.text().replace(MARK, ""), kernel.name
            if "warpgroup" in name and text not in texts and kernel.params["tile"] == tile:
                ways = (" in two parts" * split, " turned" * tile.turned, " held" * tile.sided)
                what = name.partition("_")[0] + "".join(ways)
                yield f"{ctype}, {what} {tile.m}x{tile.n} in {tile.stages}", name, text
            texts.add(text)
    yield from _attentions(target)


def _attentions(target: Target) -> Iterator[tuple[str, str, str]]:
    """Attention in which 128 items multiply: full boxes of keys and not, causal and not."""
    for ctype, head in product(("half", "bfloat16"), (64, 128)):
        for rows, causal in product((1024, 1000), (False, True)):
            with clnet.abstract():
                x = clnet.empty(2, 4, rows, head, dtype=DTYPES[ctype]).array
                known, scores = clnet.empty(2, 4, rows).array, Scores(0.1, causal)
                launches = [
                    *attention(target, x, known, x, x, x, None, scores=scores),
                    *attention_grad(
                        target, (x, x, x), x, known, known, x, x, x, None, scores=scores
                    ),
                ]
            for launch in launches:
                kernel: Any = launch.kernel
                if "warpgroup" in kernel.name:
                    tile, what = kernel.params["tile"], kernel.name.replace("_warpgroup", "")
                    shape = f"head {head} {tile.own}x{tile.others} in {tile.stages}"
                    yield f"{ctype}, {what} {shape}", kernel.name, kernel.text().replace(MARK, "")


def _products(target: Target, dtype: Any, *, split: bool) -> list[Launch]:
    """Of operands that are dense along k, with a bias along their other axis, and one of each."""
    square, bias = clnet.empty(4096, 4096, dtype=dtype), clnet.empty(4096, dtype=dtype).array
    x, turned = square.array, square.T.array
    return [
        *gemm(target, x, x, turned, tf32=not split, split=split),
        *gemm(target, x, turned, x, epilogue=Epilogue(bias), tf32=not split, split=split),
        *gemm(target, x, x, x, tf32=not split, split=split),
    ]


def _convolutions(target: Target, dtype: Any, *, split: bool) -> list[Launch]:
    """A layer and its gradients; one to images, of two strides; one to filters, of odd images."""
    images, filters = clnet.empty(64, 28, 28, 128, dtype=dtype), clnet.empty(128, 128, 3, 3)
    x, w = images.permute(0, 3, 1, 2).array, filters.to(dtype).array
    g = ConvGeometry(64, 128, 28, 28, 128, 3, 3, 28, 28, 1, 1, 1, 1)
    epilogue = Epilogue(clnet.empty(128, dtype=dtype).array, None, "relu")
    few = clnet.empty(64, 14, 14, 128, dtype=dtype).permute(0, 3, 1, 2).array
    point = clnet.empty(128, 128, 1, 1, dtype=dtype).array
    strided = ConvGeometry(64, 128, 28, 28, 128, 1, 1, 14, 14, 2, 2)
    odd = clnet.empty(4, 7, 7, 128, dtype=dtype).permute(0, 3, 1, 2).array
    small = ConvGeometry(4, 128, 7, 7, 128, 3, 3, 7, 7, 1, 1, 1, 1)
    how: Any = {"tf32": not split, "split": split, "algorithm": Algorithm.MATRIX}
    return [
        *conv_input_grad(target, x, few, point, strided, **how),
        *conv_forward(target, x, x, w, g, epilogue, **how),
        *conv_input_grad(target, x, x, w, g, **how),
        *conv_weight_grad(target, w, x, x, g, **how),
        *conv_weight_grad(target, w, odd, odd, small, **how),
    ]


def _product(target: Target, problem: Problem, ctype: str) -> tuple[str, str]:
    """Its tile and its kernel's text."""
    dtype = DTYPES[ctype]

    def operand(rows: int, columns: int, *, turned: bool = False) -> clnet.Tensor:
        if turned:
            return clnet.empty(columns, rows + problem.gap, dtype=dtype)[:, :rows].T
        return clnet.empty(rows, columns + problem.gap, dtype=dtype)[:, :columns]

    with clnet.abstract():
        a = operand(problem.m, problem.k, turned="a" in problem.turned)
        b = operand(problem.k, problem.n, turned="b" in problem.turned)
        out = operand(problem.m, problem.n)
        size = problem.n if problem.bias == "n" else problem.m
        bias = clnet.empty(size, dtype=dtype).array if problem.bias else None
        epilogue = Epilogue(bias, activation=problem.activation, bias_axis=problem.bias or "n")
        # Operands that would be read one by one are copied first.
        launches = gemm(target, out.array, a.array, b.array, epilogue=epilogue, tf32=True)
    kernel: Any = launches[-1].kernel
    tile = kernel.params["tile"]
    return f"{tile.m}x{tile.n} in {tile.stages}", kernel.text()


def _compiled(card: Card) -> dict[str, list[Built]]:
    """What came out, by type and tile."""
    jobs = [*kernels(card)]
    found: dict[str, list[Built]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

        def build(at: int) -> Built:
            _, name, text = jobs[at]
            place = Path(folder, str(at))
            place.mkdir()
            return card.build(text, name, place)

        for (kind, name, _), built in zip(jobs, pool.map(build, range(len(jobs))), strict=True):
            if not built.opcodes:
                print(f"{card.name} {kind} {name}: {built.error or 'no instruction'}", flush=True)
            found[kind].append(built)
    return found


def _rows(card: Card, found: dict[str, list[Built]]) -> list[str]:
    rows = []
    for kind, group in found.items():
        if not any(each.opcodes for each in group):
            rows.append(f"| {card.name} | {card.unit} | {kind} | 0 of {len(group)} | | | | |")
            continue
        numbers = [max(each[i] for each in group) for i in range(1, 4)]
        fewest, most = min(each.opcodes for each in group), max(each.opcodes for each in group)
        rows.append(
            f"| {card.name} | {card.unit} | {kind} | "
            f"{sum(each.opcodes > 0 for each in group)} of {len(group)} | "
            f"{fewest if fewest == most else f'{fewest} to {most}'} | "
            + " | ".join(map(str, numbers))
            + " |"
        )
    return rows


def _run(command: list[str], place: Path, **environment: str) -> str:
    """What it prints; compilers' exit codes say too little to be looked at."""
    done = subprocess.run(
        command, cwd=place, env={**os.environ, **environment}, capture_output=True, timeout=600
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def _clang(text: str, place: Path, library: str, *target: str) -> tuple[str, str]:
    """The assembly, and the compiler's words."""
    (place / "k.cl").write_text(text, encoding="utf-8")
    said = _run(
        ["clang-19", "-x", "cl", "-cl-std=CL1.2", "-O3", "-Dasm=__asm__", *target, *HEADER,
         str(CLC / library), "-S", "-o", "k.s", "k.cl"], place)  # fmt: skip
    made = place / "k.s"
    return (made.read_text(encoding="utf-8") if made.exists() else ""), said


def _number(pattern: str, text: str) -> int:
    """The sum of what a pattern finds."""
    return sum(int(each) for each in re.findall(pattern, text))


def _amd(chip: str) -> Callable[[str, str, Path], Built]:
    def build(text: str, name: str, place: Path) -> Built:
        target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={chip}", "-nogpulib")
        made, said = _clang(text, place, "amdgcn--amdhsa.bc", *target)
        return Built(
            len(re.findall(r"^\s+v_(?:wmma|mfma)_", made, re.MULTILINE)),
            _number(r"\.vgpr_count:\s+(\d+)", made),
            _number(r"\.vgpr_spill_count:\s+(\d+)", made),
            _number(r"\.group_segment_fixed_size:\s+(\d+)", made),
            said[-300:],
        )

    return build


def _nvidia(chip: str) -> Callable[[str, str, Path], Built]:
    def build(text: str, name: str, place: Path) -> Built:
        made, said = _clang(
            text, place, "nvptx64--nvidiacl.bc", "--target=nvptx64-nvidia-nvcl",
            "-Xclang", "-target-cpu", "-Xclang", chip, "-Xclang", "-target-feature",
            "-Xclang", "+ptx80",
        )  # fmt: skip
        # The driver's compiler says how many items there are; registers are divided by that.
        items = _number(r"reqd_work_group_size\((\d+)", text)
        made = re.sub(r"^\)\n\{", f")\n.reqntid {items}, 1, 1\n{{", made, flags=re.MULTILINE)
        (place / "k.s").write_text(made, encoding="utf-8")
        options = [f"-arch={chip}", "-v"]
        report = _run(["ptxas", *options, "k.s", "-o", "k.cubin"], place) if made else ""
        assembled = (place / "k.cubin").exists()
        return Built(
            len(re.findall(r"\b(?:mma\.sync|wgmma\.mma_async)", made)) if assembled else 0,
            _number(r"Used (\d+) registers", report),
            _number(r"(\d+) bytes spill stores", report),
            _number(r"(\d+) bytes smem", report),
            (report or said)[-300:],
        )

    return build


def _intel(device: str) -> Callable[[str, str, Path], Built]:
    def build(text: str, name: str, place: Path) -> Built:
        (place / "k.cl").write_text(text, encoding="utf-8")
        said = _run(
            ["ocloc", "compile", "-file", "k.cl", "-device", device, "-options", "-cl-std=CL1.2",
             "-output", "k", "-out_dir", "out"],
            place, IGC_ShaderDumpEnable="1", IGC_DumpToCustomDir=str(place / "dump"),
        )  # fmt: skip
        # Where registers were too few it compiles again: the last is the one.
        dumped = sorted(place.glob("dump/*.asm"), key=lambda path: path.stat().st_mtime_ns)
        made = dumped[-1].read_text(errors="replace") if dumped else ""
        code = "".join(
            path.read_text() for path in [*place.glob("dump/*_beforeUnification.ll")][:1]
        )
        arrays = re.findall(r"addrspace\(3\) global \[(\d+) x (i16|float)\]", code)
        return Built(
            len(re.findall(r"^\s*(?:\(.*?\)\s*)?dpasw?\.", made, re.MULTILINE)),
            _number(r"numGRF=(\d+)", made),
            _number(r"\.spill size (\d+)", made),
            sum(int(count) * (2 if kind == "i16" else 4) for count, kind in arrays),
            said[-300:],
        )

    return build


_CLANG = ("clang-19",)
CARDS = (
    Card("gfx1100", "wmma", 65536, _CLANG, _amd("gfx1100")),
    Card("gfx1201", "wmma_gfx12", 65536, _CLANG, _amd("gfx1201")),
    Card("gfx908", "mfma", 65536, _CLANG, _amd("gfx908")),
    Card("gfx90a", "mfma_1k", 65536, _CLANG, _amd("gfx90a")),
    Card("gfx942", "mfma_xf32", 65536, _CLANG, _amd("gfx942")),
    Card("dg2", "dpas_8", 65536, ("ocloc",), _intel("dg2")),
    Card("pvc", "dpas_16", 131072, ("ocloc",), _intel("pvc")),
    Card("pvc", "dpas_16_tf32", 131072, ("ocloc",), _intel("pvc")),
    Card("sm_80", "ptx", 49_152, (*_CLANG, "ptxas"), _nvidia("sm_80")),
    Card("sm_90a", "ptx", 232_000, (*_CLANG, "ptxas"), _nvidia("sm_90a")),
    Card("sm_90a wgmma", "ptx", 232_000, (*_CLANG, "ptxas"), _nvidia("sm_90a"), warpgroups=True),
)

if __name__ == "__main__":
    sys.exit(main())
