"""A process that builds kernels for another: source and arguments come in, binaries go out.

Run as a script, apart from clnet, so that it starts in the time pyopencl takes; what it is asked
and answers is in :mod:`.ahead`. Some drivers compile a kernel only when it is due, for its size of
work-group, and freeze the binary when it is first asked for; so a kernel is launched before that:
one work-group, on zeros. A kernel that fails there takes this process along and nobody else.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl


class Builder:
    """Builds on one device, in a context of its own.

    Args:
        platform: number of the platform.
        device: number of the device there.
    """

    def __init__(self, platform: int, device: int) -> None:
        self._device = cl.get_platforms()[platform].get_devices()[device]
        self._context = cl.Context([self._device])
        self._queue = cl.CommandQueue(self._context)

    def build(
        self,
        text: str,
        name: str,
        options: Sequence[str],
        arguments: Sequence[tuple[type | None, Any]],
        local_size: tuple[int, ...],
    ) -> bytes:
        """The binary of a kernel, compiled for its work-group.

        Args:
            text: OpenCL C.
            name: the kernel.
            options: build options.
            arguments: for each its NumPy scalar type and value, or None and a pointer's bytes.
            local_size: work-items of a group.

        Raises:
            cl.Error: if the driver refuses it.
        """
        program = cl.Program(self._context, text).build(options=list(options), cache_dir=False)  # pyright: ignore[reportArgumentType] - no cache
        kernel = cl.Kernel(program, name)
        kernel.set_scalar_arg_dtypes([scalar for scalar, _ in arguments])
        values = [self._zeros(v) if scalar is None else v for scalar, v in arguments]
        kernel.set_args(*values)  # OpenCL holds no buffer for a kernel: values does
        cl.enqueue_nd_range_kernel(self._queue, kernel, local_size, local_size)
        self._queue.finish()
        return program.get_info(cl.program_info.BINARIES)[0]  # pyright: ignore[reportIndexIssue, reportReturnType] - a list

    def _zeros(self, nbytes: int) -> Any:
        """Memory of the system that is zero and costs nothing until it is touched."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=np.zeros(max(nbytes, 1), np.uint8))


def serve() -> None:
    """Answer requests on the standard input with binaries, or None, until there are no more."""
    warnings.simplefilter("ignore")
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a driver prints is no answer
        builder = Builder(*pickle.load(sys.stdin.buffer))
        while True:
            try:
                request = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                binary = builder.build(*request)
            except cl.Error:
                binary = None  # who asked builds it, too, and tells the user what is wrong
            pickle.dump(binary, answers)
            answers.flush()


if __name__ == "__main__":
    serve()
