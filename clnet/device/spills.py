"""Registers that a compiler had no room for, where it says so in its build log."""

from __future__ import annotations

import re
from typing import Any

import pyopencl as cl

from .launch import KernelSource
from .program import CompiledKernel
from .quiet_build import built

# Compilers with these options report registers when they are asked.
_EXTENSION, _OPTION = "cl_nv_compiler_options", "-cl-nv-verbose"
_SPILLED = re.compile(r"(\d+) bytes spill stores")


def spilled_bytes(kernel: CompiledKernel, source: KernelSource) -> int | None:
    """Bytes of registers that an item keeps in memory for want of room.

    The kernel is compiled once more for it, where the compiler can tell at all.

    Args:
        kernel: the compiled kernel.
        source: what it was made of.

    Returns:
        The bytes, or None if the compiler does not say.
    """
    context: Any = kernel.handle.context
    device = context.devices[0]
    if _EXTENSION not in device.extensions.split():
        return None
    program = built(cl.Program(context, source.text()), [*source.options, _OPTION])
    return spilled_in(program.get_build_info(device, cl.program_build_info.LOG))


def spilled_in(log: str) -> int | None:
    """The bytes that a log tells of, of all its kernels; None if it does not."""
    found = [int(count) for count in _SPILLED.findall(log)]
    return sum(found) if found else None
