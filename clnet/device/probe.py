"""Capabilities that OpenCL does not report, found out by trying them.

Some compilers turn OpenCL C into PTX text and take its instructions inline; their devices copy to
local memory asynchronously, and arrays declared in a kernel may take more local memory than the
device reports. Others have functions for units that multiply small matrices
(:mod:`.matrix_units`). Whether that works is tried in a process of its own, since a kernel that
fails takes its context along, and some compilers end when they meet a function that is not for
their device; the verdict is kept beside the compiled kernels, for each driver.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyopencl as cl

from ..values.cache import Shelf
from ..values.record import NamedTuple
from ..values.settings import inherited
from .builders import Line
from .discovery import discover, select
from .first_form import first_told, tell_first
from .matrix_units import UNITS, MatrixUnit, trial
from .quiet_build import built
from .warpgroups import MAP_WORDS, TRIAL, retargeted

# Asynchronous copies came with the first target of this number.
_FIRST_TARGET = 80
_SIZES = (232_000, 160_000, 98_304)
_TIMEOUT_S = 60
_KEY = "probe 4"  # the number changes with what is tried
_ITEMS = 64
_ALL_AT_ONCE = 256
# The package's own module imports all of it, which takes longer than what is tried here.
_PROCESS = """
import sys, types
clnet = sys.modules["clnet"] = types.ModuleType("clnet")
clnet.__path__ = [sys.argv[1]]
from {module} import {function}
{function}(*sys.argv[2:])
"""

_COPY = """
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void probe_copy(__global float *y, __global const float *x)
{
    __local float tile[320] __attribute__((aligned(16)));
    const int i = get_local_id(0);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"((uint)(size_t)&tile[i]), "l"(x + i), "r"(i % 3 ? 4 : 0));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"((uint)(size_t)&tile[64 + 4 * i]), "l"(x + 64 + 4 * i), "r"(16));
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = i; j < 320; j += 64) y[j] = tile[319 - j];
}
"""
_LOCAL = """
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void probe_local_{count}(__global float *y, __global const float *x)
{{
    __local float tile[{count}];
    for (int j = get_local_id(0); j < {count}; j += 64) tile[j] = x[j % 320] + j;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = get_local_id(0); j < {count}; j += 64) y[{count} - 1 - j] = tile[j];
}}
"""


_DTYPES = {
    "half": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float": np.dtype(np.float32),
}
# By the name of its operands: a product of 16 rows, 8 columns and 32 bytes of k, and what holds it.
_PRODUCTS = {
    "f16": ("m16n8k16.row.col.f32.f16.f16.f32", np.dtype(np.float16)),
    "bf16": ("m16n8k16.row.col.f32.bf16.bf16.f32", np.dtype(ml_dtypes.bfloat16)),
    "tf32": ("m16n8k8.row.col.f32.tf32.tf32.f32", np.dtype(np.float32)),
}
_MULTIPLY = """
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void probe_multiply_{name}(__global float *y, __global const float *x)
{{
    __global const uint *a = (__global const uint *)x, *b = a + 128;
    const int lane = get_local_id(0) % 32, row = lane / 4, step = lane % 4;
    float acc[4] = {{0, 0, 0, 0}};
    asm volatile("mma.sync.aligned.{kind} "
        "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[row * 8 + step]), "r"(a[row * 8 + 64 + step]), "r"(a[row * 8 + step + 4]),
        "r"(a[row * 8 + 64 + step + 4]), "r"(b[row * 8 + step]), "r"(b[row * 8 + step + 4]));
    for (int r = 0; r < 4; r++)
        y[(row + r / 2 * 8) * 8 + step * 2 + r % 2] = acc[r];
}}
"""


class Verdict(NamedTuple):
    """What trying showed.

    Attributes:
        asynchronous_copies: as in :class:`.traits.DeviceTraits`.
        large_local_memory_bytes: likewise.
        matrix_units: likewise.
        warpgroup_units: likewise.
    """

    asynchronous_copies: bool = False
    large_local_memory_bytes: int = 0
    matrix_units: str = ""
    warpgroup_units: bool = False


class Trial:
    """What a device can do beyond what it reports, tried by a process while this one goes on.

    Args:
        selector: the device's name, ``"nvidia:0"``.
        shelf: where the verdict is kept; it belongs to this device and driver. What is there is not
            tried again.
        line: of processes that wait until this one has opened the device; None: there are none.
    """

    def __init__(self, selector: str, shelf: Shelf, line: Line | None = None) -> None:
        self._selector, self._shelf = selector, shelf
        self._kept = shelf.read(_KEY)
        self._process: Process | None = None
        if self._kept is None:
            with suppress(OSError):
                end = () if line is None else (line.ends[1],)
                told = map(str, end)
                self._process = Process(__name__, answer.__name__, selector, *told, keeps=end)

    def verdict(self) -> Verdict:
        """Wait for the verdict: for devices whose programs are not PTX text, the units alone."""
        if self._kept is not None:
            return Verdict(*json.loads(self._kept))
        verdict = _told(self._process.lines(), self._selector) if self._process else None
        if verdict is None:  # the driver of a machine that has just started may not be there yet
            with suppress(OSError):
                again = lines_of(__name__, answer.__name__, self._selector)
                verdict = _told(again, self._selector)
        if verdict is None:
            warnings.warn(
                f"device {self._selector!r}: what it can do beyond what it reports could not be "
                "tried; kernels that need it are not used in this process",
                RuntimeWarning,
                stacklevel=2,
            )
            return Verdict()
        self._kept = json.dumps(verdict).encode()
        self._shelf.write(_KEY, self._kept)
        return verdict


def try_device(handle: Any) -> Verdict:
    """Try everything on a ``pyopencl.Device``; a failure may take the process along.

    Args:
        handle: the device.

    Returns:
        The verdict.
    """
    sizes = [nbytes for nbytes in _SIZES if nbytes > handle.local_mem_size]
    if sizes:
        # A program takes longer than a kernel. If one of them fails, all are tried alone.
        texts = [_COPY, *map(_multiplication, _PRODUCTS), _local(sizes[0])]
        found = _tried(handle, sizes[:1], "".join(texts))
        if found == Verdict(True, sizes[0], "ptx"):
            return found
    return _tried(handle, sizes, "")


def _tried(handle: Any, sizes: Sequence[int], together: str) -> Verdict:
    """What was found.

    Args:
        handle: the device.
        sizes: bytes of local memory, tried in order until one works.
        together: a program of all kernels; empty: each has one.
    """
    x = np.random.default_rng(0).standard_normal(320).astype(np.float32)
    expected = x.copy()
    expected[:_ITEMS:3] = 0
    found = _run(handle, together or _COPY, "probe_copy", x, 320)
    copies = found is not None and np.array_equal(found, expected[::-1])
    units = "ptx" if copies and all(_multiplies(handle, n, together) for n in _PRODUCTS) else ""
    for nbytes in sizes:
        count = nbytes // 4
        got = _run(handle, together or _local(nbytes), f"probe_local_{count}", x, count)
        at = np.arange(count)
        if got is not None and np.array_equal(got[::-1], x[at % 320] + at.astype(np.float32)):
            return Verdict(copies, nbytes, units)
    return Verdict(copies, 0, units)


def _local(nbytes: int) -> str:
    return _LOCAL.format(count=nbytes // 4)


def _multiplication(name: str) -> str:
    return _MULTIPLY.format(name=name, kind=_PRODUCTS[name][0])


def _multiplies(handle: Any, name: str, together: str) -> bool:
    """Whether a small product of whole numbers comes out exactly."""
    dtype = _PRODUCTS[name][1]
    steps = 32 // dtype.itemsize
    drawn = np.random.default_rng(1).integers(-8, 9, (24, steps))
    a, b = drawn[:16], drawn[16:]
    x = np.concatenate([a, b]).astype(dtype).reshape(-1).view(np.float32)
    source = together or _multiplication(name)
    found = _run(handle, source, f"probe_multiply_{name}", x, 128)
    return found is not None and np.array_equal(found.reshape(16, 8), a @ b.T)


def unit_multiplies(handle: Any, unit: MatrixUnit, ctype: str) -> bool:
    """Whether a unit's builtin is compiled, and a product of whole numbers comes out exactly.

    Args:
        handle: a ``pyopencl.Device``; a failure may take the process along.
        unit: of the way ``"builtin"``.
        ctype: of the elements.
    """
    dtype = _DTYPES[ctype]
    drawn = np.random.default_rng(1).integers(-8, 9, (unit.rows + unit.columns, unit.steps))
    a, b = drawn[: unit.rows], drawn[unit.rows :]
    x = drawn.astype(dtype).reshape(-1).view(np.float32)
    found = _run(handle, trial(unit, ctype), "probe_unit", x, unit.rows * unit.columns)
    return found is not None and np.array_equal(found.reshape(unit.rows, unit.columns), a @ b.T)


def warpgroups_multiply(handle: Any) -> bool:
    """Whether boxes come in by a tensor map, and a product of 128 items comes out exactly.

    Args:
        handle: a ``pyopencl.Device``; a failure may take the process along.
    """
    drawn = np.random.default_rng(1).integers(-8, 9, (64 + 8, 64)).astype(np.float16)
    a, b = drawn[:64], drawn[64:].reshape(64, 8)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).reshape(-1)
    try:
        context, _ = _CONTEXTS.pop(handle, (None, {}))
        context = context or cl.Context([handle])
        queue = cl.CommandQueue(context)
        options = ["-cl-std=CL1.2"]
        program = built(cl.Program(context, TRIAL), options)
        binary = retargeted(program.get_info(cl.program_info.BINARIES)[0])
        if binary is None:
            return False
        again = built(cl.Program(context, [handle], [binary]), options)
        kernel = cl.Kernel(again, "probe_warpgroup")
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        y = np.full(64 * 8, np.nan, np.float32)
        made = cl.Buffer(context, flags, hostbuf=y)
        given = cl.Buffer(context, flags, hostbuf=drawn)
        words = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * MAP_WORDS)
        kernel(queue, (128,), (128,), made, given, words)
        cl.enqueue_copy(queue, y, made)
        queue.finish()
    except cl.Error:
        return False
    return np.array_equal(y, expected)


def run_trial(handle: Any, source: str, name: str, x: np.ndarray, count: int) -> np.ndarray | None:
    """What a kernel of 64 work-items writes.

    Trials share a context, which takes longer to make than a trial, and what was built for it,
    until one fails: that may take the context along.

    Args:
        handle: a ``pyopencl.Device``.
        source: OpenCL C of kernels that take where they write and ``x``.
        name: the kernel's of them.
        x: what it is given.
        count: floats that it writes.

    Returns:
        What it wrote, NaN elsewhere; None if it cannot be built or run.
    """
    context, programs = _CONTEXTS.pop(handle, (None, {}))
    try:
        context = context or cl.Context([handle])
        queue = cl.CommandQueue(context)
        if source not in programs:
            programs[source] = built(cl.Program(context, source), ["-cl-std=CL1.2"])
        kernel = cl.Kernel(programs[source], name)
        flags = cl.mem_flags
        given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
        y = np.full(count, np.nan, np.float32)
        made = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=y)
        kernel(queue, (_ITEMS,), (_ITEMS,), made, given)
        cl.enqueue_copy(queue, y, made)
        queue.finish()
    except cl.Error:
        return None
    _CONTEXTS[handle] = context, programs
    return y


_CONTEXTS: dict[Any, tuple[Any, dict[str, Any]]] = {}
_run = run_trial


def takes_ptx(handle: Any) -> bool:
    """Whether programs are PTX text, for a target that copies asynchronously.

    Args:
        handle: a ``pyopencl.Device``.
    """
    try:
        context = cl.Context([handle])
        _CONTEXTS[handle] = context, {}
        source = "__kernel void probe(__global float *y) { y[0] = 1; }"
        program = built(cl.Program(context, source))
        text: bytes = program.get_info(cl.program_info.BINARIES)[0]
    except cl.Error:
        return False
    target = re.search(rb"^\.target sm_(\d+)", text, re.MULTILINE)
    return target is not None and int(target[1]) >= _FIRST_TARGET


def answer(selector: str, line: str = "") -> None:
    """Print the verdict on a device: what the process does that a :class:`Trial` starts.

    Of one whose programs are PTX text, ``"ptx"``, what :func:`try_device` finds, and then
    ``"yes"`` if products of 128 items come out; of others what :func:`answer_units` prints.

    Args:
        selector: the device's name.
        line: the end of a :class:`.builders.Line` in which others may open the device now: one
            after another where programs are PTX text, else all at once.
    """
    handle = select(selector, discover()).handle
    ptx = takes_ptx(handle)
    if line:
        os.write(int(line), b"\0" * (1 if ptx else _ALL_AT_ONCE))
    if not ptx:
        answer_units(selector, *(name for name in UNITS if name != "ptx"))
        return
    print("ptx")
    verdict = try_device(handle)
    print(json.dumps(verdict), flush=True)  # it stays said if what follows ends the process
    if verdict.matrix_units and warpgroups_multiply(handle):
        print("yes")


def answer_units(selector: str, *names: str) -> None:
    """Tell which of some units is the first that works, as :func:`.first_form.tell_first` does."""
    handle = select(selector, discover()).handle

    def works(name: str) -> bool:
        return all(unit_multiplies(handle, unit, ctype) for ctype, unit in UNITS[name].items())

    tell_first(names, works)


def _told(lines: list[str], selector: str) -> Verdict | None:
    """The verdict that a process printed; behind a unit that ended it, others go on."""
    if lines[:1] == ["ptx"]:
        try:
            verdict = Verdict(*json.loads(lines[1]))
        except (ValueError, IndexError):
            return None
        return verdict._replace(warpgroup_units=lines[2:] == ["yes"])
    ask = partial(lines_of, __name__, answer_units.__name__, selector)
    found = first_told(ask, [name for name in UNITS if name != "ptx"], lines)
    return None if found is None else Verdict(matrix_units=found)


class Process:
    """A process of its own in which a function prints lines.

    It knows of clnet what the function's module imports, and starts none that build.

    Args:
        module: where the function is, by its full name.
        function: its name.
        *given: its arguments, texts.
        keeps: files that stay open in it, by their numbers.

    Raises:
        OSError: if no process can be started.
    """

    def __init__(self, module: str, function: str, *given: str, keeps: Sequence[int] = ()) -> None:
        code = _PROCESS.format(module=module, function=function)
        command = [sys.executable, "-W", "ignore", "-c", code, str(Path(__file__).parents[1])]
        self._process = subprocess.Popen(
            [*command, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            pass_fds=keeps,
            env={**inherited(), "CLNET_BUILD_PROCESSES": "0"},
        )

    def lines(self) -> list[str]:
        """What it printed until it ended; it is ended if that takes too long."""
        with self._process as process:
            try:
                printed, _ = process.communicate(timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                printed, _ = process.communicate()
        return printed.decode().splitlines()


def lines_of(module: str, function: str, *given: str) -> list[str]:
    """The lines that a function of texts prints in a process of its own, while it lives.

    Args:
        module: where it is, by its full name.
        function: its name.
        *given: its arguments.

    Raises:
        OSError: if no process can be started.
    """
    return Process(module, function, *given).lines()
