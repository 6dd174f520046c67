"""Buffers larger than a driver says one may be: some give them, and whole, so that is tried.

NVIDIA's states a quarter of the memory and gives nearly all of it. Nothing is believed: a buffer
counts if words written all over it are there after the last of them was written, which they are
not where addresses lose their upper bits. A queue of its own does it, which serves nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from .quiet_build import built

# Places are a MiB apart, and the last word of all. What is written tells them apart.
_TEXT = """
#define PLACE min((ulong)get_global_id(0) << 18, words - 1)
#define MARK ((uint)get_global_id(0) * 2654435761u + 1u)
__kernel void oversize_mark(__global uint *x, ulong words)
{
    x[PLACE] = MARK;
}
__kernel void oversize_count(__global const uint *x, ulong words, __global uint *wrong)
{
    if (x[PLACE] != MARK) atomic_inc(wrong);
}
"""


def keeps_numbers(context: Any, buffer: Any, nbytes: int) -> bool:
    """Whether kernels find in a buffer what they wrote there, and copies the last of it.

    A word of each MiB is overwritten.

    Args:
        context: its ``pyopencl.Context``.
        buffer: a ``pyopencl.Buffer`` that nobody uses, no command either.
        nbytes: its size; a multiple of 4.

    Raises:
        cl.Error: if the driver refuses the memory when it is used.
    """
    words = nbytes // 4
    count = (words - 1 >> 18) + 2
    queue = cl.CommandQueue(context)
    program = built(cl.Program(context, _TEXT), ["-cl-std=CL1.2"])
    wrong, last = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    found = cl.Buffer(context, flags, hostbuf=wrong)
    cl.Kernel(program, "oversize_mark")(queue, (count,), None, buffer, np.uint64(words))
    cl.Kernel(program, "oversize_count")(queue, (count,), None, buffer, np.uint64(words), found)
    cl.enqueue_copy(queue, wrong, found)
    cl.enqueue_copy(queue, last, buffer, src_offset=4 * (words - 1))
    return not wrong[0] and int(last[0]) == ((count - 1) * 2654435761 + 1) % 2**32
